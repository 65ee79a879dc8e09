#include "weir/engine/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/engine/support.h"
#include "tests/engine/turnstile.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

struct GateTest : ::testing::Test {
  void use(std::vector<LimitSpec> limits) {
    spec.limits = std::move(limits);
    spec.limits.push_back({.name = "gate", .queue_max = 2, .meter = gate});
    spec.attributes = {"client"};
    spec.units = {{"tokens"}};
    engine = engine_of(spec);
  }

  RuleSetSpec spec;
  std::shared_ptr<Turnstile> gate = std::make_shared<Turnstile>(3);
  std::unique_ptr<Engine> engine;
  Inbox inbox;
};

TEST_F(GateTest, IsChargedWithTheOtherLimits) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
  EXPECT_EQ(gate->used, 2);
  EXPECT_EQ(gate->last_charge, kStart);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 7);
}

TEST_F(GateTest, TakesNothingFromOthersWhenItRefuses) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
  const auto denied = engine->decide(RequestOf().costing(2), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->binding()->limit, "gate");
  EXPECT_EQ(denied->shortfall, 1);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 7);
  EXPECT_EQ(gate->used, 2);
}

TEST_F(GateTest, IsNotChargedWhenAnotherLimitRefuses) {
  use({{.name = "window", .meter = WindowSpec{1, 1h}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(gate->used, 1);
}

TEST_F(GateTest, IsNotChargedWhenTheTableIsFull) {
  use({});
  spec.limits.insert(spec.limits.begin(),
                     {.name = "keyed", .per = {"client"}, .meter = WindowSpec{9, 1h}});
  engine = engine_of(spec, {.keys_max = 1});
  gate->room = 1'000'000;
  std::int64_t decided = 0;
  for (int i = 0; i < 1000; ++i) {
    decided += engine->decide(client(std::to_string(i)), kStart).ok() ? 1 : 0;
  }
  EXPECT_LT(decided, 1000);
  EXPECT_EQ(gate->used, decided);
}

TEST_F(GateTest, SaysNever) {
  use({});
  EXPECT_EQ(engine->decide(RequestOf().costing(4), kStart)->verdict, Verdict::kNever);
}

TEST_F(GateTest, IsPeekedAtForNothing) {
  use({});
  EXPECT_TRUE(engine->peek(RequestOf(), kStart)->allowed());
  EXPECT_EQ(gate->used, 0);
}

TEST_F(GateTest, ReportsWhatItHasLeftAndCanHold) {
  use({});
  const auto decision = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(decision->outcome("gate")->remaining, 2);
  EXPECT_EQ(decision->outcome("gate")->capacity, 3);
}

TEST_F(GateTest, IsMetOnlyByRequestsThatConcernIt) {
  gate->concerns = {"job", "task"};
  use({});
  gate->room = 9;
  const auto none = engine->decide(RequestOf(), kStart);
  EXPECT_TRUE(none->allowed());
  EXPECT_TRUE(none->outcomes().empty());
  for (const char* name : {"job", "task"}) {
    EXPECT_NE(engine->decide(RequestOf({{name, ""}}), kStart)->outcome("gate"), nullptr) << name;
  }
  EXPECT_NE(engine->decide(RequestOf({{"job", "a"}, {"task", "b"}}), kStart)->outcome("gate"),
            nullptr);
  EXPECT_EQ(gate->used, 3);
}

TEST_F(GateTest, IsLeftOutAsAParentOfRequestsThatDoNotConcernIt) {
  gate->concerns = {"job"};
  const RuleSetSpec chain{
      .limits = {{.name = "child", .per = {"client"}, .parent = "gate", .meter = WindowSpec{9, 1h}},
                 {.name = "gate", .parent = "root", .meter = gate},
                 {.name = "root", .when = {{"no", {"one"}}}, .meter = WindowSpec{9, 1h}}}};
  engine = engine_of(chain);
  const auto without = engine->decide(client("a"), kStart);
  EXPECT_EQ(without->outcome("gate"), nullptr);
  EXPECT_NE(without->outcome("root"), nullptr) << "a child draws on all its ancestors";
  const auto with = engine->decide(RequestOf({{"client", "a"}, {"job", "b"}}), kStart);
  EXPECT_NE(with->outcome("gate"), nullptr);
  EXPECT_EQ(remaining(*engine, "root", {}, kStart), 7);
}

TEST(NamedGate, MayReadOnlyAttributesThatAreKnown) {
  auto gate = std::make_shared<Turnstile>(3);
  gate->concerns = {"job"};
  RuleSetSpec spec{.limits = {{.name = "named", .meter = GateRef{"g"}}}};
  const auto refused = compile(spec, {{"g", gate}});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("'job'"), std::string::npos);
  spec.attributes = {"job"};
  const auto rules = compile(spec, {{"g", gate}});
  ASSERT_TRUE(rules.ok());
  auto engine = *Engine::create(*rules);
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->outcomes().empty());
  EXPECT_EQ(engine->decide(RequestOf({{"job", "a"}}), kStart)->outcomes().size(), 1u);
}

TEST_F(GateTest, SeesTheRequest) {
  use({});
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(gate->attributes_seen, 1u);
}

// A queue for each client; nobody else is a concern.
std::optional<std::uint64_t> by_client(const Request& request) {
  if (request.attributes.empty()) return std::nullopt;
  return std::hash<std::string_view>{}(request.attributes[0].value);
}

TEST_F(GateTest, HasQueuesThatDoNotHoldUpOneAnother) {
  use({});
  gate->queue = by_client;
  ASSERT_TRUE(engine->decide(client("acme").costing(2), kStart)->allowed());
  const Patience minute{.deadline = kStart + 1min};
  ASSERT_NE(engine::wait(*engine, client("acme").costing(2), minute, kStart, inbox.as("a"))->ticket,
            0u);
  EXPECT_FALSE(engine->decide(client("acme"), kStart)->allowed());  // behind the waiter
  EXPECT_TRUE(engine->decide(client("other"), kStart)->allowed());
  gate->used = 2;
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_TRUE(inbox.texts().empty());
}

TEST_F(GateTest, TriesTheOldestOfEveryQueueWhenAHoldEnds) {
  use({});
  gate->queue = by_client;
  const auto held = engine::acquire(*engine, client("acme").costing(3), {.hold = 1min}, kStart);
  ASSERT_TRUE(held->allowed());
  const Patience minute{.deadline = kStart + 1min};
  for (const char* name : {"a", "b", "b2"}) {
    const std::string who(name, 1);
    ASSERT_NE(engine::wait(*engine, client(who), minute, kStart, inbox.as(name))->ticket, 0u);
  }
  engine::cancel(*engine, held->hold, kStart + 1s);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "b2 allowed"}));
  EXPECT_TRUE(engine->decide(client("a"), kStart + 2s).ok());
  EXPECT_EQ(gate->used, 3);
}

TEST_F(GateTest, IsToldOfARefusalOnceItIsTheLastWord) {
  use({});
  ASSERT_TRUE(engine->decide(RequestOf().costing(3), kStart)->allowed());
  ASSERT_NE(
      engine::wait(*engine, RequestOf(), {.deadline = kStart + 1s}, kStart, inbox.as("w"))->ticket,
      0u);
  engine->try_waiters(kStart + 500ms);
  EXPECT_EQ(gate->refusals, 0);
  engine->advance(kStart + 1s);
  EXPECT_EQ(inbox.texts(), Texts{"w denied"});
  EXPECT_EQ(gate->refusals, 1);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 1s)->allowed());
  EXPECT_EQ(gate->refusals, 2);
}

TEST_F(GateTest, LimitsWhatAnUpToRequestIsGranted) {
  gate->room = 5;
  use({{.name = "window", .unit = "tokens", .meter = WindowSpec{9, 1h}}});
  spec.limits.back().unit = "tokens";
  engine = engine_of(spec);
  EXPECT_EQ(engine::acquire(*engine, RequestOf().costing("tokens", 8), {.up_to = "tokens"}, kStart)
                ->granted,
            5);
  EXPECT_EQ(gate->used, 5);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 4);
}

TEST_F(GateTest, CannotBeBookedAheadUnlessItSaysSo) {
  use({{.name = "bucket", .meter = BucketSpec{1, 10s}}});
  const auto refused = engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
  EXPECT_NE(refused.error().message.find("it cannot be booked ahead"), std::string::npos);
  EXPECT_EQ(gate->used, 0);
}

TEST_F(GateTest, IsLeftOutOfABookingThatIsNoConcernOfIt) {
  use({{.name = "bucket", .meter = BucketSpec{1, 10s}}});
  gate->queue = [](const Request&) { return std::optional<std::uint64_t>(); };
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const Instant charged_at = gate->last_charge;
  const auto booked =
      engine::acquire(*engine, RequestOf(), {.hold = 1min, .book_within = 1h}, kStart);
  ASSERT_TRUE(booked) << booked.error().message;
  EXPECT_EQ(booked->earliest, kStart + 10s);
  EXPECT_EQ(gate->last_charge, charged_at) << "it is told of no instant to come";
  EXPECT_EQ(engine::cancel(*engine, booked->hold, kStart), HoldState::kCancelled);
  EXPECT_TRUE(gate->backs.empty());
}

// A turnstile that takes charges at instants to come and marks each one.
struct BookableTurnstile final : Gate {
  meter::Check check(const Request&, Instant now, std::int64_t) override {
    if (now < open_at) return {Verdict::kDenied, open_at, 1};
    return {Verdict::kAllowed, now, 0};
  }
  Instant fits_from(const Request&, Instant from, std::int64_t) const override {
    return later_of(from, open_at);
  }
  void charge(const Request&, Instant now, std::int64_t) override {
    EXPECT_TRUE(is_locked);
    charged_at = now;
    ++charges;
  }
  bool can_book() const override { return true; }
  std::uint64_t charge_held(const Request& request, Instant now, std::int64_t cost) override {
    charge(request, now, cost);
    return charges;
  }
  void end(Instant, const HoldEnd& hold) override {
    EXPECT_TRUE(is_locked);
    ends.push_back(hold);
    actual = hold.actual.empty() ? 0 : hold.actual[0].amount;
  }
  void lock() noexcept override { is_locked = true; }
  void unlock() noexcept override { is_locked = false; }
  std::int64_t available(const Request&, Instant) override { return 9; }
  std::int64_t capacity(const Request&) const override { return 9; }

  Instant open_at = kStart;
  Instant charged_at{};
  std::uint64_t charges = 0;
  std::int64_t actual = 0;
  std::vector<HoldEnd> ends;
  bool is_locked = false;
};

struct BookableGateTest : ::testing::Test {
  RuleSetSpec spec{.limits = {{.name = "bucket", .meter = BucketSpec{1, 10s}}}};
  std::shared_ptr<BookableTurnstile> gate = std::make_shared<BookableTurnstile>();
  std::unique_ptr<Engine> engine;
  void SetUp() override {
    spec.limits.push_back({.name = "gate", .meter = gate});
    engine = engine_of(spec);
  }
};

TEST_F(BookableGateTest, IsBookedWithABucketAtTheLaterStart) {
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->earliest,
            kStart + 10s);
  EXPECT_EQ(gate->charged_at, kStart + 10s);
  gate->open_at = kStart + 25s;
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->earliest,
            kStart + 25s);
  EXPECT_EQ(gate->charged_at, kStart + 25s);
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->earliest,
            kStart + 35s);
}

TEST_F(BookableGateTest, IsNotBookedLaterThanAskedFor) {
  gate->open_at = kStart + 25s;
  EXPECT_FALSE(engine::acquire(*engine, RequestOf(), {.book_within = 24s}, kStart)->allowed());
  EXPECT_EQ(gate->charges, 0u);
}

TEST_F(BookableGateTest, IsToldWhichChargeAHoldEndsAndHow) {
  spec.limits.erase(spec.limits.begin());
  engine = engine_of(spec);
  const auto first = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  const auto second = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_TRUE(engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart)->allowed());
  engine::cancel(*engine, second->hold, kStart);
  const Cost actual[] = {{kRequests, 5}};
  ASSERT_TRUE(engine::settle(*engine, first->hold, actual, kStart));
  EXPECT_EQ(gate->actual, 5);
  engine->advance(kStart + 1min);
  ASSERT_EQ(gate->ends.size(), 3u);
  EXPECT_EQ(gate->ends[0].receipt, 2u);
  EXPECT_EQ(gate->ends[0].how, Ending::kCancelled);
  EXPECT_EQ(gate->ends[1].receipt, 1u);
  EXPECT_EQ(gate->ends[1].how, Ending::kSettled);
  EXPECT_EQ(gate->ends[1].back, -4);
  EXPECT_EQ(gate->ends[2].receipt, 3u);
  EXPECT_EQ(gate->ends[2].how, Ending::kExpired);
  EXPECT_FALSE(gate->is_locked);
}

TEST_F(GateTest, IsNeverEnforcedInShadow) {
  use({});
  spec.limits.back().shadow = true;
  engine = engine_of(spec);
  EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 5), 5);
  EXPECT_EQ(gate->used, 3);
}

// --- holds

TEST_F(GateTest, GetsEverythingBackFromACancelledHold) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf().costing(2), {.hold = 1min}, kStart);
  engine::cancel(*engine, held->hold, kStart + 1s);
  EXPECT_EQ(gate->used, 0);
  ASSERT_EQ(gate->backs.size(), 1u);
  EXPECT_EQ(gate->backs[0].now, kStart + 1s);
  EXPECT_EQ(gate->backs[0].charged_at, kStart);
}

TEST_F(GateTest, GetsTheDifferenceBackFromASettledHold) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf().costing(3), {.hold = 1min}, kStart);
  const Cost actual[] = {{kRequests, 1}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart));
  EXPECT_EQ(gate->used, 1);
}

TEST_F(GateTest, TakesAnOverageFromASettledHold) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf().costing(1), {.hold = 1min}, kStart);
  const Cost actual[] = {{kRequests, 5}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart));
  EXPECT_EQ(gate->used, 5);
}

TEST_F(GateTest, IsToldThatTheWorkHasEndedWhenAHoldExpires) {
  use({});
  ASSERT_TRUE(engine::acquire(*engine, RequestOf().costing(2), {.hold = 1min}, kStart)->allowed());
  engine->advance(kStart + 1min);
  ASSERT_EQ(gate->backs.size(), 1u);
  EXPECT_EQ(gate->backs[0].amount, 0);
}

TEST_F(GateTest, IsToldOfTheEndOfAHoldOnce) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  engine::cancel(*engine, held->hold, kStart);
  engine::cancel(*engine, held->hold, kStart);
  engine->advance(kStart + 1h);
  EXPECT_EQ(gate->backs.size(), 1u);
}

TEST_F(GateTest, KeepsItsSeatAcrossASwap) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf().costing(3), {.hold = 1min}, kStart);
  ASSERT_TRUE(
      engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart, inbox.as("w"))->ticket !=
      0);
  ASSERT_TRUE(engine->swap(rules_of(spec), kStart));
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

// What holds it lets it keep its seat, and so its lock and its queue.
TEST_F(GateTest, KeepsItsSeatThoughItLeavesTheRulesForAWhile) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf().costing(3), {.hold = 1min}, kStart);
  ASSERT_TRUE(engine->swap(rules_of({.attributes = {"client"}}), kStart));
  ASSERT_TRUE(engine->swap(rules_of(spec), kStart));
  ASSERT_TRUE(
      engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart, inbox.as("w"))->ticket !=
      0);
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

// --- waiting

TEST_F(GateTest, WakesAWaiterWhenSomethingComesBack) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  const auto held = engine::acquire(*engine, RequestOf().costing(3), {.hold = 1min}, kStart);
  ASSERT_NE(
      engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart, inbox.as("w"))->ticket,
      0u);
  EXPECT_TRUE(inbox.texts().empty());
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
  EXPECT_EQ(gate->used, 1);
}

TEST_F(GateTest, WakesAWaiterWhenItOpens) {
  gate->open_from = [](Instant now) { return later_of(now, kStart + 5s); };
  use({});
  ASSERT_NE(
      engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart, inbox.as("w"))->ticket,
      0u);
  EXPECT_EQ(engine->next_instant(), kStart + 5s);
  engine->advance(kStart + 5s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(GateTest, LetsNobodyOvertakeAWaiter) {
  use({});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_NE(
      engine::wait(*engine, RequestOf().costing(3), {.deadline = kForever}, kStart, inbox.as("w"))
          ->ticket,
      0u);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(GateTest, HasAQueueOfItsOwnLength) {
  use({});
  ASSERT_TRUE(engine->decide(RequestOf().costing(3), kStart)->allowed());
  for (const Verdict expected : {Verdict::kQueued, Verdict::kQueued, Verdict::kOverloaded}) {
    EXPECT_EQ(engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart, nullptr)
                  ->decision.verdict,
              expected);
  }
}

TEST_F(GateTest, LetsNewcomersPassOnceAWaiterGaveUp) {
  use({});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto start =
      engine::wait(*engine, RequestOf().costing(3), {.deadline = kForever}, kStart, nullptr);
  ASSERT_TRUE(engine->give_up(start->ticket, kStart));
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

TEST_F(GateTest, QueuesTogetherWithKeyedLimits) {
  use({{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}}});
  const auto held = engine::acquire(*engine, RequestOf().costing(1), {}, kStart);
  gate->used = 3;  // somebody else, outside the engine
  ASSERT_NE(
      engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart, inbox.as("w"))->ticket,
      0u);
  engine::cancel(*engine, held->hold, kStart);  // slot and one unit of the gate
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
  EXPECT_EQ(gate->used, 3);
}

// --- a gate that closes again

// Open during the first ten of every thirty seconds.
Instant first_ten_of_thirty(Instant now) {
  const std::int64_t into = (now - kStart).count() % Duration{30s}.count();
  return into < Duration{10s}.count() ? now : now + (30s - Duration{into});
}

TEST_F(GateTest, GivesAnEarliestInstantAtWhichItIsStillOpen) {
  gate->room = 100;
  gate->open_from = first_ten_of_thirty;
  use({{.name = "bucket", .meter = BucketSpec{1, 15s}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->earliest, kStart + 30s);  // the bucket at 15 s, the gate from 30 s on
  EXPECT_EQ(gate->last_check, kStart);        // nobody told it a later time before it was so
  EXPECT_FALSE(engine->peek(RequestOf(), denied->earliest - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), denied->earliest)->allowed());
}

TEST_F(GateTest, GivesTheEarliestInstantAtWhichTwoSuchGatesAreOpen) {
  const auto other = std::make_shared<Turnstile>(100);
  // Open during the last ten of every forty seconds.
  other->open_from = [](Instant now) {
    const std::int64_t into = (now - kStart).count() % Duration{40s}.count();
    return into >= Duration{30s}.count() ? now : now + (30s - Duration{into});
  };
  gate->open_from = first_ten_of_thirty;
  gate->room = 100;
  use({{.name = "other", .meter = other}});
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kStart + 30s);
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 30s)->allowed());
}

TEST_F(GateTest, DoesNotKnowWhenTwoGatesAgreeThatNeverDo) {
  const auto other = std::make_shared<Turnstile>(100);
  other->open_from = [](Instant now) {  // open when the gate is closed
    const Instant opens = now + (10s - Duration{(now - kStart).count() % Duration{30s}.count()});
    return opens > now ? opens : now;
  };
  gate->open_from = first_ten_of_thirty;
  gate->room = 100;
  use({{.name = "other", .meter = other}});
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kForever);
}

// --- rules that change in the middle of a decision

TEST_F(GateTest, IsLockedAsTheRulesInForceSayThoughACallbackHasSwappedThem) {
  gate->room = 100;
  use({{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart,
                           [&](const Result<Decision>&) {
                             spec.limits[0].meter = SlotsSpec{.limit = 5, .queue = 9, .hold = 1h};
                             ASSERT_TRUE(engine->swap(rules_of(spec), kStart + 1h));
                             ASSERT_TRUE(engine->decide(RequestOf(), kStart + 1h)->allowed());
                           }));
  // Finds the first hold expired, and so runs the callback before it decides.
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 1h)->allowed());
  EXPECT_EQ(gate->used, 4);
}

// --- mistakes

TEST_F(GateTest, HasNoKeysToInspectOrOverride) {
  use({});
  EXPECT_EQ(engine::inspect(*engine, "gate", {}, kStart).error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(engine->set_override("gate", {}, WindowSpec{1, 1h}, kStart).error().code,
            ErrorCode::kBadArgument);
  EXPECT_EQ(engine::reset(*engine, "gate", {}, kStart).error().code, ErrorCode::kBadArgument);
}

// Bucket and gate name no instant at which both fit, so who waits is tried when the one that
// binds alone would pass, and then waits for the other.
TEST_F(GateTest, AndAMeterThatAgreeOnNoInstantForgetNobodyWhoWaits) {
  gate->room = 1;
  gate->counts_in_flight = true;
  use({{.name = "bucket", .meter = BucketSpec{1, 10s}}});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1h}, kStart);
  ASSERT_TRUE(held->allowed());
  gate->open_from = [](Instant now) { return later_of(now, kStart + 2s); };
  ASSERT_NE(engine::wait(*engine, RequestOf(), {.deadline = kStart + 240h}, kStart, inbox.as("w"))
                ->ticket,
            0u);

  ASSERT_EQ(*engine::settle(*engine, held->hold, {}, kStart + 5s), HoldState::kSettled);
  while (engine->next_instant() <= kStart + 20s) engine->advance(engine->next_instant());
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(GateTest, IsWaitedForWhenItsPlaceIsFreedAfterTheMeterHasRefilled) {
  gate->room = 1;
  gate->counts_in_flight = true;
  use({{.name = "bucket", .meter = BucketSpec{1, 10s}}});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1h}, kStart);
  gate->open_from = [](Instant now) { return later_of(now, kStart + 2s); };
  ASSERT_NE(engine::wait(*engine, RequestOf(), {.deadline = kStart + 240h}, kStart, inbox.as("w"))
                ->ticket,
            0u);

  while (engine->next_instant() <= kStart + 20s) engine->advance(engine->next_instant());
  EXPECT_EQ(inbox.texts(), Texts{});
  ASSERT_EQ(*engine::settle(*engine, held->hold, {}, kStart + 30s), HoldState::kSettled);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(GateTest, FailsAWaitAtOnceThatItOpensTooLateForWhateverBinds) {
  use({{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  gate->open_from = [](Instant now) { return later_of(now, kStart + 100s); };
  const auto start =
      engine::wait(*engine, RequestOf(), {.deadline = kStart + 5s}, kStart, inbox.as("w"));
  EXPECT_EQ(start->ticket, 0u);
  EXPECT_EQ(start->decision.earliest, kStart + 100s);
  EXPECT_NE(engine::wait(*engine, RequestOf(), {.deadline = kStart + 100s}, kStart, inbox.as("x"))
                ->ticket,
            0u);
}

TEST_F(GateTest, HasItsPlaceBackWhenAHoldExpiresThoughNobodyHasCalledSince) {
  gate->room = 1;
  gate->counts_in_flight = true;
  use({});
  ASSERT_TRUE(engine::acquire(*engine, RequestOf(), {.hold = 1s}, kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 1s - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 1s)->allowed());
}

}  // namespace
}  // namespace weir::engine
