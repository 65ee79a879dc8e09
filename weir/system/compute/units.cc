// Products are taken in 128 bits where they fit, and in a wider integer where they do not. Each
// division is a floor.

#include "weir/system/compute/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>

#include "weir/base/assert.h"
#include "weir/base/in_quotes.h"

namespace weir::system::compute {
namespace {

namespace mp = boost::multiprecision;
using Wider =
    mp::number<mp::cpp_int_backend<256, 256, mp::unsigned_magnitude, mp::unchecked, void>>;

constexpr Amount kTotalDivisor = kToken * 1'000 * kBasisPoints;  // 10^25
constexpr int kDecimals = 18;

bool multiply(Amount a, Amount b, Amount& product) noexcept {
  return !__builtin_mul_overflow(a, b, &product);
}

Error not_an_amount(std::string_view what, std::string_view text, std::string_view expected,
                    std::string_view example) {
  return bad_argument(fmt::format("{} is {}, but it must be {}; write such as '{}'", what,
                                  in_quotes(text), expected, example));
}

// Digits as a number, none as 0; whether there were only digits, and at most kAmountMax.
bool read_digits(std::string_view digits, Amount& value) noexcept {
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return false;
    value = value * 10 + static_cast<unsigned>(digit - '0');  // below 10^31 + 10: no overflow
    if (value > kAmountMax) return false;
  }
  return true;
}

}  // namespace

Amount total_units(Amount amount, std::int64_t duration, std::int64_t mana,
                   std::int64_t boost_bp) noexcept {
  WEIR_ASSERT(amount <= kAmountMax);
  WEIR_ASSERT(duration >= 0 && duration <= kDurationMax);
  WEIR_ASSERT(mana >= 0 && mana <= kManaMax);
  WEIR_ASSERT(boost_bp >= 0 && boost_bp <= kBoostMax);
  // The last two are below 2^60 together. Most locks fit in 128 bits; the largest need
  // 100 + 40 + 40 + 20 = 200.
  const Amount factor =
      Amount{static_cast<std::uint64_t>(mana)} * static_cast<std::uint64_t>(boost_bp);
  Amount product = 0;
  if (multiply(amount, static_cast<Amount>(duration), product) &&
      multiply(product, factor, product)) {
    return product / kTotalDivisor;
  }
  // Below 2^200 / 2^83.
  return static_cast<Amount>(Wider(amount) * duration * Wider(factor) / Wider(kTotalDivisor));
}

Amount epoch_units(Amount total, std::int64_t duration, std::int64_t epoch_length) noexcept {
  WEIR_ASSERT(duration >= 1 && epoch_length >= 1);
  if (duration <= epoch_length) return total;
  Amount product = 0;
  if (multiply(total, static_cast<Amount>(epoch_length), product)) {
    return product / static_cast<Amount>(duration);
  }
  // Less than `total`, because the epoch is the shorter of the two.
  return static_cast<Amount>(Wider(total) * epoch_length / duration);
}

Result<Amount> parse_parts(std::string_view what, std::string_view text) {
  Amount value = 0;
  if (text.empty() || !read_digits(text, value)) {
    return not_an_amount(what, text, "a whole number of 10^-18 tokens, at most 10^30",
                         "10000000000000000000000");
  }
  return value;
}

Result<Amount> parse_tokens(std::string_view what, std::string_view text) {
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string digits(whole);
  std::size_t decimals = 0;
  if (point != std::string_view::npos) {
    const std::string_view fraction = text.substr(point + 1);
    decimals = fraction.size();
    digits += fraction;
  }
  Amount value = 0;
  const bool is_number =
      !whole.empty() && decimals <= kDecimals && (point == std::string_view::npos || decimals > 0);
  if (is_number) digits.append(kDecimals - decimals, '0');
  if (!is_number || !read_digits(digits, value)) {
    return not_an_amount(what, text, "tokens with at most 18 decimals, at most 10^12", "10000");
  }
  return value;
}

std::string parts_text(Amount amount) { return fmt::format("{}", amount); }

std::string tokens_text(Amount amount) {
  std::string text = fmt::format("{}", amount / kToken);
  if (amount % kToken == 0) return text;
  std::string fraction = fmt::format("{:018}", amount % kToken);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text + "." + fraction;
}

}  // namespace weir::system::compute
