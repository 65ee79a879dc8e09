// Locals: what each thread keeps of one engine.
//
// A thread that decides touches nothing that others write: it keeps the rules it last saw,
// the kinds of requests it met under them, its counts, its sketch of heavy keys and the
// answers it has still to deliver.
//
//  1. A Local is used by one thread. Others read its tallies at any time, and its sketch
//     under the sketch's lock.
//  2. What a thread has counted is never lost: when the thread has ended, its Local is
//     added to `departed` before it is forgotten.
//  3. A Local may outlive its engine. It refers to nothing of the engine by then.
//
// Thread safety: mine() for the calling thread; for_each() from any.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "weir/engine/internal/heavy.h"
#include "weir/engine/internal/outline.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/internal/tallies.h"
#include "weir/engine/internal/wait_room.h"
#include "weir/engine/options.h"

namespace weir::engine {

// What one thread keeps of one engine.
struct Local {
  Local(std::size_t heavy_places, std::uint32_t sample_every, std::uint64_t seed)
      : random(static_cast<std::minstd_rand::result_type>(seed)),
        until_sample(until_next(sample_every)),
        heavy(heavy_places) {}

  // Decisions until the next sample: `every` in the mean, and at random, so that traffic with a
  // rhythm is not always met at the same beat.
  std::uint32_t until_next(std::uint32_t every) {
    const std::uint64_t twice = 2 * static_cast<std::uint64_t>(every);
    const auto next = std::uniform_int_distribution<std::uint64_t>(1, twice - 1)(random);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(next, ~std::uint32_t{0}));
  }

  std::shared_ptr<const Active> active;  // the rules this thread last saw
  Outlines outlines;                     // of those rules
  std::minstd_rand random;
  std::uint32_t until_sample;
  Tallies tallies;
  std::mutex sketch_lock;
  HeavyKeys heavy;
  std::atomic<bool> is_gone{false};  // the engine
  std::deque<std::pair<std::vector<Served>, Instant>> deliveries;
  bool is_delivering = false;
};

// The engine this thread used last; numbers of engines are never used twice.
struct LastUsed {
  std::uint64_t engine = 0;
  Local* local = nullptr;
};
extern constinit thread_local LastUsed last_used;

class Locals {
 public:
  Locals(const EngineOptions& options, std::uint64_t seed);
  ~Locals();
  Locals(const Locals&) = delete;
  Locals& operator=(const Locals&) = delete;

  // The calling thread's, made when it first asks.
  Local& mine() { return last_used.engine == id_ ? *last_used.local : find(); }

  // The counts and the sketch of every thread, those that have ended among them.
  TallySums tallies() const;
  HeavyKeys heavy() const;

 private:
  Local& find();

  const std::size_t heavy_places_;
  const std::uint32_t sample_every_;
  const std::uint64_t seed_;
  const std::uint64_t id_;
  mutable std::mutex lock_;
  std::vector<std::shared_ptr<Local>> locals_;
  HeavyKeys departed_heavy_;
  TallySums departed_tallies_;
};

}  // namespace weir::engine
