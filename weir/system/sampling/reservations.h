// Reservations: grants that may still be committed or released.
//
// A reservation ends by its owner's word, or when its units leave the window, after which
// there is nothing to give back. So many are kept; beyond that the oldest becomes final.
//
// How a reservation was ended is remembered until a window has passed since, so that who says it
// again, because the answer was lost, is answered the same again. So many are remembered; beyond
// that the first that ended is forgotten.
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
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

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

  // --- those that were ended by their owner

  // Both of a grant, which has at most 32 bits of tasks.
  struct End {
    std::int32_t created = 0;
    std::int32_t given_back = 0;
  };

  // Remembers how it was ended, until `until`. Instants do not decrease.
  void remember(std::uint64_t number, End end, Instant until) {
    if (!ends_.emplace(number, end).second) return;
    try {
      ended_.push_back({number, until});
    } catch (...) {
      ends_.erase(number);
      throw;
    }
    if (ended_.size() > kept_max_) forget_first();
  }
  void take_back(std::uint64_t number) noexcept {
    if (ended_.empty() || ended_.back().number != number) return;
    ended_.pop_back();
    ends_.erase(number);
  }
  // nullptr: it has not ended, or that is forgotten, or there was none.
  const End* end_of(std::uint64_t number) const noexcept {
    const auto found = ends_.find(number);
    return found == ends_.end() ? nullptr : &found->second;
  }
  void forget_old(Instant now) noexcept {
    while (!ended_.empty() && ended_.front().until <= now) forget_first();
  }

  std::size_t size() const noexcept { return kept_; }
  std::size_t ended() const noexcept { return ended_.size(); }
  std::size_t bytes() const noexcept {
    return line_.size() * sizeof(Record) + ended_.size() * sizeof(Ended) +
           ends_.bucket_count() * sizeof(std::pair<std::uint64_t, End>);
  }

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

  struct Ended {
    std::uint64_t number;
    Instant until;
  };
  void forget_first() noexcept {
    ends_.erase(ended_.front().number);
    ended_.pop_front();
  }

  const std::size_t kept_max_;
  std::uint64_t last_ = 0;
  std::size_t kept_ = 0;
  std::deque<Record> line_;                             // by number; also those that have ended
  std::deque<Ended> ended_;                             // in the order in which they did
  boost::unordered_flat_map<std::uint64_t, End> ends_;  // of those in ended_
};

}  // namespace weir::system::sampling
