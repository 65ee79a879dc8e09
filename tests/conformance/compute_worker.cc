// Families of the compute system: a worker's admission.

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "tests/conformance/fields.h"
#include "tests/conformance/runner.h"
#include "weir/system/compute/query_cost.h"
#include "weir/system/compute/worker.h"

namespace weir::conformance {
namespace {

namespace compute = system::compute;
namespace json = boost::json;
using compute::Admission;
using compute::Worker;

// As published: one queue for all, and no part of it for anybody.
compute::WorkerSettings worker_settings_of(const json::object& config) {
  compute::WorkerSettings settings;
  settings.running = number_of(config, "run_slots");
  settings.queue = number_of(config, "queue_slots");
  settings.burst.least = settings.burst.most = number_of(config, "burst");
  settings.order = config.at("order").as_string() == "rate_first"
                       ? compute::CheckOrder::kRateFirst
                       : compute::CheckOrder::kQueueFirst;
  settings.queueing = compute::Queueing::kFirstIn;
  settings.refund = compute::Refund::kPortal;
  // Recorded queries run for as long as they like.
  settings.query_time = std::chrono::hours{24 * 365};
  return settings;
}

compute::BlockRange range_of(const json::value& value) {
  const json::array& ends = value.as_array();
  return {ends.at(0).to_number<std::int64_t>(), ends.at(1).to_number<std::int64_t>()};
}

// `null` for nothing, as the cases write it.
template <typename Value>
std::string shown(const std::optional<Value>& value) {
  return value ? std::to_string(*value) : "null";
}
std::string shown(const json::value& value) {
  return value.is_null() ? "null" : std::to_string(value.to_number<std::int64_t>());
}

struct WorkerTrace {
  explicit WorkerTrace(const json::object& config) : worker(worker_settings_of(config)) {}

  Failure allocate(const json::object& step, Instant at) {
    compute::AllocationSet set;
    set.epoch_time = std::chrono::seconds{number_of(step, "epoch_s")};
    for (const json::value& value : step.at("clusters").as_array()) {
      const json::object& row = value.as_object();
      compute::ClusterAllocation& cluster = set.clusters.emplace_back();
      cluster.cluster = row.at("k").as_string();
      cluster.units = number_of(row, "cu");
      for (const json::value& portal : row.at("portals").as_array()) {
        cluster.portals.emplace_back(portal.as_string());
      }
    }
    worker.apply(set, at);
    const json::object& expected = step.at("x").as_object().at("intervals").as_object();
    const auto found = worker.clusters(at);
    if (found.size() != expected.size()) return fmt::format("{} buckets", found.size());
    for (const compute::ClusterReading& row : found) {
      if (number_of(expected, row.cluster) == row.interval_ns) continue;
      return fmt::format("interval of {} is {}", row.cluster, row.interval_ns);
    }
    return std::nullopt;
  }

  Failure query(const json::object& step, Instant at) {
    const std::int64_t cost =
        step.at("c").is_null()
            ? kMicro
            : compute::query_cost_micro(range_of(step.at("b")), range_of(step.at("c")));
    const Admission said = worker.admit(std::string(step.at("p").as_string()), cost, at);
    const json::object& expected = step.at("x").as_object();
    std::string found = std::string(compute::to_string(said.outcome));
    std::string must_be = std::string(expected.at("r").as_string());
    found += " ra " + (said.retry_after ? std::to_string(said.retry_after->count()) : "null");
    must_be += " ra " + shown(expected.at("ra"));
    found += " tok " + shown(said.tokens_micro);
    must_be += " tok " + shown(expected.at("tok"));
    if (said.outcome == compute::QueryOutcome::kAccepted) {
      found += said.is_queued ? " queued" : " running";
      must_be += " " + std::string(expected.at("st").as_string());
      ids[number_of(step, "id")] = said.query;
      numbers[said.query] = number_of(step, "id");
    }
    if (found == must_be) return std::nullopt;
    return fmt::format("{}, expected {}", found, must_be);
  }

  Failure done(const json::object& step, Instant at) {
    const compute::Ending end = worker.finish(ids.at(number_of(step, "id")), std::nullopt, at);
    const json::object& expected = step.at("x").as_object();
    const std::string found = fmt::format(
        "start {} tok {}", end.started == 0 ? "null" : std::to_string(numbers.at(end.started)),
        shown(end.tokens_micro));
    const std::string must_be =
        fmt::format("start {} tok {}", shown(expected.at("start")), shown(expected.at("tok")));
    if (end.known && found == must_be) return std::nullopt;
    return fmt::format("{}, expected {}", found, must_be);
  }

  Worker worker;
  std::map<std::int64_t, compute::QueryId> ids;      // by recorded number
  std::map<compute::QueryId, std::int64_t> numbers;  // and back
};

}  // namespace

// Allocations, queries and their ends at instants -> outcomes, hints, tokens, starts.
Failure run_compute_worker(const json::object& recorded) {
  WorkerTrace trace(recorded.at("config").as_object());
  const json::array& steps = recorded.at("steps").as_array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const json::object& step = steps[i].as_object();
    const Instant at{number_of(step, "t")};
    const std::string op(step.at("op").as_string());
    const Failure failure = op == "alloc" ? trace.allocate(step, at)
                            : op == "q"   ? trace.query(step, at)
                                          : trace.done(step, at);
    if (failure) return fmt::format("step {} ({}): {}", i, op, *failure);
  }
  return std::nullopt;
}

}  // namespace weir::conformance
