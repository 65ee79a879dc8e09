// Throttles used by many threads, by the engine and without it.

#include <atomic>
#include <thread>

#include "tests/system/throttle/support.h"
#include "weir/engine/engine.h"
#include "weir/system/throttle/gate.h"
#include "weir/system/throttle/throttles.h"

namespace weir::system::throttle {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 400;
constexpr std::int64_t kGas = 10;

// 500 calls at once. Time stands still, so nothing leaks.
constexpr std::string_view kCalls = R"({"buckets": [
  {"name": "calls", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 500, "operations": ["ContractCall"]}]}]})";

std::shared_ptr<Throttles> make() {
  return *Throttles::create(
      {.definitions = definitions_of(kCalls), .settings = {.throttle_by_gas = true}});
}

template <typename Work>
void in_threads(const Work& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

constexpr Submission kCall{.operation = "ContractCall", .transaction = {.gas = kGas}};

TEST(ThrottlesConcurrency, GrantExactlyWhatFitsByBothWays) {
  const auto throttles = make();
  engine::RuleSetSpec spec;
  spec.attributes = {"operation"};
  spec.units = {{"gas", engine::UnitScale::kWhole}};
  spec.limits = {{.name = "throttles", .meter = std::make_shared<ThrottleGate>(throttles)}};
  const auto engine = std::move(*engine::Engine::create(*engine::compile(spec)));
  const engine::Attribute operation[] = {{"operation", "ContractCall"}};
  const engine::Cost gas[] = {{"gas", kGas}};
  std::atomic<int> granted = 0;
  in_threads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const bool allowed =
          t % 2 == 0 ? engine->decide({.attributes = operation, .costs = gas}, kStart)->allowed()
                     : throttles->submit(SetRole::kFrontEnd, kCall, kStart)->admission.allowed;
      granted += allowed ? 1 : 0;
    }
  });
  const SetReading reading = throttles->reading(kStart).front_end;
  EXPECT_EQ(granted, 500);
  EXPECT_EQ(reading.buckets[0].used, reading.buckets[0].capacity);
  EXPECT_EQ(reading.buckets[0].refusals, std::uint64_t{kThreads * kRounds - 500});
  EXPECT_EQ(reading.gas.used, 500 * kGas);
}

TEST(ThrottlesConcurrency, EndEveryClaimOnce) {
  const auto throttles = make();
  std::atomic<int> ended = 0;
  in_threads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const Result<Submitted> said = throttles->submit(SetRole::kFrontEnd, kCall, kStart);
      ASSERT_TRUE(said.ok());
      ASSERT_TRUE(said->admission.allowed) << "never more than one claim a thread is open";
      if (i % 16 == t) (void)throttles->reading(kStart);
      ended += throttles->cancel(said->claim) == ClaimEnd::kRoom ? 1 : 0;
      ended += throttles->cancel(said->claim) == ClaimEnd::kRoom ? 1 : 0;
    }
  });
  EXPECT_EQ(ended, kThreads * kRounds);
  EXPECT_EQ(throttles->reading(kStart).front_end.buckets[0].used, 0);
  EXPECT_EQ(throttles->reading(kStart).front_end.gas.used, 0);
}

TEST(ThrottlesConcurrency, GiveNothingBackToBucketsThatAreGone) {
  const auto throttles = make();
  in_threads([&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const Result<Submitted> said = throttles->submit(SetRole::kFrontEnd, kCall, kStart);
      ASSERT_TRUE(said.ok());
      if (i % 64 == t) {
        ASSERT_TRUE(throttles->set_definitions(kCalls, "again.json").ok());
      }
      if (said->claim) throttles->cancel(said->claim);
    }
  });
  // Whatever was claimed of the last buckets was given back, and nothing else was.
  EXPECT_EQ(throttles->reading(kStart).front_end.buckets[0].used, 0);
}

}  // namespace
}  // namespace weir::system::throttle
