// What the server itself counts, for GET /metrics.

#include "weir/server/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <set>

#include "weir/server/http_front.h"
#include "weir/server/systems.h"
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
  std::uint64_t unknown_tokens = 0;

  void add(const Traffic& traffic) {
    // Closed first: a connection that closes meanwhile must not count as minus one.
    closed += traffic.closed.value();
    opened += traffic.opened.value();
    bytes_in += traffic.bytes_in.value();
    bytes_out += traffic.bytes_out.value();
    unknown_tokens += traffic.unknown_tokens.value();
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
  const std::vector<const wire::http::Route*>& routes = from.http.routes();
  std::vector<std::uint64_t> answers((routes.size() + 1) * HttpDesk::kClasses);
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
  out.begin("weir_unread_reply_bytes");
  out.value(from.unread.bytes());
  out.begin("weir_connections_overfull_total");
  out.value(from.unread.refused());
  write_protocols(out, "weir_auth_failures_total", resp.unknown_tokens, http.unknown_tokens);
  write_protocols(out, "weir_requests_total", commands, requests);
  out.begin("weir_http_answers_total");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] == 0) continue;
    const std::size_t route = i / HttpDesk::kClasses;
    out.value("route", route < routes.size() ? routes[route]->name : "none", "status",
              kStatusClasses[i % HttpDesk::kClasses], answers[i]);
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
  for (const auto& system : from.systems) {
    out.set_rows(system->metric_rows());
    system->write_metrics(out, from.clock.now());
  }
  out.set_rows(metric_rows());
  if (from.shared) {
    write_shared(out, *from.shared);
    write_leases(out, *from.engine.rules(), from.leases);
  }
  const auto* clock = dynamic_cast<const SystemClock*>(&from.clock);
  out.begin("weir_clock_steps_total");
  out.value(clock != nullptr ? clock->steps() : 0);
  out.begin("weir_clock_last_step_seconds");
  out.seconds(clock != nullptr ? clock->last_step() : Duration{0});
  return std::move(out).take();
}

}  // namespace weir::server
