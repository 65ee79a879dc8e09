#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/config/support.h"

namespace weir::config {
namespace {

namespace sampling = system::sampling;
using ::testing::HasSubstr;

constexpr std::string_view kFive =
    "    - { name: E, rotation_count: 5, rotation_interval: 3600, sampling_count: 200 }\n";

Config sampled(const std::string& settings = "", std::string_view environments = kFive) {
  return config_of("sampling:\n" + settings + "  environments:\n" + std::string(environments));
}

std::string mistakes_in(const std::string& settings, std::string_view environments = kFive) {
  return mistakes_of("sampling:\n" + settings + "  environments:\n" + std::string(environments));
}

TEST(Sampling, IsNotThereWithoutItsSection) {
  const Config config = config_of("limits: []");
  EXPECT_FALSE(config.sampling.has_value());
  EXPECT_EQ(config.rules->find("sampling"), nullptr);
}

TEST(Sampling, IsALimitWithTheAttributesItReads) {
  const Config config = sampled();
  ASSERT_NE(config.rules->find("sampling"), nullptr);
  for (const char* name : {"hotkey", "revision", "environment", "uid"}) {
    EXPECT_LT(config.rules->attributes().find(name), config.rules->attributes().size()) << name;
  }
  EXPECT_EQ(config.rules->find("sampling")->gate_name, "sampling");
  ASSERT_TRUE(config.sampling->rules.has_value());
  EXPECT_EQ(config.sampling->rules->environments()[0].allowed, 6);
}

TEST(Sampling, SpacesAnEnvironmentThatHasABurst) {
  const auto with = [](const char* burst) {
    return "    - { name: E, rotation_count: 5, rotation_interval: 3600, sampling_count: 200, "
           "burst: " +
           std::string(burst) + " }\n";
  };
  EXPECT_EQ(sampled("", with("2")).sampling->rules->environments()[0].burst, 2);
  EXPECT_EQ(sampled().sampling->rules->environments()[0].burst, std::nullopt);
  EXPECT_THAT(mistakes_in("", with("0")), HasSubstr("burst is '0'"));
  EXPECT_THAT(mistakes_in("  grants: gate\n", with("2")), HasSubstr("a gate grants all"));
}

TEST(Sampling, IsStrictUnlessItIsWrittenOtherwise) {
  const sampling::RulesSpec spec = sampled().sampling->spec;
  EXPECT_EQ(spec.mode, sampling::Mode::kStrict);
  EXPECT_EQ(spec.granting, sampling::Granting::kCapped);
  EXPECT_EQ(spec.formula, sampling::Formula{});
  EXPECT_EQ(spec.exempt, sampling::Exemptions{});
}

TEST(Sampling, IsAllAsPublishedInThatModeExceptForWhatIsWritten) {
  sampling::RulesSpec spec = sampled("  mode: published\n").sampling->spec;
  EXPECT_EQ(spec.mode, sampling::Mode::kPublished);
  EXPECT_EQ(spec.granting, sampling::Granting::kGate);
  EXPECT_EQ(spec.formula.arithmetic, sampling::Arithmetic::kDouble);
  EXPECT_EQ(spec.exempt, sampling::published_exemptions());
  spec = sampled("  grants: capped\n  mode: published\n  exempt: { ids: 5 }\n").sampling->spec;
  EXPECT_EQ(spec.granting, sampling::Granting::kCapped);
  EXPECT_EQ(spec.exempt, (sampling::Exemptions{.ids = {5}}));
}

TEST(Sampling, ReadsTheParametersOfItsFormula) {
  const Config config = sampled("  margin: 1.5\n  horizon: 24h\n  window: 30m\n");
  EXPECT_EQ(config.sampling->spec.formula,
            (sampling::Formula{.margin_micro = 1'500'000, .horizon_s = 86'400, .window_s = 1800}));
}

TEST(Sampling, ReadsEnvironments) {
  const Config config = sampled("",
                                "    - { name: 'a#b', rotation_count: 2.5, rotation_interval: "
                                "777.6, sampling_count: 0, rotation_enabled: false, "
                                "scheduling_weight: 0.5, parent: 20 }\n");
  const sampling::EnvironmentSpec& environment = config.sampling->spec.environments[0];
  EXPECT_EQ(environment.name, "a#b");
  EXPECT_EQ(environment.rotation_count_micro, 2'500'000);
  EXPECT_EQ(environment.rotation_interval_micro, 777'600'000);
  EXPECT_EQ(environment.weight_micro, 500'000);
  EXPECT_EQ(environment.parent->limit, 20);
}

TEST(Sampling, SaysWhereWhatIsWrong) {
  EXPECT_EQ(mistakes_in("",
                        "    - { name: E, rotation_count: -5, rotation_interval: 1, "
                        "sampling_count: 1 }\n"),
            "f:3:7: sampling: environment 'E': rotation_count is -5, but it must not be "
            "negative; write 0 to switch its term off");
  EXPECT_EQ(mistakes_in("", "    - { name: E, rotation_count: five, sampling_count: 1 }\n"),
            "f:3:34: sampling: environments: rotation_count is 'five', but it must be a "
            "number of at most six decimal places; write one such as 5");
  EXPECT_THAT(mistakes_in("", "    - { name: E }\n"), HasSubstr("rotation_count is missing"));
  EXPECT_THAT(mistakes_in("", "    - { name: E, rotation_count: null, sampling_count: 1 }\n"),
              HasSubstr("rotation_count"));
  EXPECT_THAT(mistakes_in("", "    - { rotation_count: 0, sampling_count: 0 }\n"),
              HasSubstr("name is missing"));
  EXPECT_THAT(mistakes_in("", "    - E\n"), HasSubstr("an environment is 'E'"));
  EXPECT_THAT(mistakes_of("sampling: { environments: [] }"), HasSubstr("environments is empty"));
  EXPECT_THAT(mistakes_of("sampling: {}"), HasSubstr("environments is missing"));
  EXPECT_THAT(mistakes_of("sampling: yes"), HasSubstr("sampling"));
  EXPECT_THAT(mistakes_in("", std::string(kFive) + std::string(kFive)),
              HasSubstr("environment 'E': it is there twice"));
  for (const char* margin : {"-1", "0", "0.000000"}) {
    EXPECT_EQ(mistakes_in("  margin: " + std::string(margin) + "\n",
                          std::string(kFive) + "    - { name: F, rotation_count: 1, "
                                               "rotation_interval: 1, sampling_count: 1 }\n"),
              "f:2:11: sampling: margin is '" + std::string(margin) +
                  "', but it must be above 0, or a list that rotates would be unlimited; write one "
                  "such as 1.2");
  }
  EXPECT_THAT(mistakes_in("",
                          "    - { name: E, rotation_count: 0, sampling_count: 0, parent: "
                          "4294967296 }\n"),
              HasSubstr("parent is '4294967296', but it must be"));
  EXPECT_THAT(mistakes_in("  margin: 1001\n"), HasSubstr("margin is '1001'"));
  EXPECT_THAT(mistakes_in("  window: 1500ms\n"), HasSubstr("whole seconds"));
  EXPECT_THAT(mistakes_in("  window: 367d\n"), HasSubstr("at most 366 days"));
  EXPECT_THAT(mistakes_in("  exempt: { ids: [zero] }\n"), HasSubstr("ids is 'zero'"));
  EXPECT_THAT(mistakes_in("  exempt: { above: -1 }\n"), HasSubstr("above is '-1'"));
  EXPECT_THAT(mistakes_in("  mode: open\n"), HasSubstr("mode is 'open'"));
}

TEST(Sampling, HasItsNameToItself) {
  EXPECT_THAT(mistakes_of("sampling:\n  environments:\n" + std::string(kFive) +
                          "limits: [ { name: sampling, window: { limit: 1, every: 1s } } ]\n"),
              HasSubstr("limit 'sampling'"));
}

}  // namespace
}  // namespace weir::config
