#include "weir/system/pool/outage.h"

#include <gmock/gmock.h>

#include "tests/system/pool/support.h"

namespace weir::system::pool {
namespace {

using ::testing::ElementsAre;
using Script = ScriptedCoordinator::Script;

struct Outage {
  explicit Outage(OutagePolicy policy, PoolsSettings settings)
      : script(std::make_shared<Script>()),
        coordinator(new OutageCoordinator(std::make_unique<ScriptedCoordinator>(script), policy)),
        instance(std::move(settings), std::unique_ptr<Coordinator>(coordinator)) {}

  std::shared_ptr<Script> script;
  OutageCoordinator* coordinator;
  Instance instance;
};

TEST(Outage, IsRefusedAtOnceIfDenied) {
  Outage outage(OutagePolicy::kDeny, places_of(4));
  outage.script->allocate(kStart);
  outage.script->listener->reachable(kStart, false);
  const JobId job = outage.instance.submit("a", kStart);
  ASSERT_NE(outage.instance.refusal_of(job), nullptr);
  EXPECT_EQ(outage.instance.refusal_of(job)->reason, JobRefused::kUnavailable);
  EXPECT_TRUE(outage.script->asks.empty()) << "no job waits for a time-out that is known";
  outage.script->listener->reachable(kStart + 1s, true);
  outage.instance.submit("a", kStart + 1s);
  EXPECT_EQ(outage.script->asks.size(), 1u);
}

TEST(Outage, IsLivedThroughOnTheLastShare) {
  Outage outage(OutagePolicy::kLocal, tokens_per_minute_of(6'000, 1'000));
  outage.script->allocate(kStart, /*instances=*/2);
  // One of the three that this instance may start was granted before.
  const JobId before = outage.instance.submit("a", kStart);
  outage.script->grant(kStart);
  outage.instance.finish(before, kStart, 1'000);
  outage.script->listener->reachable(kStart + 1s, false);
  EXPECT_EQ(outage.instance.model_of(outage.instance.submit("a", kStart + 1s)), "m");
  EXPECT_EQ(outage.instance.model_of(outage.instance.submit("a", kStart + 1s)), "m");
  const JobId beyond = outage.instance.submit("a", kStart + 1s);
  EXPECT_EQ(outage.instance.start_of(beyond), nullptr);
  outage.instance.run_until(kStart + 1min - 1ns);
  EXPECT_EQ(outage.coordinator->reading().admitted, 2u);
  outage.instance.run_until(kStart + 1min);
  EXPECT_EQ(outage.coordinator->reading().admitted, 3u);
  EXPECT_TRUE(outage.coordinator->reading().is_out);
}

// The bounds that the reference gives: (2 - 1/N) times the limit, and N times.
TEST(Outage, LetsAFleetOfTwoUseItsBoundAndNotMore) {
  for (const OutagePolicy policy : {OutagePolicy::kLocal, OutagePolicy::kAllow}) {
    Outage one(policy, tokens_per_minute_of(60, 1));
    Outage two(policy, tokens_per_minute_of(60, 1));
    one.script->allocate(kStart);
    for (int i = 0; i < 60; ++i) {
      one.instance.submit("a", kStart, 0s);
      one.script->grant(kStart);
    }
    ASSERT_EQ(one.instance.started_jobs(), 60u);
    for (Outage* each : {&one, &two}) {
      each->script->allocate(kStart + 1s, /*instances=*/2, /*epoch=*/2);
      each->script->listener->reachable(kStart + 2s, false);
      for (int i = 0; i < 70; ++i) each->instance.submit("a", kStart + 3s, 0s);
    }
    const std::size_t started = one.instance.started_jobs() + two.instance.started_jobs();
    EXPECT_EQ(started, policy == OutagePolicy::kLocal ? 90u : 120u) << to_string(policy);
  }
}

TEST(Outage, IsReportedWhenItIsOver) {
  Outage outage(OutagePolicy::kLocal, tokens_per_minute_of(9'000, 1'000));
  outage.script->allocate(kStart);
  outage.script->listener->reachable(kStart, false);
  const JobId ended = outage.instance.submit("a", kStart + 1s);
  const JobId runs = outage.instance.submit("a", kStart + 1s);
  outage.instance.finish(ended, kStart + 2s, 400);
  EXPECT_EQ(outage.coordinator->reading().unsent, 1u);
  EXPECT_TRUE(outage.script->replays.empty());
  outage.script->listener->reachable(kStart + 3s, true);
  EXPECT_THAT(outage.script->replays, ElementsAre(std::tuple("m", Amounts{400, 1}, kStart)));
  EXPECT_EQ(outage.coordinator->reading().unsent, 0u);
  // What runs is the coordinator's from now on.
  EXPECT_THAT(outage.script->adopts, ElementsAre(std::tuple("m", Amounts{1'000, 1}, kStart + 1s)));
  outage.script->grant(kStart + 3s);
  outage.instance.finish(runs, kStart + 4s, 1'500);
  EXPECT_EQ(outage.script->replays.size(), 1u);
  ASSERT_EQ(outage.script->releases.size(), 1u);
  EXPECT_EQ(outage.script->releases[0].second, (Amounts{1'500, 1}));
}

TEST(Outage, SettlesAJobThatEndsWhileItIsAdopted) {
  Outage outage(OutagePolicy::kLocal, places_of(4));
  outage.script->allocate(kStart);
  outage.script->listener->reachable(kStart, false);
  const JobId settled = outage.instance.submit("a", kStart + 1s);
  const JobId replayed = outage.instance.submit("a", kStart + 1s);
  outage.script->listener->reachable(kStart + 2s, true);
  outage.instance.finish(settled, kStart + 3s, 40);
  outage.instance.finish(replayed, kStart + 3s, 50);
  EXPECT_TRUE(outage.script->releases.empty());
  outage.script->grant(kStart + 4s);
  ASSERT_EQ(outage.script->releases.size(), 1u);
  EXPECT_EQ(outage.script->releases[0].second, (Amounts{40, 1}));
  // The other was not adopted: what it used is told with the next outage's end.
  outage.script->refuse(kStart + 4s, Refused::kUnreachable);
  outage.script->listener->reachable(kStart + 5s, true);
  EXPECT_THAT(outage.script->replays, ElementsAre(std::tuple("m", Amounts{50, 1}, kStart)));
}

TEST(Outage, SendsReleasesAgain) {
  Outage outage(OutagePolicy::kLocal, places_of(4));
  outage.script->allocate(kStart);
  const JobId job = outage.instance.submit("a", kStart);
  outage.script->grant(kStart);
  outage.script->release_result = Released::kUnreachable;
  outage.instance.finish(job, kStart + 1s);
  ASSERT_EQ(outage.script->releases.size(), 1u);
  outage.script->release_result = Released::kSettled;
  outage.script->listener->reachable(kStart + 2s, true);
  ASSERT_EQ(outage.script->releases.size(), 2u);
  EXPECT_EQ(outage.script->releases[0].first.id, outage.script->releases[1].first.id);
  outage.script->listener->reachable(kStart + 3s, true);
  EXPECT_EQ(outage.script->releases.size(), 2u) << "once";
}

TEST(Outage, OfOneAnswerIsReportedAtOnce) {
  Outage outage(OutagePolicy::kLocal, places_of(4));
  outage.script->allocate(kStart);
  const JobId job = outage.instance.submit("a", kStart);
  outage.script->refuse(kStart + 1s, Refused::kUnreachable);
  EXPECT_EQ(outage.instance.model_of(job), "m");
  EXPECT_THAT(outage.script->adopts, ElementsAre(std::tuple("m", Amounts{100, 1}, kStart + 1s)));
}

TEST(Outage, FromTheStartIsLivedThroughOnlyIfAllowed) {
  for (const OutagePolicy policy : {OutagePolicy::kAllow, OutagePolicy::kLocal}) {
    const auto script = std::make_shared<Script>();
    script->start_status = Error{ErrorCode::kUnavailable, "no server there"};
    PoolsSettings settings = places_of(4);
    settings.types[0].max_wait = {{"m", 0s}};
    Instance instance(settings, std::make_unique<OutageCoordinator>(
                                    std::make_unique<ScriptedCoordinator>(script), policy));
    EXPECT_FALSE(instance.started());
    const JobId job = instance.submit("a", kStart);
    EXPECT_EQ(instance.start_of(job) != nullptr, policy == OutagePolicy::kAllow);
  }
}

}  // namespace
}  // namespace weir::system::pool
