#include "weir/engine/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>

#include "weir/base/digit.h"
#include "weir/base/in_quotes.h"
#include "weir/base/integer.h"

namespace weir::engine {
namespace {

struct TimeUnit {
  std::string_view name;
  std::int64_t ns;
};

constexpr std::array<TimeUnit, 8> kTimeUnits = {{{"w", 604'800'000'000'000},
                                                 {"d", 86'400'000'000'000},
                                                 {"h", 3'600'000'000'000},
                                                 {"m", 60'000'000'000},
                                                 {"s", 1'000'000'000},
                                                 {"ms", 1'000'000},
                                                 {"us", 1'000},
                                                 {"ns", 1}}};

// A fraction of a week that is whole in nanoseconds has at most 16 places, since
// a week is 2^16 * 5^11 * 189 ns; longer ones are never exact.
constexpr int kPlacesMax = 16;
constexpr int kMicroPlaces = 6;
constexpr std::int64_t kTooLarge = kTermMax + 1;

struct Decimal {
  std::int64_t whole = 0;     // kTooLarge stands for anything above 2^62
  std::int64_t fraction = 0;  // in 10^-places
  int places = 0;             // without trailing zeros; kPlacesMax + 1 stands for more
};

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

constexpr std::int64_t power_of_ten(int exponent) {
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// Takes digits off the front, with single '_' between them, and returns them bare.
std::string take_digits(std::string_view& text) {
  std::string digits;
  while (!text.empty()) {
    const bool separates =
        text[0] == '_' && !digits.empty() && text.size() > 1 && is_digit(text[1]);
    if (!is_digit(text[0]) && !separates) break;
    if (!separates) digits += text[0];
    text.remove_prefix(1);
  }
  return digits;
}

std::int64_t number_of(std::string_view digits) {
  Wide number = 0;
  for (const char digit : digits) {
    number = number * 10 + (digit - '0');
    if (number > kTermMax) return kTooLarge;
  }
  return static_cast<std::int64_t>(number);
}

// Takes `12` or `12.5` off the front; nothing if there is no such number.
std::optional<Decimal> take_decimal(std::string_view& text) {
  const std::string whole = take_digits(text);
  if (whole.empty()) return std::nullopt;
  Decimal decimal{.whole = number_of(whole)};
  if (text.empty() || text[0] != '.') return decimal;
  text.remove_prefix(1);
  std::string places = take_digits(text);
  if (places.empty()) return std::nullopt;
  places.erase(places.find_last_not_of('0') + 1);
  decimal.places = static_cast<int>(std::min<std::size_t>(places.size(), kPlacesMax + 1));
  if (decimal.places <= kPlacesMax) decimal.fraction = number_of(places);
  return decimal;
}

std::string_view take_letters(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_letter);
  const std::string_view letters = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(letters.size());
  return letters;
}

std::int64_t unit_ns(std::string_view name) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (unit.name == name) return unit.ns;
  }
  return 0;
}

Error wrong(std::string_view what, std::string_view text, std::string_view expected) {
  return bad_argument(fmt::format("{} is {}, but it must be {}", what, in_quotes(text), expected));
}

Error not_a_duration(std::string_view what, std::string_view text) {
  return wrong(what, text,
               "numbers with units (ns us ms s m h d w); write a duration such as '15m' or "
               "'1h30m'");
}

// `decimal` in units of 1/scale, exactly; kTooLarge if above 2^62, nothing if not whole.
// The terms fit in 128 bits: whole <= 2^62, fraction < 10^16, scale <= a week's 2^50 ns.
std::optional<std::int64_t> scaled(const Decimal& decimal, std::int64_t scale) {
  if (decimal.places > kPlacesMax) return std::nullopt;
  const Wide parts = Wide{decimal.fraction} * scale;
  const std::int64_t one = power_of_ten(decimal.places);
  if (parts % one != 0) return std::nullopt;
  return static_cast<std::int64_t>(
      std::min(Wide{decimal.whole} * scale + parts / one, Wide{kTooLarge}));
}

}  // namespace

Result<Duration> parse_span(std::string_view what, std::string_view text) {
  std::int64_t total_ns = 0;
  std::string_view rest = text;
  if (text.empty()) return not_a_duration(what, text);
  while (!rest.empty()) {
    const std::optional<Decimal> number = take_decimal(rest);
    if (!number) return not_a_duration(what, text);
    const std::int64_t one_ns = unit_ns(take_letters(rest));
    if (one_ns == 0) return not_a_duration(what, text);
    const std::optional<std::int64_t> part_ns = scaled(*number, one_ns);
    if (!part_ns) {
      return wrong(what, text, "a whole number of nanoseconds; write fewer decimal places");
    }
    total_ns = std::min(saturate(Wide{total_ns} + *part_ns), kTooLarge);
  }
  if (total_ns > kTermMax) {
    return wrong(what, text, "at most 2^62 ns (146 years); write a shorter duration");
  }
  return Duration{total_ns};
}

Result<Duration> parse_duration(std::string_view what, std::string_view text) {
  Result<Duration> span = parse_span(what, text);
  if (span && span->count() == 0) {
    return wrong(what, text, "longer than 0; write a duration such as '1s' or '15m'");
  }
  return span;
}

namespace {

// What `text` should have been, that is no amount.
std::string_view expected_amount(std::string_view text, bool is_micro) {
  if (text.starts_with('-')) return "0 or more; write one such as '100'";
  if (is_micro) return "a number with at most six decimal places; write one such as '0.64'";
  std::string_view rest = text;
  if (take_decimal(rest) && rest.empty()) {
    return "a whole number, since its unit is counted in whole numbers; write one such as '100'";
  }
  return "a whole number; write one such as '100'";
}

}  // namespace

Result<std::int64_t> parse_amount(std::string_view what, std::string_view text, UnitScale scale) {
  const bool is_micro = scale == UnitScale::kMicro;
  std::string_view rest = text;
  const std::optional<Decimal> number = take_decimal(rest);
  const bool is_amount = number && rest.empty() && (is_micro || number->places == 0);
  // No amount is negative.
  const std::int64_t amount = is_amount ? scaled(*number, is_micro ? kMicro : 1).value_or(-1) : -1;
  if (amount < 0) return wrong(what, text, expected_amount(text, is_micro));
  if (amount > kTermMax) {
    return wrong(what, text,
                 is_micro ? "at most 2^62 millionths; write less" : "at most 2^62; write less");
  }
  return amount;
}

Result<std::int64_t> parse_count(std::string_view what, std::string_view text, std::int64_t least,
                                 std::int64_t most) {
  std::string_view rest = text;
  const std::string digits = take_digits(rest);
  const std::int64_t count = number_of(digits);
  if (digits.empty() || !rest.empty() || count < least || count > most) {
    return wrong(what, text,
                 fmt::format("a whole number from {} to {}; write one of them", least, most));
  }
  return count;
}

namespace {

// How a rate of a fraction, such as `0.5/s`, is written with whole numbers: `1/2s`. Empty: it is
// none, or one of the numbers is too large.
std::string whole_rate(std::string_view amount, Duration period) {
  const std::optional<Decimal> number = take_decimal(amount);
  if (!number || !amount.empty() || number->places == 0 || number->places > kPlacesMax) return {};
  const std::int64_t one = power_of_ten(number->places);
  const std::optional<std::int64_t> parts = scaled(*number, one);
  if (!parts || *parts == 0 || *parts > kTermMax) return {};
  const std::int64_t common = std::gcd(*parts, one);
  // Both at most 2^62, so the product fits in 128 bits.
  const Wide longer = Wide{period.count()} * (one / common);
  if (longer > kTermMax) return {};
  return fmt::format("{}/{}", *parts / common,
                     duration_text(Duration{static_cast<std::int64_t>(longer)}));
}

}  // namespace

Result<Rate> parse_rate(std::string_view what, std::string_view text, UnitScale scale) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return wrong(what, text, "an amount per period; write a rate such as '100/s'");
  }
  const std::string_view per = text.substr(slash + 1);
  const std::string_view number = text.substr(0, slash);
  const Result<std::int64_t> amount = parse_amount(fmt::format("{} amount", what), number, scale);
  if (!amount) {
    const std::int64_t one_ns = unit_ns(per);
    const Result<Duration> period =
        one_ns > 0 ? Result<Duration>(Duration{one_ns}) : parse_duration(what, per);
    const std::string same = period ? whole_rate(number, *period) : "";
    if (scale == UnitScale::kMicro || same.empty()) return amount.error();
    return wrong(what, text,
                 fmt::format("a whole number per period, since its unit is counted in whole "
                             "numbers; write '{}', which is the same",
                             same));
  }
  if (*amount == 0) {
    return wrong(what, text, "more than 0; write a rate such as '100/s', or a window of limit 0");
  }
  if (const std::int64_t one_ns = unit_ns(per); one_ns > 0) return Rate{*amount, Duration{one_ns}};
  const Result<Duration> period = parse_duration(fmt::format("{} period", what), per);
  if (!period) return period.error();
  return Rate{*amount, *period};
}

std::string duration_text(Duration duration) {
  std::int64_t left_ns = duration.count();
  std::string text;
  // Weeks are left out: '31d' is easier to recognise than '4w3d'.
  for (const TimeUnit& unit : std::span(kTimeUnits).subspan(1)) {
    if (left_ns >= unit.ns) text += fmt::format("{}{}", left_ns / unit.ns, unit.name);
    left_ns %= unit.ns;
  }
  return text.empty() ? "0s" : text;
}

std::string amount_text(std::int64_t amount, UnitScale scale) {
  if (scale == UnitScale::kWhole) return fmt::format("{}", amount);
  std::string text = fmt::format("{}.{:0{}}", amount / kMicro, amount % kMicro, kMicroPlaces);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace weir::engine
