#include "weir/system/contract/gate.h"

#include "tests/support/on_stack.h"
#include "tests/system/contract/support.h"
#include "weir/engine/engine.h"

namespace weir::system::contract {
namespace {

using engine::BucketSpec;
using engine::Engine;
using engine::LimitSpec;
using engine::WindowSpec;

struct AccountGateTest : ::testing::Test {
  void use(std::vector<LimitSpec> limits) {
    engine::RuleSetSpec spec{
        .limits = std::move(limits),
        .units = {{std::string(kProcessingUnitsUnit), engine::UnitScale::kMicro}}};
    spec.limits.push_back({.name = "contract", .meter = std::make_shared<AccountGate>(account)});
    auto rules = engine::compile(spec);
    ASSERT_TRUE(rules) << rules.error().message;
    engine = std::move(*Engine::create(*rules));
  }
  Result<Decision> try_to_ask(double processing_units, Instant now, const engine::Wants& options) {
    const engine::Cost costs[] = {
        {kProcessingUnitsUnit, contract::units(processing_units).processing_units_micro}};
    return engine::acquire(*engine, {.costs = costs}, options, now);
  }
  Decision ask(double processing_units, Instant now, const engine::Wants& options = {}) {
    return *try_to_ask(processing_units, now, options);
  }
  // What is left of the account's policies.
  std::int64_t left(std::size_t policy) { return left_of(*account, policy, kStart) / kMicro; }

  std::shared_ptr<Account> account =
      account_of({requests_per(5, 10s), units_per(100, 10s)}, {.jitter = 0s});
  std::unique_ptr<Engine> engine;
};

TEST_F(AccountGateTest, ChargesAllPoliciesWithTheOtherLimits) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  ASSERT_TRUE(ask(30, kStart).allowed());
  EXPECT_EQ(left(0), 4);
  EXPECT_EQ(left(1), 70);
  EXPECT_EQ(engine::inspect(*engine, "window", {}, kStart)->remaining, 8);
}

TEST_F(AccountGateTest, CountsARequestThatNamesNoUnits) {
  use({});
  ASSERT_TRUE(engine->decide(engine::Request{}, kStart)->allowed());
  EXPECT_EQ(left(0), 4);
  EXPECT_EQ(left(1), 100);
}

TEST_F(AccountGateTest, TakesNothingFromOthersWhenAPolicyRefuses) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  ASSERT_TRUE(ask(90, kStart).allowed());
  const Decision denied = ask(20, kStart);
  EXPECT_EQ(denied.verdict, Verdict::kDenied);
  EXPECT_EQ(denied.binding()->limit, "contract");
  EXPECT_EQ(denied.earliest, kStart + 1s);
  EXPECT_EQ(engine::inspect(*engine, "window", {}, kStart)->remaining, 8);
  EXPECT_EQ(left(0), 4);
}

TEST_F(AccountGateTest, IsNotChargedWhenAnotherLimitRefuses) {
  use({{.name = "window", .meter = WindowSpec{1, 1h}}});
  ASSERT_TRUE(ask(1, kStart).allowed());
  EXPECT_FALSE(ask(1, kStart).allowed());
  EXPECT_EQ(left(0), 4);
  EXPECT_EQ(left(1), 99);
}

TEST_F(AccountGateTest, SaysNever) {
  use({});
  EXPECT_EQ(ask(101, kStart).verdict, Verdict::kNever);
  const engine::Cost many[] = {{engine::kRequests, kTermMax}};
  EXPECT_EQ(engine->decide({.costs = many}, kStart)->verdict, Verdict::kNever);
}

TEST_F(AccountGateTest, IsBookedAheadWithABucketAtTheLaterStart) {
  use({{.name = "bucket", .meter = BucketSpec{1, 3s}}});
  ASSERT_TRUE(ask(100, kStart).allowed());
  // The bucket has one after 3 s, the account 20 units after 2 s.
  const Decision booked = ask(20, kStart, {.book_within = 1h});
  ASSERT_TRUE(booked.allowed());
  EXPECT_EQ(booked.earliest, kStart + 3s);
  // The account has 80 units after 10 s, the bucket one after 6 s.
  EXPECT_EQ(ask(90, kStart, {.book_within = 1h}).earliest, kStart + 11s);
  EXPECT_EQ(account->view(kStart).last_start, kStart + 11s);
}

TEST_F(AccountGateTest, IsNotBookedBeyondWhatWasAskedFor) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  EXPECT_FALSE(ask(50, kStart, {.book_within = 4999ms}).allowed());
  EXPECT_EQ(account->view(kStart).last_start, kStart);
  EXPECT_TRUE(ask(50, kStart, {.book_within = 5s}).allowed());
}

TEST_F(AccountGateTest, IsNotBookedTogetherWithALimitThatCannotBe) {
  use({{.name = "window", .meter = WindowSpec{9, 1h}}});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const Result<Decision> refused = try_to_ask(50, kStart, {.book_within = 1h});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("limit 'window': it cannot be booked"));
}

TEST_F(AccountGateTest, CommitsTheActualCostsOfASettledHold) {
  use({});
  const Decision held = ask(80, kStart, {.hold = 1min});
  const engine::Cost actual[] = {{kProcessingUnitsUnit, 25 * kMicro}};
  ASSERT_TRUE(engine::settle(*engine, held.hold, actual, kStart));
  EXPECT_EQ(left(0), 4);
  EXPECT_EQ(left(1), 75);
  EXPECT_EQ(account->view(kStart).outstanding, 0u);
}

TEST_F(AccountGateTest, KeepsTheCostsThatASettlementDoesNotName) {
  use({});
  const Decision held = ask(80, kStart, {.hold = 1min});
  ASSERT_TRUE(engine::settle(*engine, held.hold, {}, kStart));
  EXPECT_EQ(left(0), 4);
  EXPECT_EQ(left(1), 20);
}

TEST_F(AccountGateTest, GivesEverythingOfACancelledHoldBack) {
  use({});
  const Decision held = ask(80, kStart, {.hold = 1min});
  engine::cancel(*engine, held.hold, kStart);
  EXPECT_EQ(left(0), 5);
  EXPECT_EQ(left(1), 100);
}

TEST_F(AccountGateTest, KeepsWhatAnExpiredHoldTook) {
  use({});
  ASSERT_TRUE(ask(80, kStart, {.hold = 1s}).allowed());
  engine->advance(kStart + 1s);
  const AccountView view = account->view(kStart + 1s);
  EXPECT_EQ(view.outstanding, 0u);
  EXPECT_EQ(view.policies[1].left_micro, 30 * kMicro);
}

TEST_F(AccountGateTest, EndsTheReservationThatTheHoldIsOn) {
  use({});
  const Decision first = ask(10, kStart, {.hold = 1min});
  const Decision second = ask(20, kStart, {.hold = 1min});
  engine::cancel(*engine, first.hold, kStart);
  EXPECT_EQ(account->view(kStart).outstanding_costs, contract::units(20));
  engine::cancel(*engine, second.hold, kStart);
  EXPECT_EQ(left(1), 100);
}

TEST_F(AccountGateTest, SeesWhatOthersReservedWithoutTheEngine) {
  use({});
  ASSERT_TRUE(account->reserve({.costs = contract::units(95)}, kStart));
  EXPECT_EQ(ask(10, kStart).earliest, kStart + 500ms);
}

TEST_F(AccountGateTest, KeepsAChargeWithoutAHoldOpenNoLongerThanItsWorkerMayBeLate) {
  ASSERT_TRUE(account->change_options({.jitter = 100ms}));
  use({});
  ASSERT_TRUE(engine->decide(engine::Request{}, kStart)->allowed());
  EXPECT_EQ(account->view(kStart + 99ms).outstanding, 1u) << "a report may not know of it";
  EXPECT_EQ(account->view(kStart + 100ms).outstanding, 0u);
}

TEST_F(AccountGateTest, KeepsTheCostOfAHoldThatEndsAfterTheAccountsOwnTime) {
  use({});
  const Decision held = ask(80, kStart, {.hold = 1h});
  const engine::Cost actual[] = {{kProcessingUnitsUnit, 0}};
  ASSERT_TRUE(account->change({requests_per(5, 10s), units_per(100, 0s)}, kStart));
  EXPECT_EQ(account->view(kStart + 10min - 1ns).outstanding, 1u);
  ASSERT_TRUE(engine::settle(*engine, held.hold, actual, kStart + 10min));
  EXPECT_EQ(left_of(*account, 1, kStart + 10min), 20 * kMicro);
}

TEST_F(AccountGateTest, RefusesNobodyForHavingReadItsClockEarlier) {
  use({});
  ASSERT_TRUE(account->reserve({.costs = contract::units(1)}, kStart + 5us));
  EXPECT_TRUE(ask(1, kStart).allowed());
  EXPECT_EQ(ask(1, kStart).outcome("contract")->remaining, 2);
}

TEST_F(AccountGateTest, AnswersAWaiterWhenThePolicyHasRefilled) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const engine::Cost costs[] = {{kProcessingUnitsUnit, 50 * kMicro}};
  std::optional<Verdict> verdict;
  ASSERT_TRUE(engine::wait(*engine, {.costs = costs}, {.deadline = kForever}, kStart,
                           [&](const Result<Decision>& answer) { verdict = answer->verdict; }));
  EXPECT_EQ(engine->next_instant(), kStart + 5s);
  engine->advance(kStart + 5s);
  EXPECT_EQ(verdict, Verdict::kAllowed);
}

TEST_F(AccountGateTest, ReportsRequestsAsWhatIsLeft) {
  use({});
  const Decision decision = ask(1, kStart);
  EXPECT_EQ(decision.outcome("contract")->remaining, 4);
  EXPECT_EQ(decision.outcome("contract")->capacity, 5);
}

TEST_F(AccountGateTest, IsLimitedToWhatIsThere) {
  use({});
  const engine::Cost costs[] = {{engine::kRequests, 8}};
  EXPECT_EQ(engine::acquire(*engine, {.costs = costs}, {.up_to = "requests"}, kStart)->granted, 5);
  EXPECT_EQ(left(0), 0);
}

// --- places in the book

struct ContractPlaces : AccountGateTest {
  // Waits, and notes when it is answered, and how.
  struct Waits {
    std::optional<Verdict> verdict;
    HoldId hold{};
    std::uint64_t ticket = 0;
  };
  std::shared_ptr<Waits> wait(double processing_units, Instant now, Instant deadline = kForever,
                              Duration hold = {}) {
    auto waits = std::make_shared<Waits>();
    const engine::Cost costs[] = {
        {kProcessingUnitsUnit, contract::units(processing_units).processing_units_micro}};
    const auto told = [waits](const Result<Decision>& answer) {
      waits->verdict = answer->verdict;
      waits->hold = answer->hold;
    };
    const engine::Patience patience{.deadline = deadline, .hold = hold};
    const auto begun = engine::wait(*engine, {.costs = costs}, patience, now, told);
    if (begun->decision.verdict == Verdict::kQueued) {
      waits->ticket = begun->ticket;
    } else {
      waits->verdict = begun->decision.verdict;
    }
    return waits;
  }
  Instant reserve(double processing_units, Instant now) {
    return account->reserve({.costs = contract::units(processing_units)}, now)->start;
  }
};

TEST_F(ContractPlaces, ACostOfTheWholeCapacityIsGrantedAtTheHintAndAtOnceWhenFull) {
  account = account_of({requests_per(1, 1s)}, {.jitter = 100ms});
  use({});
  const Decision denied = ask(0, kStart);
  ASSERT_EQ(denied.verdict, Verdict::kDenied);
  ASSERT_EQ(denied.earliest, kStart + 100ms);
  EXPECT_FALSE(ask(0, denied.earliest - 1ns).allowed());
  EXPECT_TRUE(ask(0, denied.earliest).allowed());
  EXPECT_EQ(ask(0, kStart + 1s).earliest, kStart + 1200ms);
  EXPECT_TRUE(ask(0, kStart + 10s).allowed());
}

TEST_F(ContractPlaces, ACostOfTheWholeCapacityIsWaitedForAndBooked) {
  account = account_of({requests_per(10, 1s)}, {.jitter = 100ms});
  use({});
  const engine::Cost ten[] = {{engine::kRequests, 10}};
  const Decision booked = *engine::acquire(*engine, {.costs = ten}, {.book_within = 4s}, kStart);
  ASSERT_TRUE(booked.allowed());
  EXPECT_EQ(booked.earliest, kStart + 100ms);
  std::optional<Verdict> verdict;
  ASSERT_TRUE(engine::wait(*engine, {.costs = ten}, {.deadline = kStart + 4s}, kStart,
                           [&](const Result<Decision>& answer) { verdict = answer->verdict; }));
  engine->advance(kStart + 1200ms - 1ns);
  EXPECT_FALSE(verdict);
  engine->advance(kStart + 1200ms);
  EXPECT_EQ(verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, AWaiterStartsInItsTurnWhileOthersReserve) {
  account = account_of({requests_per(10, 1s)}, {.jitter = 0s});
  use({});
  Instant last = kStart;
  for (int i = 0; i < 25; ++i) last = reserve(0, kStart);
  EXPECT_EQ(last, kStart + 1500ms);
  const auto waits = wait(0, kStart, kStart + 10s);
  EXPECT_EQ(reserve(0, kStart), kStart + 1700ms) << "after the waiter";
  EXPECT_EQ(engine->next_instant(), kStart + 1600ms);
  for (Instant now = kStart; now < kStart + 1600ms; now = now + 50ms) {
    reserve(0, now);
    engine->advance(now);
    ASSERT_FALSE(waits->verdict);
  }
  engine->advance(kStart + 1600ms);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, AStartIsBookedBehindWhoWaits) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const auto waits = wait(20, kStart);
  const Decision booked = ask(20, kStart, {.book_within = 1h});
  ASSERT_TRUE(booked.allowed());
  EXPECT_EQ(booked.earliest, kStart + 4s);
  engine->advance(kStart + 2s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, AWaitThatCannotEndInTimeTakesNone) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  EXPECT_EQ(wait(50, kStart, kStart + 5s - 1ns)->verdict, Verdict::kDenied);
  EXPECT_EQ(reserve(10, kStart), kStart + 1s);
  EXPECT_EQ(account->view(kStart).outstanding, 1u);
}

TEST_F(ContractPlaces, WhoGivesUpLeavesItAndTheNextMovesUp) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const auto first = wait(50, kStart);
  const auto second = wait(30, kStart);
  ASSERT_TRUE(engine->give_up(first->ticket, kStart));
  EXPECT_EQ(engine->next_instant(), kStart + 3s);
  engine->advance(kStart + 3s);
  EXPECT_EQ(second->verdict, Verdict::kAllowed);
  EXPECT_EQ(left_of(*account, 1, kStart + 3s), 0);
}

TEST_F(ContractPlaces, MovesUpWhenSomethingBeforeItIsReleased) {
  use({});
  const Reserved reserved = *account->reserve({.costs = contract::units(80)}, kStart);
  const auto waits = wait(70, kStart);
  EXPECT_EQ(engine->next_instant(), kStart + 5s);
  account->release(reserved.reservation, kStart + 1s);
  engine->try_waiters(kStart + 1s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, IsTheReservationOfTheHoldAfterTheAnswer) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const auto waits = wait(50, kStart, kForever, 1min);
  engine->advance(kStart + 5s);
  ASSERT_EQ(waits->verdict, Verdict::kAllowed);
  EXPECT_EQ(account->view(kStart + 5s).outstanding, 1u);
  engine::cancel(*engine, waits->hold, kStart + 5s);
  EXPECT_EQ(left_of(*account, 1, kStart + 5s), 50 * kMicro);
}

TEST_F(ContractPlaces, IsLeftWhileAnotherLimitKeepsTheRequestWaiting) {
  use({{.name = "window", .meter = WindowSpec{1, 10s}}});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const auto waits = wait(20, kStart);
  // The account would have 20 after 2 s; the window's next one begins after 10 s.
  EXPECT_EQ(reserve(10, kStart), kStart + 1s) << "it waits for the window first";
  EXPECT_EQ(engine->next_instant(), kStart + 10s);
  reserve(100, kStart + 9s);  // at 11 s
  engine->advance(kStart + 10s);
  EXPECT_FALSE(waits->verdict);
  EXPECT_EQ(engine->next_instant(), kStart + 13s);
  EXPECT_FALSE(ask(0, kStart + 10s).allowed()) << "the window's place is the waiter's";
  engine->advance(kStart + 13s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, WaitsForTheServiceThatHasRefused) {
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const auto waits = wait(20, kStart);
  ASSERT_TRUE(account->feedback({.costs = {0, 0}, .retry_after = 7s}, kStart + 1s).ok());
  engine->advance(kStart + 2s);
  EXPECT_FALSE(waits->verdict);
  EXPECT_EQ(engine->next_instant(), kStart + 8s);
  engine->advance(kStart + 8s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, IsKeptWhenItMovesUpToWhereAnotherLimitLetsItStart) {
  account = account_of({units_per(100, 10s)}, {.jitter = 0s});
  use({{.name = "bucket", .meter = BucketSpec{1, 8s}}});
  ASSERT_TRUE(ask(50, kStart).allowed());  // the bucket's next one is at 8 s
  const Reserved ahead = *account->reserve({.costs = contract::units(70)}, kStart);
  const auto waits = wait(80, kStart);
  ASSERT_EQ(engine->next_instant(), kStart + 10s);
  for (int i = 0; i < 30; ++i) reserve(20, kStart);
  account->release(ahead.reservation, kStart);
  engine->try_waiters(kStart);  // the account alone would have it at 3 s
  EXPECT_EQ(engine->next_instant(), kStart + 8s);
  engine->advance(kStart + 8s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, StayInTheirOrderAfterARefusalThatNamesNoTime) {
  account = account_of({units_per(100, 10s)}, {.jitter = 0s});
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  std::vector<std::shared_ptr<Waits>> waiting;
  for (int i = 0; i < 40; ++i) waiting.push_back(wait(10, kStart));
  ASSERT_TRUE(account->feedback({}, kStart).ok());  // 30 s
  for (std::size_t answered = 0; answered < waiting.size();) {
    const Instant now = engine->next_instant();
    ASSERT_NE(now, kForever);
    engine->advance(now);
    const std::size_t before = answered;
    while (answered < waiting.size() && waiting[answered]->verdict) ++answered;
    for (std::size_t i = answered; i < waiting.size(); ++i) ASSERT_FALSE(waiting[i]->verdict) << i;
    if (answered == before) continue;
    // Ten find the bucket full, then there is one each second.
    const int seconds = std::max(30, 30 + static_cast<int>(answered) - 10);
    ASSERT_EQ(now, kStart + 1s * seconds) << answered;
  }
}

TEST_F(ContractPlaces, MoveBackWhenTheServiceSaysThatThereIsLess) {
  account = account_of({units_per(100, 10s)}, {.jitter = 0s});
  use({});
  ASSERT_TRUE(ask(50, kStart).allowed());
  const auto waits = wait(70, kStart);
  ASSERT_EQ(engine->next_instant(), kStart + 2s);
  ASSERT_TRUE(account->feedback({.costs = contract::units(100), .retry_after = 10s}, kStart).ok());
  EXPECT_EQ(reserve(10, kStart), kStart + 8s) << "behind the waiter";
  engine->advance(kStart + 2s);
  EXPECT_FALSE(waits->verdict);
  EXPECT_EQ(engine->next_instant(), kStart + 7s);
  engine->advance(kStart + 7s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, MoveBackWithACountThatIsLower) {
  account = account_of({units_per(100, 10s)}, {.jitter = 0s});
  use({});
  ASSERT_TRUE(ask(50, kStart).allowed());
  const auto waits = wait(70, kStart);
  const std::optional<std::int64_t> none[] = {0};
  ASSERT_TRUE(account->refresh(none, kStart + 1s).ok());
  engine->advance(kStart + 2s);
  EXPECT_FALSE(waits->verdict);
  EXPECT_EQ(engine->next_instant(), kStart + 8s);
  engine->advance(kStart + 8s);
  EXPECT_EQ(waits->verdict, Verdict::kAllowed);
}

TEST_F(ContractPlaces, AreGoneInTheNextProcess) {
  use({});
  ASSERT_TRUE(ask(100, kStart, {.hold = 1min}).allowed());
  const auto waits = wait(50, kStart);
  ASSERT_EQ(account->view(kStart).outstanding, 2u);
  const auto next = account_of({requests_per(5, 10s), units_per(100, 10s)}, {.jitter = 0s});
  ASSERT_TRUE(next->restore(account->save(kStart), kStart).ok());
  EXPECT_EQ(next->view(kStart).outstanding, 1u);
  EXPECT_EQ(next->reserve({.costs = contract::units(10)}, kStart)->start, kStart + 1s);
}

TEST_F(ContractPlaces, AreNoReservationsThatAreListed) {
  use({});
  ASSERT_TRUE(ask(100, kStart, {.hold = 1min}).allowed());
  const auto waits = wait(50, kStart);
  EXPECT_EQ(account->list("", 0, kListedMax).rows.size(), 1u);
}

TEST_F(ContractPlaces, DoNotExpireBeforeTheirStartIsAnswered) {
  account = account_of({units_per(100, 10s)}, {.jitter = 0s, .hold = 0s});
  use({});
  ASSERT_TRUE(ask(100, kStart).allowed());
  const auto first = wait(20, kStart);
  const auto second = wait(20, kStart);
  account->view(kStart + 5s);  // lets expire what has started
  engine->advance(kStart + 5s);
  EXPECT_EQ(first->verdict, Verdict::kAllowed);
  EXPECT_EQ(second->verdict, Verdict::kAllowed);
  EXPECT_EQ(left_of(*account, 0, kStart + 5s), 10 * kMicro);
}

// Twenty workers of whom one request in twenty asks for all there is.
TEST_F(ContractPlaces, TwentyWorkersFinishInNearlyTheIdealTimeWithLargeOnesAmongThem) {
  account = account_of({requests_per(10, 1s)}, {.jitter = 100ms});
  use({});
  constexpr int kEach = 20;
  int left = 20 * kEach;
  int asked = 0;
  Instant now = kStart;
  std::function<void(int)> work = [&](int times) {
    if (times == 0) return;
    const engine::Cost costs[] = {{engine::kRequests, ++asked % 20 == 0 ? 10 : 1}};
    const auto told = [&, times](const Result<Decision>& answer) {
      ASSERT_TRUE(answer->allowed());
      --left;
      work(times - 1);
    };
    engine::ask(*engine, {.request = {.costs = costs}, .wait_until = kForever}, now, told);
  };
  for (int worker = 0; worker < 20; ++worker) work(kEach);
  while (left > 0 && engine->next_instant() != kForever) {
    now = later_of(now, engine->next_instant());
    engine->advance(now);
  }
  EXPECT_EQ(left, 0);
  const Duration ideal = 100ms * (20 * 19 + 20 * 10 - 10);
  EXPECT_LE(now - kStart, ideal * 11 / 10);
  EXPECT_GE(now - kStart, ideal);
}

}  // namespace
}  // namespace weir::system::contract
