#include "weir/engine/internal/rows.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <functional>

namespace weir::engine {
namespace {

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

}  // namespace weir::engine
