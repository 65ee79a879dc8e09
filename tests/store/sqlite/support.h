// What the tests of the SQLite store share: directories that go away, and servers (a
// store and its engine) that can be stopped and started over them.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
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

}  // namespace weir::store::sqlite
