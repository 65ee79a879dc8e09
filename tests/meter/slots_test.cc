#include "weir/meter/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/meter/support.h"

namespace weir::meter {
namespace slots_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr SlotsShape kThree{3, 2, 1'000};
constexpr Instant kNow{500};

// Taking.

TEST(Slots, AdmitTheirLimitAndNotOneMore) {
  const SlotsState state = take(kThree, {}, kNow, 2).state;

  EXPECT_TRUE(take(kThree, state, kNow, 1).allowed());
  EXPECT_FALSE(take(kThree, state, kNow, 2).allowed());
}

TEST(Slots, AdmitAtTheInstantTheyAreAsked) {
  EXPECT_EQ(take(kThree, {}, kNow, 3).check, (Check{Verdict::kAllowed, kNow, 0}));
}

TEST(Slots, DenyWithoutKnowingWhen) {
  const SlotsState state = take(kThree, {}, kNow, 2).state;

  EXPECT_EQ(take(kThree, state, kNow, 3).check, (Check{Verdict::kDenied, kForever, 2}));
}

TEST(Slots, NeverAdmitMoreThanTheirLimit) {
  const SlotsState state = take(kThree, {}, kNow, 2).state;

  EXPECT_EQ(take(kThree, state, kNow, 3).check.verdict, Verdict::kDenied);
  EXPECT_EQ(take(kThree, state, kNow, 4).check, (Check{Verdict::kNever, kForever, 3}));
}

TEST(Slots, NeverAdmitAnythingUnderALimitOfNothing) {
  constexpr SlotsShape none{0, 0, 1};

  EXPECT_EQ(take(none, {}, kNow, 1).check, (Check{Verdict::kNever, kForever, 1}));
  EXPECT_TRUE(take(none, {}, kNow, 0).allowed());
}

TEST(Slots, KeepTheirStateWhenTheyRefuse) {
  const SlotsState state = take(kThree, {}, kNow, 2).state;

  EXPECT_EQ(take(kThree, state, kNow, 2).state, state);
  EXPECT_EQ(take(kThree, state, kNow, 4).state, state);
}

TEST(Slots, AdmitACostOfNothingWhenFull) {
  const SlotsState state = take(kThree, {}, kNow, 3).state;

  EXPECT_EQ(take(kThree, state, kNow, 0).check, (Check{Verdict::kAllowed, kNow, 0}));
  EXPECT_EQ(take(kThree, state, kNow, 0).state, state);
}

TEST(Slots, ComputeAtCompileTime) {
  constexpr SlotsState state = take(kThree, SlotsState{}, kNow, 3).state;
  static_assert(!take(kThree, state, kNow, 1).allowed());
  static_assert(take(kThree, give_back(state, 1), kNow, 1).allowed());
}

// Giving back.

TEST(Slots, AdmitAgainWhatWasGivenBack) {
  const SlotsState state = give_back(take(kThree, {}, kNow, 3).state, 2);

  EXPECT_TRUE(take(kThree, state, kNow, 2).allowed());
  EXPECT_FALSE(take(kThree, state, kNow, 3).allowed());
}

TEST(Slots, TakeBackNoMoreThanIsInFlight) {
  const SlotsState state = give_back(take(kThree, {}, kNow, 2).state, kTermMax);

  EXPECT_EQ(level(kThree, state), 3);
}

TEST(Slots, AreInitialWhenNothingIsInFlightOrQueued) {
  EXPECT_TRUE(is_initial(SlotsState{}));
  EXPECT_FALSE(is_initial(take(kThree, {}, kNow, 1).state));
  EXPECT_FALSE(is_initial(enqueue(kThree, {}).state));
  EXPECT_TRUE(is_initial(give_back(take(kThree, {}, kNow, 1).state, 1)));
}

// A limit that changes.

TEST(Slots, AdmitMoreAtOnceWhenTheLimitIsRaised) {
  constexpr SlotsShape five{5, 2, 1'000};
  const SlotsState state = take(kThree, {}, kNow, 3).state;

  EXPECT_TRUE(take(five, state, kNow, 2).allowed());
  EXPECT_FALSE(take(five, state, kNow, 3).allowed());
}

TEST(Slots, RememberTheDebtOfALoweredLimit) {
  constexpr SlotsShape one{1, 2, 1'000};
  const SlotsState state = take(kThree, {}, kNow, 3).state;

  EXPECT_EQ(level(one, state), -2);
  EXPECT_EQ(take(one, state, kNow, 1).check, (Check{Verdict::kDenied, kForever, 3}));
}

TEST(Slots, StartNothingUntilADebtHasEnded) {
  constexpr SlotsShape one{1, 2, 1'000};
  const SlotsState state = take(kThree, {}, kNow, 3).state;

  EXPECT_FALSE(take(one, give_back(state, 2), kNow, 1).allowed());
  EXPECT_TRUE(take(one, give_back(state, 3), kNow, 1).allowed());
}

// The queue.

TEST(Slots, QueueUpToTheirBoundAndAreOverloadedBeyond) {
  const SlotsStep first = enqueue(kThree, {});
  const SlotsStep second = enqueue(kThree, first.state);

  EXPECT_EQ(second.check.verdict, Verdict::kQueued);
  EXPECT_EQ(second.state.queued, 2);
  EXPECT_EQ(enqueue(kThree, second.state).check.verdict, Verdict::kOverloaded);
  EXPECT_EQ(enqueue(kThree, second.state).state, second.state);
}

TEST(Slots, AreOverloadedAtOnceWithoutAQueue) {
  constexpr SlotsShape no_queue{3, 0, 1'000};

  EXPECT_EQ(enqueue(no_queue, {}).check.verdict, Verdict::kOverloaded);
}

TEST(Slots, QueueAgainOnceOneHasLeft) {
  SlotsState state = enqueue(kThree, enqueue(kThree, {}).state).state;
  state = dequeue(state);

  EXPECT_EQ(enqueue(kThree, state).check.verdict, Verdict::kQueued);
}

TEST(Slots, LoseNothingWhenNobodyWaits) { EXPECT_EQ(dequeue({}), SlotsState{}); }

TEST(Slots, CountTheQueueApartFromWhatIsInFlight) {
  const SlotsState state = enqueue(kThree, take(kThree, {}, kNow, 3).state).state;

  EXPECT_EQ(level(kThree, state), 0);
  EXPECT_EQ(dequeue(state).in_flight, 3);
  EXPECT_EQ(give_back(state, 3).queued, 1);
}

// Making a shape.

TEST(MakeSlots, KeepsWhatItIsGiven) { EXPECT_EQ(make_slots(3, 2, 1us).value(), kThree); }

TEST(MakeSlots, AcceptsEveryTermAtItsBounds) {
  EXPECT_TRUE(make_slots(0, 0, 1ns).ok());
  EXPECT_TRUE(make_slots(kTermMax, std::int64_t{1} << 31, Duration{kTermMax / 2}).ok());
}

TEST(MakeSlots, RefusesALimitOutOfBounds) {
  for (const std::int64_t limit : {std::int64_t{-1}, kTermMax + 1}) {
    const Result<SlotsShape> result = make_slots(limit, 0, 1s);

    ASSERT_FALSE(result.ok()) << limit;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(
        result.error().message,
        AllOf(HasSubstr("slots limit is " + std::to_string(limit) + ","),
              HasSubstr("between 0 and 2^62"), HasSubstr("write how many may run at once")));
  }
}

TEST(MakeSlots, RefusesAQueueOutOfBounds) {
  for (const std::int64_t queue : {std::int64_t{-1}, (std::int64_t{1} << 31) + 1}) {
    const Result<SlotsShape> result = make_slots(1, queue, 1s);

    ASSERT_FALSE(result.ok()) << queue;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("slots queue is " + std::to_string(queue) + ","),
                      HasSubstr("between 0 and 2^31"), HasSubstr("write how many may wait")));
  }
}

TEST(MakeSlots, RefusesAHoldOutOfBounds) {
  for (const std::int64_t hold_ns : {std::int64_t{0}, std::int64_t{-1}, kTermMax / 2 + 1}) {
    const Result<SlotsShape> result = make_slots(1, 0, Duration{hold_ns});

    ASSERT_FALSE(result.ok()) << hold_ns;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("slots hold is " + std::to_string(hold_ns) + " ns,"),
                      HasSubstr("between 1 ns and 2^61 ns"), HasSubstr("such as '60s'")));
  }
}

}  // namespace slots_test
}  // namespace weir::meter
