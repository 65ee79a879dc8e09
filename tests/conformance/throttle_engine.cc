// Cases of kind `engine`: a throttle set, its congestion multipliers and its snapshots.

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/throttle_support.h"
#include "weir/system/throttle/published/congestion.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/snapshot.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::conformance::throttle {
namespace {

SetRole role_of(std::string_view type) {
  if (type == "FRONTEND") return SetRole::kFrontEnd;
  return type == "BACKEND" ? SetRole::kConsensus : SetRole::kAlwaysAllow;
}

NetworkSettings settings_of(const object& config) {
  NetworkSettings settings;
  settings.exempt_payer_max = integer(config, "exemptMax", 100);
  settings.throttle_by_gas = flag(config, "throttleByGas", true);
  settings.front_end_gas_per_second = integer(config, "maxGasPerSec", 15'000'000);
  settings.consensus_gas_per_second = integer(config, "maxGasPerSecBackend", 15'000'000);
  settings.duration_capacity = integer(config, "opsDurCapacity", 500'000'000);
  settings.duration_per_second = integer(config, "opsDurPerSec", 500'000'000);
  if (config.contains("mintScale")) settings.mint_scale = *parse_scale(text(config, "mintScale"));
  settings.unlimited_associations = flag(config, "unlimitedAutoAssoc", true);
  settings.jumbo = flag(config, "jumbo", true);
  if (const value* operations = config.if_contains("jumboOps")) {
    settings.jumbo_operations.clear();
    for (const value& name : operations->as_array()) {
      settings.jumbo_operations.push_back(network_operation(name.as_string()));
    }
  }
  settings.jumbo_bytes_per_second = integer(config, "maxBytesPerSec", 133'120);
  settings.transaction_bytes_max = integer(config, "txMaxBytes", 6'144);
  settings.long_term_schedules = flag(config, "longTerm", true);
  settings.schedules_per_second_max = integer(config, "maxTxnPerSec", 100);
  settings.schedule_lifetime_s = integer(config, "scheduleExpirySecs", 1'800);
  settings.high_volume = flag(config, "hvEnabled", true);
  settings.balance_by_weight = flag(config, "countBalance", true);
  settings.local_calls_by_buckets = false;  // the cases are those of the published code
  settings.balance_weight_max = static_cast<std::int32_t>(integer(config, "maxRels", 1'000));
  return settings;
}

Definitions definitions_of(const object& from) {
  const value* given = from.if_contains("throttles");
  if (given == nullptr) return {};
  auto definitions = read_definitions(json::serialize(*given), "case", Reader::kPublished);
  if (!definitions) throw std::runtime_error(definitions.error().message);
  return std::move(*definitions);
}

TierStarts starts_of(const value& recorded) {
  TierStarts starts;
  for (const value& start : recorded.as_array()) {
    std::optional<Moment>& added = starts.emplace_back();
    if (start.is_null()) continue;
    added = Moment{start.as_array()[0].to_number<std::int64_t>(),
                   start.as_array()[1].to_number<std::int32_t>()};
    if (*added == Moment{}) added.reset();
  }
  return starts;
}

json::array starts_value(const TierStarts& starts) {
  json::array list;
  for (const std::optional<Moment>& start : starts) {
    if (start) {
      list.push_back(json::array{start->seconds, start->nanos});
    } else {
      list.push_back(nullptr);
    }
  }
  return list;
}

class Engine {
 public:
  explicit Engine(const object& recorded)
      : setup_(recorded.at("setup").as_object()),
        time_(setup_),
        tracks_all_(flag(setup_, "clampClock", false)),
        set_(definitions_of(setup_), options_of(setup_)) {
    if (const value* given = setup_.if_contains("congestion")) {
      const object& congestion = given->as_object();
      period_s_ = integer(congestion, "minPeriod", 60);
      const auto tiers = parse_tiers(text(congestion, "spec"));
      if (!tiers) throw std::runtime_error(tiers.error().message);
      congestion_.emplace(*tiers, period_s_);
    }
    remember();
  }

  Failure run(const object& recorded) {
    const object& expected = recorded.at("x").as_object();
    object made = buckets(expected);
    if (Failure failure = check_part(made, expected)) return "setup: " + *failure;
    const json::array& steps = recorded.at("steps").as_array();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const object& step = steps[i].as_object();
      object found = perform(step, i);
      add_changes(found);
      if (Failure failure = difference(found, step.at("x").as_object())) {
        return fmt::format("step {} {}: {}", i, json::serialize(step), *failure);
      }
    }
    if (const value* last = expected.if_contains("final")) {
      if (Failure failure = difference(state(), last->as_object())) return "final: " + *failure;
    }
    return std::nullopt;
  }

 private:
  static ThrottleOptions options_of(const object& setup) {
    ThrottleOptions options;
    options.role = role_of(text(setup, "type"));
    options.nodes = static_cast<std::int32_t>(integer(setup, "split", 1));
    options.clamp_clock = flag(setup, "clampClock", false);
    options.explain = false;
    const value* config = setup.if_contains("config");
    options.settings = settings_of(config == nullptr ? object() : config->as_object());
    return options;
  }

  // A dropped bucket is recorded by its name, or with the reason beside it.
  static value dropped_bucket(const DroppedBucket& bucket, const value* recorded, std::size_t i) {
    const json::array* list = recorded == nullptr ? nullptr : recorded->if_array();
    if (list == nullptr || i >= list->size() || !(*list)[i].is_object()) return value(bucket.name);
    object row;
    row["name"] = bucket.name;
    if ((*list)[i].as_object().contains("hv")) row["hv"] = bucket.high_volume;
    if ((*list)[i].as_object().contains("err")) row["err"] = to_string(bucket.finding);
    return row;
  }

  object buckets(const object& expected) const {
    object found;
    json::array live, dropped;
    for (const LiveBucket& bucket : set_.buckets()) {
      object row;
      row["name"] = bucket.name;
      row["mtps"] = bucket.bucket.milli_ops();
      row["capacity"] = bucket.bucket.capacity();
      live.push_back(std::move(row));
    }
    found["buckets"] = std::move(live);
    const json::value* recorded = expected.if_contains("dropped");
    if (recorded == nullptr && set_.dropped().empty()) return found;
    for (std::size_t i = 0; i < set_.dropped().size(); ++i) {
      dropped.push_back(dropped_bucket(set_.dropped()[i], recorded, i));
    }
    found["dropped"] = std::move(dropped);
    return found;
  }

  // Only the keys that were found; `final` comes later.
  static Failure check_part(const object& found, const object& expected) {
    for (const auto& [key, inner] : found) {
      const value* other = expected.if_contains(key);
      if (other != nullptr && same(inner, *other)) continue;
      return fmt::format("{}: found {}, expected {}", key, json::serialize(inner),
                         other == nullptr ? "nothing" : json::serialize(*other));
    }
    return std::nullopt;
  }

  object state() const {
    object found;
    json::array levels;
    for (const LiveBucket& live : set_.buckets())
      levels.push_back(usage_value(live.bucket.usage()));
    found["tps"] = std::move(levels);
    found["gas"] = usage_value(set_.gas().usage());
    found["ops"] = usage_value(set_.duration().usage());
    if (set_.bytes()) found["bytes"] = usage_value(set_.bytes()->usage());
    if (congestion_) {
      found["genStarts"] = starts_value(congestion_->generic().starts());
      found["gasStarts"] = starts_value(congestion_->gas().starts());
      found["mult"] = multipliers();
    }
    return found;
  }

  json::array multipliers() const {
    return {congestion_->generic().multiplier(), congestion_->gas().multiplier()};
  }

  std::vector<std::int64_t> levels() const {
    std::vector<std::int64_t> found;
    for (const LiveBucket& live : set_.buckets()) found.push_back(live.bucket.used());
    return found;
  }

  void remember() {
    levels_ = levels();
    gas_ = set_.gas().used();
    bytes_ = set_.bytes() ? set_.bytes()->used() : 0;
    duration_ = set_.duration().used();
    if (congestion_) multipliers_ = multipliers();
  }

  // Every level that differs from the one before the step.
  void add_changes(object& found) {
    const std::vector<std::int64_t> now = levels();
    json::array changed;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const bool is_new = i >= levels_.size();
      if (is_new || now[i] != levels_[i]) {
        changed.push_back(json::array{static_cast<std::int64_t>(i), now[i]});
      }
    }
    if (!changed.empty() && !found.contains("buckets")) found["u"] = std::move(changed);
    if (set_.gas().used() != gas_) found["gas"] = set_.gas().used();
    if (set_.bytes() && set_.bytes()->used() != bytes_) found["bytes"] = set_.bytes()->used();
    if (set_.duration().used() != duration_) found["ops"] = set_.duration().used();
    if (congestion_ && multipliers() != multipliers_) found["mult"] = multipliers();
    remember();
  }

  OperationId operation(const object& step) const {
    return set_.operations().find(text(step, "op"));
  }

  Transaction transaction_of(const object& step) const {
    Transaction transaction;
    transaction.operation = operation(step);
    const value* payer = step.if_contains("payer");
    if (payer == nullptr) {
      transaction.payer = 1001;
    } else if (!payer->is_null()) {
      transaction.payer = payer->to_number<std::int64_t>();
    }
    transaction.gas = integer(step, "gas", 0);
    transaction.bytes = integer(step, "size", 200);
    transaction.nfts = static_cast<std::int32_t>(integer(step, "nfts", 0));
    transaction.creations = static_cast<std::int32_t>(integer(step, "creates", 0));
    transaction.associations = static_cast<std::int32_t>(integer(step, "assocs", 0));
    transaction.high_volume = flag(step, "hv", false);
    transaction.always_by_gas = flag(step, "gasAlways", false);
    if (const value* given = step.if_contains("inner")) {
      const object& inner = given->as_object();
      transaction.scheduled = ScheduledTransaction{
          set_.operations().find(text(inner, "op")), flag(inner, "aliases", false),
          static_cast<std::int32_t>(integer(inner, "creates", 0))};
    }
    const std::int64_t second =
        expiry_second(set_.settings(), flag(step, "waitForExpiry", false),
                      integer(step, "expiry", 0), integer(step, "validStart", 0));
    const auto scheduled = scheduled_.find(second);
    transaction.scheduled_then = scheduled == scheduled_.end() ? 0 : scheduled->second;
    return transaction;
  }

  object submit(const object& step, std::size_t index) {
    object found;
    const Moment now = time_.at(step);
    const bool tracks = tracks_all_ || flag(step, "track", false);
    Claims* claims = tracks ? &claims_[index] : nullptr;
    const Answered<Admission> said = set_.decide(transaction_of(step), now, claims);
    if (!said.ok()) {
      put(found, said.anomaly());
      return found;
    }
    found["ok"] = said->allowed;
    if (set_.last_was_refused_by_gas()) found["gasThrottled"] = true;
    if (congestion_) congestion_->refresh(set_, now);
    return found;
  }

  object ask(const object& step) {
    object found;
    Query query;
    query.operation = operation(step);
    const value* payer = step.if_contains("payer");
    if (payer != nullptr && !payer->is_null()) query.payer = payer->to_number<std::int64_t>();
    query.gas = integer(step, "gas", 0);
    query.associations = static_cast<std::int32_t>(integer(step, "assocs", 0));
    put_allowed(found, set_.decide(query, time_.at(step)));
    return found;
  }

  static void put_allowed(object& found, const Answered<Admission>& said) {
    if (said.ok()) {
      found["ok"] = said->allowed;
    } else {
      put(found, said.anomaly());
    }
  }

  object restore_step(const object& step) {
    object found;
    PositionalSnapshot snapshot;
    for (const value& usage : step.at("tps").as_array()) {
      snapshot.buckets.push_back(usage_of(usage));
    }
    if (const value* gas = step.if_contains("gas")) snapshot.gas = usage_of(*gas);
    if (const value* ops = step.if_contains("ops")) snapshot.duration = usage_of(*ops);
    if (const value* starts = step.if_contains("genStarts")) {
      snapshot.generic_starts = starts_of(*starts);
    }
    if (const value* starts = step.if_contains("gasStarts")) {
      snapshot.gas_starts = starts_of(*starts);
    }
    const RestorePolicy policy =
        text(step, "policy") == "SKIP" ? RestorePolicy::kSkip : RestorePolicy::kFailFast;
    put(found, restore(snapshot, policy, set_, congestion_ ? &*congestion_ : nullptr));
    return found;
  }

  object perform(const object& step, std::size_t index) {
    object found;
    const std::string_view what = text(step, "do");
    if (what == "tx") return submit(step, index);
    if (what == "query") return ask(step);
    if (what == "restore") return restore_step(step);
    if (what == "nof") {
      const auto n = static_cast<std::int32_t>(integer(step, "n"));
      put_allowed(found, set_.decide(operation(step), n, time_.at(step)));
    } else if (what == "undo") {
      put(found, set_.undo(operation(step), static_cast<std::int32_t>(integer(step, "n"))));
    } else if (what == "leakGas") {
      put(found, set_.return_gas(integer(step, "units"), integer(step, "payer", 1001)));
    } else if (what == "refund") {
      set_.refund(claims_[static_cast<std::size_t>(integer(step, "step"))]);
    } else if (what == "opsFree") {
      found["free"] = set_.free_duration(time_.at(step));
    } else if (what == "opsUse") {
      put(found, set_.use_duration(integer(step, "units"), time_.at(step)));
    } else if (what == "hvUtil") {
      put(found, "bps", set_.high_volume_utilization(operation(step), time_.at(step)));
    } else if (what == "pct") {
      json::array percents;
      for (const LiveBucket& live : set_.buckets()) {
        percents.push_back(number(live.bucket.percent_used(time_.at(step))));
      }
      found["pct"] = std::move(percents);
      found["gasPct"] = number(set_.gas().percent_used(time_.at(step)));
    } else if (what == "snap") {
      found["snap"] = state();
    } else if (what == "rebuild") {
      set_.rebuild(definitions_of(step));
      if (congestion_) congestion_->forget();
      found = buckets(step.at("x").as_object());
    } else if (what == "reconfig") {
      set_.configure(settings_of(step.at("config").as_object()));
      if (congestion_) congestion_->forget();
    } else if (what == "setSpec") {
      period_s_ = integer(step, "minPeriod", period_s_);
      const auto tiers = parse_tiers(text(step, "spec"));
      if (tiers && congestion_) congestion_->configure(*tiers, period_s_);
    } else if (what == "setScheduled") {
      scheduled_[integer(step, "second")] = integer(step, "count");
    } else {
      found["unknown step"] = what;
    }
    return found;
  }

  const object& setup_;
  Timeline time_;
  bool tracks_all_;
  ThrottleSet set_;
  std::optional<Congestion> congestion_;
  std::int64_t period_s_ = 60;
  std::map<std::int64_t, std::int64_t> scheduled_;  // by second
  std::map<std::size_t, Claims> claims_;            // by step

  // Before the step.
  std::vector<std::int64_t> levels_;
  std::int64_t gas_ = 0, bytes_ = 0, duration_ = 0;
  json::array multipliers_;
};

}  // namespace

Failure run_engine(const object& recorded) { return Engine(recorded).run(recorded); }

}  // namespace weir::conformance::throttle
