// Several threads at one thing at once: one hold, one key that is reset, gates in any order, a
// limit that is changed while it denies. Run under the thread sanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "tests/engine/turnstile.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

template <typename First, typename Second>
void at_once(First&& first, Second&& second) {
  std::barrier together(2);
  std::thread other([&] {
    together.arrive_and_wait();
    second();
  });
  together.arrive_and_wait();
  first();
  other.join();
}

std::int64_t used(Engine& engine, std::string_view limit) {
  const auto seen = engine::inspect(engine, limit, {}, kStart);
  return seen->capacity - seen->remaining;
}

TEST(Race, OfTwoWhoEndOneHoldGivesItsChargeBackOnce) {
  auto engine = engine_of({.limits = {{.name = "one", .meter = WindowSpec{100'000, 1h}}}});
  std::int64_t spent = 10'000;
  ASSERT_TRUE(engine->decide(RequestOf().costing(spent), kStart)->allowed());
  for (int i = 0; i < 1'000; ++i) {
    const HoldId hold =
        engine::acquire(*engine, RequestOf().costing(7), {.hold = 1h}, kStart)->hold;
    HoldState settled{};
    HoldState cancelled{};
    at_once([&] { settled = *engine::settle(*engine, hold, {}, kStart); },
            [&] { cancelled = engine::cancel(*engine, hold, kStart); });
    ASSERT_EQ(settled, cancelled);
    if (settled == HoldState::kSettled) spent += 7;
    ASSERT_EQ(used(*engine, "one"), spent) << i;
  }
}

// Whichever comes first, what was charged after the reset stays charged.
TEST(Race, OfAResetAndTheEndOfAHoldTakesNothingFromWhoCameAfterTheReset) {
  auto engine = engine_of({.limits = {{.name = "one", .meter = BucketSpec{100, 1h}}}});
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(engine::reset(*engine, "one", {}, kStart));
    const HoldId hold =
        engine::acquire(*engine, RequestOf().costing(5), {.hold = 1h}, kStart)->hold;
    at_once([&] { engine::cancel(*engine, hold, kStart); },
            [&] {
              ASSERT_TRUE(engine::reset(*engine, "one", {}, kStart));
              ASSERT_TRUE(engine->decide(RequestOf().costing(5), kStart)->allowed());
            });
    ASSERT_EQ(used(*engine, "one"), 5) << i;
  }
}

TEST(Race, OfRequestsOverGatesAndMetersInAnyOrderEndsWithExactAccounts) {
  const auto left = std::make_shared<Turnstile>(1'000'000);
  const auto right = std::make_shared<Turnstile>(1'000'000);
  auto engine = engine_of({.limits = {{.name = "left", .when = {{"l", {"y"}}}, .meter = left},
                                      {.name = "meter", .meter = WindowSpec{1'000'000, 1h}},
                                      {.name = "right", .when = {{"r", {"y"}}}, .meter = right}},
                           .attributes = {"l", "r"}});
  constexpr int kRounds = 3'000;
  std::atomic<std::int64_t> held{0};
  const auto work = [&](const RequestOf& ask) {
    for (int i = 0; i < kRounds; ++i) {
      const auto decision = engine::acquire(*engine, ask, {.hold = 1h}, kStart);
      ASSERT_TRUE(decision->allowed());
      if (i % 3 == 0) {
        held += 1;
      } else {
        ASSERT_EQ(engine::cancel(*engine, decision->hold, kStart), HoldState::kCancelled);
      }
    }
  };
  std::thread both([&] { work(RequestOf({{"l", "y"}, {"r", "y"}})); });
  std::thread again([&] { work(RequestOf({{"r", "y"}, {"l", "y"}})); });
  std::thread only_left([&] { work(RequestOf({{"l", "y"}})); });
  work(RequestOf({{"r", "y"}}));
  both.join();
  again.join();
  only_left.join();
  EXPECT_EQ(used(*engine, "meter"), held);
  EXPECT_EQ(left->used, held * 3 / 4);
  EXPECT_EQ(right->used, held * 3 / 4);
}

// One limit, so that denials are found without its lock, under rules that change meanwhile.
TEST(Race, OfDenialsAndChangesOfTheirLimitAdmitsWhatTheMeterCounts) {
  const auto of = [](std::int64_t limit) {
    return *compile(
        {.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{limit, 1h}}}});
  };
  auto engine = std::move(*Engine::create(of(1'000)));
  std::atomic<bool> is_over{false};
  std::atomic<std::int64_t> admissions{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      const RequestOf ask = client("hot");
      Prepared prepared = *engine->prepare(ask);
      while (!is_over) {
        admissions += engine->decide(ask, kStart)->allowed() ? 1 : 0;
        admissions += engine->decide(prepared, kStart)->allowed() ? 1 : 0;
      }
    });
  }
  std::int64_t most = 1'000;
  for (int i = 0; i < 60; ++i) {
    most += 7;
    if (i % 2 == 0) {
      ASSERT_TRUE(engine->swap(of(most), kStart));
    } else {
      ASSERT_TRUE(engine->set_override("one", std::vector<std::string_view>{"hot"},
                                       WindowSpec{most, 1h}, kStart));
    }
    const auto is_used_up = [&] { return remaining(*engine, "one", {"hot"}, kStart) == 0; };
    while (!is_used_up()) std::this_thread::yield();
    if (i % 2 == 1) {
      ASSERT_TRUE(
          engine->set_override("one", std::vector<std::string_view>{"hot"}, std::nullopt, kStart));
    }
  }
  is_over = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(admissions, most);
}

// A decision is made under one set of rules, whichever it meets.
TEST(Race, OfDecisionsAndNewRulesMixesNoTwoSets) {
  const auto of = [](std::int64_t limit) {
    return *compile({.limits = {{.name = "a", .per = {"client"}, .meter = WindowSpec{limit, 1h}},
                                {.name = "b", .meter = BucketSpec{limit, 1h}}}});
  };
  auto engine = std::move(*Engine::create(of(1)));
  std::atomic<bool> is_over{false};
  std::atomic<std::int64_t> mixed{0};
  std::atomic<std::int64_t> decisions{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i) {
    askers.emplace_back([&] {
      const RequestOf ask = client("acme");
      while (!is_over) {
        const auto decision = engine->decide(ask, kStart);
        decisions += 1;
        mixed += decision->outcome("a")->capacity != decision->outcome("b")->capacity ? 1 : 0;
      }
    });
  }
  for (int limit = 2; limit < 400; ++limit) {
    const std::int64_t before = decisions;
    ASSERT_TRUE(engine->swap(of(limit), kStart));
    while (decisions < before + 3) std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(mixed, 0);
}

// Meters in use are not dropped for new keys, so nobody has more than there is.
TEST(Race, OfNewKeysInAFullTableAdmitsEachKeyNoMoreThanThereIs) {
  constexpr std::size_t kKeys = 4'000;
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{2, 1h}}}},
                {.keys_max = 64});
  std::vector<std::atomic<int>> admissions(kKeys);
  std::atomic<std::int64_t> refused{0};
  const auto work = [&](std::size_t first) {
    for (std::size_t i = 0; i < 3 * kKeys; ++i) {
      const std::size_t key = (first + i) % kKeys;
      const auto decision = engine->decide(client(std::to_string(key)), kStart);
      if (!decision) refused += 1;
      if (decision && decision->allowed()) admissions[key] += 1;
      if (i % 256 == 0) engine->advance(kStart);
    }
  };
  std::thread second([&] { work(kKeys / 3); });
  std::thread third([&] { work(2 * kKeys / 3); });
  work(0);
  second.join();
  third.join();
  EXPECT_GT(refused, 0);
  std::size_t known = 0;
  for (const std::atomic<int>& admitted : admissions) {
    EXPECT_LE(admitted, 2);
    known += admitted > 0 ? 1 : 0;
  }
  EXPECT_EQ(engine->usage().keys, known);
}

TEST(Race, OfNewRulesAndAnInspectionShowsWhatWasUsed) {
  auto engine = engine_of(window_of(100));
  ASSERT_TRUE(engine->decide(client("acme").costing(100), kStart)->allowed());
  const auto rules = rules_of(window_of(100));
  std::atomic<bool> is_over{false};
  std::thread swapper([&] {
    while (!is_over) ASSERT_TRUE(engine->swap(rules, kStart));
  });
  int wrong = 0;
  for (int i = 0; i < 20'000; ++i)
    wrong += remaining(*engine, "window", {"acme"}, kStart) == 0 ? 0 : 1;
  is_over = true;
  swapper.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weir::engine
