// A worker in an engine's decision.

#include "weir/system/compute/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "tests/engine/support.h"
#include "tests/system/compute/support.h"
#include "weir/system/compute/feed.h"

namespace weir::system::compute {
namespace {

using engine::Cost;
using engine::Engine;
using engine::kRequests;
using engine::WindowSpec;

// One token a second for p0, one slot, and a window beside it.
struct ComputeGateTest : ::testing::Test {
  void SetUp() override { use({.running = 1, .queue = 4}); }
  void use(const WorkerSettings& settings) {
    worker = std::make_shared<SharedWorker>(std::in_place, settings);
    worker->locked().apply(allocations_of({60, 60}), kStart);
    spec.limits = {{.name = "window", .meter = WindowSpec{3, 24h}},
                   {.name = "compute", .meter = std::make_shared<ComputeGate>(worker)}};
    spec.units = {{std::string(kComputeUnit), engine::UnitScale::kMicro}};
    spec.attributes = {std::string(kPortalAttribute)};
    engine = engine::engine_of(spec);
  }
  static engine::RequestOf of(const char* portal) {
    return engine::RequestOf({{"portal", portal}});
  }
  std::int64_t tokens(Instant at) { return worker->locked().cluster_of("p0", at)->tokens_micro; }
  std::int64_t left(Instant at) { return engine::remaining(*engine, "window", {}, at); }

  engine::RuleSetSpec spec;
  std::shared_ptr<SharedWorker> worker;
  std::unique_ptr<Engine> engine;
};

TEST_F(ComputeGateTest, TakesATokenTogetherWithTheOtherLimits) {
  ASSERT_TRUE(engine->decide(of("p0"), kStart + 2s)->allowed());
  EXPECT_EQ(tokens(kStart + 2s), kMicro);
  EXPECT_EQ(left(kStart + 2s), 2);
}

TEST_F(ComputeGateTest, TakesNothingFromOthersWhenTheBucketIsEmpty) {
  const auto denied = engine->decide(of("p0"), kStart + 500ms);
  EXPECT_EQ(denied->verdict, weir::Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kStart + 1s);
  EXPECT_EQ(denied->binding()->limit, "compute");
  EXPECT_EQ(left(kStart + 500ms), 3);
  EXPECT_EQ(worker->locked().totals().outcomes[1], 1u);
}

TEST_F(ComputeGateTest, TakesNothingWhenAnotherLimitRefuses) {
  ASSERT_TRUE(engine->decide(engine::RequestOf().costing(3), kStart)->allowed());
  EXPECT_FALSE(engine->decide(of("p0"), kStart + 1s)->allowed());
  EXPECT_EQ(tokens(kStart + 1s), kMicro);
}

TEST_F(ComputeGateTest, LetsARequestWithoutAPortalPass) {
  const auto answer = engine->decide(engine::RequestOf(), kStart);
  EXPECT_TRUE(answer->allowed());
  EXPECT_EQ(answer->outcome("compute"), nullptr);
  EXPECT_NE(answer->outcome("window"), nullptr);
}

TEST_F(ComputeGateTest, RefusesAPortalThatHasNothing) {
  const auto denied = engine->decide(of("px"), kStart + 1s);
  EXPECT_EQ(denied->verdict, weir::Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kForever);
}

TEST_F(ComputeGateTest, HoldsNobodyUpButTheWaitersOwnCluster) {
  engine::Inbox inbox;
  ASSERT_TRUE(engine->decide(of("p0"), kStart + 1s)->allowed());
  const engine::Patience minute{.deadline = kStart + 1min};
  ASSERT_NE(engine::wait(*engine, of("nobody"), minute, kStart + 1s, inbox.as("nobody"))->ticket,
            0u);
  ASSERT_NE(engine::wait(*engine, of("p0"), minute, kStart + 1s, inbox.as("p0"))->ticket, 0u);
  EXPECT_TRUE(engine->decide(of("p1"), kStart + 1s)->allowed());
  EXPECT_TRUE(engine->decide(engine::RequestOf(), kStart + 1s)->allowed());
  EXPECT_TRUE(inbox.texts().empty());
}

TEST_F(ComputeGateTest, CountsARequestAsOneQuery) {
  EXPECT_EQ(engine->decide(of("p0").costing(2), kStart + 3s)->verdict, weir::Verdict::kNever);
}

TEST_F(ComputeGateTest, KeepsASlotForAsLongAsAHoldLasts) {
  const auto held = engine::acquire(*engine, of("p0"), {.hold = 1min}, kStart + 3s);
  ASSERT_TRUE(held->allowed());
  EXPECT_EQ(worker->locked().totals().running, 1);
  EXPECT_FALSE(engine->decide(of("p1"), kStart + 3s)->allowed()) << "the only slot is taken";
  engine::cancel(*engine, held->hold, kStart + 3s);
  EXPECT_EQ(worker->locked().totals().running, 0);
  EXPECT_EQ(tokens(kStart + 3s), 3 * kMicro);
}

TEST_F(ComputeGateTest, GivesTheUnusedPartBackWhenAHoldIsSettled) {
  const auto held = engine::acquire(*engine, of("p0"), {.hold = 1min}, kStart + 1s);
  const Cost actual[] = {{kComputeUnit, 300'000}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart + 1s));
  EXPECT_EQ(tokens(kStart + 1s), 700'000);
}

TEST_F(ComputeGateTest, KeepsTheTokenOfAHoldThatExpires) {
  ASSERT_TRUE(engine::acquire(*engine, of("p0"), {.hold = 1s}, kStart + 1s)->allowed());
  engine->advance(kStart + 2s);
  EXPECT_EQ(worker->locked().totals().running, 0);
  EXPECT_EQ(tokens(kStart + 2s), kMicro);  // of the tick at 2 s
}

// --- the feed

struct FeedTest : ::testing::Test {
  std::unique_ptr<Feed> feed_of(const FeedSettings& settings) {
    worker = std::make_shared<SharedWorker>(std::in_place, WorkerSettings{});
    return std::make_unique<Feed>(worker, settings);
  }
  static AllocationSet epoch(std::int64_t number, std::int64_t units) {
    AllocationSet set = allocations_of({units});
    set.epoch = number;
    return set;
  }
  std::int64_t units() {
    const auto cluster = worker->locked().cluster_of("p0", kStart);
    return cluster ? cluster->units : 0;
  }
  Cause cause(Instant at) { return worker->locked().peek("p0", at).cause; }

  std::shared_ptr<SharedWorker> worker;
};

TEST_F(FeedTest, AppliesOnceInAnEpochAsPublished) {
  const auto feed = feed_of({});
  EXPECT_EQ(cause(kStart), Cause::kNotYetAllocated);
  feed->heard(epoch(7, 60), kStart);
  feed->heard(epoch(7, 120), kStart + 30s);
  EXPECT_EQ(units(), 60);
  feed->heard(epoch(8, 120), kStart + 60s);
  EXPECT_EQ(units(), 120);
}

TEST_F(FeedTest, FollowsALedgerThatWasBegunAnew) {
  const auto feed = feed_of({});
  feed->heard(epoch(7, 60), kStart);
  feed->heard(epoch(1, 120), kStart + 30s);
  EXPECT_EQ(units(), 120);
  EXPECT_EQ(feed->status().epoch, 1);
}

TEST_F(FeedTest, TellsWhomItLeavesOut) {
  const auto feed = feed_of({});
  AllocationSet set = allocations_of({60, 1}, Duration{kTermMax});  // the second cannot be held
  feed->heard(set, kStart, "", {{"other", Fault::kStrategyFailed}});
  EXPECT_EQ(feed->status().broken,
            (std::vector<LeftOut>{{"other", Fault::kStrategyFailed}, {"c1", Fault::kOutOfRange}}));
  EXPECT_EQ(feed->status().warning,
            "2 clusters with units have nothing here, 'other' among them: STRATEGY_FAILED; see "
            "'broken' of /v1/compute/worker");
  feed->heard(epoch(2, 60), kStart);
  EXPECT_TRUE(feed->status().broken.empty());
  EXPECT_EQ(feed->status().warning, "");
}

TEST_F(FeedTest, AppliesAtOnceInImmediateMode) {
  const auto feed = feed_of({.mode = FeedMode::kImmediate});
  feed->heard(epoch(7, 60), kStart);
  feed->heard(epoch(7, 120), kStart + 30s);
  EXPECT_EQ(units(), 120);
}

TEST_F(FeedTest, KeepsTheLastGoodOnesUntilTheyAreTooOld) {
  const auto feed = feed_of({.max_age = 1h});
  feed->heard(epoch(7, 60), kStart);
  feed->failed("no answer", kStart + 1h);
  EXPECT_EQ(units(), 60);
  EXPECT_EQ(feed->status().trouble, "no answer");
  feed->look(kStart + 1h + 1ns);
  EXPECT_EQ(cause(kStart + 1h), Cause::kStale);
  EXPECT_TRUE(feed->status().is_stale);
  feed->heard(epoch(7, 60), kStart + 2h);
  EXPECT_EQ(units(), 60) << "the same epoch is put in force again";
  EXPECT_TRUE(feed->status().trouble.empty());
}

TEST_F(FeedTest, GoesOnWithWhatBecameTooOldWhenTheLedgerHasNothingNew) {
  const auto feed = feed_of({.max_age = 1h});
  AllocationSet set = allocations_of({60, 1}, Duration{kTermMax});
  feed->heard(set, kStart, "", {{"other", Fault::kStrategyFailed}});
  const std::vector<LeftOut> broken = feed->status().broken;
  feed->look(kStart + 1h + 1ns);
  ASSERT_EQ(cause(kStart + 1h + 1ns), Cause::kStale);
  feed->heard_nothing_new(kStart + 2h);
  EXPECT_FALSE(feed->status().is_stale);
  EXPECT_EQ(units(), 60);
  EXPECT_EQ(feed->status().broken, broken);
}

TEST_F(FeedTest, KeepsThemForEverWhereThePolicySaysSo) {
  const auto feed = feed_of({.outage = FeedOutage::kKeep, .max_age = 1h});
  feed->heard(epoch(7, 60), kStart);
  feed->failed("no answer", kStart + 24h);
  EXPECT_EQ(units(), 60);
}

TEST_F(FeedTest, ResumesWhatWasInForceBefore) {
  const auto feed = feed_of({.max_age = 1h});
  feed->resume(epoch(7, 60), kStart - 30min, kStart);
  EXPECT_EQ(units(), 60);
  feed->failed("no answer", kStart + 31min);
  EXPECT_EQ(cause(kStart + 31min), Cause::kStale);
}

TEST_F(FeedTest, WarnsOfMoreThanTheWorkerCanServe) {
  const auto feed = feed_of({.service_time = 1s});
  feed->heard(epoch(7, 60), kStart);
  EXPECT_EQ(feed->status().warning, "");
  feed->heard(epoch(8, 60 * 33), kStart);
  EXPECT_NE(feed->status().warning, "");
}

}  // namespace
}  // namespace weir::system::compute
