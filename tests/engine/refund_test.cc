// What comes back to buckets and tickers when holds end: never what they could not have kept.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/engine/kept_state.h"
#include "tests/engine/support.h"
#include "tests/support/exact.h"
#include "tests/support/seed.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/ebbs.h"

namespace weir::engine {
namespace {

constexpr BucketSpec kTwoASecond{.amount = 2, .period = 1s, .burst = 4};

RuleSetSpec one_limit(const MeterSpec& meter) {
  return {.limits = {{.name = "one", .meter = meter}}};
}

HoldId take(Engine& engine, std::int64_t units, Instant now) {
  const auto decision =
      engine::acquire(engine, RequestOf().costing(kRequests, units), {.hold = 1h}, now);
  EXPECT_TRUE(decision->allowed());
  return decision->hold;
}

// A charge that nothing can undo.
void spend(Engine& engine, std::int64_t units, Instant now) {
  EXPECT_TRUE(engine.decide(RequestOf().costing(kRequests, units), now)->allowed());
}

std::int64_t left(Engine& engine, Instant now) { return remaining(engine, "one", {}, now); }

TEST(Refund, IsNothingOfWhatTheBucketHasRefilledSince) {
  auto engine = engine_of(one_limit(kTwoASecond));
  std::vector<HoldId> holds;
  for (int i = 0; i < 6; ++i) holds.push_back(take(*engine, 4, kStart + 2s * i));
  const Instant end = kStart + 12s;
  std::int64_t admitted = 0;
  for (const HoldId hold : holds) {
    engine::cancel(*engine, hold, end);
    admitted += engine->decide(RequestOf().costing(kRequests, 4), end)->allowed() ? 4 : 0;
  }
  EXPECT_EQ(admitted, 4);
}

TEST(Refund, IsExactWhileTheBucketCannotHaveBeenFull) {
  auto engine = engine_of(one_limit(kTwoASecond));
  take(*engine, 3, kStart);
  const HoldId hold = take(*engine, 1, kStart);
  // Without the hold the bucket would be full after 1.5 s.
  engine::cancel(*engine, hold, kStart + 1500ms);
  EXPECT_EQ(left(*engine, kStart + 1500ms), 4);
}

TEST(Refund, LosesWhatTheBucketWouldHaveLostWithoutTheHold) {
  auto engine = engine_of(one_limit(kTwoASecond));
  take(*engine, 3, kStart);
  const HoldId hold = take(*engine, 1, kStart);
  spend(*engine, 3, kStart + 1750ms);
  // Without the hold it would have been full for a quarter of a second, in which it gains half a
  // unit: one unit is left, not one and a half.
  engine::cancel(*engine, hold, kStart + 1750ms);
  EXPECT_EQ(left(*engine, kStart + 1750ms), 1);
  EXPECT_EQ(left(*engine, kStart + 2250ms - 1ns), 1);
  EXPECT_EQ(left(*engine, kStart + 2250ms), 2);
}

TEST(Refund, CountsWhatCameBackToOthersMeanwhile) {
  auto engine = engine_of(one_limit(kTwoASecond));
  const HoldId first = take(*engine, 2, kStart);
  const HoldId second = take(*engine, 2, kStart);
  engine::cancel(*engine, first, kStart);  // so the bucket is full after a second
  spend(*engine, 4, kStart + 1500ms);
  engine::cancel(*engine, second, kStart + 1500ms);
  EXPECT_EQ(left(*engine, kStart + 1500ms), 0);
}

TEST(Refund, OfOneLowersWhatComesBackToThoseChargedBeforeAndAfter) {
  for (const bool first_ends_first : {true, false}) {
    auto engine = engine_of(one_limit(kTwoASecond));
    const HoldId first = take(*engine, 2, kStart);
    const HoldId second = take(*engine, 2, kStart);
    spend(*engine, 2, kStart + 1s);
    // Without both, the bucket would have been full: 2 of 4 are left.
    engine::cancel(*engine, first_ends_first ? first : second, kStart + 1s);
    engine::cancel(*engine, first_ends_first ? second : first, kStart + 1s);
    EXPECT_EQ(left(*engine, kStart + 1s), 2) << first_ends_first;
  }
}

TEST(Refund, IsExactLongAfterwardsWhereHoldsKeepTheBucketBusy) {
  auto engine = engine_of(one_limit(kTwoASecond));
  std::vector<HoldId> holds;
  for (int i = 0; i < 4; ++i) holds.push_back(take(*engine, 1, kStart));
  // An estimate of 1 that is settled with 0 each second, and two new ones: never full.
  for (int second = 1; second <= 100; ++second) {
    const Instant now = kStart + 1s * second;
    for (int i = 0; i < 2; ++i) holds.push_back(take(*engine, 1, now));
    EXPECT_EQ(left(*engine, now), 0);
  }
  const Instant end = kStart + 100s;
  engine::cancel(*engine, holds.front(), end);
  EXPECT_EQ(left(*engine, end), 1);
}

TEST(Refund, ToATickerIsNothingOfWhatHasTickedSince) {
  auto engine = engine_of(one_limit(TickerSpec{1, 1s, 3}));
  const HoldId hold = take(*engine, 3, kStart);
  spend(*engine, 2, kStart + 2s);
  engine::cancel(*engine, hold, kStart + 2s);
  EXPECT_EQ(left(*engine, kStart + 2s), 1);
}

TEST(Refund, OfAnEarlierProcessIsWhatItsOwnCostCannotHaveRegained) {
  KeptState kept;
  HoldId hold;
  {
    auto engine = engine_of(one_limit(kTwoASecond), {.owner = 7, .durable = true});
    hold = take(*engine, 4, kStart);
    kept.collect(*engine, kStart);
  }
  auto engine = engine_of(one_limit(kTwoASecond), {.owner = 7, .durable = true});
  ASSERT_TRUE(kept.restore(*engine, kStart + 1s).ok());
  spend(*engine, 2, kStart + 1s);
  engine::cancel(*engine, hold, kStart + 1s);
  EXPECT_EQ(left(*engine, kStart + 1s), 2);
}

TEST(Refund, GoesOnThroughNewParameters) {
  auto engine = engine_of(one_limit(kTwoASecond));
  take(*engine, 3, kStart);
  const HoldId hold = take(*engine, 1, kStart);
  ASSERT_TRUE(engine
                  ->swap(rules_of(one_limit(BucketSpec{.amount = 1, .period = 1s, .burst = 4})),
                         kStart + 500ms)
                  .ok());
  EXPECT_EQ(left(*engine, kStart + 500ms), 1);
  engine::cancel(*engine, hold, kStart + 1500ms);
  EXPECT_EQ(left(*engine, kStart + 1500ms), 3);
}

TEST(Refund, IsNothingWhereTheBucketBecameAnotherKindOfMeter) {
  auto engine = engine_of(one_limit(kTwoASecond));
  const HoldId first = take(*engine, 2, kStart);
  const HoldId second = take(*engine, 1, kStart);
  const auto rules = rules_of(one_limit(WindowSpec{10, 1h}));
  ASSERT_TRUE(engine->swap(rules, kStart).ok());
  ASSERT_EQ(left(*engine, kStart), 7);
  const Cost more[] = {{kRequests, 4}};
  EXPECT_EQ(*engine::settle(*engine, first, more, kStart), HoldState::kSettled);
  ASSERT_TRUE(engine->swap(rules_of(one_limit(WindowSpec{20, 1h})), kStart).ok());
  engine::cancel(*engine, second, kStart);
  EXPECT_EQ(left(*engine, kStart), 15);
}

// Work that was cancelled was not done, and what was settled cost what it said. Of such work a
// meter admits in any interval no more than its burst and what it gains meanwhile.
struct Work {
  Instant at{};
  std::int64_t units = 0;
};

template <typename Gain>
void expect_bounded(const std::vector<Work>& done, std::int64_t burst, std::uint64_t seed,
                    Gain&& gain) {
  for (std::size_t i = 0; i < done.size(); ++i) {
    Exact sum = 0;
    for (std::size_t j = i; j < done.size(); ++j) {
      sum += done[j].units;
      if (j + 1 < done.size() && done[j + 1].at == done[j].at) continue;
      ASSERT_LE(sum, Exact{burst} + gain(done[i].at, done[j].at))
          << "from " << i << " to " << j << ", "
          << "reproduce with WEIR_SEED=" << seed;
    }
  }
}

template <typename Spec, typename Gain>
void admits_no_more_than(const Spec& spec, std::int64_t burst, Duration step, bool restarts,
                         Gain&& gain) {
  const std::uint64_t seed = seed_of_test();
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int run = 0; run < 60; ++run) {
    const EngineOptions options{.owner = 7, .durable = restarts};
    auto engine = engine_of(one_limit(spec), options);
    KeptState kept;
    std::vector<Work> done;
    struct Open {
      HoldId hold;
      std::size_t work;
    };
    std::vector<Open> open;
    Instant now = kStart;
    for (int i = 0; i < 300; ++i) {
      now = now + Duration{static_cast<std::int64_t>(
                      below(4) == 0 ? below(static_cast<std::uint64_t>(step.count()) * 8)
                                    : below(static_cast<std::uint64_t>(step.count())))};
      const std::uint64_t choice = below(10);
      if (choice < 6) {
        const auto units = static_cast<std::int64_t>(1 + below(static_cast<std::uint64_t>(burst)));
        const bool holds = below(3) > 0;
        const auto decision = engine::acquire(*engine, RequestOf().costing(kRequests, units),
                                              {.hold = holds ? step * 50 : Duration{0}}, now);
        ASSERT_TRUE(decision.ok());
        if (!decision->allowed()) continue;
        done.push_back({now, units});
        if (holds) open.push_back({decision->hold, done.size() - 1});
      } else if (!open.empty()) {
        const std::size_t which = below(open.size());
        const auto [hold, work] = open[which];
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
        if (choice < 8) {
          if (engine::cancel(*engine, hold, now) == HoldState::kCancelled) done[work].units = 0;
        } else {
          const auto actual =
              static_cast<std::int64_t>(below(static_cast<std::uint64_t>(done[work].units) + 1));
          const Cost cost[] = {{kRequests, actual}};
          if (*engine::settle(*engine, hold, cost, now) == HoldState::kSettled) {
            done[work].units = actual;
          }
        }
      }
      engine->advance(now);
      if (restarts && below(40) == 0) {
        kept.collect(*engine, now);
        engine = engine_of(one_limit(spec), options);
        ASSERT_TRUE(kept.restore(*engine, now).ok());
      }
    }
    expect_bounded(done, burst, seed, gain);
  }
}

TEST(Refund, LetsABucketAdmitNoMoreThanItsBurstAndRateInAnyInterval) {
  for (const bool restarts : {false, true}) {
    for (const BucketSpec& spec : {BucketSpec{.amount = 2, .period = 1s, .burst = 4},
                                   BucketSpec{.amount = 7, .period = 3s, .burst = 20},
                                   BucketSpec{.amount = 1, .period = 1s, .burst = 1}}) {
      admits_no_more_than(spec, spec.burst, 300ms, restarts, [&](Instant from, Instant to) {
        return exact_floor_div(Exact{to.ns - from.ns} * spec.amount, spec.period.count());
      });
    }
  }
}

TEST(Refund, LetsATickerAdmitNoMoreThanItsBurstAndTicksInAnyInterval) {
  for (const bool restarts : {false, true}) {
    const TickerSpec spec{2, 1s, 9};
    admits_no_more_than(spec, spec.burst, 300ms, restarts, [&](Instant from, Instant to) {
      const std::int64_t ticks = to.ns / spec.interval.count() - from.ns / spec.interval.count();
      return Exact{ticks} * spec.per_tick;
    });
  }
}

// Holds of ten units are taken one a second, faster than the bucket refills, and cancelled when
// all of it has been spent otherwise. Without them it would have been full before.
std::int64_t left_after(int holds_taken) {
  auto engine = engine_of(one_limit(BucketSpec{.amount = 1, .period = 1s, .burst = 10'000}));
  std::vector<HoldId> holds;
  for (int i = 0; i < holds_taken; ++i) holds.push_back(take(*engine, 10, kStart + 1s * i));
  const Instant end = kStart + 1s * holds_taken;
  const std::int64_t unspent = left(*engine, end);
  spend(*engine, unspent, end);
  for (const HoldId hold : holds) engine::cancel(*engine, hold, end);
  EXPECT_EQ(engine->usage().holds, 0u);
  return 10'000 - unspent - left(*engine, end);
}

TEST(Refund, IsExactForFewerHoldsThanThereAreEbbs) {
  EXPECT_EQ(left_after(static_cast<int>(kEbbsMax) - 1), 0);
}

TEST(Refund, IsALittleLessForMoreHoldsThanThereAreEbbs) {
  const std::int64_t missing = left_after(1000);
  EXPECT_GE(missing, 0);
  EXPECT_LE(missing, 10 * 2 * 1000 / static_cast<std::int64_t>(kEbbsMax));
}

}  // namespace
}  // namespace weir::engine
