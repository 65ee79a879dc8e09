// Turns: a ring of those who may start, each once around.
//
//   a -> b -> c -> a ...     take() says a, then b; one that joins comes last, after c
//
// Thread safety: none; the worker has it.

#pragma once

#include <vector>

#include "weir/system/compute/queries.h"

namespace weir::system::compute {

class Turns {
 public:
  bool has(Place who) const noexcept {
    return who < links_.size() && links_[who].after != kNowhere;
  }
  bool empty() const noexcept { return turn_ == kNowhere; }

  // Behind all others. Requires that it is not there.
  void join(Place who) {
    if (who >= links_.size()) links_.resize(std::size_t{who} + 1);
    if (turn_ == kNowhere) {
      links_[who] = {who, who};
      turn_ = who;
      return;
    }
    const Place last = links_[turn_].before;
    links_[who] = {last, turn_};
    links_[last].after = who;
    links_[turn_].before = who;
  }

  // Requires that it is there.
  void leave(Place who) noexcept {
    const Link link = links_[who];
    if (link.after == who) {
      turn_ = kNowhere;
    } else {
      links_[link.before].after = link.after;
      links_[link.after].before = link.before;
      if (turn_ == who) turn_ = link.after;
    }
    links_[who] = {};
  }

  // Whose turn it is; the next one's comes after it. Requires that the ring is not empty.
  Place take() noexcept {
    const Place who = turn_;
    turn_ = links_[who].after;
    return who;
  }

 private:
  struct Link {
    Place before = kNowhere;
    Place after = kNowhere;  // kNowhere: not in the ring
  };

  std::vector<Link> links_;
  Place turn_ = kNowhere;
};

}  // namespace weir::system::compute
