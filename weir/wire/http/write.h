// Answers as JSON: decisions, the rules in force, the state of the engine.
//
//   {"verdict":"denied","limit":"per-client","shortfall":1,
//    "earliest":"2027-01-15T08:00:00.333333334Z","earliest_ns":1800000000333333334,
//    "retry_after_ms":334,"hold":null,"hold_expires":null,
//    "limits":[{"limit":"per-client","verdict":"denied","remaining":0,"capacity":200,
//               "cost":1,"shadow":false}]}
//
// Everything is appended to a string, with no tree in between.
//
// Thread safety: none needed. Nothing is shared.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/engine/rules.h"

namespace weir::wire::http {

// 200, 429, 503 or 422.
unsigned status_of(Verdict verdict) noexcept;

// Whether the request asked for "up to n": only then is `granted` part of the answer.
enum class Granted : bool { kNotAsked, kAsked };

// `retry_after_ms` is rounded up, so that waiting so long is never too short.
void append_decision(std::string& out, const Decision& decision, Granted granted, Instant now);

// {"limits":[{"name":…,"per":[…],"meter":{…},…}],"units":[…],"attributes":[…]}
void append_rules(std::string& out, const engine::RuleSet& rules);

// [{"key":"client=acme","units":123},…]
void append_heaviest(std::string& out, const std::vector<engine::HeavyKey>& keys);

// What the engine holds, and of each limit the heaviest keys; of one without a key
// also what remains. At most kStateLimitsMax limits.
constexpr std::size_t kStateLimitsMax = 64;
constexpr std::size_t kStateKeysMax = 5;
void append_state(std::string& out, engine::Engine& engine, Instant now);

}  // namespace weir::wire::http
