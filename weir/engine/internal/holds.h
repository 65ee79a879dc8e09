// Holds: admissions that can still be settled, cancelled or renewed.
//
// A hold remembers what was charged where. It ends once: settled, cancelled, or
// expired at its time. The call that ends it gets its charges, to give them back; a
// second call is told how it ended. Ended holds are remembered until their time,
// bounded in number. A call that comes later still is told `gone`. It frees nothing
// of any other hold, because numbers are never reused.
//
// The owner word of an id is a keyed word of its number: who has seen the ids of some holds
// cannot name others. An id with another word names no hold, whatever its number.
//
// Durable holds also remember which of them changed since they were last collected
// for a store: active ones that are new or renewed, and ended ones that a store has
// seen active. There are never more of either than holds_max.
//
// Thread safety: safe from any thread; locks nothing but itself.

#pragma once

#include <array>
#include <atomic>
#include <boost/circular_buffer.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/keyed_word.h"
#include "weir/engine/ask.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/print.h"
#include "weir/engine/state.h"

namespace weir::engine {

// Holds by print: which active holds were charged at one key.
//
// A list of the charges of each few prints, linked both ways through nodes that are used
// again: a charge comes and goes in a few steps, and allocates nothing once there have been
// as many at a time.
//
// Thread safety: none; the book of holds has it under its lock.
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

struct HoldCharge {
  std::string_view limit;  // interned
  std::string_view unit;   // interned
  Print print;
  std::shared_ptr<GateSeat> seat;  // for a gate
  std::int64_t amount = 0;         // weight applied
  std::int64_t weight = 1;
  Instant charged_at{};
  std::uint64_t era = 0;                // of the limit's meters
  MeterKind kind = MeterKind::kBucket;  // unless it is a gate's
  std::uint64_t receipt = 0;      // of a gate, or the mark of an ebb; 0: of an earlier process
  HoldsByPrint::Place place = 0;  // in the book
};

using HoldCharges = boost::container::small_vector<HoldCharge, 4>;

constexpr std::size_t kSpareRoomsMax = 1024;  // for long lists of charges, when their holds end

class Holds {
 public:
  Holds(std::uint64_t owner, std::size_t holds_max, bool durable = false)
      : owner_(owner), holds_max_(holds_max), durable_(durable) {}

  // Room for one more? Asked before charging, so that add() cannot fail.
  bool reserve();
  void unreserve();  // the reserved place was not needed
  HoldId add(HoldCharges charges, Instant expires);

  // An empty list with room for `count` charges. Where they do not fit in place, their memory
  // is that of a hold that has ended, if there is any.
  HoldCharges room_for(std::size_t count);
  // Keeps the memory of charges that are done with.
  void recycle(HoldCharges charges) noexcept;

  // Ends an active hold and returns its charges, or nothing and how it ended.
  std::pair<std::optional<HoldCharges>, HoldState> end(HoldId id, HoldState as, Instant now);

  // Extends an active hold. True: it lasts until `expires`. False: it is not active.
  bool renew(HoldId id, Instant expires, Instant now);

  HoldState state(HoldId id, Instant now);

  // The meter of `print` begins anew: no hold gives back what it was charged there before, or
  // is charged more.
  void forget_charges(Print print);

  // The holds that were charged at a key, the last first, at most `most`; of a gate none.
  std::vector<HoldId> charged_at(Print print, std::size_t most);

  // A store keeps a part of it. Known until the process ends.
  void note_shared(HoldId id);

  // Where an active hold was charged in `unit`, and at which weight: the heaviest, if at all.
  struct Weighed {
    std::string_view limit;
    std::int64_t weight;
  };
  std::optional<Weighed> charged_in(HoldId id, std::string_view unit);

  // The charges of one hold that expires at or before `now`, if there is one.
  std::optional<HoldCharges> expire_one(Instant now);

  // Appends up to `most` of the new and renewed holds, which then count as unchanged.
  // True: there are more.
  bool collect(std::size_t most, Instant now, HoldChanges& out);
  // Appends the numbers of those that have ended.
  void collect_ended(HoldChanges& out);
  // The changes were collected in vain: they are to be collected again. Of several, the
  // last first.
  void uncollect(const HoldChanges& changes);

  // A hold of an earlier process. True: it is active, and numbers given out from now on are higher.
  // False: there are holds_max already.
  bool restore(std::uint64_t number, Instant expires, HoldCharges charges);
  // Numbers given out from now on are not below `number`.
  void skip_to(std::uint64_t number);

  // When the next hold expires; kForever: there is none. May be early.
  Instant next_expiry() const noexcept { return Instant{next_expiry_ns_.load()}; }
  std::size_t active() const noexcept { return active_.load(std::memory_order_relaxed); }

 private:
  struct Hold {
    Instant expires{};
    HoldCharges charges;
    bool is_stored = false;  // a store may have it
    bool is_shared = false;  // a store keeps a part of it
  };
  struct Ended {
    Instant expires{};  // when it is forgotten
    HoldState state = HoldState::kGone;
  };
  HoldId id_of(std::uint64_t number) const noexcept { return {owned_word(owner_, number), number}; }
  bool is_ours(HoldId id) const noexcept { return id.owner == owned_word(owner_, id.number); }

  using Due = std::pair<Instant, std::uint64_t>;

  // Null: not active, or past its time, even if expire_one() has not come to it yet.
  Hold* find(HoldId id, Instant now);
  void list(std::uint64_t number, HoldCharges& charges);
  void unlist(const HoldCharges& charges);
  // How it ended, if that is still remembered.
  HoldState ended_as(HoldId id, Instant now) const;
  void remember(std::uint64_t number, const Ended& ended);
  void add_due(Instant expires, std::uint64_t number);
  bool is_stale(const Due& due) const;
  void forget_stale_order();
  void note_changed(std::uint64_t number);
  void note_ended(std::uint64_t number, const Hold& hold);
  void forget_stale_dues();
  void publish_next();

  const std::uint64_t owner_;  // the key of the words
  const std::size_t holds_max_;
  const bool durable_;
  std::mutex lock_;
  boost::unordered_flat_map<std::uint64_t, Hold> holds_;   // active
  boost::unordered_flat_map<std::uint64_t, Ended> ended_;  // settled or cancelled
  boost::circular_buffer<std::uint64_t> ended_order_;      // oldest first; may name forgotten ones
  HoldsByPrint by_print_;                                  // of what `holds_` were charged
  std::vector<Due> dues_;                                  // a heap; some are stale
  boost::unordered_flat_set<std::uint64_t> changed_;       // active ones, new or renewed
  std::vector<std::uint64_t> ended_since_;                 // that a store may have
  std::vector<HoldCharges> spare_rooms_;                   // empty lists
  std::uint64_t next_number_ = 1;
  std::atomic<std::size_t> active_{0};
  std::atomic<std::int64_t> next_expiry_ns_{kForever.ns};
};

}  // namespace weir::engine
