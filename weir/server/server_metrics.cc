// What the server itself counts, for GET /metrics.

#include "weir/server/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <set>

#include "weir/server/http_front.h"
#include "weir/server/pool.h"
#include "weir/wire/http/routes.h"

namespace weir::server {
namespace {

constexpr std::array<std::string_view, HttpDesk::kClasses> kStatusClasses = {"",    "1xx", "2xx",
                                                                             "3xx", "4xx", "5xx"};

struct Total {
  std::uint64_t opened = 0;
  std::uint64_t closed = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;

  void add(const Traffic& traffic) {
    // Closed first: a connection that closes meanwhile must not count as minus one.
    closed += traffic.closed.value();
    opened += traffic.opened.value();
    bytes_in += traffic.bytes_in.value();
    bytes_out += traffic.bytes_out.value();
  }
};

void write_protocols(MetricsText& out, std::string_view name, std::uint64_t resp,
                     std::uint64_t http) {
  out.begin(name);
  out.value("protocol", "resp", resp);
  out.value("protocol", "http", http);
}

void write_state(MetricsText& out, const KeeperStats& state, Instant now) {
  out.begin("weir_state_flushes_total");
  out.value("result", "done", state.store.flushes);
  out.value("result", "failed", state.store.failed_flushes);
  out.begin("weir_state_flush_seconds");
  out.seconds(state.flusher.last_duration);
  out.begin("weir_state_unwritten_seconds");
  out.seconds(std::max(Duration{0}, now - state.flusher.flushed_until));
}

using system::throttle::BucketReading;
using system::throttle::SetReading;

// The buckets of one role, gas and the like included, under names of their own: of
// several with one name, the second is `NAME#2`.
std::vector<BucketReading> buckets_of(const SetReading& set) {
  std::vector<BucketReading> all = set.buckets;
  all.push_back(set.gas);
  if (set.bytes) all.push_back(*set.bytes);
  all.push_back(set.duration);
  std::set<std::string> names;
  for (BucketReading& bucket : all) {
    std::string name = bucket.name;
    for (int i = 2; !names.insert(name).second; ++i) name = fmt::format("{}#{}", bucket.name, i);
    bucket.name = std::move(name);
  }
  return all;
}

void write_throttles(MetricsText& out, const system::throttle::Reading& reading) {
  const std::vector<BucketReading> front_end = buckets_of(reading.front_end);
  const std::vector<BucketReading> consensus = buckets_of(reading.consensus);
  const auto write = [&](std::string_view metric, auto member) {
    const auto value = [&](std::string_view role, const BucketReading& bucket) {
      const auto units = bucket.*member;
      out.value("role", role, "bucket", bucket.name,
                static_cast<std::uint64_t>(units > 0 ? units : 0));
    };
    out.begin(metric);
    for (const BucketReading& bucket : front_end) value("front_end", bucket);
    for (const BucketReading& bucket : consensus) value("consensus", bucket);
  };
  write("weir_throttle_bucket_used", &BucketReading::used);
  write("weir_throttle_bucket_capacity", &BucketReading::capacity);
  write("weir_throttle_refusals_total", &BucketReading::refusals);
  out.begin("weir_throttle_objections_total");
  const auto other = [&](std::string_view role, const SetReading& set) {
    out.value("role", role, "why", "schedule", set.schedule_refusals);
    out.value("role", role, "why", "unlisted", set.unlisted_refusals);
  };
  other("front_end", reading.front_end);
  other("consensus", reading.consensus);
  out.begin("weir_throttle_multiplier");
  out.value("of", "generic", static_cast<std::uint64_t>(reading.generic_multiplier));
  out.value("of", "gas", static_cast<std::uint64_t>(reading.gas_multiplier));
}

void write_sampling(MetricsText& out, const system::sampling::Reading& reading,
                    const std::optional<KeeperStats>& state) {
  using system::sampling::EnvironmentReading;
  const auto write = [&](std::string_view metric, auto member) {
    out.begin(metric);
    for (const EnvironmentReading& environment : reading.environments) {
      out.value("environment", environment.name, environment.*member);
    }
  };
  write("weir_sampling_grants_total", &EnvironmentReading::grants);
  write("weir_sampling_granted_total", &EnvironmentReading::granted);
  write("weir_sampling_refused_total", &EnvironmentReading::refused);
  out.begin("weir_sampling_allowance");
  for (const EnvironmentReading& environment : reading.environments) {
    if (!environment.limit) continue;
    out.value("environment", environment.name, static_cast<std::uint64_t>(*environment.limit));
  }
  out.begin("weir_sampling_keys");
  out.value(reading.keys);
  out.begin("weir_sampling_bytes");
  out.value(reading.bytes);
  out.begin("weir_sampling_reservations");
  out.value(reading.reservations);
  if (!state || !state->sampling) return;
  out.begin("weir_sampling_journal_records_total");
  out.value(state->sampling->records);
  out.begin("weir_sampling_journal_transactions_total");
  out.value("result", "done", state->sampling->transactions);
  out.value("result", "failed", state->sampling->failed);
}

using NamedView = std::pair<std::string, system::contract::AccountView>;

// Of accounts that follow a service.
void write_sync(MetricsText& out, std::vector<NamedView> all, Instant now) {
  std::erase_if(all, [](const NamedView& each) { return !each.second.followed; });
  if (all.empty()) return;
  out.begin("weir_sync_age_seconds");
  for (const auto& [name, view] : all) {
    const auto write = [&, &account = name](std::string_view of, std::optional<Instant> at) {
      out.seconds("account", account, "of", of,
                  at ? std::optional(std::max(Duration{0}, now - *at)) : std::nullopt);
    };
    write("contract", view.followed->contract_at);
    write("counts", view.followed->counts_at);
  }
  out.begin("weir_sync_fetches_total");
  for (const auto& [name, view] : all) {
    const system::contract::Followed& followed = *view.followed;
    out.value("account", name, "result", "done", followed.fetches - followed.failures);
    out.value("account", name, "result", "failed", followed.failures);
  }
  out.begin("weir_sync_failing");
  for (const auto& [name, view] : all) {
    out.value("account", name, view.followed->error.empty() ? 0 : 1);
  }
}

void write_contracts(MetricsText& out, const system::contract::Accounts& accounts, Instant now) {
  using system::contract::AccountView;
  std::vector<NamedView> all;
  for (const auto& account : accounts.all()) all.emplace_back(account->name(), account->view(now));
  out.begin("weir_contract_left");
  for (const auto& [name, view] : all) {
    for (const auto& row : view.policies) {
      out.micro_value("account", name, "policy", policy_id(row.policy), row.left_micro);
    }
  }
  out.begin("weir_contract_capacity");
  for (const auto& [name, view] : all) {
    for (const auto& row : view.policies) {
      out.value("account", name, "policy", policy_id(row.policy),
                static_cast<std::uint64_t>(row.policy.capacity));
    }
  }
  const auto write = [&, &rows = all](std::string_view metric, auto member) {
    out.begin(metric);
    for (const auto& [name, view] : rows) out.value("account", name, view.*member);
  };
  write("weir_contract_outstanding", &AccountView::outstanding);
  write("weir_contract_granted_total", &AccountView::granted);
  write("weir_contract_refused_total", &AccountView::refused);
  write("weir_contract_refusals_met_total", &AccountView::refusals_met);
  write_sync(out, all, now);
}

void write_compute(MetricsText& out, const wire::http::ComputeParts& parts, Instant now) {
  if (parts.ledger != nullptr) {
    parts.ledger->read(now, [&](const system::compute::LedgerView& view) {
      const auto epoch = epoch_number(view.ledger.clock(), view.block);
      out.begin("weir_compute_block");
      out.value(static_cast<std::uint64_t>(view.block));
      out.begin("weir_compute_epoch");
      out.value(static_cast<std::uint64_t>(epoch));
      out.begin("weir_compute_operations_total");
      out.value(static_cast<std::uint64_t>(view.version));
      out.begin("weir_compute_wallets");
      out.value(view.ledger.clusters().size());
    });
  }
  if (parts.worker == nullptr) return;
  system::compute::WorkerTotals totals;
  {
    const std::scoped_lock lock(*parts.worker);
    totals = parts.worker->locked().totals();
  }
  out.begin("weir_compute_queries_total");
  for (std::size_t i = 0; i < std::size(totals.outcomes); ++i) {
    out.value("outcome", to_string(static_cast<system::compute::QueryOutcome>(i)),
              totals.outcomes[i]);
  }
  out.begin("weir_compute_expired_total");
  out.value(totals.expired);
  out.begin("weir_compute_running");
  out.value(static_cast<std::uint64_t>(totals.running));
  out.begin("weir_compute_queued");
  out.value(static_cast<std::uint64_t>(totals.queued));
  out.begin("weir_compute_clusters");
  out.value(totals.clusters);
  out.begin("weir_compute_fetches_total");
  out.value("result", "done", parts.feed.fetches);
  out.value("result", "failed", parts.feed.failures);
  out.begin("weir_compute_allocations_age_seconds");
  out.seconds(parts.feed.epoch ? std::max(Duration{0}, now - parts.feed.fetched) : Duration{0});
}

void write_shared(MetricsText& out, const store::redis::SharedCounts& counts) {
  out.begin("weir_shared_decisions_total");
  out.value("result", "answered", counts.answered);
  out.value("result", "failed", counts.failed);
  out.begin("weir_shared_failures_total");
  for (std::size_t kind = 0; kind < store::redis::kFailureKinds; ++kind) {
    out.value("kind", store::redis::name(static_cast<store::redis::FailureKind>(kind)),
              counts.failed_by[kind]);
  }
  out.begin("weir_shared_policy_total");
  out.value(counts.by_policy);
  out.begin("weir_shared_out");
  out.value(counts.is_out ? 1 : 0);
  out.begin("weir_shared_turns_total");
  out.value(counts.turns);
  out.begin("weir_shared_losses_total");
  out.value(counts.losses);
  out.begin("weir_shared_servers");
  out.value(counts.servers);
}

// Of each limit with a lease, whether it was asked yet or not.
void write_leases(MetricsText& out, const engine::RuleSet& rules,
                  const std::vector<store::redis::LeaseCounts>& counted) {
  std::vector<store::redis::LeaseCounts> leases;
  for (const engine::Rule& rule : rules.rules()) {
    if (!rule.shared || !rule.shared->lease) continue;
    const auto found = std::find_if(counted.begin(), counted.end(),
                                    [&](const auto& counts) { return counts.limit == rule.name; });
    leases.push_back(found == counted.end() ? store::redis::LeaseCounts{.limit = rule.name}
                                            : *found);
  }
  out.begin("weir_lease_held");
  for (const auto& lease : leases) {
    out.value("limit", lease.limit, static_cast<std::uint64_t>(lease.held));
  }
  out.begin("weir_lease_units_total");
  for (const auto& lease : leases) {
    out.value("limit", lease.limit, "what", "drawn", lease.drawn);
    out.value("limit", lease.limit, "what", "returned", lease.returned);
    out.value("limit", lease.limit, "what", "expired", lease.expired);
  }
}

std::uint64_t count_of(std::int64_t number) { return static_cast<std::uint64_t>(number); }

void write_models(MetricsText& out, std::string_view name, const system::pool::Reading& reading,
                  std::uint64_t (*count)(const system::pool::ModelReading&)) {
  out.begin(name);
  for (const auto& model : reading.models) out.value("model", model.name, count(model));
}

// Dollars and ratios to millionths, to the nearest.
std::int64_t micro_of(double number) { return std::llround(number * 1e6); }

void write_pool(MetricsText& out, Pool& pool, Instant now) {
  using system::pool::ModelReading;
  using system::pool::TypeReading;
  const system::pool::Reading reading = pool.jobs().pools().reading(now);
  std::int64_t running = 0;
  std::uint64_t expired = 0;
  for (const ModelReading& model : reading.models) {
    running += model.in_flight;
    expired += model.tally.expired;
  }
  out.begin("weir_pool_jobs");
  out.value("state", "waiting", reading.waiting);
  out.value("state", "running", count_of(running));
  out.begin("weir_pool_jobs_total");
  out.value("outcome", "submitted", reading.tally.submitted);
  out.value("outcome", "refused", reading.tally.refused);
  out.value("outcome", "withdrawn", reading.tally.withdrawn);
  out.value("outcome", "expired", expired);
  write_models(out, "weir_pool_starts_total", reading,
               [](const ModelReading& model) { return model.tally.started; });
  out.begin("weir_pool_ends_total");
  for (const ModelReading& model : reading.models) {
    out.value("model", model.name, "outcome", "finished", model.tally.finished);
    out.value("model", model.name, "outcome", "failed", model.tally.failed);
    out.value("model", model.name, "outcome", "delegated", model.tally.delegated);
  }
  write_models(out, "weir_pool_refusals_total", reading,
               [](const ModelReading& model) { return model.tally.refused; });
  write_models(out, "weir_pool_tokens_total", reading,
               [](const ModelReading& model) { return model.tally.tokens; });
  write_models(out, "weir_pool_requests_total", reading,
               [](const ModelReading& model) { return model.tally.requests; });
  out.begin("weir_pool_cost_dollars_total");
  for (const ModelReading& model : reading.models) {
    out.micro_value("model", model.name, micro_of(model.tally.cost));
  }
  write_models(out, "weir_pool_in_flight", reading,
               [](const ModelReading& model) { return count_of(model.in_flight); });
  write_models(out, "weir_pool_waiting", reading,
               [](const ModelReading& model) { return count_of(model.waiting); });
  write_models(out, "weir_pool_slots", reading, [](const ModelReading& model) {
    return count_of(model.pool ? model.pool->total_slots : 0);
  });
  out.begin("weir_pool_type_ratio");
  for (const TypeReading& type : reading.types) {
    out.micro_value("type", type.name, micro_of(type.ratio));
  }
  out.begin("weir_pool_type_slots");
  for (const TypeReading& type : reading.types) out.value("type", type.name, count_of(type.slots));
  out.begin("weir_pool_type_in_flight");
  for (const TypeReading& type : reading.types) {
    out.value("type", type.name, count_of(type.in_flight));
  }
  out.begin("weir_pool_adjustments_total");
  out.value(reading.tally.adjustments);
  out.begin("weir_pool_instances");
  out.value(count_of(reading.allocation.instance_count));
  out.begin("weir_pool_reachable");
  out.value(reading.is_reachable ? 1 : 0);
  const std::optional<system::pool::OutageReading> outage = pool.outage();
  if (!outage) return;
  out.begin("weir_pool_outage_jobs_total");
  out.value("outcome", "admitted", outage->admitted);
  out.value("outcome", "refused", outage->refused);
  out.begin("weir_pool_outage_unsent");
  out.value(outage->unsent);
}

}  // namespace

std::string server_metrics(const MetricSources& from) {
  Total resp;
  Total http;
  std::uint64_t commands = 0;
  std::vector<const BatchTimes*> batches;
  for (const auto& loop : from.loops) {
    resp.add(loop->resp_traffic);
    commands += loop->resp_commands.value();
    batches.push_back(&loop->batch_times);
  }
  std::vector<std::uint64_t> answers((wire::http::routes().size() + 1) * HttpDesk::kClasses);
  std::uint64_t requests = 0;
  for (const auto& desk : from.http.desks()) {
    http.add(desk->traffic);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i] += desk->requests[i].value();
      requests += desk->requests[i].value();
    }
  }

  MetricsText out;
  out.begin("weir_build_info");
  out.value("version", WEIR_VERSION, 1);
  out.begin("weir_ready");
  std::string why;
  out.value(from.readiness.ready(why) ? 1 : 0);
  write_engine(out, from.engine);
  write_protocols(out, "weir_connections", resp.opened - resp.closed, http.opened - http.closed);
  write_protocols(out, "weir_connections_total", resp.opened, http.opened);
  out.begin("weir_connections_refused_total");
  out.value(from.refused);
  write_protocols(out, "weir_requests_total", commands, requests);
  out.begin("weir_http_answers_total");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == 0) continue;
    const std::size_t route = i / HttpDesk::kClasses;
    out.value("route",
              route < wire::http::routes().size() ? wire::http::routes()[route].name : "none",
              "status", kStatusClasses[i % HttpDesk::kClasses], answers[i]);
  }
  write_protocols(out, "weir_received_bytes_total", resp.bytes_in, http.bytes_in);
  write_protocols(out, "weir_sent_bytes_total", resp.bytes_out, http.bytes_out);
  out.begin("weir_batch_seconds");
  out.histogram(batches);
  out.begin("weir_reloads_total");
  out.value("result", "done", from.reloads);
  out.value("result", "failed", from.failed_reloads);
  if (const std::optional<KeeperStats> state = from.keeper.stats()) {
    write_state(out, *state, from.clock.now());
  }
  if (from.throttles != nullptr) write_throttles(out, from.throttles->reading(from.clock.now()));
  if (from.accounts != nullptr) write_contracts(out, *from.accounts, from.clock.now());
  write_compute(out, from.compute, from.clock.now());
  if (from.sampling != nullptr) {
    write_sampling(out, from.sampling->reading(), from.keeper.stats());
  }
  if (from.shared) {
    write_shared(out, *from.shared);
    write_leases(out, *from.engine.rules(), from.leases);
  }
  if (from.pool != nullptr) write_pool(out, *from.pool, from.clock.now());
  const auto* clock = dynamic_cast<const SystemClock*>(&from.clock);
  out.begin("weir_clock_steps_total");
  out.value(clock != nullptr ? clock->steps() : 0);
  out.begin("weir_clock_last_step_seconds");
  out.seconds(clock != nullptr ? clock->last_step() : Duration{0});
  return std::move(out).take();
}

}  // namespace weir::server
