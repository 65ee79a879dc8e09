#include "weir/system/sampling/published/pass.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Random kFirst = [](std::uint64_t) { return std::uint64_t{0}; };
constexpr Miner kMiner{"5F3s", "r1", 7};

std::vector<std::int64_t> plan(std::int64_t slots, const std::vector<Candidate>& candidates) {
  return plan_pass(slots, candidates, Arithmetic::kExact, kFirst);
}

TEST(Pass, FeedsTheStarvingThenFillsShares) {
  EXPECT_THAT(plan(6, {{.name = "A", .work = 40}, {.name = "B", .work = 40}}), ElementsAre(3, 3));
  EXPECT_THAT(
      plan(6, {{.name = "A", .work = 40, .weight_micro = 2 * kMicro}, {.name = "B", .work = 40}}),
      ElementsAre(4, 2));
  EXPECT_THAT(plan(6, {{.name = "A", .active = 5, .work = 40}, {.name = "B", .work = 40}}),
              ElementsAre(0, 1));
}

TEST(Pass, GoesBeyondTheSlotsOnlyForTheStarving) {
  EXPECT_THAT(plan(4, {{.name = "A", .active = 4, .work = 40}}), ElementsAre(0));
  EXPECT_THAT(plan(4, {{.name = "A", .active = 4, .work = 40}, {.name = "B", .work = 40}}),
              ElementsAre(0, 1));
}

TEST(Pass, GivesTheRestInTurnWhenShareholdersHaveNoWorkLeft) {
  EXPECT_THAT(
      plan(9, {{.name = "A", .work = 1}, {.name = "B", .work = 40}, {.name = "C", .work = 40}}),
      ElementsAre(1, 4, 4));
  EXPECT_THAT(plan(2, {{.name = "A", .work = 9, .weight_micro = 0},
                       {.name = "B", .work = 9, .weight_micro = 0}}),
              ElementsAre(1, 1));
}

TEST(Pass, ChoosesAmongTheStarvingWhenThereIsNotRoomForAll) {
  std::map<std::size_t, int> fed;
  std::uint64_t state = 1;
  const Random random = [&](std::uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  const std::vector<Candidate> candidates{{.name = "A", .work = 9},
                                          {.name = "B", .work = 9},
                                          {.name = "C", .work = 9},
                                          {.name = "D", .active = 2, .work = 0}};
  for (int i = 0; i < 3000; ++i) {
    const auto planned = plan_pass(3, candidates, Arithmetic::kExact, random);
    EXPECT_EQ(planned[0] + planned[1] + planned[2], 1);
    for (std::size_t k = 0; k < 3; ++k) fed[k] += static_cast<int>(planned[k]);
  }
  for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(fed[k], 1000, 150);
}

TEST(Pass, NeverOvershootsWhenCapped) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Work work[] = {{"E", 0, 100}};
  const auto first = run_pass(*sampling, kMiner, {.slots = 4, .work = work}, kFirst, kStart);
  ASSERT_TRUE(first);
  EXPECT_EQ((*first)[0].grant.granted, 4);
  const auto second =
      run_pass(*sampling, kMiner, {.slots = 50, .work = work}, kFirst, kStart + 10s);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)[0].count_before, 4);
  EXPECT_EQ((*second)[0].grant.granted, 2);
  EXPECT_EQ((*second)[0].grant.count, 6);
}

TEST(Pass, OvershootsAsAGate) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.granting = Granting::kGate;
  const auto sampling = sampling_of(spec);
  const Work work[] = {{"E", 0, 100}};
  const auto made = run_pass(*sampling, kMiner, {.slots = 50, .work = work}, kFirst, kStart);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)[0].grant.granted, 50);
}

TEST(Pass, LeavesASlotThatALimitedEnvironmentCannotUseToOthers) {
  const auto sampling = sampling_of(spec_of({six_an_hour("A"), rotating("B", 50, 3600, 0)}));
  const Work work[] = {{"A", 0, 100}, {"B", 0, 100}};
  const auto made = run_pass(*sampling, kMiner, {.slots = 20, .work = work}, kFirst, kStart);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)[0].grant.granted, 6);
  EXPECT_EQ((*made)[1].grant.granted, 14);
}

TEST(Pass, SaysWhatIsWrongAndGrantsNothing) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const auto error = [&](const Round& round) {
    const auto made = run_pass(*sampling, kMiner, round, kFirst, kStart);
    return made ? "none" : made.error().message;
  };
  const Work good[] = {{"E", 0, 1}};
  EXPECT_THAT(error({.slots = 0, .work = good}), HasSubstr("slots is 0"));
  const Work negative[] = {{"E", -1, 1}};
  EXPECT_THAT(error({.slots = 1, .work = negative}), HasSubstr("-1 active"));
  const Work unknown[] = {{"E", 0, 1}, {"F", 0, 1}};
  EXPECT_THAT(error({.slots = 9, .work = unknown}), HasSubstr("'F' is not configured"));
  const Work twice[] = {{"E", 0, 1}, {"E", 0, 1}};
  EXPECT_THAT(error({.slots = 9, .work = twice}), HasSubstr("is there twice"));
  EXPECT_EQ(sampling->reading().environments[0].granted, 0u);
}

}  // namespace
}  // namespace weir::system::sampling
