// Wait room: who waits, where, in which order, and until when.
//
// Every waiter has a ticket; lower is older. It has a place at each gate that
// ever bound it. A request passes a gate only if no older waiter has a place there.
// So the oldest waiter of all is held up by meters alone, and every waiter becomes
// the oldest in time: none starves.
//
// This is bookkeeping only: the engine decides. A waiter's timer is the earlier
// of its deadline and the instant at which it is worth trying again.
//
// Thread safety: the caller holds `lock`, which comes before all gates' locks.

#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/integer.h"
#include "weir/engine/ask.h"
#include "weir/engine/internal/owned_request.h"
#include "weir/engine/internal/plan.h"

namespace weir::engine {

// A request that waits, with all that is needed to try it again.
struct Waiter {
  explicit Waiter(const Request& asked) : request(asked) {}

  std::uint64_t ticket = 0;  // 0: the room gives it one
  OwnedRequest request;
  std::shared_ptr<const Active> active;
  Plan plan;
  Duration hold{};
  Instant deadline = kForever;
  LateAnswer late;
  Instant try_at = kForever;
  struct Held {
    Print print;  // of the limit and key
    Print place;  // the same, or one of several queues at a gate
    std::int64_t cost;
    std::shared_ptr<GateSeat> seat;  // of a gate
  };
  boost::container::small_vector<Held, 4> places;
};

struct Asking;  // elsewhere.h

// A waiter that has left the room: with its answer, or for the store.
struct Served {
  std::unique_ptr<Waiter> waiter;
  Result<Decision> answer;
  std::shared_ptr<Asking> moved;
};

class WaitRoom {
 public:
  // `next_ticket`: of this room and others, which share one order.
  explicit WaitRoom(std::atomic<std::uint64_t>& next_ticket) : next_ticket_(next_ticket) {}

  std::mutex lock;

  // The waiter, at an address that stays until it is removed.
  Waiter& add(std::unique_ptr<Waiter> waiter);
  // The waiter, which keeps its places still: leave_place() gives them up. Null: no such ticket.
  std::unique_ptr<Waiter> remove(std::uint64_t ticket);
  // Null: no such ticket.
  Waiter* find(std::uint64_t ticket);
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  std::vector<std::uint64_t> tickets() const;

  // Gives the waiter a place at a gate where it has none.
  void take_place(Waiter& waiter, Waiter::Held place);
  void leave_place(Waiter& waiter, Print place);
  static bool has_place(const Waiter& waiter, Print place);

  std::size_t waiting_at(Print place) const;
  // Whether a waiter with a lower ticket has a place there.
  bool older_at(Print place, std::uint64_t ticket) const;
  // Those with a lower ticket who have a place there, and what they want in all. Asked of one after
  // the other in the order of their tickets, all of a queue together take as long as it is.
  struct Ahead {
    std::size_t count = 0;
    std::int64_t units = 0;
  };
  Ahead ahead_at(Print place, std::uint64_t ticket);
  // The ticket of the oldest there; 0: there is none.
  std::uint64_t oldest_at(Print place) const;
  // Adds the oldest of each queue of a limit and key, of which only gates have several.
  void add_oldest_of(Print print, std::set<std::uint64_t>& tickets) const;

  void set_timer(Waiter& waiter, Instant try_at);
  // Tickets whose timer is at or before `now`, oldest first.
  std::vector<std::uint64_t> due(Instant now) const;
  Instant next_due() const noexcept { return Instant{next_due_ns_.load()}; }

 private:
  struct PrintHash {
    std::size_t operator()(Print print) const noexcept { return print.low; }
  };
  static Instant timer(const Waiter& waiter) { return earlier_of(waiter.try_at, waiter.deadline); }
  void forget_queue(Print print, Print place);
  void publish_next();

  std::atomic<std::uint64_t>& next_ticket_;
  std::map<std::uint64_t, std::unique_ptr<Waiter>> waiters_;
  struct Sum {
    std::size_t count = 0;
    Wide units = 0;

    void add(std::int64_t cost) { count += 1, units += cost; }
    void remove(std::int64_t cost) { count -= 1, units -= cost; }
  };
  struct Place {
    std::map<std::uint64_t, std::int64_t> costs;  // by ticket
    Sum total;
    // Where ahead_at() was last: those whose tickets are below this one.
    std::uint64_t counted_to = 0;
    Sum counted;

    void add(std::uint64_t ticket, std::int64_t cost);
    void remove(std::uint64_t ticket);
    Sum below(std::uint64_t ticket);
  };
  boost::unordered_flat_map<Print, Place, PrintHash> places_;
  // The queues of gates that have several: by limit and key.
  boost::unordered_flat_map<Print, std::vector<Print>, PrintHash> queues_;
  std::set<std::pair<Instant, std::uint64_t>> timers_;
  std::atomic<std::int64_t> next_due_ns_{kForever.ns};
  std::atomic<std::size_t> size_{0};
};

}  // namespace weir::engine
