// Lanes by length: which cluster has most queries in the queue.
//
// Clusters with as many queries stand in one list, the one that came to that length last in front:
//
//   1: c    2: -    3: b a        longest() is b; with one less it is in the list of 2, and a is
//
// Lengths change by one at a time, so that every change is a few links.
//
// Thread safety: none; the worker has it.

#pragma once

#include <cstdint>
#include <vector>

#include "weir/system/compute/queries.h"

namespace weir::system::compute {

class Lanes {
 public:
  // kNowhere: nobody waits.
  Place longest() const noexcept { return most_ == 0 ? kNowhere : fronts_[most_]; }

  // `who` has `after` queries now, one more or one less than it had.
  void change(Place who, std::uint32_t before, std::uint32_t after) {
    if (before > 0) leave(who, before);
    if (after > 0) join(who, after);
    most_ = after > most_ ? after : most_;
    if (most_ > 0 && fronts_[most_] == kNowhere) most_ -= 1;  // whoever left is one below
  }

 private:
  struct Link {
    Place before = kNowhere;
    Place after = kNowhere;
  };

  void join(Place who, std::uint32_t length) {
    if (length >= fronts_.size()) fronts_.resize(std::size_t{length} + 1, kNowhere);
    if (who >= links_.size()) links_.resize(std::size_t{who} + 1);
    const Place next = fronts_[length];
    links_[who] = {kNowhere, next};
    if (next != kNowhere) links_[next].before = who;
    fronts_[length] = who;
  }
  void leave(Place who, std::uint32_t length) noexcept {
    const Link link = links_[who];
    (link.before == kNowhere ? fronts_[length] : links_[link.before].after) = link.after;
    if (link.after != kNowhere) links_[link.after].before = link.before;
  }

  std::vector<Link> links_;
  std::vector<Place> fronts_;  // by length
  std::uint32_t most_ = 0;     // the greatest length of which there is a lane
};

}  // namespace weir::system::compute
