#include "weir/meter/ticker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/meter/support.h"

namespace weir::meter {
namespace ticker_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr TickerShape kEveryTen{10, 1, 3, TickerStart::kFull};
constexpr TickerShape kEveryTenFromEmpty{10, 1, 3, TickerStart::kEmpty};
constexpr TickerShape kMicroTokens{10, kMicro, 3 * kMicro, TickerStart::kFull};

constexpr Instant at(std::int64_t ns) { return Instant{ns}; }

TickerState taken(const TickerShape& shape, Instant now, std::int64_t cost) {
  return take(shape, initial_ticker(shape, now), now, cost).state;
}

// Starting.

TEST(Ticker, StartsFullByChoice) {
  EXPECT_EQ(level(kEveryTen, initial_ticker(kEveryTen, at(1'234)), at(1'234)), 3);
}

TEST(Ticker, StartsEmptyByChoice) {
  EXPECT_EQ(level(kEveryTenFromEmpty, initial_ticker(kEveryTenFromEmpty, at(1'234)), at(1'234)), 0);
}

TEST(Ticker, TicksOnMultiplesOfTheIntervalWhenItStartsFull) {
  const TickerState state = taken(kEveryTen, at(1'234), 3);

  EXPECT_EQ(level(kEveryTen, state, at(1'239)), 0);
  EXPECT_EQ(level(kEveryTen, state, at(1'240)), 1);
}

TEST(Ticker, TicksFirstOneIntervalAfterItStartsEmpty) {
  const TickerState state = initial_ticker(kEveryTenFromEmpty, at(1'234));

  EXPECT_EQ(level(kEveryTenFromEmpty, state, at(1'243)), 0);
  EXPECT_EQ(level(kEveryTenFromEmpty, state, at(1'244)), 1);
}

// Ticking.

TEST(Ticker, GainsNothingBetweenTicks) {
  const TickerState state = taken(kEveryTen, at(0), 3);

  EXPECT_EQ(level(kEveryTen, state, at(10)), 1);
  EXPECT_EQ(level(kEveryTen, state, at(19)), 1);
  EXPECT_EQ(level(kEveryTen, state, at(20)), 2);
}

TEST(Ticker, GainsManyUnitsAtOneTick) {
  constexpr TickerShape shape{10, 4, 9, TickerStart::kFull};
  const TickerState state = taken(shape, at(0), 9);

  EXPECT_EQ(level(shape, state, at(10)), 4);
  EXPECT_EQ(level(shape, state, at(20)), 8);
  EXPECT_EQ(level(shape, state, at(30)), 9);
}

TEST(Ticker, HoldsNoMoreThanItsBurst) {
  EXPECT_EQ(level(kEveryTen, taken(kEveryTen, at(0), 1), kLastInstant), 3);
}

TEST(Ticker, KeepsItsPhaseWhileFull) {
  TickerState state = full_ticker(kEveryTen, at(0));
  state = take(kEveryTen, state, at(95), 3).state;  // the last tick was at 90

  EXPECT_FALSE(take(kEveryTen, state, at(99), 1).allowed());
  EXPECT_TRUE(take(kEveryTen, state, at(100), 1).allowed());
}

TEST(Ticker, KeepsTheOffsetOfItsPhaseWhileFull) {
  TickerState state = empty_ticker(at(4));
  state = take(kEveryTen, state, at(1'000'003), 3).state;  // ticks at 4, 14, 24, ...

  EXPECT_FALSE(take(kEveryTen, state, at(1'000'003), 1).allowed());
  EXPECT_TRUE(take(kEveryTen, state, at(1'000'004), 1).allowed());
}

TEST(Ticker, NamesItsNextTick) {
  const TickerState state = empty_ticker(at(4));

  EXPECT_EQ(next_tick(kEveryTen, state, at(13)), at(14));
  EXPECT_EQ(next_tick(kEveryTen, state, at(14)), at(24));
}

TEST(Ticker, CountsAnEarlierInstantAsNoTimePassed) {
  const TickerState state = taken(kEveryTen, at(100), 2);

  EXPECT_EQ(level(kEveryTen, state, at(50)), 1);
}

TEST(Ticker, TicksOnceForTheSameTime) {
  TickerState state = taken(kEveryTen, at(0), 3);
  state = take(kEveryTen, state, at(20), 2).state;
  state = take(kEveryTen, state, at(10), 0).state;

  EXPECT_EQ(level(kEveryTen, state, at(29)), 0);
  EXPECT_EQ(level(kEveryTen, state, at(30)), 1);
}

TEST(Ticker, ComputesAtCompileTime) {
  constexpr TickerState state = take(kEveryTen, full_ticker(kEveryTen, at(5)), at(5), 3).state;
  static_assert(!take(kEveryTen, state, at(9), 1).allowed());
  static_assert(take(kEveryTen, state, at(10), 1).allowed());
}

// Taking.

TEST(Ticker, AdmitsAtTheInstantItIsAsked) {
  EXPECT_EQ(take(kEveryTen, full_ticker(kEveryTen, at(7)), at(7), 3).check,
            (Check{Verdict::kAllowed, at(7), 0}));
}

TEST(Ticker, DeniesWithTheTickAtWhichTheCostFits) {
  const TickerState state = taken(kEveryTen, at(7), 3);

  EXPECT_EQ(take(kEveryTen, state, at(7), 2).check, (Check{Verdict::kDenied, at(20), 2}));
}

TEST(Ticker, DeniesUntilTheTickThatCompletesTheCost) {
  constexpr TickerShape shape{10, 4, 9, TickerStart::kFull};
  const TickerState state = taken(shape, at(0), 9);

  EXPECT_EQ(take(shape, state, at(0), 8).check.earliest, at(20));
  EXPECT_EQ(take(shape, state, at(0), 9).check.earliest, at(30));
}

TEST(Ticker, AdmitsTheWholeBurstAndNeverMore) {
  const TickerState state = full_ticker(kEveryTen, at(0));

  EXPECT_EQ(take(kEveryTen, state, at(0), 3).check.verdict, Verdict::kAllowed);
  EXPECT_EQ(take(kEveryTen, state, at(0), 4).check, (Check{Verdict::kNever, kForever, 1}));
}

TEST(Ticker, KeepsItsStateWhenItRefuses) {
  const TickerState state = taken(kEveryTen, at(7), 3);

  EXPECT_EQ(take(kEveryTen, state, at(25), 3).state, state);
  EXPECT_EQ(take(kEveryTen, state, at(25), 4).state, state);
}

TEST(Ticker, AdmitsACostOfNothingEvenInDebt) {
  const TickerState state = debit(kEveryTen, full_ticker(kEveryTen, at(0)), at(0), 9);

  EXPECT_EQ(take(kEveryTen, state, at(15), 0).check, (Check{Verdict::kAllowed, at(15), 0}));
  EXPECT_EQ(take(kEveryTen, state, at(15), 0).state, state);
}

// Settling.

TEST(Ticker, PaysOffADebtBeforeItAdmits) {
  const TickerState state = debit(kEveryTen, full_ticker(kEveryTen, at(0)), at(0), 5);

  EXPECT_EQ(level(kEveryTen, state, at(0)), -2);
  EXPECT_FALSE(take(kEveryTen, state, at(29), 1).allowed());
  EXPECT_TRUE(take(kEveryTen, state, at(30), 1).allowed());
}

TEST(Ticker, GivesBackAFractionOfAToken) {
  const TickerState spent = taken(kMicroTokens, at(0), 3 * kMicro);
  const TickerState state = give_back(kMicroTokens, spent, at(5), 250'000);

  EXPECT_TRUE(take(kMicroTokens, state, at(5), 250'000).allowed());
  EXPECT_FALSE(take(kMicroTokens, state, at(5), 250'001).allowed());
}

TEST(Ticker, GivesBackUpToTheBurst) {
  const TickerState spent = taken(kMicroTokens, at(0), kMicro);
  const auto after = [&](std::int64_t amount) {
    return level(kMicroTokens, give_back(kMicroTokens, spent, at(5), amount), at(5));
  };

  EXPECT_EQ(after(kMicro - 1), 3 * kMicro - 1);
  EXPECT_EQ(after(kMicro), 3 * kMicro);
  EXPECT_EQ(after(kMicro + 1), 3 * kMicro);
  EXPECT_EQ(after(kTermMax), 3 * kMicro);
}

TEST(Ticker, CountsTheTicksBeforeItGivesBack) {
  const TickerState spent = taken(kEveryTen, at(0), 3);
  const TickerState state = give_back(kEveryTen, spent, at(25), 2);

  EXPECT_EQ(level(kEveryTen, state, at(25)), 3);
  EXPECT_EQ(level(kEveryTen, state, at(30)), 3);
}

// Changing shape.

TEST(Ticker, CarriesTheElapsedTimeToALongerInterval) {
  constexpr TickerShape slower{20, 1, 3, TickerStart::kFull};
  const TickerState state = reshape(kEveryTen, slower, empty_ticker(at(0)), at(7));

  EXPECT_FALSE(take(slower, state, at(19), 1).allowed());
  EXPECT_TRUE(take(slower, state, at(20), 1).allowed());
}

TEST(Ticker, CarriesTheElapsedTimeToAShorterInterval) {
  constexpr TickerShape faster{5, 1, 3, TickerStart::kFull};
  const TickerState state = reshape(kEveryTen, faster, empty_ticker(at(0)), at(7));

  EXPECT_EQ(level(faster, state, at(9)), 1);  // at 5
  EXPECT_EQ(level(faster, state, at(10)), 2);
}

TEST(Ticker, CountsTheTicksOfTheOldIntervalFirst) {
  constexpr TickerShape slower{1'000, 1, 3, TickerStart::kFull};
  const TickerState state = reshape(kEveryTen, slower, empty_ticker(at(0)), at(25));

  EXPECT_EQ(level(slower, state, at(25)), 2);
  EXPECT_EQ(next_tick(slower, state, at(25)), at(1'020));
}

TEST(Ticker, KeepsItsTokensUpToANewBurst) {
  constexpr TickerShape narrower{10, 1, 2, TickerStart::kFull};
  constexpr TickerShape wider{10, 1, 9, TickerStart::kFull};
  const TickerState state = full_ticker(kEveryTen, at(0));

  EXPECT_EQ(level(narrower, reshape(kEveryTen, narrower, state, at(5)), at(5)), 2);
  EXPECT_EQ(level(wider, reshape(kEveryTen, wider, state, at(5)), at(5)), 3);
}

TEST(Ticker, KeepsItsDebtWhenItsShapeChanges) {
  constexpr TickerShape wider{10, 1, 9, TickerStart::kFull};
  const TickerState state = debit(kEveryTen, full_ticker(kEveryTen, at(0)), at(0), 8);

  EXPECT_EQ(level(wider, reshape(kEveryTen, wider, state, at(5)), at(5)), -5);
}

// Being forgotten.

TEST(Ticker, IsInitialFromTheTickThatFillsIt) {
  const TickerState state = taken(kEveryTen, at(0), 2);

  EXPECT_FALSE(is_initial(kEveryTen, state, at(19)));
  EXPECT_TRUE(is_initial(kEveryTen, state, at(20)));
}

TEST(Ticker, IsNeverInitialOutsideTheEpochsPhase) {
  EXPECT_FALSE(is_initial(kEveryTen, empty_ticker(at(4)), at(1'000)));
  EXPECT_TRUE(is_initial(kEveryTen, empty_ticker(at(10)), at(1'000)));
}

TEST(Ticker, IsNeverInitialWhenItStartsEmpty) {
  EXPECT_FALSE(is_initial(kEveryTenFromEmpty, empty_ticker(at(0)), at(0)));
  EXPECT_FALSE(is_initial(kEveryTenFromEmpty, empty_ticker(at(0)), at(1'000)));
}

// The interval of a rate.

TEST(TickInterval, RoundsToTheNearestNanosecondAndATieToEven) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  struct Row {
    std::int64_t period_ns, amount, interval_ns;
  };
  for (const Row& row : {
           Row{1'000'000'000, 3, 333'333'333}, Row{2'000'000'000, 3, 666'666'667},
           Row{1'000'000'000, 4, 250'000'000}, Row{9, 4, 2},  // 2.25
           Row{10, 4, 2},                                     // 2.5, a tie
           Row{11, 4, 3},                                     // 2.75
           Row{13, 4, 3},                                     // 3.25
           Row{14, 4, 4},                                     // 3.5, a tie
           Row{15, 4, 4},                                     // 3.75
           Row{3, 2, 2},                                      // 1.5, a tie
           Row{1, 2, 0},                                      // 0.5, a tie
           Row{1, 1, 1}, Row{most, 1, most},
           Row{most, 2, most / 2 + 1},                      // a tie above an odd number
           Row{most - 2, 2, most / 2 - 1},                  // a tie above an even one
           Row{most, most, 1}, Row{most / 2 + 1, most, 1},  // just above a half
           Row{most / 2, most, 0},                          // just below
       }) {
    EXPECT_EQ(tick_interval_ns(Duration{row.period_ns}, row.amount), row.interval_ns)
        << row.period_ns << " ns / " << row.amount;
  }
}

TEST(TickInterval, IsNothingWhenThereIsNothingToSpread) {
  EXPECT_EQ(tick_interval_ns(1s, 0), 0);
  EXPECT_EQ(tick_interval_ns(0s, 5), 0);
}

// Making a shape.

TEST(MakeTicker, KeepsWhatItIsGiven) {
  EXPECT_EQ(make_ticker(2, 10ns, 7, TickerStart::kEmpty).value(),
            (TickerShape{10, 2, 7, TickerStart::kEmpty}));
}

// Booking.

TEST(Ticker, BooksTheTickThatBringsEnough) {
  const TickerState empty = taken(kEveryTen, at(1'000), 3);
  const TickerStep first = book(kEveryTen, empty, at(1'005), at(1'005), 2);
  EXPECT_TRUE(first.allowed());
  EXPECT_EQ(first.check.earliest, at(1'020));
  EXPECT_EQ(level(kEveryTen, first.state, at(1'005)), -2);
  const TickerStep behind = book(kEveryTen, first.state, at(1'005), at(1'005), 3);
  EXPECT_EQ(behind.check.earliest, at(1'050));
  EXPECT_EQ(level(kEveryTen, behind.state, at(1'050)), 0);
}

TEST(Ticker, BooksALaterStartAndLeavesItsCostThere) {
  const TickerState full = full_ticker(kEveryTen, at(1'000));
  const TickerStep booked = book(kEveryTen, full, at(1'000), at(1'100), 2);
  EXPECT_EQ(booked.check.earliest, at(1'100));
  EXPECT_EQ(level(kEveryTen, booked.state, at(1'089)), -1);
  EXPECT_EQ(level(kEveryTen, booked.state, at(1'090)), 0);
  EXPECT_EQ(level(kEveryTen, booked.state, at(1'100)), 1);
}

TEST(Ticker, BooksNothingThatItCannotHold) {
  const TickerState full = full_ticker(kEveryTen, at(1'000));
  EXPECT_EQ(book(kEveryTen, full, at(1'000), at(1'000), 4).check.verdict, Verdict::kNever);
  EXPECT_EQ(book(kEveryTen, full, at(1'000), at(1'000), 4).state, full);
  EXPECT_EQ(book(kEveryTen, full, at(1'000), kForever, 3).check.verdict, Verdict::kNever);
  EXPECT_EQ(book(kEveryTen, full, at(1'000), at(1'100), 0).state, full);
}

TEST(MakeTicker, AcceptsEveryTermAtItsBounds) {
  EXPECT_TRUE(make_ticker(1, 1ns, 1, TickerStart::kFull).ok());
  EXPECT_TRUE(make_ticker(kTermMax, 1ns, kTermMax, TickerStart::kFull).ok());
  EXPECT_TRUE(make_ticker(1, Duration{kTermMax - 1}, 1, TickerStart::kFull).ok());
}

TEST(MakeTicker, RefusesAnIntervalOutOfBounds) {
  for (const std::int64_t interval_ns : {std::int64_t{0}, std::int64_t{-1}, kTermMax + 1}) {
    const Result<TickerShape> result = make_ticker(1, Duration{interval_ns}, 1, TickerStart::kFull);

    ASSERT_FALSE(result.ok()) << interval_ns;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("tick interval is " + std::to_string(interval_ns) + " ns,"),
                      HasSubstr("between 1 ns and 2^62 ns"),
                      HasSubstr("write a duration such as '100ms'")));
  }
}

TEST(MakeTicker, RefusesAGainOutOfBounds) {
  for (const std::int64_t per_tick : {std::int64_t{0}, std::int64_t{-1}, kTermMax + 1}) {
    const Result<TickerShape> result = make_ticker(per_tick, 1ns, kTermMax, TickerStart::kFull);

    ASSERT_FALSE(result.ok()) << per_tick;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("a tick gains " + std::to_string(per_tick) + ","),
                      HasSubstr("between 1 and 2^62"), HasSubstr("write ")));
  }
}

TEST(MakeTicker, RefusesABurstBelowOneTick) {
  for (const std::int64_t burst : {std::int64_t{4}, std::int64_t{0}, std::int64_t{-1}}) {
    const Result<TickerShape> result = make_ticker(5, 1ns, burst, TickerStart::kFull);

    ASSERT_FALSE(result.ok()) << burst;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("burst is " + std::to_string(burst) + ","),
                                              HasSubstr("between one tick's gain (5) and 2^62"),
                                              HasSubstr("write a "), Not(HasSubstr("smaller"))));
  }
  EXPECT_TRUE(make_ticker(5, 1ns, 5, TickerStart::kFull).ok());
}

TEST(MakeTicker, RefusesABurstAboveTheLargestTerm) {
  const Result<TickerShape> result = make_ticker(5, 1ns, kTermMax + 1, TickerStart::kFull);

  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("burst is 4611686018427387905,"),
                                            HasSubstr("between one tick's gain (5) and 2^62"),
                                            HasSubstr("write a "), Not(HasSubstr("larger"))));
}

TEST(MakeTicker, RefusesAFillOfTwoToTheSixtyTwoNanoseconds) {
  EXPECT_TRUE(make_ticker(1, Duration{kTermMax / 4}, 3, TickerStart::kFull).ok());
  EXPECT_FALSE(make_ticker(1, Duration{kTermMax / 4}, 4, TickerStart::kFull).ok());
}

TEST(MakeTicker, CountsThePartialTickThatFillsIt) {
  EXPECT_TRUE(make_ticker(2, Duration{kTermMax / 4}, 6, TickerStart::kFull).ok());
  EXPECT_FALSE(make_ticker(2, Duration{kTermMax / 4}, 7, TickerStart::kFull).ok());
}

TEST(MakeTicker, NamesTheBurstAndTheRateOfAFillTooLong) {
  const Result<TickerShape> result = make_ticker(2, Duration{kTermMax}, 9, TickerStart::kFull);

  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("a burst of 9 at 2 per 4611686018427387904 ns"), HasSubstr("2^62 ns"),
                    HasSubstr("write a smaller burst or a shorter interval")));
}

}  // namespace ticker_test
}  // namespace weir::meter
