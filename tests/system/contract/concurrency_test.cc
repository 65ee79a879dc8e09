// One account used by many threads, by the engine and without it.

#include <atomic>
#include <thread>

#include "tests/system/contract/support.h"
#include "weir/engine/engine.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/contract/gate.h"

namespace weir::system::contract {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 300;

TEST(AccountConcurrency, GivesNoMoreThanThereIs) {
  const auto account = account_of({requests_per(500, 0s)});
  engine::RuleSetSpec spec;
  spec.limits = {{.name = "contract", .meter = std::make_shared<AccountGate>(account)}};
  const auto engine = std::move(*engine::Engine::create(*engine::compile(spec)));
  std::atomic<int> given = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const bool allowed = t % 2 == 0
                                 ? engine->decide(engine::Request{}, kStart)->allowed()
                                 : account->reserve({}, kStart)->verdict == Verdict::kAllowed;
        given += allowed ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(given, 500);
  EXPECT_EQ(left_of(*account, 0, kStart), 0);
}

TEST(AccountConcurrency, RefusesNobodyWhoseClockIsBehindAnothers) {
  const auto account = account_of({requests_per(100'000, 1h)}, {.jitter = 0s});
  engine::RuleSetSpec spec;
  spec.limits = {{.name = "contract", .meter = std::make_shared<AccountGate>(account)}};
  const auto engine = std::move(*engine::Engine::create(*engine::compile(spec)));
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const Instant now = kStart + 1us * (i + 50 * t);
        refused += account->consume({}, now)->refusal ? 1 : 0;
        refused += account->reserve({.max_delay = 0s}, now)->verdict == Verdict::kAllowed ? 0 : 1;
        refused += engine->decide(engine::Request{}, now)->allowed() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
}

TEST(AccountConcurrency, EndsEveryReservationOnceWhilePoliciesChange) {
  Accounts accounts;
  ASSERT_TRUE(accounts.add(account_of({units_per(1000, 10s)}, {.jitter = 0s})));
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto account = *accounts.find("acme");
      for (int i = 0; i < kRounds; ++i) {
        const Instant now = kStart + 1ms * i;
        const Reserved reserved = *account->reserve({.costs = units(1)}, now);
        const HoldState state = t % 2 == 0 ? account->release(reserved.reservation, now)
                                           : account->commit(reserved.reservation, {}, now)->state;
        ended += state == HoldState::kCancelled || state == HoldState::kSettled ? 1 : 0;
        if (i % 50 == t) {
          ASSERT_TRUE(account->change({units_per(1000 + i, 10s)}, now));
          ASSERT_TRUE(account->feedback({.costs = units(1), .retry_after = 1ms}, now));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, kThreads * kRounds);
  EXPECT_EQ((*accounts.find("acme"))->view(kStart + 1h).outstanding, 0u);
}

}  // namespace
}  // namespace weir::system::contract
