#include "weir/system/pool/pools.h"

#include <gmock/gmock.h>

#include "tests/system/pool/support.h"

namespace weir::system::pool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The source document's practical example: 500,000 tokens and 500 requests a minute, two
// instances, "summary" with a ratio of 0.3 and 10,000 tokens.
PoolsSettings documented() {
  PoolsSettings settings;
  settings.models = {
      {.name = "openai/gpt-5.2",
       .limits = {.rates = {.tokens_per_minute = 500'000, .requests_per_minute = 500}}},
      {.name = "other", .limits = {.concurrent = 100}}};
  settings.escalation = {"openai/gpt-5.2", "other"};
  settings.types = {type_of("summary", 10'000, 0.3), type_of("chat", 10'000, 0.7)};
  settings.ratios.interval = Duration{0};
  settings.ratios.releases_per_adjustment = 0;
  return settings;
}

TEST(Pools, StartSevenJobsOnEachInstanceAndTheFifteenthAfterTheBoundary) {
  const auto fleet = std::make_shared<LocalFleet>();
  Instance first(documented(), fleet);
  Instance second(documented(), fleet);
  std::vector<JobId> jobs;
  for (int i = 0; i < 7; ++i) {
    jobs.push_back(first.submit("summary", kStart + 1s));
    second.submit("summary", kStart + 1s);
  }
  EXPECT_EQ(first.started_jobs(), 7u);
  EXPECT_EQ(second.started_jobs(), 7u);
  const JobId fifteenth = first.submit("summary", kStart + 2s);
  for (const JobId job : jobs) first.finish(job, kStart + 3s, 10'000);
  first.run_until(kStart + 1min - 1ns);
  EXPECT_EQ(first.start_of(fifteenth), nullptr) << "the seven are done, but the minute is not";
  first.run_until(kStart + 1min);
  EXPECT_EQ(first.model_of(fifteenth), "openai/gpt-5.2") << "not escalated";
  EXPECT_EQ(first.answered_at(fifteenth), kStart + 1min);
}

TEST(Pools, MoveCapacityToTheTypeThatNeedsIt) {
  PoolsSettings settings = places_of(10);
  settings.types = {type_of("summary", 100, 0.6), type_of("chat", 100, 0.4)};
  Instance instance(settings);
  for (int i = 0; i < 7; ++i) instance.submit("summary", kStart);
  EXPECT_EQ(instance.started_jobs(), 6u);
  instance.run_until(kStart + 5s);
  const Reading reading = instance->reading(kStart + 5s);
  EXPECT_EQ(reading.types[0].slots, 8);
  EXPECT_EQ(reading.types[1].slots, 2);
  EXPECT_EQ(reading.models[0].types[0].slots, 8);
  EXPECT_EQ(reading.allocation.pools.at("m").total_slots, 10) << "the pool is the same";
  EXPECT_EQ(instance.started_jobs(), 7u) << "and those who waited were looked at";
}

TEST(Pools, GiveEveryTypeASlotWhereItsShareRoundsToNone) {
  PoolsSettings settings = places_of(2);
  settings.types = {type_of("a", 100, 0.3), type_of("b", 100, 0.7)};
  Instance instance(settings);
  EXPECT_EQ(instance.model_of(instance.submit("a", kStart)), "m");
}

// The source document's own example configuration has no estimate of requests.
TEST(Pools, LimitRequestsThatATypeDoesNotEstimate) {
  for (const CountRule rule : {CountRule::kStrict, CountRule::kSticky}) {
    PoolsSettings settings;
    settings.rule = rule;
    settings.models = {
        {.name = "m",
         .limits = {.rates = {.tokens_per_minute = 500'000, .requests_per_minute = 5}}}};
    settings.types = {
        {.name = "summary", .tokens = 10'000, .ratio = 0.3},
        {.name = "VacationPlanning", .tokens = 2'000, .ratio = 0.7, .is_flexible = false}};
    Instance instance(settings, std::make_shared<LocalFleet>(LocalFleet::Options{
                                    .announces_usage = rule != CountRule::kStrict}));
    int started = 0;
    for (int i = 0; i < 60; ++i) {
      const JobId job = instance.submit(i % 2 == 0 ? "summary" : "VacationPlanning", kStart, 0s);
      if (instance.start_of(job) == nullptr) continue;
      started += 1;
      instance.finish(job, kStart);
    }
    EXPECT_GE(started, 4) << "floor(5 * 0.3) of one type and floor(5 * 0.7) of the other";
    EXPECT_LE(started, 5);
  }
}

TEST(Pools, ShareFiveSlotsAmongTwoTypesThatWantFourEach) {
  PoolsSettings settings = places_of(5);
  settings.types = {type_of("a", 100, 0.6), type_of("b", 100, 0.4)};
  Instance instance(settings);
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(instance.submit("a", kStart));
    jobs.push_back(instance.submit("b", kStart));
  }
  EXPECT_EQ(instance.started_jobs(), 5u);
  const Reading reading = instance->reading(kStart);
  EXPECT_EQ(reading.models[0].in_flight, 5);
  EXPECT_EQ(reading.waiting, 3u);
  for (const JobId job : jobs) {
    if (instance.start_of(job) != nullptr) instance.finish(job, kStart + 1s);
  }
  EXPECT_EQ(instance.started_jobs(), 8u);
}

TEST(Pools, SettleWithWhatWasUsedAndSayWhatItCost) {
  PoolsSettings settings = tokens_per_minute_of(10'000, 10'000);
  settings.models[0].pricing = {.input = 2, .cached = 1, .output = 8};
  Instance instance(settings);
  const JobId job = instance.submit("a", kStart);
  const Result<Settlement> done = instance->finish(
      job, {.requests = 1, .input_tokens = 5'000, .output_tokens = 1'000, .cached_tokens = 500},
      kStart + 1s);
  ASSERT_TRUE(done);
  EXPECT_DOUBLE_EQ(done->total_cost, 0.0185);
  EXPECT_EQ(done->overage.tokens, 0);
  EXPECT_EQ(instance->reading(kStart + 1s).models[0].rates[0].count, 6'500);
  EXPECT_EQ(instance->reading(kStart + 1s).models[0].tally.tokens, 6'500u);
}

TEST(Pools, TellOfUsageBeyondTheEstimate) {
  Instance instance(tokens_per_minute_of(100'000, 10'000));
  std::vector<std::int64_t> told;
  instance->on_overage([&](Instant, std::string_view model, const Overage& overage) {
    EXPECT_EQ(model, "m");
    told.push_back(overage.tokens);
  });
  const JobId job = instance.submit("a", kStart);
  instance.finish(job, kStart + 1s, 15'000);
  EXPECT_THAT(told, ElementsAre(5'000));
  EXPECT_EQ(instance->reading(kStart + 1s).models[0].rates[0].count, 15'000);
}

TEST(Pools, CountTheEstimateOfAJobThatBrokeOff) {
  const auto fleet = std::make_shared<LocalFleet>();
  Instance instance(tokens_per_minute_of(10'000, 10'000), fleet);
  const JobId job = instance.submit("a", kStart);
  ASSERT_TRUE(instance->fail(job, std::nullopt, kStart + 1s));
  const JobId next = instance.submit("a", kStart + 2s, 0s);
  ASSERT_NE(instance.refusal_of(next), nullptr);
  EXPECT_EQ(instance.refusal_of(next)->retry_at, kStart + 1min);
}

TEST(Pools, AnswerOnceForAJobAndEndItOnce) {
  Instance instance(places_of(1));
  const JobId job = instance.submit("a", kStart);
  instance.finish(job, kStart);
  for (const Result<Settlement>& again :
       {instance->finish(job, {}, kStart), instance->fail(job, std::nullopt, kStart),
        instance->reject(job, {}, kStart)}) {
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ErrorCode::kNotFound);
  }
  EXPECT_EQ(instance->reading(kStart).models[0].in_flight, 0);
}

TEST(Pools, LeaveTheCountersAloneWhenTheUsageIsBad) {
  Instance instance(tokens_per_minute_of(10'000, 1'000));
  const JobId job = instance.submit("a", kStart);
  const Result<Settlement> bad = instance->finish(job, {.requests = 1, .input_tokens = -5}, kStart);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("-5 input"));
  EXPECT_FALSE(instance->finish(job, {.requests = -1}, kStart));
  EXPECT_FALSE(instance->delegate(job, {.output_tokens = -1}, kStart, instance.remember()));
  EXPECT_EQ(instance->reading(kStart).models[0].rates[0].count, 1'000);
  EXPECT_EQ(instance->reading(kStart).models[0].in_flight, 1);
  instance.finish(job, kStart);
}

TEST(Pools, RefuseAnUnknownTypeByName) {
  PoolsSettings settings = places_of(1);
  settings.types = {type_of("a", 1), type_of("b", 1)};
  Instance instance(settings);
  const Result<JobId> job = instance->submit({"c"}, kStart, instance.remember());
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message, "there is no job type 'c'; write one of: a, b");
  EXPECT_FALSE(instance->submit({"a", -1s}, kStart, instance.remember()));
  EXPECT_EQ(instance->reading(kStart).jobs, 0u);
}

TEST(Pools, TakeNoJobsIfTheFleetHasOtherLimits) {
  const auto fleet = std::make_shared<LocalFleet>();
  Instance first(places_of(1), fleet);
  Instance second(places_of(2), fleet);
  EXPECT_FALSE(second.started());
  const Result<JobId> job = second->submit({"a"}, kStart, second.remember());
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(job.error().message, HasSubstr("model 'm' differs"));
  EXPECT_EQ(first->reading(kStart).allocation.instance_count, 1);
}

TEST(Pools, TakeSoManyJobsAndNoMore) {
  PoolsSettings settings = places_of(1);
  settings.jobs_max = 2;
  Instance instance(settings);
  instance.submit("a", kStart);
  instance.submit("a", kStart);
  const Result<JobId> third = instance->submit({"a"}, kStart, instance.remember());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kExhausted);
}

TEST(Pools, EscalateInOrderAndSayWhenToComeBack) {
  PoolsSettings settings;
  settings.models = {{.name = "x", .limits = {.rates = {.requests_per_minute = 1}}},
                     {.name = "y", .limits = {.rates = {.requests_per_minute = 1}}}};
  settings.escalation = {"y", "x"};
  settings.types = {type_of("a", 1)};
  settings.types[0].max_wait = {{"x", 0s}, {"y", 0s}};
  settings.ratios.min_capacity = 10;
  Instance instance(settings);
  EXPECT_EQ(instance.model_of(instance.submit("a", kStart)), "y");
  EXPECT_EQ(instance.model_of(instance.submit("a", kStart)), "x");
  const JobRefusal* refusal = instance.refusal_of(instance.submit("a", kStart + 1s));
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->reason, JobRefused::kExhausted);
  EXPECT_EQ(refusal->retry_at, kStart + 1min);
  EXPECT_THAT(refusal->message, StartsWith("all_models_exhausted: job type 'a'"));
}

TEST(Pools, SayNeverWhereNoModelCouldEverTakeTheJob) {
  PoolsSettings settings = tokens_per_minute_of(100, 101);
  Instance instance(settings);
  const JobRefusal* refusal = instance.refusal_of(instance.submit("a", kStart));
  ASSERT_NE(refusal, nullptr) << "it does not wait for nothing";
  EXPECT_EQ(refusal->reason, JobRefused::kNever);
}

TEST(Pools, DelegateToTheNextModelSoManyTimes) {
  PoolsSettings settings;
  settings.models = {{.name = "x", .limits = {.concurrent = 5}, .pricing = {.input = 1}},
                     {.name = "y", .limits = {.concurrent = 5}, .pricing = {.input = 2}}};
  settings.escalation = {"x", "y"};
  settings.types = {type_of("a", 1)};
  settings.delegations_max = 2;
  Instance instance(settings);
  const JobId job = instance.submit("a", kStart);
  std::vector<std::string> models{instance.model_of(job)};
  const Used used{.requests = 1, .input_tokens = 1'000'000};
  for (int i = 0; i < 2; ++i) {
    instance.forget(job);
    ASSERT_TRUE(instance->delegate(job, used, kStart, instance.remember()));
    models.push_back(instance.model_of(job));
    EXPECT_EQ(instance->reading(kStart).types[0].in_flight, 1) << "it keeps its slot";
  }
  EXPECT_THAT(models, ElementsAre("x", "y", "x")) << "all were tried: from the beginning";
  EXPECT_EQ(instance.start_of(job)->attempt, 3);
  instance.forget(job);
  ASSERT_TRUE(instance->delegate(job, used, kStart, instance.remember()));
  ASSERT_NE(instance.refusal_of(job), nullptr);
  EXPECT_EQ(instance.refusal_of(job)->reason, JobRefused::kDelegations);
  EXPECT_EQ(instance->reading(kStart).types[0].in_flight, 0);
  EXPECT_EQ(instance->reading(kStart).models[0].in_flight, 0);
}

TEST(Pools, AddUpTheCostOfAllAttempts) {
  PoolsSettings settings;
  settings.models = {{.name = "x", .limits = {.concurrent = 5}, .pricing = {.input = 1}},
                     {.name = "y", .limits = {.concurrent = 5}, .pricing = {.input = 2}}};
  settings.escalation = {"x", "y"};
  settings.types = {type_of("a", 1)};
  Instance instance(settings);
  const JobId job = instance.submit("a", kStart);
  instance.forget(job);
  const Used used{.requests = 1, .input_tokens = 1'000'000};
  ASSERT_TRUE(instance->delegate(job, used, kStart, instance.remember()));
  const Result<Settlement> done = instance->finish(job, used, kStart);
  ASSERT_TRUE(done);
  ASSERT_EQ(done->attempts.size(), 2u);
  EXPECT_EQ(done->attempts[1].model, "y");
  EXPECT_DOUBLE_EQ(done->total_cost, 3);
}

TEST(Pools, NotToBeDelegatedIsSettledLikeAFinishUnlessPublished) {
  for (const CountRule rule : {CountRule::kStrict, CountRule::kSticky}) {
    PoolsSettings settings = tokens_per_minute_of(10'000, 1'000);
    settings.rule = rule;
    Instance instance(settings);
    const JobId job = instance.submit("a", kStart);
    ASSERT_TRUE(instance->reject(job, {.requests = 1, .input_tokens = 400}, kStart + 1s));
    EXPECT_EQ(instance->reading(kStart + 1s).models[0].rates[0].count,
              rule == CountRule::kStrict ? 400 : 1'000);
  }
}

TEST(Pools, HoldMemoryForAJobAndWaitForIt) {
  PoolsSettings settings = places_of(10);
  settings.types[0].memory_kb = 400;
  std::int64_t free_kb = 1'000;
  settings.memory = {.interval = 1s, .probe = [&] { return free_kb; }};
  Instance instance(settings);
  const JobId first = instance.submit("a", kStart);
  const JobId second = instance.submit("a", kStart);
  const JobId third = instance.submit("a", kStart);
  EXPECT_EQ(instance.model_of(second), "m");
  EXPECT_EQ(instance.model_of(third), "none");
  EXPECT_EQ(instance->reading(kStart).memory->active_kb, 800);
  free_kb = 2'000;
  instance.run_until(kStart + 1s);
  EXPECT_EQ(instance.model_of(third), "m") << "the budget grew";
  for (const JobId job : {first, second, third}) instance.finish(job, kStart + 2s);
  EXPECT_EQ(instance->reading(kStart + 2s).memory->active_kb, 0);
}

TEST(Pools, SayThatAJobTakesMoreMemoryThanItsTypeHas) {
  PoolsSettings settings = places_of(10);
  settings.types[0].memory_kb = 4'000;
  settings.memory = {.max_kb = 1'000};
  Instance instance(settings);
  const JobId job = instance.submit("a", kStart, 1s);
  instance.run_until(kStart + 1s);
  ASSERT_NE(instance.refusal_of(job), nullptr) << "it does not wait for ever";
  EXPECT_THAT(instance.refusal_of(job)->message,
              HasSubstr("it takes more memory than its type has"));
}

TEST(PoolsSettings, AreRefusedByName) {
  const auto error_of = [](PoolsSettings settings) {
    auto made = Pools::create(std::move(settings),
                              std::make_unique<LocalCoordinator>(std::make_shared<LocalFleet>()));
    return made ? std::string("none") : made.error().message;
  };
  EXPECT_EQ(error_of(places_of(1)), "none");
  PoolsSettings settings = places_of(1);
  settings.models.push_back({.name = "n"});
  EXPECT_THAT(error_of(settings), HasSubstr("no escalation order"));
  settings.escalation = {"m", "x"};
  EXPECT_THAT(error_of(settings), HasSubstr("there is no model 'x'; write one of: m, n"));
  settings.escalation = {"m", "m"};
  EXPECT_THAT(error_of(settings), HasSubstr("'m' is there twice"));
  settings = places_of(1);
  settings.types[0].tokens = -1;
  EXPECT_THAT(error_of(settings), HasSubstr("job type 'a': estimate is -1 tokens"));
  settings = places_of(1);
  settings.types[0].max_wait = {{"x", 1s}};
  EXPECT_THAT(error_of(settings), HasSubstr("there is no model 'x'"));
  settings = places_of(1);
  settings.types[0].ratio = 1.5;
  EXPECT_THAT(error_of(settings), StartsWith("ratio_above_1"));
  settings = places_of(1);
  settings.models.clear();
  EXPECT_THAT(error_of(settings), HasSubstr("there are 0 models"));
  settings = places_of(1);
  settings.delegations_max = kDelegationsMax + 1;
  EXPECT_THAT(error_of(settings), HasSubstr("delegations_max"));
}

}  // namespace
}  // namespace weir::system::pool
