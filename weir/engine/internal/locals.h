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
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/internal/waiting.h"
#include "weir/engine/options.h"
#include "weir/engine/print.h"

namespace weir::engine {

// Tallies: how often each limit decided what, counted by one thread.
//
// Counting is one addition to a cell that no other thread writes. Each limit name has
// a place, which it keeps when the rules change; the engine hands places out. A cell is
// read while it is written, so a sum is of no one instant, but no count is ever lost.
//
// Thread safety: add() from one thread; add_to() from any.

constexpr std::size_t kTalliedOutcomes = 6;
// Verdict::kQueued is no outcome; its cell counts refusals that shadow did not enforce.
constexpr auto kShadowDenied = static_cast<std::size_t>(Verdict::kQueued);
// No verdict either: settlements of which a part was clipped.
constexpr std::size_t kClipped = kTalliedOutcomes - 1;

// By place, then by outcome.
using TallySums = std::vector<std::array<std::uint64_t, kTalliedOutcomes>>;

class Tallies {
 public:
  // Counts one outcome. Only from the thread whose tallies these are.
  void add(std::uint32_t place, std::size_t outcome) noexcept {
    if (place >= size_) [[unlikely]]
      grow(place);
    std::atomic<std::uint64_t>& cell = rows_[place][outcome];
    cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // Adds what was counted to `sums`, which becomes as long as needed.
  void add_to(TallySums& sums) const {
    const std::scoped_lock lock(lock_);
    if (sums.size() < size_) sums.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < kTalliedOutcomes; ++j) {
        sums[i][j] += rows_[i][j].load(std::memory_order_relaxed);
      }
    }
  }

 private:
  using Row = std::array<std::atomic<std::uint64_t>, kTalliedOutcomes>;

  [[gnu::noinline]] void grow(std::uint32_t place) {
    constexpr std::size_t kStep = 64;
    const std::size_t size = (place / kStep + 1) * kStep;
    auto rows = std::make_unique<Row[]>(size);
    const std::scoped_lock lock(lock_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < kTalliedOutcomes; ++j) {
        rows[i][j].store(rows_[i][j].load(std::memory_order_relaxed), std::memory_order_relaxed);
      }
    }
    rows_ = std::move(rows);
    size_ = size;
  }

  std::unique_ptr<Row[]> rows_;  // replaced only by the thread that counts, under the lock
  std::size_t size_ = 0;
  mutable std::mutex lock_;
};

// Heavy keys: the texts of the keys that ask most, in bounded memory.
//
// The table keeps prints, not keys. To show who is busy, each thread looks at its first
// decisions, then at one in so many, and counts its keys by the space-saving rule: when all
// places are taken, the lightest key makes way and the newcomer inherits its
// count. A key that asks for more than 1/places of everything is always there.
//
// Thread safety: none; each thread has its own under its own lock.

class HeavyKeys {
 public:
  struct Entry {
    Print print;
    std::int64_t units = 0;
    std::string text;
  };

  explicit HeavyKeys(std::size_t places) : places_(places) {}

  // Counts a key. If that has given it a place: where its text goes, which still has that of
  // the key before; else nullptr. Allocates nothing once all places are taken.
  std::string* add(std::string_view limit, Print print, std::int64_t units);

  // Drops the limits for which `is_kept` does not hold.
  template <typename IsKept>
  void keep(IsKept&& is_kept) {
    std::erase_if(by_limit_, [&](const auto& entry) { return !is_kept(entry.first); });
  }

  // Adds what another one has counted.
  void merge(const HeavyKeys& other);

  // Heaviest first, at most `count`.
  std::vector<Entry> heaviest(std::string_view limit, std::size_t count) const;

 private:
  // What is read for each sample lies close together, texts apart.
  struct Count {
    Print print;
    std::int64_t units = 0;
  };
  struct Places {
    std::vector<Count> counts;
    std::vector<std::string> texts;  // one for each count
  };

  std::size_t places_;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, Places, Hash, std::equal_to<>> by_limit_;
};

// Samples of a thread until the gap between them doubles.
constexpr std::uint32_t kSamplesOfAGap = 128;

// What one thread keeps of one engine.
struct Local {
  Local(std::size_t heavy_places, std::uint64_t seed)
      : random(static_cast<std::minstd_rand::result_type>(seed)), heavy(heavy_places) {}

  // A decision is looked at. Returns for how many it stands, and counts down to the next: every
  // one at first, then fewer and fewer, down to one in `every`.
  std::uint32_t begin_sample(std::uint32_t every) {
    const std::uint32_t stands_for = gap;
    samples += 1;
    if (gap < every && samples % kSamplesOfAGap == 0) {
      gap = static_cast<std::uint32_t>(std::min<std::uint64_t>(2 * std::uint64_t{gap}, every));
    }
    until_sample = until_next();
    return stands_for;
  }

  // Decisions until the next sample: `gap` in the mean, and at random, so that traffic with a
  // rhythm is not always met at the same beat.
  std::uint32_t until_next() {
    const std::uint64_t twice = 2 * std::uint64_t{gap};
    const auto next = std::uniform_int_distribution<std::uint64_t>(1, twice - 1)(random);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(next, ~std::uint32_t{0}));
  }

  std::shared_ptr<const Active> active;  // the rules this thread last saw
  Outlines outlines;                     // of those rules
  std::minstd_rand random;
  std::uint32_t until_sample = 1;
  std::uint32_t gap = 1;
  std::uint32_t samples = 0;
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
  // Drops what was counted of limits for which `is_kept` does not hold.
  void keep_heavy(const std::function<bool(std::string_view limit)>& is_kept);

 private:
  Local& find();

  const std::size_t heavy_places_;
  const std::uint64_t seed_;
  const std::uint64_t id_;
  mutable std::mutex lock_;
  std::vector<std::shared_ptr<Local>> locals_;
  HeavyKeys departed_heavy_;
  TallySums departed_tallies_;
};

}  // namespace weir::engine
