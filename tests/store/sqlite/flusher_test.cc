#include "weir/store/sqlite/flusher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/store/sqlite/support.h"
#include "weir/base/clock.h"
#include "weir/testing/manual_clock.h"

namespace weir::store::sqlite {
namespace {

using engine::admitted;
using engine::remaining;
using engine::window_of;

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(condition());
}

TEST(Flusher, FlushesByItself) {
  TemporaryDirectory dir;
  const Server server = started(dir.path(), window_of(10), kStart);
  weir::testing::ManualClock clock(kStart);
  Flusher flusher(*server.store, *server.engine, clock, 1ms);
  ASSERT_TRUE(server->decide(client("a"), kStart)->allowed());
  wait_until([&] { return server.store->stats().meters == 1; });
  clock.advance(5s);
  wait_until([&] { return flusher.stats().flushed_until == kStart + 5s; });
  EXPECT_EQ(flusher.stats().last_error, "");
}

TEST(Flusher, FlushesALastTimeWhenItStops) {
  TemporaryDirectory dir;
  {
    const Server server = started(dir.path(), window_of(10), kStart);
    weir::testing::ManualClock clock(kStart);
    Flusher flusher(*server.store, *server.engine, clock, 1h);
    ASSERT_EQ(admitted(*server, client("a"), kStart, 4), 4);
    EXPECT_TRUE(flusher.stop().ok());
    EXPECT_TRUE(flusher.stop().ok());
  }
  EXPECT_EQ(remaining(*started(dir.path(), window_of(10), kStart), "window", {"a"}, kStart), 6);
}

TEST(Flusher, SaysWhatWentWrongAndSinceWhen) {
  TemporaryDirectory dir;
  auto store = Store::open(dir.path());
  ASSERT_TRUE(store.ok());
  const auto engine = engine::engine_of(window_of(10), {.durable = true});
  weir::testing::ManualClock clock(kStart);
  Flusher flusher(**store, *engine, clock, 1ms);  // not restored, so it cannot flush
  clock.advance(5s);
  wait_until([&] { return flusher.stats().failed_in_row >= 3; });
  EXPECT_NE(flusher.stats().last_error, "");
  EXPECT_EQ(flusher.stats().flushed_until, kStart);
  EXPECT_FALSE(flusher.stop().ok());
}

TEST(Flusher, LosesNothingWhileOthersDecide) {
  TemporaryDirectory dir;
  constexpr int kThreads = 3;
  constexpr int kEach = 20'000;
  {
    const Server server = started(dir.path(), window_of(1'000'000), kStart);
    SystemClock clock;
    Flusher flusher(*server.store, *server.engine, clock, 1ms);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&server] {
        for (int i = 0; i < kEach; ++i) {
          const RequestOf ask = client(std::to_string(i % 500));
          if (i % 10 == 0) {
            const HoldId hold = engine::acquire(*server, ask, {.hold = 1h}, kStart)->hold;
            const Cost as_charged[] = {{kRequests, 1}};
            EXPECT_TRUE(engine::settle(*server, hold, as_charged, kStart).ok());
          } else {
            EXPECT_TRUE(server->decide(ask, kStart)->allowed());
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(flusher.stop().ok());
  }
  const Server server = started(dir.path(), window_of(1'000'000), kStart);
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(remaining(*server, "window", {std::to_string(i)}, kStart),
              1'000'000 - kThreads * kEach / 500)
        << i;
  }
  EXPECT_EQ(server->usage().holds, 0u);
}

}  // namespace
}  // namespace weir::store::sqlite
