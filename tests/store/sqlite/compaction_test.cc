#include "weir/store/sqlite/compaction.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "tests/store/sqlite/support.h"
#include "weir/store/sqlite/store.h"

namespace weir::store::sqlite {
namespace {

using engine::admitted;
using engine::HoldState;
using engine::LogSpec;
using engine::remaining;
using engine::window_of;
using engine::WindowSpec;

void merge(const Server& server, Instant now) {
  const Status merged = server.store->compact_all(now);
  ASSERT_TRUE(merged.ok()) << merged.error().message;
}

TEST(Compaction, KeepsWhatIsThere) {
  TemporaryDirectory dir;
  const RuleSetSpec rules{
      .limits = {{.name = "window", .per = {"client"}, .meter = WindowSpec{1000, 1h}},
                 {.name = "log", .per = {"client"}, .meter = LogSpec{1000, 1h}}}};
  std::mt19937_64 random(8127);
  std::map<std::string, int> used;
  for (int process = 0; process < 5; ++process) {
    const Server server = started(dir.path(), rules, kStart + process * 1s);
    for (int i = 0; i < 20; ++i) {
      const Instant now = kStart + process * 1s + i * 1ms;
      for (int n = 0; n < 50; ++n) {
        const std::string name = std::to_string(random() % 300);
        ASSERT_TRUE(server->decide(client(name), now)->allowed());
        used[name] += 1;
      }
      server.flush(now);
      if (random() % 4 == 0) merge(server, now);
    }
  }
  const Instant now = kStart + 10s;
  const Server server = started(dir.path(), rules, now);
  for (const auto& [name, count] : used) {
    EXPECT_EQ(remaining(*server, "window", {name}, now), 1000 - count) << name;
    EXPECT_EQ(remaining(*server, "log", {name}, now), 1000 - count) << name;
  }
}

TEST(Compaction, DropsWhatIsBackInItsInitialState) {
  TemporaryDirectory dir;
  const Server server = started(dir.path(), window_of(5), kStart);
  for (int i = 0; i < 1000; ++i) admitted(*server, client(std::to_string(i)), kStart, 1);
  server.flush(kStart);
  merge(server, kStart);
  EXPECT_GT(server.store->stats().base_bytes, 32'000u);
  merge(server, kStart + 1h);
  EXPECT_LT(server.store->stats().base_bytes, 1000u);
}

TEST(Compaction, KeepsOverridesForGood) {
  TemporaryDirectory dir;
  const Server server = started(dir.path(), window_of(5), kStart);
  ASSERT_TRUE(server->set_override("window", Key{"a"}, WindowSpec{9, 1h}, kStart).ok());
  server.flush(kStart);
  merge(server, kStart + 24h);
  EXPECT_GT(server.store->stats().base_bytes, 0u);
}

TEST(Compaction, KeepsActiveHoldsAndDropsTheOthers) {
  TemporaryDirectory dir;
  HoldId kept;
  {
    const Server server = started(dir.path(), window_of(5), kStart);
    kept = server->acquire(client("a"), {.hold = 1h}, kStart)->hold;
    const HoldId ended = server->acquire(client("a"), {.hold = 1h}, kStart)->hold;
    server->acquire(client("a"), {.hold = 1s}, kStart)->allowed();
    server.flush(kStart);
    merge(server, kStart);
    server->cancel(ended, kStart);
    server.flush(kStart);
    merge(server, kStart + 1s);
  }
  const Server server = started(dir.path(), window_of(5), kStart + 1s);
  EXPECT_EQ(server.report.holds, 1u);
  EXPECT_EQ(server.report.expired, 0u);
  EXPECT_EQ(remaining(*server, "window", {"a"}, kStart + 1s), 3);
  EXPECT_EQ(server->cancel(kept, kStart + 1s), HoldState::kCancelled);
}

TEST(Compaction, IsNotUndoneByALimitThatWasGone) {
  TemporaryDirectory dir;
  const RuleSetSpec other{.limits = {{.name = "other", .meter = WindowSpec{5, 1h}}}};
  {
    const Server server = started(dir.path(), window_of(5), kStart);
    admitted(*server, client("a"), kStart, 2);
    server.flush(kStart);
    merge(server, kStart);
    ASSERT_TRUE(server->swap(engine::rules_of(other), kStart).ok());
    server.flush(kStart);
    merge(server, kStart);
    EXPECT_LT(server.store->stats().base_bytes, 200u);
  }
  EXPECT_EQ(remaining(*started(dir.path(), window_of(5), kStart), "window", {"a"}, kStart), 5);
}

TEST(Compaction, BeginsByItselfWhenChangesOutweighTheBase) {
  TemporaryDirectory dir;
  const Server server = started(dir.path(), window_of(1'000'000), kStart);
  std::uint64_t most = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 50'000; ++i) {
      ASSERT_TRUE(server->decide(client(std::to_string(i)), kStart)->allowed());
    }
    server.flush(kStart);
    most = std::max(most, server.store->stats().changes_bytes);
    // A step after each flush, as the flusher does.
    ASSERT_TRUE(server.store->compact(kStart).ok());
  }
  EXPECT_GE(server.store->stats().compactions, 2u);
  EXPECT_LT(most, 40u << 20) << "of 50 flushes of 1.6 MB";
  EXPECT_LT(fs::file_size(dir / "meters.db"), 80u << 20);
}

TEST(Compaction, GoesOnWhereItStoppedWhileChangesCome) {
  TemporaryDirectory dir;
  {
    // So much that it takes several steps.
    const Server server = started(dir.path(), window_of(1000), kStart);
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 300'000; ++i) {
        ASSERT_TRUE(server->decide(client(std::to_string(i)), kStart)->allowed());
      }
      server.flush(kStart);
    }
    int steps = 0;
    while (server.store->stats().compactions == 0) {
      ASSERT_TRUE(server.store->compact(kStart).ok());
      ASSERT_TRUE(server->decide(client("0"), kStart)->allowed());
      ASSERT_TRUE(server->decide(client(std::to_string(++steps)), kStart)->allowed());
      server.flush(kStart);
    }
    EXPECT_GT(steps, 2);
    fmt::print("{} steps\n", steps);
  }
  const Server server = started(dir.path(), window_of(1000), kStart);
  const std::int64_t steps = 1000 - 4 - remaining(*server, "window", {"0"}, kStart);
  for (std::int64_t i = 1; i < 1000; ++i) {
    ASSERT_EQ(remaining(*server, "window", {std::to_string(i)}, kStart),
              1000 - 4 - (i <= steps ? 1 : 0))
        << i;
  }
}

}  // namespace
}  // namespace weir::store::sqlite
