// Resolver: one decision by the long way: new keys, gates, slots and holds, bookings, parts,
// queues.
//
//  1. All limits of a plan are locked, checked and charged together, or none is charged.
//  2. A newcomer passes a gate only if no waiter has a place there that it takes from.
//  3. Nothing is charged without room for the hold that will bring it back.
//  4. A plan of rules that are no longer in force decides nothing.
//
// Limits that live in a store are not its business: no plan given to it has one.
//
// Thread safety: safe from any thread; resolve() needs what it says.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/engine/ask.h"
#include "weir/engine/internal/attempt.h"
#include "weir/engine/internal/counting.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/rules_in_force.h"

namespace weir::engine {

class EndingHolds;
class Waiting;
class Wakeup;

enum class Mode : std::uint8_t {
  kCharge,
  kAhead,  // charge; an admission is not the last word: it is not counted
  kTry,    // charge; a denial is not the last word: it is neither counted nor told to gates
  kPeek,
};

constexpr std::uint64_t kNewcomer = ~std::uint64_t{0};

// What is wrong with what an ask wants beside its request, if something is.
std::optional<Error> check_ask(const EngineOptions& options, const Ask& ask, Instant now);

// The error for an ask that would book a start at a limit that cannot be booked ahead.
Error not_bookable(const ActiveLimit& limit);

class Resolver {
 public:
  Resolver(Ground& ground, RulesInForce& rules, Counting& counting, EndingHolds& ending,
           Waiting& waiting, Wakeup& wakeup)
      : ground_(ground),
        rules_(rules),
        counting_(counting),
        ending_(ending),
        waiting_(waiting),
        wakeup_(wakeup) {}

  // Decides, and counts the decision if it is final. True: `answer` has it. False: newer rules are
  // in force, plan again.
  bool decide(const Plan& plan, const Ask& ask, Mode mode, Instant now, Result<Decision>& answer);

  // What one key has left. None: newer rules are in force than those given.
  std::optional<Inspection> inspect(const Active& rules, const KeyedLimit& keyed, Instant now);

  // The part between lock and unlock. `ticket`: that of a waiter, or kNewcomer.
  // Requires the room's lock if a waiter has a place at a gate of the plan.
  Status resolve(Attempt& attempt, const Plan& plan, const Ask& ask, Mode mode,
                 std::uint64_t ticket, Decision& decision);

 private:
  enum class Attempted : std::uint8_t {
    kDone,
    kMetWaiters,  // try again with the room's lock
    kStale,       // newer rules are in force: plan again
  };
  Attempted attempt_once(const Plan& plan, const Ask& ask, Mode mode, Instant now, bool in_room,
                         Result<Decision>& answer);

  Ground& ground_;
  RulesInForce& rules_;
  Counting& counting_;
  EndingHolds& ending_;
  Waiting& waiting_;
  Wakeup& wakeup_;
};

}  // namespace weir::engine
