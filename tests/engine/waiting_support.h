// What the tests of waiting share.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {

constexpr Instant kFarOff = kStart + 240h;

// An engine with waiters whose answers go to one inbox.
struct WaitingTest : ::testing::Test {
  void use(const RuleSetSpec& spec, EngineOptions options = {}) {
    engine = engine_of(spec, std::move(options));
  }
  Begun wait(const Request& request, std::string name, Instant now = kStart,
             Instant deadline = kFarOff) {
    auto start =
        engine::wait(*engine, request, {.deadline = deadline}, now, inbox.as(std::move(name)));
    EXPECT_TRUE(start) << (start ? "" : start.error().message);
    return *start;
  }
  HoldId take(const Request& request, Instant now = kStart) {
    const auto decision = engine->decide(request, now);
    EXPECT_TRUE(decision->allowed());
    return decision->hold;
  }
  void release(HoldId hold, Instant now = kStart) {
    ASSERT_EQ(*engine::settle(*engine, hold, {}, now), HoldState::kSettled);
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

inline RuleSetSpec slots(std::int64_t limit, std::int64_t queue = 100) {
  return {.limits = {
              {.name = "slots", .meter = SlotsSpec{.limit = limit, .queue = queue, .hold = 1h}}}};
}

inline RuleSetSpec bucket(std::int64_t burst, Duration period = 10s) {
  return {.limits = {{.name = "bucket", .meter = BucketSpec{burst, period}}}};
}

}  // namespace weir::engine
