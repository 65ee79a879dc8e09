#include "weir/meter/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/meter/support.h"

namespace weir::meter {
namespace log_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

const LogShape kThreeInAnyTen = make_log(3, 10ns).value();

constexpr Instant at(std::int64_t ns) { return Instant{ns}; }

LogShape with_limit(std::int64_t limit) { return make_log(limit, 10ns).value(); }

// Taking.

TEST(Log, AdmitsItsLimitAndNotOneMore) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(0), 2);

  EXPECT_TRUE(log.check(at(5), 1).allowed());
  EXPECT_FALSE(log.check(at(5), 2).allowed());
}

TEST(Log, AdmitsAtTheInstantItIsAsked) {
  EXPECT_EQ(KeptLog(kThreeInAnyTen).check(at(5), 3), (Check{Verdict::kAllowed, at(5), 0}));
}

TEST(Log, FreesAUnitExactlyOneWindowAfterItWasTaken) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(7), 3);

  EXPECT_FALSE(log.check(at(16), 1).allowed());
  EXPECT_TRUE(log.check(at(17), 1).allowed());
}

TEST(Log, ComputesAtCompileTime) {
  constexpr auto admits_after_three_at_seven = [](Instant now) {
    constexpr LogShape shape{3, 10, 1};
    LogRun ring[4] = {};
    const LogState state = charge(shape, {}, ring, at(7), 3);
    return check(shape, state, ring, now, 1).allowed();
  };
  static_assert(!admits_after_three_at_seven(at(16)));
  static_assert(admits_after_three_at_seven(at(17)));
}

TEST(Log, SlidesInsteadOfTurning) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(9), 3);

  EXPECT_FALSE(log.check(at(11), 1).allowed());
}

TEST(Log, DeniesUntilEnoughOfTheOldestIsForgotten) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(1), 1);
  log.take(at(4), 1);
  log.take(at(6), 1);

  EXPECT_EQ(log.check(at(8), 1), (Check{Verdict::kDenied, at(11), 1}));
  EXPECT_EQ(log.check(at(8), 2), (Check{Verdict::kDenied, at(14), 2}));
  EXPECT_EQ(log.check(at(8), 3), (Check{Verdict::kDenied, at(16), 3}));
}

TEST(Log, CountsWhatIsLeftTowardsTheShortfall) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(1), 2);

  EXPECT_EQ(log.check(at(1), 3).shortfall, 2);
}

TEST(Log, NeverAdmitsMoreThanItsLimit) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(1), 2);

  EXPECT_EQ(log.check(at(1), 3).verdict, Verdict::kDenied);
  EXPECT_EQ(log.check(at(1), 4), (Check{Verdict::kNever, kForever, 3}));
}

TEST(Log, NeverAdmitsAnythingUnderALimitOfNothing) {
  EXPECT_EQ(KeptLog(with_limit(0)).check(at(1), 1), (Check{Verdict::kNever, kForever, 1}));
  EXPECT_TRUE(KeptLog(with_limit(0)).check(at(1), 0).allowed());
}

TEST(Log, AdmitsACostOfNothingWhenOverItsLimit) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(1), 9);

  EXPECT_EQ(log.check(at(2), 0), (Check{Verdict::kAllowed, at(2), 0}));
}

TEST(Log, ReachesToTheLastInstantWithTheLongestWindow) {
  KeptLog log(make_log(1, Duration{kTermMax / 2}).value());
  log.take(kLastInstant, 1);

  EXPECT_EQ(log.check(kLastInstant, 1).earliest, kLastInstant + Duration{kTermMax / 2});
}

// Partial grants.

TEST(Log, GrantsUpToWhatIsLeft) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(0), 1);

  EXPECT_EQ(log.level(at(5)), 2);
  EXPECT_TRUE(log.take(at(5), log.level(at(5))).allowed());
  EXPECT_EQ(log.level(at(5)), 0);
}

TEST(Log, NamesTheNextInstantAtWhichAUnitIsFree) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(2), 1);
  log.take(at(4), 2);

  EXPECT_EQ(log.next_free(at(5)), at(12));
  EXPECT_EQ(log.level(at(11)), 0);
  EXPECT_EQ(log.level(at(12)), 1);
}

TEST(Log, NamesNowWhenAUnitIsFree) { EXPECT_EQ(KeptLog(kThreeInAnyTen).next_free(at(5)), at(5)); }

TEST(Log, NamesNoInstantWhenNoUnitIsEverFree) {
  EXPECT_EQ(KeptLog(with_limit(0)).next_free(at(5)), kForever);
}

// A limit that changes.

TEST(Log, AdmitsMoreAtOnceWhenItsLimitIsRaised) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(0), 3);
  log.shape = with_limit(5);

  EXPECT_TRUE(log.check(at(0), 2).allowed());
  EXPECT_FALSE(log.check(at(0), 3).allowed());
}

TEST(Log, StandsBelowNothingWhenItsLimitIsLowered) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(0), 3);
  log.shape = with_limit(1);

  EXPECT_EQ(log.level(at(0)), -2);
}

TEST(Log, AdmitsUnderALoweredLimitOnceEnoughIsForgotten) {
  KeptLog log(kThreeInAnyTen);
  log.take(at(0), 2);
  log.take(at(5), 1);
  log.shape = with_limit(1);

  EXPECT_EQ(log.check(at(6), 1).earliest, at(15));
  EXPECT_EQ(log.next_free(at(6)), at(15));
}

// The stamp of the unit taken under the larger limit is still to come.
TEST(Log, AdmitsAtOnceWhatFitsWhenItsLimitIsLoweredBelowItsRuns) {
  KeptLog log(make_log(5'000, 1s).value());
  log.take(at(1), 1);
  log.shape = make_log(100, 1s).value();

  EXPECT_EQ(log.level(at(2)), 99);
  EXPECT_TRUE(log.check(at(2), 99).allowed());
}

// Settling.

TEST(Log, RemembersAnOverage) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(0), 5);

  EXPECT_EQ(log.level(at(9)), -2);
  EXPECT_EQ(log.level(at(10)), 3);
}

TEST(Log, GivesBackUnderTheStampOfTheCharge) {
  KeptLog log(kThreeInAnyTen);
  const Instant first = log.charge(at(0), 2);
  log.charge(at(5), 1);
  log.give_back(first, 1);

  EXPECT_EQ(log.level(at(5)), 1);
  EXPECT_EQ(log.level(at(10)), 2);
}

TEST(Log, LosesWhatIsGivenBackBeyondTheCharge) {
  KeptLog log(kThreeInAnyTen);
  const Instant first = log.charge(at(0), 2);
  log.charge(at(5), 1);
  log.give_back(first, 3);

  EXPECT_EQ(log.level(at(5)), 2);
}

TEST(Log, GivesNothingBackUnderAStampItDoesNotKnow) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(2), 1);
  log.charge(at(5), 1);

  for (const Instant stranger : {at(1), at(3), at(6)}) {
    log.give_back(stranger, 1);
    EXPECT_EQ(log.level(at(5)), 1) << stranger;
  }
}

TEST(Log, GivesNothingBackOnceTheChargeIsForgotten) {
  KeptLog log(kThreeInAnyTen);
  const Instant first = log.charge(at(0), 2);
  log.charge(at(10), 3);
  log.give_back(first, 2);

  EXPECT_EQ(log.level(at(10)), 0);
}

TEST(Log, TakesAgainWhatWasGivenBackFromTheMiddle) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(0), 1);
  const Instant middle = log.charge(at(2), 1);
  log.charge(at(4), 1);
  log.give_back(middle, 1);
  log.charge(at(5), 1);

  EXPECT_EQ(log.check(at(5), 1).earliest, at(10));
  EXPECT_EQ(log.check(at(5), 2).earliest, at(14));
  EXPECT_EQ(log.check(at(5), 3).earliest, at(15));
}

TEST(Log, FreesAUnitOnTimeAfterManyCostsOfNothing) {
  KeptLog log(make_log(1, 10us).value());
  for (std::int64_t ns = 0; ns < kRunsMax - 1; ++ns) log.charge(at(ns), 0);
  log.charge(at(2'000), 1);
  log.charge(at(2'001), 0);

  EXPECT_FALSE(log.check(at(11'999), 1).allowed());
  EXPECT_TRUE(log.check(at(12'000), 1).allowed());
}

// Time running backwards.

TEST(Log, RemembersAnEarlierInstantAsItWas) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(20), 1);
  log.charge(at(15), 1);

  EXPECT_EQ(log.level(at(24)), 1);
  EXPECT_EQ(log.level(at(25)), 2);
  EXPECT_EQ(log.level(at(30)), 3);
}

TEST(Log, CountsWhatWasTakenLaterAgainstAnEarlierInstant) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(20), 3);

  EXPECT_EQ(log.check(at(5), 1), (Check{Verdict::kDenied, at(30), 1}));
}

TEST(Log, DeniesAnEarlierInstantUntilTheEarlierChargeIsForgotten) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(20), 2);
  log.charge(at(15), 1);

  EXPECT_EQ(log.check(at(16), 1).earliest, at(25));
  EXPECT_EQ(log.check(at(16), 2).earliest, at(30));
}

TEST(Log, GivesBackWhatWasTakenAtAnEarlierInstant) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(20), 1);
  const Instant earlier = log.charge(at(15), 2);
  log.give_back(earlier, 2);

  EXPECT_EQ(log.level(at(20)), 2);
}

// Bounded memory.

TEST(Log, StampsExactlyUpToAsManyUnitsAsItHasRuns) {
  const LogShape shape = make_log(kRunsMax, 1s).value();

  EXPECT_EQ(stamp(shape, at(1'234'567)), at(1'234'567));
}

TEST(Log, StampsAGrainOfTheWindowWithOneUnitMore) {
  const LogShape shape = make_log(kRunsMax + 1, 1s).value();
  constexpr std::int64_t grain_ns = 979'000;  // 1 s / 1022, rounded up to microseconds

  EXPECT_EQ(stamp(shape, at(grain_ns)), at(grain_ns));
  EXPECT_EQ(stamp(shape, at(grain_ns + 1)), at(2 * grain_ns));
}

TEST(Log, FreesEachOfAsManyUnitsAsItHasRunsOnTime) {
  KeptLog log(make_log(kRunsMax, 1ms).value());
  for (std::int64_t i = 0; i < kRunsMax; ++i) ASSERT_TRUE(log.take(at(7 * i), 1).allowed());

  for (std::int64_t i = 0; i < kRunsMax; ++i) {
    ASSERT_FALSE(log.check(at(1'000'000 + 7 * i - 1), 1).allowed()) << i;
    ASSERT_TRUE(log.take(at(1'000'000 + 7 * i), 1).allowed()) << i;
  }
}

TEST(Log, RemembersAUnitAtLeastItsWindowAndAtMostAGrainMore) {
  KeptLog log(make_log(5'000, 1s).value());
  log.charge(at(1), 5'000);

  EXPECT_FALSE(log.check(at(1) + 1s - 1ns, 1).allowed());
  EXPECT_TRUE(log.check(at(0) + 1s + Duration{log.shape.grain_ns}, 1).allowed());
}

TEST(Log, KeepsItsBoundWhenEveryNanosecondIsCharged) {
  KeptLog log(make_log(kTermMax, 5us).value());
  for (std::int64_t ns = 0; ns < 20'000; ++ns) {
    log.charge(at(ns), 1);
    ASSERT_LE(log.state.size, kRunsMax);
  }

  EXPECT_LE(log.ring.size(), kRunsMax);
  EXPECT_GE(log.used(at(19'999)), 5'000);
  EXPECT_LE(log.used(at(19'999)), 5'000 + log.shape.grain_ns);
}

TEST(Log, KeepsItsBoundWhenOveragesExceedItsRuns) {
  KeptLog log(make_log(1, 1ms).value());
  for (std::int64_t ns = 0; ns <= kRunsMax; ++ns) log.charge(at(ns), 1);

  EXPECT_EQ(log.state.size, kRunsMax);
  EXPECT_EQ(log.used(at(kRunsMax)), kRunsMax + 1);
}

TEST(Log, ForgetsNoneEarlyWhenOveragesExceedItsRuns) {
  KeptLog log(make_log(1, 1ms).value());
  for (std::int64_t ns = 0; ns <= kRunsMax; ++ns) log.charge(at(ns), 1);

  EXPECT_GE(log.used(at(kRunsMax - 1) + 1ms - 1ns), 2);
  EXPECT_GE(log.used(at(kRunsMax) + 1ms - 1ns), 1);
  EXPECT_EQ(log.used(at(kRunsMax) + 1ms), 0);
}

TEST(Log, ForgetsNoneEarlyWhenAnEarlierInstantExceedsItsRuns) {
  KeptLog log(make_log(1, 1ms).value());
  for (std::int64_t ns = 0; ns < kRunsMax; ++ns) log.charge(at(2 * ns), 1);
  log.charge(at(101), 1);

  EXPECT_EQ(log.used(at(101) + 1ms - 1ns), kRunsMax - 51 + 1);
}

TEST(Log, FreesAUnitOnTimeAfterManyWereGivenBack) {
  KeptLog log(make_log(2, 10us).value());
  for (std::int64_t ns = 0; ns < kRunsMax - 1; ++ns) log.give_back(log.charge(at(ns), 1), 1);
  log.charge(at(2'000), 1);
  log.charge(at(2'001), 1);

  EXPECT_FALSE(log.check(at(11'999), 1).allowed());
  EXPECT_TRUE(log.check(at(12'000), 1).allowed());
}

TEST(Log, AsksForOneRunMoreThanItCounts) {
  KeptLog log(kThreeInAnyTen);
  EXPECT_EQ(runs_needed(log.shape, log.state, log.ring, at(0)), 1u);
  log.charge(at(0), 1);
  log.charge(at(1), 1);

  EXPECT_EQ(runs_needed(log.shape, log.state, log.ring, at(2)), 3u);
  EXPECT_EQ(runs_needed(log.shape, log.state, log.ring, at(10)), 2u);
}

TEST(Log, NamesItsLatestStamp) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(20), 1);
  log.charge(at(15), 1);

  EXPECT_EQ(newest(log.state, log.ring), at(20));
}

TEST(Log, ForgetsForGoodWhatNoLongerCounts) {
  KeptLog log(kThreeInAnyTen);
  log.charge(at(0), 1);
  log.charge(at(5), 1);
  log.forget(at(9));
  EXPECT_EQ(log.used(at(5)), 2);
  log.forget(at(10));

  EXPECT_EQ(log.used(at(5)), 1);
}

TEST(Log, MovesItsRunsOldestFirst) {
  KeptLog log(kThreeInAnyTen);
  for (const std::int64_t ns : {0, 4, 8, 12, 16}) log.charge(at(ns), 1);  // the ring has wrapped
  std::vector<LogRun> larger(9);
  const LogState moved = move_runs(log.state, log.ring, larger);

  EXPECT_EQ(level(log.shape, moved, larger, at(16)), 0);
  EXPECT_EQ(level(log.shape, moved, larger, at(18)), 1);
  EXPECT_EQ(level(log.shape, moved, larger, at(22)), 2);
  EXPECT_EQ(level(log.shape, moved, larger, at(26)), 3);
}

TEST(Log, KeepsTheBlockOfItsOwner) {
  LogRun ring[2];
  LogState state;
  state.block = 77;
  state = charge(kThreeInAnyTen, state, ring, at(0), 1);
  state = give_back(state, ring, at(0), 1);

  EXPECT_EQ(state.block, 77u);
}

TEST(Log, IsInitialOnceEverythingIsForgotten) {
  KeptLog log(kThreeInAnyTen);
  EXPECT_TRUE(log.is_initial(at(0)));
  log.take(at(0), 1);

  EXPECT_FALSE(log.is_initial(at(9)));
  EXPECT_TRUE(log.is_initial(at(10)));
}

// Making a shape.

TEST(MakeLog, AcceptsEveryTermAtItsBounds) {
  EXPECT_TRUE(make_log(0, 1ns).ok());
  EXPECT_TRUE(make_log(kTermMax, Duration{kTermMax / 2}).ok());
}

TEST(MakeLog, RefusesALimitOutOfBounds) {
  for (const std::int64_t limit : {std::int64_t{-1}, kTermMax + 1}) {
    const Result<LogShape> result = make_log(limit, 1s);

    ASSERT_FALSE(result.ok()) << limit;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("log limit is " + std::to_string(limit) + ","),
                      HasSubstr("between 0 and 2^62"),
                      HasSubstr("write how many units any window may hold")));
  }
}

TEST(MakeLog, RefusesAWindowOutOfBounds) {
  for (const std::int64_t window_ns : {std::int64_t{0}, std::int64_t{-1}, kTermMax / 2 + 1}) {
    const Result<LogShape> result = make_log(1, Duration{window_ns});

    ASSERT_FALSE(result.ok()) << window_ns;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(
        result.error().message,
        AllOf(HasSubstr("log window is " + std::to_string(window_ns) + " ns,"),
              HasSubstr("between 1 ns and 2^61 ns"), HasSubstr("write a duration such as '1h'")));
  }
}

}  // namespace log_test
}  // namespace weir::meter
