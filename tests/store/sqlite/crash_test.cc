// kill -9 of a process that decides and flushes: whatever a flush acknowledged is there.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <random>
#include <string>
#include <thread>

#include "tests/store/sqlite/support.h"
#include "weir/store/sqlite/store.h"

namespace weir::store::sqlite {
namespace {

using engine::remaining;
using engine::window_of;

constexpr std::size_t kKeys = 5000;
constexpr std::int64_t kPlenty = 1'000'000'000;

// What survives the process, because both have it in memory.
struct Charges {
  std::array<std::atomic<std::int64_t>, kKeys> begun{};         // charges that may have happened
  std::array<std::atomic<std::int64_t>, kKeys> done{};          // charges that have happened
  std::array<std::atomic<std::int64_t>, kKeys> acknowledged{};  // by a flush
  std::atomic<std::uint64_t> last_hold{0};
  std::atomic<std::uint64_t> flushes{0};
};

void charge_for_ever(Engine& engine, Charges& shared, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    const std::size_t key = random() % kKeys;
    shared.begun[key] += 1;
    if (random() % 16 == 0) {
      const HoldId hold =
          weir::engine::acquire(engine, client(std::to_string(key)), {.hold = 1h}, kStart)->hold;
      std::uint64_t last = shared.last_hold;
      while (hold.number > last && !shared.last_hold.compare_exchange_weak(last, hold.number)) {
      }
      const Cost as_charged[] = {{kRequests, 1}};
      static_cast<void>(weir::engine::settle(engine, hold, as_charged, kStart).ok());
    } else {
      static_cast<void>(engine.decide(client(std::to_string(key)), kStart).ok());
    }
    shared.done[key] += 1;
  }
}

[[noreturn]] void live(const fs::path& dir, Charges& shared, std::uint64_t seed) {
  const Server server = started(dir, window_of(kPlenty), kStart);
  std::thread(charge_for_ever, std::ref(*server.engine), std::ref(shared), seed).detach();
  for (;;) {
    std::array<std::int64_t, kKeys> before{};
    for (std::size_t i = 0; i < kKeys; ++i) before[i] = shared.done[i];
    if (!server.store->flush(*server.engine, kStart)) ::_exit(1);
    for (std::size_t i = 0; i < kKeys; ++i) shared.acknowledged[i] = before[i];
    shared.flushes += 1;
    if (!server.store->compact(kStart)) ::_exit(2);
    if (shared.flushes % 7 == 0 && !server.store->compact_all(*server.engine, kStart)) ::_exit(3);
  }
}

TEST(Crash, ForgetsNothingThatAFlushAcknowledged) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  std::mt19937_64 random(seed);
  TemporaryDirectory dir;
  constexpr int kRounds = 8;
  const SharedMemory<Charges> shared;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t flushes = shared->flushes;
    ASSERT_NO_FATAL_FAILURE(kill_while_it_runs(
        random, 150ms, [&] { live(dir.path(), *shared, seed + static_cast<std::uint64_t>(round)); },
        [&] { return shared->flushes > flushes; }));

    const Server server = started(dir.path(), window_of(kPlenty), kStart);
    for (std::size_t i = 0; i < kKeys; ++i) {
      const std::int64_t used = kPlenty - remaining(*server, "window", {std::to_string(i)}, kStart);
      ASSERT_GE(used, shared->acknowledged[i]) << "round " << round << ", key " << i;
      ASSERT_LE(used, shared->begun[i]) << "round " << round << ", key " << i;
      // The next process goes on from there.
      shared->begun[i] = shared->done[i] = shared->acknowledged[i] = used;
    }
    const HoldId hold = engine::acquire(*server, client("new"), {.hold = 1h}, kStart)->hold;
    ASSERT_GT(hold.number, shared->last_hold) << "a number was given out twice";
    shared->last_hold = hold.number;
  }
  fmt::print("{} flushes in {} processes\n", shared->flushes.load(), kRounds);
}

}  // namespace
}  // namespace weir::store::sqlite
