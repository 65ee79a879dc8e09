// Decimals are read digit by digit into a number and a power of ten, so nothing passes through a
// double and nothing is rounded but a 24th digit.

#include "weir/system/contract/fraction.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "weir/base/digit.h"
#include "weir/base/in_quotes.h"
#include "weir/system/contract/resource.h"

namespace weir::system::contract {
namespace {

constexpr int kDigitsMax = 24;  // significant ones; 10^24 < 2^80
constexpr int kWholeDigitsMax = 19;
constexpr std::size_t kTextMax = 64;  // bytes of a decimal

Error wrong(std::string_view what, std::string_view text, std::string_view expected) {
  return bad_argument(fmt::format("{} is {}, but it must be {}", what, in_quotes(text), expected));
}

constexpr Wide power_of_ten(int exponent) {
  Wide power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// Digits as one number times ten to a power.
struct Digits {
  Wide number = 0;
  int power = 0;
  int significant = 0;
  bool dropped = false;  // a digit other than 0 did not fit

  void add(char digit, bool is_place) {
    if (significant < kDigitsMax) {
      number = number * 10 + (digit - '0');
      significant += number != 0 ? 1 : 0;
      power -= is_place ? 1 : 0;
      return;
    }
    dropped |= digit != '0';
    power += is_place ? 0 : 1;
  }
};

}  // namespace

Result<Fraction> parse_decimal(std::string_view what, std::string_view text) {
  const auto not_a_number = [&] {
    return wrong(what, text, "a number of 0 or more; write one such as '1' or '0.005'");
  };
  if (text.starts_with('-'))
    return wrong(what, text, "0 or more; write a cost that is not negative");
  if (text.size() > kTextMax) return wrong(what, text, "at most 64 bytes long; write fewer digits");
  Digits digits;
  std::size_t at = 0;
  const std::size_t whole = at;
  for (; at < text.size() && is_digit(text[at]); ++at) digits.add(text[at], false);
  if (at == whole) return not_a_number();
  if (at < text.size() && text[at] == '.') {
    const std::size_t places = ++at;
    for (; at < text.size() && is_digit(text[at]); ++at) digits.add(text[at], true);
    if (at == places) return not_a_number();
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    int exponent = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + text.size(), exponent);
    if (read.ec != std::errc{} || exponent > 1000 || exponent < -1000) return not_a_number();
    at = static_cast<std::size_t>(read.ptr - text.data());
    digits.power += exponent;
  }
  if (at != text.size()) return not_a_number();
  if (digits.dropped) digits.number += 1;
  if (digits.number == 0) return Fraction{};
  // So a whole number is below 10^19, and both terms of a fraction stay below 2^127.
  if (digits.significant + digits.power > kWholeDigitsMax) {
    return wrong(what, text, "below 10^19; write less");
  }
  if (digits.power >= 0) return Fraction{digits.number * power_of_ten(digits.power), 1};
  if (digits.power < -36) return Fraction{1, power_of_ten(36)};  // not 0, and rounded up anyway
  return Fraction{digits.number, power_of_ten(-digits.power)};
}

Result<Fraction> decimal_of(std::string_view what, double value) {
  if (!std::isfinite(value)) {
    return wrong(what, std::isnan(value) ? "NaN" : "infinite",
                 "a finite number; write one such as '0.005'");
  }
  if (value == 0) return Fraction{};  // also -0
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return parse_decimal(what, std::string_view(text.data(), end));
}

Result<std::int64_t> micro_of(std::string_view what, const Fraction& fraction, Rounding rounding) {
  Wide micro = Wide{kCostMicroMax} + 1;
  // Beyond this the product might not fit, and is too large anyway.
  if (fraction.num / fraction.den <= Wide{kCostMicroMax} / kMicro) {
    micro = fraction.num / fraction.den;
    Wide left = fraction.num % fraction.den;
    // Digit by digit: the remainder is below den <= 2^123, so ten times it fits.
    for (Wide scale = 1; scale < kMicro; scale *= 10) {
      left *= 10;
      micro = micro * 10 + left / fraction.den;
      left %= fraction.den;
    }
    if (left != 0 && rounding == Rounding::kUp) micro += 1;
  }
  if (micro > kCostMicroMax) {
    return bad_argument(fmt::format(
        "{} is above 2^62 millionths, but it must be less; write what is really used", what));
  }
  return static_cast<std::int64_t>(micro);
}

Result<std::int64_t> parse_micro(std::string_view what, std::string_view text) {
  const Result<Fraction> fraction = parse_decimal(what, text);
  if (!fraction) return fraction.error();
  return micro_of(what, *fraction);
}

}  // namespace weir::system::contract
