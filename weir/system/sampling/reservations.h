// Reservations: grants that may still be committed or released.
//
// A reservation ends by its owner's word, or when its units leave the window, after which
// there is nothing to give back. So many are kept; beyond that the oldest becomes final.
//
// Numbers count up from the time in microseconds and from the last one that is known, so
// that none is given out twice, by a later process or after the clock was set back.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "weir/base/time.h"
#include "weir/system/sampling/journal.h"

namespace weir::system::sampling {

class Reservations {
 public:
  explicit Reservations(std::size_t kept_max) : kept_max_(kept_max) {}

  std::uint64_t next_number(Instant now) noexcept {
    const auto now_us = static_cast<std::uint64_t>(std::max<std::int64_t>(now.ns, 0)) / 1000;
    return std::max(last_ + 1, now_us);
  }

  // Was given out by an earlier process.
  void saw(std::uint64_t number) noexcept { last_ = std::max(last_, number); }

  // Requires a number that is not kept.
  void add(const Record& record) {
    saw(record.reservation);
    kept_.emplace(record.reservation, record);
    order_.push_back(record.reservation);
    if (kept_.size() > kept_max_) drop_first();
  }

  const Record* find(std::uint64_t number) const noexcept {
    const auto found = kept_.find(number);
    return found == kept_.end() ? nullptr : &found->second;
  }
  void erase(std::uint64_t number) noexcept { kept_.erase(number); }

  // Those whose units no longer count at `now`.
  void drop_old(Duration window, Instant now) noexcept {
    while (!order_.empty()) {
      const Record* const first = find(order_.front());
      if (first != nullptr && first->at + window > now) return;
      kept_.erase(order_.front());
      order_.pop_front();
    }
  }

  std::size_t size() const noexcept { return kept_.size(); }

 private:
  // The oldest that is kept, and what has ended before it.
  void drop_first() noexcept {
    while (!order_.empty()) {
      const bool was_kept = kept_.erase(order_.front()) > 0;
      order_.pop_front();
      if (was_kept) return;
    }
  }

  const std::size_t kept_max_;
  std::uint64_t last_ = 0;
  boost::unordered_flat_map<std::uint64_t, Record> kept_;
  std::deque<std::uint64_t> order_;  // also of those that have ended
};

}  // namespace weir::system::sampling
