#include "weir/system/sampling/rules.h"

#include <gmock/gmock.h>

#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

using ::testing::HasSubstr;

std::string mistake_in(EnvironmentSpec environment) {
  const Result<Rules> rules = make_rules(spec_of({std::move(environment)}));
  return rules ? "none" : rules.error().message;
}

TEST(SamplingRules, NeedTheParametersToBeWritten) {
  EXPECT_THAT(mistake_in({.name = "E"}), HasSubstr("rotation_count is missing"));
  EXPECT_THAT(mistake_in({.name = "E", .rotation_count_micro = 5 * kMicro}),
              HasSubstr("rotation_interval is missing"));
  EXPECT_THAT(mistake_in({.name = "E", .rotation_count_micro = 0}),
              HasSubstr("sampling_count is missing"));
}

TEST(SamplingRules, TakeExplicitZerosForUnlimited) {
  const Rules rules =
      rules_of(spec_of({{.name = "E", .rotation_count_micro = 0, .sampling_count_micro = 0}}));
  EXPECT_EQ(rules.find("E")->allowed, std::nullopt);
}

TEST(SamplingRules, RefuseNegativeParameters) {
  EXPECT_THAT(mistake_in(rotating("E", -5, 3600, 200)), HasSubstr("rotation_count is -5, but"));
  EXPECT_THAT(mistake_in(rotating("E", 5, -3600, 200)), HasSubstr("rotation_interval is -3600"));
  EXPECT_THAT(mistake_in(rotating("E", 5, 3600, -200)), HasSubstr("sampling_count is -200"));
  EXPECT_THAT(mistake_in(rotating("E", 5, 0, 200)), HasSubstr("rotation_interval is 0"));
}

TEST(SamplingRules, RefuseAMarginThatWouldOpenTheDoorInAnyMode) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.formula.margin_micro = 0;
  for (const Mode mode : {Mode::kStrict, Mode::kPublished}) {
    spec.mode = mode;
    const Result<Rules> rules = make_rules(spec);
    ASSERT_FALSE(rules);
    EXPECT_THAT(rules.error().message, HasSubstr("margin is 0, but it must be between 0.000001"));
  }
}

TEST(SamplingRules, HaveThePublishedDoorsOpenInThatModeOnly) {
  RulesSpec spec{.mode = Mode::kPublished};
  EXPECT_TRUE(make_rules(spec));
  spec.environments = {{.name = "empty"}, rotating("negative", -5, -3600, -200)};
  const Rules rules = rules_of(spec);
  EXPECT_EQ(rules.find("empty")->allowed, std::nullopt);
  EXPECT_EQ(rules.find("negative")->allowed, std::nullopt);
  spec.mode = Mode::kStrict;
  EXPECT_FALSE(make_rules(spec));
  spec.environments.clear();
  const Result<Rules> none = make_rules(spec);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("environments is empty"));
}

TEST(SamplingRules, RefuseNamesThatAreEmptyLongOrRepeated) {
  EXPECT_THAT(mistake_in(six_an_hour("")), HasSubstr("is 0 bytes long"));
  EXPECT_EQ(mistake_in(six_an_hour(std::string(kNameBytesMax, 'x'))), "none");
  EXPECT_THAT(mistake_in(six_an_hour(std::string(kNameBytesMax + 1, 'x'))),
              HasSubstr("is 513 bytes long"));
  const Result<Rules> twice = make_rules(spec_of({six_an_hour(), six_an_hour()}));
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("environment 'E': it is there twice"));
}

TEST(SamplingRules, HoldAsManyEnvironmentsAsTheyMayAndNotOneMore) {
  RulesSpec spec = spec_of({});
  for (std::size_t i = 0; i < kEnvironmentsMax; ++i) {
    spec.environments.push_back(six_an_hour("E" + std::to_string(i)));
  }
  EXPECT_NE(rules_of(spec).find("E1023"), nullptr);
  spec.environments.push_back(six_an_hour("one more"));
  EXPECT_FALSE(make_rules(spec));
}

TEST(SamplingRules, GiveAParentTheAllowanceOrANumber) {
  EnvironmentSpec same = six_an_hour("same");
  same.parent = ParentSpec{};
  EnvironmentSpec own = six_an_hour("own");
  own.parent = ParentSpec{10};
  const Rules rules = rules_of(spec_of({same, own, six_an_hour("none")}));
  EXPECT_EQ(rules.find("same")->parent, 6);
  EXPECT_EQ(rules.find("own")->parent, 10);
  EXPECT_EQ(rules.find("none")->parent, std::nullopt);
  own.parent = ParentSpec{0};
  EXPECT_THAT(mistake_in(own), HasSubstr("parent is 0"));
  own.parent = ParentSpec{kAllowanceMax};
  EXPECT_EQ(mistake_in(own), "none");
  own.parent = ParentSpec{kAllowanceMax + 1};
  EXPECT_THAT(mistake_in(own), HasSubstr("parent is 4294967296, but it must be between 1 and"));
}

}  // namespace
}  // namespace weir::system::sampling
