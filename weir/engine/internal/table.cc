#include "weir/engine/internal/table.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <functional>
#include <new>
#include <thread>

#include "weir/engine/rules.h"

namespace weir::engine {
namespace {

// Linear probing stays short up to here, and a table that has just grown is
// still more than half full.
constexpr std::size_t kLoadNumerator = 4;
constexpr std::size_t kLoadDenominator = 5;
constexpr std::size_t kFirstCapacity = 32;  // slots of a shard
constexpr std::size_t kPageSlots = 4096 / sizeof(Slot);
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr int kSpinsBeforeYield = 32;
constexpr std::size_t kEvictionCandidates = 16;
constexpr std::size_t kEvictionVisits = 256;  // of slots, once there is a candidate
constexpr std::size_t kKeysMost = std::size_t{1} << 40;
constexpr Duration kSweepAgain = std::chrono::milliseconds{10};  // through a full shard

// From a page on, parts are whole pages, so that one can be given back by itself.
constexpr std::size_t next_capacity(std::size_t capacity) {
  if (capacity < kPageSlots) return 2 * capacity;
  return (capacity + capacity / 2 + kPageSlots - 1) / kPageSlots * kPageSlots;
}

constexpr bool is_over_loaded(std::size_t size, std::size_t capacity) {
  return size * kLoadDenominator > capacity * kLoadNumerator;
}

// At least 1024 keys a shard where there is a choice: the fewer there are, the more
// unevenly chance deals them out.
constexpr unsigned shard_bits_for(std::size_t keys_max) {
  const auto bits = static_cast<unsigned>(std::bit_width(keys_max >> 10));
  return std::clamp(bits, kShardBitsMin + 1, kShardBitsMax + 1) - 1;
}

void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

void copy(const Slot& from, Slot& to) noexcept {
  to.low.store(from.low.load(std::memory_order_relaxed), std::memory_order_release);
  to.high.store(from.high.load(std::memory_order_relaxed), std::memory_order_release);
  to.set_words(from.words());
}

void clear(Slot& slot) noexcept {
  slot.low.store(0, std::memory_order_release);
  slot.high.store(0, std::memory_order_release);
  slot.set_words({});
}

// The same for shapes that are equal.
struct ShapeHash {
  std::size_t operator()(const meter::BucketShape& s) const { return of(s.num, s.den, s.burst); }
  std::size_t operator()(const meter::TickerShape& s) const {
    return of(s.interval_ns, s.per_tick, s.burst);
  }
  std::size_t operator()(const meter::WindowShape& s) const { return of(s.limit, s.length_ns, 0); }
  std::size_t operator()(const meter::LogShape& s) const { return of(s.limit, s.window_ns, 1); }
  std::size_t operator()(const meter::SlotsShape& s) const {
    return of(s.limit, s.queue, s.hold_ns);
  }

 private:
  static std::size_t of(std::int64_t a, std::int64_t b, std::int64_t c) {
    std::size_t seed = 0;
    for (const std::int64_t part : {a, b, c}) boost::hash_combine(seed, part);
    return seed;
  }
};

}  // namespace

// --- rows

std::string_view Rows::intern(std::string_view name) {
  for (const auto& known : names_) {
    if (*known == name) return *known;
  }
  return *names_.emplace_back(std::make_unique<std::string>(name));
}

Rows::Limit& Rows::known(std::string_view name, bool is_slots) {
  return by_limit_.try_emplace(name, Limit{{}, 0, is_slots}).first->second;
}

// Each place has a row, so there are fewer than kRowsMax.
std::uint16_t Rows::take_place() {
  if (free_places_.empty()) return static_cast<std::uint16_t>(places_++);
  const std::uint16_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

RowId Rows::find(std::string_view limit, const MeterShape& shape) const {
  const auto entry = by_limit_.find(limit);
  if (entry == by_limit_.end()) return 0;
  const auto [first, last] = entry->second.ids.equal_range(std::visit(ShapeHash{}, shape));
  for (auto it = first; it != last; ++it) {
    const Row& row = at(it->second);
    if (row.alive && row.era == entry->second.era_of(shape) && row.shape == shape) {
      return it->second;
    }
  }
  return 0;
}

RowId Rows::add(std::string_view limit, const MeterShape& shape) {
  if (const RowId found = find(limit, shape); found != 0) return found;
  if (left() == 0) return 0;
  const std::string_view name = intern(limit);
  Limit& entry = known(name, engine::is_slots(shape));
  entry.era = entry.era_of(shape);
  entry.is_slots = engine::is_slots(shape);
  if (entry.ids.empty()) entry.place = take_place();
  while (rows_[next_].load(std::memory_order_relaxed) != nullptr) {
    next_ = static_cast<RowId>(next_ + 1 == kRowsMax ? 1 : next_ + 1);
  }
  owned_.push_back(
      std::make_unique<Row>(Row{name, shape, true, entry.era, next_serial_++, entry.place}));
  rows_[next_].store(owned_.back().get(), std::memory_order_release);
  entry.ids.emplace(std::visit(ShapeHash{}, shape), next_);
  size_ += 1;
  return next_;
}

void Rows::retire(std::string_view limit) {
  Limit& entry = known(intern(limit), false);
  entry.era += 1;
  for (const auto& [hash, id] : entry.ids) {
    if (!at(id).alive) continue;
    // Replaced by a dead copy rather than changed: a reader may hold the old one.
    Row dead = at(id);
    dead.alive = false;
    owned_.push_back(std::make_unique<Row>(dead));
    rows_[id].store(owned_.back().get(), std::memory_order_release);
  }
}

std::uint64_t Rows::era(std::string_view limit) const noexcept {
  const auto found = by_limit_.find(limit);
  return found == by_limit_.end() ? 0 : found->second.era;
}

std::vector<std::pair<std::string, std::uint64_t>> Rows::later_eras() const {
  std::vector<std::pair<std::string, std::uint64_t>> eras;
  for (const auto& [name, limit] : by_limit_) {
    if (limit.era > 0) eras.emplace_back(name, limit.era);
  }
  return eras;
}

void Rows::free_unused(const std::vector<bool>& in_use) {
  for (auto& [name, limit] : by_limit_) {
    const bool had_place = !limit.ids.empty();
    std::erase_if(limit.ids, [&](const auto& known) {
      const RowId id = known.second;
      if (in_use[id]) return false;
      rows_[id].store(nullptr, std::memory_order_release);
      size_ -= 1;
      return true;
    });
    if (had_place && limit.ids.empty()) free_places_.push_back(limit.place);
  }
  std::vector<const Row*> held;
  for (const auto& row : rows_) held.push_back(row.load(std::memory_order_relaxed));
  std::sort(held.begin(), held.end(), std::less<>{});
  std::erase_if(owned_, [&](const std::unique_ptr<Row>& row) {
    return !std::binary_search(held.begin(), held.end(), row.get(), std::less<>{});
  });
}

// --- slots

void Shard::lock_slowly() noexcept {
  for (int spins = 0;; ++spins) {
    std::uint64_t seen = version.load(std::memory_order_relaxed);
    if ((seen & 1) == 0 &&
        version.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) {
      return;
    }
    if (spins < kSpinsBeforeYield) {
      // Longer and longer, so that the line stays with its holder for a few decisions:
      // handing it over costs more than a decision.
      for (int i = 0; i < 1 << std::min(spins + 4, 6); ++i) pause_briefly();
    } else {
      std::this_thread::yield();  // the holder may have been taken off its core
    }
  }
}

Table::Table(std::size_t keys_max, std::size_t runs_max, WhenFull when_full, const Rows& rows,
             Durable durable)
    : logs(runs_max),
      shard_bits_(shard_bits_for(keys_max)),
      shards_(std::make_unique<Shard[]>(shard_count())),
      rows_(rows),
      when_full_(when_full),
      durable_(durable),
      forgotten_(durable == Durable::kYes ? shard_count() : 0),
      ebbs_(shard_count()) {
  if (keys_max > kKeysMost) throw std::bad_alloc();
  const std::size_t part = keys_max / shard_count();
  // For the keys that each limit may have over its part, and one for each in any case.
  spare_ = std::max(kLimitsMax + 1, part / 4);
  room_ = part + part / 8 + spare_;
  capacity_max_ = kFirstCapacity;
  std::size_t slots = capacity_max_;
  while (is_over_loaded(room_, capacity_max_)) {
    capacity_max_ = next_capacity(capacity_max_);
    slots += capacity_max_;
  }
  mapping_bytes_ = slots * shard_count() * sizeof(Slot) + kHugePage;
  mapping_ = ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  ::madvise(mapping_, mapping_bytes_, MADV_HUGEPAGE);  // a hint: fine if refused

  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  const std::uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  stages_.push_back({reinterpret_cast<Slot*>(aligned), kFirstCapacity, shard_count()});
  mapped_slots_ = kFirstCapacity * shard_count();
  for (std::size_t i = 0; i < shard_count(); ++i) {
    shards_[i].slots.store(stages_[0].begin + i * kFirstCapacity, std::memory_order_relaxed);
    shards_[i].capacity.store(std::uint32_t{kFirstCapacity}, std::memory_order_relaxed);
  }
}

Table::~Table() { ::munmap(mapping_, mapping_bytes_); }

Slot* Table::insert(Shard& shard, Print print, RowId row, const Words& words, Instant now) {
  const std::size_t size = shard.size.load(std::memory_order_relaxed);
  const std::size_t limit_place = rows_.at(row).place;
  if (shard.shares[limit_place].is_full() || is_full(shard) ||
      is_over_loaded(size + 1, shard.capacity.load(std::memory_order_relaxed))) {
    if (!make_room(shard, limit_place, now)) return nullptr;
  }
  Slot* const slots = shard.slots.load(std::memory_order_relaxed);
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  std::size_t i = place(print, capacity);
  while (slots[i].row() != 0) i = i + 1 == capacity ? 0 : i + 1;
  slots[i].low.store(print.low, std::memory_order_release);
  slots[i].high.store(print.high | row, std::memory_order_release);
  slots[i].set_words(words);
  shard.mark_changed(slots[i]);
  shard.shares[limit_place].keys += 1;
  shard.size.store(shard.size.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return &slots[i];
}

void Table::share_out(std::span<const std::size_t> keys) {
  const auto sharing = static_cast<std::size_t>(
      std::count_if(keys.begin(), keys.end(), [](std::size_t wanted) { return wanted > 0; }));
  const std::size_t over =
      std::clamp<std::size_t>(spare_ / std::max<std::size_t>(1, sharing), 1, kKeysOverShare);
  const std::size_t places = std::max(places_, keys.size());
  auto shares = std::make_unique<Share[]>(shard_count() * places);
  for (std::size_t i = 0; i < shard_count(); ++i) {
    Share* const next = &shares[i * places];
    const std::scoped_lock lock(shards_[i]);
    std::copy_n(shards_[i].shares, places_, next);
    shards_[i].quota = 0;
    for (std::size_t place = 0; place < keys.size(); ++place) {
      next[place].full_until = {};
      if (keys[place] == 0) continue;
      if (keys[place] == kOneKey) {
        next[place].quota = std::numeric_limits<std::uint32_t>::max();
        shards_[i].quota += 1;
        continue;
      }
      const std::size_t part = keys[place] / shard_count();
      // At most kKeysMost, an eighth of it and a few.
      next[place].quota = static_cast<std::uint32_t>(std::min(keys[place], part + part / 8 + over));
      shards_[i].quota += next[place].quota;
    }
    shards_[i].shares = next;
  }
  shares_ = std::move(shares);
  places_ = places;
}

void Table::reserve(Shard& shard, std::size_t keys) {
  while (is_over_loaded(keys, shard.capacity.load(std::memory_order_relaxed)) && grow(shard)) {
  }
}

void Table::erase(Shard& shard, Slot* slot) noexcept {
  Slot* const slots = shard.slots.load(std::memory_order_relaxed);
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  const Row& row = rows_.at(slot->row());
  shard.shares[row.place].keys -= 1;
  release(row.shape, slot->words(), logs);
  auto hole = static_cast<std::size_t>(slot - slots);
  // Slots after the hole move back as long as that brings them no further
  // forward than their own place.
  for (std::size_t i = hole + 1 == capacity ? 0 : hole + 1; slots[i].row() != 0;
       i = i + 1 == capacity ? 0 : i + 1) {
    const Print print{slots[i].low.load(std::memory_order_relaxed), 0};
    const std::size_t home = place(print, capacity);
    const std::size_t from_home = (i + capacity - home) % capacity;
    const std::size_t from_hole = (i + capacity - hole) % capacity;
    if (from_home >= from_hole) {
      copy(slots[i], slots[hole]);
      if ((slots[hole].meta() & meta::kDirty) != 0) shard.note_part_of(slots[hole]);
      hole = i;
    }
  }
  clear(slots[hole]);
  shard.size.store(shard.size.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

bool Table::droppable(const Slot& slot, Instant now) const {
  if ((slot.meta() & meta::kWaiters) != 0) return false;
  const Row& row = rows_.at(slot.row());
  // A limit that is gone takes all its meters with it, recorded or not: see eras().
  if (!row.alive) return true;
  if (waits_for_store() && (slot.meta() & meta::kDirty) != 0) return false;
  return (slot.meta() & meta::kOverride) == 0 && is_initial(row.shape, slot.words(), logs, now);
}

std::size_t Table::sweep(Shard& shard, Instant now, std::size_t slots_max) {
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  Slot* const slots = shard.slots.load(std::memory_order_relaxed);
  std::size_t dropped = 0;
  // A window that is forgotten here must not come back for an earlier instant.
  const std::int64_t latest_ns = shard.latest_ns.load(std::memory_order_relaxed);
  shard.latest_ns.store(std::max(latest_ns, now.ns), std::memory_order_relaxed);
  for (std::size_t visited = 0; visited < std::min(slots_max, capacity);) {
    if (shard.sweep_at >= capacity) shard.sweep_at = 0;
    Slot& slot = slots[shard.sweep_at];
    if (slot.row() != 0 && droppable(slot, now)) {
      // What is stored of an unchanged one comes back in its initial state too.
      if ((slot.meta() & meta::kDirty) != 0) {
        forget(shard, &slot);
      } else {
        erase(shard, &slot);
      }
      // Another may have moved here: look again.
      dropped += 1;
    } else {
      shard.sweep_at += 1;
      visited += 1;
    }
  }
  return dropped;
}

// The first instant after `now` at which sweeping would make room for a key of the limit, if
// only time passes. What is in its initial state and was not dropped waits for something else.
Instant Table::droppable_from(const Shard& shard, std::size_t place, Instant now) const {
  const bool only_its_own = shard.shares[place].is_full();
  Instant first = kForever;
  const Slot* const slots = shard.slots.load(std::memory_order_relaxed);
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < capacity; ++i) {
    const Slot& slot = slots[i];
    if (slot.row() == 0 || (slot.meta() & (meta::kWaiters | meta::kOverride)) != 0) continue;
    const Row& row = rows_.at(slot.row());
    if (only_its_own && row.place != place) continue;
    const Instant from = initial_from(row.shape, slot.words(), logs, now);
    if (from > now) first = std::min(first, from);
  }
  return first;
}

// Room for one more key of the limit with this place.
bool Table::make_room(Shard& shard, std::size_t place, Instant now) {
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  Share& share = shard.shares[place];
  // To look through a full shard takes as long as a hundred decisions, and a client that invents
  // keys would have it done for each of them.
  if ((!share.is_full() && !is_full(shard)) || now >= share.full_until) {
    sweep(shard, now, capacity);
    if (share.is_full() || is_full(shard)) {
      share.full_until = std::min(now + kSweepAgain, droppable_from(shard, place, now));
    }
  }
  if (!share.is_full() && !is_full(shard)) {
    const std::size_t size = shard.size.load(std::memory_order_relaxed);
    return !is_over_loaded(size + 1, capacity) || grow(shard);
  }
  if (when_full_ == WhenFull::kRefuse) return false;
  Slot* const evicted = to_evict(shard, place, now);
  if (evicted == nullptr) return false;
  forget(shard, evicted);
  return true;
}

// Of the limit itself if it has its quota. Else the shard is full because shares have become
// smaller, and then one of a limit that has more than its quota. A few neighbours at a moving
// place stand for the whole shard.
Slot* Table::to_evict(Shard& shard, std::size_t place, Instant now) const {
  const std::uint64_t kept =
      meta::kWaiters | meta::kOverride | (waits_for_store() ? meta::kDirty : std::uint64_t{0});
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  const bool only_its_own = shard.shares[place].is_full();
  Slot* const slots = shard.slots.load(std::memory_order_relaxed);
  Slot* nearest = nullptr;
  Instant nearest_from = kForever;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < capacity && seen < kEvictionCandidates; ++i) {
    if (nearest != nullptr && i >= kEvictionVisits) break;
    if (shard.sweep_at >= capacity) shard.sweep_at = 0;
    Slot& slot = slots[shard.sweep_at++];
    if (slot.row() == 0 || (slot.meta() & kept) != 0) continue;
    const Row& row = rows_.at(slot.row());
    const Share& of_slot = shard.shares[row.place];
    if (only_its_own ? row.place != place : of_slot.keys <= of_slot.quota) continue;
    seen += 1;
    const Instant from = initial_from(row.shape, slot.words(), logs, now);
    if (from < nearest_from) {
      nearest = &slot;
      nearest_from = from;
    }
  }
  return nearest;
}

// Drops a meter of which a store may have another state.
void Table::forget(Shard& shard, Slot* slot) {
  if (durable_ == Durable::kYes && rows_.at(slot->row()).alive) {
    note_forgotten(shard, {slot->low.load(std::memory_order_relaxed),
                           slot->high.load(std::memory_order_relaxed) & kPrintHighMask});
  }
  erase(shard, slot);
}

bool Table::grow(Shard& shard) {
  Slot* const old_slots = shard.slots.load(std::memory_order_relaxed);
  const std::size_t old_capacity = shard.capacity.load(std::memory_order_relaxed);
  if (old_capacity >= capacity_max_) return false;
  const auto index = static_cast<std::size_t>(&shard - shards_.get());
  const std::size_t capacity = next_capacity(old_capacity);
  Slot* const new_slots = enter_stage(capacity) + index * capacity;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old_slots[i].row() == 0) continue;
    const Print print{old_slots[i].low.load(std::memory_order_relaxed), 0};
    std::size_t to = place(print, capacity);
    while (new_slots[to].row() != 0) to = to + 1 == capacity ? 0 : to + 1;
    copy(old_slots[i], new_slots[to]);
  }
  shard.slots.store(new_slots, std::memory_order_release);
  shard.capacity.store(static_cast<std::uint32_t>(capacity), std::memory_order_release);
  shard.sweep_at = 0;
  shard.changed_parts = ~std::uint64_t{0};  // slots have moved to other parts
  // A lock-free reader may still look at the old part; its version has moved, so it
  // does not believe what it reads there.
  if (old_capacity >= kPageSlots) {
    ::madvise(old_slots, old_capacity * sizeof(Slot), MADV_DONTNEED);
  }
  leave_stage(old_capacity);
  return true;
}

// The first slot of the stage with parts of this size, which has one user more.
Slot* Table::enter_stage(std::size_t capacity) {
  const std::scoped_lock lock(stages_lock_);
  auto stage = std::find_if(stages_.begin(), stages_.end(),
                            [&](const Stage& s) { return s.capacity == capacity; });
  if (stage == stages_.end()) {
    // Stages are as many as the constructor reserved addresses for.
    Slot* const begin = stages_[0].begin + mapped_slots_;
    mapped_slots_ += capacity * shard_count();
    stage = stages_.insert(stages_.end(), {begin, capacity, 0});
  }
  stage->users += 1;
  return stage->begin;
}

// The last shard to leave gives back what was too small to be given back in parts.
void Table::leave_stage(std::size_t capacity) {
  const std::scoped_lock lock(stages_lock_);
  for (Stage& stage : stages_) {
    if (stage.capacity != capacity) continue;
    stage.users -= 1;
    if (stage.users == 0) {
      ::madvise(stage.begin, capacity * shard_count() * sizeof(Slot), MADV_DONTNEED);
    }
  }
}

std::size_t Table::size() const noexcept {
  std::size_t total = 0;
  for (std::size_t i = 0; i < shard_count(); ++i) {
    total += shards_[i].size.load(std::memory_order_relaxed);
  }
  return total;
}

std::size_t Table::bytes() const noexcept {
  std::size_t total = 0;
  for (std::size_t i = 0; i < shard_count(); ++i) {
    total += shards_[i].capacity.load(std::memory_order_relaxed) * sizeof(Slot);
  }
  return total;
}

}  // namespace weir::engine
