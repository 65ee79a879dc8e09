// `pools:`: what it means, and what is wrong with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using namespace std::chrono_literals;
using system::pool::CountRule;
using ::testing::HasSubstr;

constexpr const char* kModels = "pools:\n  models: [{ name: big, tokens_per_minute: 1000 }]\n";
constexpr const char* kTypes = "  job_types: [{ name: chat, tokens: 10 }]\n";

PoolSettings pools_of(const std::string& rest) {
  const Config config = config_of(std::string(kModels) + kTypes + rest);
  EXPECT_TRUE(config.pools.has_value());
  return config.pools.value_or(PoolSettings{});
}

std::string mistake_of(const std::string& rest) {
  return mistakes_of(std::string(kModels) + kTypes + rest);
}

TEST(PoolsSection, NeedsModelsAndJobTypesOnly) {
  const PoolSettings pools = pools_of("");
  EXPECT_FALSE(pools.redis.has_value());
  EXPECT_EQ(pools.settings.rule, CountRule::kStrict);
  EXPECT_EQ(pools.settings.models.at(0).limits.rates.tokens_per_minute, 1000);
  EXPECT_FALSE(pools.settings.models.at(0).limits.rates.requests_per_day.has_value());
  EXPECT_EQ(pools.settings.types.at(0).tokens, 10);
  EXPECT_EQ(pools.hold, (system::pool::HoldSettings{10min, 1h}));
}

TEST(PoolsSection, HasEveryKeyOfItsParts) {
  const Config config = config_of(R"(
pools:
  models:
    - { name: big, tokens_per_minute: 500000, requests_per_minute: 500, tokens_per_day: 5000000,
        requests_per_day: 9000, concurrent: 50, pricing: { input: 1.25, cached: 0.125, output: 10 },
        min_capacity: 1, max_capacity: 40 }
    - { name: small }
  escalation: [big, small]
  job_types:
    - { name: summary, tokens: 10000, requests: 1, memory_kb: 2048, ratio: 0.25, flexible: false,
        max_wait: { big: 5s, small: 0s } }
    - { name: chat, tokens: 0 }
  ratios: { high_load: 0.8, low_load: 0.2, max_adjustment: 0.1, min_ratio: 0.05, interval: 0s,
            releases: 0, min_capacity: 0 }
  memory: { free_ratio: 0.5, max_kb: 4096, interval: 2s }
  rule: published
  delegations: 3
  pacing: 5s
  jobs: 100
  hold: 1m
  hold_max: 2m
  version: 7
  coordinator: redis://:secret@127.0.0.1:6380/2
  redis: { prefix: fleet, instance: one, timeout: 250ms, heartbeat: 1s, instance_timeout: 3s,
           announce: full, outage: local }
)");
  ASSERT_TRUE(config.pools.has_value());
  const system::pool::PoolsSettings& settings = config.pools->settings;
  ASSERT_EQ(settings.models.size(), 2u);
  EXPECT_EQ(settings.models[0],
            (system::pool::ModelSpec{.name = "big",
                                     .limits = {{500000, 500, 5000000, 9000}, 50},
                                     .pricing = {1.25, 0.125, 10},
                                     .bounds = {1, 40}}));
  EXPECT_EQ(settings.models[1], (system::pool::ModelSpec{.name = "small"}));
  EXPECT_EQ(settings.escalation, (std::vector<std::string>{"big", "small"}));
  ASSERT_EQ(settings.types.size(), 2u);
  EXPECT_EQ(settings.types[0], (system::pool::JobType{.name = "summary",
                                                      .tokens = 10000,
                                                      .requests = 1,
                                                      .memory_kb = 2048,
                                                      .ratio = 0.25,
                                                      .is_flexible = false,
                                                      .max_wait = {{"big", 5s}, {"small", 0s}}}));
  EXPECT_EQ(settings.types[1].tokens, 0);
  EXPECT_FALSE(settings.types[1].requests.has_value());
  EXPECT_EQ(settings.ratios, (system::pool::RatioSettings{0.8, 0.2, 0.1, 0.05, 0s, 0, 0}));
  ASSERT_TRUE(settings.memory.has_value());
  EXPECT_EQ(settings.memory->max_kb, 4096);
  EXPECT_EQ(settings.rule, CountRule::kSticky);
  EXPECT_EQ(settings.delegations_max, 3);
  EXPECT_EQ(settings.pacing, 5s);
  EXPECT_EQ(settings.jobs_max, 100u);
  EXPECT_EQ(settings.version, 7u);
  EXPECT_EQ(config.pools->hold, (system::pool::HoldSettings{1min, 2min}));
  ASSERT_TRUE(config.pools->redis.has_value());
  const PoolRedisSettings& redis = *config.pools->redis;
  EXPECT_EQ(redis.address.port, 6380);
  EXPECT_EQ(redis.address.database, 2);
  EXPECT_EQ(redis.prefix, "fleet");
  EXPECT_EQ(redis.instance, "one");
  EXPECT_EQ(redis.timeout, 250ms);
  EXPECT_EQ(redis.heartbeat, 1s);
  EXPECT_EQ(redis.instance_timeout, 3s);
  EXPECT_EQ(redis.announce, store::redis::Announce::kFull);
  EXPECT_EQ(redis.outage, system::pool::OutagePolicy::kLocal);
}

TEST(PoolsSection, IsDescribedWithoutThePasswordOfItsRedis) {
  const std::string text =
      describe(config_of(std::string(kModels) + kTypes + "  coordinator: redis://:secret@[::1]\n"));
  EXPECT_THAT(text, HasSubstr("strict rule; held 10m, at most 1h\n"
                              "  model big: tokens_per_minute 1000\n"
                              "  job type chat: 1 of each pool, about 10 tokens and 1 requests\n"
                              "  escalation: big\n"));
  EXPECT_THAT(text, HasSubstr("pools: shared over redis://"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("secret")));
}

TEST(PoolsSection, NeedsARestartWhereItChanges) {
  const std::string all = std::string(kModels) + kTypes;
  const Config before = config_of(all);
  EXPECT_TRUE(needs_restart(before, config_of(all)).empty());
  EXPECT_TRUE(needs_restart(before, config_of(all + "  hold: 5m\n")).empty());
  EXPECT_THAT(needs_restart(before, config_of(all + "  rule: published\n")),
              ::testing::ElementsAre("pools"));
  EXPECT_THAT(needs_restart(before, config_of(all + "  coordinator: redis://127.0.0.1:1\n")),
              ::testing::ElementsAre("pools"));
  EXPECT_THAT(needs_restart(before, config_of("limits: []\n")), ::testing::ElementsAre("pools"));
  const std::string memory = "  memory: { max_kb: 1 }\n";
  EXPECT_TRUE(needs_restart(config_of(all + memory), config_of(all + memory)).empty());
}

TEST(PoolsMistakes, SayWhereWhatWasFoundAndWhatToWrite) {
  EXPECT_EQ(mistakes_of("pools: { models: [{ name: a }] }\n"),
            "f:1:8: pools: job_types is missing, but it is needed; write 'job_types: [{ name: "
            "summary, tokens: 10000, requests: 1 }]'");
  EXPECT_EQ(
      mistakes_of("pools:\n  models:\n    - { name: a, tokens_per_minute: 0 }\n"
                  "  job_types: [{ name: b }]\n"),
      "f:3:37: pools: model 'a': tokens_per_minute is '0', but it must be a whole number from 1 "
      "to 1000000000000000; write one of them");
  EXPECT_EQ(mistake_of("  coordinator: redis:/nowhere\n").substr(0, 28),
            "f:4:16: pools: coordinator R");
  EXPECT_THAT(mistake_of("  rule: strickt\n"), HasSubstr("write 'strict'"));
}

TEST(PoolsSection, WarnsOfATypeWithoutAnEstimateOfTokensThatAModelLimits) {
  const Config config =
      config_of(std::string(kModels) + "  job_types: [{ name: chat, requests: 1 }]\n");
  EXPECT_THAT(config.warnings,
              ElementsAre("f:3:15: pools: job type 'chat': it has no estimate of tokens, but model "
                          "'big' limits them: its jobs start until what others have used fills the "
                          "window; write 'tokens: 1000'"));
  EXPECT_THAT(config_of("pools:\n  models: [{ name: a, concurrent: 3 }]\n"
                        "  job_types: [{ name: b }]\n")
                  .warnings,
              ElementsAre());
}

TEST(PoolsMistakes, NameModelsThatAreNotThere) {
  EXPECT_EQ(mistake_of("  escalation: [bigg]\n"),
            "f:4:16: pools: escalation: there is no model 'bigg'; write 'big'");
  EXPECT_EQ(
      mistakes_of(std::string(kModels) + "  job_types: [{ name: chat, max_wait: { bog: 1s } }]\n"),
      "f:3:15: pools: job type 'chat': max_wait: there is no model 'bog'; write 'big'");
  EXPECT_EQ(mistakes_of(std::string("pools:\n  models: [{ name: a }, { name: b }]\n") + kTypes),
            "f:2:3: pools: there are 2 models, but no escalation says which to try first; write "
            "'escalation: [a, b]'");
  EXPECT_EQ(mistakes_of(std::string("pools:\n  models: [{ name: a }, { name: a }]\n") + kTypes),
            "f:2:25: pools: model 'a': its name is used before; write another one");
}

TEST(PoolsMistakes, AreRatiosThatDoNotAddUp) {
  const auto with = [](const std::string& types) {
    return mistakes_of(std::string(kModels) + "  job_types: [" + types + "]\n");
  };
  EXPECT_THAT(with("{ name: a, ratio: 0 }"), HasSubstr("f:3:3: pools: ratio_not_positive"));
  EXPECT_THAT(with("{ name: a, ratio: 1.5 }"),
              HasSubstr("f:3:33: pools: job type 'a': ratio is '1.5', but it must be a number from "
                        "0 to 1; write one such as 0.25"));
  EXPECT_THAT(with("{ name: a, ratio: nan }"), HasSubstr("must be a number"));
  EXPECT_THAT(with("{ name: a, ratio: -1 }"), HasSubstr("must be a number"));
  EXPECT_THAT(with("{ name: a, ratio: 0.6 }, { name: b, ratio: 0.5 }"),
              HasSubstr("f:3:3: pools: ratio_sum_exceeds_1"));
}

TEST(PoolsMistakes, AreHoldsAndHeartbeatsThatCannotBeKept) {
  EXPECT_THAT(mistake_of("  hold: 2h\n"), HasSubstr("f:4:3: pools: hold is longer than hold_max"));
  EXPECT_THAT(mistake_of("  hold: 10ms\n"), HasSubstr("must be 1s to 7d"));
  EXPECT_THAT(mistake_of("  redis: { heartbeat: 1s }\n"),
              HasSubstr("f:4:3: pools: redis is there, but the coordinator is 'local'"));
  EXPECT_THAT(mistake_of("  coordinator: redis://h\n  redis: { heartbeat: 10s }\n"),
              HasSubstr("f:5:3: pools: Redis coordinator: instance_timeout must be at least twice "
                        "heartbeat"));
  EXPECT_THAT(mistake_of("  coordinator: redis://h\n  redis: { outage: maybe }\n"),
              HasSubstr("outage is 'maybe', but it must be one of"));
}

}  // namespace
}  // namespace weir::config
