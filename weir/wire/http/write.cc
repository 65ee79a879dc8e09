#include "weir/wire/http/write.h"

#include <algorithm>

#include "weir/base/hold_text.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

void append_bool(std::string& out, bool value) { out += value ? "true" : "false"; }

void append_outcome(std::string& out, const Outcome& outcome) {
  out += R"({"limit":)";
  append_quoted(out, outcome.limit);
  out += R"(,"verdict":")";
  out += to_string(outcome.verdict);
  out += R"(","remaining":)";
  append_int(out, outcome.remaining);
  out += R"(,"capacity":)";
  append_int(out, outcome.capacity);
  out += R"(,"cost":)";
  append_int(out, outcome.cost);
  out += R"(,"shadow":)";
  append_bool(out, outcome.shadow);
  out += '}';
}

void append_hold_members(std::string& out, const Decision& decision) {
  if (!decision.hold) {
    out += R"(,"hold":null,"hold_expires":null)";
    return;
  }
  out += R"(,"hold":")";
  append_hold(out, decision.hold);
  out += R"(","hold_expires":)";
  append_instant(out, decision.hold_expires);
}

void append_limit_state(std::string& out, engine::Engine& engine, const engine::Rule& rule,
                        Instant now) {
  out += R"({"limit":)";
  append_quoted(out, rule.name);
  // Of a limit with one key in memory: answered before inspect() returns.
  if (rule.per.empty() && rule.gate == nullptr && !rule.shared) {
    engine.inspect(rule.name, {}, now, [&out](const Result<engine::Inspection>& found) {
      if (!found) return;
      out += R"(,"remaining":)";
      append_int(out, found->remaining);
      out += R"(,"capacity":)";
      append_int(out, found->capacity);
      out += R"(,"waiters":)";
      append_unsigned(out, found->waiters);
    });
  }
  out += R"(,"heaviest":)";
  append_heaviest(out, engine.heaviest(rule.name, kStateKeysMax));
  out += '}';
}

}  // namespace

unsigned status_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kAllowed:
      return 200;
    case Verdict::kDenied:
      return 429;
    case Verdict::kNever:
      return 422;
    case Verdict::kOverloaded:
    case Verdict::kQueued:
      return 503;
  }
  return 503;
}

void append_decision(std::string& out, const Decision& decision, Granted granted, Instant now) {
  out += R"({"verdict":")";
  out += to_string(decision.verdict);
  out += R"(","limit":)";
  if (const Outcome* binding = decision.binding()) {
    append_quoted(out, binding->limit);
  } else {
    out += "null";
  }
  out += R"(,"shortfall":)";
  append_int(out, decision.shortfall);
  out += R"(,"earliest":)";
  append_instant(out, decision.earliest);
  out += R"(,"earliest_ns":)";
  append_instant_ns(out, decision.earliest);
  out += R"(,"retry_after_ms":)";
  if (decision.earliest == kForever) {
    out += "null";
  } else {
    append_int(out, saturate(ceil_div(Wide{decision.retry_after(now).count()}, 1'000'000)));
  }
  if (granted == Granted::kAsked) {
    out += R"(,"granted":)";
    append_int(out, decision.granted);
  }
  append_hold_members(out, decision);
  out += R"(,"limits":[)";
  bool first = true;
  for (const Outcome& outcome : decision.outcomes()) {
    if (!first) out += ',';
    first = false;
    append_outcome(out, outcome);
  }
  out += "]}";
}

void append_heaviest(std::string& out, const std::vector<engine::HeavyKey>& keys) {
  out += '[';
  for (const engine::HeavyKey& heavy : keys) {
    if (out.back() != '[') out += ',';
    out += R"({"key":)";
    append_list(out, heavy.values, [&](const std::string& value) { append_quoted(out, value); });
    out += R"(,"units":)";
    append_int(out, heavy.units);
    out += '}';
  }
  out += ']';
}

void append_state(std::string& out, engine::Engine& engine, Instant now) {
  out += R"({"at":)";
  append_instant(out, now);
  out += R"(,"at_ns":)";
  append_instant_ns(out, now);
  out += R"(,"keys":)";
  append_unsigned(out, engine.usage().keys);
  out += R"(,"table_bytes":)";
  append_unsigned(out, engine.usage().table_bytes);
  out += R"(,"holds":)";
  append_unsigned(out, engine.usage().holds);
  out += R"(,"waiters":)";
  append_unsigned(out, engine.usage().waiters);
  out += R"(,"limits":[)";
  const auto rules = engine.rules();
  const std::size_t shown = std::min(kStateLimitsMax, rules->rules().size());
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) out += ',';
    append_limit_state(out, engine, rules->rules()[i], now);
  }
  out += "]}";
}

}  // namespace weir::wire::http
