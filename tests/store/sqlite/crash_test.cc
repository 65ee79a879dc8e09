// kill -9 of a process that decides and flushes: whatever a flush acknowledged is there.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
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
constexpr int kRounds = 8;

// What survives the process, because both have it in memory.
struct Shared {
  std::array<std::atomic<std::int64_t>, kKeys> begun{};         // charges that may have happened
  std::array<std::atomic<std::int64_t>, kKeys> done{};          // charges that have happened
  std::array<std::atomic<std::int64_t>, kKeys> acknowledged{};  // by a flush
  std::atomic<std::uint64_t> last_hold{0};
  std::atomic<std::uint64_t> flushes{0};
};

class SharedMemory {
 public:
  SharedMemory()
      : memory_(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)),
        shared_(new (memory_) Shared) {}
  ~SharedMemory() { ::munmap(memory_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() const { return shared_; }
  Shared& operator*() const { return *shared_; }

 private:
  void* memory_;
  Shared* shared_;
};

void charge_for_ever(Engine& engine, Shared& shared, std::uint64_t seed) {
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

[[noreturn]] void live(const fs::path& dir, Shared& shared, std::uint64_t seed) {
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
  const SharedMemory shared;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t flushes = shared->flushes;
    const pid_t child = ::fork();
    if (child == 0) live(dir.path(), *shared, seed + static_cast<std::uint64_t>(round));
    // At least one flush, then any moment.
    while (shared->flushes == flushes && ::waitpid(child, nullptr, WNOHANG) == 0) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(random() % 150'000));
    ::kill(child, SIGKILL);
    int how = 0;
    ::waitpid(child, &how, 0);
    ASSERT_TRUE(WIFSIGNALED(how)) << "it ended by itself, with " << WEXITSTATUS(how);

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
