#include "weir/wire/http/text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iterator>

namespace weir::wire::http {
namespace {

struct DurationUnit {
  std::string_view name;
  std::int64_t ns;
};

constexpr std::array<DurationUnit, 7> kDurationUnits = {{{"d", 86'400'000'000'000},
                                                         {"h", 3'600'000'000'000},
                                                         {"m", 60'000'000'000},
                                                         {"s", 1'000'000'000},
                                                         {"ms", 1'000'000},
                                                         {"us", 1'000},
                                                         {"ns", 1}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Sequence {
  std::size_t size;  // bytes looked at; at least 1
  bool valid;
};

// The UTF-8 sequence that starts `text`, or how much of it could have started one.
// Requires that text is not empty.
Sequence sequence_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const std::size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // The second byte alone tells overlong forms, surrogates and what is too large.
  unsigned char least = 0x80;
  unsigned char most = 0xbf;
  if (lead == 0xe0) least = 0xa0;
  if (lead == 0xed) most = 0x9f;
  if (lead == 0xf0) least = 0x90;
  if (lead == 0xf4) most = 0x8f;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size() || byte(i) < least || byte(i) > most) return {i, false};
    least = 0x80;
    most = 0xbf;
  }
  return {size, true};
}

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
    const Sequence sequence = sequence_at(text);
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

}  // namespace

std::size_t find_not_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at a time: nearly all of nearly every body.
    std::uint64_t word = 0;
    if (at + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const Sequence sequence = sequence_at(text.substr(at));
    if (!sequence.valid) return at;
    at += sequence.size;
  }
  return std::string_view::npos;
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
  std::int64_t left_ns = span.count();
  out += '"';
  if (left_ns == 0) out += "0s";
  for (const DurationUnit& unit : kDurationUnits) {
    if (left_ns < unit.ns) continue;
    append_int(out, left_ns / unit.ns);
    out += unit.name;
    left_ns %= unit.ns;
  }
  out += '"';
}

std::optional<Duration> read_duration(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  Wide total_ns = 0;
  std::size_t next_unit = 0;
  while (!text.empty()) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || !is_digit(text[0])) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    std::size_t letters = 0;
    while (letters < text.size() && !is_digit(text[letters])) ++letters;
    const std::string_view name = text.substr(0, letters);
    text.remove_prefix(letters);
    while (next_unit < kDurationUnits.size() && kDurationUnits[next_unit].name != name) ++next_unit;
    if (next_unit == kDurationUnits.size()) return std::nullopt;
    // Seven products of 2^63 and 2^47 fit in 128 bits.
    total_ns += Wide{count} * kDurationUnits[next_unit].ns;
    ++next_unit;
  }
  if (total_ns >= Wide{kForever.ns}) return std::nullopt;
  return Duration{static_cast<std::int64_t>(total_ns)};
}

}  // namespace weir::wire::http
