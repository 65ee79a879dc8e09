#include "weir/system/throttle/report.h"

#include <gmock/gmock.h>

#include "tests/system/throttle/support.h"

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
  EXPECT_THAT(text, HasSubstr("their buckets dropped: none"));
}

}  // namespace
}  // namespace weir::system::throttle
