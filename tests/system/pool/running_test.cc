// Jobs that run: how long they may, and what changes meanwhile.

#include <gmock/gmock.h>

#include "tests/system/pool/support.h"
#include "weir/system/pool/allocation_message.h"

namespace weir::system::pool {
namespace {

using ::testing::HasSubstr;

TEST(Running, TooLongIsAFailureAndFreesThePlace) {
  Instance instance(places_of(1));
  const Result<JobId> job =
      instance->submit({.type = "a", .hold = 10s}, kStart, instance.remember());
  ASSERT_TRUE(job);
  EXPECT_EQ(instance.start_of(*job)->expires_at, kStart + 10s);
  const JobId waiting = instance.submit("a", kStart);
  EXPECT_EQ(*instance->renew(*job, 20s, kStart + 5s), kStart + 25s);
  instance.run_until(kStart + 25s - 1ns);
  EXPECT_EQ(instance.start_of(waiting), nullptr);
  instance.run_until(kStart + 25s);
  EXPECT_EQ(instance.model_of(waiting), "m");
  EXPECT_EQ(instance->reading(kStart + 25s).models[0].tally.expired, 1u);
  EXPECT_FALSE(instance->finish(*job, {}, kStart + 25s)) << "it has ended";
  EXPECT_FALSE(instance->renew(*job, 1s, kStart + 25s));
}

TEST(Running, MayNotBeHeldForNothingNorForEver) {
  Instance instance(places_of(1));
  EXPECT_FALSE(instance->submit({.type = "a", .hold = 0s}, kStart, instance.remember()));
  EXPECT_FALSE(
      instance->submit({.type = "a", .hold = kWaitMax + 1ns}, kStart, instance.remember()));
  EXPECT_TRUE(instance->submit({.type = "a", .hold = kWaitMax}, kStart, instance.remember()));
}

TEST(Running, ThatEndedInTimeDoesNotExpire) {
  Instance instance(places_of(1));
  const Result<JobId> job =
      instance->submit({.type = "a", .hold = 10s}, kStart, instance.remember());
  instance.finish(*job, kStart + 1s);
  EXPECT_EQ(instance->next_instant(), kForever);
  instance.run_until(kStart + 1min);
  EXPECT_EQ(instance->reading(kStart + 1min).models[0].tally.expired, 0u);
}

Status change(Instance& instance, const PoolsSettings& settings, Instant now) {
  Status result = Error{ErrorCode::kUnavailable, "no answer"};
  instance->change(settings, now, [&](Instant, Status status) { result = std::move(status); });
  return result;
}

TEST(Change, OfALimitWakesWhoWaits) {
  PoolsSettings settings = places_of(1);
  Instance instance(settings);
  instance.submit("a", kStart);
  const JobId waiting = instance.submit("a", kStart);
  settings.models[0].limits.concurrent = 2;
  const Status same_version = change(instance, settings, kStart + 1s);
  ASSERT_FALSE(same_version);
  EXPECT_THAT(same_version.error().message, HasSubstr("from 0 to 0; write 1"));
  EXPECT_EQ(instance.start_of(waiting), nullptr);
  settings.version = 1;
  ASSERT_TRUE(change(instance, settings, kStart + 2s));
  EXPECT_EQ(instance.model_of(waiting), "m");
  settings.models[0].limits.concurrent = 1;
  settings.version = 2;
  ASSERT_TRUE(change(instance, settings, kStart + 3s));
  const JobId third = instance.submit("a", kStart + 3s);
  instance.finish(waiting, kStart + 4s);
  EXPECT_EQ(instance.start_of(third), nullptr) << "one still runs";
}

TEST(Change, OfEstimatesAsksTheCoordinatorAgain) {
  const auto script = std::make_shared<ScriptedCoordinator::Script>();
  PoolsSettings settings = tokens_per_minute_of(1'000, 300);
  settings.types.push_back(type_of("b", 100));
  Instance instance(settings, std::make_unique<ScriptedCoordinator>(script));
  script->allocate(kStart);
  instance.submit("a", kStart);
  script->refuse(kStart, Refused::kExhausted, kStart + 1min);
  ASSERT_TRUE(script->asks.empty());
  // The average stays, so that no other instance has to know.
  std::swap(settings.types[0].tokens, settings.types[1].tokens);
  ASSERT_TRUE(change(instance, settings, kStart + 1s));
  ASSERT_EQ(script->asks.size(), 1u);
  EXPECT_EQ(script->asks.front().estimate.tokens, 100);
}

TEST(Change, OfPricesNeedsNoVersionAndOfNamesIsRefused) {
  PoolsSettings settings = places_of(1);
  Instance instance(settings);
  const JobId job = instance.submit("a", kStart);
  settings.models[0].pricing = {.input = 3};
  ASSERT_TRUE(change(instance, settings, kStart));
  EXPECT_DOUBLE_EQ(instance->finish(job, {.input_tokens = 1'000'000}, kStart)->total_cost, 3);
  settings.models[0].name = "n";
  EXPECT_FALSE(change(instance, settings, kStart));
  EXPECT_EQ(instance->settings().models[0].name, "m");
}

TEST(AllocationMessage, IsNestedAsTheDocumentHasIt) {
  Allocation allocation{.epoch = 3, .instance_count = 2};
  allocation.pools["gpt-4"] =
      make_pool({.rates = {.tokens_per_minute = 1'000'000}}, {}, {10'000, 1}, 2);
  EXPECT_EQ(allocation_message("instance-1", allocation),
            R"({"instanceId":"instance-1","allocation":{"instanceCount":2,"pools":{"gpt-4":)"
            R"({"totalSlots":50,"tokensPerMinute":500000,"requestsPerMinute":0,"tokensPerDay":0,)"
            R"("requestsPerDay":0}},"dynamicLimits":{"gpt-4":{"tokensPerMinute":500000}}}})");
}

}  // namespace
}  // namespace weir::system::pool
