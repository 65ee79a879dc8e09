#include "weir/system/throttle/report.h"

#include <gmock/gmock.h>

#include "tests/system/throttle/support.h"
#include "weir/base/integer.h"
#include "weir/system/throttle/throttles.h"

namespace weir::system::throttle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const ReportedOperation* find(const Report& report, std::string_view name) {
  for (const ReportedOperation& operation : report.operations) {
    if (operation.name == name) return &operation;
  }
  return nullptr;
}

TEST(Report, SaysWhatEachOperationMayDoAlone) {
  const Report found = report(definitions_of(example()), 1);
  const ReportedOperation* call = find(found, "ContractCall");
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->micro_ops, 10'000'000);
  EXPECT_EQ(call->bucket, "PriorityReservations");
  EXPECT_EQ(call->at_once, 10);
  EXPECT_EQ(find(found, "CryptoTransfer")->micro_ops, 10'000'000'000);
}

TEST(Report, SaysHowBurstsAreLengthened) {
  const Report found = report(definitions_of(example()), 31);
  EXPECT_EQ(found.buckets[1].written_burst_ms, 1'000);
  EXPECT_EQ(found.buckets[1].burst_ms, 3'106);  // one call in 1/322 of a thousandth
}

TEST(Report, NamesWhatWouldAlwaysBeRefused) {
  const Report found = report(definitions_of(R"({"buckets": [
      {"name": "dropped", "burstPeriod": 1, "throttleGroups": [
        {"opsPerSec": 10000, "operations": ["x", "y"]},
        {"milliOpsPerSec": 1, "operations": ["z"]}]},
      {"name": "kept", "burstPeriod": 1, "throttleGroups": [
        {"opsPerSec": 1, "operations": ["y"]}]}]})"),
                              1);
  EXPECT_EQ(found.buckets[0].finding, Finding::kCapacityTooSmall);
  EXPECT_THAT(found.refused, ElementsAre("x", "z"));
  EXPECT_THAT(found.unlisted, ::testing::SizeIs(56));
}

TEST(Report, IsATableForPeople) {
  const std::string text = to_text(report(definitions_of(kTwoBuckets), 4));
  EXPECT_THAT(text, HasSubstr("4 nodes"));
  EXPECT_THAT(text, HasSubstr("first"));
  EXPECT_THAT(text, HasSubstr("0.25"));  // `b`, bound by the second bucket
  EXPECT_THAT(text, HasSubstr("of the other family: none"));
}

// --- what a live front end admits

constexpr std::string_view kLocalCall = R"({"buckets": [
  {"name": "all", "burstPeriod": 2, "throttleGroups": [
    {"opsPerSec": 20, "operations": ["ContractCallLocal", "CryptoGetAccountBalance"]},
    {"opsPerSec": 7, "operations": ["ContractCall", "juggle"]}]},
  {"name": "calls", "burstPeriod": 1, "throttleGroups": [
    {"milliOpsPerSec": 2500, "operations": ["ContractCall"]}]}]})";

// Families: an operation in both, in the other one only, in the other one without a right to it.
constexpr std::string_view kFamilies = R"({"buckets": [
  {"name": "normal", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 30, "operations": ["CryptoTransfer", "CryptoDelete"]},
    {"opsPerSec": 10, "operations": ["CryptoCreate", "ScheduleCreate", "TokenMint"]}]},
  {"name": "more", "highVolume": true, "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 50, "operations": ["CryptoCreate", "CryptoTransfer", "FileCreate"]},
    {"opsPerSec": 5, "operations": ["CryptoDelete", "FileDelete", "TokenMint"]}]}]})";

class Live {
 public:
  Live(const Definitions& definitions, std::int32_t nodes, const NetworkSettings& settings)
      : throttles_(*Throttles::create(
            {.definitions = definitions, .nodes = nodes, .settings = settings})) {}

  bool admits(const ReportedOperation& operation, std::int64_t count, Instant now) {
    Submission submission{.operation = operation.name};
    submission.transaction.high_volume = operation.high_volume;
    submission.transaction.scheduled = ScheduledTransaction{};
    if (operation.high_volume && operation.name == "CryptoTransfer") {
      // What it implies is known of one at a time.
      submission.transaction.creations = 1;
      bool all = true;
      for (std::int64_t i = 0; i < count; ++i) {
        all = throttles_->submit(SetRole::kFrontEnd, submission, now)->admission.allowed && all;
      }
      return all;
    }
    submission.transaction.count = static_cast<std::int32_t>(count);
    return throttles_->submit(SetRole::kFrontEnd, submission, now)->admission.allowed;
  }

 private:
  std::shared_ptr<Throttles> throttles_;
};

struct Case {
  std::string definitions;
  std::int32_t nodes;
  bool by_buckets;
};

void agrees(const Case& of) {
  const NetworkSettings settings{.local_calls_by_buckets = of.by_buckets};
  const Definitions definitions = definitions_of(of.definitions);
  const Report found = report(definitions, of.nodes, settings);
  for (const ReportedOperation& operation : found.operations) {
    SCOPED_TRACE(operation.name + (operation.high_volume ? " (high-volume)" : ""));
    Live live(definitions, of.nodes, settings);
    if (operation.bucket.empty()) {
      EXPECT_TRUE(live.admits(operation, 1'000'000'000, kStart));
      continue;
    }
    ASSERT_GE(operation.at_once, 1);
    EXPECT_TRUE(live.admits(operation, operation.at_once, kStart));
    EXPECT_FALSE(live.admits(operation, 1, kStart));
    // What is left of a burst is less than one: within that it comes back at the rate.
    const std::int64_t some = (operation.at_once + 1) / 2;
    ASSERT_GE(operation.micro_ops, 1);
    const auto ns = static_cast<std::int64_t>(
        ceil_div(Wide{some} * 1'000'000'000'000'000, operation.micro_ops));
    EXPECT_TRUE(live.admits(operation, some, kStart + Duration{ns}));
    EXPECT_FALSE(live.admits(operation, 2, kStart + Duration{ns}));
  }
  Live live(definitions, of.nodes, settings);
  for (const auto* list : {&found.refused, &found.only_high_volume, &found.unlisted}) {
    for (const std::string& name : *list) {
      EXPECT_FALSE(live.admits({.name = name}, 1, kStart)) << name;
    }
  }
  for (const std::string& name : found.refused) {
    EXPECT_FALSE(live.admits({.name = name, .high_volume = true}, 1, kStart)) << name;
  }
  for (const std::string& name : found.only_high_volume) {
    EXPECT_TRUE(live.admits({.name = name, .high_volume = true}, 1, kStart)) << name;
  }
}

TEST(Report, AgreesWithALiveFrontEndForAllOperations) {
  for (const std::string& definitions :
       {example(), std::string(kTwoBuckets), std::string(kLocalCall), std::string(kFamilies)}) {
    for (const std::int32_t nodes : {1, 3, 31}) {
      for (const bool by_buckets : {true, false}) {
        SCOPED_TRACE(std::to_string(nodes) + (by_buckets ? " nodes" : " nodes, by gas alone"));
        agrees({definitions, nodes, by_buckets});
      }
    }
  }
}

TEST(Report, SaysThatLocalCallsAreLimitedByTheirBucketsOrNot) {
  const Definitions definitions = definitions_of(kLocalCall);
  EXPECT_EQ(find(report(definitions, 1), "ContractCallLocal")->at_once, 40);
  const Report by_gas = report(definitions, 1, {.local_calls_by_buckets = false});
  EXPECT_EQ(find(by_gas, "ContractCallLocal")->bucket, "");
  EXPECT_THAT(to_text(by_gas), HasSubstr("any  no bucket"));
}

TEST(Report, KnowsWhichOperationsMayUseTheHighVolumeFamily) {
  const Report found = report(definitions_of(kFamilies), 1);
  EXPECT_THAT(found.only_high_volume, ElementsAre("FileCreate"));
  EXPECT_THAT(found.refused, ElementsAre("FileDelete"));
}

}  // namespace
}  // namespace weir::system::throttle
