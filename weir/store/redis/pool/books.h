// What C++ knows of a model's books: their keys, their totals, and what this instance put
// into them.
//
// Internal to this folder.
//
// Thread safety: none needed. Plain values and pure functions.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/time.h"
#include "weir/store/redis/link/reply.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/limits.h"

namespace weir::store::redis {

// By the Redis server's clock. 2^53 us, the last in Lua, is beyond what an Instant holds.
inline Instant instant_of_us(std::int64_t us) { return Instant{saturate(Wide{us} * kNsPerUs)}; }
inline std::int64_t us_of(Duration span) { return span.count() / kNsPerUs; }

// All of one hash tag, the model's name, so that a cluster keeps them together. Braces and
// percent signs of the name are written as %XX.
struct PoolKeys {
  std::string books;
  std::string leases;
  std::string left;
  std::string channel;
};
PoolKeys pool_keys(std::string_view prefix, std::string_view model);
// Where an instance listens, so that others see that it lives. `who` is another for each process.
std::string alive_channel_of(std::string_view prefix, std::string_view who);
// Where `Announce::kFull` speaks.
std::string allocations_channel(std::string_view prefix);

// The limits in words: equal for instances that may share the books.
std::string limits_in_words(const system::pool::ModelLimits& limits,
                            const system::pool::Amounts& average, Duration minute, Duration day);

// Whole numbers as the scripts read them. Each lies below 2^53, so it is exact as a double.
template <typename... Numbers>
std::string packed(Numbers... numbers) {
  static_assert(std::endian::native == std::endian::little);
  const std::array<double, sizeof...(numbers)> doubles = {static_cast<double>(numbers)...};
  std::string text(sizeof(doubles), '\0');
  std::memcpy(text.data(), doubles.data(), sizeof(doubles));
  return text;
}
constexpr std::int64_t kExactMax = (std::int64_t{1} << 53) - 1;
constexpr std::int64_t kNoLimit = kExactMax;

struct PoolTotals {
  std::int64_t marker = 0;
  std::int64_t version = 0;
  std::int64_t now_us = 0;
  std::int64_t epoch = 0;
  std::int64_t count = 0;
  std::int64_t minute_us = 0;  // begin of the window
  std::int64_t day_us = 0;
  system::pool::Usage used{};
  std::int64_t in_flight = 0;
  std::int64_t recover_at_us = 0;  // 0: no recovery
};

// The answer of a script.
struct PoolReply {
  static constexpr std::size_t kTotals = 20;

  std::int64_t code = -1;  // a PoolCode; -1: the reply has not the form of one
  std::int64_t more = 0;   // one more digit
  std::string_view rest{};

  // The number at this place behind the digits, if it is there, and whole and exact.
  std::optional<std::int64_t> number(std::size_t place) const;
  std::optional<PoolTotals> totals() const;
  // Of `work`: the code and one more digit of the request at this place.
  PoolReply of_request(std::size_t place) const;
};
// Valid for as long as the reply.
PoolReply read_reply(const Reply& reply);

// Adds a model, and the instances that share it, as `report` answered. Nothing, if it did not.
void add_to_report(system::pool::CoordinatorReport& report, std::string_view model,
                   const system::pool::ModelLimits& limits, const PoolCoordinatorOptions& options,
                   const Reply& reply);

// What this instance used or reserved in the current windows: what it reports if the books
// are lost.
struct OwnUsage {
  std::int64_t minute_us = 0;
  std::int64_t day_us = 0;
  system::pool::Usage used{};

  void roll(std::int64_t minute, std::int64_t day) {
    if (minute > minute_us) minute_us = minute, used.minute = {};
    if (day > day_us) day_us = day, used.day = {};
  }
  void add(const system::pool::Amounts& minute, const system::pool::Amounts& day) {
    increase(used.minute, minute);
    increase(used.day, day);
  }
  void subtract(const OwnUsage& part) {
    const auto minus = [](const system::pool::Amounts& amounts) {
      return system::pool::Amounts{-amounts.tokens, -amounts.requests};
    };
    if (part.minute_us == minute_us) increase(used.minute, minus(part.used.minute));
    if (part.day_us == day_us) increase(used.day, minus(part.used.day));
  }
  // A release by the rule of the script, in the windows known here. `is_granted`: what was
  // used without a grant counts in its own windows only.
  void settle(const system::pool::Grant& grant, const system::pool::Amounts& actual,
              bool is_granted) {
    const auto more = [&](bool is_same) {
      system::pool::Amounts amounts{actual.tokens - grant.estimate.tokens,
                                    actual.requests - grant.estimate.requests};
      if (is_same) return amounts;
      if (!is_granted) return system::pool::Amounts{};
      amounts = {std::max<std::int64_t>(0, amounts.tokens),
                 std::max<std::int64_t>(0, amounts.requests)};
      return amounts;
    };
    add(more(grant.minute == instant_of_us(minute_us)), more(grant.day == instant_of_us(day_us)));
  }

 private:
  // Amounts end at 10^12 and a window would need 10^6 of them to leave 63 bits.
  static void increase(system::pool::Amounts& to, const system::pool::Amounts& more) {
    to.tokens = std::max<std::int64_t>(0, saturate(Wide{to.tokens} + more.tokens));
    to.requests = std::max<std::int64_t>(0, saturate(Wide{to.requests} + more.requests));
  }
};

}  // namespace weir::store::redis
