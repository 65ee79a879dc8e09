#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/config/support.h"
#include "weir/engine/engine.h"
#include "weir/system/throttle/gate.h"

namespace weir::config {
namespace {

using system::throttle::Tier;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kTwoCalls = R"({"buckets":[{"name":"Calls","burstPeriod":2000,
  "throttleGroups":[{"milliOpsPerSec":1,"operations":["ContractCall"]}]}]})";

Config throttled(const std::string& rest = "", const std::string& after = "") {
  return config_of("throttles: { file: t.json" + rest + " }\n" + after,
                   saying(std::string(kTwoCalls)));
}

std::string throttle_mistakes(const std::string& section, const std::string& definitions,
                              const std::string& after = "") {
  return mistakes_of("throttles: { " + section + " }\n" + after, saying(definitions));
}

TEST(Throttles, AreNotThereWithoutTheirSection) {
  const Config config = config_of("limits: []");
  EXPECT_FALSE(config.throttles.has_value());
  EXPECT_EQ(config.rules->find("throttles"), nullptr);
}

TEST(Throttles, AreALimitWithTheAttributesAndUnitsItReads) {
  const Config config = throttled();
  const engine::Rule* rule = config.rules->find("throttles");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->gate_name, "throttles");
  EXPECT_EQ(config.limits_spec.attributes,
            (std::vector<std::string>{"operation", "payer", "high_volume"}));
  EXPECT_EQ(config.limits_spec.units.size(), 5u);
  ASSERT_EQ(config.throttles->spec.definitions.buckets.size(), 1u);
  EXPECT_EQ(config.throttles->spec.definitions.buckets[0].name, "Calls");
  EXPECT_EQ(config.throttles->file, "t.json");
}

TEST(Throttles, TakeLimitsOfDuration) {
  const auto settings =
      throttled(", by_duration: false, duration_capacity: 7, duration_per_second: 8")
          .throttles->spec.settings;
  EXPECT_FALSE(settings.throttle_by_duration);
  EXPECT_EQ(settings.duration_capacity, 7);
  EXPECT_EQ(settings.duration_per_second, 8);
  EXPECT_THAT(throttle_mistakes("file: t.json, duration_capacity: -1", std::string(kTwoCalls)),
              HasSubstr("duration_capacity is '-1'"));
}

TEST(Throttles, LimitLocalCallsByTheirBucketsUnlessSetOtherwise) {
  EXPECT_TRUE(throttled().throttles->spec.settings.local_calls_by_buckets);
  EXPECT_FALSE(throttled(", local_calls: gas").throttles->spec.settings.local_calls_by_buckets);
  EXPECT_THAT(throttle_mistakes("file: t.json, local_calls: none", std::string(kTwoCalls)),
              HasSubstr("local_calls is 'none'"));
}

TEST(Throttles, TakeInstantsTenSecondsAheadUnlessSetOtherwise) {
  EXPECT_EQ(throttled().throttles->spec.ahead, std::chrono::seconds{10});
  EXPECT_EQ(throttled(", ahead: 1500ms").throttles->spec.ahead, std::chrono::milliseconds{1500});
  EXPECT_EQ(throttled(", ahead: 0s").throttles->spec.ahead, Duration{0});
  EXPECT_EQ(throttled(", ahead: off").throttles->spec.ahead, std::nullopt);
  EXPECT_THAT(throttle_mistakes("file: t.json, ahead: never", std::string(kTwoCalls)),
              HasSubstr("ahead is 'never'"));
}

TEST(Throttles, HaveThePublishedDefaults) {
  const system::throttle::ThrottlesSpec spec = throttled().throttles->spec;
  EXPECT_EQ(spec.nodes, 1);
  EXPECT_EQ(spec.settings.front_end_gas_per_second, 15'000'000);
  EXPECT_EQ(spec.settings.consensus_gas_per_second, 15'000'000);
  EXPECT_FALSE(spec.settings.throttle_by_gas);
  EXPECT_TRUE(spec.settings.throttle_by_duration);
  EXPECT_EQ(spec.settings.duration_capacity, 500'000'000);
  EXPECT_EQ(spec.settings.duration_per_second, 500'000'000);
  EXPECT_EQ(spec.settings.exempt_payer_max, 100);
  EXPECT_EQ(spec.congestion_period_s, 60);
  EXPECT_EQ(spec.tiers, (std::vector<Tier>{{90, 10}, {95, 25}, {99, 100}}));
}

TEST(Throttles, TakeEverySettingOfTheSection) {
  const auto spec =
      throttled(
          ", nodes: 2, front_end_gas: 7, consensus_gas: 8, excess_bytes: 9, exempt_payers: 0, "
          "by_gas: false, congestion: { tiers: '50,2x', period: 1m }")
          .throttles->spec;
  EXPECT_EQ(spec.nodes, 2);
  EXPECT_EQ(spec.settings.front_end_gas_per_second, 7);
  EXPECT_EQ(spec.settings.consensus_gas_per_second, 8);
  EXPECT_EQ(spec.settings.jumbo_bytes_per_second, 9);
  EXPECT_EQ(spec.settings.exempt_payer_max, 0);
  EXPECT_FALSE(spec.settings.throttle_by_gas);
  EXPECT_EQ(spec.tiers, (std::vector<Tier>{{50, 2}}));
  EXPECT_EQ(spec.congestion_period_s, 60);
}

TEST(Throttles, TakeGasLimitsUnderThePublishedNames) {
  const auto settings = throttled(
                            ", contracts.frontendThrottleMaxGasLimit: 5, "
                            "contracts.consensusThrottleMaxGasLimit: 6")
                            .throttles->spec.settings;
  EXPECT_EQ(settings.front_end_gas_per_second, 5);
  EXPECT_EQ(settings.consensus_gas_per_second, 6);
}

TEST(Throttles, GoByGasOnceAGasLimitIsWritten) {
  EXPECT_TRUE(throttled(", consensus_gas: 5").throttles->spec.settings.throttle_by_gas);
  EXPECT_TRUE(throttled(", by_gas: true").throttles->spec.settings.throttle_by_gas);
}

TEST(Throttles, LetLimitsCountTheirUnits) {
  const Config config =
      throttled("", "limits: [ { name: a, unit: gas, window: { limit: 9, every: 1d } } ]\n");
  EXPECT_EQ(config.rules->rules().size(), 2u);
}

TEST(Throttles, DecideInTheCompiledRules) {
  const Config config = throttled();
  const auto throttles = system::throttle::Throttles::create(config.throttles->spec);
  const auto rules = config.rules.bind(
      {{"throttles", std::make_shared<system::throttle::ThrottleGate>(*throttles)}});
  ASSERT_TRUE(rules.ok());
  auto engine = engine::Engine::create(*rules, {.keys_max = 10});
  ASSERT_TRUE(engine.ok());
  const auto ask = [&](std::string_view operation) {
    const engine::Attribute attributes[] = {{"operation", operation}};
    return (*engine)
        ->decide({.attributes = attributes}, Instant{1'800'000'000'000'000'000})
        ->verdict;
  };
  EXPECT_EQ(ask("ContractCall"), Verdict::kAllowed);
  EXPECT_EQ(ask("ContractCall"), Verdict::kAllowed);
  EXPECT_EQ(ask("ContractCall"), Verdict::kDenied);
  EXPECT_EQ(ask("CryptoCreate"), Verdict::kNever) << "no bucket lists it";
}

// --- mistakes

TEST(ThrottleMistakes, HaveTheirPlace) {
  EXPECT_EQ(mistakes_of("throttles: 5"),
            "f:1:12: top level: throttles is '5', but it must be a map; write 'throttles: { file: "
            "./throttles.json, nodes: 31 }'");
  EXPECT_THAT(mistakes_of("throttles: { nodes: 1 }"),
              HasSubstr("f:1:12: throttles: file is missing"));
  EXPECT_THAT(throttle_mistakes("file: t, node: 1", ""),
              HasSubstr("f:1:23: throttles: key 'node' is unknown"));
  EXPECT_THAT(throttle_mistakes("file: t, nodes: 0", ""),
              StartsWith("f:1:30: throttles: nodes is '0'"));
  EXPECT_THAT(throttle_mistakes("file: t, nodes: 2147483648", ""), StartsWith("f:1:30: "));
  EXPECT_THAT(throttle_mistakes("file: t, front_end_gas: -1", ""), StartsWith("f:1:38: "));
  EXPECT_THAT(throttle_mistakes("file: t, by_gas: 1", ""), StartsWith("f:1:31: "));
}

TEST(ThrottleMistakes, IncludeOneLimitUnderTwoNames) {
  EXPECT_EQ(
      throttle_mistakes("file: t, front_end_gas: 1, contracts.frontendThrottleMaxGasLimit: 2", ""),
      "f:1:41: throttles: 'front_end_gas' and 'contracts.frontendThrottleMaxGasLimit' are "
      "two names of one limit; write one");
}

TEST(ThrottleMistakes, IncludeTiersAndPeriodsOfCongestion) {
  EXPECT_THAT(throttle_mistakes("file: t, congestion: { tiers: '90,x' }", ""),
              StartsWith("f:1:44: throttles: congestion: congestion multipliers are '90,x'"));
  EXPECT_EQ(throttle_mistakes("file: t, congestion: { period: 1500ms }", ""),
            "f:1:45: throttles: congestion: period is '1500ms', but it must be whole seconds; "
            "write such as '60s'");
}

TEST(ThrottleMistakes, OfTheDefinitionsHaveThePlaceInTheirOwnFile) {
  EXPECT_THAT(throttle_mistakes("file: t.json", "{\"buckets\":\n [{\"nme\":\"A\"}]}"),
              StartsWith("t.json:2:4: UNPARSEABLE_THROTTLE_DEFINITIONS: "));
  EXPECT_THAT(
      throttle_mistakes("file: t.json", R"({"buckets":[{"name":"A","throttleGroups":[]}]})"),
      StartsWith("t.json:1:13: BUCKET_HAS_NO_THROTTLE_GROUPS: "));
}

TEST(ThrottleMistakes, IncludeTenMegabytesOfNonsense) {
  EXPECT_THAT(throttle_mistakes("file: t.json", std::string(10 << 20, 'x')),
              StartsWith("t.json:1:1: UNPARSEABLE_THROTTLE_DEFINITIONS: "));
}

TEST(ThrottleMistakes, AreReportedTogetherWithThoseOfLimits) {
  EXPECT_THAT(throttle_mistakes("file: t.json", "nonsense", "limits: [ { name: a } ]"),
              ::testing::AllOf(StartsWith("t.json:1:1: UNPARSEABLE_THROTTLE_DEFINITIONS"),
                               HasSubstr("\nf:2:11: limit 'a': it has no meter")));
}

TEST(ThrottleMistakes, IncludeAFileThatCannotBeRead) {
  EXPECT_THAT(mistakes_of("throttles: { file: there }",
                          [](const std::string& path) {
                            return Result<std::string>(bad_argument(path + ": it is not there"));
                          }),
              HasSubstr("f:1:20: throttles: there: it is not there"));
  EXPECT_THAT(mistakes_of("throttles: { file: there }"),
              StartsWith("f:1:20: throttles: file 'there' is not read here"));
}

TEST(ThrottleMistakes, IncludeALimitOfTheSameName) {
  EXPECT_EQ(throttle_mistakes("file: t", std::string(kTwoCalls),
                              "limits: [ { name: throttles, bucket: { rate: 1/s } } ]"),
            "f:2:11: limit 'throttles': the name is used twice; write another name");
}

TEST(ThrottleMistakes, IncludeAUnitOfAnotherScale) {
  EXPECT_EQ(throttle_mistakes("file: t", std::string(kTwoCalls), "units: { gas: micro }"),
            "f:1:1: throttles: unit 'gas' is 'micro', but throttles count it whole; write 'gas: "
            "whole' under 'units', or leave it out there");
}

}  // namespace
}  // namespace weir::config
