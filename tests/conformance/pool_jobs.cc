// Families of the pool system about the life of a job: whole traces, with a coordinator that
// has pushed its pools and grants everything.

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/pool_support.h"
#include "tests/conformance/runner.h"
#include "weir/system/pool/pools.h"

namespace weir::conformance {
namespace {

namespace json = boost::json;
namespace pool = system::pool;

class GrantingCoordinator final : public pool::Coordinator {
 public:
  using Told = std::function<void(const std::string& model, const pool::Amounts& used)>;

  GrantingCoordinator(pool::Allocation allocation, Told told)
      : allocation_(std::move(allocation)), told_(std::move(told)) {}

  void start(pool::Registration, pool::CoordinatorListener& listener, Instant now,
             pool::StatusCallback started) override {
    listener.allocated(now, allocation_);
    started(now, Done{});
  }
  void stop(Instant now, pool::StatusCallback stopped) override { stopped(now, Done{}); }
  void acquire(std::string_view model, const pool::Amounts& estimate, Instant now,
               pool::AcquireCallback answered) override {
    answered(
        now,
        pool::Grant{.id = ++last_, .fence = 1, .model = std::string(model), .estimate = estimate});
  }
  void adopt(std::string_view model, const pool::Amounts& estimate, Instant, Instant now,
             pool::AcquireCallback answered) override {
    acquire(model, estimate, now, std::move(answered));
  }
  void release(const pool::Grant& grant, const pool::Amounts& used, Instant now,
               pool::ReleaseCallback released) override {
    told_(grant.model, used);
    released(now, pool::Released::kSettled);
  }
  void replay(std::string_view, const pool::Amounts&, Instant, Instant now,
              pool::StatusCallback replayed) override {
    replayed(now, Done{});
  }
  void update(pool::Registration, Instant now, pool::StatusCallback updated) override {
    updated(now, Done{});
  }
  void report(Instant now, pool::ReportCallback reported) override {
    reported(now, pool::CoordinatorReport{});
  }

 private:
  pool::Allocation allocation_;
  Told told_;
  std::uint64_t last_ = 0;
};

pool::PoolsSettings settings_of(const json::object& config, std::string_view variant) {
  pool::PoolsSettings settings;
  for (const auto& [name, model] : config.at("models").as_object()) {
    const json::object& row = model.as_object();
    settings.models.push_back({.name = std::string(name),
                               .limits = limits_of(row),
                               .pricing = pricing_of(row.at("pricing").as_object())});
  }
  for (const json::value& name : config.at("escalationOrder").as_array()) {
    settings.escalation.emplace_back(name.as_string());
  }
  settings.types = job_types_of(config.at("jobTypes").as_object());
  settings.ratios.interval = Duration{0};
  settings.ratios.releases_per_adjustment = 0;
  settings.rule = variant == "refund" ? pool::CountRule::kRefund : pool::CountRule::kSticky;
  return settings;
}

pool::Allocation allocation_of(const json::object& config) {
  pool::Allocation allocation{.epoch = 1, .instance_count = number_of(config, "instanceCount")};
  for (const auto& [name, shares] : config.at("pools").as_object()) {
    allocation.pools[std::string(name)] = pool_of(shares.as_object());
  }
  return allocation;
}

class Trace {
 public:
  explicit Trace(const json::object& input) : begin_ms_(number_of(input, "t0")) {
    const json::object& config = input.at("config").as_object();
    auto coordinator = std::make_unique<GrantingCoordinator>(
        allocation_of(config), [this](const std::string& model, const pool::Amounts& used) {
          put({{"ev", "backend_release"},
               {"job", ending_},
               {"model", model},
               {"tokens", used.tokens},
               {"requests", used.requests}});
        });
    pools_ =
        pool::Pools::create(settings_of(config, text_of(input, "variant")), std::move(coordinator))
            .value();
    pools_->start(now(), [](Instant, const Status&) {});
  }

  // Everything that was due before it.
  void run_until(std::int64_t t_ms) {
    for (;;) {
      const Instant next = pools_->next_instant();
      if (next > instant_of_ms(begin_ms_ + t_ms)) break;
      t_ms_ = std::max(t_ms_, next.ns / 1'000'000 - begin_ms_);
      pools_->advance(next);
    }
    t_ms_ = t_ms;
  }

  void run(const json::object& op) {
    run_until(number_of(op, "t"));
    const std::string name = text_of(op, "op");
    const std::string job = text_of(op, "job");
    if (name == "submit") return submit(job, text_of(op, "jobType"));
    const auto running = running_.extract(job);
    if (!running) return;
    ending_ = job;
    const auto [id, model] = running.mapped();
    if (name == "throw") {
      pools_->fail(id, std::nullopt, now()).value();
      put({{"ev", "error"}, {"job", job}, {"error", "job_error"}});
      return;
    }
    const pool::Used used = used_of(op.at("actual").as_object());
    if (name == "reject") {
      pools_->reject(id, used, now()).value();
      put({{"ev", "error"}, {"job", job}, {"error", "rejected_without_delegation"}});
      return;
    }
    const double cost = pools_->finish(id, used, now()).value().total_cost;
    put({{"ev", "complete"}, {"job", job}, {"model", model}, {"totalCost", cost}});
  }

  Failure compare(const json::array& expected) {
    std::vector<std::string> must_be;
    std::vector<std::string> is;
    for (const json::value& event : expected) must_be.push_back(sortable(event.as_object()));
    for (const json::object& event : events_) is.push_back(sortable(event));
    std::ranges::sort(must_be);
    std::ranges::sort(is);
    for (std::size_t i = 0; i < std::max(is.size(), must_be.size()); ++i) {
      const std::string found = i < is.size() ? is[i] : "nothing";
      const std::string wanted = i < must_be.size() ? must_be[i] : "nothing";
      if (found != wanted) return fmt::format("event {}, expected {}", found, wanted);
    }
    return std::nullopt;
  }

 private:
  Instant now() const { return instant_of_ms(begin_ms_ + t_ms_); }

  void put(json::object event) {
    event["t"] = t_ms_;
    events_.push_back(std::move(event));
  }

  // By time, then by whatever makes two of them comparable.
  static std::string sortable(const json::object& event) {
    std::map<std::string, std::string> members;
    for (const auto& [name, value] : event) {
      members[std::string(name)] =
          value.is_double() ? fmt::format("{}", value.as_double()) : json::serialize(value);
    }
    std::string text = fmt::format("{:>15}", members.at("t"));
    for (const auto& [name, value] : members) text += fmt::format(" {}={}", name, value);
    return text;
  }

  void submit(const std::string& job, const std::string& type) {
    pools_
        ->submit({.type = type}, now(),
                 [this, job](Instant, const pool::JobOutcome& outcome) {
                   if (const auto* start = std::get_if<pool::Start>(&outcome)) {
                     running_[job] = {start->job, start->model};
                     put({{"ev", "start"}, {"job", job}, {"model", start->model}});
                     return;
                   }
                   put({{"ev", "error"},
                        {"job", job},
                        {"error", pool::to_string(std::get<pool::JobRefusal>(outcome).reason)}});
                 })
        .value();
  }

  std::int64_t begin_ms_;
  std::int64_t t_ms_ = 0;
  std::string ending_;
  std::map<std::string, std::pair<pool::JobId, std::string>> running_;
  std::vector<json::object> events_;
  std::unique_ptr<pool::Pools> pools_;
};

}  // namespace

Failure run_pool_jobs(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  Trace trace(input);
  std::int64_t last_ms = 0;
  for (const json::value& op : input.at("ops").as_array()) {
    trace.run(op.as_object());
    last_ms = number_of(op.as_object(), "t");
  }
  trace.run_until(last_ms + number_of(input.at("config").as_object(), "tailMs"));
  return trace.compare(recorded.at("expect").as_object().at("events").as_array());
}

}  // namespace weir::conformance
