#include "weir/wire/http/headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "weir/base/time.h"
#include "weir/engine/meter.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

using engine::MeterShape;
using engine::Rule;

std::int64_t ceil_seconds(Wide span_ns) { return saturate(ceil_div(span_ns, kNsPerSecond)); }

void append_capped(std::string& out, std::int64_t value) {
  append_int(out, std::clamp<std::int64_t>(value, 0, kHeaderIntegerMax));
}

// The parameters of the limit, if the key has none of its own. Another capacity: the rules
// have changed since the decision.
const MeterShape* shape_of(const Rule* rule, const Outcome& outcome) {
  const bool is_known = rule != nullptr && rule->gate == nullptr && !outcome.overridden &&
                        engine::capacity(rule->shape) == outcome.capacity;
  return is_known ? &rule->shape : nullptr;
}

// How long `units` take to come back, at most.
Wide refill_ns(const meter::BucketShape& shape, std::int64_t units) {
  return ceil_div(Wide{units} * shape.den, shape.num);
}
Wide refill_ns(const meter::TickerShape& shape, std::int64_t units) {
  return ceil_div(units, shape.per_tick) * shape.interval_ns;
}

// `w`; nothing for slots, which know no time.
std::optional<std::int64_t> window_seconds(const MeterShape& shape, Instant now) {
  if (const auto* bucket = std::get_if<meter::BucketShape>(&shape)) {
    return ceil_seconds(refill_ns(*bucket, bucket->burst));
  }
  if (const auto* ticker = std::get_if<meter::TickerShape>(&shape)) {
    return ceil_seconds(refill_ns(*ticker, ticker->burst));
  }
  if (const auto* window = std::get_if<meter::WindowShape>(&shape)) {
    if (window->length_ns > 0) return ceil_seconds(window->length_ns);
    const meter::TimeSpan span = meter::calendar_span(window->unit, now);
    return ceil_seconds((span.end - span.begin).count());
  }
  if (const auto* log = std::get_if<meter::LogShape>(&shape)) return ceil_seconds(log->window_ns);
  return std::nullopt;
}

// After an admission: when at the latest there is more; nothing if that is unknown, or
// there is nothing more to come.
std::optional<Instant> more_at(const MeterShape& shape, const Outcome& outcome, Instant now) {
  if (outcome.remaining >= outcome.capacity) return std::nullopt;
  if (const auto* bucket = std::get_if<meter::BucketShape>(&shape)) {
    return now + Duration{saturate(refill_ns(*bucket, 1))};
  }
  if (const auto* ticker = std::get_if<meter::TickerShape>(&shape)) {
    return now + Duration{ticker->interval_ns};
  }
  if (const auto* window = std::get_if<meter::WindowShape>(&shape)) {
    return meter::window_end(*window, now);
  }
  return std::nullopt;
}

// When at the latest everything is back if no more is taken, given what is missing now.
std::optional<Instant> reset_at(const MeterShape& shape, std::int64_t missing, Instant now) {
  if (const auto* bucket = std::get_if<meter::BucketShape>(&shape)) {
    return now + Duration{saturate(refill_ns(*bucket, missing))};
  }
  if (const auto* ticker = std::get_if<meter::TickerShape>(&shape)) {
    return now + Duration{saturate(refill_ns(*ticker, missing))};
  }
  if (const auto* window = std::get_if<meter::WindowShape>(&shape)) {
    return meter::window_end(*window, now);
  }
  if (const auto* log = std::get_if<meter::LogShape>(&shape)) {
    if (missing == 0) return now;
    // Stamps are rounded up to the grain.
    return now + Duration{log->window_ns + (log->grain_ns > 1 ? log->grain_ns : 0)};
  }
  return std::nullopt;
}

void append_policy(std::string& out, const Policies& policies, const Outcome& outcome,
                   Instant now) {
  const Rule* rule = policies.find(outcome.limit);
  append_field_string(out, outcome.limit);
  out += ";q=";
  append_capped(out, outcome.capacity);
  if (rule == nullptr) return;
  if (rule->gate == nullptr && engine::is_slots(rule->shape)) {
    out += ";qu=\"concurrent-requests\"";
    return;
  }
  const std::string& unit = policies.rules().units()[rule->unit];
  if (unit != engine::kRequests) {  // which is what a field without `qu` means
    out += ";qu=";
    // Amounts of a micro unit are whole millionths, here as everywhere inside.
    const bool is_micro = policies.rules().scale(rule->unit) == engine::UnitScale::kMicro;
    append_field_string(out, is_micro ? "micro-" + unit : unit);
  }
  const MeterShape* shape = shape_of(rule, outcome);
  if (shape == nullptr) return;
  if (const auto seconds = window_seconds(*shape, now)) {
    out += ";w=";
    append_capped(out, *seconds);
  }
}

void append_remaining(std::string& out, const Policies& policies, const Decision& decision,
                      const Outcome& outcome, Instant now) {
  append_field_string(out, outcome.limit);
  out += ";r=";
  append_capped(out, outcome.remaining);
  std::optional<Instant> at;
  if (!decision.allowed()) {
    // Only what refused says when: Retry-After must not be earlier than any `t`.
    if (outcome.verdict == Verdict::kDenied && outcome.earliest != kForever) at = outcome.earliest;
  } else if (const MeterShape* shape = shape_of(policies.find(outcome.limit), outcome)) {
    at = more_at(*shape, outcome, later_of(now, outcome.earliest));
  }
  if (!at) return;
  out += ";t=";
  append_capped(out, seconds_until(*at, now));
}

void append_ietf(std::string& out, const Policies& policies, const Decision& decision,
                 Instant now) {
  std::string_view before = "RateLimit-Policy: ";
  for (const Outcome& outcome : decision.outcomes()) {
    if (outcome.shadow) continue;
    out += std::exchange(before, ", ");
    append_policy(out, policies, outcome, now);
  }
  if (before != ", ") return;  // no limit applied
  before = "\r\nRateLimit: ";
  for (const Outcome& outcome : decision.outcomes()) {
    if (outcome.shadow) continue;
    out += std::exchange(before, ", ");
    append_remaining(out, policies, decision, outcome, now);
  }
  out += "\r\n";
}

// Whether less is left of `a` than of `b`, as a part of what each holds: units of two limits do
// not compare. What holds nothing has nothing left. Remaining and capacity are at most 2^63, so
// the products fit in 128 bits.
bool is_tighter(const Outcome& a, const Outcome& b) {
  const auto part = [](const Outcome& of, const Outcome& other) {
    return of.capacity == 0 ? Wide{0}
                            : Wide{of.remaining} * std::max<std::int64_t>(other.capacity, 1);
  };
  return part(a, b) < part(b, a);
}

// The limit that bound, or else the one with the smallest part left, the first of several.
const Outcome* tightest(const Decision& decision) {
  const Outcome* found = decision.binding();
  if (found != nullptr) return found;
  for (const Outcome& outcome : decision.outcomes()) {
    if (outcome.shadow) continue;
    if (found == nullptr || is_tighter(outcome, *found)) found = &outcome;
  }
  return found;
}

void append_x(std::string& out, bool epoch, const Policies& policies, const Decision& decision,
              Instant now) {
  const Outcome* outcome = tightest(decision);
  if (outcome == nullptr) return;
  out += "X-RateLimit-Limit: ";
  append_capped(out, outcome->capacity);
  out += "\r\nX-RateLimit-Remaining: ";
  append_capped(out, outcome->remaining);
  out += "\r\n";
  std::optional<Instant> reset;
  if (const MeterShape* shape = shape_of(policies.find(outcome->limit), *outcome)) {
    // What remains is never shown as less than nothing, but a refusal knows the debt. A
    // booked start lies ahead, and what it takes is missing from there on.
    const Wide left =
        decision.allowed() ? Wide{outcome->remaining} : Wide{outcome->cost} - decision.shortfall;
    const Instant from = decision.allowed() ? later_of(now, decision.earliest) : now;
    reset = reset_at(*shape, saturate(outcome->capacity - left), from);
  }
  if (outcome->verdict == Verdict::kDenied && outcome->earliest != kForever) {
    reset = later_of(reset.value_or(now), outcome->earliest);
  }
  if (!reset) return;
  out += "X-RateLimit-Reset: ";
  append_capped(out, epoch ? ceil_seconds(reset->ns) : seconds_until(*reset, now));
  out += "\r\n";
}

}  // namespace

Policies::Policies(std::shared_ptr<const engine::RuleSet> rules) : rules_(std::move(rules)) {
  for (const Rule& rule : rules_->rules()) by_name_.emplace(rule.name, &rule);
}

const Rule* Policies::find(std::string_view limit) const noexcept {
  const auto found = by_name_.find(limit);
  return found == by_name_.end() ? nullptr : found->second;
}

std::int64_t seconds_until(Instant at, Instant now) noexcept {
  return at <= now ? 0 : ceil_seconds(Wide{at.ns} - now.ns);
}

void append_field_string(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  out += '"';
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_plain);
    const auto plain = static_cast<std::size_t>(end - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    if (text[0] == '"' || text[0] == '\\') {
      out += '\\';
      out += text[0];
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(1);
  }
  out += '"';
}

void append_retry_after(std::string& out, const Decision& decision, Instant now) {
  const bool may_pass_later =
      decision.verdict == Verdict::kDenied || decision.verdict == Verdict::kOverloaded;
  if (!may_pass_later || decision.earliest == kForever) return;
  out += "Retry-After: ";
  append_int(out, std::max<std::int64_t>(1, seconds_until(decision.earliest, now)));
  out += "\r\n";
}

void append_headers(std::string& out, HeaderStyle style, const Policies& policies,
                    const Decision& decision, Instant now) {
  if (style == HeaderStyle::kIetf) {
    append_ietf(out, policies, decision, now);
  } else if (style != HeaderStyle::kNone) {
    append_x(out, style == HeaderStyle::kXRateLimitEpoch, policies, decision, now);
  }
  append_retry_after(out, decision, now);
}

}  // namespace weir::wire::http
