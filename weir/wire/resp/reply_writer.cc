#include "weir/wire/resp/reply_writer.h"

#include <algorithm>
#include <charconv>

#include "weir/base/assert.h"

namespace weir::wire::resp {
namespace {

constexpr std::size_t kNumberLineBytesMax = 1 + 20 + 2;  // type, sign and 19 digits, CRLF
constexpr std::size_t kIntegersAtOnce = 8;
constexpr std::size_t kShortKeyBytesMax = 64;

// Writes a type, a number and CRLF, and returns where they end. Requires room
// for kNumberLineBytesMax.
char* put_number(char* at, char type, std::int64_t value) noexcept {
  *at++ = type;
  if (value >= 0 && value <= 9) {
    *at++ = static_cast<char>('0' + value);
  } else {
    at = std::to_chars(at, at + 20, value).ptr;
  }
  *at++ = '\r';
  *at++ = '\n';
  return at;
}

}  // namespace

void ReplyWriter::set_version(int version) noexcept {
  WEIR_ASSERT(version == 2 || version == 3);
  version_ = version;
}

void ReplyWriter::write_line(char type, std::string_view text) {
  out_.push_back(type);
  const auto begin = static_cast<std::ptrdiff_t>(out_.size());
  out_.append(text);
  std::replace_if(
      out_.begin() + begin, out_.end(), [](char c) { return c == '\r' || c == '\n'; }, ' ');
  out_.append("\r\n", 2);
}

void ReplyWriter::write_number(char type, std::int64_t value) {
  char line[kNumberLineBytesMax];
  out_.append(line, static_cast<std::size_t>(put_number(line, type, value) - line));
}

void ReplyWriter::write_simple(std::string_view text) { write_line('+', text); }

void ReplyWriter::write_error(std::string_view text) { write_line('-', text); }

void ReplyWriter::write_integer(std::int64_t value) { write_number(':', value); }

void ReplyWriter::write_boolean(bool value) {
  if (version_ == 2) return write_integer(value ? 1 : 0);
  out_.append(value ? "#t\r\n" : "#f\r\n", 4);
}

void ReplyWriter::write_bulk(std::string_view bytes) {
  write_number('$', static_cast<std::int64_t>(bytes.size()));
  out_.append(bytes).append("\r\n", 2);
}

void ReplyWriter::write_verbatim(std::string_view text) {
  if (version_ == 2) return write_bulk(text);
  constexpr std::string_view kFormat = "txt:";
  write_number('=', static_cast<std::int64_t>(kFormat.size() + text.size()));
  out_.append(kFormat).append(text).append("\r\n", 2);
}

void ReplyWriter::write_null() { out_.append(version_ == 2 ? "$-1\r\n" : "_\r\n"); }

void ReplyWriter::write_null_array() { out_.append(version_ == 2 ? "*-1\r\n" : "_\r\n"); }

void ReplyWriter::begin_array(std::size_t count) {
  write_number('*', static_cast<std::int64_t>(count));
}

void ReplyWriter::begin_map(std::size_t pairs) {
  if (version_ == 2) return begin_array(2 * pairs);
  write_number('%', static_cast<std::int64_t>(pairs));
}

void ReplyWriter::write_entry(std::string_view key, std::int64_t value) {
  if (key.size() > kShortKeyBytesMax) {
    write_bulk(key);
    return write_integer(value);
  }
  char entry[2 * kNumberLineBytesMax + kShortKeyBytesMax + 2];
  char* at = put_number(entry, '$', static_cast<std::int64_t>(key.size()));
  at = std::copy(key.begin(), key.end(), at);
  *at++ = '\r';
  *at++ = '\n';
  at = put_number(at, ':', value);
  out_.append(entry, static_cast<std::size_t>(at - entry));
}

void ReplyWriter::write_replies(std::string_view bytes) { out_.append(bytes); }

void ReplyWriter::write_integers(std::span<const std::int64_t> values) {
  begin_array(values.size());
  while (!values.empty()) {
    char lines[kIntegersAtOnce * kNumberLineBytesMax];
    char* at = lines;
    const std::size_t count = std::min(values.size(), kIntegersAtOnce);
    for (const std::int64_t value : values.first(count)) at = put_number(at, ':', value);
    out_.append(lines, static_cast<std::size_t>(at - lines));
    values = values.subspan(count);
  }
}

}  // namespace weir::wire::resp
