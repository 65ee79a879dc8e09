#include "weir/meter/bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/meter/support.h"

namespace weir::meter {
namespace bucket_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr BucketState kFull{};

const BucketShape kOnePerSecond = make_bucket(1, 1s, 5).value();
const BucketShape kThreePerSecond = make_bucket(3, 1s, 3).value();
const BucketShape kThreePerTenNs = make_bucket(3, 10ns, 1).value();  // a unit lasts 3 1/3 ns

BucketState taken(const BucketShape& shape, Instant at, std::int64_t cost) {
  return take(shape, kFull, at, cost).state;
}

// Taking.

TEST(Bucket, StartsFull) { EXPECT_EQ(level(kOnePerSecond, kFull, kStart), 5); }

TEST(Bucket, AdmitsABurstThenDeniesUntilATokenHasDripped) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_FALSE(take(kThreePerSecond, state, kStart + 333'333'333ns, 1).allowed());
  EXPECT_TRUE(take(kThreePerSecond, state, kStart + 333'333'334ns, 1).allowed());
}

TEST(Bucket, DeniesWithTheInstantAtWhichTheCostFits) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_EQ(take(kThreePerSecond, state, kStart, 2).check,
            (Check{Verdict::kDenied, kStart + 666'666'667ns, 2}));
}

TEST(Bucket, AdmitsAtTheInstantItIsAsked) {
  EXPECT_EQ(take(kOnePerSecond, kFull, kStart, 5).check, (Check{Verdict::kAllowed, kStart, 0}));
}

TEST(Bucket, CountsTheUnitsThatAreThereTowardsTheShortfall) {
  const BucketState state = taken(kOnePerSecond, kStart, 3);

  EXPECT_EQ(take(kOnePerSecond, state, kStart, 5).check.shortfall, 3);
}

TEST(Bucket, AdmitsTheWholeBurstAndNeverMore) {
  EXPECT_EQ(take(kOnePerSecond, kFull, kStart, 5).check.verdict, Verdict::kAllowed);
  EXPECT_EQ(take(kOnePerSecond, kFull, kStart, 6).check, (Check{Verdict::kNever, kForever, 1}));
}

TEST(Bucket, SaysNeverRatherThanNotYetWhenItIsEmptyToo) {
  const BucketState state = taken(kOnePerSecond, kStart, 5);

  EXPECT_EQ(take(kOnePerSecond, state, kStart, 6).check, (Check{Verdict::kNever, kForever, 6}));
}

TEST(Bucket, KeepsItsStateWhenItDenies) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_EQ(take(kThreePerSecond, state, kStart + 1ns, 1).state, state);
}

TEST(Bucket, KeepsItsStateWhenItSaysNever) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_EQ(take(kThreePerSecond, state, kStart + 1ns, 4).state, state);
}

TEST(Bucket, AdmitsACostOfNothingEvenInDebt) {
  const BucketState state = debit(kOnePerSecond, kFull, kStart, 50).state;

  EXPECT_EQ(take(kOnePerSecond, state, kStart, 0).check, (Check{Verdict::kAllowed, kStart, 0}));
}

TEST(Bucket, KeepsItsStateForACostOfNothing) {
  const BucketState state = taken(kThreePerSecond, kStart, 2);

  EXPECT_EQ(take(kThreePerSecond, state, kStart + 1h, 0).state, state);
}

TEST(Bucket, DoesNotDriftOverADayOfThirds) {
  BucketState state;
  std::int64_t admitted = 0;
  for (int second = 0; second < 86'400; ++second) {
    const BucketStep step = take(kThreePerSecond, state, kStart + second * 1s, 3);
    admitted += step.allowed() ? 3 : 0;
    state = step.state;
  }

  EXPECT_EQ(admitted, 3 * 86'400);
  EXPECT_EQ(state, (BucketState{kStart + 86'400s, 0}));
}

TEST(Bucket, AdmitsABillionPerNanosecond) {
  const BucketShape shape = make_bucket(1'000'000'000, 1ns, 1'000'000'000).value();
  const BucketState state = taken(shape, kStart, 1'000'000'000);

  EXPECT_FALSE(take(shape, state, kStart, 1).allowed());
  EXPECT_TRUE(take(shape, state, kStart + 1ns, 1'000'000'000).allowed());
}

TEST(Bucket, AdmitsOneInACentury) {
  const BucketShape shape = make_bucket(1, 24h * 36'525, 1).value();
  const BucketState state = taken(shape, kEpoch, 1);

  EXPECT_FALSE(take(shape, state, kEpoch + 24h * 36'525 - 1ns, 1).allowed());
  EXPECT_TRUE(take(shape, state, kEpoch + 24h * 36'525, 1).allowed());
}

TEST(Bucket, AdmitsTheLargestCostAtTheLastInstant) {
  const BucketShape shape = make_bucket(kTermMax, 1ns, kTermMax).value();

  EXPECT_TRUE(take(shape, kFull, kLastInstant, kTermMax).allowed());
}

TEST(Bucket, SeesAnEarlierInstantAsItWouldHaveStoodThen) {
  const BucketState state = taken(kOnePerSecond, kStart + 10s, 1);

  EXPECT_EQ(level(kOnePerSecond, state, kStart + 10s), 4);
  EXPECT_EQ(level(kOnePerSecond, state, kStart + 8s), 2);
}

TEST(Bucket, FitsInTwoWords) {
  EXPECT_EQ(sizeof(BucketState), 16u);
  EXPECT_TRUE(std::is_trivially_copyable_v<BucketState>);
}

TEST(Bucket, ComputesAtCompileTime) {
  constexpr BucketShape shape{1, 1'000, 5, {5'000, 0}, {1'000, 0}};
  constexpr BucketStep step = take(shape, kFull, Instant{7}, 5);
  static_assert(step.allowed());
  static_assert(!take(shape, step.state, Instant{1'006}, 1).allowed());
  static_assert(take(shape, step.state, Instant{1'007}, 1).allowed());
}

// V1 of specs/wire.md: five at once, one per second.

struct GcraRow {
  std::chrono::milliseconds at;
  std::int64_t quantity;
  bool limited;
  std::int64_t remaining;
  Duration reset;
  std::optional<Duration> retry;  // none: allowed, or never
};

const GcraRow kGcraTable[] = {
    {0ms, 6, true, 5, 0s, {}},     {0ms, 1, false, 4, 1s, {}},    {0ms, 1, false, 3, 2s, {}},
    {0ms, 1, false, 2, 3s, {}},    {0ms, 1, false, 1, 4s, {}},    {0ms, 1, false, 0, 5s, {}},
    {0ms, 1, true, 0, 5s, 1s},     {3000ms, 1, false, 2, 3s, {}}, {3100ms, 1, false, 1, 3900ms, {}},
    {4000ms, 1, false, 1, 4s, {}}, {8000ms, 1, false, 4, 1s, {}}, {9500ms, 1, false, 4, 1s, {}},
    {9500ms, 0, false, 4, 1s, {}}, {9500ms, 2, false, 2, 3s, {}}, {9500ms, 5, true, 2, 3s, 3s},
    {15000ms, 6, true, 5, 0s, {}},
};

TEST(Bucket, AnswersAsTheGcraTableOfRedisCell) {
  BucketState state;
  for (const GcraRow& row : kGcraTable) {
    SCOPED_TRACE(::testing::Message() << row.at.count() << " ms, quantity " << row.quantity);
    const Instant now = kStart + row.at;
    const BucketStep step = take(kOnePerSecond, state, now, row.quantity);
    state = step.state;

    EXPECT_EQ(!step.allowed(), row.limited);
    EXPECT_EQ(level(kOnePerSecond, state, now), row.remaining);
    EXPECT_EQ(settled(state, now).full_at - now, row.reset);
    EXPECT_EQ(step.check.verdict == Verdict::kDenied, row.retry.has_value());
    if (row.retry) {
      EXPECT_EQ(step.check.earliest - now, *row.retry);
    }
  }
}

TEST(Bucket, DeniesTheGcraTableUntilTheNanosecondOfItsRetry) {
  BucketState state;
  for (const GcraRow& row : kGcraTable) {
    SCOPED_TRACE(::testing::Message() << row.at.count() << " ms, quantity " << row.quantity);
    const Instant now = kStart + row.at;
    state = take(kOnePerSecond, state, now, row.quantity).state;
    if (!row.retry) continue;

    EXPECT_FALSE(take(kOnePerSecond, state, now + *row.retry - 1ns, row.quantity).allowed());
    EXPECT_TRUE(take(kOnePerSecond, state, now + *row.retry, row.quantity).allowed());
  }
}

// Level, use and percent.

TEST(Bucket, GainsAUnitAtTheNanosecondItIsWhole) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_EQ(level(kThreePerSecond, state, kStart + 666'666'666ns), 1);
  EXPECT_EQ(level(kThreePerSecond, state, kStart + 666'666'667ns), 2);
}

TEST(Bucket, HoldsNoMoreThanItsBurst) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_EQ(level(kThreePerSecond, state, kStart + 24h), 3);
}

TEST(Bucket, StandsBelowNothingWhenInDebt) {
  const BucketState state = debit(kOnePerSecond, kFull, kStart, 12).state;

  EXPECT_EQ(level(kOnePerSecond, state, kStart), -7);
}

TEST(Bucket, RoundsUnitsInUseUp) {
  const BucketState state = taken(kOnePerSecond, kStart, 2);

  EXPECT_EQ(used(kOnePerSecond, state, kStart + 1s - 1ns), 2);
  EXPECT_EQ(used(kOnePerSecond, state, kStart + 1s), 1);
}

TEST(Bucket, CountsADebtLargerThanSixtyThreeBits) {
  const BucketShape shape = make_bucket(kTermMax, 1ns, kTermMax).value();
  const BucketState state{Instant{3}, 0};  // three nanoseconds to go: 3 * 2^62 in use

  EXPECT_EQ(level(shape, state, kEpoch), std::numeric_limits<std::int64_t>::min());
}

TEST(Bucket, FallsShortByNoMoreThanSixtyThreeBits) {
  const BucketShape shape = make_bucket(kTermMax, 1ns, kTermMax).value();
  const BucketState state{Instant{4}, 0};

  EXPECT_EQ(take(shape, state, kEpoch, 1).check.shortfall,
            std::numeric_limits<std::int64_t>::max());
}

TEST(Bucket, IsUnusedWhenFull) { EXPECT_EQ(percent_used_micro(kOnePerSecond, kFull, kStart), 0); }

TEST(Bucket, IsWhollyUsedWhenEmpty) {
  const BucketState state = taken(kOnePerSecond, kStart, 5);

  EXPECT_EQ(percent_used_micro(kOnePerSecond, state, kStart), 100 * kMicro);
}

TEST(Bucket, RoundsThePercentUsedDown) {
  const BucketState state = taken(kThreePerSecond, kStart, 2);

  EXPECT_EQ(percent_used_micro(kThreePerSecond, state, kStart), 66'666'666);
}

TEST(Bucket, CountsTheFractionOfAUnitInThePercentUsed) {
  const BucketState state = taken(kOnePerSecond, kStart, 5);

  EXPECT_EQ(percent_used_micro(kOnePerSecond, state, kStart + 500ms), 90 * kMicro);
}

TEST(Bucket, IsMoreThanWhollyUsedWhenInDebt) {
  const BucketState state = debit(kOnePerSecond, kFull, kStart, 15).state;

  EXPECT_EQ(percent_used_micro(kOnePerSecond, state, kStart), 300 * kMicro);
}

TEST(Bucket, IsInitialFromTheInstantItIsFull) {
  const BucketState state = taken(kOnePerSecond, kStart, 5);

  EXPECT_FALSE(is_initial(state, kStart + 5s - 1ns));
  EXPECT_TRUE(is_initial(state, kStart + 5s));
}

TEST(Bucket, IsNotInitialWhileAFractionOfANanosecondIsMissing) {
  const BucketState state = taken(kThreePerSecond, kStart, 1);

  EXPECT_FALSE(is_initial(state, kStart + 333'333'333ns));
  EXPECT_TRUE(is_initial(state, kStart + 333'333'334ns));
}

// Booking ahead.

TEST(Bucket, BooksAtOnceWhatFits) {
  EXPECT_EQ(book(kOnePerSecond, kFull, kStart, 5).check, (Check{Verdict::kAllowed, kStart, 0}));
}

TEST(Bucket, BooksTheFirstInstantAtWhichTheCostFits) {
  const BucketState state = taken(kThreePerSecond, kStart, 3);

  EXPECT_EQ(book(kThreePerSecond, state, kStart, 1).check,
            (Check{Verdict::kAllowed, kStart + 333'333'334ns, 0}));
}

TEST(Bucket, RemembersWhatIsBooked) {
  BucketState state = taken(kOnePerSecond, kStart, 5);
  state = book(kOnePerSecond, state, kStart, 2).state;  // starts at 2 s

  EXPECT_FALSE(take(kOnePerSecond, state, kStart + 3s - 1ns, 1).allowed());
  EXPECT_TRUE(take(kOnePerSecond, state, kStart + 3s, 1).allowed());
}

TEST(Bucket, BooksOneAfterAnother) {
  BucketState state = taken(kOnePerSecond, kStart, 5);
  std::vector<Duration> starts;
  for (int i = 0; i < 3; ++i) {
    const BucketStep step = book(kOnePerSecond, state, kStart, 1);
    starts.push_back(step.check.earliest - kStart);
    state = step.state;
  }

  EXPECT_THAT(starts, ::testing::ElementsAre(1s, 2s, 3s));
}

TEST(Bucket, BooksNoEarlierThanAsked) {
  EXPECT_EQ(book(kOnePerSecond, kFull, kStart + 1h, 5).check.earliest, kStart + 1h);
}

TEST(Bucket, ServesLaterComersAfterABookedBurst) {
  const BucketState state = book(kOnePerSecond, kFull, kStart + 1h, 5).state;

  EXPECT_EQ(book(kOnePerSecond, state, kStart, 1).check.earliest, kStart + 1h + 1s);
}

TEST(Bucket, BooksTheWholeBurstNeverMore) {
  EXPECT_EQ(book(kOnePerSecond, kFull, kStart, 5).check.verdict, Verdict::kAllowed);
  EXPECT_EQ(book(kOnePerSecond, kFull, kStart, 6).check, (Check{Verdict::kNever, kForever, 1}));
}

// At 4 ns the bucket has been full for two thirds of a nanosecond, which are
// lost: units start 3 1/3 ns apart, rounded up from the start before.
TEST(Bucket, DoesNotBookTheFractionThatAFullBucketLoses) {
  BucketState state;
  std::vector<std::int64_t> starts;
  for (int i = 0; i < 3; ++i) {
    const BucketStep step = book(kThreePerTenNs, state, kEpoch, 1);
    starts.push_back(step.check.earliest.ns);
    state = step.state;
  }

  EXPECT_THAT(starts, ::testing::ElementsAre(0, 4, 8));
}

TEST(Bucket, StartsABookingOfNothingAsAsked) {
  const BucketState state = debit(kOnePerSecond, kFull, kStart, 50).state;

  EXPECT_EQ(book(kOnePerSecond, state, kStart, 0).check, (Check{Verdict::kAllowed, kStart, 0}));
}

TEST(Bucket, HoldsAsMuchAfterABookingOfNothing) {
  const BucketState state = book(kOnePerSecond, kFull, kStart + 1h, 0).state;

  EXPECT_EQ(level(kOnePerSecond, state, kStart), 5);
}

TEST(Bucket, NeverBooksBeyondTheEndOfTime) {
  const BucketState state{Instant{kForever.ns - 1'000'000'000}, 0};
  const BucketStep step = book(kOnePerSecond, state, kStart, 1);

  EXPECT_EQ(step.check.verdict, Verdict::kNever);
  EXPECT_EQ(step.check.earliest, kForever);
  EXPECT_EQ(step.state, state);
}

TEST(Bucket, BooksUpToTheEndOfTime) {
  const BucketState state{Instant{kForever.ns - 1'000'000'001}, 0};

  EXPECT_EQ(book(kOnePerSecond, state, kStart, 1).check.verdict, Verdict::kAllowed);
}

// Debt.

TEST(Bucket, DebitsWithoutDelayWhatIsThere) {
  EXPECT_EQ(debit(kOnePerSecond, kFull, kStart, 5).check, (Check{Verdict::kAllowed, kStart, 0}));
}

TEST(Bucket, DebitsWhatIsNotThereAndTellsTheDelay) {
  EXPECT_EQ(debit(kOnePerSecond, kFull, kStart, 7).check.earliest, kStart + 2s);
}

TEST(Bucket, RoundsTheDelayOfADebtUpToTheNanosecond) {
  EXPECT_EQ(debit(kThreePerSecond, kFull, kStart, 4).check.earliest, kStart + 333'333'334ns);
}

TEST(Bucket, AddsOneDebtToAnother) {
  BucketState state = debit(kOnePerSecond, kFull, kStart, 7).state;

  EXPECT_EQ(debit(kOnePerSecond, state, kStart + 1s, 3).check.earliest, kStart + 5s);
}

TEST(Bucket, AdmitsNothingBeforeADebtIsPaidAndTheCostRefilled) {
  const BucketState state = debit(kOnePerSecond, kFull, kStart, 7).state;

  EXPECT_FALSE(take(kOnePerSecond, state, kStart + 3s - 1ns, 1).allowed());
  EXPECT_TRUE(take(kOnePerSecond, state, kStart + 3s, 1).allowed());
}

TEST(Bucket, NeverDebitsBeyondTheEndOfTime) {
  const BucketState state = taken(kOnePerSecond, kStart, 3);
  const BucketStep step = debit(kOnePerSecond, state, kStart, kTermMax);

  EXPECT_EQ(step.check, (Check{Verdict::kNever, kForever, kTermMax - 2}));
  EXPECT_EQ(step.state, state);
}

// Giving back.

TEST(Bucket, TakesAgainWhatWasGivenBack) {
  const BucketState empty = taken(kOnePerSecond, kStart, 5);
  const BucketState state = give_back(kOnePerSecond, empty, kStart, 2);

  EXPECT_TRUE(take(kOnePerSecond, state, kStart, 2).allowed());
  EXPECT_FALSE(take(kOnePerSecond, state, kStart, 3).allowed());
}

TEST(Bucket, GivesBackExactlyWhatWasTaken) {
  const BucketState before = taken(kThreePerSecond, kStart, 1);
  const BucketState after = take(kThreePerSecond, before, kStart + 1ns, 2).state;

  EXPECT_EQ(give_back(kThreePerSecond, after, kStart + 1ns, 2), before);
}

TEST(Bucket, LosesWhatIsGivenBackBeyondTheBurst) {
  const BucketState empty = taken(kOnePerSecond, kStart, 5);
  const BucketState state = give_back(kOnePerSecond, empty, kStart + 3s, 5);

  EXPECT_EQ(level(kOnePerSecond, state, kStart + 3s), 5);
  EXPECT_FALSE(take(kOnePerSecond, state, kStart + 3s, 6).allowed());
  EXPECT_FALSE(take(kOnePerSecond, take(kOnePerSecond, state, kStart + 3s, 5).state, kStart + 3s, 1)
                   .allowed());
}

TEST(Bucket, IsFullWhenMoreThanWasTakenIsGivenBackAtTheFirstInstantOfAll) {
  const BucketShape three_per_ns = make_bucket(3, 1ns, 9).value();
  const BucketState state = taken(three_per_ns, kEpoch, 1);
  EXPECT_EQ(give_back(three_per_ns, state, kEpoch, 2), (BucketState{kEpoch, 0}));
}

TEST(Bucket, GivesBackTheLargestAmount) {
  const BucketState empty = taken(kOnePerSecond, kStart, 5);

  EXPECT_EQ(level(kOnePerSecond, give_back(kOnePerSecond, empty, kStart, kTermMax), kStart), 5);
}

TEST(Bucket, PaysADebtWithWhatIsGivenBack) {
  const BucketState state = debit(kOnePerSecond, kFull, kStart, 9).state;

  EXPECT_EQ(level(kOnePerSecond, give_back(kOnePerSecond, state, kStart, 3), kStart), -1);
}

// Changing shape.

TEST(Bucket, KeepsUnitsInUseWhenItsShapeChanges) {
  const BucketShape wider = make_bucket(10, 1s, 100).value();
  const BucketState state = taken(kOnePerSecond, kStart, 4);

  EXPECT_EQ(level(wider, reshape(kOnePerSecond, wider, state, kStart), kStart), 96);
}

TEST(Bucket, RoundsUnitsInUseUpWhenItsShapeChanges) {
  const BucketShape wider = make_bucket(10, 1s, 100).value();
  const BucketState state = taken(kOnePerSecond, kStart, 4);
  const Instant later = kStart + 1ns;  // 4 units less a billionth

  EXPECT_EQ(level(wider, reshape(kOnePerSecond, wider, state, later), later), 96);
  EXPECT_FALSE(
      take(wider, reshape(kOnePerSecond, wider, state, later), later + 100ms - 1ns, 97).allowed());
}

TEST(Bucket, RefillsHoweverOftenItsRateChanges) {
  BucketShape shape = make_bucket(1000, 1000s, 1).value();
  BucketShape other = make_bucket(1001, 1000s, 1).value();
  BucketState state;
  int admitted = 0;
  for (Instant now = kStart; now < kStart + 100s; now = now + 100ms) {
    const BucketStep step = take(shape, state, now, 1);
    state = reshape(shape, other, step.state, now);
    std::swap(shape, other);
    admitted += step.allowed() ? 1 : 0;
  }
  EXPECT_EQ(admitted, 100);
}

TEST(Bucket, KeepsFractionsInUseWhenOnlyItsBurstChanges) {
  const BucketShape wider = make_bucket(1, 1s, 100).value();
  const BucketState state = taken(kOnePerSecond, kStart, 4);

  EXPECT_EQ(reshape(kOnePerSecond, wider, state, kStart + 500ms), state);
}

TEST(Bucket, TurnsUseAboveANewBurstIntoDebt) {
  const BucketShape narrower = make_bucket(1, 1s, 2).value();
  const BucketState state = taken(kOnePerSecond, kStart, 5);

  EXPECT_EQ(level(narrower, reshape(kOnePerSecond, narrower, state, kStart), kStart), -3);
}

TEST(Bucket, StaysFullWhenItsShapeChanges) {
  const BucketShape wider = make_bucket(10, 1s, 100).value();

  EXPECT_EQ(level(wider, reshape(kOnePerSecond, wider, kFull, kStart), kStart), 100);
}

// Time running backwards.

// What it has gained until then it has not gained before.
TEST(Bucket, IsNoFullerAtAnEarlierInstantForWhatIsGivenBackWhenItIsFull) {
  const BucketState used = take(kOnePerSecond, BucketState{}, kStart, 5).state;

  EXPECT_EQ(level(kOnePerSecond, give_back(kOnePerSecond, used, kStart + 6s, 1), kStart + 1s), 1);
  EXPECT_EQ(level(kOnePerSecond, give_back(kOnePerSecond, used, kStart + 4s, 3), kStart + 1s), 2);
  EXPECT_EQ(level(kOnePerSecond, give_back(kOnePerSecond, used, kStart + 4s, 3), kStart + 4s), 5);
}

TEST(TimedBucket, CountsAnEarlierInstantAsNoTimePassed) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart + 10s, 2).state;

  EXPECT_TRUE(take(kOnePerSecond, timed, kStart, 3).allowed());
  EXPECT_FALSE(take(kOnePerSecond, timed, kStart, 4).allowed());
}

TEST(TimedBucket, PromisesFromTheLastChargeOn) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart + 10s, 5).state;

  EXPECT_EQ(take(kOnePerSecond, timed, kStart, 1).check.earliest, kStart + 11s);
}

TEST(TimedBucket, RefillsOnceForTheSameTime) {
  TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart, 5).state;
  timed = take(kOnePerSecond, timed, kStart + 2s, 2).state;
  timed = take(kOnePerSecond, timed, kStart + 1s, 1).state;

  EXPECT_FALSE(take(kOnePerSecond, timed, kStart + 3s - 1ns, 1).allowed());
  EXPECT_TRUE(take(kOnePerSecond, timed, kStart + 3s, 1).allowed());
}

TEST(TimedBucket, CountsAnEarlierInstantAsNoTimePassedWhateverIsDone) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart + 10s, 2).state;

  EXPECT_EQ(level(kOnePerSecond, timed, kStart), 3);
  EXPECT_EQ(book(kOnePerSecond, timed, kStart, 4).check.earliest, kStart + 11s);
  EXPECT_EQ(debit(kOnePerSecond, timed, kStart, 5).check.earliest, kStart + 12s);
  EXPECT_EQ(level(kOnePerSecond, debit(kOnePerSecond, timed, kStart, 5).state, kStart + 10s), -2);
  EXPECT_EQ(level(kOnePerSecond, give_back(kOnePerSecond, timed, kStart, 1), kStart), 4);
  EXPECT_EQ(give_back(kOnePerSecond, timed, kStart, 1).charged_at, kStart + 10s);
}

TEST(TimedBucket, KeepsItsStateWhenItDenies) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart, 5).state;
  const Step<TimedBucket> step = take(kOnePerSecond, timed, kStart + 1s - 1ns, 1);

  EXPECT_EQ(step.state.bucket, timed.bucket);
  EXPECT_EQ(step.state.charged_at, timed.charged_at);
}

TEST(TimedBucket, TakesStrictlyFromTheInstantOfTheLastCharge) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart, 1).state;

  EXPECT_FALSE(take_strictly(kOnePerSecond, timed, kStart - 1ns, 1).ok());
  EXPECT_TRUE(take_strictly(kOnePerSecond, timed, kStart, 1).ok());
}

TEST(TimedBucket, AnswersStrictlyAsItTakes) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, kStart, 4).state;

  EXPECT_EQ(take_strictly(kOnePerSecond, timed, kStart, 2).value().check,
            take(kOnePerSecond, timed, kStart, 2).check);
}

TEST(TimedBucket, NamesBothInstantsWhenTimeRunsBackwards) {
  const TimedBucket timed = take(kOnePerSecond, TimedBucket{}, Instant{2'000}, 1).state;
  const Result<Step<TimedBucket>> result = take_strictly(kOnePerSecond, timed, Instant{1'999}, 1);

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("time is 1999 ns"), HasSubstr("2000 ns"),
                                            HasSubstr("pass instants that never decrease")));
}

// Making a shape.

TEST(MakeBucket, ReducesTheRateToLowestTerms) {
  const BucketShape shape = make_bucket(50, 1s, 7).value();

  EXPECT_EQ(shape.num, 1);
  EXPECT_EQ(shape.den, 20'000'000);
  EXPECT_EQ(shape.burst, 7);
}

TEST(MakeBucket, AcceptsEveryTermAtItsBounds) {
  EXPECT_TRUE(make_bucket(1, 1ns, 1).ok());
  EXPECT_TRUE(make_bucket(kTermMax, 1ns, kTermMax).ok());
  EXPECT_TRUE(make_bucket(kTermMax, Duration{kTermMax}, 1).ok());
}

TEST(MakeBucket, RefusesARateAmountOutOfBounds) {
  for (const std::int64_t amount : {std::int64_t{0}, std::int64_t{-1}, kTermMax + 1}) {
    const Result<BucketShape> result = make_bucket(amount, 1s, 1);

    ASSERT_FALSE(result.ok()) << amount;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("rate amount is " + std::to_string(amount) + ","),
                      HasSubstr("between 1 and 2^62"), HasSubstr("write a rate such as '100/s'")));
  }
}

TEST(MakeBucket, RefusesARatePeriodOutOfBounds) {
  for (const std::int64_t period_ns : {std::int64_t{0}, std::int64_t{-1}, kTermMax + 1}) {
    const Result<BucketShape> result = make_bucket(kTermMax, Duration{period_ns}, 1);

    ASSERT_FALSE(result.ok()) << period_ns;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("rate period is " + std::to_string(period_ns) + " ns,"),
                      HasSubstr("between 1 ns and 2^62 ns"),
                      HasSubstr("write a duration such as '1s' or '15m'")));
  }
}

TEST(MakeBucket, RefusesABurstOutOfBounds) {
  for (const std::int64_t burst : {std::int64_t{0}, std::int64_t{-1}, kTermMax + 1}) {
    const Result<BucketShape> result = make_bucket(kTermMax, 1ns, burst);

    ASSERT_FALSE(result.ok()) << burst;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("burst is " + std::to_string(burst) + ","),
                      HasSubstr("between 1 and 2^62"), HasSubstr("largest cost of one request")));
  }
}

TEST(MakeBucket, RefusesAFillOfTwoToTheSixtyTwoNanoseconds) {
  EXPECT_TRUE(make_bucket(1, Duration{kTermMax - 1}, 1).ok());
  EXPECT_FALSE(make_bucket(1, Duration{kTermMax}, 1).ok());
}

TEST(MakeBucket, MeasuresTheFillWithTheWholeBurst) {
  EXPECT_TRUE(make_bucket(3, Duration{kTermMax / 4}, 11).ok());
  EXPECT_FALSE(make_bucket(3, Duration{kTermMax / 4}, 12).ok());
}

TEST(MakeBucket, NamesTheBurstAndTheRateOfAFillTooLong) {
  const Result<BucketShape> result = make_bucket(2, Duration{kTermMax}, 9);

  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("a burst of 9 at 2 per 4611686018427387904 ns"), HasSubstr("2^62 ns"),
                    HasSubstr("write a smaller burst or a higher rate")));
}

}  // namespace bucket_test
}  // namespace weir::meter
