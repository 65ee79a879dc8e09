#include "weir/store/sqlite/compaction.h"

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
  const Status merged = server.store->compact_all(*server.engine, now);
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
    kept = engine::acquire(*server, client("a"), {.hold = 1h}, kStart)->hold;
    const HoldId ended = engine::acquire(*server, client("a"), {.hold = 1h}, kStart)->hold;
    engine::acquire(*server, client("a"), {.hold = 1s}, kStart)->allowed();
    server.flush(kStart);
    merge(server, kStart);
    engine::cancel(*server, ended, kStart);
    server.flush(kStart);
    merge(server, kStart + 1s);
  }
  const Server server = started(dir.path(), window_of(5), kStart + 1s);
  EXPECT_EQ(server.report.holds, 1u);
  EXPECT_EQ(server.report.expired, 0u);
  EXPECT_EQ(remaining(*server, "window", {"a"}, kStart + 1s), 3);
  EXPECT_EQ(engine::cancel(*server, kept, kStart + 1s), HoldState::kCancelled);
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
  for (int round = 0; round < 25; ++round) {
    for (int i = 0; i < 50'000; ++i) {
      ASSERT_TRUE(server->decide(client(std::to_string(i)), kStart)->allowed());
    }
    server.flush(kStart);
    most = std::max(most, server.store->stats().changes_bytes);
    ASSERT_TRUE(server.store->compact(kStart).ok());  // after each flush, as the flusher does
  }
  EXPECT_GE(server.store->stats().compactions, 2u);
  EXPECT_LT(most, 12u << 20) << "of 25 flushes of 1.6 MB";
  EXPECT_LT(fs::file_size(dir / "meters.db"), 40u << 20);
}

// After each flush of a round the files are those of a process that was killed then: some
// ranges of the base stand for changes that are still there, others do not yet.
TEST(Compaction, MayBeInterruptedBetweenTheFlushesOfARound) {
  constexpr int kKeys = 300'000;
  TemporaryDirectory dir;
  const Server server = started(dir.path(), window_of(1000), kStart);
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(server->decide(client(std::to_string(i)), kStart)->allowed());
  }
  server.flush(kStart);
  int flushes = 0;
  while (server.store->stats().compactions == 0) {
    flushes += 1;
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(server->decide(client(std::to_string(i)), kStart)->allowed());
    }
    ASSERT_TRUE(server->decide(client(std::to_string(1000 + flushes)), kStart)->allowed());
    ASSERT_TRUE(engine::reset(*server, "window", Key{std::to_string(2000 + flushes)}, kStart).ok());
    server.flush(kStart);
    TemporaryDirectory killed;
    for (const char* name : {"meters.db", "meters.db-wal"}) {
      fs::copy_file(dir / name, killed / name);
    }
    ASSERT_TRUE(server.store->compact(kStart).ok());

    const Server again = started(killed.path(), window_of(1000), kStart);
    ASSERT_EQ(again->usage().keys, static_cast<std::size_t>(kKeys - flushes));
    for (int i = 0; i < 3000; ++i) {
      const int used = i < 100                           ? 1 + flushes
                       : i > 1000 && i <= 1000 + flushes ? 2
                       : i > 2000 && i <= 2000 + flushes ? 0
                                                         : 1;
      ASSERT_EQ(remaining(*again, "window", {std::to_string(i)}, kStart), 1000 - used)
          << i << ", flush " << flushes;
    }
  }
  EXPECT_GE(flushes, 3) << "so much that a round takes several";
}

// Otherwise a later change would seem to come before the base.
TEST(Compaction, NeverGivesAPlaceTwice) {
  TemporaryDirectory dir;
  for (int process = 0; process < 3; ++process) {
    const Server server = started(dir.path(), window_of(1000), kStart);
    ASSERT_EQ(remaining(*server, "window", {"a"}, kStart), 1000 - 2 * process);
    admitted(*server, client("a"), kStart, 1);
    merge(server, kStart);  // no change is left
    EXPECT_EQ(server.store->stats().changes_bytes, 0u);
    admitted(*server, client("a"), kStart, 1);
    server.flush(kStart);
  }
}

}  // namespace
}  // namespace weir::store::sqlite
