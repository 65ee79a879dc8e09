#include "weir/system/throttle/report.h"

#include <gmock/gmock.h>

#include <utility>

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

// --- mixes

std::vector<MixPart> mix_of(std::string_view text) {
  auto mix = parse_mix(text);
  EXPECT_TRUE(mix.ok()) << (mix ? "" : mix.error().message);
  return mix ? *mix : std::vector<MixPart>{};
}

// The first bucket alone, as the document has it.
constexpr std::string_view kOneBucket = R"({"buckets": [
  {"name": "ThroughputLimits", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10000, "operations": ["CryptoTransfer"]},
    {"opsPerSec": 13, "operations": ["ContractCall"]},
    {"opsPerSec": 3000, "operations": ["TokenMint"]}]}]})";

TEST(MixReport, FillsABucketWithHalfOfTenThousandAndHalfOfThirteen) {
  const MixReport half =
      report_mix(definitions_of(kOneBucket), 1, mix_of("CryptoTransfer=50%,ContractCall=50%"));
  EXPECT_TRUE(half.fits);
  EXPECT_EQ(half.parts[0].micro, 5'000'000'000);
  EXPECT_EQ(half.parts[1].micro, 6'500'000);
  ASSERT_EQ(half.buckets.size(), 1u);
  EXPECT_EQ(half.buckets[0].percent_micro, 100'000'000);
  EXPECT_EQ(half.scale_micro, 1'000'000);
  const MixReport more = report_mix(definitions_of(kOneBucket), 1,
                                    mix_of("CryptoTransfer=5000,ContractCall=6.500001"));
  EXPECT_FALSE(more.fits);
  EXPECT_EQ(more.buckets[0].percent_micro, 100'000'008) << "a millionth of 100/13 %, rounded up";
  EXPECT_EQ(more.scale_micro, 999'999);
}

TEST(MixReport, NamesEveryBucketThatItFills) {
  const MixReport found =
      report_mix(definitions_of(example()), 1, mix_of("CryptoTransfer=1000,ContractCall=5"));
  ASSERT_EQ(found.buckets.size(), 2u);
  EXPECT_EQ(found.buckets[0].percent_micro, 48'461'539) << "a tenth and 5/13, rounded up";
  EXPECT_EQ(found.buckets[1].name, "PriorityReservations");
  EXPECT_EQ(found.buckets[1].percent_micro, 50'000'000);
  EXPECT_EQ(found.scale_micro, 2'000'000);
  EXPECT_THAT(to_text(found), HasSubstr("fits: yes; 2 times this mix is the most"));
}

TEST(MixReport, DoesNotFitIfAnOperationIsRefusedWhateverItsRate) {
  const MixReport found =
      report_mix(definitions_of(kOneBucket), 1, mix_of("CryptoTransfer=1,Juggle=0"));
  EXPECT_FALSE(found.fits);
  EXPECT_THAT(found.refused, ElementsAre("Juggle"));
  EXPECT_THAT(to_text(found), HasSubstr("always refused: Juggle"));
}

// A front end admits the mix that fits exactly, second after second, and one more of it never.
TEST(MixReport, AgreesWithALiveFrontEnd) {
  const Definitions definitions = definitions_of(kOneBucket);
  const auto throttles = *Throttles::create({.definitions = definitions});
  ASSERT_TRUE(report_mix(definitions, 1, mix_of("CryptoTransfer=5000,TokenMint=1500")).fits);
  const auto admits = [&](std::string_view operation, std::int32_t count, Instant now) {
    Submission submission{.operation = operation};
    submission.transaction.count = count;
    return throttles->submit(SetRole::kFrontEnd, submission, now)->admission.allowed;
  };
  for (int second = 0; second < 5; ++second) {
    const Instant now = kStart + std::chrono::seconds{second};
    EXPECT_TRUE(admits("CryptoTransfer", 5000, now));
    EXPECT_TRUE(admits("TokenMint", 1500, now));
    EXPECT_FALSE(admits("CryptoTransfer", 1, now));
  }
}

TEST(MixReport, HoldsWhateverTheNumbersAre) {
  const MixReport huge = report_mix(
      definitions_of(kOneBucket), 1,
      mix_of("CryptoTransfer=4611686018427,ContractCall=4611686018427,TokenMint=4611686018427"));
  EXPECT_FALSE(huge.fits);
  EXPECT_GE(huge.buckets[0].percent_micro, 100'000'000);
  EXPECT_FALSE(to_text(huge).empty());
}

TEST(MixReport, NamesWhatIsWrongWithAMix) {
  for (const auto& [text, says] :
       {std::pair{"", "is not an operation and its rate"},
        std::pair{"CryptoTransfer", "is not an operation and its rate"},
        std::pair{"=5", "is not an operation and its rate"}, std::pair{"CryptoTransfer=", "mix"},
        std::pair{"CryptoTransfer=-1", "mix"},
        std::pair{"CryptoTransfer=1,CryptoTransfer=2%", "is there twice"}}) {
    const auto mix = parse_mix(text);
    ASSERT_FALSE(mix.ok()) << text;
    EXPECT_THAT(mix.error().message, HasSubstr(says)) << text;
  }
  std::string many = "a=1";
  for (std::size_t i = 1; i < kMixMax; ++i) many += ",a" + std::to_string(i) + "=1";
  EXPECT_TRUE(parse_mix(many).ok());
  EXPECT_FALSE(parse_mix(many + ",b=1").ok());
}

// --- two files

TEST(DifferenceText, ShowsWhatDiffers) {
  const Report now = report(definitions_of(kTwoBuckets), 1);
  EXPECT_THAT(difference_text(now, now), HasSubstr("the same: 2 of 2"));
  EXPECT_THAT(difference_text(now, now), HasSubstr("the same: 3 of 3"));
  const Report then = report(definitions_of(R"({"buckets": [
      {"name": "first", "burstPeriod": 1, "throttleGroups": [
        {"opsPerSec": 20, "operations": ["a"]}, {"opsPerSec": 4, "operations": ["b"]}]},
      {"name": "second", "burstPeriod": 1, "throttleGroups": [
        {"opsPerSec": 1, "operations": ["b", "d"]}]}]})"),
                             1);
  const std::string text = difference_text(now, then);
  EXPECT_THAT(text, ::testing::ContainsRegex("a +10 +20 +10 +20  first"));
  EXPECT_THAT(text, ::testing::ContainsRegex("c +1 +refused +1 +0  -"));
  EXPECT_THAT(text, ::testing::ContainsRegex("d +refused +1 +0 +1  second"));
  EXPECT_THAT(text, HasSubstr("the same: 1 of 4")) << "b is bound by the second bucket";
  EXPECT_THAT(text, HasSubstr("the same: 1 of 2"));
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
