// Rules: limits that were checked and made ready, together and for good.
//
// compile() reports every mistake of a specification in one error, a line each,
// naming the limit. A rule set never changes; an engine swaps one for another, and
// several engines may share one.
//
//   auto rules = compile({.limits = {...}});
//   if (!rules) return complain(rules.error().message);
//   engine->swap(*rules, clock.now());
//
// Thread safety: a rule set is immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "weir/base/export.h"
#include "weir/base/result.h"
#include "weir/engine/limit.h"

namespace weir::engine {

constexpr std::size_t kLimitsMax = 1024;      // limits of one rule set
constexpr std::size_t kKeyAttributesMax = 8;  // attributes that form one limit's key
constexpr std::size_t kNameBytesMax = 128;    // of limits, attributes and units
constexpr std::size_t kPatternsMax = 4096;    // patterns of one condition, weights of one table
constexpr std::int64_t kWeightMax = std::int64_t{1} << 32;

class RuleSet;

// The gates that limits may name (GateRef).
using Gates = std::map<std::string, std::shared_ptr<Gate>, std::less<>>;

// The limits, ready to decide by. An error is kBadArgument and names all mistakes. A limit that
// names a gate which is not in `gates` is one; limits that name no gate need no `gates`.
WEIR_EXPORT Result<std::shared_ptr<const RuleSet>> compile(const RuleSetSpec& spec,
                                                           const Gates& gates = {}) noexcept;

}  // namespace weir::engine
