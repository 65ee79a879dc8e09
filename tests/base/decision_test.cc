#include "weir/base/decision.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string_view>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{1'700'000'000'000'000'000};

Outcome outcome_of(std::string_view limit, Verdict verdict) {
  return Outcome{limit, verdict, false, false, 1, 4, 10, kNow};
}

// Two limits applied: the first would have allowed it, the second refused.
Decision refusal() {
  Decision decision;
  decision.verdict = Verdict::kDenied;
  decision.outcome_rows[0] = outcome_of("per-user", Verdict::kAllowed);
  decision.outcome_rows[1] = outcome_of("uploads", Verdict::kDenied);
  decision.outcome_count = 2;
  decision.binding_index = 1;
  decision.earliest = kNow + 250ms;
  return decision;
}

TEST(Verdict, IsNamedByOneWord) {
  static_assert(to_string(Verdict::kAllowed) == "allowed");
  static_assert(to_string(Verdict::kDenied) == "denied");
  static_assert(to_string(Verdict::kNever) == "never");
  static_assert(to_string(Verdict::kOverloaded) == "overloaded");
  static_assert(to_string(Verdict::kQueued) == "queued");
}

TEST(Verdict, IsUnknownOutsideTheEnumeration) {
  EXPECT_EQ(to_string(static_cast<Verdict>(200)), "unknown");
}

TEST(Decision, AllowsWithoutOutcomesByDefault) {
  const Decision decision;
  EXPECT_TRUE(decision.allowed());
  EXPECT_TRUE(decision.outcomes().empty());
  EXPECT_EQ(decision.binding(), nullptr);
  EXPECT_FALSE(decision.hold);
}

TEST(Decision, IsAllowedByOneVerdictOnly) {
  Decision decision;
  for (const Verdict verdict :
       {Verdict::kDenied, Verdict::kNever, Verdict::kOverloaded, Verdict::kQueued}) {
    decision.verdict = verdict;
    EXPECT_FALSE(decision.allowed()) << to_string(verdict);
  }
}

TEST(Decision, ShowsTheLimitThatBound) {
  const Decision decision = refusal();
  ASSERT_NE(decision.binding(), nullptr);
  EXPECT_EQ(decision.binding()->limit, "uploads");
}

TEST(Decision, ListsOutcomesInTheOrderOfTheRules) {
  const Decision decision = refusal();
  ASSERT_EQ(decision.outcomes().size(), 2U);
  EXPECT_EQ(decision.outcomes()[0].limit, "per-user");
  EXPECT_EQ(decision.outcomes()[1].limit, "uploads");
}

TEST(Decision, FindsTheOutcomeOfANamedLimit) {
  const Decision decision = refusal();
  const Outcome* outcome = decision.outcome("per-user");
  ASSERT_NE(outcome, nullptr);
  EXPECT_EQ(outcome->verdict, Verdict::kAllowed);
}

TEST(Decision, HasNoOutcomeForALimitThatDidNotApply) {
  Decision decision = refusal();
  EXPECT_EQ(decision.outcome("downloads"), nullptr);
  decision.outcome_count = 1;  // the row is still there, but no longer counts
  EXPECT_EQ(decision.outcome("uploads"), nullptr);
}

TEST(Decision, HoldsAsManyOutcomesAsARequestMayTouch) {
  Decision decision;
  for (Outcome& row : decision.outcome_rows) row = outcome_of("other", Verdict::kAllowed);
  decision.outcome_rows.back().limit = "last";
  decision.outcome_count = kLimitsPerRequestMax;
  EXPECT_EQ(decision.outcome("last"), &decision.outcomes().back());
}

TEST(Decision, TellsHowLongToWait) {
  const Decision decision = refusal();
  EXPECT_EQ(decision.retry_after(kNow), 250ms);
  EXPECT_EQ(decision.retry_after(kNow + 249'999'999ns), 1ns);
}

TEST(Decision, NeedsNoWaitOnceTheEarliestInstantHasCome) {
  const Decision decision = refusal();
  EXPECT_EQ(decision.retry_after(kNow + 250ms), 0ns);
  EXPECT_EQ(decision.retry_after(kNow + 1h), 0ns);
}

TEST(Decision, WaitsAlmostForeverWhenNothingIsKnown) {
  Decision decision = refusal();
  decision.earliest = kForever;
  EXPECT_EQ(decision.retry_after(kNow), kForever - kNow);
  EXPECT_EQ(decision.retry_after(Instant{-1}), Duration::max());
}

TEST(HoldId, IsNoHoldWhenItsNumberIsZero) {
  EXPECT_FALSE(HoldId{});
  EXPECT_FALSE((HoldId{7, 0}));
  EXPECT_TRUE((HoldId{7, 1}));
}

TEST(HoldId, IsEqualByOwnerAndNumber) {
  EXPECT_EQ((HoldId{7, 1}), (HoldId{7, 1}));
  EXPECT_FALSE((HoldId{7, 1}) == (HoldId{8, 1}));
  EXPECT_FALSE((HoldId{7, 1}) == (HoldId{7, 2}));
}

}  // namespace
}  // namespace weir
