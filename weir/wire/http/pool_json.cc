#include "weir/wire/http/pool_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "weir/base/hold_text.h"
#include "weir/base/integer.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace pool = system::pool;
using pool::Dimension;

// {"limit":100,"used":40,"remaining":60}; limit and remaining null: not limited.
void append_counter(std::string& out, const std::optional<std::int64_t>& limit, std::int64_t used) {
  out += R"({"limit":)";
  append_optional(out, limit);
  out += R"(,"used":)";
  append_int(out, used);
  out += R"(,"remaining":)";
  append_optional(out,
                  limit ? std::optional(std::max<std::int64_t>(0, *limit - used)) : std::nullopt);
  out += '}';
}

void append_window(std::string& out, std::string_view name, Instant begins, Duration length,
                   const pool::Amounts& used, const std::optional<std::int64_t>& tokens,
                   const std::optional<std::int64_t>& requests) {
  out += fmt::format(R"("{}":{{"begins":)", name);
  append_instant(out, begins);
  out += R"(,"ends":)";
  append_instant(out, begins + length);
  out += R"(,"tokens":)";
  append_counter(out, tokens, used.tokens);
  out += R"(,"requests":)";
  append_counter(out, requests, used.requests);
  out += '}';
}

void append_windows(std::string& out, Instant minute, Instant day, const pool::Usage& used,
                    const pool::Rates& limits) {
  out += R"("windows":{)";
  append_window(out, "minute", minute, pool::kMinute, used.minute, limits.tokens_per_minute,
                limits.requests_per_minute);
  out += ',';
  append_window(out, "day", day, pool::kDay, used.day, limits.tokens_per_day,
                limits.requests_per_day);
  out += '}';
}

std::int64_t ms_until(Instant at, Instant now) {
  return at <= now ? 0 : saturate(ceil_div(Wide{at.ns} - Wide{now.ns}, 1'000'000));
}

void append_used(std::string& out, const pool::Used& used) {
  out += fmt::format(R"("requests":{},"input_tokens":{},"output_tokens":{},"cached_tokens":{})",
                     used.requests, used.input_tokens, used.output_tokens, used.cached_tokens);
}

// `{"a":1,"b":2}` of the dimensions that are limited.
void append_rates(std::string& out, const pool::Rates& rates) {
  out += '{';
  for (const Dimension rate : pool::kRates) {
    if (!rates.of(rate)) continue;
    if (out.back() != '{') out += ',';
    append_quoted(out, to_string(rate));
    out += ':';
    append_int(out, *rates.of(rate));
  }
  out += '}';
}

void append_pool(std::string& out, const std::optional<pool::Pool>& share) {
  if (!share) {
    out += "null";
    return;
  }
  out += fmt::format(R"({{"total_slots":{},"left":)", share->total_slots);
  append_rates(out, share->left);
  out += R"(,"whole":)";
  append_rates(out, share->whole);
  out += '}';
}

void append_tally(std::string& out, const pool::ModelTally& tally) {
  out += fmt::format(
      R"("started":{},"finished":{},"failed":{},"expired":{},"delegated":{},"refused":{},"tokens":{},)"
      R"("requests":{},"cost":{})",
      tally.started, tally.finished, tally.failed, tally.expired, tally.delegated, tally.refused,
      tally.tokens, tally.requests, tally.cost);
}

void append_model(std::string& out, const pool::ModelReading& model,
                  const std::vector<pool::TypeReading>& types) {
  out += R"({"model":)";
  append_quoted(out, model.name);
  out += R"(,"pool":)";
  append_pool(out, model.pool);
  out += fmt::format(R"(,"in_flight":{},"waiting":{},"rates":{{)", model.in_flight, model.waiting);
  for (const Dimension rate : pool::kRates) {
    const pool::RateReading& reading = model.rates[static_cast<std::size_t>(rate)];
    if (!reading.limit) continue;
    if (out.back() != '{') out += ',';
    append_quoted(out, to_string(rate));
    out += fmt::format(R"(:{{"count":{},"limit":{},"resets_at":)", reading.count, *reading.limit);
    append_instant(out, reading.resets_at);
    out += '}';
  }
  out += R"(},"job_types":[)";
  for (std::size_t i = 0; i < model.types.size(); ++i) {
    const pool::TypeOnModelReading& type = model.types[i];
    if (i > 0) out += ',';
    out += R"({"type":)";
    append_quoted(out, types[i].name);
    out +=
        fmt::format(R"(,"slots":{},"used":{},"dimension":"{}","in_flight":{},"waiting":{}}})",
                    type.slots, type.used, to_string(type.dimension), type.in_flight, type.waiting);
  }
  out += "],";
  append_tally(out, model.tally);
  out += '}';
}

void append_type(std::string& out, const pool::TypeReading& type) {
  out += R"({"type":)";
  append_quoted(out, type.name);
  out += fmt::format(
      R"(,"ratio":{},"initial_ratio":{},"flexible":{},"slots":{},"in_flight":{},"waiting":{}}})",
      type.ratio, type.initial_ratio, type.is_flexible, type.slots, type.in_flight, type.waiting);
}

void append_fleet(std::string& out, const Result<pool::CoordinatorReport>& fleet) {
  if (!fleet) {
    out += R"({"error":)";
    append_quoted(out, fleet.error().message);
    out += '}';
    return;
  }
  out += R"({"kind":)";
  append_quoted(out, fleet->kind);
  out += R"(,"instance":)";
  append_quoted(out, fleet->instance);
  out += fmt::format(R"(,"reachable":{},"epoch":{},"instance_count":{},"instances":[)",
                     fleet->is_reachable, fleet->epoch, fleet->instance_count);
  for (const pool::InstanceReport& instance : fleet->instances) {
    if (out.back() != '[') out += ',';
    out += R"({"instance":)";
    append_quoted(out, instance.id);
    out += R"(,"last_heard":)";
    append_instant(out, instance.last_heard);
    out += fmt::format(R"(,"in_flight":{},"own":{}}})", instance.in_flight, instance.is_own);
  }
  out += R"(],"models":[)";
  for (const pool::ModelReport& model : fleet->models) {
    if (out.back() != '[') out += ',';
    out += R"({"model":)";
    append_quoted(out, model.model);
    out += R"(,"in_flight":)";
    append_int(out, model.in_flight);
    out += R"(,"concurrent":)";
    append_optional(out, model.limits.concurrent);
    out += ',';
    append_windows(out, model.minute, model.day, model.used, model.limits.rates);
    out += '}';
  }
  out += "]}";
}

// The window with less left, and of two that have the same the one that ends later.
void consider(std::optional<WindowLeft>& into, const WindowLeft& window) {
  if (!into || window.left < into->left ||
      (window.left == into->left && window.ends > into->ends)) {
    into = window;
  }
}

void append_resource(std::string& out, std::string_view name, const std::optional<WindowLeft>& left,
                     Instant now) {
  if (!left) return;
  out += fmt::format("x-ratelimit-limit-{}: {}\r\nx-ratelimit-remaining-{}: {}\r\n", name,
                     left->limit, name, left->left);
  out += fmt::format("x-ratelimit-reset-{}: ", name);
  append_go_duration(out, std::max(Duration{0}, left->ends - now));
  out += "\r\n";
}

}  // namespace

void append_job_start(std::string& out, const pool::HeldStart& held, Instant now) {
  const pool::Start& start = held.start;
  out += R"({"verdict":"allowed","job":")";
  append_hold(out, held.id);
  out += R"(","model":)";
  append_quoted(out, start.model);
  out += fmt::format(R"(,"attempt":{},"estimate":{{"tokens":{},"requests":{}}},"waited_ms":{},)",
                     start.attempt, start.estimate.tokens, start.estimate.requests,
                     std::chrono::ceil<std::chrono::milliseconds>(start.waited).count());
  append_windows(out, start.minute, start.day, start.used, start.limits.rates);
  out += R"(,"expires":)";
  append_instant(out, start.expires_at);
  out += R"(,"expires_in_ms":)";
  append_int(out, ms_until(start.expires_at, now));
  out += '}';
}

void append_renewal(std::string& out, HoldId job, Instant expires_at, Instant now) {
  out += R"({"state":"active","job":")";
  append_hold(out, job);
  out += R"(","expires":)";
  append_instant(out, expires_at);
  out += R"(,"expires_in_ms":)";
  append_int(out, ms_until(expires_at, now));
  out += '}';
}

void append_job_refusal(std::string& out, const pool::JobRefusal& refusal, Instant now) {
  const bool is_final = refusal.reason == pool::JobRefused::kNever ||
                        refusal.reason == pool::JobRefused::kDelegations;
  out += fmt::format(R"({{"verdict":"{}","reason":"{}","model":)", is_final ? "never" : "denied",
                     to_string(refusal.reason));
  if (refusal.model.empty()) {
    out += "null";
  } else {
    append_quoted(out, refusal.model);
  }
  out += fmt::format(R"(,"dimension":"{}","earliest":)", to_string(refusal.dimension));
  const Instant at = is_final ? kForever : refusal.retry_at;
  append_instant(out, at);
  out += R"(,"earliest_ns":)";
  append_instant_ns(out, at);
  out += R"(,"retry_after_ms":)";
  append_optional(out, at == kForever ? std::nullopt : std::optional(ms_until(at, now)));
  out += R"(,"message":)";
  append_quoted(out, refusal.message);
  out += '}';
}

void append_settlement(std::string& out, std::string_view state,
                       const pool::Settlement& settlement) {
  out += fmt::format(
      R"({{"state":"{}","cost":{},"overage":{{"tokens":{},"requests":{}}},"attempts":[)", state,
      settlement.total_cost, settlement.overage.tokens, settlement.overage.requests);
  for (const pool::Attempt& attempt : settlement.attempts) {
    if (out.back() != '[') out += ',';
    out += R"({"model":)";
    append_quoted(out, attempt.model);
    out += ',';
    append_used(out, attempt.used);
    out += fmt::format(R"(,"cost":{}}})", attempt.cost);
  }
  out += "]}";
}

void append_pools(std::string& out, pool::HeldJobs& jobs,
                  const Result<pool::CoordinatorReport>& fleet, Instant now) {
  const pool::Reading reading = jobs.pools().reading(now);
  std::int64_t running = 0;
  std::uint64_t expired = 0;
  for (const pool::ModelReading& model : reading.models) {
    running += model.in_flight;
    expired += model.tally.expired;
  }
  constexpr std::string_view kRules[] = {"strict", "published", "refund"};
  out += fmt::format(
      R"({{"rule":"{}","reachable":{},"epoch":{},"instance_count":{},"capacity":{},)"
      R"("available_slots":{},"jobs":{},"waiting":{},"running":{},"expired":{},"submitted":{},)"
      R"("refused":{},"withdrawn":{},"adjustments":{},"last_adjusted":)",
      kRules[static_cast<std::size_t>(reading.rule)], reading.is_reachable,
      reading.allocation.epoch, reading.allocation.instance_count, reading.capacity,
      reading.available_slots, reading.jobs, reading.waiting, running, expired,
      reading.tally.submitted, reading.tally.refused, reading.tally.withdrawn,
      reading.tally.adjustments);
  append_instant(out, reading.last_adjusted == Instant{} ? kForever : reading.last_adjusted);
  out += R"(,"memory":)";
  if (reading.memory) {
    out += fmt::format(R"({{"active_kb":{},"max_kb":{},"available_kb":{}}})",
                       reading.memory->active_kb, reading.memory->max_kb,
                       reading.memory->available_kb);
  } else {
    out += "null";
  }
  out += R"(,"models":[)";
  for (const pool::ModelReading& model : reading.models) {
    if (out.back() != '[') out += ',';
    append_model(out, model, reading.types);
  }
  out += R"(],"job_types":[)";
  for (const pool::TypeReading& type : reading.types) {
    if (out.back() != '[') out += ',';
    append_type(out, type);
  }
  out += R"(],"fleet":)";
  append_fleet(out, fleet);
  out += '}';
}

ModelLeft left_of(const pool::Start& start) {
  ModelLeft left;
  for (const Dimension rate : pool::kRates) {
    const std::optional<std::int64_t>& limit = start.limits.rates.of(rate);
    if (!limit) continue;
    const Instant begins = pool::window_of(rate) == pool::kMinute ? start.minute : start.day;
    consider(pool::counts_tokens(rate) ? left.tokens : left.requests,
             {*limit, std::max<std::int64_t>(0, *limit - start.used.of(rate)),
              begins + pool::window_of(rate)});
  }
  return left;
}

ModelLeft left_of(const pool::JobRefusal& refusal, const pool::Reading& reading) {
  ModelLeft left;
  const auto model = std::ranges::find(reading.models, refusal.model, &pool::ModelReading::name);
  if (model == reading.models.end()) return left;
  for (const Dimension rate : pool::kRates) {
    const pool::RateReading& known = model->rates[static_cast<std::size_t>(rate)];
    if (!known.limit) continue;
    const bool bound = rate == refusal.dimension;
    consider(pool::counts_tokens(rate) ? left.tokens : left.requests,
             {*known.limit, bound ? 0 : std::max<std::int64_t>(0, *known.limit - known.count),
              known.resets_at});
  }
  return left;
}

void append_model_headers(std::string& out, const ModelLeft& left, Instant now) {
  append_resource(out, "requests", left.requests, now);
  append_resource(out, "tokens", left.tokens, now);
}

void append_go_duration(std::string& out, Duration span) {
  const std::int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(span).count();
  if (ms < 1000) {
    out += ms == 0 ? "0s" : fmt::format("{}ms", ms);
    return;
  }
  const std::int64_t hours = ms / 3'600'000;
  const std::int64_t minutes = ms / 60'000 % 60;
  if (hours > 0) out += fmt::format("{}h", hours);
  if (hours > 0 || minutes > 0) out += fmt::format("{}m", minutes);
  std::string seconds = fmt::format("{}.{:03}", ms / 1000 % 60, ms % 1000);
  while (seconds.back() == '0') seconds.pop_back();
  if (seconds.back() == '.') seconds.pop_back();
  out += seconds;
  out += 's';
}

}  // namespace weir::wire::http
