// No allocation per decision, admitted or denied, and nothing that grows without a
// bound. This file replaces the global operator new, so it is a binary of its own.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/holds.h"

namespace {

// Of all threads; the tests here use one.
std::int64_t allocations = 0;
std::int64_t live_bytes = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) std::abort();
  allocations += 1;
  live_bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  live_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, kUsual); }
void* operator new[](std::size_t bytes) { return allocate(bytes, kUsual); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace weir::engine {
namespace {

constexpr int kDecisions = 10'000;
constexpr std::string_view kLongKey =
    "a key that is too long for any small-string trick: 0123456789";

// Allocations of `kDecisions` calls, after as many to warm up.
template <typename Decide>
std::int64_t allocations_of(Decide&& decide) {
  for (int i = 0; i < kDecisions; ++i) decide(i);
  const std::int64_t before = allocations;
  for (int i = 0; i < kDecisions; ++i) decide(kDecisions + i);
  return allocations - before;
}

RuleSetSpec one_bucket(std::int64_t burst) {
  return {.limits = {{.name = "a-limit-with-a-long-name-too",
                      .per = {"client"},
                      .meter = BucketSpec{burst, 24h}}}};
}

RuleSetSpec five_kinds(std::int64_t room) {
  return {.limits = {{.name = "bucket", .per = {"client"}, .meter = BucketSpec{room, 24h}},
                     {.name = "ticker", .per = {"client"}, .meter = TickerSpec{room, 24h}},
                     {.name = "window", .per = {"client"}, .meter = WindowSpec{room, 24h}},
                     {.name = "calendar", .per = {"client"}, .meter = CalendarSpec{room}},
                     {.name = "log", .per = {"client"}, .meter = LogSpec{room, 24h}}}};
}

TEST(Allocation, IsCountedHere) {
  const std::int64_t before = allocations;
  const auto counted = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(allocations - before, 2);
}

TEST(Allocation, IsNotNeededToAdmitByOneBucket) {
  auto engine = engine_of(one_bucket(1'000'000));
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  int allowed = 0;
  EXPECT_EQ(allocations_of([&](int) { allowed += engine->decide(request, kStart)->allowed(); }), 0);
  EXPECT_EQ(allowed, 2 * kDecisions);
}

TEST(Allocation, IsNotNeededToDenyByOneBucket) {
  auto engine = engine_of(one_bucket(1));
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  int allowed = 0;
  EXPECT_EQ(allocations_of([&](int) { allowed += engine->decide(request, kStart)->allowed(); }), 0);
  EXPECT_EQ(allowed, 1);
}

TEST(Allocation, IsNotNeededForMoreKindsOfRequestsThanAreRemembered) {
  RuleSetSpec spec;
  std::vector<RequestOf> asks(40);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const std::string name = "an-attribute-with-a-long-name-" + std::to_string(i);
    spec.limits.push_back({.name = name, .per = {name}, .meter = WindowSpec{1'000'000, 24h}});
    asks[i].with(name, kLongKey);
  }
  auto engine = engine_of(spec);
  std::int64_t allowed = 0;
  EXPECT_EQ(allocations_of([&](int i) {
              const Request request = asks[static_cast<std::size_t>(i) % asks.size()];
              allowed += engine->decide(request, kStart)->allowed();
            }),
            0);
  EXPECT_EQ(allowed, 2 * kDecisions);
}

TEST(Allocation, IsNotNeededToPeek) {
  auto engine = engine_of(one_bucket(1));
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  EXPECT_EQ(allocations_of([&](int) { (void)engine->peek(request, kStart); }), 0);
}

TEST(Allocation, IsNotNeededToAdmitByFiveLimits) {
  auto engine = engine_of(five_kinds(1'000'000));
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  int allowed = 0;
  EXPECT_EQ(allocations_of([&](int) { allowed += engine->decide(request, kStart)->allowed(); }), 0);
  EXPECT_EQ(allowed, 2 * kDecisions);
}

TEST(Allocation, IsNotNeededToDenyByFiveLimits) {
  auto engine = engine_of(five_kinds(1));
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  int allowed = 0;
  EXPECT_EQ(allocations_of([&](int) { allowed += engine->decide(request, kStart)->allowed(); }), 0);
  EXPECT_EQ(allowed, 1);
}

TEST(Allocation, IsNotNeededForAPreparedRequest) {
  auto engine = engine_of(five_kinds(kDecisions));
  auto prepared = engine->prepare(client(kLongKey));
  int allowed = 0;
  EXPECT_EQ(allocations_of([&](int) { allowed += engine->decide(*prepared, kStart)->allowed(); }),
            0);
  EXPECT_EQ(allowed, kDecisions);  // and as many are denied
}

TEST(Allocation, IsNotNeededForABatch) {
  auto engine = engine_of(five_kinds(16 * kDecisions));
  RequestOf ask = client(kLongKey);
  const std::vector<Request> requests(16, ask);
  std::vector<Result<Decision>> answers(16, Result<Decision>(std::in_place));
  int allowed = 0;
  EXPECT_EQ(allocations_of([&](int) {
              engine->decide(requests, kStart, answers);
              for (const Result<Decision>& answer : answers) allowed += answer->allowed();
            }),
            0);
  EXPECT_EQ(allowed, 16 * kDecisions);  // and as many are denied
}

// Conditions of each kind, weights, an exemption, a shadow, a parent.
RuleSetSpec conditional(std::int64_t room) {
  return {.limits = {{.name = "parent", .meter = WindowSpec{10 * room, 24h}},
                     {.name = "child",
                      .when = {{"path", {"/v1/*"}}, {"method", {"GET", "HEAD"}}},
                      .per = {"client"},
                      .parent = "parent",
                      .meter = BucketSpec{room, 24h}},
                     {.name = "weighed",
                      .per = {"client"},
                      .weigh = {"method", {{"GET", 2}}},
                      .meter = WindowSpec{10 * room, 24h}},
                     {.name = "exempting",
                      .exempt = {{{"client", {std::string(kLongKey)}}}},
                      .meter = WindowSpec{1, 24h}},
                     {.name = "tried", .shadow = true, .meter = WindowSpec{1, 24h}}}};
}

TEST(Allocation, IsNotNeededForConditionsWeightsAndParents) {
  for (const std::int64_t room : {1, 1'000'000}) {
    auto engine = engine_of(conditional(room));
    RequestOf ask = client(kLongKey);
    ask.with("path", "/v1/some/long/path/of/a/request").with("method", "GET");
    const Request request = ask;
    int allowed = 0;
    EXPECT_EQ(allocations_of([&](int) { allowed += engine->decide(request, kStart)->allowed(); }),
              0);
    EXPECT_EQ(allowed, room == 1 ? 1 : 2 * kDecisions);
  }
}

TEST(Allocation, IsNotNeededByALogAtItsUsualSize) {
  auto engine =
      engine_of({.limits = {{.name = "log", .per = {"client"}, .meter = LogSpec{100, 1s}}}});
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  int allowed = 0;
  EXPECT_EQ(allocations_of(
                [&](int i) { allowed += engine->decide(request, kStart + i * 5ms)->allowed(); }),
            0);
  EXPECT_GT(allowed, kDecisions / 2);
}

TEST(Allocation, IsNotNeededForKeysThatComeAndGo) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .per = {"client"}, .meter = BucketSpec{1, 1ms}}}},
                {.keys_max = 10'000, .heavy_sample_every = 1});
  char name[] = "client-00000000";
  const Attribute who[] = {{"client", name}};
  int allowed = 0;
  const std::int64_t count = allocations_of([&](int i) {
    const Instant now = kStart + i * 1ms;
    for (int digit = 14; digit > 6; --digit, i /= 10) {
      name[digit] = static_cast<char>('0' + i % 10);
    }
    allowed += engine->decide({.attributes = who}, now)->allowed();
    engine->advance(now);
  });
  EXPECT_EQ(count, 0);
  EXPECT_EQ(allowed, 2 * kDecisions);
}

// Of decisions that make a hold each, which ends.
std::int64_t allocations_of_holds(RuleSetSpec spec) {
  spec.limits.push_back(
      {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1, .hold = 1h}});
  auto engine = engine_of(spec, {.holds_max = 1000});
  RequestOf ask = client(kLongKey);
  const Request request = ask;
  int allowed = 0;
  const std::int64_t count = allocations_of([&](int) {
    const Result<Decision> first = engine->decide(request, kStart);
    allowed += first->allowed();
    allowed += engine->decide(request, kStart)->allowed();  // denied
    (void)engine::settle(*engine, first->hold, {}, kStart);
  });
  EXPECT_EQ(allowed, 2 * kDecisions);
  return count;
}

TEST(Allocation, IsNotNeededForHoldsThatEnd) { EXPECT_EQ(allocations_of_holds({}), 0); }

TEST(Allocation, IsNotNeededForHoldsOverSixLimitsThatEnd) {
  EXPECT_EQ(allocations_of_holds(five_kinds(1'000'000)), 0);
}

TEST(Allocation, IsNotNeededForAsManyLongHoldsAsRoomIsKeptFor) {
  Holds holds(1, kSpareRoomsMax + 1);
  std::vector<HoldCharges> rooms(kSpareRoomsMax + 1);
  const auto take_all = [&] {
    const std::int64_t before = allocations;
    for (HoldCharges& room : rooms) room = holds.room_for(5);
    return allocations - before;
  };
  EXPECT_EQ(take_all(), kSpareRoomsMax + 1);
  for (HoldCharges& room : rooms) holds.recycle(std::move(room));
  EXPECT_EQ(take_all(), 1);
}

// --- what does not grow

// Bytes by which memory in use has grown, after a first round that may keep some.
template <typename Round>
std::int64_t growth_of(Round&& round) {
  round();
  const std::int64_t before = live_bytes;
  round();
  return live_bytes - before;
}

TEST(Memory, DoesNotGrowWithHoldsThatHaveEnded) {
  auto engine = engine_of(one_bucket(1'000'000), {.holds_max = 100, .heavy_keys = 0});
  RequestOf ask = client("acme");
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 100'000; ++i) {
      const auto held = engine::acquire(*engine, ask, {.hold = 1h}, kStart);
      engine::cancel(*engine, held->hold, kStart);
    }
  });
  EXPECT_LT(growth, 64 << 10);
}

TEST(Memory, DoesNotGrowWithRenewals) {
  auto engine = engine_of(one_bucket(10), {.heavy_keys = 0});
  const auto held = engine::acquire(*engine, client("acme"), {.hold = 1h}, kStart);
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 100'000; ++i) {
      ASSERT_TRUE(engine::renew(*engine, held->hold, 1h + i * 1ns, kStart));
    }
  });
  EXPECT_LT(growth, 64 << 10);
}

TEST(Memory, DoesNotGrowWithRenewalsToAndFro) {
  auto engine = engine_of(one_bucket(10), {.heavy_keys = 0});
  const auto held = engine::acquire(*engine, client("acme"), {.hold = 1h}, kStart);
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 100'000; ++i) {
      ASSERT_TRUE(engine::renew(*engine, held->hold, 1h + i % 2 * 1ns, kStart));
    }
  });
  EXPECT_LT(growth, 64 << 10);
}

TEST(Memory, DoesNotGrowWithWaitersThatHaveLeft) {
  auto engine = engine_of(one_bucket(1), {.heavy_keys = 0});
  RequestOf ask = client("acme");
  ASSERT_TRUE(engine->decide(ask, kStart)->allowed());
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 10'000; ++i) {
      const auto start = engine::wait(*engine, ask, {.deadline = kForever}, kStart, nullptr);
      ASSERT_TRUE(engine->give_up(start->ticket, kStart));
    }
  });
  EXPECT_LT(growth, 16 << 10);
}

TEST(Memory, DoesNotGrowWithALimitThatGoesAndReturns) {
  auto engine = engine_of(one_bucket(1), {.heavy_keys = 0});
  const auto with = rules_of(one_bucket(1));
  const auto without = rules_of({});
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(engine->swap(without, kStart));
      ASSERT_TRUE(engine->swap(with, kStart));
    }
  });
  EXPECT_LT(growth, 1 << 20);
}

TEST(Memory, DoesNotGrowWithSwapsOfShapes) {
  auto engine = engine_of(one_bucket(1), {.heavy_keys = 0});
  std::int64_t burst = 1;
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 5000; ++i) {
      ASSERT_TRUE(engine->swap(rules_of(one_bucket(++burst)), kStart));
    }
  });
  EXPECT_LT(growth, 1 << 20);
}

// A thread keeps something for each engine it has used; that must go with the engine.
TEST(Memory, DoesNotGrowWithEnginesThatAreGone) {
  const std::string padding(400, 'x');
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 50; ++i) {
      auto engine = engine_of(one_bucket(1), {.keys_max = 1000, .heavy_sample_every = 1});
      for (int key = 0; key < 64; ++key) {
        ASSERT_TRUE(engine->decide(client(padding + std::to_string(key)), kStart));
      }
    }
  });
  EXPECT_LT(growth, 64 << 10);
}

TEST(Memory, DoesNotGrowWithLogsThatComeAndGo) {
  auto engine =
      engine_of({.limits = {{.name = "log", .per = {"client"}, .meter = LogSpec{100, 1s}}}},
                {.keys_max = 100'000, .log_runs_max = 64'000, .heavy_keys = 0});
  Instant now = kStart;
  const std::int64_t growth = growth_of([&] {
    for (int i = 0; i < 20'000; ++i) {
      now = now + 1ms;
      RequestOf ask = client(std::to_string(i));
      for (int unit = 0; unit < 5; ++unit) {
        ASSERT_TRUE(engine->decide(ask, now + Duration{unit})->allowed());
      }
      engine->advance(now);
    }
  });
  EXPECT_LT(growth, 1 << 20);
}

}  // namespace
}  // namespace weir::engine
