// What the tests of the SQLite store share: directories that go away, and servers (a
// store and its engine) that can be stopped and started over them.

#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "tests/engine/support.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_directory.h"
#include "weir/engine/engine.h"
#include "weir/store/sqlite/store.h"

namespace weir::store::sqlite {

using namespace std::chrono_literals;
using engine::client;
using engine::Cost;
using engine::Engine;
using engine::EngineOptions;
using engine::Key;
using engine::kRequests;
using engine::kStart;
using engine::RequestOf;
using engine::RestoreReport;
using engine::RuleSetSpec;

namespace fs = std::filesystem;

inline std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const fs::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A store and its engine.
struct Server {
  std::unique_ptr<Store> store;
  std::unique_ptr<Engine> engine;
  RestoreReport report;

  Engine* operator->() const { return engine.get(); }
  Engine& operator*() const { return *engine; }

  void flush(Instant now) const {
    const Status flushed = store->flush(*engine, now);
    EXPECT_TRUE(flushed.ok()) << flushed.error().message;
  }
};

inline Result<Server> start(const fs::path& dir, const RuleSetSpec& rules, Instant now,
                            StartEmpty start_empty = StartEmpty::kNo, EngineOptions options = {}) {
  Result<std::unique_ptr<Store>> store = Store::open(dir, start_empty);
  if (!store) return std::move(store).error();
  options.secret = (*store)->secret();
  options.owner = (*store)->owner();
  options.durable = true;
  Server server{std::move(*store), engine::engine_of(rules, options), {}};
  Result<RestoreReport> report = server.store->restore(*server.engine, now);
  if (!report) return std::move(report).error();
  server.report = *report;
  return server;
}

// One that is expected to start.
inline Server started(const fs::path& dir, const RuleSetSpec& rules, Instant now,
                      EngineOptions options = {}) {
  Result<Server> server = start(dir, rules, now, StartEmpty::kNo, options);
  EXPECT_TRUE(server.ok()) << server.error().message;
  return std::move(*server);
}

// Why one does not start; empty: it does.
inline std::string refusal(const fs::path& dir, const RuleSetSpec& rules) {
  const Result<Server> server = start(dir, rules, kStart);
  return server ? "" : server.error().message;
}

// --- kill -9

// What survives a process, because its parent has it in memory, too.
template <typename T>
class SharedMemory {
 public:
  SharedMemory() : memory_(mapped()), shared_(new (memory_) T) {}
  ~SharedMemory() { ::munmap(memory_, sizeof(T)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  T* operator->() const { return shared_; }
  T& operator*() const { return *shared_; }

 private:
  static void* mapped() {
    void* const memory =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }

  void* memory_;
  T* shared_;
};

// Runs `live`, which never returns, in a process of its own, and kills that at any moment once
// `has_begun()` is true.
template <typename Live, typename HasBegun>
void kill_while_it_runs(std::mt19937_64& random, std::chrono::microseconds moments, Live&& live,
                        HasBegun&& has_begun) {
  const pid_t child = ::fork();
  if (child == 0) {
    live();
    ::_exit(9);
  }
  int how = 0;
  bool has_ended = false;
  while (!has_begun() && !has_ended) {
    ::usleep(1000);
    has_ended = ::waitpid(child, &how, WNOHANG) != 0;
  }
  if (!has_ended) {
    ::usleep(static_cast<useconds_t>(random() % static_cast<std::uint64_t>(moments.count())));
    ::kill(child, SIGKILL);
    ::waitpid(child, &how, 0);
  }
  ASSERT_TRUE(WIFSIGNALED(how)) << "it ended by itself, with " << WEXITSTATUS(how);
}

}  // namespace weir::store::sqlite
