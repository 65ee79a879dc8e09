// Families of the throttle system: buckets, definitions and the small parsers. Whole
// engines are in throttle_engine.cc. A file may mix kinds, so each case names its own.

#include <fmt/format.h>

#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/runner.h"
#include "tests/conformance/throttle_support.h"
#include "weir/system/throttle/build.h"
#include "weir/system/throttle/published/congestion.h"
#include "weir/system/throttle/published/entity_scale.h"
#include "weir/system/throttle/published/high_volume_price.h"
#include "weir/system/throttle/published/numbers.h"
#include "weir/system/throttle/published/operation_bucket.h"
#include "weir/system/throttle/published/scalar_bucket.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/validate.h"

namespace weir::conformance::throttle {
namespace {

// Runs `step` for each step and compares what it gives with what was recorded.
template <typename Step>
Failure run_steps(const object& recorded, Step&& step) {
  const value* steps = recorded.if_contains("steps");
  if (steps == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < steps->as_array().size(); ++i) {
    const object& given = steps->as_array()[i].as_object();
    const object found = step(given);
    if (Failure failure = difference(found, given.at("x").as_object())) {
      return fmt::format("step {} {}: {}", i, json::serialize(given), *failure);
    }
  }
  return std::nullopt;
}

Failure run_operation_bucket(const object& recorded) {
  const object& setup = recorded.at("setup").as_object();
  auto bucket = OperationBucket::make(integer(setup, "mtps"), integer(setup, "burstMs"));
  if (Failure failure = check_made(recorded, bucket.has_value(), bucket ? bucket->capacity() : 0);
      failure || !bucket) {
    return failure;
  }
  const Timeline time(setup);
  return run_steps(recorded, [&](const object& step) {
    object found;
    const std::string_view what = text(step, "do");
    const auto n = static_cast<std::int32_t>(integer(step, "n", 0));
    if (what == "allow") {
      put(found, "ok", bucket->claim(n, time.at(step)));
    } else if (what == "allowNow") {
      put(found, "ok", bucket->claim_now(n));
    } else if (what == "leakNow") {
      put(found, bucket->give_back(n));
    } else if (what == "leakUnits") {
      put(found, bucket->give_back_units(integer(step, "units")));
    } else if (what == "leakUntil") {
      put(found, bucket->leak_until(time.at(step)));
    } else if (what == "pct") {
      found["pct"] = number(bucket->percent_used(time.at(step)));
    } else if (what == "pctNow") {
      found["pct"] = number(bucket->percent_used_now());
      found["bps"] = bucket->basis_points_now();
    } else if (what == "mark") {
      bucket->mark();
    } else if (what == "reclaim") {
      bucket->reclaim();
    } else if (what == "reset") {
      bucket->reset();
    } else if (what == "snap") {
      found["snap"] = usage_value(bucket->usage());
    } else if (what == "restore") {
      put(found, bucket->restore(usage_of(step.at("snap"))));
    } else if (what == "need") {
      const std::int64_t units = units_of(n);
      found["units"] = units;
      found["clamped"] = units >= 0 ? std::min(units, bucket->capacity()) : bucket->capacity();
    } else {
      found["unknown step"] = what;
    }
    found["used"] = bucket->used();
    return found;
  });
}

Failure run_scalar_bucket(const object& recorded) {
  const object& setup = recorded.at("setup").as_object();
  auto bucket = ScalarBucket::make(integer(setup, "capacity"),
                                   static_cast<std::int32_t>(integer(setup, "burstSecs", 1)));
  if (Failure failure = check_made(recorded, bucket.has_value(), bucket ? bucket->capacity() : 0);
      failure || !bucket) {
    return failure;
  }
  const Timeline time(setup);
  return run_steps(recorded, [&](const object& step) {
    object found;
    const std::string_view what = text(step, "do");
    if (what == "allow") {
      put(found, "ok", bucket->claim(integer(step, "units"), time.at(step)));
    } else if (what == "leakUntil") {
      put(found, bucket->leak_until(time.at(step)));
    } else if (what == "leakUnused") {
      put(found, bucket->give_back(integer(step, "units")));
    } else if (what == "free") {
      found["free"] = bucket->free_at(time.at(step));
    } else if (what == "pct") {
      found["pct"] = number(bucket->percent_used(time.at(step)));
    } else if (what == "pctNow") {
      found["pct"] = number(bucket->percent_used_now());
    } else if (what == "ratio") {
      found["ratio"] = bucket->free_to_used();
    } else if (what == "mark") {
      bucket->mark();
    } else if (what == "reclaim") {
      bucket->reclaim();
    } else if (what == "reset") {
      bucket->reset();
    } else if (what == "snap") {
      found["snap"] = usage_value(bucket->usage());
    } else if (what == "restore") {
      put(found, bucket->restore(usage_of(step.at("snap"))));
    } else {
      found["unknown step"] = what;
    }
    found["used"] = bucket->used();
    return found;
  });
}

Failure run_duration_bucket(const object& recorded) {
  const object& setup = recorded.at("setup").as_object();
  DurationBucket bucket(integer(setup, "capacity"), integer(setup, "perSec"));
  if (Failure failure = check_made(recorded, true, bucket.capacity())) return failure;
  const Timeline time(setup);
  return run_steps(recorded, [&](const object& step) {
    object found;
    const std::string_view what = text(step, "do");
    if (what == "use") {
      put(found, bucket.use(integer(step, "units"), time.at(step)));
    } else if (what == "free") {
      found["free"] = bucket.free_at(time.at(step));
    } else if (what == "pctNow") {
      found["pct"] = number(bucket.percent_used_now());
    } else if (what == "snap") {
      found["snap"] = usage_value(bucket.usage());
    } else if (what == "restore") {
      put(found, bucket.restore(usage_of(step.at("snap"))));
    } else {
      found["unknown step"] = what;
    }
    found["used"] = bucket.used();
    return found;
  });
}

object resolved_bucket(const BuiltBucket& built) {
  object found;
  found["name"] = built.name;
  if (built.high_volume) found["hv"] = true;
  if (!built.is_live()) {
    found["err"] = to_string(built.finding);
    return found;
  }
  found["mtps"] = built.bucket->milli_ops();
  found["capacity"] = built.bucket->capacity();
  found["burstMs"] = built.burst_ms;
  object needs;
  for (const Need& need : built.needs) {
    value& list = needs[std::to_string(need.logical)];
    if (!list.is_array()) list = json::array();
    list.as_array().emplace_back(need.operation);
  }
  found["reqs"] = std::move(needs);
  return found;
}

Failure run_config(const object& recorded) {
  const object& setup = recorded.at("setup").as_object();
  const value* given = setup.if_contains("text");
  const std::string text =
      given != nullptr ? std::string(given->as_string()) : json::serialize(setup.at("throttles"));
  const Result<Definitions> definitions = read_definitions(text, "case", Reader::kPublished);
  object found;
  if (!definitions) {
    found["status"] = "UNPARSEABLE_JSON";
    return difference(found, recorded.at("x").as_object());
  }
  found["status"] = to_string(validate(*definitions).finding);
  json::array splits;
  const value* log = setup.if_contains("log");
  for (const value& split : setup.at("splits").as_array()) {
    const auto nodes = static_cast<std::int32_t>(split.to_number<std::int64_t>());
    const std::vector<BuiltBucket> built = build(*definitions, nodes);
    object resolved;
    resolved["split"] = nodes;
    json::array buckets;
    for (const BuiltBucket& bucket : built) buckets.push_back(resolved_bucket(bucket));
    resolved["buckets"] = std::move(buckets);
    if (log != nullptr && log->as_bool()) {
      resolved["log"] = resolved_text("FRONTEND", nodes, built);
    }
    splits.push_back(std::move(resolved));
  }
  found["splits"] = std::move(splits);
  return difference(found, recorded.at("x").as_object());
}

Failure run_congestion_spec(const object& recorded) {
  return run_steps(recorded, [](const object& step) {
    object found;
    const auto tiers = parse_tiers(text(step, "spec"));
    if (!tiers) {
      found["err"] = to_string(Anomaly::kIllegalArgument);
      return found;
    }
    json::array triggers, multipliers;
    for (const Tier& tier : *tiers) {
      triggers.push_back(tier.percent);
      multipliers.push_back(tier.multiplier);
    }
    found["triggers"] = std::move(triggers);
    found["multipliers"] = std::move(multipliers);
    return found;
  });
}

Failure run_scale(const object& recorded) {
  return run_steps(recorded, [](const object& step) {
    object found;
    const std::optional<ScaleFactor> factor = parse_scale(text(step, "factor"));
    if (!factor) {
      found["err"] = found["splitErr"] = to_string(Anomaly::kIllegalArgument);
      return found;
    }
    put(found, "out", scaled(*factor, static_cast<std::int32_t>(integer(step, "in"))));
    const Answered<std::int32_t> split = split_of(*factor);
    if (split.ok()) {
      found["split"] = *split;
    } else {
      found["splitErr"] = to_string(split.anomaly());
    }
    return found;
  });
}

Failure run_entity_scale(const object& recorded) {
  return run_steps(recorded, [](const object& step) {
    object found;
    const Result<EntityScales> parsed = EntityScales::parse(text(step, "spec"));
    // What cannot be parsed scales nothing.
    const EntityScales scales = parsed ? *parsed : EntityScales();
    const ScaleFactor factor = scales.factor(entity_kind(text(step, "type")),
                                             static_cast<std::int32_t>(integer(step, "pct")));
    found["factor"] = fmt::format("{}:{}", factor.numerator, factor.denominator);
    put(found, "out", scaled(factor, static_cast<std::int32_t>(integer(step, "mult"))));
    return found;
  });
}

Failure run_high_volume_price(const object& recorded) {
  const object& setup = recorded.at("setup").as_object();
  HighVolumePrice price;
  if (setup.if_contains("none") == nullptr) {
    price.multiplier_max = integer(setup, "max");
    if (const value* points = setup.if_contains("points")) {
      for (const value& point : points->as_array()) {
        price.points.push_back(
            {static_cast<std::int32_t>(point.as_array()[0].to_number<std::int64_t>()),
             point.as_array()[1].to_number<std::int64_t>()});
      }
    }
  }
  return run_steps(recorded, [&](const object& step) {
    object found;
    found["mult"] = multiplier_at(price, static_cast<std::int32_t>(integer(step, "bps")));
    return found;
  });
}

}  // namespace
}  // namespace weir::conformance::throttle

namespace weir::conformance {

Failure run_throttle(const boost::json::object& recorded) {
  const std::string_view kind = throttle::text(recorded, "kind");
  if (kind == "throttle") return throttle::run_operation_bucket(recorded);
  if (kind == "leaky") return throttle::run_scalar_bucket(recorded);
  if (kind == "opsduration") return throttle::run_duration_bucket(recorded);
  if (kind == "config") return throttle::run_config(recorded);
  if (kind == "engine") return throttle::run_engine(recorded);
  if (kind == "congestion-spec") return throttle::run_congestion_spec(recorded);
  if (kind == "scale") return throttle::run_scale(recorded);
  if (kind == "entity-scale") return throttle::run_entity_scale(recorded);
  if (kind == "hvprice") return throttle::run_high_volume_price(recorded);
  return fmt::format("unknown kind '{}'", kind);
}

}  // namespace weir::conformance
