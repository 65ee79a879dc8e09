// The sampling of a server: counters of tasks, and the journal that keeps grants.
//
// 1. What is in force changes by change() only, under lock_.
// 2. Running counters are kept over a reload, with their gate; they get the next rules.
// 3. Counters grant nothing before their journal has been read: new ones of a reload in check(),
//    those of the start in start(), when the state has begun.

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "weir/engine/print.h"
#include "weir/server/keeper.h"
#include "weir/server/systems.h"
#include "weir/system/sampling/gate.h"
#include "weir/system/sampling/sampling.h"
#include "weir/wire/http/sampling_routes.h"

namespace weir::server {
namespace {

namespace sampling = system::sampling;
using sampling::Sampling;

constexpr MetricRow kSamplingMetrics[] = {
    {"weir_sampling_grants_total", "counter", "environment",
     "Grants of sampling that gave something."},
    {"weir_sampling_granted_total", "counter", "environment", "Tasks they gave."},
    {"weir_sampling_refused_total", "counter", "environment",
     "Tasks that were wanted and not granted."},
    {"weir_sampling_allowance", "gauge", "environment",
     "Tasks a key may be granted in any window; not there if unlimited."},
    {"weir_sampling_keys", "gauge", "", "Keys that sampling counts."},
    {"weir_sampling_bytes", "gauge", "", "Memory of their counters and of the reservations."},
    {"weir_sampling_reservations", "gauge", "", "Grants that may still be committed or released."},
    {"weir_sampling_journal_records_total", "counter", "",
     "Grants and ends of reservations written to the disk."},
    {"weir_sampling_journal_transactions_total", "counter", "result",
     "Transactions that wrote them: done or failed."},
};

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

// What is made of `sampling:`.
struct SamplingInForce {
  std::optional<sampling::Rules> rules{};
  std::shared_ptr<Sampling> counters{};
  std::shared_ptr<engine::Gate> gate{};
};

class SamplingSystem final : public System {
 public:
  explicit SamplingSystem(const SystemGround& ground) : ground_(ground) {}

  std::string_view name() const noexcept override { return "sampling"; }

  Status check(const config::Config& next) override {
    next_ = {};
    if (!next.sampling) return Done{};
    // Only the thread that checks changes it, so it may be read without the lock.
    SamplingInForce made{next.sampling->rules, in_force_.counters, in_force_.gate};
    if (made.counters == nullptr) {
      made.counters = Sampling::create(
          *made.rules, {.secret = engine::random_secret(), .keys_max = next.bounds.keys});
      made.gate = std::make_shared<sampling::SamplingGate>(made.counters);
      if (has_started_) {
        Status kept = ground_.keeper.keep(*made.counters, ground_.clock.now());
        if (!kept) return kept;
      }
    }
    next_ = std::move(made);
    return Done{};
  }
  void add_gates(engine::Gates& gates) const override {
    if (next_.gate != nullptr) gates.emplace(config::kSamplingLimit, next_.gate);
  }
  void change(Instant /*now*/) noexcept override {
    if (next_.counters != nullptr && next_.counters == in_force_.counters) {
      next_.counters->set_rules(*next_.rules);
    }
    const std::scoped_lock lock(lock_);
    in_force_ = std::exchange(next_, {});
  }

  Status start() override {
    has_started_ = true;
    const auto counters = this->counters();
    return counters == nullptr ? Status(Done{})
                               : ground_.keeper.keep(*counters, ground_.clock.now());
  }
  void tick(Instant now) override {
    std::shared_ptr<Sampling> counters;
    Duration window{};
    {
      const std::scoped_lock lock(lock_);
      if (in_force_.counters == nullptr) return;
      counters = in_force_.counters;
      window = in_force_.rules->window();
    }
    counters->sweep(now);
    ground_.keeper.forget_grants_before(now - window);
  }

  std::span<const MetricRow> metric_rows() const noexcept override { return kSamplingMetrics; }
  void write_metrics(MetricsText& out, Instant /*now*/) const override {
    if (const auto counters = this->counters()) {
      write_sampling(out, counters->reading(), ground_.keeper.stats());
    }
  }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }

 private:
  std::shared_ptr<Sampling> counters() const {
    const std::scoped_lock lock(lock_);
    return in_force_.counters;
  }

  const SystemGround& ground_;
  mutable std::mutex lock_;
  SamplingInForce in_force_;
  SamplingInForce next_;  // as checked
  bool has_started_ = false;
  const wire::http::SamplingRoutes routes_ =
      wire::http::sampling_routes([this] { return counters(); });
};

}  // namespace

std::unique_ptr<System> make_sampling_system(const SystemGround& ground) {
  return std::make_unique<SamplingSystem>(ground);
}

}  // namespace weir::server
