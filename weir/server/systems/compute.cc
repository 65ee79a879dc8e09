// The compute system of a server: its ledger, and its worker with the gate in front of it.
//
// 1. Nothing of it changes without a restart: config::load_next() gives a reload what runs.
// 2. The worker is made by the first check(), so that the engine has its gate. Ledger and feed
//    begin with start(), when the state is there.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/integer.h"
#include "weir/server/systems.h"
#include "weir/server/systems/ledger_and_worker.h"
#include "weir/system/compute/gate.h"
#include "weir/wire/http/compute_routes.h"

namespace weir::server {
namespace {

namespace compute = system::compute;

// Clusters with metrics of their own. Names come from the ledger, never from who asks.
constexpr std::size_t kClustersShownMax = 10;

constexpr MetricRow kComputeMetrics[] = {
    {"weir_compute_block", "gauge", "", "Block of the compute ledger."},
    {"weir_compute_epoch", "gauge", "", "Epoch of the compute ledger."},
    {"weir_compute_operations_total", "counter", "", "Operations in the ledger's history."},
    {"weir_compute_wallets", "gauge", "", "Wallets of the ledger."},
    {"weir_compute_queries_total", "counter", "outcome",
     "Queries at the worker: accepted, rate_limited, no_allocation or overloaded."},
    {"weir_compute_expired_total", "counter", "", "Queries that were not ended in time."},
    {"weir_compute_displaced_total", "counter", "",
     "Queries that gave their place in the queue to another cluster."},
    {"weir_compute_running", "gauge", "", "Queries that run."},
    {"weir_compute_queued", "gauge", "", "Queries that wait in the worker's queue."},
    {"weir_compute_clusters", "gauge", "", "Clusters that have units at the worker."},
    {"weir_compute_cluster_units", "gauge", "cluster",
     "Units of a cluster in this epoch; of the ten that used most, and of all others under no "
     "name."},
    {"weir_compute_cluster_used", "gauge", "cluster",
     "What it used in this epoch, in units; of the same."},
    {"weir_compute_cluster_refused", "gauge", "cluster, outcome",
     "Its queries of this epoch that were rate_limited, overloaded or displaced; of the same."},
    {"weir_compute_fetches_total", "counter", "result",
     "Times allocations were fetched: done, or failed with the last good ones kept."},
    {"weir_compute_allocations_age_seconds", "gauge", "",
     "How long ago the ledger was last heard."},
};

void add_use(compute::ClusterReading& sum, const compute::ClusterReading& row) {
  sum.units = saturate(Wide{sum.units} + row.units);
  sum.use.used_micro += row.use.used_micro;
  sum.use.rate_limited += row.use.rate_limited;
  sum.use.overloaded += row.use.overloaded;
  sum.use.displaced += row.use.displaced;
}

void write_compute(MetricsText& out, const wire::http::ComputePart& parts, Instant now) {
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
  std::vector<std::pair<std::string, system::compute::ClusterReading>> busiest;
  system::compute::ClusterReading others;  // under no name, so that a family always has a sample
  {
    const std::scoped_lock lock(*parts.worker);
    totals = parts.worker->locked().totals();
    for (const auto& row : parts.worker->locked().busiest(kClustersShownMax, now)) {
      busiest.emplace_back(row.cluster, row);  // its name is the worker's own
    }
    for (const auto& row : parts.worker->locked().clusters(now)) {
      const bool is_shown = std::any_of(busiest.begin(), busiest.end(), [&](const auto& each) {
        return each.first == row.cluster;
      });
      if (!is_shown) add_use(others, row);
    }
  }
  out.begin("weir_compute_queries_total");
  for (std::size_t i = 0; i < std::size(totals.outcomes); ++i) {
    out.value("outcome", to_string(static_cast<system::compute::QueryOutcome>(i)),
              totals.outcomes[i]);
  }
  out.begin("weir_compute_expired_total");
  out.value(totals.expired);
  out.begin("weir_compute_displaced_total");
  out.value(totals.displaced);
  out.begin("weir_compute_running");
  out.value(static_cast<std::uint64_t>(totals.running));
  out.begin("weir_compute_queued");
  out.value(static_cast<std::uint64_t>(totals.queued));
  out.begin("weir_compute_clusters");
  out.value(totals.clusters);
  busiest.emplace_back("", others);
  out.begin("weir_compute_cluster_units");
  for (const auto& [cluster, row] : busiest) {
    out.value("cluster", cluster, static_cast<std::uint64_t>(row.units));
  }
  out.begin("weir_compute_cluster_used");
  for (const auto& [cluster, row] : busiest) {
    out.micro_value("cluster", cluster, row.use.used_micro);
  }
  out.begin("weir_compute_cluster_refused");
  for (const auto& [cluster, row] : busiest) {
    out.value("cluster", cluster, "outcome", "rate_limited", row.use.rate_limited);
    out.value("cluster", cluster, "outcome", "overloaded", row.use.overloaded);
    out.value("cluster", cluster, "outcome", "displaced", row.use.displaced);
  }
  out.begin("weir_compute_fetches_total");
  out.value("result", "done", parts.feed.fetches);
  out.value("result", "failed", parts.feed.failures);
  out.begin("weir_compute_allocations_age_seconds");
  out.seconds(parts.feed.epoch ? std::max(Duration{0}, now - parts.feed.fetched) : Duration{0});
}

class ComputeSystem final : public System {
 public:
  explicit ComputeSystem(const SystemGround& ground) : ground_(ground) {}

  std::string_view name() const noexcept override { return "compute"; }

  Status check(const config::Config& next) override {
    if (std::exchange(is_checked_, true) || !next.compute) return Done{};
    settings_ = next.compute;
    if (next.state) state_dir_ = next.state->dir;
    if (!settings_->worker) return Done{};
    worker_ = std::make_shared<compute::SharedWorker>(std::in_place, settings_->worker->admission);
    gate_ = std::make_shared<compute::ComputeGate>(worker_);
    return Done{};
  }
  void add_gates(engine::Gates& gates) const override {
    if (gate_ != nullptr) gates.emplace(config::kComputeLimit, gate_);
  }
  void change(Instant /*now*/) noexcept override {}

  Status start() override {
    if (!settings_) return Done{};
    Result<std::unique_ptr<LedgerAndWorker>> compute =
        LedgerAndWorker::start(*settings_, worker_, state_dir_, ground_.clock, ground_.try_waiters);
    if (!compute) return std::move(compute).error();
    compute_ = std::move(*compute);
    return Done{};
  }
  void tick(Instant /*now*/) override {
    if (compute_ == nullptr) return;
    std::string warning = compute_->part().feed.warning;
    if (!warning.empty() && warning != warning_ && ground_.log) {
      ground_.log({LogLevel::kWarning, "compute", {{"warning", warning}}});
    }
    warning_ = std::move(warning);
  }
  void rest() override {
    if (compute_ != nullptr) compute_->rest();
  }
  Status stop() override { return compute_ == nullptr ? Status(Done{}) : compute_->stop(); }

  std::string trouble() const override { return compute_ == nullptr ? "" : compute_->trouble(); }
  std::span<const MetricRow> metric_rows() const noexcept override { return kComputeMetrics; }
  void write_metrics(MetricsText& out, Instant now) const override {
    write_compute(out, part(), now);
  }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }

 private:
  wire::http::ComputePart part() const {
    return compute_ == nullptr ? wire::http::ComputePart{} : compute_->part();
  }

  const SystemGround& ground_;
  bool is_checked_ = false;
  std::optional<config::ComputeSettings> settings_;  // none: it is not configured
  std::optional<std::filesystem::path> state_dir_;
  std::shared_ptr<compute::SharedWorker> worker_;  // nullptr: this weir is none
  std::shared_ptr<engine::Gate> gate_;
  std::unique_ptr<LedgerAndWorker> compute_;  // nullptr before start(), or not configured
  std::string warning_;                       // as last said
  const wire::http::ComputeRoutes routes_ = wire::http::compute_routes([this] { return part(); });
};

}  // namespace

std::unique_ptr<System> make_compute_system(const SystemGround& ground) {
  return std::make_unique<ComputeSystem>(ground);
}

}  // namespace weir::server
