// One server's leases, and a source that does what a test tells it to.

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/store/redis/shared/lease_fleet.h"
#include "weir/store/redis/shared/leases.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

// Gives what is asked for, or fails, or does not answer before it is told to.
struct PlainSource final : LeaseSource {
  void draw(const LeaseDraw& draw, DrawCallback callback) override {
    wanted = draw.amounts.front();
    rule = draw.rule;
    late = draw.late;
    if (failure) return callback(*failure);
    under_way = std::move(callback);
    if (!is_silent) answer(draw.amounts.front());
  }
  void refuse() { answer(0, true); }
  void fail() {
    std::exchange(under_way, {})(DrawFailure{true, {ErrorCode::kUnavailable, "no answer"}, true});
  }
  void answer(std::int64_t units, bool is_refused = false) {
    std::exchange(under_way, {})(drawn_now(units, is_refused));
  }
  Drawn drawn_now(std::int64_t units, bool is_refused = false) const {
    Drawn drawn;
    drawn.is_refused = is_refused;
    drawn.units = units;
    drawn.now = drawn.here = now;
    drawn.stamp_us = stamp_us;
    drawn.state = state;
    return drawn;
  }
  void give_back(const LeaseReturn& units, Instant, ReturnCallback callback) override {
    ++words;
    said = 0;
    for (const LeaseUnits& part : units.kept) said += part.units;
    if (delivery == Delivery::kHeard) {
      for (const LeaseUnits& part : units.units) returned += part.units;
    }
    if (keeps_returns) {
      return_under_way = std::move(callback);
    } else {
      callback(delivery);
    }
  }

  bool is_silent = false;
  bool keeps_returns = false;  // until the test calls back
  std::optional<DrawFailure> failure;
  Delivery delivery = Delivery::kHeard;  // of returns
  Instant now = kFleetStart;
  std::int64_t stamp_us = 0;
  SharedState state{};
  DrawCallback under_way;
  std::function<void(const Drawn&)> late;  // of the last draw
  ReturnCallback return_under_way;
  std::int64_t wanted = 0;             // by the last draw
  const engine::Rule* rule = nullptr;  // of it
  std::int64_t returned = 0;
  int words = 0;          // returns, also of nothing
  std::int64_t said = 0;  // to be held, by the last of them
};

struct PlainLeases : ::testing::Test {
  // Keys of one shard.
  void take(std::uint64_t key, Instant now, std::int64_t cost = 1) {
    source.now = now;
    const engine::SharedItem item{&rules->rules()[0], {}, cost, 1, engine::Print{key, 1 << 16}};
    leases.take(item, rules, now, [=, this](const LeaseSaid& said) {
      ++answers;
      if (said.failure) return failures.push_back(said.failure->error.message);
      verdicts.push_back(said.outcome.check.verdict);
      if (verdicts.back() == Verdict::kAllowed) leases.spend(engine::Print{key, 1 << 16}, cost);
    });
  }

  // Asks until as much is held as may be.
  void fill(std::uint64_t key, Instant now) {
    for (int i = 0; i < 100 && leases.held({key, 1 << 16}, now) < 30; ++i) take(key, now);
    ASSERT_EQ(leases.held({key, 1 << 16}, now), 30);
  }

  std::shared_ptr<const engine::RuleSet> rules =
      *engine::compile({.limits = {leased(kBucket, 30, 1h)}});
  PlainSource source;
  Leases leases{source, "weir:"};
  std::size_t answers = 0;
  std::vector<std::string> failures;
  std::vector<Verdict> verdicts;  // of the others
};

TEST_F(PlainLeases, TheLeaseLongestUnusedMakesRoom) {
  constexpr std::size_t kKeys = kLeasesMax / kLeaseShards;
  for (int i = 0; i < 3; ++i) take(0, kFleetStart);
  const std::int64_t held = leases.held({0, 1 << 16}, kFleetStart);
  ASSERT_GT(held, 0);
  for (std::uint64_t key = 1; key < kKeys; ++key) take(key, kFleetStart + 1ms);
  EXPECT_EQ(leases.held({0, 1 << 16}, kFleetStart), held);
  EXPECT_EQ(source.returned, 0);
  take(kKeys, kFleetStart + 2ms);
  EXPECT_EQ(leases.held({0, 1 << 16}, kFleetStart), 0);
  EXPECT_EQ(source.returned, held);
  EXPECT_EQ(answers, kKeys + 3);
  EXPECT_TRUE(failures.empty());
}

TEST(LeasesOfALog, AreReturnedThoughDrawsWereRefusedSince) {
  const auto rules = *engine::compile({.limits = {leased(engine::LogSpec{100, 24h}, 30, 1h)}});
  const engine::Print print{7, 1 << 16};
  PlainSource source;
  Leases leases(source, "weir:");
  const auto take = [&](std::int64_t cost) {
    source.stamp_us += 1'000'000;
    source.now = source.now + 1s;
    const engine::SharedItem item{&rules->rules()[0], {}, cost, 1, print};
    leases.take(item, rules, source.now, [&](const LeaseSaid& said) {
      if (said.outcome.check.allowed()) leases.spend(print, cost);
    });
  };
  for (int i = 0; i < 10; ++i) take(1);
  const std::int64_t held = leases.held(print, source.now);
  ASSERT_GT(held, 0);
  source.is_silent = true;
  for (int i = 0; i < 20; ++i) {
    take(90);
    ASSERT_TRUE(source.under_way);
    source.refuse();
  }
  leases.end(source.now);
  EXPECT_EQ(source.returned, held);
}

// What Redis tells of a log is for one cost.
TEST(LeasesOfALog, TellNothingOfACostThatWasNotAnswered) {
  const auto rules = *engine::compile({.limits = {leased(engine::LogSpec{100, 24h}, 30, 1h)}});
  PlainSource source;
  source.is_silent = true;
  source.state = {100, (kFleetStart + 2h).ns / kNsPerUs};
  Leases leases(source, "weir:");
  int answers = 0;
  const auto take = [&](std::int64_t cost) {
    const engine::SharedItem item{&rules->rules()[0], {}, cost, 1, {7, 1 << 16}};
    leases.take(item, rules, kFleetStart, [&](const LeaseSaid& said) {
      ++answers;
      EXPECT_EQ(said.outcome.check.earliest, kFleetStart + 2h);
    });
  };
  take(5);
  source.refuse();
  take(5);
  EXPECT_EQ(answers, 2);
  take(7);
  take(7);
  EXPECT_EQ(answers, 2);
}

// A request takes units of one window and is refused elsewhere in the next one, for which others
// were drawn meanwhile.
TEST(LeasesOfAWindow, TakeNothingBackFromTheWindowBefore) {
  const auto rules = *engine::compile({.limits = {leased(engine::WindowSpec{100, 1s}, 30, 1h)}});
  const engine::Print print{7, 1 << 16};
  const engine::SharedItem item{&rules->rules()[0], {}, 1, 1, print};
  PlainSource source;
  Leases leases(source, "weir:");
  const auto take = [&](Instant now) {
    source.now = now;
    source.stamp_us = now.ns / 1'000'000'000 * 1'000'000;
    LeaseSaid got;
    leases.take(item, rules, now, [&](const LeaseSaid& said) { got = said; });
    EXPECT_TRUE(got.outcome.check.allowed());
    return LeaseUnits{1, got.stamp_us};
  };
  LeaseUnits taken;
  for (int i = 0; i < 5; ++i) {
    leases.spend(print, taken.units);
    taken = take(kFleetStart);
  }
  const std::int64_t held = leases.held(print, kFleetStart);
  ASSERT_GT(held, 1);
  leases.put_back(print, taken, kFleetStart);
  EXPECT_EQ(leases.held(print, kFleetStart), held + 1);

  const LeaseUnits withdrawn = leases.withdraw(print);
  EXPECT_EQ(withdrawn.units, held + 1);
  const Instant next = kFleetStart + 1s;
  take(next);
  const std::int64_t held_next = leases.held(print, next);
  leases.put_back(print, taken, next);
  leases.put_back(print, withdrawn, next);
  EXPECT_EQ(leases.held(print, next), held_next);
  EXPECT_EQ(source.returned, 0);
  EXPECT_EQ(leases.counts(next)[0].expired, static_cast<std::uint64_t>(held + 2));
}

TEST_F(PlainLeases, WhatADrawBringsAfterTheEndGoesBack) {
  source.is_silent = true;
  take(0, kFleetStart);
  leases.end(kFleetStart);
  source.answer(10);
  EXPECT_EQ(answers, 1u);
  EXPECT_EQ(source.returned, 9);
  leases.tick(kFleetStart + 1s);
  EXPECT_FALSE(source.under_way) << "draws after the end";
}

TEST_F(PlainLeases, AreDrawnAheadAgainOnceDrawsAreSentAgain) {
  fill(0, kFleetStart);
  source.failure = DrawFailure{true, {ErrorCode::kUnavailable, "out of reach"}};
  while (failures.size() < 5) take(0, kFleetStart + 1min);
  source.failure.reset();
  take(0, kFleetStart + 2min);
  EXPECT_EQ(source.wanted, 1 + 30);
}

TEST_F(PlainLeases, ThatCouldNotBeReturnedAreReturnedLater) {
  fill(0, kFleetStart);
  const std::int64_t held = leases.held({0, 1 << 16}, kFleetStart);
  source.delivery = Delivery::kUnsent;
  leases.surrender({0, 1 << 16}, kFleetStart, [] {});
  leases.tick(kFleetStart + 1s);
  EXPECT_EQ(leases.counts(kFleetStart)[0].returned, 0u);
  source.delivery = Delivery::kHeard;
  leases.tick(kFleetStart + 2s);
  EXPECT_EQ(source.returned, held);
  EXPECT_EQ(leases.counts(kFleetStart)[0].returned, static_cast<std::uint64_t>(held));
}

TEST_F(PlainLeases, ThatMayHaveBeenReturnedAreNotReturnedTwice) {
  fill(0, kFleetStart);
  source.delivery = Delivery::kUnsure;
  leases.surrender({0, 1 << 16}, kFleetStart, [] {});
  source.delivery = Delivery::kHeard;
  for (int i = 1; i < 100; ++i) leases.tick(kFleetStart + i * kLeaseTick);
  EXPECT_EQ(source.returned, 0);
  EXPECT_EQ(leases.counts(kFleetStart)[0].returned, 0u);
}

TEST_F(PlainLeases, ThatCouldNotBeReturnedInTimeAreGivenUp) {
  fill(0, kFleetStart);
  const std::int64_t held = leases.held({0, 1 << 16}, kFleetStart);
  source.delivery = Delivery::kUnsent;
  leases.surrender({0, 1 << 16}, kFleetStart, [] {});
  source.delivery = Delivery::kHeard;
  leases.tick(kFleetStart + record_length(rules->rules()[0].shared->lease.value()));
  EXPECT_EQ(source.returned, 0);
  EXPECT_EQ(leases.counts(kFleetStart)[0].expired, static_cast<std::uint64_t>(held));
}

// A draw is under way while the lease ends here. Redis, which was stopped, takes it at the instant
// at which the lease has ended there, or a moment before.
TEST_F(PlainLeases, GoOnUnlessRedisHasTakenThemBack) {
  const Instant lapsed = kFleetStart + record_length(rules->rules()[0].shared->lease.value());
  for (const std::uint64_t key : {0, 1}) {
    source.is_silent = false;
    fill(key, kFleetStart);
    source.is_silent = true;
    leases.tick(kFleetStart + 31min);
    leases.tick(kFleetStart + 1h);
    EXPECT_EQ(leases.held({key, 1 << 16}, kFleetStart + 1h), 0);
    source.now = key == 0 ? lapsed - 1us : lapsed;
    source.answer(0);
    EXPECT_EQ(leases.held({key, 1 << 16}, lapsed), key == 0 ? 30 : 0);
    EXPECT_EQ(source.returned, 0);
    leases.start_anew({key, 1 << 16}, leases.withdraw({key, 1 << 16}).units);
  }
}

// One who waits keeps the key busy, and before it is served there is another one.
TEST_F(PlainLeases, FollowAChangeOfTheirLimitThoughSomebodyAlwaysWaits) {
  const auto old_rules = rules;
  source.is_silent = true;
  take(0, kFleetStart);
  rules = *engine::compile(
      {.limits = {leased(engine::BucketSpec{.amount = 1000, .period = 1s, .burst = 90}, 5, 1h)}});
  take(0, kFleetStart, 80);
  EXPECT_EQ(source.rule, &old_rules->rules()[0]);
  source.answer(1);
  EXPECT_EQ(source.rule, &rules->rules()[0]);
  EXPECT_EQ(source.wanted, 80);
  source.answer(80);
  EXPECT_EQ(verdicts, std::vector(2, Verdict::kAllowed));
}

TEST_F(PlainLeases, RefuseThoseWhoWaitForMoreThanAChangedLimitHas) {
  source.is_silent = true;
  take(0, kFleetStart);
  take(0, kFleetStart, 50);
  rules = *engine::compile(
      {.limits = {leased(engine::BucketSpec{.amount = 1000, .period = 1s, .burst = 40}, 5, 1h)}});
  take(0, kFleetStart);
  source.answer(1);
  source.answer(1);
  EXPECT_EQ(verdicts, (std::vector{Verdict::kAllowed, Verdict::kNever, Verdict::kAllowed}));
}

TEST_F(PlainLeases, OfAChangedLimitGoBack) {
  fill(0, kFleetStart);
  const std::int64_t held = leases.held({0, 1 << 16}, kFleetStart);
  rules = *engine::compile({.limits = {leased(kBucket, 5, 1h)}});
  take(0, kFleetStart);
  EXPECT_EQ(source.returned, held);
}

// Twenty are out, with a request that is not decided yet. Another one takes from the same lease and
// finds that there is no other lease.
TEST_F(PlainLeases, HaveNoRoomForWhatIsOutAfterAnotherRequestFailed) {
  const engine::Print print{0, 1 << 16};
  fill(0, kFleetStart);
  const engine::Rule& rule = rules->rules()[0];
  leases.take({&rule, {}, 20, 1, print}, rules, kFleetStart, [](const LeaseSaid&) {});
  const std::vector<engine::LeasedItem> items = {{&rule, print, 5}, {&rule, {1, 1 << 16}, 1}};
  std::vector<engine::SharedOutcome> outcomes(2);
  EXPECT_FALSE(leases.take_now(items, kFleetStart, outcomes));
  const engine::LeasedItem one{&rule, print, 1};  // low: it draws
  EXPECT_TRUE(leases.take_now({&one, 1}, kFleetStart + 1s, {outcomes.data(), 1}));
  EXPECT_EQ(leases.held(print, kFleetStart + 1s), 30 - 20);
  leases.put_back(print, {20, 0}, kFleetStart + 1s);
  EXPECT_EQ(leases.held(print, kFleetStart + 1s), 30);
}

TEST_F(PlainLeases, CountWhatWasAwaitedAsUsedIfItComesLate) {
  fill(0, kFleetStart);
  take(0, kFleetStart, 20);
  source.is_silent = true;
  take(0, kFleetStart, 15);  // five more than are held
  ASSERT_EQ(source.wanted, 5 + 30);
  source.fail();
  source.late(source.drawn_now(8));
  EXPECT_EQ(source.returned, 8 - 5);
}

TEST_F(PlainLeases, ThatHaveEndedGoBackThoughNoTickHasSeenThemEnd) {
  fill(0, kFleetStart);
  take(0, kFleetStart + 1h);
  EXPECT_EQ(source.returned, 30);
}

TEST_F(PlainLeases, ThatEndAnswerThoseWhoWaitThoughNobodyHeardTheReturn) {
  fill(0, kFleetStart);
  source.is_silent = source.keeps_returns = true;
  leases.surrender({0, 1 << 16}, kFleetStart, [] {});
  take(0, kFleetStart);
  leases.end(kFleetStart);
  const std::size_t before = answers;
  source.return_under_way(Delivery::kUnsure);
  ASSERT_TRUE(source.under_way);
  source.answer(1);
  EXPECT_EQ(answers, before + 1);
}

TEST_F(PlainLeases, GoBackWithWhatADrawBringsBeforeWhoeverNeedsThemInRedisIsAsked) {
  fill(0, kFleetStart);
  take(0, kFleetStart, 20);
  source.is_silent = true;
  const engine::LeasedItem one{&rules->rules()[0], {0, 1 << 16}, 1};
  engine::SharedOutcome outcome;
  ASSERT_TRUE(leases.take_now({&one, 1}, kFleetStart, {&outcome, 1}));
  ASSERT_EQ(source.wanted, 21);
  std::int64_t before = -1;
  leases.surrender({0, 1 << 16}, kFleetStart, [&] { before = source.returned; });
  EXPECT_EQ(before, -1);
  source.answer(21);
  EXPECT_EQ(before, 30);
}

TEST_F(PlainLeases, ThatNobodyHoldsKeepNobodyWaitingWhoNeedsThemInRedis) {
  bool is_asked = false;
  leases.surrender({0, 1 << 16}, kFleetStart, [&] { is_asked = true; });
  EXPECT_TRUE(is_asked);
}

TEST_F(PlainLeases, AreInTheRecordThoughSomebodyWhoWasToUseThemWasRefused) {
  fill(0, kFleetStart);
  source.is_silent = true;
  source.state = {(kFleetStart + 60ms).ns / kNsPerUs, 0};  // nothing is left
  take(0, kFleetStart, 35);
  source.refuse();
  ASSERT_EQ(verdicts.back(), Verdict::kDenied);
  EXPECT_EQ(source.said, 30);
}

// Once half of its length is over, Redis is told what is left of a lease.
TEST_F(PlainLeases, AreSpokenOfOnceOrTwiceAfterAnOutage) {
  for (const bool may_have_run : {false, true}) {
    const std::uint64_t key = may_have_run ? 1 : 0;
    fill(key, kFleetStart);
    source.failure = DrawFailure{true, {ErrorCode::kUnavailable, "out of reach"}, may_have_run};
    failures.clear();
    while (failures.size() < 5) take(key, kFleetStart + 29min);
    source.failure.reset();
    source.words = 0;
    for (int i = 0; i < 100; ++i) leases.tick(kFleetStart + 31min + i * kLeaseTick);
    EXPECT_LE(source.words, 2) << may_have_run;
  }
}

TEST_F(PlainLeases, OneWhoWaitsTooManyIsToldSo) {
  source.is_silent = true;
  for (std::size_t i = 0; i < kLeaseWaitersMax; ++i) take(0, kFleetStart);
  EXPECT_EQ(answers, 0u);
  take(0, kFleetStart);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0],
            "limit 'calls': 65536 requests wait for leases, as many as one server has; ask again");
}

}  // namespace
}  // namespace weir::store::redis
