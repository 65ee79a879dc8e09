// Table: print to meter, sharded, bounded, in one mapping of huge pages.
//
// A slot is 32 bytes: 112 bits of print, 16 bits of row and flags, 16 bytes of
// state; two fit in a cache line, and a look-up touches one or two lines. Shards
// are chosen by bits of the print that do not choose the place inside a shard.
// Collisions go to the next slot; a removal moves later ones back, so there are
// no tombstones.
//
//   print  [ low 64 bits: place in shard | high 48 bits, 8 of them the shard ]
//   slot   [ low | high 48 + row and flags | state | state ]
//
// Each shard has a lock that is also a version: odd while locked. Writers hold
// it. A reader may do without: read_plain() copies a slot and checks that the version
// stood still. So a denial costs no write. A shard that outgrows its part of
// the mapping moves to a larger part, alone; the addresses of the old one stay
// readable.
//
// A slot that changed is marked until it is collected for a store. Marks are also
// kept for 64 parts of each shard, so that collecting a few changes reads little.
// In a durable table a marked slot is never dropped, and one that is evicted leaves
// its print behind: otherwise what the store last heard of it would come back.
//
// Each limit has a share of the keys, and all shares together fit. In a shard a limit has at
// most its quota, whatever room is left, so that one limit's keys never take another's room:
//
//   share 2,000,000 of 4,096 shards    488 a shard, an eighth of that and 8 more: 557
//
// Thread safety: find, insert, erase and sweep need the shard's lock; read_plain
// and prefetch need nothing; size may be asked at any time.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weir/base/time.h"
#include "weir/engine/internal/ebbs.h"
#include "weir/engine/log_blocks.h"
#include "weir/engine/meter.h"
#include "weir/engine/options.h"
#include "weir/engine/print.h"

namespace weir::engine {

// --- rows

// Rows: which limit, in which shape, a slot belongs to.
//
// A slot has 13 bits to say whose meter it is. They number a row: a limit's name
// with one shape. When a limit changes its shape it gets a new row, and a slot
// that still names the old one is converted when it is touched. Keys with
// parameters of their own share a row for each shape.
//
// All rows of a limit have one place, by which the table counts the limit's keys. It is
// given to another name once no row has it.
//
// Thread safety: add() and retire() under the caller's lock; at() from any thread,
// for a row read from a slot under that slot's lock.

using RowId = std::uint16_t;  // 0: none

constexpr std::size_t kRowsMax = 1 << 13;

struct Row {
  std::string_view limit;  // interned by the Rows that made it
  MeterShape shape;
  bool alive = true;         // false: the limit is gone, and its meters with it
  std::uint64_t era = 0;     // another one: nothing of the limit's meters is carried over
  std::uint64_t serial = 0;  // never given twice, unlike the row's number
  std::uint16_t place = 0;   // of the limit's name

  // Whether a meter of this row is one of `in_force` too, another of the limit.
  bool carries_over_to(const Row& in_force) const noexcept { return alive && era == in_force.era; }
};

class Rows {
 public:
  // The limit's name, at an address that stays for good.
  std::string_view intern(std::string_view name);

  // The row for this limit and shape. 0: there is none yet.
  RowId find(std::string_view limit, const MeterShape& shape) const;
  // The same, made if need be. 0: all rows are taken.
  RowId add(std::string_view limit, const MeterShape& shape);

  const Row& at(RowId id) const noexcept { return *rows_[id].load(std::memory_order_acquire); }

  // The limit is gone: its rows are dead and new ones will be made if it returns. One
  // that was never here has been gone before.
  void retire(std::string_view limit);

  // The era a limit is in; 0: its first, or it was never here.
  std::uint64_t era(std::string_view limit) const noexcept;

  // The limits that are not in their first era, and the one they are in.
  std::vector<std::pair<std::string, std::uint64_t>> later_eras() const;

  // Frees every row for which `in_use[id]` is false, so that ids can be given again.
  void free_unused(const std::vector<bool>& in_use);

  // The place of a limit that has a row.
  std::size_t place_of(std::string_view limit) const { return by_limit_.at(limit).place; }
  // All places are below this.
  std::size_t places() const noexcept { return places_; }

  std::size_t size() const noexcept { return size_; }
  // Rows that can still be made.
  std::size_t left() const noexcept { return kRowsMax - 1 - size_; }

 private:
  std::array<std::atomic<const Row*>, kRowsMax> rows_{};
  std::vector<std::unique_ptr<Row>> owned_;  // dead ones included: a reader may look
  struct Limit {
    std::unordered_multimap<std::size_t, RowId> ids;  // by what their shapes hash to
    std::uint64_t era = 0;
    bool is_slots = false;
    std::uint16_t place = 0;  // as long as there are ids

    std::uint64_t era_of(const MeterShape& shape) const noexcept {
      // Slots count what is in flight and the others what was spent.
      return era + (is_slots == engine::is_slots(shape) ? 0 : 1);
    }
  };
  Limit& known(std::string_view name, bool is_slots);
  std::uint16_t take_place();

  std::unordered_map<std::string_view, Limit> by_limit_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::size_t size_ = 0;
  std::size_t places_ = 0;
  std::vector<std::uint16_t> free_places_;
  std::uint64_t next_serial_ = 1;
  RowId next_ = 1;
};

// --- slots

// The more keys a table may hold, the more shards it has, so that threads seldom meet
// in one.
constexpr unsigned kShardBitsMin = 8;
constexpr unsigned kShardBitsMax = 12;
constexpr std::size_t kShardsMax = std::size_t{1} << kShardBitsMax;

// The 16 bits beside the print.
namespace meta {
constexpr std::uint64_t kRowMask = kRowsMax - 1;
constexpr std::uint64_t kOverride = 1 << 13;  // the key has parameters of its own
constexpr std::uint64_t kWaiters = 1 << 14;   // a waiter has a place here
constexpr std::uint64_t kDirty = 1 << 15;     // changed since it was last collected
}  // namespace meta

// What the table has of one key: its print, whose meter it is, and its state.
struct alignas(32) Slot {
  std::atomic<std::uint64_t> low;
  std::atomic<std::uint64_t> high;  // and row and flags; row 0: empty
  std::array<std::atomic<std::uint64_t>, 2> state;

  // With the shard's lock held. Stores release, so that a lock-free reader that
  // sees one of them also sees the odd version before it.
  Words words() const noexcept {
    return {state[0].load(std::memory_order_relaxed), state[1].load(std::memory_order_relaxed)};
  }
  void set_words(const Words& words) noexcept {
    state[0].store(words[0], std::memory_order_release);
    state[1].store(words[1], std::memory_order_release);
  }
  std::uint64_t meta() const noexcept {
    return high.load(std::memory_order_relaxed) & ~kPrintHighMask;
  }
  void set_meta(std::uint64_t bits) noexcept {
    high.store((high.load(std::memory_order_relaxed) & kPrintHighMask) | bits,
               std::memory_order_release);
  }
  RowId row() const noexcept { return static_cast<RowId>(meta() & meta::kRowMask); }
  Print print() const noexcept {
    return {low.load(std::memory_order_relaxed),
            high.load(std::memory_order_relaxed) & kPrintHighMask};
  }
};
static_assert(sizeof(Slot) == 32);
constexpr std::size_t kSlotsOfALine = 64 / sizeof(Slot);
constexpr std::uint32_t kSlotsOfASmallShard = 64;
constexpr std::size_t kSlotsNearHome = 4;

// Of one limit, in one shard. Needs the shard's lock.
struct Share {
  Instant full_until{};  // until then the shard is not swept for another key of the limit
  std::uint32_t keys = 0;
  std::uint32_t quota = 0;

  bool is_full() const noexcept { return keys >= quota; }
};
static_assert(sizeof(Share) == 16);
// The share of a limit without a key. It needs no quota: nobody can invent keys of it, and those
// that it had under other rules must not keep it from its only one.
constexpr std::size_t kOneKey = std::numeric_limits<std::size_t>::max();
// Beyond its part of the share, since prints deal keys out by chance.
constexpr std::size_t kKeysOverShare = 8;

// A part of the table with a lock of its own. One cache line.
struct alignas(64) Shard {
  std::atomic<std::uint64_t> version{0};  // odd: locked
  std::atomic<Slot*> slots{nullptr};
  std::atomic<std::uint32_t> capacity{0};
  std::atomic<std::uint32_t> size{0};
  std::atomic<std::int64_t> latest_ns{0};  // no decision here is earlier than this
  std::uint32_t sweep_at = 0;
  std::uint32_t quota = 0;           // of all limits together
  std::atomic<bool> denying{false};  // the last decision was a denial: try reading first
  std::uint64_t changed_parts = 0;   // bit i: part i may have changed slots
  Share* shares = nullptr;           // by the limit's place

  // `now`, or the last charge or sweep here if that is later: time running
  // backwards counts as no time passed.
  Instant at_least(Instant now) const noexcept {
    return Instant{std::max(now.ns, latest_ns.load(std::memory_order_relaxed))};
  }

  // Every change of a slot's words, row or override ends with this. Needs the lock.
  void mark_changed(Slot& slot) noexcept {
    const std::uint64_t bits = slot.meta();
    if ((bits & meta::kDirty) != 0) return;
    slot.set_meta(bits | meta::kDirty);
    note_part_of(slot);
  }
  void note_part_of(const Slot& slot) noexcept {
    const auto index = static_cast<std::size_t>(&slot - slots.load(std::memory_order_relaxed));
    changed_parts |= std::uint64_t{1} << (index >> part_bits());
  }
  // Slots of one part, as a power of two: at most 64 parts cover the shard.
  unsigned part_bits() const noexcept {
    const std::uint32_t last = capacity.load(std::memory_order_relaxed) - 1;
    return static_cast<unsigned>(std::max<int>(static_cast<int>(std::bit_width(last)), 6) - 6);
  }

  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      lock_slowly();
  }
  bool try_lock() noexcept {
    std::uint64_t seen = version.load(std::memory_order_relaxed);
    return (seen & 1) == 0 &&
           version.compare_exchange_strong(seen, seen + 1, std::memory_order_acquire);
  }
  void unlock() noexcept {
    version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  void lock_slowly() noexcept;
};
static_assert(sizeof(Shard) == 64);

// Whether what the table holds is to outlive the process.
enum class Durable : bool { kNo, kYes };

class Table {
 public:
  // At most about `keys_max` keys, evenly over the shards, and `runs_max` runs of
  // logs. Reserves addresses for all of it, and memory only as it is used.
  Table(std::size_t keys_max, std::size_t runs_max, WhenFull when_full, const Rows& rows,
        Durable durable = Durable::kNo);
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  LogBlocks logs;  // the runs of its logs

  std::size_t shard_count() const noexcept { return std::size_t{1} << shard_bits_; }
  Shard& shard(std::size_t index) noexcept { return shards_[index]; }
  std::size_t index_of(Print print) const noexcept { return print.high >> (64 - shard_bits_); }
  Shard& shard_of(Print print) noexcept { return shards_[index_of(print)]; }
  const Shard& shard_of(Print print) const noexcept { return shards_[index_of(print)]; }

  // The slot of `print`, or nullptr. Needs the lock.
  Slot* find(Shard& shard, Print print) noexcept {
    Slot* const slots = shard.slots.load(std::memory_order_relaxed);
    const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
    for (std::size_t i = place(print, capacity);;) {
      Slot& slot = slots[i];
      const std::uint64_t high = slot.high.load(std::memory_order_relaxed);
      if ((high & meta::kRowMask) == 0) return nullptr;
      if ((high & kPrintHighMask) == print.high &&
          slot.low.load(std::memory_order_relaxed) == print.low) {
        return &slot;
      }
      i = i + 1 == capacity ? 0 : i + 1;
    }
  }

  // A slot for `print`, which must not be there, with the given state, marked as
  // changed. It may move every other slot of the shard. nullptr: the table is full.
  Slot* insert(Shard& shard, Print print, RowId row, const Words& words, Instant now);

  // From now on the limit with place i may have about keys[i] keys; 0: as many as before.
  // Requires that all of them together are at most `keys_max`, or one for each limit.
  void share_out(std::span<const std::size_t> keys);

  // Makes the shard as large as so many keys will need, as far as it may. Needs the lock.
  void reserve(Shard& shard, std::size_t keys);

  // Drops up to `slots_max` slots' worth of meters that are back in their initial
  // state, or whose limit is gone. Needs the lock. Returns how many were dropped.
  std::size_t sweep(Shard& shard, Instant now, std::size_t slots_max);

  void erase(Shard& shard, Slot* slot) noexcept;

  // Copies the state of `print`, without a lock. True: `words` are that state, at one moment.
  // False: not found, of another row than `row`, overridden or waited for; or another thread was
  // writing.
  static bool read_plain(const Shard& shard, Print print, RowId row, Words& words) noexcept {
    const std::uint64_t version = shard.version.load(std::memory_order_acquire);
    if ((version & 1) != 0) return false;
    const Slot* const slots = shard.slots.load(std::memory_order_acquire);
    const std::size_t capacity = shard.capacity.load(std::memory_order_acquire);
    const std::uint64_t wanted = print.high | row;
    std::size_t i = place(print, capacity);
    // Slots and capacity may not belong together, so it looks at each slot once at most.
    for (std::size_t unseen = capacity; unseen > 0; --unseen) {
      const std::uint64_t high = slots[i].high.load(std::memory_order_acquire);
      if ((high & ~meta::kDirty) == wanted &&
          slots[i].low.load(std::memory_order_acquire) == print.low) {
        words = {slots[i].state[0].load(std::memory_order_acquire),
                 slots[i].state[1].load(std::memory_order_acquire)};
        return shard.version.load(std::memory_order_relaxed) == version;
      }
      if ((high & meta::kRowMask) == 0) return false;
      i = i + 1 == capacity ? 0 : i + 1;
    }
    return false;
  }

  void prefetch(Print print) const noexcept { prefetch(shard_of(print), print); }
  static void prefetch(const Shard& shard, Print print) noexcept {
    __builtin_prefetch(home(shard, print), 1);
  }
  // Not in a small table: that is in the cache already, and every instruction counts.
  static void prefetch_if_large(const Shard& shard, Print print) noexcept {
    if (shard.capacity.load(std::memory_order_relaxed) > kSlotsOfASmallShard) {
      prefetch_both(shard, print);
    }
  }
  // Of a log: its oldest run, and the place of the next. Waits for its slot, and gives up if
  // that is far from home.
  [[gnu::always_inline]] void prefetch_runs(const Shard& shard, Print print) const noexcept {
    const Slot* const slots = shard.slots.load(std::memory_order_relaxed);
    const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
    const std::size_t first = place(print, capacity);
    for (std::size_t i = first; i < std::min(first + kSlotsNearHome, capacity); ++i) {
      if (slots[i].low.load(std::memory_order_relaxed) != print.low) continue;
      return logs.prefetch(slots[i].state[0].load(std::memory_order_relaxed));
    }
  }
  // The line behind it too, where a key is that found its place taken.
  void prefetch_both(Print print) const noexcept { prefetch_both(shard_of(print), print); }
  static void prefetch_both(const Shard& shard, Print print) noexcept {
    const Slot* const first = home(shard, print);
    __builtin_prefetch(first, 1);
    __builtin_prefetch(first + kSlotsOfALine, 1);
  }

  // Prints of meters that a store may have and the table has no more, until they are
  // collected. Needs the lock, and a durable table. At most as many as the shard may have keys:
  // of one beyond, a store keeps an older state, which has used no less.
  void note_forgotten(const Shard& shard, Print print) {
    if (forgotten(shard).size() < shard.quota) forgotten(shard).push_back(print);
  }
  std::vector<Print>& forgotten(const Shard& shard) noexcept {
    return forgotten_[static_cast<std::size_t>(&shard - shards_.get())];
  }

  // Changed meters wait for the store, unless it fails: then those in their initial state
  // are dropped and any may be evicted, so that deciding goes on however long it does.
  void set_store_fails(bool fails) noexcept {
    store_fails_.store(fails, std::memory_order_relaxed);
  }

  // What comes back to the keys of a shard when their holds end. Needs the lock.
  Ebbs& ebbs(const Shard& shard) noexcept {
    return ebbs_[static_cast<std::size_t>(&shard - shards_.get())];
  }

  std::size_t size() const noexcept;
  std::size_t bytes() const noexcept;  // of the parts in use

  template <typename Visitor>
  static void for_each(Shard& shard, Visitor&& visitor) {
    Slot* const slots = shard.slots.load(std::memory_order_relaxed);
    const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < capacity; ++i) {
      if (slots[i].row() != 0) visitor(slots[i]);
    }
  }

 private:
  static std::size_t place(Print print, std::size_t capacity) noexcept {
    // cppcheck-suppress shiftTooManyBits  ; the product has 128 bits
    return static_cast<std::size_t>((internal::Product{print.low} * capacity) >> 64);
  }
  static const Slot* home(const Shard& shard, Print print) noexcept {
    const Slot* const slots = shard.slots.load(std::memory_order_relaxed);
    return slots + place(print, shard.capacity.load(std::memory_order_relaxed));
  }
  bool grow(Shard& shard);
  Slot* enter_stage(std::size_t capacity);
  void leave_stage(std::size_t capacity);
  bool make_room(Shard& shard, std::size_t place, Instant now);
  bool is_full(const Shard& shard) const noexcept {
    return shard.size.load(std::memory_order_relaxed) >= room_;
  }
  bool droppable(const Slot& slot, Instant now) const;
  Instant droppable_from(const Shard& shard, std::size_t place, Instant now) const;
  Slot* to_evict(Shard& shard, std::size_t place, Instant now) const;
  bool waits_for_store() const noexcept {
    return durable_ == Durable::kYes && !store_fails_.load(std::memory_order_relaxed);
  }
  void forget(Shard& shard, Slot* slot);

  unsigned shard_bits_;
  std::unique_ptr<Shard[]> shards_;
  const Rows& rows_;
  std::size_t capacity_max_;         // slots of one shard
  std::size_t room_;                 // keys of one shard: all quotas
  std::size_t spare_;                // of them beyond parts of shares
  std::unique_ptr<Share[]> shares_;  // by shard, then by place
  std::size_t places_ = 0;
  WhenFull when_full_;
  Durable durable_;
  std::atomic<bool> store_fails_{false};
  std::vector<std::vector<Print>> forgotten_;  // by shard; none unless durable
  std::vector<Ebbs> ebbs_;                     // by shard

  // The mapping, handed out in stages: each has a part for every shard.
  std::mutex stages_lock_;
  struct Stage {
    Slot* begin;
    std::size_t capacity;  // of one shard
    std::size_t users;     // shards that are here
  };
  std::vector<Stage> stages_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::size_t mapped_slots_ = 0;
};

}  // namespace weir::engine
