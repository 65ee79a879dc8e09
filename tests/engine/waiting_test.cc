#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/table.h"

namespace weir::engine {
namespace {

constexpr Instant kFarOff = kStart + 240h;

// An engine with waiters whose answers go to one inbox.
struct Waiting : ::testing::Test {
  void use(const RuleSetSpec& spec, EngineOptions options = {}) {
    engine = engine_of(spec, std::move(options));
  }
  WaitStart wait(const Request& request, std::string name, Instant now = kStart,
                 Instant deadline = kFarOff) {
    auto start = engine->wait(request, {.deadline = deadline}, now, inbox.as(std::move(name)));
    EXPECT_TRUE(start) << (start ? "" : start.error().message);
    return *start;
  }
  HoldId take(const Request& request, Instant now = kStart) {
    const auto decision = engine->decide(request, now);
    EXPECT_TRUE(decision->allowed());
    return decision->hold;
  }
  void release(HoldId hold, Instant now = kStart) {
    ASSERT_EQ(*engine->settle(hold, {}, now), HoldState::kSettled);
  }
  // Calls the engine whenever it wants to be called, up to `until`.
  void run_until(Instant until) {
    for (int calls = 0; engine->next_instant() <= until; ++calls) {
      ASSERT_LT(calls, 10'000) << "the engine wants to be called for ever";
      engine->advance(engine->next_instant());
    }
  }

  std::unique_ptr<Engine> engine;
  Inbox inbox;
};

RuleSetSpec slots(std::int64_t limit, std::int64_t queue = 100) {
  return {.limits = {
              {.name = "slots", .meter = SlotsSpec{.limit = limit, .queue = queue, .hold = 1h}}}};
}

RuleSetSpec bucket(std::int64_t burst, Duration period = 10s) {
  return {.limits = {{.name = "bucket", .meter = BucketSpec{burst, period}}}};
}

// --- the start of a wait

TEST_F(Waiting, AdmitsAtOnceWhereThereIsRoom) {
  use(slots(1));
  const WaitStart start = wait(Ask(), "w");
  EXPECT_TRUE(start.decision.allowed());
  EXPECT_EQ(start.ticket, 0u);
  EXPECT_TRUE(inbox.texts().empty());
}

TEST_F(Waiting, QueuesWhereThereIsNone) {
  use(slots(1));
  take(Ask());
  const WaitStart start = wait(Ask(), "w");
  EXPECT_EQ(start.decision.verdict, Verdict::kQueued);
  EXPECT_NE(start.ticket, 0u);
  EXPECT_EQ(engine->waiters(), 1u);
  EXPECT_EQ(engine->inspect("slots", {}, kStart)->waiters, 1u);
}

TEST_F(Waiting, IsRefusedAtOnceForMoreThanThereCanEverBe) {
  use(slots(2));
  const WaitStart start = wait(Ask().costing(3), "w");
  EXPECT_EQ(start.decision.verdict, Verdict::kNever);
  EXPECT_EQ(start.ticket, 0u);
  EXPECT_EQ(engine->waiters(), 0u);
}

TEST_F(Waiting, ChargesNothingWhileItQueues) {
  use({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9}},
                  {.name = "window", .meter = WindowSpec{9, 1h}}}});
  take(Ask());
  wait(Ask(), "w");
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 8);
}

TEST_F(Waiting, AnswersWithAHoldThatEndsLikeAnyOther) {
  use(slots(1));
  const HoldId first = take(Ask());
  wait(Ask(), "w");
  release(first);
  ASSERT_EQ(inbox.texts(), Texts{"w allowed"});
  ASSERT_TRUE(inbox.last().hold);
  release(inbox.last().hold);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

// --- first come, first served

TEST_F(Waiting, ServesTheFirstComeFirst) {
  use(slots(1));
  HoldId hold = take(Ask());
  for (const std::string name : {"a", "b", "c"}) wait(Ask(), name);
  for (int i = 0; i < 3; ++i) {
    release(hold);
    hold = inbox.last().hold;
  }
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "c allowed"}));
}

TEST_F(Waiting, LetsASmallRequestWaitBehindALargeOne) {
  use(slots(2));
  const HoldId first = take(Ask());
  const HoldId second = take(Ask());
  wait(Ask().costing(2), "large");
  wait(Ask(), "small");
  release(first);
  EXPECT_TRUE(inbox.texts().empty());
  release(second);
  EXPECT_EQ(inbox.texts(), Texts{"large allowed"});
}

TEST_F(Waiting, AdmitsAsManyAsOneReleaseMakesRoomFor) {
  use(slots(3));
  const HoldId all = take(Ask().costing(3));
  for (const std::string name : {"a", "b", "c", "d"}) wait(Ask(), name);
  release(all);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "c allowed"}));
}

TEST_F(Waiting, IsNotOvertakenByANewcomer) {
  use(slots(2));
  const HoldId first = take(Ask());
  take(Ask());
  wait(Ask().costing(2), "w");
  release(first);  // one is free, but the waiter wants two
  EXPECT_EQ(engine->decide(Ask(), kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(engine->peek(Ask(), kStart)->verdict, Verdict::kDenied);
}

TEST_F(Waiting, IsNotOvertakenByABatchOrAPreparedRequest) {
  use(slots(2));
  auto prepared = engine->prepare(Ask());
  const HoldId first = take(Ask());
  take(Ask());
  wait(Ask().costing(2), "w");
  release(first);
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
  const std::vector<Request> requests(1);
  std::vector<Result<Decision>> answers(1, Result<Decision>(std::in_place));
  engine->decide(requests, kStart, answers);
  EXPECT_FALSE(answers[0]->allowed());
}

TEST_F(Waiting, IsNotOvertakenByABooking) {
  use(bucket(2));
  take(Ask().costing(2));
  wait(Ask().costing(2), "w");
  EXPECT_FALSE(engine->acquire(Ask(), {.book_within = 1h}, kStart)->allowed());
}

TEST_F(Waiting, TellsANewcomerBehindSlotsThatItDoesNotKnowWhen) {
  use(slots(2));
  const HoldId first = take(Ask());
  take(Ask());
  wait(Ask().costing(2), "w");
  release(first);
  EXPECT_EQ(engine->decide(Ask(), kStart)->earliest, kForever);
}

TEST_F(Waiting, TellsANewcomerWhenItFitsAfterThoseAhead) {
  use(bucket(1, 10s));
  take(Ask());
  wait(Ask(), "w");
  const auto denied = engine->decide(Ask(), kStart);
  EXPECT_EQ(denied->earliest, kStart + 20s);
  EXPECT_EQ(denied->binding()->limit, "bucket");
}

TEST_F(Waiting, LetsOthersPassWhereTheyDoNotMeet) {
  use({.limits = {
           {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1, .queue = 9}}}});
  take(client("a"));
  wait(client("a"), "w");
  EXPECT_TRUE(engine->decide(client("b"), kStart)->allowed());
}

// --- overlapping sets of limits

RuleSetSpec rooms(const std::vector<std::string>& names, std::int64_t limit = 1) {
  RuleSetSpec spec;
  for (const std::string& name : names) {
    spec.limits.push_back({.name = name,
                           .when = {{name, {"yes"}}},
                           .meter = SlotsSpec{.limit = limit, .queue = 1000, .hold = 24h}});
  }
  return spec;
}

Ask in(std::initializer_list<std::string_view> names) {
  Ask ask;
  for (const std::string_view name : names) ask.with(name, "yes");
  return ask;
}

TEST_F(Waiting, OfARequestForTwoRoomsIsNotStarvedByRequestsForOne) {
  use(rooms({"x", "y"}));
  HoldId holding_x = take(in({"x"}));
  HoldId holding_y = take(in({"y"}));
  wait(in({"x", "y"}), "both");
  // From here on each room has somebody waiting for it alone, always.
  for (int round = 0; round < 50; ++round) {
    wait(in({"x"}), "x" + std::to_string(round));
    wait(in({"y"}), "y" + std::to_string(round));
  }
  int releases = 0;
  const auto done = [&] {
    return !inbox.texts().empty() && inbox.texts().back() == "both allowed";
  };
  while (!done() && releases < 100) {
    const std::size_t before = inbox.texts().size();
    HoldId& hold = releases % 2 == 0 ? holding_x : holding_y;
    release(hold);
    releases += 1;
    if (inbox.texts().size() > before) hold = inbox.last().hold;
  }
  EXPECT_TRUE(done());
  EXPECT_LE(releases, 2 + 2);  // both rooms once, and those who were there before
}

TEST_F(Waiting, KeepsItsPlaceAtEveryGateThatEverBoundIt) {
  use(rooms({"x", "y"}));
  const HoldId holding_x = take(in({"x"}));
  const HoldId holding_y = take(in({"y"}));
  wait(in({"x", "y"}), "both");
  wait(in({"x"}), "x");
  release(holding_x);  // `both` now waits for y, and nobody may pass it at x
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_FALSE(engine->decide(in({"x"}), kStart)->allowed());
  release(holding_y);
  EXPECT_EQ(inbox.texts(), Texts{"both allowed"});
}

// Waiters for random sets of rooms; whoever is admitted leaves some time later.
TEST_F(Waiting, ServesEverybodyWhateverTheSetsAndEqualSetsInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    use(rooms({"a", "b", "c", "d"}, 2));
    struct Guest {
      std::uint64_t set;
      HoldId hold;
      int admitted = -1;
    };
    std::deque<Guest> guests;
    int admissions = 0;
    const std::string_view names[] = {"a", "b", "c", "d"};
    const auto arrive = [&] {
      Guest& guest = guests.emplace_back(Guest{random() % 15 + 1, {}});
      Ask ask;
      for (std::size_t i = 0; i < 4; ++i) {
        if ((guest.set >> i & 1) != 0) ask.with(names[i], "yes");
      }
      const auto admit = [&guest, &admissions](const Decision& decision) {
        ASSERT_TRUE(decision.allowed());
        guest.hold = decision.hold;
        guest.admitted = admissions++;
      };
      const auto start = engine->wait(ask, {.deadline = kFarOff}, kStart,
                                      [admit](const Result<Decision>& d) { admit(*d); });
      if (start->ticket == 0) admit(start->decision);
    };
    const auto leave = [&] {
      std::vector<Guest*> inside;
      for (Guest& guest : guests) {
        if (guest.hold) inside.push_back(&guest);
      }
      if (inside.empty()) return false;
      Guest& leaving = *inside[random() % inside.size()];
      const HoldId hold = std::exchange(leaving.hold, HoldId{});
      release(hold);
      return true;
    };
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0) {
        arrive();
      } else {
        leave();
      }
    }
    while (leave()) {
    }
    EXPECT_EQ(engine->waiters(), 0u) << "seed " << seed;
    std::map<std::uint64_t, int> last_of_set;
    for (const Guest& guest : guests) {
      ASSERT_GE(guest.admitted, 0) << "seed " << seed;
      const auto [last, first] = last_of_set.emplace(guest.set, guest.admitted);
      if (!first) {
        EXPECT_GT(guest.admitted, last->second) << "seed " << seed << ", set " << guest.set;
        last->second = guest.admitted;
      }
    }
    for (const std::string_view name : names) {
      EXPECT_EQ(remaining(*engine, name, {}, kStart), 2) << "seed " << seed;
    }
  }
}

// --- what wakes a waiter

TEST_F(Waiting, WakesWhenAHoldIsSettled) {
  use(slots(1));
  const HoldId hold = take(Ask());
  wait(Ask(), "w");
  release(hold, kStart + 5s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
  EXPECT_EQ(inbox.last().earliest, kStart + 5s);
}

TEST_F(Waiting, WakesWhenAHoldIsCancelled) {
  use({.limits = {{.name = "window", .meter = WindowSpec{1, 1h}}}});
  const auto held = engine->acquire(Ask(), {.hold = 1min}, kStart);
  wait(Ask(), "w");
  ASSERT_EQ(engine->cancel(held->hold, kStart), HoldState::kCancelled);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenLessWasUsedThanCharged) {
  use(bucket(10, 1h));
  const auto held = engine->acquire(Ask().costing(10), {.hold = 1h}, kStart);
  wait(Ask().costing(4), "w");
  const Cost actual[] = {{kRequests, 6}};
  ASSERT_TRUE(engine->settle(held->hold, actual, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WaitsLessWhenSomethingCameBackThoughNotEnough) {
  use(bucket(10, 1h));
  const auto held = engine->acquire(Ask().costing(10), {.hold = 1h}, kStart);
  wait(Ask().costing(4), "w");
  const Cost actual[] = {{kRequests, 7}};
  ASSERT_TRUE(engine->settle(held->hold, actual, kStart));
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_EQ(engine->next_instant(), kStart + 6min);  // one more than the three that are there
}

TEST_F(Waiting, WakesWhenAHoldExpires) {
  use(slots(1));
  take(Ask());
  wait(Ask(), "w");
  EXPECT_EQ(engine->next_instant(), kStart + 1h);
  engine->advance(kStart + 1h - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  engine->advance(kStart + 1h);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenAHoldExpiresThoughOnlyAnotherRequestSaysSo) {
  use(slots(1));
  take(Ask());
  wait(Ask(), "w");
  EXPECT_FALSE(engine->decide(Ask(), kStart + 1h)->allowed());
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenABucketHasRefilledAndNotBefore) {
  use(bucket(1, 10s));
  take(Ask());
  wait(Ask(), "w");
  EXPECT_EQ(engine->next_instant(), kStart + 10s);
  engine->advance(kStart + 10s - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  engine->advance(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesAtATick) {
  use({.limits = {{.name = "ticker", .meter = TickerSpec{1, 10s}}}});
  take(Ask(), kStart + 3s);
  wait(Ask(), "w", kStart + 3s);
  run_until(kStart + 10s - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  run_until(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesAtAWindowBoundary) {
  use({.limits = {{.name = "window", .meter = WindowSpec{1, 1min}}}});
  take(Ask(), kStart + 59s);
  wait(Ask(), "w", kStart + 59s);
  EXPECT_EQ(engine->next_instant(), kStart + 60s);
  engine->advance(kStart + 60s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenALogForgets) {
  use({.limits = {{.name = "log", .meter = LogSpec{2, 10s}}}});
  take(Ask(), kStart);
  take(Ask(), kStart + 4s);
  wait(Ask(), "w", kStart + 5s);
  EXPECT_EQ(engine->next_instant(), kStart + 10s);
  engine->advance(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesInOrderAsABucketRefills) {
  use(bucket(1, 10s));
  take(Ask());
  for (const std::string name : {"a", "b", "c"}) wait(Ask(), name);
  run_until(kStart + 20s);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed"}));
  run_until(kStart + 30s);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "c allowed"}));
}

TEST_F(Waiting, WakesWhenASwapRaisesTheLimit) {
  use(slots(1));
  take(Ask());
  wait(Ask(), "w");
  ASSERT_TRUE(engine->swap(rules_of(slots(2)), kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenASwapRemovesTheLimit) {
  use(slots(1));
  take(Ask());
  wait(Ask(), "w");
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, IsToldNeverWhenASwapLowersTheLimitBelowItsCost) {
  use(slots(3));
  take(Ask());
  wait(Ask().costing(3), "w");
  ASSERT_TRUE(engine->swap(rules_of(slots(2)), kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w never"});
  EXPECT_EQ(engine->waiters(), 0u);
}

TEST_F(Waiting, IsToldOfAnErrorWhenASwapDropsAnAttributeItCarries) {
  use({.limits = {
           {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1, .queue = 9}}}});
  take(client("a"));
  wait(client("a"), "w");
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  ASSERT_EQ(inbox.texts().size(), 1u);
  EXPECT_NE(inbox.texts()[0].find("attribute 'client'"), std::string::npos);
  EXPECT_EQ(engine->waiters(), 0u);
}

TEST_F(Waiting, WakesWhenAnOverrideRaisesTheLimit) {
  use(slots(1));
  take(Ask());
  wait(Ask(), "w");
  ASSERT_TRUE(engine->set_override("slots", {}, SlotsSpec{.limit = 2, .queue = 9}, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenALowOverrideIsCleared) {
  use(slots(2));
  ASSERT_TRUE(engine->set_override("slots", {}, SlotsSpec{.limit = 1, .queue = 9}, kStart));
  take(Ask());
  wait(Ask(), "w");
  ASSERT_TRUE(engine->clear_override("slots", {}, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenItsKeyIsReset) {
  use({.limits = {{.name = "window", .meter = WindowSpec{1, 1h}}}});
  take(Ask());
  wait(Ask(), "w");
  ASSERT_TRUE(engine->reset("window", {}, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenSomebodyAheadGivesUp) {
  use(slots(2));
  take(Ask());
  const WaitStart ahead = wait(Ask().costing(2), "ahead");
  wait(Ask(), "w");
  EXPECT_TRUE(engine->cancel_wait(ahead.ticket, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, WakesWhenSomebodyAheadRunsOutOfTime) {
  use(slots(2));
  take(Ask());
  wait(Ask().costing(2), "ahead", kStart, kStart + 5s);
  wait(Ask(), "w");
  run_until(kStart + 5s);
  EXPECT_EQ(inbox.texts(), (Texts{"ahead denied", "w allowed"}));
}

TEST_F(Waiting, WakesWhenTheClockIsSetFarAhead) {
  use(bucket(1, 10s));
  take(Ask());
  wait(Ask(), "w");
  engine->advance(kStart + 1h);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

// --- the hook

TEST_F(Waiting, TellsTheHookWhenItWantsToBeCalledEarlier) {
  std::vector<Instant> told;
  use(bucket(1, 10s));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  take(Ask());
  wait(Ask(), "w");
  EXPECT_EQ(told, std::vector<Instant>{kStart + 10s});
}

TEST_F(Waiting, TellsTheHookOfAHoldThatExpires) {
  std::vector<Instant> told;
  use(slots(1));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  take(Ask());
  EXPECT_EQ(told, std::vector<Instant>{kStart + 1h});
}

TEST_F(Waiting, ForgetsTheHookWhenThereIsNone) {
  std::vector<Instant> told;
  use(bucket(1, 10s));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  engine->set_wakeup(nullptr);
  take(Ask());
  wait(Ask(), "w");
  EXPECT_TRUE(told.empty());
}

// A waiter that a release brings from slots, which promise nothing, to a bucket,
// which promises an instant: nobody else will call at that instant.
TEST_F(Waiting, TellsTheHookWhenAReleaseBringsAWaiterNearer) {
  std::vector<Instant> told;
  use({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}},
                  {.name = "bucket", .meter = BucketSpec{1, 10s}}}});
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  const HoldId hold = take(Ask());
  wait(Ask(), "w");
  release(hold);
  ASSERT_EQ(engine->next_instant(), kStart + 10s);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), kStart + 10s);
}

TEST_F(Waiting, TellsTheHookWhenSomebodyMovesUp) {
  std::vector<Instant> told;
  use(bucket(2, 20s));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  take(Ask().costing(2));
  const WaitStart ahead = wait(Ask().costing(2), "ahead");
  wait(Ask(), "w");
  EXPECT_TRUE(engine->cancel_wait(ahead.ticket, kStart));
  ASSERT_EQ(engine->next_instant(), kStart + 10s);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), kStart + 10s);
}

// --- deadlines

TEST_F(Waiting, FailsAtOnceWhenTheDeadlineCannotBeMet) {
  use(bucket(1, 10s));
  take(Ask());
  const WaitStart start = wait(Ask(), "w", kStart, kStart + 10s - 1ns);
  EXPECT_EQ(start.ticket, 0u);
  EXPECT_EQ(start.decision.verdict, Verdict::kDenied);
  EXPECT_EQ(start.decision.earliest, kStart + 10s);
  EXPECT_EQ(engine->waiters(), 0u);
}

TEST_F(Waiting, WaitsWhenTheDeadlineCanJustBeMet) {
  use(bucket(1, 10s));
  take(Ask());
  EXPECT_NE(wait(Ask(), "w", kStart, kStart + 10s).ticket, 0u);
  run_until(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

struct Ahead {
  std::string name;
  MeterSpec meter;
  Duration would_take;  // for the third of three, each asking for all there is
};

std::ostream& operator<<(std::ostream& out, const Ahead& ahead) { return out << ahead.name; }

class WaitingBehind : public Waiting, public ::testing::WithParamInterface<Ahead> {};

TEST_P(WaitingBehind, FailsAtOnceWithTheInstantItWouldHaveTakenAfterThoseAhead) {
  use({.limits = {{.name = "one", .meter = GetParam().meter}}});
  take(Ask().costing(2));
  wait(Ask().costing(2), "a");
  wait(Ask().costing(2), "b");
  const Instant would_take = kStart + GetParam().would_take;
  const WaitStart late = wait(Ask().costing(2), "late", kStart, would_take - 1ns);
  EXPECT_EQ(late.ticket, 0u);
  EXPECT_EQ(late.decision.verdict, Verdict::kDenied);
  EXPECT_EQ(late.decision.earliest, would_take);
  EXPECT_NE(wait(Ask().costing(2), "in time", kStart, would_take).ticket, 0u);
  run_until(would_take);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "in time allowed"}));
}

INSTANTIATE_TEST_SUITE_P(Meters, WaitingBehind,
                         ::testing::Values(Ahead{"bucket", BucketSpec{2, 10s}, 30s},
                                           Ahead{"ticker", TickerSpec{2, 10s}, 30s},
                                           Ahead{"window", WindowSpec{2, 10s}, 30s},
                                           Ahead{"calendar", CalendarSpec{2}, 64h},
                                           Ahead{"log", LogSpec{2, 10s}, 30s}),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Waiting, CountsNobodyAheadThatHasLeft) {
  use(bucket(1, 10s));
  take(Ask());
  const WaitStart ahead = wait(Ask(), "ahead");
  EXPECT_EQ(wait(Ask(), "w", kStart, kStart + 10s).ticket, 0u);
  EXPECT_TRUE(engine->cancel_wait(ahead.ticket, kStart));
  EXPECT_NE(wait(Ask(), "w", kStart, kStart + 10s).ticket, 0u);
}

TEST_F(Waiting, IsDeniedAtItsDeadline) {
  use(slots(1));
  take(Ask());
  wait(Ask(), "w", kStart, kStart + 5s);
  EXPECT_EQ(engine->next_instant(), kStart + 5s);
  engine->advance(kStart + 5s - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  engine->advance(kStart + 5s);
  EXPECT_EQ(inbox.texts(), Texts{"w denied"});
  EXPECT_EQ(engine->waiters(), 0u);
}

TEST_F(Waiting, IsAdmittedExactlyAtItsDeadlineIfItFitsThen) {
  use(bucket(1, 10s));
  take(Ask());
  wait(Ask(), "w", kStart, kStart + 10s);
  engine->advance(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(Waiting, IsDeniedAndChargedNothingWhenItsTurnComesTooLate) {
  use(bucket(1, 10s));
  take(Ask());
  wait(Ask(), "w", kStart, kStart + 15s);
  engine->advance(kStart + 15s + 1ns);
  EXPECT_EQ(inbox.texts(), Texts{"w denied"});
  EXPECT_EQ(remaining(*engine, "bucket", {}, kStart + 16s), 1);
}

TEST_F(Waiting, FreesItsPlaceAtItsDeadline) {
  use(slots(1, 1));
  take(Ask());
  wait(Ask(), "w", kStart, kStart + 5s);
  engine->advance(kStart + 5s);
  EXPECT_EQ(wait(Ask(), "next", kStart + 5s).decision.verdict, Verdict::kQueued);
}

// --- bounds of the queue

TEST_F(Waiting, IsOverloadedBeyondTheQueueOfSlots) {
  use(slots(1, 2));
  take(Ask());
  EXPECT_EQ(wait(Ask(), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(Ask(), "b").decision.verdict, Verdict::kQueued);
  const WaitStart beyond = wait(Ask(), "c");
  EXPECT_EQ(beyond.decision.verdict, Verdict::kOverloaded);
  EXPECT_EQ(beyond.ticket, 0u);
  EXPECT_EQ(engine->waiters(), 2u);
}

TEST_F(Waiting, IsOverloadedWhereSlotsHaveNoQueue) {
  use(slots(1, 0));
  take(Ask());
  EXPECT_EQ(wait(Ask(), "w").decision.verdict, Verdict::kOverloaded);
}

TEST_F(Waiting, IsOverloadedBeyondQueueMax) {
  use({.limits = {{.name = "bucket", .queue_max = 2, .meter = BucketSpec{1, 10s}}}});
  take(Ask());
  EXPECT_EQ(wait(Ask(), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(Ask(), "b").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(Ask(), "c").decision.verdict, Verdict::kOverloaded);
}

TEST_F(Waiting, CountsTheQueueOfEachKey) {
  use({.limits = {
           {.name = "bucket", .per = {"client"}, .queue_max = 1, .meter = BucketSpec{1, 10s}}}});
  take(client("a"));
  take(client("b"));
  EXPECT_EQ(wait(client("a"), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("b"), "b").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("a"), "a").decision.verdict, Verdict::kOverloaded);
}

TEST_F(Waiting, IsOverloadedBeyondAsManyAsTheEngineKeeps) {
  use({.limits = {{.name = "bucket", .per = {"client"}, .meter = BucketSpec{1, 10s}}}},
      {.waiters_max = 2});
  for (const std::string name : {"a", "b", "c"}) take(client(name));
  EXPECT_EQ(wait(client("a"), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("b"), "b").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("c"), "c").decision.verdict, Verdict::kOverloaded);
  EXPECT_EQ(engine->waiters(), 2u);
}

TEST_F(Waiting, HasRoomAgainOnceSomebodyLeaves) {
  use(slots(1, 1));
  take(Ask());
  const WaitStart first = wait(Ask(), "a");
  ASSERT_EQ(wait(Ask(), "b").decision.verdict, Verdict::kOverloaded);
  ASSERT_TRUE(engine->cancel_wait(first.ticket, kStart));
  EXPECT_EQ(wait(Ask(), "c").decision.verdict, Verdict::kQueued);
}

TEST_F(Waiting, HasTheQueueThatAnOverrideGivesItsKey) {
  use(slots(1, 0));
  ASSERT_TRUE(engine->set_override("slots", {}, SlotsSpec{.limit = 1, .queue = 1}, kStart));
  take(Ask());
  EXPECT_EQ(wait(Ask(), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(Ask(), "b").decision.verdict, Verdict::kOverloaded);
}

TEST_F(Waiting, HasNoLongerQueueAfterAReset) {
  use(slots(1, 1));
  take(Ask());
  wait(Ask(), "a");
  ASSERT_TRUE(engine->reset("slots", {}, kStart));
  wait(Ask(), "b");
  wait(Ask(), "c");
  EXPECT_EQ(engine->inspect("slots", {}, kStart)->waiters, 1u);
}

// --- giving up

TEST_F(Waiting, IsNotAnsweredAfterItGaveUp) {
  use(slots(1));
  const HoldId hold = take(Ask());
  const WaitStart start = wait(Ask(), "w");
  EXPECT_TRUE(engine->cancel_wait(start.ticket, kStart));
  release(hold);
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_EQ(engine->waiters(), 0u);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

TEST_F(Waiting, CannotGiveUpTwiceOrOnceAnswered) {
  use(slots(1));
  const HoldId hold = take(Ask());
  const WaitStart gave_up = wait(Ask(), "a");
  const WaitStart answered = wait(Ask(), "b");
  ASSERT_TRUE(engine->cancel_wait(gave_up.ticket, kStart));
  EXPECT_FALSE(engine->cancel_wait(gave_up.ticket, kStart));
  release(hold);
  EXPECT_FALSE(engine->cancel_wait(answered.ticket, kStart));
  EXPECT_FALSE(engine->cancel_wait(0, kStart));
}

TEST_F(Waiting, LetsNewcomersPassOnceEverybodyGaveUp) {
  use(slots(2));
  take(Ask());
  const WaitStart start = wait(Ask().costing(2), "w");
  ASSERT_FALSE(engine->decide(Ask(), kStart)->allowed());
  ASSERT_TRUE(engine->cancel_wait(start.ticket, kStart));
  EXPECT_TRUE(engine->decide(Ask(), kStart)->allowed());
}

TEST_F(Waiting, IsNotSweptAwayFromUnderAWaiter) {
  use(bucket(1, 10s));
  take(Ask());
  const WaitStart start = wait(Ask(), "w", kStart, kStart + 1h);
  // Nobody calls at kStart + 10s; the bucket is full when the sweep comes by.
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 9s);
  EXPECT_EQ(engine->inspect("bucket", {}, kStart + 9s)->waiters, 1u);
  EXPECT_TRUE(engine->cancel_wait(start.ticket, kStart + 20s));
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 20s);
  EXPECT_EQ(engine->keys(), 0u);
}

// --- callbacks

TEST_F(Waiting, MayCallTheEngineFromItsCallback) {
  use(slots(1));
  const HoldId hold = take(Ask());
  int admissions = 0;
  std::function<void(const Result<Decision>&)> pass_on = [&](const Result<Decision>& answer) {
    admissions += 1;
    ASSERT_EQ(*engine->settle(answer->hold, {}, kStart), HoldState::kSettled);
  };
  for (int i = 0; i < 10; ++i) {
    ASSERT_NE(engine->wait(Ask(), {.deadline = kFarOff}, kStart, pass_on)->ticket, 0u);
  }
  release(hold);
  EXPECT_EQ(admissions, 10);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

TEST_F(Waiting, MayWaitAgainFromItsCallback) {
  use(bucket(1, 10s));
  take(Ask());
  std::vector<Instant> admissions;
  std::function<void(const Result<Decision>&)> again = [&](const Result<Decision>& answer) {
    admissions.push_back(answer->earliest);
    if (admissions.size() < 3) {
      ASSERT_TRUE(engine->wait(Ask(), {.deadline = kFarOff}, answer->earliest, again));
    }
  };
  ASSERT_TRUE(engine->wait(Ask(), {.deadline = kFarOff}, kStart, again));
  run_until(kStart + 1h);
  EXPECT_EQ(admissions, (std::vector{kStart + 10s, kStart + 20s, kStart + 30s}));
}

// A decision may itself find that a hold has expired, and run the callback of
// whoever gets the slot; the rules may be others when it goes on.
TEST_F(Waiting, MaySwapTheRulesFromItsCallbackInTheMiddleOfADecision) {
  use(slots(1));
  take(Ask());
  ASSERT_TRUE(engine->wait(Ask(), {.deadline = kFarOff}, kStart, [&](const Result<Decision>&) {
    ASSERT_TRUE(engine->swap(rules_of(slots(5)), kStart + 1h));
    ASSERT_TRUE(engine->decide(Ask(), kStart + 1h)->allowed());
  }));
  EXPECT_TRUE(engine->decide(Ask(), kStart + 1h)->allowed());
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart + 1h), 2);
}

TEST_F(Waiting, MaySwapTheRulesFromItsCallbackInTheMiddleOfABatch) {
  use(slots(1));
  take(Ask());
  ASSERT_TRUE(engine->wait(Ask(), {.deadline = kFarOff}, kStart, [&](const Result<Decision>&) {
    ASSERT_TRUE(engine->swap(rules_of(slots(5)), kStart + 1h));
  }));
  const std::vector<Request> requests(8);
  std::vector<Result<Decision>> answers(8, Result<Decision>(std::in_place));
  engine->decide(requests, kStart + 1h, answers);
  const auto allowed = std::count_if(answers.begin(), answers.end(),
                                     [](const auto& answer) { return answer->allowed(); });
  EXPECT_EQ(allowed, 4);
}

TEST_F(Waiting, NeedsNoCallback) {
  use(slots(1));
  const HoldId hold = take(Ask());
  ASSERT_TRUE(engine->wait(Ask(), {.deadline = kFarOff}, kStart, nullptr));
  release(hold);
  EXPECT_EQ(engine->waiters(), 0u);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 0);
}

}  // namespace
}  // namespace weir::engine
