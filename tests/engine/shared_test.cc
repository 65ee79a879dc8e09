// Limits that are kept elsewhere, with a store that says yes. Real ones: tests/store/redis.

#include "weir/engine/shared.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/engine/patient_store.h"
#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

using ::testing::HasSubstr;

// Admits everything, or denies everything until an instant.
struct Yes final : SharedStore {
  void decide(const SharedAsk& ask, SharedCallback callback) override {
    SharedAnswer answer{ask.now, {}, true};
    for (const SharedItem& item : ask.items) {
      const bool denies = until > ask.now && item.cost > 0;
      const meter::Check check = denies ? meter::Check{Verdict::kDenied, until, item.cost}
                                        : meter::Check{Verdict::kAllowed, ask.now, 0};
      answer.outcomes.push_back({check, 10, 10 - item.cost});
    }
    callback(answer);
  }
  bool decide_leased(std::span<const LeasedItem> items, Instant now,
                     std::span<SharedOutcome> outcomes) override {
    for (std::size_t i = 0; i < items.size(); ++i) {
      outcomes[i] = {{Verdict::kAllowed, now, 0}, 10, 9};
    }
    return true;
  }
  void end(HoldId, HoldState as, std::span<const Cost>, std::shared_ptr<const RuleSet>, Instant,
           SharedEndCallback callback) override {
    callback(SharedEnd{as, {}});
  }
  void renew(HoldId, Duration, Instant, HoldStateCallback callback) override {
    callback(HoldState::kActive);
  }
  void inspect(const SharedItem&, const std::shared_ptr<const RuleSet>&, Instant,
               LevelCallback callback) override {
    callback(SharedLevel{});
  }
  void reset(const SharedItem&, const std::shared_ptr<const RuleSet>&, Instant,
             StatusCallback callback) override {
    callback(Done{});
  }
  void holds(const SharedItem&, std::size_t, HoldsCallback callback) override {
    callback(kept_holds);
  }
  void later(Duration, std::function<void(Instant)> work) override {
    kept.push_back(std::move(work));
  }

  // Runs what is to be run later, and what that brings about.
  void run_all(Instant now) {
    for (int i = 0; i < 10 && !kept.empty(); ++i) {
      for (const auto& work : std::exchange(kept, {})) work(now);
    }
  }

  Instant until{};
  std::vector<std::function<void(Instant)>> kept;
  std::vector<HoldId> kept_holds;
};

RuleSetSpec shared_window(std::int64_t limit, std::optional<SharedSpec> shared) {
  return {.limits = {{.name = "window",
                      .per = {"client"},
                      .meter = WindowSpec{limit, 1h},
                      .shared = std::move(shared)}}};
}

// What ask() answers, which this store does at once.
Result<Decision> asked(Engine& engine, const Request& request, Instant deadline = kStart) {
  std::optional<Result<Decision>> answer;
  engine::ask(engine, {.request = request, .wait_until = deadline}, kStart,
              [&](const Result<Decision>& said) { answer.emplace(said); });
  EXPECT_TRUE(answer.has_value());
  return *answer;
}

struct SharedTest : ::testing::Test {
  void use(const RuleSetSpec& spec) {
    engine = engine_of(spec);
    set_store(*engine, &store);
  }

  // The ticket of one that waits for client acme's window.
  std::uint64_t wait_as(std::string name) {
    const Result<Begun> begun =
        wait(*engine, client("acme"), {.deadline = kStart + 1h}, kStart, inbox.as(std::move(name)));
    EXPECT_EQ(begun->decision.verdict, Verdict::kQueued);
    return begun->ticket;
  }

  Inbox inbox;
  Yes store;
  std::unique_ptr<Engine> engine;
};

TEST_F(SharedTest, LimitThatIsSharedNoMoreIsDecidedHereAlsoForPreparedRequests) {
  use(shared_window(10, SharedSpec{}));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_THAT(engine->decide(*prepared, kStart).error().message, HasSubstr("Engine::ask()"));
  ASSERT_TRUE(engine->swap(rules_of(shared_window(0, std::nullopt)), kStart));
  EXPECT_EQ(engine->decide(*prepared, kStart)->verdict, Verdict::kNever);
}

TEST_F(SharedTest, LimitThatIsLeasedNoMoreIsDecidedHereAlsoForPreparedRequests) {
  use(shared_window(10, SharedSpec{.lease = LeaseSpec{}}));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_EQ(engine->decide(*prepared, kStart)->verdict, Verdict::kAllowed);
  ASSERT_TRUE(engine->swap(rules_of(shared_window(0, std::nullopt)), kStart));
  EXPECT_EQ(engine->decide(*prepared, kStart)->verdict, Verdict::kNever);
}

TEST_F(SharedTest, LimitBesideSlotsHoldsThemForAsLongAsTheKeyOfItsOwnSays) {
  RuleSetSpec spec = shared_window(10, SharedSpec{});
  spec.limits.push_back(
      {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 3, .hold = 60s}});
  use(spec);
  EXPECT_EQ(asked(*engine, client("acme"))->hold_expires, kStart + 60s);
  const std::string_view key[] = {"acme"};
  ASSERT_TRUE(engine->set_override("slots", key, SlotsSpec{.limit = 3, .hold = 5s}, kStart));
  EXPECT_EQ(asked(*engine, client("acme"))->hold_expires, kStart + 5s);
  EXPECT_EQ(asked(*engine, client("bolt"))->hold_expires, kStart + 60s);
}

TEST_F(SharedTest, CostOfNothingStandsBehindNobodyWhoWaits) {
  use(shared_window(10, SharedSpec{}));
  store.until = kStart + 1min;
  engine::ask(*engine, {.request = client("acme"), .wait_until = kStart + 1h}, kStart,
              [](const Result<Decision>&) {});
  ASSERT_EQ(engine->usage().waiters, 1u);
  EXPECT_TRUE(asked(*engine, client("acme").costing(0))->allowed());
  store.until = kStart;
  EXPECT_FALSE(asked(*engine, client("acme"))->allowed());
}

// --- giving up

TEST_F(SharedTest, WaitThatIsGivenUpIsNotAnswered) {
  use(shared_window(10, SharedSpec{}));
  store.until = kStart + 1min;
  const std::uint64_t ticket = wait_as("first");
  ASSERT_EQ(engine->usage().waiters, 1u);
  EXPECT_TRUE(engine->give_up(ticket, kStart));
  EXPECT_FALSE(engine->give_up(ticket, kStart)) << "it is gone";
  EXPECT_EQ(engine->usage().waiters, 0u);
  store.run_all(kStart + 1min);
  EXPECT_EQ(inbox.texts(), Texts{});
}

TEST_F(SharedTest, WaitThatIsGivenUpLetsTheNextGoOn) {
  use(shared_window(10, SharedSpec{}));
  store.until = kStart + 1min;
  const std::uint64_t ticket = wait_as("first");
  wait_as("second");
  store.until = kStart;
  EXPECT_TRUE(engine->give_up(ticket, kStart));
  store.run_all(kStart);
  EXPECT_EQ(inbox.texts(), Texts{"second allowed"});
  EXPECT_EQ(engine->usage().waiters, 0u);
}

struct PatientTest : SharedTest {
  PatientTest() {
    use(shared_window(10, SharedSpec{}));
    set_store(*engine, &patient);
  }

  PatientStore patient;
};

TEST_F(PatientTest, HoldGrantedAfterItWasGivenUpIsCancelled) {
  const Result<Begun> begun = wait(*engine, client("acme"), {.deadline = kStart + 1h, .hold = 1min},
                                   kStart, inbox.as("first"));
  ASSERT_EQ(patient.asked.size(), 1u);
  EXPECT_TRUE(engine->give_up(begun->ticket, kStart));
  EXPECT_FALSE(engine->give_up(begun->ticket, kStart)) << "once is enough";
  patient.asked[0]();
  EXPECT_EQ(inbox.texts(), Texts{});
  ASSERT_EQ(patient.ended.size(), 1u);
  EXPECT_EQ(patient.ended[0].second, HoldState::kCancelled);
  EXPECT_EQ(engine->usage().waiters, 0u);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST_F(PatientTest, AskThatDoesNotWaitCanBeGivenUpWhileTheStoreIsAsked) {
  const Result<Begun> begun = wait(*engine, client("acme"), {}, kStart, inbox.as("first"));
  EXPECT_TRUE(engine->give_up(begun->ticket, kStart));
  patient.asked[0]();
  EXPECT_EQ(inbox.texts(), Texts{});
  EXPECT_TRUE(patient.ended.empty()) << "without a hold the charge stays";
}

TEST(Shared, CannotBeBookedAheadAndSaySo) {
  Yes yes;
  RuleSetSpec rules = shared_window(10, SharedSpec{});
  rules.limits[0].meter = BucketSpec{1, 1s};
  auto engine = engine_of(rules);
  set_store(*engine, &yes);
  std::optional<Result<Decision>> answer;
  engine::ask(*engine, {.request = client("acme"), .book_within = 1s}, kStart,
              [&](const Result<Decision>& said) { answer.emplace(said); });
  ASSERT_TRUE(answer && !*answer);
  EXPECT_EQ(answer->error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(answer->error().message, HasSubstr("limit 'window': it cannot be booked ahead"));
}

}  // namespace
}  // namespace weir::engine
