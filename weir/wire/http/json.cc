#include "weir/wire/http/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "weir/base/digit.h"
#include "weir/base/utf8.h"
#include "weir/engine/quantity.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

constexpr std::size_t kShownBytesMax = 64;  // of a client's text in a message

}  // namespace

std::string What::text() const {
  const std::string_view shown = inner.substr(0, kShownBytesMax);
  return outer.empty() ? std::string(shown) : fmt::format("{}.{}", outer, shown);
}

void Reader::skip_space() noexcept {
  while (at_ < body_.size()) {
    const char c = body_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++at_;
  }
}

bool Reader::fail(std::string_view message) {
  if (!ok()) return false;
  const std::string_view before = body_.substr(0, value_at_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? value_at_ + 1 : value_at_ - newline;
  message_ = fmt::format("body:{}:{}: {}", line, column, message);
  return false;
}

bool Reader::wrong(const What& what, std::string_view found, std::string_view expected,
                   std::string_view example) {
  return fail(
      fmt::format("{} is {}, but it must be {}; write {}", what.text(), found, expected, example));
}

bool Reader::unknown(std::string_view what, std::string_view name, std::string_view known) {
  return fail(
      fmt::format("{} has a member '{}', which is unknown; known are {}; correct the name, or "
                  "leave it out",
                  what, name.substr(0, kShownBytesMax), known));
}

bool Reader::repeated(std::string_view what, std::string_view name) {
  return fail(fmt::format("{} has the member '{}' twice; write it once", what,
                          name.substr(0, kShownBytesMax)));
}

std::string Reader::found() const {
  if (at_ >= body_.size()) return "missing, because the body ends here";
  const char c = body_[at_];
  if (is_digit(c) || c == '-') return "a number";
  switch (c) {
    case '{':
      return "an object";
    case '[':
      return "a list";
    case '"':
      return "a text";
    case 't':
    case 'f':
      return "true or false";
    case 'n':
      return "null";
    default:
      if (c > ' ' && c <= '~') return fmt::format("'{}'", c);
      return fmt::format("the byte 0x{:02x}", static_cast<unsigned char>(c));
  }
}

bool Reader::open(std::string_view what, char bracket, std::string_view kind,
                  std::string_view example) {
  skip_space();
  value_at_ = at_;
  if (peek() != bracket) return wrong(what, found(), kind, example);
  ++at_;
  return ok();
}

bool Reader::next(bool first, char closing, std::string_view& name) {
  if (!ok()) return false;
  skip_space();
  value_at_ = at_;
  if (peek() == closing) {
    ++at_;
    return false;
  }
  if (!first) {
    if (peek() != ',') {
      return wrong("what follows", found(), fmt::format("',' or '{}'", closing), "one of the two");
    }
    ++at_;
    skip_space();
    value_at_ = at_;
  }
  if (closing == ']') return true;
  if (peek() != '"') return wrong("a member's name", found(), "a text", R"("name":…)");
  if (!text("a member's name", name)) return false;
  skip_space();
  if (peek() != ':') {
    value_at_ = at_;
    return wrong("what follows a member's name", found(), "':'", R"("name":…)");
  }
  ++at_;
  return true;
}

bool Reader::text(const What& what, std::string_view& value) {
  skip_space();
  value_at_ = at_;
  if (peek() != '"') return wrong(what, found(), "a text", R"("…")");
  const std::size_t begin = ++at_;
  while (at_ < body_.size()) {
    const char c = body_[at_];
    if (c == '"') {
      value = body_.substr(begin, at_ - begin);
      ++at_;
      return true;
    }
    if (c == '\\') return escaped(begin, value);
    if (static_cast<unsigned char>(c) < 0x20) {
      return wrong(what, "a text with a control character in it", "written with escapes",
                   R"(\n or \u000a)");
    }
    ++at_;
  }
  return wrong(what, "a text that does not end", "closed", R"(a '"' after it)");
}

// The rest of a text from its first escape on.
bool Reader::escaped(std::size_t begin, std::string_view& value) {
  std::string& out = texts_.emplace_front(body_.substr(begin, at_ - begin));
  while (at_ < body_.size()) {
    const char c = body_[at_++];
    if (c == '"') {
      value = out;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      return wrong("a text", "one with a control character in it", "written with escapes",
                   R"(\n or \u000a)");
    }
    if (c != '\\') {
      out += c;
    } else if (!escape(out)) {
      return wrong("a text", "one with an escape that does not exist", "written with known ones",
                   R"(one of \" \\ \/ \b \f \n \r \t, or \u and four hexadecimal digits)");
    }
  }
  return wrong("a text", "one that does not end", "closed", R"(a '"' after it)");
}

bool Reader::escape(std::string& out) {
  constexpr std::string_view kLetters = R"("\/bfnrt)";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char letter = peek();
  ++at_;
  if (letter != 'u') {
    const std::size_t place = kLetters.find(letter);
    if (place == std::string_view::npos) return false;
    out += kMeanings[place];
    return true;
  }
  unsigned code = 0;
  if (!code_unit(code) || (code >= 0xdc00 && code < 0xe000)) return false;
  if (code >= 0xd800 && code < 0xdc00) {
    // Code points above U+FFFF come as two: a high surrogate and then a low one.
    unsigned low = 0;
    if (body_.substr(std::min(at_, body_.size()), 2) != "\\u") return false;
    at_ += 2;
    if (!code_unit(low) || low < 0xdc00 || low >= 0xe000) return false;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(out, code);
  return true;
}

bool Reader::code_unit(unsigned& unit) {
  if (at_ + 4 > body_.size()) return false;
  const char* const begin = body_.data() + at_;
  const auto read = std::from_chars(begin, begin + 4, unit, 16);
  at_ += 4;
  return read.ec == std::errc{} && read.ptr == begin + 4;
}

bool Reader::integer(const What& what, std::int64_t& value) {
  skip_space();
  value_at_ = at_;
  const bool is_number = is_digit(peek()) || peek() == '-';
  if (!is_number) return wrong(what, found(), "a whole number", "digits, without quotes");
  const char* const begin = body_.data() + at_;
  const auto read = std::from_chars(begin, body_.data() + body_.size(), value);
  const std::size_t digits_at = at_ + (peek() == '-' ? 1 : 0);
  at_ = static_cast<std::size_t>(read.ptr - body_.data());
  if (read.ec == std::errc::result_out_of_range) {
    return wrong(what, "a number too large to count", "between -2^63 and 2^63 - 1",
                 "a smaller one");
  }
  // Without a digit nothing was read, and there may be nothing after a '-'.
  const bool has_digits = read.ec == std::errc{};
  if (!has_digits || (body_[digits_at] == '0' && at_ - digits_at > 1)) {
    return wrong(what, "not a number", "a whole number", "digits, without zeros in front");
  }
  const char after = peek();
  if (after == '.' || after == 'e' || after == 'E') {
    return wrong(what, "a number with a fraction or an exponent", "a whole number",
                 "digits only, in a smaller unit if need be");
  }
  return true;
}

bool Reader::number_text(const What& what, std::string_view& value) {
  constexpr std::string_view kExample = "digits, such as 0.64";
  skip_space();
  if (peek() == '"') {
    if (!text(what, value)) return false;
    return !value.empty() || wrong(what, "an empty text", "a number", kExample);
  }
  value_at_ = at_;
  if (!is_digit(peek()) && peek() != '-') return wrong(what, found(), "a number", kExample);
  const auto digits = [this] {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ - begin;
  };
  if (peek() == '-') ++at_;
  const bool starts_with_zero = peek() == '0';
  const std::size_t whole = digits();
  bool is_number = whole == 1 || (whole > 1 && !starts_with_zero);
  if (peek() == '.') {
    ++at_;
    is_number &= digits() > 0;
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    is_number &= digits() > 0;
  }
  if (!is_number) return wrong(what, "not a number", "a number", kExample);
  value = body_.substr(value_at_, at_ - value_at_);
  return true;
}

bool Reader::flag(const What& what, bool& value) {
  skip_space();
  value_at_ = at_;
  for (const bool meant : {false, true}) {
    const std::string_view word = meant ? "true" : "false";
    if (!body_.substr(at_).starts_with(word)) continue;
    at_ += word.size();
    value = meant;
    return true;
  }
  return wrong(what, found(), "true or false", "one of the two, without quotes");
}

bool Reader::duration(const What& what, Duration& value) {
  constexpr std::string_view kExpected = "a duration of 0 or more";
  constexpr std::string_view kExample = R"("500ms", "1m30s", or whole milliseconds)";
  skip_space();
  if (peek() == '"') {
    std::string_view written;
    if (!text(what, written)) return false;
    const Result<Duration> read = engine::parse_span("duration", written);
    if (!read) {
      return wrong(what, fmt::format("'{}'", written.substr(0, kShownBytesMax)), kExpected,
                   kExample);
    }
    value = *read;
    return true;
  }
  value_at_ = at_;
  if (!is_digit(peek()) && peek() != '-') return wrong(what, found(), kExpected, kExample);
  std::int64_t count_ms = 0;
  if (!integer(what, count_ms)) return false;
  // More would not fit in 63 bits of nanoseconds.
  constexpr std::int64_t kMsMax = kForever.ns / 1'000'000;
  if (count_ms < 0 || count_ms > kMsMax) {
    return wrong(what, fmt::format("{}", count_ms), kExpected, kExample);
  }
  value = std::chrono::milliseconds{count_ms};
  return true;
}

bool Reader::end() {
  if (!ok()) return false;
  skip_space();
  value_at_ = at_;
  if (at_ == body_.size()) return true;
  return wrong("what follows the body", found(), "nothing", "one object only");
}

}  // namespace weir::wire::http
