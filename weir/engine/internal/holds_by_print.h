// Holds by print: which active holds were charged at one key.
//
// A list of the charges of each few prints, linked both ways through nodes that are used
// again: a charge comes and goes in a few steps, and allocates nothing once there have been
// as many at a time.
//
// Thread safety: none; the book of holds has it under its lock.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/engine/print.h"

namespace weir::engine {

class HoldsByPrint {
 public:
  using Place = std::size_t;  // 0: none

  // A hold of this number was charged at `print`.
  Place add(Print print, std::uint64_t number) {
    if (free_ == 0) {
      free_ = nodes_.size();
      nodes_.emplace_back();
    }
    const Place place = free_;
    Node& node = nodes_[place];
    free_ = node.after;
    Place& head = heads_[list_of(print)];
    node = {print, number, 0, head};
    if (head != 0) nodes_[head].before = place;
    head = place;
    return place;
  }

  // Requires a place that add() gave.
  void remove(Place place) noexcept {
    Node& node = nodes_[place];
    (node.before != 0 ? nodes_[node.before].after : heads_[list_of(node.print)]) = node.after;
    if (node.after != 0) nodes_[node.after].before = node.before;
    node.after = free_;
    free_ = place;
  }

  // Calls `visit` with the number of each hold that was charged at `print`, the last first, until
  // it says false. It must change nothing here.
  template <typename Visitor>
  void for_each(Print print, Visitor&& visit) const {
    for (Place at = heads_[list_of(print)]; at != 0; at = nodes_[at].after) {
      if (nodes_[at].print == print && !visit(nodes_[at].number)) return;
    }
  }

 private:
  static constexpr std::size_t kLists = 4096;

  struct Node {
    Print print;
    std::uint64_t number = 0;
    Place before = 0;
    Place after = 0;  // of a free one: the next free one
  };

  // Prints are as good as random.
  static std::size_t list_of(Print print) noexcept { return print.high % kLists; }

  std::array<Place, kLists> heads_{};
  std::vector<Node> nodes_ = std::vector<Node>(1);  // the first is none
  Place free_ = 0;
};

}  // namespace weir::engine
