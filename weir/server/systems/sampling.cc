// The sampling of a server: counters of tasks, and the journal that keeps grants.
//
// 1. What is in force changes by change() only, under lock_.
// 2. Running counters are kept over a reload, with their gate; they get the next rules.
// 3. Counters grant nothing before their journal has been read: new ones of a reload in agree(),
//    those of the start in start(), when the state has begun.
// 4. The journal is opened with the first counters that it keeps, and stays open. It outlives them.

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "weir/engine/print.h"
#include "weir/server/keeper.h"
#include "weir/server/systems.h"
#include "weir/store/sqlite/sampling_journal.h"
#include "weir/system/sampling/gate.h"
#include "weir/system/sampling/sampling.h"
#include "weir/wire/http/sampling_routes.h"

namespace weir::server {
namespace {

namespace sampling = system::sampling;
using sampling::Sampling;
using store::sqlite::SamplingJournal;

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
                    const std::optional<store::sqlite::JournalStats>& journal) {
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
  if (!journal) return;
  out.begin("weir_sampling_journal_records_total");
  out.value(journal->records);
  out.begin("weir_sampling_journal_transactions_total");
  out.value("result", "done", journal->transactions);
  out.value("result", "failed", journal->failed);
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
    }
    next_ = std::move(made);
    return Done{};
  }
  void add_gates(engine::Gates& gates) const override {
    if (next_.gate != nullptr) gates.emplace(config::kSamplingLimit, next_.gate);
  }
  Status agree() override {
    if (next_.counters == nullptr || next_.counters == in_force_.counters) return Done{};
    return keep(*next_.counters, next_journal_);
  }
  void change(Instant /*now*/) noexcept override {
    if (next_.counters != nullptr && next_.counters == in_force_.counters) {
      next_.counters->set_rules(*next_.rules);
    }
    const std::scoped_lock lock(lock_);
    in_force_ = std::exchange(next_, {});
    if (next_journal_ != nullptr) journal_ = std::exchange(next_journal_, nullptr);
  }
  void drop() noexcept override {
    next_ = {};
    next_journal_ = nullptr;
  }

  Status start() override {
    const auto counters = this->counters();
    if (counters == nullptr) return Done{};
    std::shared_ptr<SamplingJournal> opened;
    if (Status kept = keep(*counters, opened); !kept) return kept;
    const std::scoped_lock lock(lock_);
    journal_ = std::move(opened);
    return Done{};
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
    if (const auto journal = this->journal()) journal->forget_before(now - window);
  }
  Status stop() override {
    const auto journal = this->journal();
    return journal == nullptr ? Status(Done{}) : journal->stop();
  }

  std::span<const MetricRow> metric_rows() const noexcept override { return kSamplingMetrics; }
  void write_metrics(MetricsText& out, Instant /*now*/) const override {
    if (const auto counters = this->counters()) {
      const auto journal = this->journal();
      write_sampling(out, counters->reading(),
                     journal == nullptr ? std::nullopt : std::optional(journal->stats()));
    }
  }
  std::string state_trouble() const override {
    const auto journal = this->journal();
    return journal == nullptr ? "" : journal->stats().last_error;
  }
  bool when_written(std::uint64_t record, const std::function<void(const Status&)>& told) override {
    const auto journal = this->journal();
    if (journal == nullptr) return false;
    journal->when_written(record, told);
    return true;
  }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }

 private:
  std::shared_ptr<Sampling> counters() const {
    const std::scoped_lock lock(lock_);
    return in_force_.counters;
  }
  std::shared_ptr<SamplingJournal> journal() const {
    const std::scoped_lock lock(lock_);
    return journal_;
  }

  // Brings back what the journal has of these counters, and has it keep what they grant: the
  // journal that is open, or one that is opened into `journal`. Without a state it does nothing.
  Status keep(Sampling& counters, std::shared_ptr<SamplingJournal>& journal) const {
    const std::optional<StatePlace> place = ground_.keeper.place();
    if (!place) return Done{};
    journal = this->journal();
    if (journal == nullptr) {
      Result<std::unique_ptr<SamplingJournal>> opened =
          SamplingJournal::open(place->directory, place->start_empty);
      if (!opened) return std::move(opened).error();
      journal = std::move(*opened);
    }
    counters.set_secret(place->secret);
    const Result<std::uint64_t> restored = journal->restore(counters, ground_.clock.now());
    if (!restored) return restored.error();
    counters.set_journal(journal.get());
    return Done{};
  }

  const SystemGround& ground_;
  mutable std::mutex lock_;
  std::shared_ptr<SamplingJournal> journal_;       // nullptr: nothing is kept
  std::shared_ptr<SamplingJournal> next_journal_;  // as agreed
  SamplingInForce in_force_;
  SamplingInForce next_;  // as checked
  const wire::http::SamplingRoutes routes_ =
      wire::http::sampling_routes([this] { return counters(); });
};

}  // namespace

std::unique_ptr<System> make_sampling_system(const SystemGround& ground) {
  return std::make_unique<SamplingSystem>(ground);
}

}  // namespace weir::server
