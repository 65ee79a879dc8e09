// What a book makes of reports, other policies and refusals.

#include "tests/system/contract/support.h"
#include "weir/system/contract/book.h"

namespace weir::system::contract {
namespace {

using LeftOrNone = std::vector<std::optional<std::int64_t>>;

std::int64_t left_in(const Book& book, std::size_t policy, Instant now) {
  return left_micro(book.policies()[policy], book.standing({0, 0}, now)[policy].level_fs);
}

std::uint64_t reserve(Book& book, const Costs& costs, Instant now) {
  const Offer offer = book.offer(costs, now);
  EXPECT_EQ(offer.never, Never::kNot);
  return *book.grant(costs, offer.start, offer.start + 1h);
}

// 100 units, one a second; 10 are left.
struct BookWithAnEarlyEnd : ::testing::Test {
  BookWithAnEarlyEnd() {
    book.set_left(0, 10 * kMicro);
    reserve(book, units(10), kStart);
    second = reserve(book, units(10), kStart);
    EXPECT_EQ(book.last_start(), kStart + 10s);
  }
  // The second makes place for one that starts before it.
  std::uint64_t replace_second() {
    EXPECT_EQ(book.release(second, kStart), HoldState::kCancelled);
    const std::uint64_t third = reserve(book, units(1), kStart);
    EXPECT_EQ(book.last_start(), kStart + 1s);
    return third;
  }
  Book book{{units_per(100, 100s)}, 0s, kStart};
  std::uint64_t second = 0;
};

TEST_F(BookWithAnEarlyEnd, ReplaysWhatComesAfterACancelledReservation) {
  replace_second();
  book.change({units_per(100, 100s), requests_per(100, 10s)}, kStart + 5s);
  EXPECT_EQ(left_in(book, 0, kStart + 5s), 4 * kMicro) << "10 - 10 + 5 s - 1";
}

TEST_F(BookWithAnEarlyEnd, LosesNoDebitThatIsFinal) {
  ASSERT_EQ(book.commit(replace_second(), std::nullopt, kStart + 2s), HoldState::kSettled);
  book.change({units_per(100, 100s), requests_per(100, 10s)}, kStart + 5s);
  EXPECT_EQ(left_in(book, 0, kStart + 5s), 4 * kMicro);
  book.refresh(LeftOrNone{std::nullopt, 90 * kMicro}, kStart + 5s);
  EXPECT_EQ(left_in(book, 0, kStart + 5s), 4 * kMicro) << "of a policy that was not reported";
}

TEST_F(BookWithAnEarlyEnd, KeepsADebitThatWasCommittedBeforeItsStart) {
  ASSERT_EQ(book.commit(second, std::nullopt, kStart + 1s), HoldState::kSettled);
  book.change({units_per(100, 100s), requests_per(100, 10s)}, kStart + 5s);
  EXPECT_EQ(book.offer(units(10), kStart + 5s).start, kStart + 20s);
  // A service that reports afterwards has counted it: its work is done.
  book.refresh(LeftOrNone{3 * kMicro, std::nullopt}, kStart + 6s);
  EXPECT_EQ(left_in(book, 0, kStart + 10s), -3 * kMicro) << "3 + 4 s, less the first";
}

// --- reports

TEST(BookReport, DoesNotDebitAgainWhatHadStartedWhenTheServiceWasAsked) {
  Book book({units_per(100, 10s)}, 100ms, kStart);
  reserve(book, units(40), kStart);
  book.refresh(LeftOrNone{60 * kMicro}, kStart + 100ms, kStart + 100ms);
  EXPECT_EQ(left_in(book, 0, kStart + 100ms), 20 * kMicro) << "it may start as late as that";
  book.refresh(LeftOrNone{60 * kMicro}, kStart + 101ms, kStart + 101ms);
  EXPECT_EQ(left_in(book, 0, kStart + 101ms), 60 * kMicro);
  book.refresh(LeftOrNone{60 * kMicro}, kStart + 200ms);
  EXPECT_EQ(left_in(book, 0, kStart + 200ms), 20 * kMicro) << "nobody says when it was asked";
}

TEST(BookReport, GivesNothingBackThatItsServiceMayHaveRefilled) {
  Book book({units_per(100, 10s)}, 0s, kStart);
  const std::uint64_t running = reserve(book, units(40), kStart);
  book.refresh(LeftOrNone{80 * kMicro}, kStart + 5s, kStart + 5s);
  ASSERT_EQ(book.commit(running, units(0), kStart + 5s), HoldState::kSettled);
  EXPECT_EQ(left_in(book, 0, kStart + 5s), 80 * kMicro);
}

TEST(BookReport, TakesAnOverageOfWhatWasCounted) {
  Book book({units_per(100, 10s)}, 0s, kStart);
  const std::uint64_t running = reserve(book, units(40), kStart);
  book.refresh(LeftOrNone{60 * kMicro}, kStart + 1s, kStart + 1s);
  ASSERT_EQ(book.commit(running, units(45), kStart + 1s), HoldState::kSettled);
  EXPECT_EQ(left_in(book, 0, kStart + 1s), 55 * kMicro);
}

TEST(BookReport, KnowsWhatWasCountedUnderPoliciesInAnotherOrder) {
  Book book({units_per(100, 10s), requests_per(5, 10s)}, 0s, kStart);
  const std::uint64_t running = reserve(book, units(40), kStart);
  book.refresh(LeftOrNone{60 * kMicro, std::nullopt}, kStart + 1s, kStart + 1s);
  book.change({requests_per(5, 10s), units_per(100, 10s)}, kStart + 1s);
  EXPECT_EQ(left_in(book, 1, kStart + 1s), 60 * kMicro);
  ASSERT_EQ(book.release(running, kStart + 1s), HoldState::kCancelled);
  EXPECT_EQ(left_in(book, 1, kStart + 1s), 60 * kMicro);
  EXPECT_EQ(left_in(book, 0, kStart + 1s), 5 * kMicro) << "nobody had counted the request";
}

TEST(BookReport, ThatNamesNoPolicyTeachesNothing) {
  Book book({requests_per(5, 10s)}, 0s, kStart);
  book.hold_off(30s, kStart);
  const std::uint64_t before = book.changes();
  book.refresh(LeftOrNone{std::nullopt}, kStart + 1s, kStart + 1s);
  EXPECT_EQ(book.offer({}, kStart + 1s).start, kStart + 30s);
  EXPECT_EQ(book.changes(), before);
}

// --- refusals

// 1000 units a minute, 400,000 in 31 days of which half are left.
struct BookRefusal : ::testing::Test {
  BookRefusal() { book.set_left(1, kHalf); }
  static constexpr std::int64_t kHalf = 200'000 * kMicro;
  Book book{{units_per(1000, 1min), units_per(400'000, 744h)}, 0s, kStart};
};

TEST_F(BookRefusal, BlamesThePolicyThatRecoversSoonest) {
  // 0.64 units take 38.4 ms, which a service rounds up to 39.
  book.lower(units(0.64), 39ms, std::nullopt, kStart, 1ms);
  EXPECT_EQ(left_in(book, 0, kStart), 0);
  EXPECT_EQ(left_in(book, 1, kStart), kHalf);
}

TEST_F(BookRefusal, KnowsThatAWaitInSecondsIsRoundedUpByUpToOne) {
  book.lower(units(0.64), 1s, std::nullopt, kStart, 1s);
  EXPECT_EQ(left_in(book, 0, kStart), 0);
  EXPECT_EQ(left_in(book, 1, kStart), kHalf);
}

TEST_F(BookRefusal, ThatNamesNoPolicyTakesNoMoreThanAnHourBrings) {
  // Only the larger policy explains 30 s for 10 units; or it was something else.
  book.lower(units(10), 30s, std::nullopt, kStart, 1ms);
  EXPECT_EQ(left_in(book, 0, kStart), 1000 * kMicro);
  const std::int64_t an_hour = 3600 * kMicro / 6696 * 1000;
  EXPECT_NEAR(static_cast<double>(left_in(book, 1, kStart)), static_cast<double>(kHalf - an_hour),
              static_cast<double>(kMicro));
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 30s);
}

TEST_F(BookRefusal, ThatIsRepeatedTeachesMore) {
  for (int i = 0; i < 372; ++i) book.lower(units(10), 30s, std::nullopt, kStart, 1ms);
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart + 30s);
  EXPECT_LT(left_in(book, 1, kStart), 10 * kMicro);
}

TEST_F(BookRefusal, OfANamedPolicyIsBelieved) {
  book.lower(units(1000), 6'600s, 1, kStart, 1ms);
  EXPECT_EQ(book.offer(units(1000), kStart).start, kStart + 6'600s) << "an hour is not the most";
  EXPECT_EQ(book.offer(units(10), kStart).start, kStart);
}

TEST_F(BookRefusal, WithoutItsCostLowersNothing) {
  book.lower(units(0), 1s, 1, kStart, 1ms);
  EXPECT_EQ(left_in(book, 1, kStart), kHalf);
  EXPECT_EQ(book.offer(units(0), kStart).start, kStart + 1s);
}

TEST_F(BookRefusal, OfLessThanTheWaitLowersNothing) {
  book.lower(units(0.1), 1s, 1, kStart, 1ms);  // 0.67 s
  EXPECT_EQ(left_in(book, 1, kStart), kHalf);
  EXPECT_EQ(book.offer(units(0.1), kStart).start, kStart + 1s);
}

// --- room

TEST(BookRoom, IsMadeByTheOldestIfItHasStarted) {
  Book book({}, 100ms, kStart);
  for (std::size_t i = 0; i < kReservationsMax; ++i) {
    ASSERT_TRUE(book.grant({}, kStart, kStart + 1h));
  }
  book.make_room(kStart + 100ms);
  EXPECT_FALSE(book.has_room()) << "it may start as late as that";
  book.make_room(kStart + 101ms);
  EXPECT_TRUE(book.has_room());
  EXPECT_EQ(book.outstanding(), kReservationsMax - 1);
  book.make_room(kStart + 101ms);
  EXPECT_EQ(book.outstanding(), kReservationsMax - 1) << "no more than is needed";
}

}  // namespace
}  // namespace weir::system::contract
