// Shared: limits that are kept outside this process, one for a whole fleet.
//
// A limit with `shared` has no meter in the engine's table. The engine plans the request,
// charges its other limits under a hold, and asks a SharedStore for these, all of them at
// once; if the store refuses, the hold is cancelled.
//
//   request ─► plan ─► local limits, held ─► store: check and charge all ─► answer
//                             └─ refused: nothing is asked of the store
//
// A limit with a lease may be decided here, from what the store has drawn ahead of it
// (SharedStore::decide_leased): then the store is not asked.
//
// Thread safety: a store is called from any thread, and calls back from any.

#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"
#include "weir/engine/meter.h"
#include "weir/engine/print.h"
#include "weir/engine/request.h"
#include "weir/engine/rule_set.h"
#include "weir/engine/rules.h"
#include "weir/meter/step.h"

namespace weir::engine {

class Engine;

// One shared limit that a request meets.
struct SharedItem {
  const Rule* rule = nullptr;
  boost::container::small_vector<std::string_view, 2> key;  // values of its key attributes
  std::int64_t cost = 0;                                    // weight applied
  std::int64_t weight = 1;
  Print print{};  // stands for the limit and the key in this process
};

// The same without its key.
struct LeasedItem {
  const Rule* rule = nullptr;
  Print print{};
  std::int64_t cost = 0;
};

struct SharedAsk {
  std::shared_ptr<const RuleSet> rules;  // of the items
  std::span<const SharedItem> items;     // in the order of the rules
  HoldId hold{};                         // to be kept with the charges; none: no hold
  Duration ttl{};
  bool is_peek = false;     // charge nothing
  bool is_partial = false;  // if refused, less will be asked for: what is left must be exact
  Instant now{};            // of this process
};

// What one shared limit said.
struct SharedOutcome {
  meter::Check check;
  std::int64_t before = 0;  // units left, negative in debt
  std::int64_t after = 0;   // the same if the cost is charged
};

struct SharedAnswer {
  Instant now{};                                              // of the store, at which it decided
  boost::container::small_vector<SharedOutcome, 4> outcomes;  // one for each item
  bool is_held = false;                                       // the store keeps the hold
};

// What the store has of one key.
struct SharedLevel {
  std::int64_t remaining = 0;            // negative in debt
  std::optional<std::int64_t> leased{};  // drawn ahead by this process; of a limit with a lease
};

// How the store's part of a hold ended.
struct SharedEnd {
  HoldState state = HoldState::kGone;
  // Names of limits that would have owed more than they may, and were charged less.
  boost::container::small_vector<std::string, 1> clipped{};
};

using HoldStateCallback = std::function<void(const Result<HoldState>&)>;
using SharedEndCallback = std::function<void(const Result<SharedEnd>&)>;
using HoldsCallback = std::function<void(Result<std::vector<HoldId>>)>;
using LevelCallback = std::function<void(Result<SharedLevel>)>;
using SharedCallback = std::function<void(Result<SharedAnswer>)>;

class SharedStore {
 public:
  virtual ~SharedStore() = default;

  // Charges every item, or none if one that is enforced refuses. The keys of the items live
  // until `callback` is gone, the rest of `ask` until this returns. An error: nothing may be
  // started.
  virtual void decide(const SharedAsk& ask, SharedCallback callback) = 0;

  // Charges every item at once, out of what was drawn ahead of them, all or none. True: every item
  // has been charged, or the outcomes say which one is refused. False: nothing has changed, and
  // decide() must be asked. Instants are those of this process. Requires as many outcomes as items,
  // all of limits with a lease.
  virtual bool decide_leased(std::span<const LeasedItem> /*items*/, Instant /*now*/,
                             std::span<SharedOutcome> /*outcomes*/) {
    return false;
  }

  // Ends or renews the store's part of a hold, whichever engine made it. `as`: kSettled or
  // kCancelled. `actual` is read before this returns.
  virtual void end(HoldId hold, HoldState as, std::span<const Cost> actual,
                   std::shared_ptr<const RuleSet> rules, Instant now,
                   SharedEndCallback callback) = 0;
  virtual void renew(HoldId hold, Duration ttl, Instant now, HoldStateCallback callback) = 0;
  // A hold was ended that it has not said to keep: one of memory alone, or one that it may have
  // made without answering in time. `actual` is read before this returns.
  virtual void ended_here(HoldId /*hold*/, HoldState /*as*/, std::span<const Cost> /*actual*/,
                          Instant /*now*/) {}

  // What is left of one key, and forgetting what it has used. `item` has no cost, and is read
  // before this returns.
  virtual void inspect(const SharedItem& item, const std::shared_ptr<const RuleSet>& rules,
                       Instant now, LevelCallback callback) = 0;
  virtual void reset(const SharedItem& item, const std::shared_ptr<const RuleSet>& rules,
                     Instant now, StatusCallback callback) = 0;

  // The holds that have slots of one key, those that end first, at most `most`. `item` is read
  // before this returns. Requires a limit of slots.
  virtual void holds(const SharedItem& item, std::size_t most, HoldsCallback callback) = 0;

  // Calls `work` with the time after `span`; never, if the store ends before.
  virtual void later(Duration span, std::function<void(Instant now)> work) = 0;
};

// Where an engine's shared limits are kept from now on; it must outlive every call of the engine.
// nullptr: requests that meet a shared limit fail.
void set_store(Engine& engine, SharedStore* store) noexcept;

}  // namespace weir::engine
