#include "weir/system/throttle/snapshot.h"

#include <gmock/gmock.h>

#include "tests/system/throttle/support.h"

namespace weir::system::throttle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The same two buckets in the other order.
constexpr std::string_view kTurned = R"({"buckets": [
  {"name": "second", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 1, "operations": ["b", "c"]}]},
  {"name": "first", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10, "operations": ["a"]}, {"opsPerSec": 2, "operations": ["b"]}]}]})";

TEST(Snapshot, RestoresByNameNotByPlace) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  ASSERT_TRUE(decide(set, "a", after(0s)));
  ThrottleSet turned = consensus_of(kTurned);
  const auto report = restore(snapshot_of(set, nullptr), turned, nullptr);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->restored, 2u);
  EXPECT_EQ(turned.buckets()[0].bucket.used(), 0);
  EXPECT_EQ(turned.buckets()[1].bucket.usage(), set.buckets()[0].bucket.usage());
}

TEST(Snapshot, SaysWhatIsUnknownAndWhatIsMissing) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  Snapshot snapshot = snapshot_of(set, nullptr);
  snapshot.buckets[1].name = "gone";
  const auto report = restore(snapshot, set, nullptr);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->unknown, ElementsAre("gone"));
  EXPECT_THAT(report->missing, ElementsAre("second"));
}

TEST(Snapshot, KeepsTheShareOfABucketThatHasChanged) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  Snapshot snapshot = snapshot_of(set, nullptr);
  snapshot.buckets[0].capacity = 3;
  snapshot.buckets[0].usage.used = 1;
  const auto report = restore(snapshot, set, nullptr);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->converted, ElementsAre("first"));
  EXPECT_EQ(set.buckets()[0].bucket.used(), (10 * kUnitsPerOperation + 2) / 3);  // rounded up
}

TEST(Snapshot, KeepsTheShareOfGasBytesAndDurationThatHaveChanged) {
  const NetworkSettings before{.front_end_gas_per_second = 100,
                               .duration_capacity = 10,
                               .duration_per_second = 1,
                               .jumbo_bytes_per_second = 10};
  const NetworkSettings smaller{.front_end_gas_per_second = 33,
                                .duration_capacity = 5,
                                .duration_per_second = 1,
                                .jumbo_bytes_per_second = 7};
  ThrottleSet set(definitions_of(kTwoBuckets), {.settings = before});
  ASSERT_EQ(set.restore_gas({50, std::nullopt}), Anomaly::kNone);
  ASSERT_EQ(set.restore_bytes({10, std::nullopt}), Anomaly::kNone);
  ASSERT_EQ(set.restore_duration({21, std::nullopt}), Anomaly::kNone);
  const Result<Snapshot> saved = parse_snapshot(to_json(snapshot_of(set, nullptr)));
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  ThrottleSet other(definitions_of(kTwoBuckets), {.settings = smaller});
  const auto report = restore(*saved, other, nullptr);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_THAT(report->converted, ElementsAre("gas", "bytes", "duration"));
  EXPECT_EQ(other.gas().used(), 17);  // 16.5, rounded up
  EXPECT_EQ(other.bytes()->used(), 7);
  EXPECT_EQ(other.duration().used(), 11);  // beyond its capacity, as before
}

TEST(Snapshot, FillsWhatIsSmallerWhereItDoesNotSayItsCapacities) {
  ThrottleSet set(definitions_of(kTwoBuckets), {.settings = {.front_end_gas_per_second = 33,
                                                             .duration_capacity = 5,
                                                             .jumbo_bytes_per_second = 7}});
  const auto old = parse_snapshot(R"({"buckets":[],"gas":[50,null],"bytes":[5,null],)"
                                  R"("duration":[9,null]})");
  ASSERT_TRUE(old.ok()) << old.error().message;
  const auto report = restore(*old, set, nullptr);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(set.gas().used(), 33);
  EXPECT_EQ(set.bytes()->used(), 5);
  EXPECT_EQ(set.duration().used(), 9);
}

TEST(Snapshot, IsRefusedWithALevelBeyondItsOwnCapacity) {
  ThrottleSet set(definitions_of(kTwoBuckets), {});
  for (const std::string_view text : {R"({"gas":[2,null],"capacities":{"gas":1}})",
                                      R"({"bytes":[1,null],"capacities":{"bytes":0}})"}) {
    EXPECT_FALSE(restore(*parse_snapshot(text), set, nullptr).ok()) << text;
  }
  EXPECT_TRUE(
      restore(*parse_snapshot(R"({"duration":[9,null],"capacities":{"duration":0}})"), set, nullptr)
          .ok());
  EXPECT_EQ(set.duration().used(), 9);
}

TEST(Snapshot, ChangesNothingWhenALevelIsWrong) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  Snapshot snapshot = snapshot_of(set, nullptr);
  snapshot.buckets[0].usage.used = 1;
  snapshot.gas->used = -1;
  EXPECT_FALSE(restore(snapshot, set, nullptr).ok());
  EXPECT_EQ(set.buckets()[0].bucket.used(), 0);
}

TEST(Snapshot, IsShiftedBackAsAWhole) {
  const auto parsed = parse_snapshot(
      R"({"buckets":[{"name":"a","capacity":2,"used":1,"decided":[1700000000,4]}],)"
      R"("gas":[0,null],"bytes":[0,1700000000,5],"duration":[0,-9223372036854775807,0],)"
      R"("genericStarts":[null,[1700000000,1]],"gasStarts":[null],"clock":[1700000001,0]})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  Snapshot snapshot = *parsed;
  EXPECT_EQ(latest_of(snapshot), (Moment{1'700'000'001, 0}));
  shift_back(snapshot, 2s + 4ns);
  EXPECT_EQ(snapshot.buckets[0].usage.decided, (Moment{1'699'999'998, 0}));
  EXPECT_EQ(snapshot.gas->decided, std::nullopt);
  EXPECT_EQ(snapshot.bytes->decided, (Moment{1'699'999'998, 1}));
  EXPECT_EQ(snapshot.duration->decided, (Moment{INT64_MIN, 0}));
  EXPECT_EQ(snapshot.generic_starts[1], (Moment{1'699'999'997, 999'999'997}));
  EXPECT_EQ(snapshot.clock, (Moment{1'699'999'998, 999'999'996}));
  Snapshot never;
  shift_back(never, 1s);
  EXPECT_EQ(never.clock, Moment{});
}

TEST(Snapshot, NamesThePlaceOfAMistake) {
  EXPECT_EQ(parse_snapshot("{\"gas\": [0, null],\n \"oops\": 1}").error().message,
            "snapshot:2:2: unknown key 'oops'; delete it");
  for (const std::string_view bad :
       {"", "[]", "{\"gas\": [1]}", "{\"gas\": [1, 2]}", "{\"gas\": [1, 2, 3, 4]}",
        "{\"gas\": [1, 2, 1000000000]}", "{\"gas\": [1.5, null]}", "{\"buckets\": [{}]}",
        "{\"genericStarts\": [1]}", "{\"clock\": [1]}"}) {
    const auto parsed = parse_snapshot(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(parsed.error().message, ::testing::StartsWith("snapshot:1:")) << bad;
  }
}

TEST(PositionalSnapshot, IsReadAndWritten) {
  const std::string text =
      R"({"tps":[[5,1700000000,4],[0,null]],"gas":[7,null],"ops":[0,null],"genStarts":[null,[1,2]],"gasStarts":[null]})";
  const auto parsed = parse_positional_snapshot(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(to_json(*parsed), text);
}

}  // namespace
}  // namespace weir::system::throttle
