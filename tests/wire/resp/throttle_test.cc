#include "weir/wire/resp/throttle.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <span>
#include <string_view>

#include "tests/wire/resp/support.h"

namespace weir::wire::resp {
namespace {

using namespace std::chrono_literals;

constexpr Instant kBegin{1'700'000'000'000'000'000};
using Integers = std::array<std::int64_t, 5>;

// One key and its state between calls.
class Key {
 public:
  explicit Key(Seconds seconds = Seconds::kCell) : seconds_(seconds) {}

  Integers call(Duration since_start, std::string_view text) {
    const ThrottleCall call = *read_throttle(words_of(text));
    const Instant now = kBegin + since_start;
    const meter::BucketStep step = charge(call, state_, now);
    state_ = step.state;
    return reply_of(call, step, now, seconds_).integers();
  }

 private:
  Seconds seconds_;
  meter::BucketState state_;
};

struct Row {
  Duration at;
  std::string_view words;
  Integers reply;  // limited, limit, remaining, retry_after, reset_after
};

void expect_rows(Key key, std::span<const Row> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(key.call(rows[i].at, rows[i].words), rows[i].reply)
        << "row " << i << ": " << rows[i].words;
  }
}

// wire.md V1.
TEST(Throttle, AnswersTheSharedTableOfThrottledAndRedisCell) {
  constexpr Row rows[] = {
      {0s, "foo 4 1 1 6", {1, 5, 5, -1, 0}},     {0s, "foo 4 1 1 1", {0, 5, 4, -1, 1}},
      {0s, "foo 4 1 1 1", {0, 5, 3, -1, 2}},     {0s, "foo 4 1 1 1", {0, 5, 2, -1, 3}},
      {0s, "foo 4 1 1 1", {0, 5, 1, -1, 4}},     {0s, "foo 4 1 1 1", {0, 5, 0, -1, 5}},
      {0s, "foo 4 1 1 1", {1, 5, 0, 1, 5}},      {3s, "foo 4 1 1 1", {0, 5, 2, -1, 3}},
      {3100ms, "foo 4 1 1 1", {0, 5, 1, -1, 4}}, {4s, "foo 4 1 1 1", {0, 5, 1, -1, 4}},
      {8s, "foo 4 1 1 1", {0, 5, 4, -1, 1}},     {9500ms, "foo 4 1 1 1", {0, 5, 4, -1, 1}},
      {9500ms, "foo 4 1 1 0", {0, 5, 4, -1, 1}}, {9500ms, "foo 4 1 1 2", {0, 5, 2, -1, 3}},
      {9500ms, "foo 4 1 1 5", {1, 5, 2, 3, 3}},  {15s, "foo 4 1 1 6", {1, 5, 5, -1, 0}},
  };
  expect_rows(Key(), rows);
}

// wire.md V2.
TEST(Throttle, AnswersTheTableOfRedisCell) {
  constexpr Row rows[] = {
      {0s, "user123 0 1 2 1", {0, 1, 0, -1, 2}},
      {0s, "user123 0 1 2 1", {1, 1, 0, 2, 2}},
      {2s, "user123 0 1 2 1", {0, 1, 0, -1, 2}},
  };
  expect_rows(Key(), rows);
  EXPECT_EQ(Key().call(0s, "user123 15 30 60"), (Integers{0, 16, 15, -1, 2}));
}

// wire.md V3.
TEST(Throttle, AnswersTheTableOfDragonfly) {
  constexpr Row rows[] = {
      {0s, "foo 4 1 10 6", {1, 5, 5, -1, 0}},   {0s, "foo 4 1 10 1", {0, 5, 4, -1, 11}},
      {0s, "foo 4 1 10 1", {0, 5, 3, -1, 21}},  {0s, "foo 4 1 10 1", {0, 5, 2, -1, 31}},
      {0s, "foo 4 1 10 1", {0, 5, 1, -1, 41}},  {0s, "foo 4 1 10 1", {0, 5, 0, -1, 51}},
      {0s, "foo 4 1 10 1", {1, 5, 0, 11, 51}},  {30s, "foo 4 1 10 1", {0, 5, 2, -1, 31}},
      {31s, "foo 4 1 10 1", {0, 5, 1, -1, 40}}, {40s, "foo 4 1 10 1", {0, 5, 1, -1, 41}},
      {80s, "foo 4 1 10 1", {0, 5, 4, -1, 11}}, {95s, "foo 4 1 10 1", {0, 5, 4, -1, 11}},
      {95s, "foo 4 1 10 0", {0, 5, 4, -1, 11}}, {95s, "foo 4 1 10 2", {0, 5, 2, -1, 31}},
      {95s, "foo 4 1 10 5", {1, 5, 2, 31, 31}},
  };
  expect_rows(Key(Seconds::kDragonfly), rows);
  EXPECT_EQ(Key(Seconds::kDragonfly).call(0s, "bar 4 500000 1 2"), (Integers{0, 5, 3, -1, 1}));
  EXPECT_EQ(Key(Seconds::kDragonfly).call(0s, "user123 15 30 60"), (Integers{0, 16, 15, -1, 3}));
}

TEST(Throttle, RoundsSecondsUpByTheNanosecond) {
  EXPECT_EQ(whole_seconds(0ns, Seconds::kCell), 0);
  EXPECT_EQ(whole_seconds(1ns, Seconds::kCell), 1);
  EXPECT_EQ(whole_seconds(1s, Seconds::kCell), 1);
  EXPECT_EQ(whole_seconds(1s + 1ns, Seconds::kCell), 2);
  EXPECT_EQ(whole_seconds(Duration::max(), Seconds::kCell), 9'223'372'037);
}

TEST(Throttle, RoundsSecondsAsDragonflyDoesByTheMillisecond) {
  EXPECT_EQ(whole_seconds(0ns, Seconds::kDragonfly), 0);
  EXPECT_EQ(whole_seconds(1ns, Seconds::kDragonfly), 1);
  EXPECT_EQ(whole_seconds(999ms, Seconds::kDragonfly), 1);
  EXPECT_EQ(whole_seconds(999ms + 1ns, Seconds::kDragonfly), 2);
  EXPECT_EQ(whole_seconds(1s, Seconds::kDragonfly), 2);
  EXPECT_EQ(whole_seconds(Duration::max(), Seconds::kDragonfly), 9'223'372'037);
}

// redis-cell, issue 50: there a TAT less than 1 ms ahead is forgotten.
TEST(Throttle, LimitsRatesThatRefillWithinAMillisecond) {
  Key key;
  EXPECT_EQ(key.call(0s, "a 2 6000 1 3"), (Integers{0, 3, 0, -1, 1}));
  EXPECT_EQ(key.call(0s, "a 2 6000 1"), (Integers{1, 3, 0, 1, 1}));
  EXPECT_EQ(key.call(166'665ns, "a 2 6000 1")[0], 1);
  EXPECT_EQ(key.call(166'666ns, "a 2 6000 1")[0], 0);
}

// redis-cell divides by zero here.
TEST(Throttle, CountsRatesOfMoreThanOnePerMicrosecond) {
  EXPECT_EQ(Key().call(0s, "a 9 1000000000 1 3"), (Integers{0, 10, 7, -1, 1}));
}

TEST(Throttle, CountsRemainingToTheNanosecond) {
  Key key;
  EXPECT_EQ(key.call(0s, "a 2 1 1 3")[2], 0);
  EXPECT_EQ(key.call(999'999'999ns, "a 2 1 1 0")[2], 0);
  EXPECT_EQ(key.call(1s, "a 2 1 1 0")[2], 1);
}

TEST(Throttle, NeverLimitsALook) {
  Key key;
  EXPECT_EQ(key.call(0s, "a 9 1 1 10"), (Integers{0, 10, 0, -1, 10}));
  EXPECT_EQ(key.call(0s, "a 9 1 1 0"), (Integers{0, 10, 0, -1, 10}));
  EXPECT_EQ(key.call(0s, "a 0 1 1 0"), (Integers{0, 1, 0, -1, 10}));  // with a smaller burst
}

TEST(Throttle, DescribesWhatIsWhenAQuantityIsImpossible) {
  Key key;
  EXPECT_EQ(key.call(0s, "a 4 1 1 2"), (Integers{0, 5, 3, -1, 2}));
  EXPECT_EQ(key.call(0s, "a 4 1 1 6"), (Integers{1, 5, 3, -1, 2}));
}

TEST(Throttle, GivesBackANegativeQuantityUntilTheBucketIsFull) {
  Key key;
  EXPECT_EQ(key.call(0s, "a 4 1 1 -1"), (Integers{0, 5, 5, -1, 0}));
  EXPECT_EQ(key.call(0s, "a 4 1 1 3"), (Integers{0, 5, 2, -1, 3}));
  EXPECT_EQ(key.call(0s, "a 4 1 1 -2"), (Integers{0, 5, 4, -1, 1}));
  EXPECT_EQ(key.call(0s, "a 4 1 1 -2"), (Integers{0, 5, 5, -1, 0}));
  EXPECT_EQ(key.call(0s, "a 4 1 1 -9223372036854775808"), (Integers{0, 5, 5, -1, 0}));
}

TEST(Throttle, KeepsTheInstantWhenParametersChange) {
  Key key;
  EXPECT_EQ(key.call(0s, "a 4 1 10 3"), (Integers{0, 5, 2, -1, 30}));
  EXPECT_EQ(key.call(0s, "a 4 1 20 1"), (Integers{0, 5, 2, -1, 50}));
  EXPECT_EQ(key.call(0s, "a 4 1 5 1"), (Integers{1, 5, 0, 30, 50}));
}

}  // namespace
}  // namespace weir::wire::resp
