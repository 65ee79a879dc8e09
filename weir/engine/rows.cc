#include "weir/engine/rows.h"

#include <algorithm>

namespace weir::engine {

std::string_view Rows::intern(std::string_view name) {
  for (const auto& known : names_) {
    if (*known == name) return *known;
  }
  return *names_.emplace_back(std::make_unique<std::string>(name));
}

Rows::Limit& Rows::known(std::string_view name, bool is_slots) {
  return by_limit_.try_emplace(name, Limit{{}, 0, is_slots}).first->second;
}

RowId Rows::add(std::string_view limit, const MeterShape& shape) {
  const std::string_view name = intern(limit);
  Limit& entry = known(name, engine::is_slots(shape));
  // Slots count what is in flight and the others what was spent.
  if (entry.is_slots != engine::is_slots(shape)) {
    entry.is_slots = !entry.is_slots;
    entry.era += 1;
  }
  for (const RowId id : entry.ids) {
    const Row& row = at(id);
    if (row.alive && row.era == entry.era && row.shape == shape) return id;
  }
  if (size_ + 1 >= kRowsMax) return 0;
  while (rows_[next_].load(std::memory_order_relaxed) != nullptr) {
    next_ = static_cast<RowId>(next_ + 1 == kRowsMax ? 1 : next_ + 1);
  }
  owned_.push_back(std::make_unique<Row>(Row{name, shape, true, entry.era, next_serial_++}));
  rows_[next_].store(owned_.back().get(), std::memory_order_release);
  entry.ids.push_back(next_);
  size_ += 1;
  return next_;
}

void Rows::retire(std::string_view limit) {
  Limit& entry = known(intern(limit), false);
  entry.era += 1;
  for (const RowId id : entry.ids) {
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
    std::erase_if(limit.ids, [&](RowId id) {
      if (in_use[id]) return false;
      rows_[id].store(nullptr, std::memory_order_release);
      size_ -= 1;
      return true;
    });
  }
  std::erase_if(owned_, [&](const std::unique_ptr<Row>& row) {
    return std::none_of(rows_.begin(), rows_.end(), [&](const std::atomic<const Row*>& held) {
      return held.load(std::memory_order_relaxed) == row.get();
    });
  });
}

}  // namespace weir::engine
