#include "weir/meter/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <string>

#include "tests/meter/support.h"
#include "weir/meter/calendar.h"

namespace weir::meter {
namespace window_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr WindowShape kThreePerTen{3, 10};

constexpr Instant at(std::int64_t ns) { return Instant{ns}; }

// "2024-02-29 23:59:59" in UTC, by the C library.
Instant utc(const char* text) {
  std::tm fields{};
  EXPECT_NE(strptime(text, "%Y-%m-%d %H:%M:%S", &fields), nullptr) << text;
  return Instant{timegm(&fields) * 1'000'000'000};
}

Instant midnight(const char* day) { return utc((std::string(day) + " 00:00:00").c_str()); }

// Taking.

TEST(Window, AdmitsItsLimitAndNotOneMore) {
  const WindowState state = take(kThreePerTen, {}, at(5), 2).state;

  EXPECT_TRUE(take(kThreePerTen, state, at(5), 1).allowed());
  EXPECT_FALSE(take(kThreePerTen, state, at(5), 2).allowed());
}

TEST(Window, AdmitsAtTheInstantItIsAsked) {
  EXPECT_EQ(take(kThreePerTen, {}, at(5), 3).check, (Check{Verdict::kAllowed, at(5), 0}));
}

TEST(Window, DeniesUntilTheNextWindowBegins) {
  const WindowState state = take(kThreePerTen, {}, at(12), 3).state;

  EXPECT_EQ(take(kThreePerTen, state, at(12), 2).check, (Check{Verdict::kDenied, at(20), 2}));
  EXPECT_FALSE(take(kThreePerTen, state, at(19), 1).allowed());
  EXPECT_TRUE(take(kThreePerTen, state, at(20), 1).allowed());
}

TEST(Window, CountsWhatIsLeftTowardsTheShortfall) {
  const WindowState state = take(kThreePerTen, {}, at(12), 2).state;

  EXPECT_EQ(take(kThreePerTen, state, at(12), 3).check.shortfall, 2);
}

TEST(Window, ForgetsNothingUntilItTurns) {
  const WindowState state = take(kThreePerTen, {}, at(10), 3).state;

  EXPECT_EQ(level(kThreePerTen, state, at(19)), 0);
  EXPECT_EQ(level(kThreePerTen, state, at(20)), 3);
}

TEST(Window, NeverAdmitsMoreThanItsLimit) {
  EXPECT_EQ(take(kThreePerTen, {}, at(5), 3).check.verdict, Verdict::kAllowed);
  EXPECT_EQ(take(kThreePerTen, {}, at(5), 4).check, (Check{Verdict::kNever, kForever, 1}));
}

TEST(Window, NeverAdmitsAnythingUnderALimitOfNothing) {
  constexpr WindowShape shape{0, 10};

  EXPECT_EQ(take(shape, {}, at(5), 1).check, (Check{Verdict::kNever, kForever, 1}));
  EXPECT_TRUE(take(shape, {}, at(5), 0).allowed());
}

TEST(Window, KeepsItsStateWhenItRefuses) {
  const WindowState state = take(kThreePerTen, {}, at(5), 2).state;

  EXPECT_EQ(take(kThreePerTen, state, at(7), 2).state, state);
  EXPECT_EQ(take(kThreePerTen, state, at(17), 4).state, state);
}

TEST(Window, AdmitsACostOfNothingWhenUsedUp) {
  const WindowState state = debit(kThreePerTen, {}, at(5), 9);

  EXPECT_EQ(take(kThreePerTen, state, at(7), 0).check, (Check{Verdict::kAllowed, at(7), 0}));
  EXPECT_EQ(take(kThreePerTen, state, at(7), 0).state, state);
}

TEST(Window, CountsAnEarlierInstantInTheWindowItRemembers) {
  const WindowState state = take(kThreePerTen, {}, at(25), 2).state;

  EXPECT_EQ(level(kThreePerTen, state, at(15)), 1);
  EXPECT_EQ(take(kThreePerTen, state, at(15), 2).check.earliest, at(30));
}

TEST(Window, MayBeAsLongAsTime) {
  const WindowShape shape = make_window(kTermMax, Duration{kTermMax}).value();
  const WindowState state = take(shape, {}, kEpoch, kTermMax).state;

  EXPECT_EQ(take(shape, state, kLastInstant, 1).check,
            (Check{Verdict::kDenied, kLastInstant + 1ns, 1}));
}

TEST(Window, ComputesAtCompileTime) {
  constexpr WindowState state = take(kThreePerTen, WindowState{}, at(5), 3).state;
  static_assert(!take(kThreePerTen, state, at(9), 1).allowed());
  static_assert(take(kThreePerTen, state, at(10), 1).allowed());
}

// Giving back and overage.

TEST(Window, GivesBackInsideTheWindowThatWasCharged) {
  const WindowState state = take(kThreePerTen, {}, at(12), 3).state;

  EXPECT_EQ(level(kThreePerTen, give_back(kThreePerTen, state, at(19), at(12), 2), at(19)), 2);
}

TEST(Window, GivesNothingBackOnceTheWindowHasTurned) {
  const WindowState state = take(kThreePerTen, {}, at(12), 3).state;

  EXPECT_EQ(give_back(kThreePerTen, state, at(20), at(12), 2), state);
}

TEST(Window, GivesNothingBackToALaterWindow) {
  WindowState state = take(kThreePerTen, {}, at(12), 3).state;
  state = take(kThreePerTen, state, at(22), 3).state;

  EXPECT_EQ(level(kThreePerTen, give_back(kThreePerTen, state, at(22), at(12), 2), at(22)), 0);
}

TEST(Window, GivesNothingBackToALaterWindowWhenTimeRunsBackwards) {
  WindowState state = take(kThreePerTen, {}, at(12), 3).state;
  state = take(kThreePerTen, state, at(22), 3).state;

  EXPECT_EQ(give_back(kThreePerTen, state, at(19), at(12), 2), state);
}

TEST(Window, GivesBackNoMoreThanWasCounted) {
  const WindowState state = take(kThreePerTen, {}, at(12), 2).state;

  EXPECT_EQ(level(kThreePerTen, give_back(kThreePerTen, state, at(12), at(12), kTermMax), at(12)),
            3);
}

// A longer window may begin where the one that was charged began, or end where it ended.
TEST(Window, GivesNothingBackToALongerWindowThatTheChargedOneWasNotCarriedInto) {
  constexpr WindowShape hundred{10, 100};
  WindowState state = take(kThreePerTen, {}, at(103), 3).state;
  state = reshape(kThreePerTen, hundred, state, at(150));
  state = take(hundred, state, at(160), 7).state;

  EXPECT_EQ(level(hundred, give_back(hundred, state, at(170), at(103), 3), at(170)), 3);
  EXPECT_EQ(level(hundred, give_back(hundred, state, at(170), at(160), 3), at(170)), 6);
}

TEST(Window, GivesBackWhatWasCarriedIntoALongerWindow) {
  constexpr WindowShape hundred{10, 100};
  WindowState state = take(kThreePerTen, {}, at(103), 3).state;
  state = reshape(kThreePerTen, hundred, state, at(105));

  EXPECT_EQ(level(hundred, give_back(hundred, state, at(170), at(103), 3), at(170)), 10);
}

TEST(Window, GivesNothingBackAfterShorterWindowsInBetween) {
  constexpr WindowShape hundred{10, 100};
  WindowState state = take(hundred, {}, at(103), 3).state;
  state = reshape(hundred, kThreePerTen, state, at(112));
  state = take(kThreePerTen, state, at(123), 2).state;
  state = reshape(kThreePerTen, hundred, state, at(125));

  EXPECT_EQ(level(hundred, give_back(hundred, state, at(130), at(103), 3), at(130)), 8);
}

TEST(Window, CountsAnOverageBelowNothing) {
  EXPECT_EQ(level(kThreePerTen, debit(kThreePerTen, {}, at(12), 5), at(12)), -2);
}

TEST(Window, ForgetsAnOverageWhenItTurns) {
  EXPECT_EQ(level(kThreePerTen, debit(kThreePerTen, {}, at(12), 5), at(20)), 3);
}

// Changing shape.

TEST(Window, StandsBelowNothingAfterItsLimitWasLowered) {
  constexpr WindowShape lower{1, 10};
  const WindowState state = take(kThreePerTen, {}, at(12), 3).state;

  EXPECT_EQ(level(lower, reshape(kThreePerTen, lower, state, at(12)), at(12)), -2);
}

TEST(Window, KeepsWhatWasUsedWhenItsLengthChanges) {
  constexpr WindowShape longer{3, 100};
  const WindowState state =
      reshape(kThreePerTen, longer, take(kThreePerTen, {}, at(12), 2).state, at(15));

  EXPECT_EQ(level(longer, state, at(99)), 1);
  EXPECT_EQ(level(longer, state, at(100)), 3);
}

TEST(Window, ForgetsThePastWindowWhenItsLengthChanges) {
  constexpr WindowShape longer{3, 100};
  const WindowState state =
      reshape(kThreePerTen, longer, take(kThreePerTen, {}, at(12), 2).state, at(20));

  EXPECT_EQ(level(longer, state, at(20)), 3);
}

TEST(Window, ChangesLengthAtAnEarlierInstantAsIfNoTimePassed) {
  constexpr WindowShape shorter{3, 5};
  const WindowState state =
      reshape(kThreePerTen, shorter, take(kThreePerTen, {}, at(20), 2).state, at(19));

  EXPECT_EQ(level(shorter, state, at(24)), 1);
  EXPECT_EQ(level(shorter, state, at(25)), 3);
}

TEST(Window, IsInitialOnceItTurned) {
  const WindowState state = take(kThreePerTen, {}, at(12), 1).state;

  EXPECT_FALSE(is_initial(kThreePerTen, state, at(19)));
  EXPECT_TRUE(is_initial(kThreePerTen, state, at(20)));
}

// By the calendar.

TEST(CalendarWindow, TurnsWithTheMonth) {
  const WindowShape shape = make_calendar_window(1, CalendarUnit::kMonth).value();
  const Instant march = midnight("2024-03-01");
  const WindowState state = take(shape, {}, utc("2024-02-03 04:05:06"), 1).state;

  EXPECT_EQ(take(shape, state, midnight("2024-02-29"), 1).check.earliest, march);
  EXPECT_FALSE(take(shape, state, march - 1ns, 1).allowed());
  EXPECT_TRUE(take(shape, state, march, 1).allowed());
}

TEST(CalendarWindow, GivesBackInTheMonthThatWasCharged) {
  const WindowShape shape = make_calendar_window(1, CalendarUnit::kMonth).value();
  const Instant february = utc("2024-02-03 04:05:06");
  const Instant march = midnight("2024-03-01");
  const WindowState state = take(shape, {}, february, 1).state;

  EXPECT_EQ(level(shape, give_back(shape, state, march - 1ns, february, 1), march - 1ns), 1);
  EXPECT_EQ(give_back(shape, state, march, february, 1), state);
}

TEST(CalendarWindow, GivesBackInTheWeekOfTheEpoch) {
  const WindowShape shape = make_calendar_window(1, CalendarUnit::kWeek).value();
  const Instant friday = utc("1970-01-02 12:00:00");
  const WindowState state = take(shape, {}, friday, 1).state;

  EXPECT_EQ(level(shape, give_back(shape, state, friday, friday, 1), friday), 1);
}

TEST(CalendarWindow, ComputesAtCompileTime) {
  constexpr WindowShape days{1, 0, CalendarUnit::kDay};
  constexpr WindowState state = take(days, WindowState{}, at(0), 1).state;
  constexpr std::int64_t day_ns = 86'400'000'000'000;
  static_assert(!take(days, state, at(day_ns - 1), 1).allowed());
  static_assert(take(days, state, at(day_ns), 1).allowed());
}

TEST(CalendarWindow, TurnsAfterTheWeekOfTheEpoch) {
  const WindowShape shape = make_calendar_window(1, CalendarUnit::kWeek).value();
  const WindowState state = take(shape, {}, kEpoch, 1).state;

  EXPECT_EQ(take(shape, state, kEpoch, 1).check.earliest, midnight("1970-01-05"));
}

TEST(CalendarWindow, KeepsWhatWasUsedWhenDaysBecomeMonths) {
  const WindowShape days = make_calendar_window(5, CalendarUnit::kDay).value();
  const WindowShape months = make_calendar_window(5, CalendarUnit::kMonth).value();
  const Instant noon = utc("2024-02-10 12:00:00");
  const WindowState state = reshape(days, months, take(days, {}, noon, 2).state, noon);

  EXPECT_EQ(level(months, state, midnight("2024-03-01") - 1ns), 3);
}

struct CalendarRow {
  CalendarUnit unit;
  const char* begin;
  const char* last;  // the last second of the unit
  const char* end;
};

const CalendarRow kCalendarRows[] = {
    {CalendarUnit::kDay, "1970-01-01", "1970-01-01 23:59:59", "1970-01-02"},
    {CalendarUnit::kDay, "2024-02-28", "2024-02-28 23:59:59", "2024-02-29"},
    {CalendarUnit::kDay, "2024-02-29", "2024-02-29 23:59:59", "2024-03-01"},
    {CalendarUnit::kDay, "2023-02-28", "2023-02-28 23:59:59", "2023-03-01"},
    {CalendarUnit::kDay, "2016-12-31", "2016-12-31 23:59:59", "2017-01-01"},  // had a leap second
    {CalendarUnit::kWeek, "1969-12-29", "1970-01-04 23:59:59", "1970-01-05"},
    {CalendarUnit::kWeek, "2023-12-25", "2023-12-31 23:59:59", "2024-01-01"},
    {CalendarUnit::kWeek, "2024-02-26", "2024-03-03 23:59:59", "2024-03-04"},
    {CalendarUnit::kWeek, "2024-12-30", "2025-01-05 23:59:59", "2025-01-06"},
    {CalendarUnit::kMonth, "1970-01-01", "1970-01-31 23:59:59", "1970-02-01"},
    {CalendarUnit::kMonth, "2000-02-01", "2000-02-29 23:59:59", "2000-03-01"},
    {CalendarUnit::kMonth, "2023-02-01", "2023-02-28 23:59:59", "2023-03-01"},
    {CalendarUnit::kMonth, "2024-02-01", "2024-02-29 23:59:59", "2024-03-01"},
    {CalendarUnit::kMonth, "2100-02-01", "2100-02-28 23:59:59", "2100-03-01"},
    {CalendarUnit::kMonth, "2023-04-01", "2023-04-30 23:59:59", "2023-05-01"},
    {CalendarUnit::kMonth, "2023-12-01", "2023-12-31 23:59:59", "2024-01-01"},
    {CalendarUnit::kYear, "1970-01-01", "1970-12-31 23:59:59", "1971-01-01"},
    {CalendarUnit::kYear, "2023-01-01", "2023-12-31 23:59:59", "2024-01-01"},
    {CalendarUnit::kYear, "2024-01-01", "2024-12-31 23:59:59", "2025-01-01"},
    {CalendarUnit::kYear, "2100-01-01", "2100-12-31 23:59:59", "2101-01-01"},
};

TEST(Calendar, KnowsTheFirstAndTheLastNanosecondOfAUnit) {
  for (const CalendarRow& row : kCalendarRows) {
    SCOPED_TRACE(row.begin);
    const Instant first = later_of(kEpoch, midnight(row.begin));
    const Instant last = utc(row.last) + 999'999'999ns;

    for (const Instant inside : {first, last}) {
      EXPECT_EQ(calendar_span(row.unit, inside).begin, midnight(row.begin));
      EXPECT_EQ(calendar_span(row.unit, inside).end, midnight(row.end));
    }
    EXPECT_EQ(calendar_span(row.unit, last + 1ns).begin, midnight(row.end));
  }
}

TEST(Calendar, ReachesToTheLastInstant) {
  EXPECT_EQ(calendar_span(CalendarUnit::kDay, kLastInstant).begin, midnight("2116-02-20"));
  EXPECT_EQ(calendar_span(CalendarUnit::kDay, kLastInstant).end, midnight("2116-02-21"));
  EXPECT_EQ(calendar_span(CalendarUnit::kYear, kLastInstant).end, midnight("2117-01-01"));
}

// Making a shape.

TEST(MakeWindow, KeepsWhatItIsGiven) { EXPECT_EQ(make_window(3, 10ns).value(), kThreePerTen); }

TEST(MakeWindow, AcceptsEveryTermAtItsBounds) {
  EXPECT_TRUE(make_window(0, 1ns).ok());
  EXPECT_TRUE(make_window(kTermMax, Duration{kTermMax}).ok());
  EXPECT_TRUE(make_calendar_window(0, CalendarUnit::kDay).ok());
  EXPECT_TRUE(make_calendar_window(kTermMax, CalendarUnit::kYear).ok());
}

TEST(MakeWindow, RefusesALimitOutOfBounds) {
  for (const std::int64_t limit : {std::int64_t{-1}, kTermMax + 1}) {
    for (const Result<WindowShape>& result :
         {make_window(limit, 1s), make_calendar_window(limit, CalendarUnit::kDay)}) {
      ASSERT_FALSE(result.ok()) << limit;
      EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
      EXPECT_THAT(result.error().message,
                  AllOf(HasSubstr("window limit is " + std::to_string(limit) + ","),
                        HasSubstr("between 0 and 2^62"),
                        HasSubstr("write how many units fit in one window")));
    }
  }
}

TEST(MakeWindow, RefusesALengthOutOfBounds) {
  for (const std::int64_t length_ns : {std::int64_t{0}, std::int64_t{-1}, kTermMax + 1}) {
    const Result<WindowShape> result = make_window(1, Duration{length_ns});

    ASSERT_FALSE(result.ok()) << length_ns;
    EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("window length is " + std::to_string(length_ns) + " ns,"),
                      HasSubstr("between 1 ns and 2^62 ns"),
                      HasSubstr("write a duration such as '1m' or '1d'")));
  }
}

}  // namespace window_test
}  // namespace weir::meter
