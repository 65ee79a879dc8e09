#include "weir/store/redis/shared/meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <utility>

#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/stand_in.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

engine::MeterShape shape_of(const engine::MeterSpec& spec) {
  const auto shape = engine::make_shape(spec);
  EXPECT_TRUE(shape) << shape.error().message;
  return *shape;
}

// The numbers of a blob, after its two letters.
std::vector<double> numbers_of(const engine::MeterShape& shape, std::int64_t cost, char flag) {
  std::string blob;
  append_blob(blob, shape, cost, flag, Instant{0});
  EXPECT_EQ(blob.size(), 2u + 6 * 8);
  EXPECT_EQ(blob[1], flag);
  std::vector<double> numbers;
  for (std::size_t at = 2; at + 8 <= blob.size(); at += 8) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      bits = bits << 8 | static_cast<unsigned char>(blob[at + i]);
    }
    numbers.push_back(std::bit_cast<double>(bits));
  }
  return numbers;
}

// The example of docs/design/shared.md.
const engine::BucketSpec kThreeInTenSeconds{.amount = 3, .period = 10s, .burst = 2};

TEST(SharedMeter, TellsACostAsMicrosecondsAndANumerator) {
  EXPECT_THAT(numbers_of(shape_of(kThreeInTenSeconds), 1, '0'),
              ElementsAre(3'333'333, 1, 6'666'666, 2, 3, 0));
}

TEST(SharedMeter, TellsACostAboveTheBurstAsOneMoreThanTheBurst) {
  EXPECT_EQ(numbers_of(shape_of(kThreeInTenSeconds), kTermMax, '0'),
            numbers_of(shape_of(kThreeInTenSeconds), 3, '0'));
}

TEST(SharedMeter, WorksADecisionOutToTheNanosecond) {
  const SharedCheck judged =
      judge(shape_of(kThreeInTenSeconds), {106'666'666, 2}, Instant{100'000'500'000}, 1);
  EXPECT_EQ(judged.check.verdict, Verdict::kDenied);
  EXPECT_EQ(judged.check.earliest, Instant{103'333'333'334});
  EXPECT_EQ(judged.before, 0);
  EXPECT_TRUE(judge(shape_of(kThreeInTenSeconds), {106'666'666, 2}, Instant{103'333'334'000}, 1)
                  .check.allowed());
}

TEST(SharedMeter, TakesRatesUpToItsBound) {
  // In lowest terms a microsecond gains 2^52 units, and one more.
  const std::int64_t most = kSharedTermMax;
  EXPECT_TRUE(check_shareable(shape_of(engine::BucketSpec{most, 1us, most})));
  const Status refused = check_shareable(shape_of(engine::BucketSpec{most + 1, 1us, most}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("write a rounder rate"));
}

TEST(SharedKey, IsDifferentForDifferentValues) {
  const engine::Rule rule{.name = "a:b"};
  const auto key = [&](std::initializer_list<std::string_view> values) {
    return limit_key(key_prefix("weir"), {.rule = &rule, .key = values});
  };
  EXPECT_EQ(key({"x y", "{z}%"}), "weir:1:{weir}:b:a%3Ab:x%20y:%7Bz%7D%25");
  EXPECT_NE(key({"a:b", "c"}), key({"a", "b:c"}));
  EXPECT_NE(key({"a", ""}), key({"a"}));
}

TEST(SharedHoldRecord, OfSomebodyElseIsFoundOut) {
  EXPECT_FALSE(read_record(""));
  EXPECT_FALSE(read_record("hello"));
  EXPECT_FALSE(read_record("a"));
  EXPECT_FALSE(read_record(std::string("a") + std::string(8, '\0') + "\x02rest"));
  EXPECT_FALSE(read_record(std::string("s") + std::string(9, '\0')));
  EXPECT_TRUE(read_record(std::string("s") + std::string(8, '\0')));
}

// One limit of any kind, charged so many at an instant as the script packed it.
std::string record_of(double charged_at, std::uint64_t amount, std::uint64_t weight) {
  std::string text = "a" + std::string(8, '\0') + '\x01';
  append_bytes(text, std::bit_cast<std::uint64_t>(charged_at), 8);
  append_bytes(text, 0, 6);  // three empty texts
  append_bytes(text, amount, 8);
  append_bytes(text, weight, 8);
  return text;
}

TEST(SharedHoldRecord, WithoutAnInstantWasNotCharged) {
  for (const double odd : {std::numeric_limits<double>::quiet_NaN(), 1e300, -1e300}) {
    const auto record = read_record(record_of(odd, 1, 1));
    ASSERT_TRUE(record);
    EXPECT_EQ(record->parts[0].charged_at_us, -1);
  }
}

TEST(SharedHoldRecord, OfMoreThanThereIsIsSomebodyElses) {
  EXPECT_TRUE(read_record(record_of(0, 1ull << 62, 0)));
  EXPECT_FALSE(read_record(record_of(0, (1ull << 62) + 1, 1)));
  EXPECT_FALSE(read_record(record_of(0, 1ull << 63, 1)));
  EXPECT_FALSE(read_record(record_of(0, 1, 1ull << 63)));
}

TEST(SharedMeter, CountsWhatNoScriptGivesAsTheMostThatOneDoes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  constexpr Instant now{1'800'000'000'000'000'000};
  for (const engine::MeterSpec& spec : std::initializer_list<engine::MeterSpec>{
           kThreeInTenSeconds, engine::TickerSpec{1, 1s, 3}, engine::WindowSpec{9, 1min},
           engine::CalendarSpec{9, meter::CalendarUnit::kMonth}, engine::LogSpec{9, 1h},
           engine::SlotsSpec{2, 2, 1s}}) {
    const engine::MeterShape shape = shape_of(spec);
    for (const auto& [odd, known] : {std::pair{most, exact}, std::pair{least, -exact}}) {
      const SharedCheck judged = judge(shape, {odd, odd}, now, 1);
      EXPECT_EQ(judged.before, judge(shape, {known, known}, now, 1).before) << shape.index();
    }
  }
}

TEST(SharedMeter, KnowsNoInstantsOutsideOfTime) {
  EXPECT_EQ(instant_of(0), Instant{0});
  EXPECT_EQ(instant_of(kInstantNsMax / kNsPerUs), Instant{kInstantNsMax / kNsPerUs * kNsPerUs});
  EXPECT_FALSE(instant_of(kInstantNsMax / kNsPerUs + 1));
  EXPECT_FALSE(instant_of(-1));
}

TEST(StandIn, HasAShareOfEachMeter) {
  EXPECT_EQ(share_of(shape_of(engine::BucketSpec{10, 1s, 20}), 4),
            shape_of(engine::BucketSpec{10, 4s, 5}));
  EXPECT_EQ(share_of(shape_of(engine::WindowSpec{10, 1s}), 4), shape_of(engine::WindowSpec{2, 1s}));
  EXPECT_EQ(share_of(shape_of(engine::BucketSpec{1, 1s, 1}), 4),
            shape_of(engine::BucketSpec{1, 4s, 1}));
  EXPECT_EQ(share_of(shape_of(engine::WindowSpec{0, 1s}), 4), shape_of(engine::WindowSpec{0, 1s}));
}

TEST(StandIn, RefusesOneKeyMoreThanItsBound) {
  StandIn stand_in;
  const engine::MeterShape shape = shape_of(engine::WindowSpec{1, 24h});
  const auto allows = [&](std::size_t key) {
    const StandIn::Item item{&shape, std::to_string(key), 1, false};
    return stand_in.take({&item, 1}, 1, Instant{1}, false)[0].check.allowed();
  };
  for (std::size_t i = 0; i < kStandInKeysMax; ++i) ASSERT_TRUE(allows(i));
  EXPECT_FALSE(allows(kStandInKeysMax));
  stand_in.forget(Instant{1} + 24h);
  EXPECT_TRUE(allows(kStandInKeysMax));
}

TEST(StandIn, DeniesOnlyTheLimitWhoseKeysAreInvented) {
  StandIn stand_in;
  constexpr std::size_t kLimits = 4;
  const engine::MeterShape shape = shape_of(engine::WindowSpec{1, 24h});
  const auto allows = [&](std::string_view limit, std::size_t key) {
    const StandIn::Item item{&shape, std::to_string(key), 1, false, limit};
    return stand_in.take({&item, 1}, 1, Instant{1}, false, kLimits)[0].check.allowed();
  };
  std::size_t invented = 0;
  while (allows("open", invented)) ++invented;
  EXPECT_EQ(invented, kStandInKeysMax / kLimits);
  for (const std::string_view limit : {"a", "b", "c"}) {
    for (std::size_t i = 0; i < kStandInKeysMax / kLimits; ++i) ASSERT_TRUE(allows(limit, i));
    EXPECT_FALSE(allows(limit, kStandInKeysMax));
  }
  EXPECT_FALSE(allows("one more, after a reload", 0)) << "all of them have a bound, too";
}

TEST(StandIn, DeniesOnlyTheLimitWhoseLogsAreFull) {
  StandIn stand_in;
  const engine::MeterShape log = shape_of(engine::LogSpec{1024, 24h});
  Instant now{1};
  const auto allows = [&](std::string_view limit, std::size_t key) {
    now = now + 1us;
    const StandIn::Item item{&log, std::to_string(key), 1, false, limit};
    return stand_in.take({&item, 1}, 1, now, false, 2)[0].check.allowed();
  };
  std::size_t runs = 0;
  for (std::size_t key = 0; allows("open", key); ++key) {
    for (++runs; runs % 1024 != 0 && allows("open", key);) ++runs;
  }
  EXPECT_LE(runs, kStandInRunsMax / 2);
  EXPECT_TRUE(allows("other", 0));
}

TEST(StandIn, RemembersFromOneOutageToTheNextWhatHasNotRefilled) {
  StandIn stand_in;
  constexpr Instant begin{1'800'000'000'000'000'000};
  const engine::MeterShape shape = shape_of(engine::BucketSpec{10, 10s, 10});
  const auto admitted = [&](std::string key, std::int64_t servers, Instant now) {
    const StandIn::Item item{&shape, std::move(key), 1, false};
    int count = 0;
    while (stand_in.take({&item, 1}, servers, now, false)[0].check.allowed()) ++count;
    return count;
  };
  EXPECT_EQ(admitted("a", 1, begin), 10);
  stand_in.forget(begin + 3s);
  EXPECT_EQ(admitted("a", 1, begin + 3s), 3);
  stand_in.forget(begin + 13s);
  EXPECT_EQ(admitted("a", 1, begin + 13s), 10);
  // With more servers than before the share is smaller, and still used up.
  EXPECT_EQ(admitted("a", 2, begin + 13s), 0);
  EXPECT_EQ(admitted("b", 2, begin + 13s), 5);
}

TEST(StandIn, RefusesWhatItsLogsHaveNoRoomFor) {
  StandIn stand_in;
  const engine::MeterShape log = shape_of(engine::LogSpec{1024, 24h});
  const engine::MeterShape window = shape_of(engine::WindowSpec{1, 24h});
  std::size_t admitted = 0;
  std::string refused;
  Instant now{1};
  // A unit at a time, each at an instant of its own, so that each is a run.
  for (std::size_t key = 0; key <= kStandInRunsMax / 1024; ++key) {
    const StandIn::Item item{&log, std::to_string(key), 1, false};
    for (int i = 0; i < 1024; ++i) {
      now = now + 1us;
      if (stand_in.take({&item, 1}, 1, now, false)[0].check.allowed()) {
        ++admitted;
      } else {
        refused = item.key;
      }
    }
  }
  EXPECT_LE(admitted, kStandInRunsMax);
  ASSERT_NE(refused, "");
  // Nor is anything else charged then.
  const StandIn::Item both[] = {{&window, "window", 1, false}, {&log, refused, 1, false}};
  EXPECT_FALSE(stand_in.take(both, 1, now, false)[1].check.allowed());
  EXPECT_TRUE(stand_in.take({both, 1}, 1, now, false)[0].check.allowed());
}

TEST(StandIn, TakesFromAllOrNone) {
  StandIn stand_in;
  const engine::MeterShape one = shape_of(engine::WindowSpec{1, 24h});
  const engine::MeterShape ten = shape_of(engine::WindowSpec{10, 24h});
  const StandIn::Item items[] = {{&ten, "ten", 1, false}, {&one, "one", 1, false}};
  EXPECT_EQ(stand_in.take(items, 1, Instant{1}, false)[0].after, 9);
  const auto refused = stand_in.take(items, 1, Instant{1}, false);
  EXPECT_FALSE(refused[1].check.allowed());
  EXPECT_EQ(refused[0].after, 9);
}

}  // namespace
}  // namespace weir::store::redis
