// No allocation per decision, granted or refused, by a set or through the engine. This
// file replaces the global operator new, so it is a binary of its own.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "weir/engine/engine.h"
#include "weir/system/throttle/gate.h"
#include "weir/system/throttle/published/congestion.h"
#include "weir/system/throttle/read.h"

namespace {

std::int64_t allocations = 0;

void* allocate(std::size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  allocations += 1;
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace weir::system::throttle {
namespace {

constexpr Instant kStart{1'800'000'000'000'000'000};
constexpr int kDecisions = 10'000;

Definitions four_buckets() {
  std::string text = R"({"buckets": [)";
  for (int i = 0; i < 4; ++i) {
    text += R"({"name": "a bucket with a long name, number )" + std::to_string(i) +
            R"(", "burstPeriod": 1, "throttleGroups": [{"opsPerSec": 5000, "operations":
               ["an operation with a rather long name", "ContractCall"]}]})" +
            (i < 3 ? "," : "]}");
  }
  return *read_definitions(text, "t.json");
}

template <typename Decide>
std::int64_t allocations_of(Decide&& decide) {
  for (int i = 0; i < kDecisions; ++i) decide();
  const std::int64_t before = allocations;
  for (int i = 0; i < kDecisions; ++i) decide();
  return allocations - before;
}

TEST(ThrottleAllocation, IsCountedHere) {
  const std::int64_t before = allocations;
  const auto counted = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(allocations - before, 2);
}

TEST(ThrottleAllocation, IsNotNeededByADecision) {
  ThrottleSet set(four_buckets(), {.settings = {.throttle_by_gas = true}});
  Congestion congestion(*parse_tiers("90,10x"), 60);
  Claims claims;
  Transaction transaction;
  Instant now = kStart;
  int allowed = 0;
  int decided = 0;
  const auto decide = [&] {
    now.ns += 20'000;
    transaction.operation = set.operations().find(
        decided++ % 2 == 0 ? "an operation with a rather long name" : "ContractCall");
    transaction.gas = 1'000;
    claims.clear();
    allowed += set.decide(transaction, moment_of(now), &claims)->allowed;
    (void)set.peek(transaction, moment_of(now));
    congestion.refresh(set, moment_of(now));
  };
  EXPECT_EQ(allocations_of(decide), 0);
  EXPECT_GT(allowed, kDecisions / 10);
  EXPECT_LT(allowed, 2 * kDecisions);  // granted ones and refused ones
}

TEST(ThrottleAllocation, IsNotNeededThroughTheEngine) {
  auto throttles =
      *Throttles::create({.definitions = four_buckets(), .settings = {.throttle_by_gas = true}});
  engine::RuleSetSpec spec;
  spec.limits.push_back({.name = "throttles", .meter = std::make_shared<ThrottleGate>(throttles)});
  spec.attributes = {"operation", "payer", "high_volume"};
  spec.units = {{"gas"}};
  auto engine = *engine::Engine::create(*engine::compile(spec), {.heavy_keys = 0});
  const engine::Attribute attributes[] = {{"operation", "ContractCall"}, {"payer", "1001"}};
  const engine::Cost costs[] = {{"gas", 1'000}};
  Instant now = kStart;
  int allowed = 0;
  EXPECT_EQ(allocations_of([&] {
              now.ns += 20'000;
              allowed += engine->decide({.attributes = attributes, .costs = costs}, now)->allowed();
            }),
            0);
  EXPECT_GT(allowed, kDecisions / 10);
  EXPECT_LT(allowed, 2 * kDecisions);
}

}  // namespace
}  // namespace weir::system::throttle
