#include "weir/server/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "weir/base/in_quotes.h"

namespace weir::server {
namespace {

constexpr std::array kVerdicts = {Verdict::kAllowed, Verdict::kDenied, Verdict::kNever,
                                  Verdict::kOverloaded, Verdict::kQueued};

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte != 0x7f && c != '%' && c != '=') {
      out += c;
    } else {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
}

void append_number(std::string& out, std::int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, std::end(digits), value).ptr);
}

// Leaves out what is zero.
void append_field(std::string& out, std::string_view name, std::int64_t value) {
  if (value == 0) return;
  out += name;
  append_number(out, value);
}
void append_field(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out += name;
  append_escaped(out, value);
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

bool read_escaped(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (text[i] == '%') {
      if (text.size() - i < 3) return false;
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (!high || !low) return false;
      out += static_cast<char>(*high << 4 | *low);
      i += 2;
    } else if (byte <= ' ' || byte == 0x7f || text[i] == '=') {
      return false;
    } else {
      out += text[i];
    }
  }
  return true;
}

template <typename Integer>
bool read_number(std::string_view text, Integer& out) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  return read.ec == std::errc{} && read.ptr == text.data() + text.size();
}

bool read_instant(std::string_view text, Instant& out) { return read_number(text, out.ns); }
bool read_span(std::string_view text, Duration& out) {
  std::int64_t ns = 0;
  if (!read_number(text, ns) || ns < 0) return false;
  out = Duration{ns};
  return true;
}

bool read_verdict(std::string_view text, Verdict& out) {
  const auto* const found = std::find_if(kVerdicts.begin(), kVerdicts.end(),
                                         [&](Verdict known) { return to_string(known) == text; });
  if (found == kVerdicts.end()) return false;
  out = *found;
  return true;
}

// `a:NAME=VALUE` and `c:UNIT=AMOUNT`.
bool read_pair(std::string_view word, Recorded& out) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  std::string name;
  const std::string_view value = word.substr(equals + 1);
  if (!read_escaped(word.substr(2, equals - 2), name)) return false;
  if (word[0] == 'a') {
    out.attributes.emplace_back(std::move(name), std::string());
    return read_escaped(value, out.attributes.back().second);
  }
  out.costs.emplace_back(std::move(name), 0);
  return read_number(value, out.costs.back().second);
}

bool read_decision_word(std::string_view word, Recorded& out) {
  if (word.starts_with("a:") || word.starts_with("c:")) return read_pair(word, out);
  if (word.size() < 3 || word[1] != '=') return false;
  const std::string_view value = word.substr(2);
  switch (word[0]) {
    case 'l':
      return read_escaped(value, out.limit);
    case 's':
      return read_number(value, out.shortfall);
    case 'e':
      return read_instant(value, out.earliest);
    case 'g':
      return read_number(value, out.granted);
    case 'h':
      return read_span(value, out.hold);
    case 'w':
      return read_span(value, out.wait);
    case 'b':
      return read_span(value, out.book_within);
    case 'u':
      return read_escaped(value, out.up_to);
    default:
      return false;
  }
}

bool read_ad_hoc_word(std::string_view word, Recorded& out) {
  if (word.size() < 2 || word[1] != '=') return false;
  const std::string_view value = word.substr(2);
  switch (word[0]) {
    case 'k':
      return read_escaped(value, out.key);
    case 'n':
      return read_number(value, out.token_ns);
    case 'b':
      return read_number(value, out.burst);
    case 'q':
      return read_number(value, out.quantity);
    default:
      return false;
  }
}

std::string_view next_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// The word that cannot be read, or nothing.
std::optional<std::string_view> read_line(std::string_view line, Recorded& out) {
  const std::string_view kind = next_word(line);
  const std::string_view now = next_word(line);
  if (!read_instant(now, out.now)) return now;
  const std::string_view third = next_word(line);
  if (kind == "x") {
    out.kind = Recorded::Kind::kDropped;
    if (!read_number(third, out.dropped)) return third;
    return line.empty() ? std::nullopt : std::optional(line);
  }
  if (kind != "d" && kind != "t") return kind;
  out.kind = kind == "d" ? Recorded::Kind::kDecision : Recorded::Kind::kAdHoc;
  if (!read_verdict(third, out.verdict)) return third;
  for (std::size_t words = 0; !line.empty(); ++words) {
    const std::string_view word = next_word(line);
    const bool understood = words < kRecordWordsMax && (kind == "d" ? read_decision_word(word, out)
                                                                    : read_ad_hoc_word(word, out));
    if (!understood) return word;
  }
  return std::nullopt;
}

Error bad_line(std::size_t number, std::string_view found, std::string_view expected) {
  return bad_argument(fmt::format("recording, line {}: found {}, but expected {}", number,
                                  in_quotes(found), expected));
}

}  // namespace

void append_decision(std::string& out, const engine::Ask& ask, Instant now,
                     const Decision& decision) {
  out += "d ";
  append_number(out, now.ns);
  out += ' ';
  out += to_string(decision.verdict);
  if (const Outcome* binding = decision.binding()) append_field(out, " l=", binding->limit);
  append_field(out, " s=", decision.shortfall);
  append_field(out, " e=", decision.earliest.ns);
  append_field(out, " g=", decision.granted);
  for (const engine::Attribute& attribute : ask.request.attributes) {
    out += " a:";
    append_escaped(out, attribute.name);
    out += '=';
    append_escaped(out, attribute.value);
  }
  for (const engine::Cost& cost : ask.request.costs) {
    out += " c:";
    append_escaped(out, cost.unit);
    out += '=';
    append_number(out, cost.amount);
  }
  append_field(out, " h=", ask.hold.count());
  append_field(out, " w=", std::max(ask.wait_until - now, Duration{0}).count());
  append_field(out, " b=", ask.book_within.count());
  append_field(out, " u=", ask.up_to);
  out += '\n';
}

void append_ad_hoc(std::string& out, const engine::AdHocAsk& ask, Instant now, bool allowed) {
  out += "t ";
  append_number(out, now.ns);
  out += ' ';
  out += to_string(allowed ? Verdict::kAllowed : Verdict::kDenied);
  append_field(out, " k=", ask.key);
  append_field(out, " n=", ask.token_ns);
  append_field(out, " b=", ask.burst);
  append_field(out, " q=", ask.quantity);
  out += '\n';
}

void append_dropped(std::string& out, Instant now, std::uint64_t count) {
  out += fmt::format("x {} {}\n", now.ns, count);
}

Status read_recording(std::string_view text, const std::function<void(const Recorded&)>& take) {
  if (!text.starts_with(kRecordingHeader)) {
    return bad_line(1, text.substr(0, std::min(text.find('\n'), kRecordingHeader.size())),
                    "'weir-recording 1'; give a file that this version of weir recorded");
  }
  text.remove_prefix(kRecordingHeader.size());
  for (std::size_t number = 2;; ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return Done{};
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.size() > kRecordLineBytesMax) {
      return bad_line(number, line, "a line of at most 1 MiB; remove the line");
    }
    Recorded recorded;
    if (const auto wrong = read_line(line, recorded)) {
      return bad_line(number, *wrong,
                      "a word of docs/reference/recording.md; remove the line, or record anew");
    }
    take(recorded);
  }
}

}  // namespace weir::server
