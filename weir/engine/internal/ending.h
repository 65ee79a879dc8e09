// Ending: what ends a hold, and what comes back when it does.
//
//  1. A hold ends once. The call that takes its charges from the book gives all of them back
//     before it lets go of `ending_lock_`.
//  2. Calls that end holds share `ending_lock_`; a reset has it alone. So nothing that was
//     charged before a reset comes back after it.
//  3. Holds of one key are ended one by one, each whatever becomes of the others. The part of a
//     shared one ends in the store.
//  4. Waiters at a gate that got something back are tried after all locks are released.
//
// Thread safety: safe from any thread.

#pragma once

#include <optional>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

#include "weir/engine/engine.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/holds.h"
#include "weir/engine/internal/rules_in_force.h"

namespace weir::engine {

class Elsewhere;
class Waiting;
class Wakeup;

class EndingHolds {
 public:
  EndingHolds(Ground& ground, RulesInForce& rules, Elsewhere& elsewhere, Waiting& waiting,
              Wakeup& wakeup);

  // The book of active holds, and of those that have ended.
  Holds& holds() noexcept { return holds_; }
  Instant next_expiry() const noexcept { return holds_.next_expiry(); }
  std::size_t active() const noexcept { return holds_.active(); }

  // What is wrong with the actual costs of a hold, if something is.
  std::optional<Error> check_settlement(HoldId hold, std::span<const Cost> actual, Instant now);
  // `as`: kSettled or kCancelled. Says how the hold stands; only the first call changes it.
  HoldAnswer end(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now);
  Result<HoldState> renew(HoldId hold, Duration ttl, Instant now);
  // Ends every hold whose time has come.
  void expire(Instant now);
  // Forgets what one key has used, and what holds have been charged there.
  Status reset(std::string_view limit, std::span<const std::string_view> key, Instant now);
  // Cancels the holds of one key of these rules, of which the store is asked if the limit is
  // shared.
  void end_key(const KeyedLimit& keyed, std::span<const std::string_view> key, Instant now,
               EndedHoldsCallback callback);

 private:
  void end_all(std::span<const HoldId> holds, Instant now, EndedHoldsCallback callback);
  // Gives one charge back to a keyed limit (an overage: back < 0). True: a waiter has a place
  // there.
  bool give_back(const HoldCharge& charge, std::int64_t back, Instant now);
  // The same to a limit that is still here, where it ends as `end`. Needs the shard's lock.
  bool give_back(const ActiveLimit& limit, Shard& shard, const HoldCharge& charge,
                 std::int64_t back, Instant now, Ebbs::End& end);
  struct GivenBack {
    std::vector<Print> waited_for;  // the prints of gates where a waiter waits for what came back
    std::uint64_t record = 0;       // the last that tells of it
  };
  GivenBack give_back(const HoldCharges& charges, HoldState as, std::span<const Cost> actual,
                      Instant now);

  Ground& ground_;
  RulesInForce& rules_;
  Elsewhere& elsewhere_;
  Waiting& waiting_;
  Wakeup& wakeup_;
  Holds holds_;
  std::shared_mutex ending_lock_;
};

}  // namespace weir::engine
