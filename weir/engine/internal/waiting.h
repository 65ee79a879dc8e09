// Waiting: requests that wait in memory, first come first served, and no wake-up lost.
//
//  1. Everything here happens under the room's lock, which comes before the gates' locks.
//  2. A waiter has a place at each gate that ever bound it. A gate's slot, or seat, says that
//     it has waiters exactly as long as a waiter has a place there.
//  3. The thread that frees capacity at a gate with waiters tries the oldest waiter there; a
//     waiter that leaves lets the next one at each of its places be tried.
//  4. A waiter leaves the room once: with its answer, given up, or for the store because one of
//     its limits lives there now. Its ticket goes with it, and so does its age.
//  5. Answers are delivered after the lock is released, one after the other on each thread: an
//     answer that a callback brings about waits until that callback has returned.
//  6. `announced_ns_` of the wake-up is never later than what the hook was last told, or than what
//     advance() has left behind.
//  7. The hook is called under the wake-up's lock, so it is told of nothing once it has been
//     replaced.
//
// Thread safety: safe from any thread, but for the room: its caller holds `lock`.

#pragma once

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "weir/base/integer.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"
#include "weir/engine/internal/plan.h"

namespace weir::engine {

class Attempt;
class Counting;
class Elsewhere;
class EndingHolds;
class Resolver;
class RulesInForce;
class Waiting;
struct Ground;

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

// Wait room: who waits, where, in which order, and until when.
//
// Every waiter has a ticket; lower is older. It has a place at each gate that
// ever bound it. A request passes a gate only if no older waiter has a place there.
// So the oldest waiter of all is held up by meters alone, and every waiter becomes
// the oldest in time: none starves.
//
// This is bookkeeping only: the engine decides. A waiter's timer is the earlier
// of its deadline and the instant at which it is worth trying again.
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

// When the engine wants to be called, and who is told that it is sooner.
class Wakeup {
 public:
  Wakeup(const EndingHolds& ending, const Waiting& waiting) : ending_(ending), waiting_(waiting) {}

  // kForever: not at all.
  Instant next() const noexcept;
  // Something may be due sooner than it was.
  void announce();
  // advance() has been called: what was announced has come, or is gone.
  void advanced();
  void set_hook(std::function<void(Instant)> hook);

 private:
  void announce_next();  // requires lock_

  const EndingHolds& ending_;
  const Waiting& waiting_;
  std::mutex lock_;
  std::function<void(Instant)> hook_;
  std::atomic<bool> has_hook_{false};
  std::atomic<std::int64_t> announced_ns_{kForever.ns};
};

class Waiting {
 public:
  Waiting(Ground& ground, RulesInForce& rules, Counting& counting, Resolver& resolver,
          Elsewhere& elsewhere, Wakeup& wakeup);

  // For those who must know whether a waiter is older; under its lock.
  WaitRoom& room() noexcept { return room_; }
  Instant next_due() const noexcept { return room_.next_due(); }
  std::size_t size() const noexcept { return room_.size(); }
  std::size_t waiting_at(Print print);

  // Lets an ask wait that was denied at `now`; `plan` is of the rules `active`. True: it waits, and
  // `answers` has been told that it is answered later. False: `answer` is final, and counted.
  bool wait(const Ask& ask, std::shared_ptr<const Active> active, const Plan& plan, Instant now,
            std::size_t i, Answers& answers, Result<Decision>& answer);
  // Gives up a place in the room. True: its answer will not come. False: no such ticket waits here.
  bool give_up(std::uint64_t ticket, Instant now);

  // Tries the oldest at each of these gates, those whose time has come, or every waiter.
  void serve_gates(const std::vector<Print>& prints, Instant now);
  void serve_due(Instant now);
  void serve_all(Instant now);

 private:
  enum class Stays : std::uint8_t { kWaits, kAnswered, kMoved };

  // Tries a waiter once.
  Stays try_once(Waiter& waiter, Instant now, Result<Decision>& answer);
  Stays try_once(Waiter& waiter, Attempt& attempt, Result<Decision>& answer);
  // Plans again if newer rules are in force, or says what they find wrong.
  std::unique_ptr<Error> follow_rules(Waiter& waiter);
  // After a change of rules: keeps the places at limits that the request still meets.
  void keep_places(Waiter& waiter);
  // Gives up all places; the next waiter at each of them is added to `next`.
  void leave_places(Waiter& waiter, std::set<std::uint64_t>& next);
  void leave_place(Waiter& waiter, const Waiter::Held& held);
  // Tries waiters, oldest first, and those that move up because of them.
  std::vector<Served> serve(std::set<std::uint64_t> tickets, Instant now);
  void deliver(std::vector<Served> served, Instant now);
  void deliver(Served& served, Instant now);

  Ground& ground_;
  RulesInForce& rules_;
  Counting& counting_;
  Resolver& resolver_;
  Elsewhere& elsewhere_;
  Wakeup& wakeup_;
  WaitRoom room_;
};

}  // namespace weir::engine
