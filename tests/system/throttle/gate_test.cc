#include "weir/system/throttle/gate.h"

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/system/throttle/read.h"

namespace weir::engine {
namespace {

using system::throttle::Definitions;
using system::throttle::LiveBucket;
using system::throttle::moment_of;
using system::throttle::SetRole;
using system::throttle::ThrottleGate;
using system::throttle::Throttles;
using system::throttle::ThrottleSet;
using system::throttle::Usage;

constexpr std::string_view kTransfersAndCalls = R"({"buckets": [
  {"name": "all", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10, "operations": ["CryptoTransfer"]},
    {"opsPerSec": 5, "operations": ["ContractCall"]}]},
  {"name": "calls", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 2, "operations": ["ContractCall"]}]}]})";

struct ThrottleGateTest : ::testing::Test {
  void use(std::vector<LimitSpec> others = {}, std::string_view text = kTransfersAndCalls) {
    auto definitions = system::throttle::read_definitions(text, "t.json");
    throttles = *Throttles::create(
        {.definitions = *definitions,
         .nodes = 1,
         .settings = {.throttle_by_gas = true, .front_end_gas_per_second = 1'000}});
    RuleSetSpec spec;
    spec.limits = std::move(others);
    spec.limits.push_back(
        {.name = "throttles", .meter = std::make_shared<ThrottleGate>(throttles)});
    for (const std::string_view name : system::throttle::kGateAttributes) {
      spec.attributes.emplace_back(name);
    }
    for (const std::string_view unit : system::throttle::kGateUnits) {
      spec.units.push_back({std::string(unit)});
    }
    engine = engine_of(spec);
  }

  static RequestOf call(std::int64_t gas = 0) {
    RequestOf ask({{"operation", "ContractCall"}, {"payer", "1001"}});
    ask.costing("gas", gas);
    return ask;
  }
  static RequestOf transfer() { return RequestOf({{"operation", "CryptoTransfer"}}); }

  ThrottleSet& set() { return throttles->locked().front_end; }
  Usage usage(std::size_t bucket) { return set().buckets()[bucket].bucket.usage(); }

  std::shared_ptr<Throttles> throttles;
  std::unique_ptr<Engine> engine;
};

TEST_F(ThrottleGateTest, IsChargedTogetherWithTheOtherLimits) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  EXPECT_EQ(admitted(*engine, call(), kStart, 3), 2);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 7);
  const auto denied = engine->decide(call(), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->binding()->limit, "throttles");
  EXPECT_EQ(denied->earliest, kStart + 500ms);
  EXPECT_TRUE(engine->decide(call(), denied->earliest)->allowed());
}

TEST_F(ThrottleGateTest, LeaksAndMovesClocksOnItsOwnRefusal) {
  use();
  ASSERT_EQ(admitted(*engine, call(), kStart, 2), 2);
  ASSERT_FALSE(engine->decide(call(), kStart + 100ms)->allowed());
  EXPECT_EQ(usage(0).decided, moment_of(kStart + 100ms));
  EXPECT_EQ(usage(1).decided, moment_of(kStart + 100ms));
}

TEST_F(ThrottleGateTest, IsUntouchedByAnotherLimitsRefusal) {
  use({{.name = "window", .meter = WindowSpec{1, 1h}}});
  ASSERT_TRUE(engine->decide(call(), kStart)->allowed());
  const Usage before = usage(1);
  EXPECT_FALSE(engine->decide(call(), kStart + 100ms)->allowed());
  EXPECT_EQ(usage(1), before);
}

// A clock of gas that is ahead makes an anomaly of every decision that leaks it, and most do.
TEST_F(ThrottleGateTest, RefusesWhatItCouldNotChargeRatherThanEndTheProcess) {
  use();
  ASSERT_EQ(set().restore_gas({0, moment_of(kStart + 60s)}), system::throttle::Anomaly::kNone);
  const auto refused = engine::acquire(*engine, transfer(), {.hold = 10s}, kStart);
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->verdict, Verdict::kDenied);
  EXPECT_EQ(usage(0).used, 0);
}

TEST_F(ThrottleGateTest, IsUntouchedByAPeek) {
  use();
  ASSERT_EQ(admitted(*engine, call(), kStart, 2), 2);
  const Usage before = usage(1);
  EXPECT_FALSE(engine->peek(call(), kStart + 100ms)->allowed());
  EXPECT_TRUE(engine->peek(call(), kStart + 500ms)->allowed());
  EXPECT_EQ(usage(1), before);
}

TEST_F(ThrottleGateTest, NeverPassesAnOperationThatNoBucketLists) {
  use();
  EXPECT_EQ(engine->decide(RequestOf({{"operation", "Nothing"}}), kStart)->verdict,
            Verdict::kNever);
}

TEST_F(ThrottleGateTest, DoesNotThrottleARequestWithoutAnOperation) {
  use();
  EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 100), 100);
  EXPECT_EQ(usage(0), Usage{});
}

TEST_F(ThrottleGateTest, IsNotReportedForARequestWithoutAnOperation) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  const auto payer_alone = engine->decide(RequestOf({{"payer", "1001"}}), kStart);
  ASSERT_EQ(payer_alone->outcomes().size(), 1u);
  EXPECT_EQ(payer_alone->outcomes()[0].limit, "window");
  EXPECT_EQ(engine->decide(call(), kStart)->outcomes().size(), 2u);
}

TEST_F(ThrottleGateTest, DoesNotThrottleExemptPayers) {
  use();
  EXPECT_EQ(
      admitted(*engine, RequestOf({{"operation", "ContractCall"}, {"payer", "100"}}), kStart, 9),
      9);
}

TEST_F(ThrottleGateTest, CountsSeveralOperationsAtOnce) {
  use();
  EXPECT_EQ(engine->decide(transfer().costing(11), kStart)->verdict, Verdict::kNever);
  EXPECT_TRUE(engine->decide(transfer().costing(8), kStart)->allowed());
  const auto denied = engine->decide(transfer().costing(4), kStart);
  EXPECT_EQ(denied->shortfall, 2);
  EXPECT_EQ(denied->earliest, kStart + 200ms);
}

TEST_F(ThrottleGateTest, GrantsUpToWhatIsLeft) {
  use();
  ASSERT_TRUE(engine->decide(transfer().costing(7), kStart)->allowed());
  EXPECT_EQ(engine::acquire(*engine, transfer().costing(9), {.up_to = "requests"}, kStart)->granted,
            3);
}

TEST_F(ThrottleGateTest, ReportsWhatIsLeftOfTheOperation) {
  use();
  const auto decision = engine->decide(transfer(), kStart);
  EXPECT_EQ(decision->outcome("throttles")->remaining, 9);
  EXPECT_EQ(decision->outcome("throttles")->capacity, 10);
}

TEST_F(ThrottleGateTest, RefusesByGas) {
  use();
  ASSERT_TRUE(engine->decide(call(700), kStart)->allowed());
  const auto denied = engine->decide(call(400), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kStart + 100ms);
  EXPECT_EQ(engine->decide(call(1'001), kStart)->verdict, Verdict::kNever);
  EXPECT_TRUE(engine->decide(transfer(), kStart)->allowed());
}

TEST_F(ThrottleGateTest, GetsUnusedGasBackFromASettledHold) {
  use();
  const auto held = engine::acquire(*engine, call(700), {.hold = 1min}, kStart);
  ASSERT_TRUE(held->allowed());
  const Cost actual[] = {{"gas", 200}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart).ok());
  EXPECT_EQ(set().gas().used(), 200);
  EXPECT_GT(usage(1).used, 0);  // the operation itself was done
}

TEST_F(ThrottleGateTest, GetsEverythingBackFromACancelledHold) {
  use();
  const auto held = engine::acquire(*engine, call(700), {.hold = 1min}, kStart);
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(set().gas().used(), 0);
  EXPECT_EQ(usage(0).used, 0);
  EXPECT_EQ(usage(1).used, 0);
}

TEST_F(ThrottleGateTest, KeepsWhatAnExpiredHoldHasTaken) {
  use();
  ASSERT_TRUE(engine::acquire(*engine, call(700), {.hold = 1ms}, kStart)->allowed());
  engine->advance(kStart + 1ms);
  EXPECT_EQ(set().gas().used(), 700);
}

TEST_F(ThrottleGateTest, GetsSomeOperationsBackFromASettledHold) {
  use();
  const auto held = engine::acquire(*engine, transfer().costing(8), {.hold = 1min}, kStart);
  const Cost actual[] = {{kRequests, 5}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart).ok());
  EXPECT_EQ(engine->decide(transfer(), kStart)->outcome("throttles")->remaining, 4);
}

TEST_F(ThrottleGateTest, GetsThemBackFromTheBucketsTheyWereClaimedOf) {
  use({}, R"({"buckets": [
    {"name": "normal", "burstPeriod": 1, "throttleGroups": [
      {"opsPerSec": 10, "operations": ["CryptoCreate"]}]},
    {"name": "high", "highVolume": true, "burstPeriod": 1, "throttleGroups": [
      {"opsPerSec": 10, "operations": ["CryptoCreate"]}]}]})");
  RequestOf six_creations({{"operation", "CryptoCreate"}, {"high_volume", "true"}});
  const auto held = engine::acquire(*engine, six_creations.costing(6), {.hold = 1min}, kStart);
  ASSERT_TRUE(held->allowed());
  const std::int64_t six = usage(1).used;
  ASSERT_GT(six, 0);
  const Cost actual[] = {{kRequests, 2}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart).ok());
  EXPECT_EQ(usage(0).used, 0);
  EXPECT_EQ(usage(1).used, six / 3);
}

TEST_F(ThrottleGateTest, GivesNothingBackToDefinitionsThatCameLater) {
  use();
  const auto held = engine::acquire(*engine, transfer().costing(8), {.hold = 1min}, kStart);
  ASSERT_TRUE(throttles
                  ->set_definitions(R"({"buckets": [{"name": "new", "burstPeriod": 1,
      "throttleGroups": [{"opsPerSec": 10, "operations": ["CryptoTransfer"]}]}]})",
                                    "new.json")
                  .ok());
  ASSERT_TRUE(engine->decide(transfer().costing(8), kStart)->allowed());
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(engine->peek(transfer(), kStart)->outcome("throttles")->remaining, 2);
}

TEST_F(ThrottleGateTest, DoesNotHoldUpARequestWithoutAnOperationForAWaiter) {
  use();
  Inbox inbox;
  ASSERT_EQ(admitted(*engine, call(), kStart, 2), 2);
  ASSERT_NE(engine::wait(*engine, call(), {.deadline = kStart + 1s}, kStart, inbox.as("w"))->ticket,
            0u);
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

TEST_F(ThrottleGateTest, LetsAWaiterPassAtTheInstantItPromised) {
  use();
  Inbox inbox;
  ASSERT_EQ(admitted(*engine, call(), kStart, 2), 2);
  ASSERT_NE(engine::wait(*engine, call(), {.deadline = kStart + 1s}, kStart, inbox.as("w"))->ticket,
            0u);
  EXPECT_EQ(engine->next_instant(), kStart + 500ms);
  engine->advance(kStart + 500ms);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

}  // namespace
}  // namespace weir::engine
