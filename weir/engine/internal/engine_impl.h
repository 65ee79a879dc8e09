// The inside of an engine: its owners, in the order in which they are made.

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
