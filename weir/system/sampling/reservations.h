// Reservations: grants that may still be committed or released.
//
// A reservation ends by its owner's word, or when its units leave the window, after which
// there is nothing to give back. So many are kept; beyond that the oldest becomes final.
//
// Numbers count up from the time in microseconds and from the last one that is known, so
// that none is given out twice, by a later process or after the clock was set back. So they
// are in order, and found by it; those that have ended stay in the line until an eighth of it
// has.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "weir/base/time.h"
#include "weir/system/sampling/journal.h"

namespace weir::system::sampling {

class Reservations {
 public:
  explicit Reservations(std::size_t kept_max) : kept_max_(kept_max) {}

  std::uint64_t next_number(Instant now) const noexcept {
    const auto now_us = static_cast<std::uint64_t>(std::max<std::int64_t>(now.ns, 0)) / 1000;
    return std::max(last_ + 1, now_us);
  }

  // Was given out by an earlier process.
  void saw(std::uint64_t number) noexcept { last_ = std::max(last_, number); }

  // A grant whose number is not above all others, as in a file that was changed by hand, is
  // final at once.
  void add(const Record& record) {
    saw(record.reservation);
    if (!line_.empty() && record.reservation <= line_.back().reservation) return;
    line_.push_back(record);
    kept_ += 1;
    if (kept_ > kept_max_) drop_first();
  }

  const Record* find(std::uint64_t number) const noexcept {
    const std::size_t place = place_of(number);
    return place < line_.size() ? &line_[place] : nullptr;
  }

  void erase(std::uint64_t number) noexcept {
    const std::size_t place = place_of(number);
    if (place == line_.size()) return;
    line_[place].units = kEnded;
    kept_ -= 1;
    if (line_.size() - kept_ > kept_ / 8 + kEndedMin) {
      std::erase_if(line_, [](const Record& each) { return each.units == kEnded; });
    }
  }

  // Those whose units no longer count at `now`.
  void drop_old(Duration window, Instant now) noexcept {
    while (!line_.empty()) {
      const Record& first = line_.front();
      if (first.units != kEnded && first.at + window > now) return;
      kept_ -= first.units != kEnded ? 1 : 0;
      line_.pop_front();
    }
  }

  std::size_t size() const noexcept { return kept_; }
  std::size_t bytes() const noexcept { return line_.size() * sizeof(Record); }

 private:
  static constexpr std::int64_t kEnded = 0;  // units; a grant has at least one
  static constexpr std::size_t kEndedMin = 1024;

  // Beyond the line: it is not kept.
  std::size_t place_of(std::uint64_t number) const noexcept {
    const auto found = std::lower_bound(
        line_.begin(), line_.end(), number,
        [](const Record& each, std::uint64_t sought) { return each.reservation < sought; });
    const bool is_kept =
        found != line_.end() && found->reservation == number && found->units != kEnded;
    return is_kept ? static_cast<std::size_t>(found - line_.begin()) : line_.size();
  }

  // The oldest that is kept, and what has ended before it.
  void drop_first() noexcept {
    while (!line_.empty()) {
      const bool was_kept = line_.front().units != kEnded;
      line_.pop_front();
      if (!was_kept) continue;
      kept_ -= 1;
      return;
    }
  }

  const std::size_t kept_max_;
  std::uint64_t last_ = 0;
  std::size_t kept_ = 0;
  std::deque<Record> line_;  // by number; also those that have ended
};

}  // namespace weir::system::sampling
