#include "weir/engine/rows.h"

#include <algorithm>

namespace weir::engine {

std::string_view Rows::intern(std::string_view name) {
  for (const auto& known : names_) {
    if (*known == name) return *known;
  }
  return *names_.emplace_back(std::make_unique<std::string>(name));
}

RowId Rows::add(std::string_view limit, const MeterShape& shape) {
  const std::string_view name = intern(limit);
  Limit& known = by_limit_[name];
  // Slots count what is in flight and the others what was spent.
  if (known.is_slots != engine::is_slots(shape)) {
    known.is_slots = !known.is_slots;
    known.era += 1;
  }
  for (const RowId id : known.ids) {
    const Row& row = at(id);
    if (row.alive && row.era == known.era && row.shape == shape) return id;
  }
  if (size_ + 1 >= kRowsMax) return 0;
  while (rows_[next_].load(std::memory_order_relaxed) != nullptr) {
    next_ = static_cast<RowId>(next_ + 1 == kRowsMax ? 1 : next_ + 1);
  }
  owned_.push_back(std::make_unique<Row>(Row{name, shape, true, known.era}));
  rows_[next_].store(owned_.back().get(), std::memory_order_release);
  known.ids.push_back(next_);
  size_ += 1;
  return next_;
}

void Rows::retire(std::string_view limit) {
  const auto found = by_limit_.find(limit);
  if (found == by_limit_.end()) return;
  found->second.era += 1;
  for (const RowId id : found->second.ids) {
    if (!at(id).alive) continue;
    // Replaced by a dead copy rather than changed: a reader may hold the old one.
    Row dead = at(id);
    dead.alive = false;
    owned_.push_back(std::make_unique<Row>(dead));
    rows_[id].store(owned_.back().get(), std::memory_order_release);
  }
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
