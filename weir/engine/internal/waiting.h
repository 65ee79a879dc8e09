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
//
// Thread safety: safe from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "weir/engine/internal/attempt.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/resolver.h"
#include "weir/engine/internal/wait_room.h"

namespace weir::engine {

class Elsewhere;

class Waiting {
 public:
  Waiting(Ground& ground, RulesInForce& rules, Counting& counting, Resolver& resolver,
          Elsewhere& elsewhere, Wakeup& wakeup)
      : ground_(ground),
        rules_(rules),
        counting_(counting),
        resolver_(resolver),
        elsewhere_(elsewhere),
        wakeup_(wakeup),
        room_(ground.next_ticket) {}

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
