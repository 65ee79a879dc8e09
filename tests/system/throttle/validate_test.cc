#include "weir/system/throttle/validate.h"

#include <gmock/gmock.h>

#include "tests/system/throttle/support.h"
#include "weir/system/throttle/build.h"

namespace weir::system::throttle {
namespace {

using ::testing::StartsWith;

std::string bucket(std::string_view name, std::string_view groups) {
  return R"({"name": ")" + std::string(name) + R"(", "burstPeriod": 1, "throttleGroups": [)" +
         std::string(groups) + "]}";
}
std::string file(std::string_view buckets) {
  return R"({"buckets": [)" + std::string(buckets) + "]}";
}

constexpr std::string_view kGood = R"({"opsPerSec": 1, "operations": ["a"]})";
constexpr std::string_view kZero = R"({"opsPerSec": 0, "operations": ["z"]})";

Finding finding_of(const std::string& text) {
  return validate(definitions_of(text, Reader::kStrict)).finding;
}

TEST(Validate, JudgesAllBucketsInOnePassBeforeTheNext) {
  // The second bucket's missing groups are found before the first one's rate of 0.
  EXPECT_EQ(finding_of(file(bucket("A", kZero) + "," + bucket("B", ""))), Finding::kNoGroups);
  const std::string repeats = R"({"opsPerSec": 1, "operations": ["a"]},
                                 {"opsPerSec": 2, "operations": ["a"]})";
  EXPECT_EQ(finding_of(file(bucket("A", repeats) + "," + bucket("B", kZero))), Finding::kZeroRate);
  EXPECT_EQ(finding_of(file(bucket("A", repeats))), Finding::kRepeatedOperation);
}

TEST(Validate, TestsTheProductOfRatesBeforeItIsReduced) {
  const auto rates = [](std::string_view rate) {
    return file(bucket("A", R"({"milliOpsPerSec": )" + std::string(rate) +
                                R"(, "operations": ["a"]}, {"milliOpsPerSec": )" +
                                std::string(rate) + R"(, "operations": ["b"]})"));
  };
  EXPECT_EQ(finding_of(rates("3000000000")), Finding::kMissingExpectedOperation);
  EXPECT_EQ(finding_of(rates("4000000000")), Finding::kRatesOverflow);
}

TEST(Validate, SaysWhereAndWhatToWrite) {
  const auto found = validate(definitions_of("{\"buckets\": [\n {\"name\": \"A\"}]}"));
  EXPECT_EQ(found.message,
            "throttles.json:2:2: BUCKET_HAS_NO_THROTTLE_GROUPS: bucket 'A': it has no groups; "
            "write \"throttleGroups\": [{...}]");
}

TEST(Validate, AcceptsAFileWithoutAllTheNetworksOperations) {
  EXPECT_EQ(finding_of(file(bucket("A", kGood))), Finding::kMissingExpectedOperation);
  EXPECT_TRUE(is_success(Finding::kMissingExpectedOperation));
}

TEST(ValidateStrictly, RefusesWhatThePublishedNetworkLetsPass) {
  const auto strictly = [](const std::string& text, std::int32_t nodes = 1) {
    return validate_strictly(definitions_of(text), nodes).finding;
  };
  EXPECT_EQ(strictly(file(bucket("A", kGood))), Finding::kMissingExpectedOperation);
  EXPECT_EQ(strictly(file(bucket("A", R"({"opsPerSec": 1, "operations": []})"))),
            Finding::kNoOperations);
  EXPECT_EQ(strictly(file(bucket("A", R"({"opsPerSec": 1, "operations": ["a", "a"]})"))),
            Finding::kRepeatedOperation);
  // One operation in three years beside ten thousand a second: more than any burst holds.
  EXPECT_EQ(strictly(file(bucket("A", R"({"opsPerSec": 10000, "operations": ["a"]},
                                         {"milliOpsPerSec": 1, "operations": ["b"]})"))),
            Finding::kCapacityTooSmall);
}

TEST(ValidateStrictly, KeepsTheBoundOfDifferentOperations) {
  const auto names = [](std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) list += (i ? ",\"" : "\"") + std::to_string(i) + '"';
    return file(bucket("A", R"({"opsPerSec": 1, "operations": [)" + list + "]}"));
  };
  EXPECT_TRUE(is_success(validate_strictly(definitions_of(names(kOperationNamesMax)), 1).finding));
  EXPECT_EQ(validate_strictly(definitions_of(names(kOperationNamesMax + 1)), 1).finding,
            Finding::kTooManyOperations);
}

TEST(Build, LengthensTheBurstWhenTheSplitIsThin) {
  const Definitions definitions = definitions_of(
      R"({"buckets": [{"name": "A", "burstPeriod": 5, "throttleGroups": [
          {"milliOpsPerSec": 800, "operations": ["a"]}, {"opsPerSec": 100, "operations": ["b"]}]}]})");
  const std::pair<std::int32_t, std::int64_t> expected[] = {
      {2, 5'000}, {8, 10'000}, {16, 20'000}, {24, 30'005}, {25, 31'250}};
  for (const auto& [nodes, burst_ms] : expected) {
    EXPECT_EQ(build(definitions, nodes)[0].burst_ms, burst_ms) << nodes;
  }
}

TEST(Build, LeavesOutOneBucketAndKeepsTheOthers) {
  ThrottleSet set(
      definitions_of(file(bucket("A", kZero) + "," + bucket("B", kGood)), Reader::kStrict),
      {.role = SetRole::kConsensus, .clamp_clock = false});
  ASSERT_EQ(set.dropped().size(), 1u);
  EXPECT_EQ(set.dropped()[0].finding, Finding::kZeroRate);
  EXPECT_FALSE(decide(set, "z", after(0s)));  // only in the one left out: always refused
  EXPECT_TRUE(decide(set, "a", after(0s)));
}

TEST(Build, SurvivesARequirementThatIsCutToNothing) {
  // 2^32 logical operations for one real one are 0 in 32 bits, as published.
  const Definitions definitions = definitions_of(
      R"({"buckets": [{"name": "A", "throttleGroups": [
          {"milliOpsPerSec": 4294967296, "operations": ["a"]},
          {"milliOpsPerSec": 1, "operations": ["b"]}]}]})");
  ThrottleSet set(definitions, {.role = SetRole::kConsensus, .clamp_clock = false});
  ASSERT_EQ(set.buckets().size(), 1u);
  EXPECT_TRUE(decide(set, "b", after(0s)));
  EXPECT_EQ(set.room_for(named(set, "b"), after(0s)), kTermMax);
  EXPECT_THAT(resolved_text("FRONTEND", 1, build(definitions, 1)),
              ::testing::HasSubstr("B: min{Infinity tps (A)}"));
}

}  // namespace
}  // namespace weir::system::throttle
