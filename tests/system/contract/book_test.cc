#include "weir/system/contract/book.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

// Five requests at once, one more each two seconds; 100 units, ten a second.
struct BookTest : ::testing::Test {
  Instant reserve(const Costs& costs, Instant now) {
    const Offer offer = book.offer(costs, now);
    EXPECT_EQ(offer.never, Never::kNot);
    number = *book.grant(costs, offer.start, offer.start + 1min);
    return offer.start;
  }

  Book book{{requests_per(5, 10s), units_per(100, 10s)}, 0s, kStart};
  std::uint64_t number = 0;
};

TEST_F(BookTest, StartsAtOnceWhileAllPoliciesHaveEnough) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(reserve(units(20), kStart), kStart);
  EXPECT_EQ(book.offer(units(1), kStart).start, kStart + 2s);
}

TEST_F(BookTest, WaitsForTheSlowestPolicyAndNamesIt) {
  reserve(units(100), kStart);
  EXPECT_EQ(book.offer(units(5), kStart).start, kStart + 500ms);
  EXPECT_EQ(book.offer(units(5), kStart).binding, 1u);
}

TEST_F(BookTest, LetsNobodyStartBeforeThoseWhoCameFirst) {
  reserve(units(100), kStart);
  EXPECT_EQ(reserve(units(100), kStart), kStart + 10s);
  EXPECT_EQ(reserve(units(0), kStart), kStart + 10s);
}

TEST_F(BookTest, CountsWhatAPolicyLosesWhileAnotherOneIsWaitedFor) {
  reserve(units(100), kStart);
  reserve(units(100), kStart);  // starts after 10 s, when the requests are full again
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reserve(units(0), kStart), kStart + 10s);
  // The documented rule would let it start with the others: it debited at the ask.
  EXPECT_EQ(reserve(units(0), kStart), kStart + 12s);
}

TEST_F(BookTest, SaysNeverToMoreThanAPolicyHolds) {
  const Offer offer = book.offer(units(100.000001), kStart);
  EXPECT_EQ(offer.never, Never::kExceedsCapacity);
  EXPECT_EQ(offer.binding, 1u);
  EXPECT_EQ(offer.start, kForever);
  EXPECT_EQ(book.offer(units(100), kStart).never, Never::kNot);
}

TEST(Book, SaysNeverWhenAFixedQuotaIsUsedUp) {
  Book book({units_per(10, 0s)}, 0s, kStart);
  ASSERT_TRUE(book.grant(units(7), kStart, kStart + 1s));
  EXPECT_EQ(book.offer(units(3), kStart).never, Never::kNot);
  EXPECT_EQ(book.offer(units(3.000001), kStart).never, Never::kExhausted);
}

TEST(Book, DoesNotLookAtAPolicyThatARequestDoesNotUse) {
  Book book({requests_per(5, 10s), units_per(10, 0s)}, 0s, kStart);
  ASSERT_TRUE(book.grant(units(10), kStart, kStart + 1s));
  EXPECT_EQ(book.offer(units(0), kStart).start, kStart);
}

TEST(Book, WithoutPoliciesStartsEverythingAtOnce) {
  const Book book({}, 0s, kStart);
  EXPECT_EQ(book.offer(units(1e9), kStart).start, kStart);
}

TEST(Book, TakesABanLiterally) {
  const Book book({*make_policy(Resource::kRequests, 0, 1min)}, 0s, kStart);
  EXPECT_EQ(book.offer({}, kStart).never, Never::kExceedsCapacity);
}

// --- ends

TEST_F(BookTest, GivesEverythingOfAReleasedReservationBack) {
  reserve(units(100), kStart);
  EXPECT_EQ(book.release(number, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.offer(units(100), kStart).start, kStart);
  EXPECT_EQ(book.outstanding(), 0u);
}

TEST_F(BookTest, GivesBackOnlyWhatTheServiceHas) {
  reserve(units(50), kStart);
  const std::uint64_t first = number;
  reserve(units(30), kStart + 10s);  // by then the units were full again
  ASSERT_EQ(book.release(first, kStart + 10s), HoldState::kCancelled);
  // Without the first the service has 100 - 30, not 100: the first had refilled.
  EXPECT_EQ(left_micro(book.policies()[1], book.standing({0, 0}, kStart + 10s)[1].level_fs),
            70 * kMicro);
}

TEST_F(BookTest, LetsTheNextOneStartWhenTheOneBeforeItIsReleased) {
  reserve(units(100), kStart);
  reserve(units(100), kStart);
  ASSERT_EQ(book.release(number, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.last_start(), kStart);
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 1s);
}

TEST_F(BookTest, ReplacesTheCostByTheActualOne) {
  reserve(units(100), kStart);
  EXPECT_EQ(book.commit(number, units(40), kStart), HoldState::kSettled);
  EXPECT_EQ(book.offer(units(60), kStart).start, kStart);
  EXPECT_EQ(book.offer(units(61), kStart).start, kStart + 100ms);
}

TEST_F(BookTest, TakesAnOverageAsADebt) {
  reserve(units(60), kStart);
  ASSERT_EQ(book.commit(number, units(130), kStart), HoldState::kSettled);
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 4s);
}

TEST_F(BookTest, EndsAReservationOnce) {
  reserve(units(100), kStart);
  const std::uint64_t first = number;
  reserve(units(0), kStart);
  ASSERT_EQ(book.release(number, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.commit(number, std::nullopt, kStart), HoldState::kCancelled);
  ASSERT_EQ(book.release(first, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.release(first, kStart), HoldState::kCancelled) << "told the same again";
  EXPECT_EQ(book.commit(first, std::nullopt, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.commit(77, std::nullopt, kStart), HoldState::kGone);
  EXPECT_EQ(book.release(0, kStart), HoldState::kGone);
}

TEST_F(BookTest, RemembersTheLastEndsAndNoMore) {
  reserve(units(0), kStart);
  const std::uint64_t first = number;
  book.commit(first, std::nullopt, kStart);
  for (std::size_t i = 1; i < kEndsMax; ++i) {
    book.commit(*book.grant({0, 0}, kStart, kStart + 1s), std::nullopt, kStart);
  }
  EXPECT_EQ(book.commit(first, std::nullopt, kStart), HoldState::kSettled);
  book.commit(*book.grant({0, 0}, kStart, kStart + 1s), std::nullopt, kStart);
  EXPECT_EQ(book.commit(first, std::nullopt, kStart), HoldState::kGone);
  EXPECT_EQ(book.commit(first + 1, std::nullopt, kStart), HoldState::kSettled);
}

TEST_F(BookTest, TakesAnotherJitter) {
  EXPECT_EQ(book.offer(units(100), kStart).start, kStart);
  book.set_jitter(100ms);
  EXPECT_EQ(book.offer(units(100), kStart).start, kStart + 100ms);
  book.set_jitter(Duration{0});
  EXPECT_EQ(book.offer(units(100), kStart + 100ms).start, kStart + 100ms);
}

TEST_F(BookTest, KeepsWhatAnExpiredReservationTook) {
  reserve(units(100), kStart);
  book.expire(kStart + 1min - 1ns);
  EXPECT_EQ(book.outstanding(), 1u);
  book.expire(kStart + 1min);
  EXPECT_EQ(book.outstanding(), 0u);
  EXPECT_EQ(book.release(number, kStart + 1min), HoldState::kGone);
  EXPECT_EQ(book.last_start(), kStart);
}

TEST_F(BookTest, ExpiresAReservationBehindALongerOne) {
  ASSERT_TRUE(book.grant(units(1), kStart, kStart + 1h));
  const auto shorter = book.grant(units(1), kStart, kStart + 1s);
  EXPECT_EQ(book.release(*shorter, kStart + 1s), HoldState::kGone);
  EXPECT_EQ(book.outstanding(), 1u);
}

// --- what the service says

TEST_F(BookTest, DebitsWhatIsOutstandingFromWhatTheServiceReports) {
  reserve(units(20), kStart);
  reserve(units(30), kStart);
  ASSERT_EQ(book.commit(number, std::nullopt, kStart), HoldState::kSettled);
  // The service has seen the one that is committed; of the other one it may not know.
  const std::optional<std::int64_t> left[] = {3 * kMicro, 60 * kMicro};
  book.refresh(left, kStart);
  EXPECT_EQ(book.offer(units(40), kStart).start, kStart);
  EXPECT_EQ(book.offer(units(41), kStart).start, kStart + 100ms);
}

TEST_F(BookTest, KeepsPromisesThroughARefresh) {
  for (int i = 0; i < 5; ++i) reserve(units(0), kStart);
  EXPECT_EQ(reserve(units(0), kStart), kStart + 2s);
  EXPECT_EQ(reserve(units(0), kStart), kStart + 4s);
  // The five have started and are committed; the service says so.
  for (std::uint64_t n = 1; n <= 5; ++n) {
    ASSERT_EQ(book.commit(n, std::nullopt, kStart), HoldState::kSettled);
  }
  const std::optional<std::int64_t> left[] = {0, 100 * kMicro};
  book.refresh(left, kStart);
  EXPECT_EQ(book.offer(units(0), kStart).start, kStart + 6s);
  EXPECT_EQ(book.outstanding(), 2u);
}

TEST_F(BookTest, GivesBackAReservationThatARefreshFound) {
  reserve(units(20), kStart);
  const std::optional<std::int64_t> left[] = {5 * kMicro, 100 * kMicro};
  book.refresh(left, kStart);
  ASSERT_EQ(book.release(number, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.offer(units(100), kStart).start, kStart);
}

TEST_F(BookTest, KeepsItsOwnCountOfAPolicyTheServiceDoesNotName) {
  reserve(units(20), kStart);
  const std::optional<std::int64_t> left[] = {5 * kMicro, std::nullopt};
  book.refresh(left, kStart);
  EXPECT_EQ(book.offer(units(80), kStart).start, kStart);
  EXPECT_EQ(book.offer(units(81), kStart).start, kStart + 100ms);
}

TEST_F(BookTest, KeepsWhatIsUsedWhenAPolicyChanges) {
  reserve(units(40), kStart);
  ASSERT_EQ(book.commit(number, std::nullopt, kStart), HoldState::kSettled);
  reserve(units(10), kStart);
  book.change({units_per(200, 10s), requests_per(5, 10s)}, kStart);
  EXPECT_EQ(book.offer(units(150), kStart).start, kStart);
  EXPECT_EQ(book.offer(units(151), kStart).start, kStart + 50ms);
  EXPECT_EQ(book.outstanding(), 1u);
  EXPECT_EQ(book.release(number, kStart), HoldState::kCancelled);
  EXPECT_EQ(book.offer(units(160), kStart).start, kStart);
}

TEST_F(BookTest, DebitsWhatIsOutstandingFromANewPolicy) {
  reserve(units(40), kStart);
  book.change({units_per(50, 1min)}, kStart);
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart);
  EXPECT_GT(book.offer(units(11), kStart).start, kStart);
}

// --- refusals that workers met

TEST_F(BookTest, WaitsAsLongAsTheServiceSaid) {
  book.lower(units(10), 600ms, std::nullopt, kStart);
  // Of requests two seconds bring one, of units ten bring one second: both explain 600
  // ms. Requests would have lost 4.3 of 5, units 96 of 100.
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 600ms);
  EXPECT_EQ(book.offer(units(10), kStart).binding, 0u);
}

TEST_F(BookTest, LowersThePolicyTheServiceNames) {
  book.lower(units(10), 600ms, 1, kStart);
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 600ms);
  EXPECT_EQ(book.offer(units(10), kStart).binding, 1u);
  EXPECT_EQ(book.offer(units(0), kStart).start, kStart);
}

TEST_F(BookTest, NeverRaisesAValue) {
  for (int i = 0; i < 5; ++i) reserve(units(0), kStart);
  book.lower(units(0), 1ms, 0, kStart);
  EXPECT_EQ(book.offer(units(0), kStart).start, kStart + 2s);
}

TEST_F(BookTest, WaitsEvenWhereNoPolicyExplainsIt) {
  book.lower(units(0), 30s, std::nullopt, kStart);  // a request takes two seconds
  EXPECT_EQ(book.offer(units(0), kStart).start, kStart + 30s);
}

TEST(Book, LearnsFromRefusalsAlone) {
  Book book({}, 0s, kStart);
  book.lower({}, 3398ms, std::nullopt, kStart);
  EXPECT_EQ(book.offer({}, kStart).start, kStart + 3398ms);
}

TEST(Book, ForgetsAWaitWhenTheServiceReportsAndNotWhenPoliciesChange) {
  Book book({}, 0s, kStart);
  book.lower({}, 30s, std::nullopt, kStart);
  book.change({requests_per(5, 10s)}, kStart);
  EXPECT_EQ(book.offer({}, kStart).start, kStart + 30s);
  const std::optional<std::int64_t> left[] = {kMicro};
  book.refresh(left, kStart);
  EXPECT_EQ(book.offer({}, kStart).start, kStart);
}

TEST(Book, DoesNotBelieveARetryAfterOfYears) {
  Book book({}, 0s, kStart);
  book.lower({}, 1000000h, std::nullopt, kStart);
  EXPECT_EQ(book.offer({}, kStart).start, kStart + kRetryAfterMax);
}

TEST_F(BookTest, RemembersABoundedNumberOfRefusals) {
  reserve(units(1), kStart);  // so that nothing is folded
  for (int i = 0; i < 3000; ++i) {
    const Instant now = kStart + 1min * i;
    ASSERT_TRUE(book.grant(units(1), now, now + 1000h));
    book.lower(units(50), 4s, 1, now);
  }
  EXPECT_GE(book.offer(units(50), kStart + 1min * 2999).start, kStart + 1min * 2999 + 4s);
}

// --- jitter

TEST(Book, KeepsTheRefillOfTheJitterInHand) {
  Book book({requests_per(10, 10s)}, 500ms, kStart);  // half a request
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(book.offer({}, kStart).start, kStart);
    ASSERT_TRUE(book.grant({}, kStart, kStart + 1s));
  }
  EXPECT_EQ(book.offer({}, kStart).start, kStart + 500ms);
}

TEST(Book, LetsACostOfTheWholeCapacityWaitForTheRest) {
  const Book book({units_per(10, 10s)}, 500ms, kStart);
  EXPECT_EQ(book.offer(units(9.5), kStart).start, kStart);
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 500ms);
}

TEST(Book, SurvivesAJitterLongerThanAPolicyTakesToFill) {
  Book book({requests_per(1, 10ms)}, 1s, kStart);
  const Offer offer = book.offer({}, kStart);
  EXPECT_EQ(offer.start, kStart + 10ms);
}

// --- bounds

TEST(Book, RefusesOneReservationMoreThanItRemembers) {
  Book book({}, 0s, kStart);
  for (std::size_t i = 0; i < kReservationsMax; ++i) {
    ASSERT_TRUE(book.grant({}, kStart, kStart + 1h));
  }
  EXPECT_FALSE(book.has_room());
  EXPECT_EQ(book.grant({}, kStart, kStart + 1h).error().code, ErrorCode::kExhausted);
  book.expire(kStart + 1h);
  EXPECT_TRUE(book.has_room());
}

// --- places

TEST(BookPlaces, StayInTheirTurnWithOtherCosts) {
  Book book({units_per(100, 10s)}, 0s, kStart);
  ASSERT_TRUE(book.grant(units(100), kStart, kStart));
  const std::uint64_t first = *book.take_place(units(10), kStart, kStart);
  const std::uint64_t second = *book.take_place(units(10), kStart, kStart);
  EXPECT_EQ(book.place(second)->start, kStart + 2s);
  book.change_place(first, units(30), kStart);
  EXPECT_EQ(book.place(first)->start, kStart + 3s);
  EXPECT_EQ(book.place(second)->start, kStart + 4s);
  book.change_place(first, units(101), kStart);
  EXPECT_FALSE(book.place(first)) << "it never fits";
  EXPECT_FALSE(book.take_over(first, kStart));
  book.settle_place(second, kStart);
  EXPECT_EQ(book.place(second)->start, kStart + 1s);
}

TEST(BookPlaces, GoBehindWhatWasGrantedAfterThemInTheirOrderWhenTheyMustStartLater) {
  Book book({units_per(100, 10s)}, 0s, kStart);
  ASSERT_TRUE(book.grant(units(100), kStart, kStart));
  const std::uint64_t first = *book.take_place(units(10), kStart, kStart);
  const std::uint64_t second = *book.take_place(units(10), kStart, kStart);
  const std::uint64_t told = *book.grant(units(60), kStart + 8s, kForever);
  const std::uint64_t third = *book.take_place(units(10), kStart, kStart);
  book.hold_off(1500ms, kStart);
  book.settle_places(kStart);
  EXPECT_EQ(book.reservations()[told - book.first_number()].start, kStart + 8s);
  // 20 are left at 8 s.
  EXPECT_EQ(book.place(first)->start, kStart + 8s);
  EXPECT_EQ(book.place(second)->start, kStart + 8s);
  EXPECT_EQ(book.place(third)->start, kStart + 9s);
  EXPECT_EQ(book.outstanding(), 5u) << "each place once";
}

}  // namespace
}  // namespace weir::system::contract
