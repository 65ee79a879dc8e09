// A reader that takes one part after the other off the front; sums are 128-bit, so that the check
// for 63 bits comes once, at the end.

#include "weir/system/contract/period.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "weir/base/digit.h"
#include "weir/base/in_quotes.h"
#include "weir/base/time.h"

namespace weir::system::contract {
namespace {

struct Part {
  char letter;
  std::int64_t ns;
};
constexpr Part kDays{'D', 86'400 * kNsPerSecond};
constexpr std::array<Part, 3> kTimes = {
    {{'H', 3'600 * kNsPerSecond}, {'M', 60 * kNsPerSecond}, {'S', kNsPerSecond}}};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

Error wrong(std::string_view text, std::string_view expected) {
  return bad_argument(fmt::format("period is {}, but it must be {}", in_quotes(text), expected));
}

class PeriodReader {
 public:
  explicit PeriodReader(std::string_view text) : rest_(text) {}

  bool take(char letter) {
    if (rest_.empty() || upper(rest_[0]) != letter) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Takes one part off the front if it is there, and adds it.
  bool take_part(const Part& part) {
    PeriodReader ahead = *this;
    const bool negative = ahead.take_sign();
    const std::string_view whole = ahead.take_digits();
    if (whole.empty()) return false;
    std::string_view places;
    if (part.letter == 'S' && (ahead.take('.') || ahead.take(','))) {
      places = ahead.take_digits();
      if (places.empty() || places.size() > 9) return false;
    }
    if (!ahead.take(part.letter)) return false;
    Wide part_ns = number(whole) * part.ns;
    Wide place_ns = number(places);
    for (std::size_t i = places.size(); i < 9; ++i) place_ns *= 10;
    if (part.letter == 'S') part_ns += place_ns;
    ahead.total_ns_ += negative ? -part_ns : part_ns;
    *this = ahead;
    return true;
  }

  bool take_sign() {
    if (take('-')) return true;
    take('+');
    return false;
  }
  bool done() const { return rest_.empty(); }
  Wide total_ns() const { return total_ns_; }

 private:
  std::string_view take_digits() {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_digit);
    const std::string_view digits = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(digits.size());
    return digits;
  }

  // At most 2^63, which no part may reach: sums of four parts then fit in 128 bits.
  static Wide number(std::string_view digits) {
    Wide value = 0;
    for (const char digit : digits) {
      value = std::min(value * 10 + (digit - '0'), Wide{1} << 63);
    }
    return value;
  }

  std::string_view rest_;
  Wide total_ns_ = 0;
};

}  // namespace

Result<Duration> parse_period(std::string_view text) {
  const auto not_a_period = [&] {
    return wrong(text, "days, hours, minutes and seconds; write one such as 'PT1M' or 'P31D'");
  };
  if (text.size() > kPeriodBytesMax) return wrong(text, "at most 64 bytes long; write 'PT744H'");
  PeriodReader reader(text);
  const bool negative = reader.take_sign();
  if (!reader.take('P')) return not_a_period();
  bool any = reader.take_part(kDays);
  if (reader.take('T')) {
    any = false;  // something must follow
    for (const Part& part : kTimes) any |= reader.take_part(part);
  }
  if (!any || !reader.done()) return not_a_period();
  const Wide total_ns = negative ? -reader.total_ns() : reader.total_ns();
  if (total_ns != Wide{saturate(total_ns)} || total_ns == kForever.ns) {
    return wrong(text, "shorter than 2^63 ns (292 years); write a shorter one");
  }
  return Duration{static_cast<std::int64_t>(total_ns)};
}

std::string period_text(Duration period) {
  const std::int64_t ns = period.count();
  if (ns == 0) return "PT0S";
  std::string text = "PT";
  const std::int64_t seconds = ns / kNsPerSecond;
  if (seconds >= 3600) text += fmt::format("{}H", seconds / 3600);
  if (seconds / 60 % 60 != 0) text += fmt::format("{}M", seconds / 60 % 60);
  const std::int64_t place_ns = ns % kNsPerSecond;
  if (seconds % 60 == 0 && place_ns == 0) return text;
  text += fmt::format("{}", seconds % 60);
  if (place_ns != 0) {
    text += fmt::format(".{:09}", place_ns);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "S";
}

}  // namespace weir::system::contract
