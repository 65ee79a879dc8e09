// Many threads, mixed decisions, and then the accounts: what was admitted equals
// what the meters say, exactly. Run under the thread sanitizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

constexpr int kThreads = 4;

template <typename Work>
void in_threads(int count, Work&& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

std::int64_t used(Engine& engine, std::string_view limit, const Key& key, Instant now) {
  const auto seen = engine::inspect(engine, limit, key, now);
  return seen->capacity - seen->remaining;
}

// --- one key, many threads

struct OneKey {
  std::string name;
  MeterSpec meter;
};

std::ostream& operator<<(std::ostream& out, const OneKey& one) { return out << one.name; }

class HotKey : public ::testing::TestWithParam<OneKey> {};

// More is asked for than there is, so every kind of meter ends up denying, and
// denials are found with and without the lock.
TEST_P(HotKey, AdmitsExactlyWhatThereIs) {
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = GetParam().meter}}});
  std::atomic<std::int64_t> admissions{0};
  in_threads(kThreads, [&](int) {
    RequestOf ask = client("hot");
    for (int i = 0; i < 5000; ++i) admissions += engine->decide(ask, kStart)->allowed() ? 1 : 0;
  });
  EXPECT_EQ(admissions, 9000);
  EXPECT_EQ(remaining(*engine, "one", {"hot"}, kStart), 0);
}

TEST_P(HotKey, CountsCostsOfEverySizeExactly) {
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = GetParam().meter}}});
  std::atomic<std::int64_t> units{0};
  in_threads(kThreads, [&](int thread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(thread));
    for (int i = 0; i < 3000; ++i) {
      const auto cost = static_cast<std::int64_t>(random() % 4);
      RequestOf ask = client("hot");
      ask.costing(cost);
      if (engine->decide(ask, kStart)->allowed()) units += cost;
    }
  });
  EXPECT_EQ(used(*engine, "one", {"hot"}, kStart), units);
}

INSTANTIATE_TEST_SUITE_P(Meters, HotKey,
                         ::testing::Values(OneKey{"bucket", BucketSpec{9000, 1h}},
                                           OneKey{"ticker", TickerSpec{9000, 1h}},
                                           OneKey{"window", WindowSpec{9000, 1h}},
                                           OneKey{"log", LogSpec{9000, 1h}},
                                           OneKey{"slots", SlotsSpec{.limit = 9000, .hold = 1h}}),
                         [](const auto& tested) { return tested.param.name; });

TEST(Concurrency, NeverAdmitsMoreThanBurstAndRateWhileTimePasses) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = BucketSpec{100, 1ms}}}});
  std::atomic<std::int64_t> clock_ns{0};
  std::atomic<std::int64_t> admissions{0};
  in_threads(kThreads, [&](int) {
    for (int i = 0; i < 4000; ++i) {
      const Instant now = kStart + Duration{clock_ns.fetch_add(1'000)};
      admissions += engine->decide(RequestOf(), now)->allowed() ? 1 : 0;
    }
  });
  // 100 at once, and one every 10 microseconds of the 16 milliseconds that passed.
  EXPECT_LE(admissions, 100 + clock_ns / 10'000);
  EXPECT_GE(admissions, clock_ns / 10'000);
}

TEST(Concurrency, GivesEachOfManyNewKeysItsOwnMeterWhileTheTableGrows) {
  constexpr int kKeys = 8000;
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{2, 1h}}}});
  std::atomic<int> admissions{0};
  in_threads(kThreads, [&](int thread) {
    for (int i = 0; i < kKeys; ++i) {
      RequestOf ask = client(std::to_string((i + thread * kKeys / kThreads) % kKeys));
      admissions += engine->decide(ask, kStart)->allowed() ? 1 : 0;
      if (i % 64 == 0) engine->advance(kStart);
    }
  });
  EXPECT_EQ(admissions, 2 * kKeys);
  EXPECT_EQ(engine->usage().keys, static_cast<std::size_t>(kKeys));
}

// --- everything at once

constexpr std::size_t kClients = 6;
constexpr std::array<std::string_view, 6> kSpent = {"bucket", "ticker", "window",
                                                    "log",    "tokens", "top"};
constexpr std::array<std::string_view, 6> kModes = {"bucket", "ticker", "window",
                                                    "log",    "slots",  "all"};
constexpr int kRuleSets = 4;

std::string name_of(std::size_t who) { return "client-" + std::to_string(who); }

// The rule sets that are swapped while threads decide: limits are raised and
// lowered, one comes and goes, another changes its kind.
RuleSetSpec rules_number(int number) {
  const std::int64_t more = number * 10;
  RuleSetSpec spec{.limits = {{.name = "top",
                               .when = {{"mode", {"nothing"}}},
                               .meter = WindowSpec{1800 + more, 24h}},
                              // One unit comes back in more than an hour, so nothing refills here.
                              {.name = "bucket",
                               .when = {{"mode", {"bucket", "all"}}},
                               .per = {"client"},
                               .meter = BucketSpec{400 + more, Duration{kTermMax / 2}}},
                              // Nor does it tick. It keeps its tokens when it changes, not what was
                              // used: so it does not.
                              {.name = "ticker",
                               .when = {{"mode", {"ticker", "all"}}},
                               .per = {"client"},
                               .meter = TickerSpec{1, 24h, 400}},
                              {.name = "window",
                               .when = {{"mode", {"window", "all"}}},
                               .per = {"client"},
                               .parent = "top",
                               .meter = WindowSpec{400 + more, 24h}},
                              {.name = "log",
                               .when = {{"mode", {"log", "all"}}},
                               .per = {"client"},
                               .meter = LogSpec{400 + more, 24h}},
                              {.name = "tokens",
                               .when = {{"mode", {"slots", "all"}}},
                               .per = {"client"},
                               .unit = "tokens",
                               .meter = WindowSpec{4000 + more, 24h}},
                              {.name = "slots",
                               .when = {{"mode", {"slots", "all"}}},
                               .per = {"client"},
                               .meter = SlotsSpec{.limit = 5 + number, .queue = 4, .hold = 5ms}}},
                   .units = {{"tokens"}}};
  if (number % 2 == 1) {
    spec.limits.push_back({.name = "extra", .shadow = true, .meter = WindowSpec{1'000'000, 24h}});
  }
  spec.limits.push_back({.name = "turncoat",
                         .per = {"client"},
                         .meter = number < 2 ? MeterSpec{LogSpec{1'000'000, 24h}}
                                             : MeterSpec{BucketSpec{1'000'000, 24h}}});
  return spec;
}

// What should be on the meters. Every change that the engine confirms is booked.
class Account {
 public:
  void charge(std::size_t who, const Decision& decision, std::int64_t sign = 1) {
    for (const Outcome& row : decision.outcomes()) add(who, row.limit, sign * row.cost);
  }
  void add(std::size_t who, std::string_view limit, std::int64_t units) {
    for (std::size_t i = 0; i < kSpent.size(); ++i) {
      if (kSpent[i] == limit) units_[i][limit == "top" ? 0 : who] += units;
    }
  }
  std::int64_t of(std::size_t limit, std::size_t who) const { return units_[limit][who]; }

 private:
  std::array<std::array<std::atomic<std::int64_t>, kClients>, kSpent.size()> units_{};
};

class Hammer {
 public:
  explicit Hammer(bool with_swaps) : with_swaps_(with_swaps) {
    for (int i = 0; i < kRuleSets; ++i) rule_sets_.push_back(rules_of(rules_number(i)));
    engine_ = engine_of(rules_number(0), {.heavy_sample_every = 8});
  }

  void run(int operations) {
    in_threads(kThreads + (with_swaps_ ? 1 : 0), [&](int thread) {
      if (thread == kThreads) return swap_rules(operations);
      std::mt19937_64 random(static_cast<std::uint64_t>(thread + 1));
      auto prepared = engine_->prepare(request(0, "bucket"));
      for (int i = 0; i < operations; ++i) step(random, *prepared);
      working_ -= 1;
    });
    // Whatever nobody ended expires; whoever still waits is told so.
    const Instant end = now() + 1h;
    for (int i = 0; i < 3; ++i) engine_->advance(end);
    for (const Held& held : held_)
      EXPECT_EQ(engine::cancel(*engine_, held.decision.hold, end), HoldState::kGone);
  }

  void check() {
    const Instant end = now() + 1h;
    ASSERT_TRUE(engine_->swap(rule_sets_[0], end));
    for (std::size_t limit = 0; limit < kSpent.size(); ++limit) {
      for (std::size_t who = 0; who < kClients; ++who) {
        const bool shared = kSpent[limit] == "top";
        if (shared && who > 0) continue;
        const std::string name = name_of(who);
        EXPECT_EQ(used(*engine_, kSpent[limit], shared ? Key{} : Key{name}, end),
                  account_.of(limit, who))
            << kSpent[limit] << " of " << name;
      }
    }
    for (std::size_t who = 0; who < kClients; ++who) {
      EXPECT_EQ(used(*engine_, "slots", {name_of(who)}, end), 0) << name_of(who);
    }
    EXPECT_EQ(engine_->usage().holds, 0u);
    EXPECT_EQ(engine_->usage().waiters, 0u);
    EXPECT_EQ(started_, answered_ + gave_up_);
    EXPECT_GT(admissions_, 0);
    EXPECT_GT(denials_, 0);
    EXPECT_GT(expected_expiries_, 0);
  }

 private:
  struct Held {
    std::size_t who;
    Decision decision;
    std::int64_t tokens;  // charged
  };

  static RequestOf request(std::size_t who, std::string_view mode, std::int64_t tokens = 3) {
    RequestOf ask({{"mode", mode}});
    ask.with("client", name_of(who)).costing("tokens", tokens);
    return ask;
  }

  Instant now() const { return kStart + Duration{clock_ns_.load()}; }
  Instant tick() { return kStart + Duration{clock_ns_.fetch_add(1'000)}; }

  // Books an admission; whoever holds something keeps it for later.
  void book(std::size_t who, const Result<Decision>& answer, std::int64_t tokens) {
    ASSERT_TRUE(answer) << answer.error().message;
    (answer->allowed() ? admissions_ : denials_) += 1;
    if (!answer->allowed()) return;
    account_.charge(who, *answer);
    if (!answer->hold) return;
    const std::scoped_lock lock(held_lock_);
    held_.push_back({who, *answer, tokens});
  }

  void step(std::mt19937_64& random, Prepared& prepared) {
    const std::size_t who = random() % kClients;
    const std::string_view mode = kModes[random() % kModes.size()];
    const auto tokens = static_cast<std::int64_t>(random() % 5);
    RequestOf ask = request(who, mode, tokens);
    switch (random() % 16) {
      case 0:
      case 1:
        return end_one(random);
      case 2:
        return batch(random);
      case 3:
        return wait(random, who);
      case 4:
        return book(0, engine_->decide(prepared, tick()), 3);
      case 5:
        return book(who, engine::acquire(*engine_, ask, {.hold = 20us}, tick()), tokens);
      case 6:
        return look(random, who);
      case 7:
        return engine_->advance(tick());
      default:
        return book(who, engine_->decide(ask, tick()), tokens);
    }
  }

  void end_one(std::mt19937_64& random) {
    Held held;
    {
      const std::scoped_lock lock(held_lock_);
      if (held_.empty()) return;
      std::swap(held_[random() % held_.size()], held_.back());
      held = std::move(held_.back());
      held_.pop_back();
    }
    if (random() % 8 == 0) return;  // forgotten: it expires
    if (random() % 8 == 0) {
      (void)engine::renew(*engine_, held.decision.hold, 30us, tick());
      const std::scoped_lock lock(held_lock_);
      held_.push_back(std::move(held));
      return;
    }
    if (random() % 2 == 0) {
      if (engine::cancel(*engine_, held.decision.hold, tick()) == HoldState::kCancelled) {
        account_.charge(held.who, held.decision, -1);
      } else {
        expected_expiries_ += 1;
      }
      return;
    }
    const auto tokens = static_cast<std::int64_t>(random() % 8);
    const Cost actual[] = {{"tokens", tokens}};
    const auto state = engine::settle(*engine_, held.decision.hold, actual, tick());
    ASSERT_TRUE(state) << state.error().message;
    if (*state != HoldState::kSettled) {
      expected_expiries_ += 1;
    } else if (held.decision.outcome("tokens") != nullptr) {
      account_.add(held.who, "tokens", tokens - held.tokens);
    }
  }

  void batch(std::mt19937_64& random) {
    const std::size_t count = random() % 24 + 1;
    std::vector<RequestOf> asks;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < count; ++i) {
      whose.push_back(random() % kClients);
      asks.push_back(request(whose.back(), kModes[random() % kModes.size()]));
    }
    const std::vector<Request> requests(asks.begin(), asks.end());
    std::vector<Result<Decision>> answers(count, Result<Decision>(std::in_place));
    engine_->decide(requests, tick(), answers);
    for (std::size_t i = 0; i < count; ++i) book(whose[i], answers[i], 3);
  }

  void wait(std::mt19937_64& random, std::size_t who) {
    const Instant at = tick();
    const auto start = engine::wait(*engine_, request(who, "slots"), {.deadline = at + 200us}, at,
                                    [this, who](const Result<Decision>& answer) {
                                      answered_ += 1;
                                      book(who, answer, 3);
                                    });
    ASSERT_TRUE(start) << start.error().message;
    if (start->ticket == 0) return book(who, start->decision, 3);
    started_ += 1;
    if (random() % 3 == 0 && engine_->give_up(start->ticket, tick())) gave_up_ += 1;
  }

  void look(std::mt19937_64& random, std::size_t who) {
    const std::string name = name_of(who);
    const std::string_view limit = kSpent[random() % 5];
    switch (random() % 5) {
      case 0:
        ASSERT_TRUE(engine_->set_override("window", Key{name}, WindowSpec{450, 24h}, tick()));
        break;
      case 1:
        (void)engine_->set_override("window", Key{name}, std::nullopt, tick());
        break;
      case 2:
        (void)engine_->heaviest(limit, 3);
        break;
      case 3:
        EXPECT_TRUE(engine_->peek(request(who, "all"), tick()));
        break;
      default: {
        const auto seen = engine::inspect(*engine_, limit, Key{name}, tick());
        ASSERT_TRUE(seen) << seen.error().message;
        EXPECT_LE(seen->remaining, seen->capacity);
      }
    }
  }

  void swap_rules(int operations) {
    // Swaps spread over the run, by the clock that the operations move.
    for (int i = 1; working_ > 0; ++i) {
      const Status status =
          engine_->swap(rule_sets_[static_cast<std::size_t>(i % kRuleSets)], tick());
      ASSERT_TRUE(status) << status.error().message;
      const std::int64_t until_ns = clock_ns_ + operations * 10;
      while (clock_ns_ < until_ns && working_ > 0) std::this_thread::yield();
    }
  }

  const bool with_swaps_;
  std::vector<std::shared_ptr<const RuleSet>> rule_sets_;
  std::unique_ptr<Engine> engine_;
  std::atomic<std::int64_t> clock_ns_{0};
  std::atomic<int> working_{kThreads};
  Account account_;
  std::mutex held_lock_;
  std::vector<Held> held_;
  std::atomic<std::int64_t> admissions_{0};
  std::atomic<std::int64_t> denials_{0};
  std::atomic<std::int64_t> expected_expiries_{0};
  std::atomic<std::int64_t> started_{0};
  std::atomic<std::int64_t> answered_{0};
  std::atomic<std::int64_t> gave_up_{0};
};

TEST(Concurrency, ConservesEveryUnitUnderMixedDecisions) {
  Hammer hammer(false);
  hammer.run(12'000);
  hammer.check();
}

TEST(Concurrency, ConservesEveryUnitWhileTheRulesAreSwapped) {
  Hammer hammer(true);
  hammer.run(12'000);
  hammer.check();
}

// Rules are freed when the last thread that read them has read newer ones; a batch
// that was planned under several sets of rules must not outlive any of them.
TEST(Concurrency, DecidesBatchesWhileTheRulesAreSwapped) {
  std::vector<std::shared_ptr<const RuleSet>> rule_sets;
  for (int i = 0; i < kRuleSets; ++i) rule_sets.push_back(rules_of(rules_number(i)));
  auto engine = engine_of(rules_number(0));
  std::atomic<int> working{kThreads - 1};
  std::atomic<std::int64_t> admissions{0};
  in_threads(kThreads, [&](int thread) {
    if (thread == 0) {
      for (std::size_t i = 0; working > 0; ++i) {
        ASSERT_TRUE(engine->swap(rule_sets[i % kRuleSets], kStart));
      }
      return;
    }
    RequestOf ask({{"mode", "window"}});
    ask.with("client", name_of(static_cast<std::size_t>(thread)));
    const std::vector<Request> requests(128, ask);
    std::vector<Result<Decision>> answers(requests.size(), Result<Decision>(std::in_place));
    for (int i = 0; i < 50; ++i) {
      engine->decide(requests, kStart, answers);
      for (const Result<Decision>& answer : answers) admissions += answer->allowed() ? 1 : 0;
    }
    working -= 1;
  });
  EXPECT_EQ(used(*engine, "top", {}, kStart), admissions);
}

// --- waiting

TEST(Concurrency, AnswersEveryWaiterOnce) {
  constexpr int kVisits = 500;  // of each thread; all of them may have to queue
  auto engine = engine_of(
      {.limits = {{.name = "slots",
                   .meter = SlotsSpec{.limit = 2, .queue = kThreads * kVisits, .hold = 24h}}}});
  std::atomic<int> inside{0};
  std::atomic<int> answered{0};
  std::atomic<int> most_inside{0};
  const auto visit = [&](const Decision& decision) {
    ASSERT_EQ(decision.verdict, Verdict::kAllowed);
    const int now_inside = ++inside;
    int most = most_inside;
    while (now_inside > most && !most_inside.compare_exchange_weak(most, now_inside)) {
    }
    answered += 1;
    --inside;
    ASSERT_EQ(*engine::settle(*engine, decision.hold, {}, kStart), HoldState::kSettled);
  };
  in_threads(kThreads, [&](int) {
    for (int i = 0; i < kVisits; ++i) {
      const auto start = engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart,
                                      [&](const Result<Decision>& answer) { visit(*answer); });
      ASSERT_TRUE(start);
      if (start->ticket == 0) visit(start->decision);
    }
  });
  EXPECT_EQ(answered, kThreads * kVisits);
  EXPECT_LE(most_inside, 2);
  EXPECT_EQ(engine->usage().waiters, 0u);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 2);
}

TEST(Concurrency, TellsTheHookOfEveryEarlierInstantWhileThreadsDecide) {
  auto engine = engine_of(
      {.limits = {
           {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1, .hold = 1s}}}});
  std::atomic<std::int64_t> earliest_told_ns{kForever.ns};
  // One at a time, but a later instant may be told last.
  engine->set_wakeup(
      [&](Instant at) { earliest_told_ns = std::min(earliest_told_ns.load(), at.ns); });
  in_threads(kThreads, [&](int thread) {
    for (int i = 0; i < 200; ++i) {
      RequestOf ask = client(std::to_string(thread * 1000 + i));
      const Duration hold = 1h - Duration{(i * kThreads + thread) * 1000};
      ASSERT_TRUE(engine::acquire(*engine, ask, {.hold = hold}, kStart)->allowed());
    }
  });
  EXPECT_EQ(earliest_told_ns, engine->next_instant().ns);
}

// --- threads that come and go

TEST(Concurrency, LetsThreadsComeAndGo) {
  auto engine = engine_of(
      {.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{1'000'000, 24h}}}},
      {.heavy_sample_every = 1});
  constexpr int kWaves = 40;
  std::vector<std::thread> threads;
  std::atomic<int> gone{0};
  for (int i = 0; i < kWaves; ++i) {
    threads.emplace_back([&, i] {
      RequestOf ask = client(std::to_string(i % 8));
      for (int n = 0; n < 25; ++n) ASSERT_TRUE(engine->decide(ask, kStart)->allowed());
      gone += 1;
    });
    // The next one starts when this one is about to end, and joins come later.
    while (gone <= i - kThreads) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  std::int64_t total = 0;
  for (const HeavyKey& key : engine->heaviest("one", 8)) total += key.units;
  EXPECT_EQ(total, kWaves * 25);
}

TEST(Concurrency, LetsEnginesComeAndGoUnderOneThread) {
  for (int round = 0; round < 20; ++round) {
    auto engine =
        engine_of({.limits = {{.name = "one", .meter = WindowSpec{100, 1h}}}}, {.keys_max = 1000});
    in_threads(2, [&](int) { EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 10), 10); });
    EXPECT_EQ(remaining(*engine, "one", {}, kStart), 80);
  }
}

}  // namespace
}  // namespace weir::engine
