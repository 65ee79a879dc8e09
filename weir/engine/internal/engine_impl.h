// The inside of an engine: its owners, in the order in which they are made.
//
// Each owner has the state that its name says, and its header says by number what holds
// there. An owner may refer to one that is made after it, but uses none before all are
// made. Engine's functions are thin: they check `now` and ask an owner.
//
//   ground          options, table, rows, what threads keep
//   counting        how often each limit decided what
//   rules           which limits are in force
//   wakeup          when the engine wants to be called
//   ending          holds, and what comes back when they end
//   resolver        one decision, by the long way
//   elsewhere       limits that are kept in a store
//   waiting         requests that wait in memory
//   decider         asks, and the short way of a decision
//   collecting      what a store is given
//
// Thread safety: that of each owner.

#pragma once

#include "weir/engine/engine.h"
#include "weir/engine/internal/collecting.h"
#include "weir/engine/internal/counting.h"
#include "weir/engine/internal/decider.h"
#include "weir/engine/internal/elsewhere.h"
#include "weir/engine/internal/ending.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/resolver.h"
#include "weir/engine/internal/rules_in_force.h"
#include "weir/engine/internal/waiting.h"
#include "weir/engine/internal/wakeup.h"

namespace weir::engine {

struct Engine::Impl {
  explicit Impl(const EngineOptions& given) : ground(given) {}

  Ground ground;
  Counting counting{ground};
  RulesInForce rules{ground, counting};
  Wakeup wakeup{ending, waiting};
  EndingHolds ending{ground, rules, waiting, wakeup};
  Resolver resolver{ground, rules, counting, ending, waiting, wakeup};
  Elsewhere elsewhere{ground, rules, counting, resolver, ending};
  Waiting waiting{ground, rules, counting, resolver, elsewhere, wakeup};
  Decider decider{ground, rules, counting, resolver, waiting, elsewhere};
  Collecting collecting{ground, rules, ending.holds()};
  std::atomic<std::size_t> sweep_shard{0};
};

}  // namespace weir::engine
