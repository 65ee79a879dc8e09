// Flusher: a thread that flushes a store at regular intervals.
//
// The next flush begins an interval after the last one began, or when that one is
// done if it took longer. After a flush that succeeded it lets the store merge changes,
// a step at a time. What a crash would forget is known at any time: it is what changed
// since flushed_until.
//
// Thread safety: every function may be called from any thread. Store, engine and clock
// must outlive it.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/store/sqlite/store.h"

namespace weir::store::sqlite {

constexpr Duration kFlushInterval = std::chrono::milliseconds{200};

struct FlusherStats {
  std::string last_error{};         // of the last flush or merge; empty: it succeeded
  Duration last_duration{};         // of the last flush that succeeded
  Instant flushed_until{};          // everything that changed before is in the store
  std::uint64_t failed_in_row = 0;  // flushes since one succeeded
};

class Flusher {
 public:
  // Begins now; what was restored counts as flushed.
  Flusher(Store& store, engine::Engine& engine, Clock& clock, Duration interval = kFlushInterval);
  ~Flusher();  // stops
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  // Flushes a last time and ends the thread. The answer is that of the last flush;
  // called again, nothing happens.
  Status stop() noexcept;

  FlusherStats stats() const noexcept;

 private:
  void run();
  Status flush();

  Store& store_;
  engine::Engine& engine_;
  Clock& clock_;
  const Duration interval_;
  mutable std::mutex lock_;  // of everything below
  std::condition_variable woken_;
  bool stopping_ = false;
  FlusherStats stats_;
  std::thread thread_;
};

}  // namespace weir::store::sqlite
