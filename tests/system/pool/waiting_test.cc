// Who is woken by what, in which order, and what happens at the end of patience.

#include <gmock/gmock.h>

#include "tests/system/pool/support.h"

namespace weir::system::pool {
namespace {

using ::testing::ElementsAre;
using Script = ScriptedCoordinator::Script;

PoolsSettings two_types(std::int64_t places) {
  PoolsSettings settings = places_of(places);
  settings.types = {type_of("a", 100, 0.5), type_of("b", 100, 0.5)};
  settings.ratios.interval = Duration{0};
  settings.ratios.releases_per_adjustment = 0;
  // So that jobs wait for the model and not for a slot of their type.
  settings.models.push_back({.name = "wide", .limits = {.concurrent = 1'000}});
  settings.escalation = {"m"};
  return settings;
}

TEST(Waiting, EndsWhenAJobEnds) {
  Instance instance(two_types(2));
  const JobId first = instance.submit("a", kStart);
  const JobId second = instance.submit("a", kStart);
  EXPECT_EQ(instance.start_of(second), nullptr);
  instance.finish(first, kStart + 1s);
  EXPECT_EQ(instance.answered_at(second), kStart + 1s);
  EXPECT_EQ(instance.start_of(second)->waited, 1s);
}

// A waiter that comes after the last job of a full window has ended.
TEST(Waiting, EndsAtTheBoundaryThoughNothingEndsAnyMore) {
  Instance instance(tokens_per_minute_of(1'000, 1'000));
  const JobId first = instance.submit("a", kStart);
  instance.finish(first, kStart + 1s, 1'000);
  const JobId second = instance.submit("a", kStart + 10s);
  EXPECT_EQ(instance->next_instant(), kStart + 15s - 10s) << "the adjustment's timer";
  instance.run_until(kStart + 1min - 1ns);
  EXPECT_EQ(instance.start_of(second), nullptr);
  instance.run_until(kStart + 1min);
  EXPECT_EQ(instance.answered_at(second), kStart + 1min);
}

TEST(Waiting, EndsWhenTheDayTurns) {
  PoolsSettings settings = places_of(5);
  settings.models[0].limits = {.rates = {.requests_per_day = 1}};
  settings.types[0].max_wait = {{"m", 24h}};
  Instance instance(settings);
  instance.finish(instance.submit("a", kStart), kStart);
  const JobId second = instance.submit("a", kStart);
  const Instant midnight = window_begin(Dimension::kRequestsPerDay, kStart) + kDay;
  instance.run_until(midnight - 1ns);
  EXPECT_EQ(instance.start_of(second), nullptr);
  instance.run_until(midnight);
  EXPECT_EQ(instance.answered_at(second), midnight);
}

TEST(Waiting, EndsWhenAnAllocationGrows) {
  const auto fleet = std::make_shared<LocalFleet>();
  PoolsSettings settings = two_types(4);
  Instance first(settings, fleet);
  Instance second(settings, fleet);
  EXPECT_EQ(first.model_of(first.submit("a", kStart)), "m");
  const JobId waiting = first.submit("a", kStart);
  EXPECT_EQ(first.start_of(waiting), nullptr) << "half of half of four";
  bool is_stopped = false;
  second->stop(kStart + 1s, [&](Instant, const Status&) { is_stopped = true; });
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(first.answered_at(waiting), kStart + 1s) << "a smaller instance count is applied";
  EXPECT_EQ(first->reading(kStart + 1s).allocation.instance_count, 1);
}

TEST(Waiting, EndsWhenTheTypesShareGrowsInTheSlotQueueToo) {
  PoolsSettings settings = places_of(10);
  settings.types = {type_of("a", 100, 0.1), type_of("b", 100, 0.9)};
  Instance instance(settings);
  std::vector<JobId> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(instance.submit("a", kStart));
  EXPECT_EQ(instance.started_jobs(), 1u);
  instance.run_until(kStart + 5s);
  EXPECT_EQ(instance.started_jobs(), 3u);
}

TEST(Waiting, IsFirstComeFirstServedAndNobodyOvertakes) {
  Instance instance(two_types(2));
  JobId running = instance.submit("a", kStart);
  const JobId second = instance.submit("a", kStart + 1ms);
  const JobId third = instance.submit("a", kStart + 2ms);
  instance.finish(running, kStart + 1s);
  const JobId newcomer = instance.submit("a", kStart + 1s);
  EXPECT_NE(instance.start_of(second), nullptr);
  instance.finish(second, kStart + 2s);
  EXPECT_NE(instance.start_of(third), nullptr);
  EXPECT_EQ(instance.start_of(newcomer), nullptr);
}

TEST(Waiting, OfAFullTypeHoldsUpNoOther) {
  Instance instance(two_types(2));
  instance.submit("a", kStart);
  const JobId front = instance.submit("a", kStart);
  EXPECT_EQ(instance.start_of(front), nullptr);
  EXPECT_NE(instance.start_of(instance.submit("b", kStart)), nullptr);
}

TEST(Waiting, TriesOnceMoreAtTheEndAndThenTheNextModel) {
  PoolsSettings settings;
  settings.models = {{.name = "x", .limits = {.concurrent = 1}},
                     {.name = "y", .limits = {.concurrent = 1}}};
  settings.escalation = {"x", "y"};
  settings.types = {type_of("a", 1)};
  settings.types[0].max_wait = {{"x", 10s}, {"y", 20s}};
  Instance instance(settings);
  const JobId on_x = instance.submit("a", kStart);
  EXPECT_EQ(instance.model_of(on_x), "x");
  const JobId on_y = instance.submit("a", kStart);
  instance.run_until(kStart + 10s);
  EXPECT_EQ(instance.model_of(on_y), "y");
  EXPECT_EQ(instance.answered_at(on_y), kStart + 10s);
}

TEST(Waiting, ForEveryModelInTurnEndsInARefusal) {
  const auto script = std::make_shared<Script>();
  PoolsSettings settings;
  settings.models = {{.name = "x", .limits = {.concurrent = 9}},
                     {.name = "y", .limits = {.concurrent = 9}}};
  settings.escalation = {"x", "y"};
  settings.types = {type_of("a", 1)};
  settings.types[0].max_wait = {{"x", 10s}, {"y", 20s}};
  Instance instance(settings, std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  const JobId job = instance.submit("a", kStart);
  ASSERT_EQ(script->asks.size(), 1u);
  script->refuse(kStart, Refused::kBusy, kStart + 1min);
  instance.run_until(kStart + 10s);
  ASSERT_EQ(script->asks.size(), 1u) << "one last try";
  EXPECT_EQ(script->asks[0].model, "x");
  script->refuse(kStart + 10s, Refused::kBusy, kStart + 1min);
  ASSERT_EQ(script->asks.size(), 1u);
  EXPECT_EQ(script->asks[0].model, "y");
  script->refuse(kStart + 10s, Refused::kExhausted, kStart + 1min);
  instance.run_until(kStart + 30s);
  ASSERT_EQ(script->asks.size(), 1u);
  EXPECT_EQ(script->asks[0].model, "y");
  EXPECT_EQ(instance.refusal_of(job), nullptr);
  script->refuse(kStart + 30s, Refused::kBusy, kStart + 1min);
  ASSERT_NE(instance.refusal_of(job), nullptr);
  EXPECT_EQ(instance.refusal_of(job)->reason, JobRefused::kExhausted);
  EXPECT_EQ(instance.refusal_of(job)->retry_at, kStart + 1min);
  const Reading reading = instance->reading(kStart + 30s);
  EXPECT_EQ(reading.models[0].in_flight + reading.models[1].in_flight, 0);
  EXPECT_EQ(reading.types[0].in_flight, 0);
}

TEST(Waiting, IsNoLongerThanTheCallerSays) {
  Instance instance(two_types(2));
  instance.submit("a", kStart);
  const JobId impatient = instance.submit("a", kStart, 0s);
  ASSERT_NE(instance.refusal_of(impatient), nullptr);
  const JobId patient = instance.submit("a", kStart, 3s);
  instance.run_until(kStart + 3s - 1ns);
  EXPECT_EQ(instance.refusal_of(patient), nullptr);
  instance.run_until(kStart + 3s);
  EXPECT_NE(instance.refusal_of(patient), nullptr);
}

TEST(Waiting, ForASlotOfTheTypeEndsToo) {
  PoolsSettings settings = places_of(1);
  settings.rule = CountRule::kSticky;
  Instance instance(settings);
  instance.submit("a", kStart);
  const JobId waiting = instance.submit("a", kStart, 10s);
  EXPECT_EQ(instance->reading(kStart).types[0].waiting, 1);
  instance.run_until(kStart + 10s);
  ASSERT_NE(instance.refusal_of(waiting), nullptr);
  EXPECT_EQ(instance.refusal_of(waiting)->reason, JobRefused::kTypeSlots);
  EXPECT_EQ(instance.refusal_of(waiting)->model, "m");
  EXPECT_EQ(instance.refusal_of(waiting)->dimension, Dimension::kConcurrency);
  EXPECT_EQ(instance.refusal_of(waiting)->retry_at, kStart + 1min);
}

PoolsSettings narrow_and_wide() {
  PoolsSettings settings;
  settings.models = {{.name = "narrow", .limits = {.concurrent = 1}},
                     {.name = "wide", .limits = {.concurrent = 10}}};
  settings.escalation = {"narrow", "wide"};
  settings.types = {type_of("a", 100)};
  return settings;
}

TEST(Waiting, HoldsNoSlotSoThatAnIdleModelIsFound) {
  Instance instance(narrow_and_wide());
  EXPECT_EQ(instance.model_of(instance.submit("a", kStart)), "narrow");
  std::vector<JobId> patient;
  for (int i = 0; i < 40; ++i) patient.push_back(instance.submit("a", kStart));
  EXPECT_EQ(instance->reading(kStart).models[0].waiting, 40);
  EXPECT_EQ(instance->reading(kStart).types[0].in_flight, 1) << "those that wait have none";
  EXPECT_EQ(instance->reading(kStart).types[0].waiting, 40);

  EXPECT_EQ(instance.model_of(instance.submit("a", kStart, 0s)), "wide");
  const JobId soon = instance.submit("a", kStart, 300ms);
  instance.run_until(kStart + 300ms);
  EXPECT_EQ(instance.model_of(soon), "wide");
}

TEST(Waiting, NotAtAllIsOneTryAtEachModelAndSaysWhatWasShort) {
  Instance instance(narrow_and_wide());
  for (int i = 0; i < 11; ++i)
    ASSERT_NE(instance.start_of(instance.submit("a", kStart, 0s)), nullptr);
  instance.submit("a", kStart);
  const JobId none = instance.submit("a", kStart + 1s, 0s);
  ASSERT_NE(instance.refusal_of(none), nullptr);
  EXPECT_EQ(instance.refusal_of(none)->reason, JobRefused::kExhausted);
  EXPECT_EQ(instance.refusal_of(none)->model, "wide");
  EXPECT_EQ(instance.refusal_of(none)->dimension, Dimension::kConcurrency);
  EXPECT_EQ(instance.refusal_of(none)->retry_at, kStart + 1min) << "the latest to ask again";
}

TEST(Waiting, MakesATypeLookFullButNotFuller) {
  PoolsSettings settings = places_of(10);
  settings.types = {type_of("a", 100, 0.4), type_of("b", 100, 0.4), type_of("c", 100, 0.2)};
  Instance instance(settings);
  for (int i = 0; i < 40; ++i) instance.submit("a", kStart);
  for (int i = 0; i < 4; ++i) instance.submit("b", kStart);
  instance.run_until(kStart + 5s);
  const Reading reading = instance->reading(kStart + 5s);
  EXPECT_DOUBLE_EQ(reading.types[0].ratio, reading.types[1].ratio);
  EXPECT_GT(reading.types[0].ratio, 0.4);
}

TEST(Waiting, CanBeGivenUp) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(2), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  const JobId asking = instance.submit("a", kStart);
  const JobId waiting = instance.submit("a", kStart);
  EXPECT_TRUE(instance->withdraw(waiting, kStart));
  EXPECT_TRUE(instance->withdraw(asking, kStart));
  EXPECT_FALSE(instance->withdraw(asking, kStart)) << "once";
  script->grant(kStart + 1s);
  ASSERT_EQ(script->releases.size(), 1u) << "what came too late goes back";
  EXPECT_EQ(script->releases[0].second, Amounts{});
  EXPECT_TRUE(instance.order().empty());
  EXPECT_EQ(instance->reading(kStart + 1s).jobs, 0u);
  EXPECT_EQ(instance->reading(kStart + 1s).models[0].in_flight, 0);
}

TEST(Waiting, ForARefusingCoordinatorLastsUntilItFreesSomething) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(8), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  const JobId first = instance.submit("a", kStart);
  script->refuse(kStart, Refused::kBusy, kStart + 1min);
  const JobId second = instance.submit("a", kStart + 1s);
  EXPECT_TRUE(script->asks.empty()) << "it is not asked again for the next one";
  script->listener->freed(kStart + 2s, "m");
  ASSERT_EQ(script->asks.size(), 2u);
  script->grant(kStart + 2s);
  script->grant(kStart + 2s);
  EXPECT_THAT(instance.order(), ElementsAre(first, second));
}

// The news that something is free overtakes the refusal.
TEST(Waiting, LosesNoWakeUpWhileTheCoordinatorIsAsked) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(8), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  instance.submit("a", kStart);
  script->listener->freed(kStart, "m");
  script->refuse(kStart, Refused::kBusy, kStart + 1min);
  ASSERT_EQ(script->asks.size(), 1u) << "asked again at once";
  script->refuse(kStart, Refused::kBusy, kStart + 1min);
  EXPECT_TRUE(script->asks.empty()) << "and then not before something changes";
}

TEST(Waiting, AsksAgainWhenTheCoordinatorSaid) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(8), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  instance.submit("a", kStart);
  script->refuse(kStart, Refused::kExhausted, kStart + 7s);
  instance.run_until(kStart + 7s - 1ns);
  EXPECT_TRUE(script->asks.empty());
  instance.run_until(kStart + 7s);
  EXPECT_EQ(script->asks.size(), 1u);
}

TEST(Waiting, EndsAtOnceWhenTheCoordinatorCannotBeAsked) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(8), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  const JobId job = instance.submit("a", kStart);
  script->refuse(kStart + 1s, Refused::kUnreachable);
  ASSERT_NE(instance.refusal_of(job), nullptr);
  EXPECT_EQ(instance.refusal_of(job)->reason, JobRefused::kUnavailable);
}

TEST(Waiting, OfThePublishedRuleDoesNotWaitForACoordinator) {
  const auto script = std::make_shared<Script>();
  PoolsSettings settings = two_types(8);
  settings.rule = CountRule::kSticky;
  Instance instance(settings, std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  const JobId job = instance.submit("a", kStart);
  script->refuse(kStart, Refused::kBusy, kStart + 1min);
  ASSERT_NE(instance.refusal_of(job), nullptr);
  EXPECT_EQ(instance.refusal_of(job)->reason, JobRefused::kRejected);
}

TEST(Waiting, IsSpreadAfterABoundaryIfPaced) {
  PoolsSettings settings = tokens_per_minute_of(4'000, 1'000);
  settings.pacing = 4s;
  settings.types[0].max_wait = {{"m", 2min}};
  settings.ratios.min_capacity = 4;
  Instance instance(settings);
  for (int i = 0; i < 4; ++i) instance.finish(instance.submit("a", kStart), kStart, 1'000);
  std::vector<JobId> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(instance.submit("a", kStart + 1s));
  instance.run_until(kStart + 2min);
  for (int i = 0; i < 4; ++i) {
    ASSERT_NE(instance.start_of(waiting[static_cast<std::size_t>(i)]), nullptr);
    EXPECT_EQ(instance.answered_at(waiting[static_cast<std::size_t>(i)]), kStart + 1min + i * 1s);
  }
}

TEST(Waiting, EndsWhenItAllStops) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(2), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  const JobId running = instance.submit("a", kStart);
  script->grant(kStart);
  const JobId waiting = instance.submit("a", kStart);
  const JobId asking = instance.submit("b", kStart);
  bool is_stopped = false;
  instance->stop(kStart + 1s, [&](Instant, const Status&) { is_stopped = true; });
  EXPECT_TRUE(is_stopped);
  for (const JobId job : {waiting, asking}) {
    ASSERT_NE(instance.refusal_of(job), nullptr);
    EXPECT_EQ(instance.refusal_of(job)->reason, JobRefused::kStopped);
  }
  EXPECT_FALSE(instance->submit({"a"}, kStart + 1s, instance.remember()));
  instance.finish(running, kStart + 2s);
}

TEST(Waiting, IgnoresAnAllocationOfAnOlderEpoch) {
  const auto script = std::make_shared<Script>();
  Instance instance(two_types(8), std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart, /*instances=*/1, /*epoch=*/5);
  script->allocate(kStart, /*instances=*/4, /*epoch=*/4);
  EXPECT_EQ(instance->reading(kStart).allocation.instance_count, 1);
  script->allocate(kStart, /*instances=*/2, /*epoch=*/6);
  EXPECT_EQ(instance->reading(kStart).allocation.instance_count, 2);
}

TEST(Waiting, TellsWhenItWantsToBeCalledEarlier) {
  PoolsSettings settings = two_types(2);
  settings.types[0].max_wait = {{"m", 30s}};
  Instance instance(settings);
  std::vector<Instant> told;
  instance->set_wakeup([&](Instant next) { told.push_back(next); });
  instance.submit("a", kStart);
  instance.submit("a", kStart);
  instance.submit("a", kStart, 10s);
  EXPECT_THAT(told, ElementsAre(kStart + 30s, kStart + 10s));
  EXPECT_EQ(instance->next_instant(), kStart + 10s);
}

}  // namespace
}  // namespace weir::system::pool
