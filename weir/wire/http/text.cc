#include "weir/wire/http/text.h"

#include "weir/base/hold_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iterator>

#include "weir/engine/quantity.h"

namespace weir::wire::http {
namespace {

// The last `count` decimal digits of `value`.
void put_digits(char* to, std::size_t count, std::int64_t value) {
  for (std::size_t i = count; i > 0; --i) {
    to[i - 1] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
}

// One character that cannot stand in quotes as it is. Returns the bytes it took.
std::size_t append_escaped(std::string& out, std::string_view text) {
  const char c = text[0];
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80) {
    const Utf8Sequence sequence = utf8_at(text);
    out += sequence.valid ? text.substr(0, sequence.size) : std::string_view("\xef\xbf\xbd");
    return sequence.size;
  }
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
  }
  return 1;
}

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

bool is_same_word(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

void append_int(std::string& out, std::int64_t value) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_unsigned(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_optional(std::string& out, std::optional<std::int64_t> value) {
  if (value) {
    append_int(out, *value);
  } else {
    out += "null";
  }
}

void append_id(std::string& out, HoldId id) {
  if (!id) {
    out += "null";
    return;
  }
  out += '"';
  append_hold(out, id);
  out += '"';
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(text[plain])) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(append_escaped(out, text));
  }
  out += '"';
}

void append_instant(std::string& out, Instant at) {
  if (at == kForever) {
    out += "null";
    return;
  }
  const auto day = std::chrono::floor<std::chrono::days>(Duration{at.ns});
  const std::chrono::year_month_day date{std::chrono::sys_days{day}};
  const std::chrono::hh_mm_ss time{Duration{at.ns} - day};
  // Every decision has one of these, and a general formatter took a third of its time.
  std::array<char, 32> text;
  std::memcpy(text.data(), "\"0000-00-00T00:00:00.000000000Z\"", text.size());
  put_digits(&text[1], 4, static_cast<int>(date.year()));
  put_digits(&text[6], 2, static_cast<unsigned>(date.month()));
  put_digits(&text[9], 2, static_cast<unsigned>(date.day()));
  put_digits(&text[12], 2, time.hours().count());
  put_digits(&text[15], 2, time.minutes().count());
  put_digits(&text[18], 2, time.seconds().count());
  put_digits(&text[21], 9, time.subseconds().count());
  out.append(text.data(), text.size());
}

void append_instant_ns(std::string& out, Instant at) {
  if (at == kForever) {
    out += "null";
  } else {
    append_int(out, at.ns);
  }
}

void append_duration(std::string& out, Duration span) {
  out += '"';
  out += engine::duration_text(span);
  out += '"';
}

}  // namespace weir::wire::http
