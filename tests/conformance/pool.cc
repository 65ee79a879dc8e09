// Families of the pool system that are rules of their own: everything but the life of a job.

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/pool_support.h"
#include "tests/conformance/runner.h"
#include "weir/system/pool/availability.h"
#include "weir/system/pool/cost.h"
#include "weir/system/pool/memory.h"
#include "weir/system/pool/model_limiter.h"
#include "weir/system/pool/type_meter.h"
#include "weir/system/pool/type_shares.h"

namespace weir::conformance {
namespace {

namespace json = boost::json;
namespace pool = system::pool;
using pool::Dimension;

constexpr double kRatioError = 1e-12;

std::string json_text(const json::value& value) { return json::serialize(value); }

Failure compare(std::string_view what, const json::value& found, const json::value& expected) {
  if (found == expected) return std::nullopt;
  return fmt::format("{}: {}, expected {}", what, json_text(found), json_text(expected));
}

// Runs each operation, and says which one failed.
template <typename Run>
Failure run_ops(const json::object& input, Run run) {
  const json::array& ops = input.at("ops").as_array();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const json::object& op = ops[i].as_object();
    if (Failure failure = run(i, op)) {
      return fmt::format("op {} ({}): {}", i, text_of(op, "op"), *failure);
    }
  }
  return std::nullopt;
}

pool::Usage usage_of(const json::object& usage) {
  const auto read = [&](std::string_view name) { return number_in(usage, name).value_or(0); };
  return {{read("tpm"), read("rpm")}, {read("tpd"), read("rpd")}};
}

// --- c_ratio_adjust

std::size_t place_of(const std::vector<pool::JobType>& types, std::string_view name) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == name) return i;
  }
  throw std::runtime_error(fmt::format("no job type {}", name));
}

Failure compare_state(const pool::TypeShares& shares, const std::vector<pool::JobType>& types,
                      const json::object& expected) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    const json::array& row = expected.at(types[i].name).as_array();
    const double ratio = row[0].to_number<double>();
    if (std::abs(shares.ratio(i) - ratio) > kRatioError ||
        shares.slots(i) != row[1].to_number<std::int64_t>() ||
        shares.in_flight(i) != row[2].to_number<std::int64_t>()) {
      return fmt::format("{}: ratio {}, {} slots, {} in flight, expected {}", types[i].name,
                         shares.ratio(i), shares.slots(i), shares.in_flight(i),
                         json_text(json::value(row)));
    }
  }
  return std::nullopt;
}

pool::RatioSettings ratio_settings_of(const json::object& config) {
  pool::RatioSettings settings;
  const auto part = [&](std::string_view name, double& value) {
    if (const json::value* found = config.if_contains(name)) value = found->to_number<double>();
  };
  part("highLoadThreshold", settings.high_load);
  part("lowLoadThreshold", settings.low_load);
  part("maxAdjustment", settings.max_adjustment);
  part("minRatio", settings.min_ratio);
  settings.releases_per_adjustment =
      number_in(config, "releasesPerAdjustment").value_or(settings.releases_per_adjustment);
  settings.min_capacity = number_in(config, "minJobTypeCapacity").value_or(settings.min_capacity);
  return settings;
}

Failure run_ratio_op(pool::TypeShares& shares, const std::vector<pool::JobType>& types,
                     const json::object& op, const json::object& expected) {
  const std::string name = text_of(op, "op");
  if (name == "capacity") shares.set_capacity(number_of(op, "total"));
  if (name == "memory") shares.set_memory(number_of(op, "kb"));
  if (name == "adjust") shares.adjust();
  if (name == "load") {
    for (const auto& [type, in_flight] : op.at("inFlight").as_object()) {
      shares.set_in_flight(place_of(types, type), in_flight.to_number<std::int64_t>());
    }
  }
  if (name == "acquire") {
    const std::size_t type = place_of(types, text_of(op, "jobType"));
    const bool granted = shares.has_slot(type);
    if (granted) shares.take(type);
    if (granted != expected.at("granted").as_bool()) return fmt::format("granted: {}", granted);
  }
  if (name == "release" && shares.give_back(place_of(types, text_of(op, "jobType")))) {
    shares.adjust();
  }
  return compare_state(shares, types, expected.at("state").as_object());
}

// --- d2_limiter_sequences

json::object stats_of(pool::ModelLimiter& limiter, Instant now) {
  json::object stats;
  const auto put = [&](std::string_view name, Dimension dimension) {
    const pool::RateReading reading = limiter.rate(dimension, now);
    if (reading.limit) stats[name] = json::array{reading.count, *reading.limit};
  };
  put("rpm", Dimension::kRequestsPerMinute);
  put("rpd", Dimension::kRequestsPerDay);
  put("tpm", Dimension::kTokensPerMinute);
  put("tpd", Dimension::kTokensPerDay);
  if (const std::optional<pool::Permits>& permits = limiter.concurrency()) {
    stats["conc"] = json::array{permits->active(), permits->limit(), permits->available()};
  }
  return stats;
}

json::array overages_of(const pool::Overage& overage) {
  json::array result;
  const auto put = [&](std::string_view name, std::int64_t estimated, std::int64_t actual,
                       std::int64_t beyond) {
    if (beyond == 0) return;
    result.push_back({{"resourceType", name},
                      {"estimated", estimated},
                      {"actual", actual},
                      {"overage", beyond}});
  };
  put("requests", overage.estimated.requests, overage.actual.requests, overage.requests);
  put("tokens", overage.estimated.tokens, overage.actual.tokens, overage.tokens);
  return result;
}

class LimiterCase {
 public:
  explicit LimiterCase(const json::object& input)
      : limiter_(limits_of(input.at("limits").as_object()), pool::LimiterRule::kPublished),
        begin_ms_(number_of(input, "t0")) {}

  json::object run(const json::object& op) {
    const Instant now = instant_of_ms(begin_ms_ + number_of(op, "t"));
    const std::string name = text_of(op, "op");
    json::object row;
    if (name == "reserve") {
      row["allowed"] = reserve(op, now);
    } else if (name == "limits") {
      limiter_.set_limits(limits_of(op.at("limits").as_object()).rates);
    } else if (name == "concurrency") {
      limiter_.set_concurrency(number_of(op, "limit"));
    } else if (!end(name, op, now, row)) {
      row["skipped"] = true;
    }
    row["stats"] = stats_of(limiter_, now);
    return row;
  }

 private:
  bool reserve(const json::object& op, Instant now) {
    const pool::JobType type = job_type_of("", op.at("estimate").as_object());
    pool::Shortage shortage;
    const auto reservation = limiter_.try_reserve(type.estimate(), now, shortage);
    if (reservation) held_[text_of(op, "job")] = *reservation;
    return reservation.has_value();
  }
  bool end(const std::string& how, const json::object& op, Instant now, json::object& row) {
    const auto held = held_.extract(text_of(op, "job"));
    if (!held) return false;
    if (how == "cancel") limiter_.cancel(held.mapped(), now);
    if (how == "fail") limiter_.fail();
    if (how == "finish" || how == "reject") {
      const pool::Used used = used_of(op.at("actual").as_object());
      json::array overages = overages_of(limiter_.finish(held.mapped(), used.amounts(), now));
      if (!overages.empty()) row["overages"] = std::move(overages);
    }
    return true;
  }

  pool::ModelLimiter limiter_;
  std::int64_t begin_ms_;
  std::map<std::string, pool::Reservation> held_;
};

// --- e_memory

json::object reading_of(const pool::MemoryBudgets& budgets) {
  const pool::MemoryReading reading = budgets.reading();
  return {{"activeKB", reading.active_kb},
          {"maxCapacityKB", reading.max_kb},
          {"availableKB", reading.available_kb}};
}

}  // namespace

Failure run_pool_pools(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const std::vector<pool::JobType> types = job_types_of(input.at("jobTypes").as_object());
  const std::int64_t instances = number_of(input, "instanceCount");
  json::object pools;
  json::object limits;
  for (const auto& [name, model] : input.at("models").as_object()) {
    const json::value* const used = input.at("usage").as_object().if_contains(name);
    const Result<pool::Pool> made = pool::make_published_pool(
        limits_of(model.as_object()), used != nullptr ? usage_of(used->as_object()) : pool::Usage{},
        pool::average_estimate(types), instances);
    if (!made) {
      return compare("error", kind_of(made.error()), recorded.at("expect").as_object().at("error"));
    }
    json::object& shares = pools[name].emplace_object();
    json::object& limited = limits[name].emplace_object();
    shares["totalSlots"] = made->total_slots;
    for (const auto& [published, rate] : kPublishedRates) {
      shares[published] = made->left.of(rate).value_or(0);
      if (made->left.of(rate)) limited[published] = *made->left.of(rate);
    }
  }
  return compare(
      "allocation",
      json::object{{"instanceCount", instances}, {"pools", pools}, {"dynamicLimits", limits}},
      recorded.at("expect"));
}

Failure run_pool_slots(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const pool::PublishedSlots slots = pool::published_slots(
      pool_of(input.at("pool").as_object()), input.at("ratio").to_number<double>(),
      job_type_of("", input.at("resources").as_object()).estimate(),
      number_of(input, "minCapacity"));
  return compare(
      "slots", json::object{{"slots", slots.slots}, {"windowMs", slots.window.count() / 1'000'000}},
      recorded.at("expect"));
}

Failure run_pool_ratios(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const json::object& expected = recorded.at("expect").as_object();
  const std::vector<pool::JobType> types = job_types_of(input.at("jobTypes").as_object());
  Result<std::vector<double>> ratios = pool::initial_ratios(types);
  if (!ratios) {
    const json::value* const error = expected.if_contains("error");
    if (error == nullptr) return ratios.error().message;
    return compare("error", kind_of(ratios.error()), *error);
  }
  pool::TypeShares shares(types, *ratios, ratio_settings_of(input.at("config").as_object()));
  if (Failure failure = compare_state(shares, types, expected.at("initial").as_object())) {
    return failure;
  }
  return run_ops(input, [&](std::size_t i, const json::object& op) {
    return run_ratio_op(shares, types, op, expected.at("steps").as_array()[i].as_object());
  });
}

Failure run_pool_type_meters(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const json::array& expected = recorded.at("expect").as_object().at("results").as_array();
  const auto rule =
      text_of(input, "variant") == "refund" ? pool::CountRule::kRefund : pool::CountRule::kSticky;
  std::map<std::string, pool::Pool> pools;
  for (const auto& [name, shares] : input.at("pools").as_object()) {
    pools[std::string(name)] = pool_of(shares.as_object());
  }
  struct Type {
    double ratio;
    pool::Amounts estimate;
  };
  std::map<std::string, Type> types;
  for (const auto& [name, type] : input.at("jobTypes").as_object()) {
    const json::object& row = type.as_object();
    types[std::string(name)] = {row.at("ratio").to_number<double>(),
                                job_type_of("", row.at("resources").as_object()).estimate()};
  }
  std::map<std::pair<std::string, std::string>, pool::TypeMeter> meters;
  return run_ops(input, [&](std::size_t i, const json::object& op) -> Failure {
    const Instant now = instant_of_ms(number_of(input, "t0") + number_of(op, "t"));
    const std::string name = text_of(op, "op");
    if (name == "pool") pools[text_of(op, "model")] = pool_of(op.at("pool").as_object());
    if (name == "ratio") types[text_of(op, "jobType")].ratio = op.at("ratio").to_number<double>();
    if (name != "acquire" && name != "release") return std::nullopt;
    const std::string model = text_of(op, "model");
    const Type& type = types.at(text_of(op, "jobType"));
    pool::TypeMeter& meter =
        meters.try_emplace({model, text_of(op, "jobType")}, rule).first->second;
    meter.clear_slots();
    if (pools.contains(model)) {
      meter.set_slots(pools.at(model), type.ratio, type.estimate, number_of(input, "minCapacity"));
    }
    if (name == "release") {
      meter.give_back(now);
      return std::nullopt;
    }
    const bool allowed = meter.check(now).allowed;
    if (allowed) meter.take(now);
    const pool::TypeCheck after = meter.check(now);
    const std::int64_t window_ms =
        pools.contains(model) ? meter.published().window.count() / 1'000'000 : 0;
    return compare("[allowed, slots, window, used]",
                   json::array{allowed ? 1 : 0, after.slots, window_ms, after.used}, expected[i]);
  });
}

Failure run_pool_limiter(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const json::array& expected = recorded.at("expect").as_object().at("results").as_array();
  LimiterCase limiter(input);
  return run_ops(input, [&](std::size_t i, const json::object& op) {
    return compare("row", limiter.run(op), expected[i]);
  });
}

Failure run_pool_memory(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const json::object& expected = recorded.at("expect").as_object();
  const json::object& settings = input.at("memory").as_object();
  const std::vector<pool::JobType> types = job_types_of(input.at("jobTypes").as_object());
  std::vector<double> ratios = pool::initial_ratios(types).value();
  const json::value* const part = settings.if_contains("freeMemoryRatio");
  pool::MemoryBudgets budgets(types, ratios,
                              pool::budget_kb(number_of(settings, "maxMemoryKB"),
                                              part != nullptr ? part->to_number<double>()
                                                              : pool::MemorySettings{}.free_ratio),
                              pool::Shrinking::kForgets);
  if (Failure failure = compare(
          "initial", json::object{{"budgetKB", budgets.budget()}, {"stats", reading_of(budgets)}},
          expected.at("initial"))) {
    return failure;
  }
  std::map<std::string, std::uint64_t> numbers;
  std::vector<std::string> names;
  return run_ops(input, [&](std::size_t i, const json::object& op) {
    std::vector<std::uint64_t> granted;
    if (const json::value* changed = op.if_contains("ratios")) {
      for (const auto& [type, ratio] : changed->as_object()) {
        ratios[place_of(types, type)] = ratio.to_number<double>();
      }
      budgets.resize(ratios, budgets.budget(), granted);
    } else {
      const std::size_t type = place_of(types, text_of(op, "jobType"));
      if (text_of(op, "op") == "acquire") {
        names.push_back(text_of(op, "job"));
        if (budgets.take(type, names.size() - 1)) granted.push_back(names.size() - 1);
      } else {
        budgets.give_back(type, granted);
      }
    }
    json::array found;
    for (const std::uint64_t job : granted) found.emplace_back(names[job]);
    return compare("row", json::object{{"granted", found}, {"stats", reading_of(budgets)}},
                   expected.at("results").as_array()[i]);
  });
}

Failure run_pool_availability(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const std::vector<pool::JobType> types = job_types_of(input.at("jobTypes").as_object());
  std::vector<pool::ModelAvailability> models;
  for (const auto& [name, shares] : input.at("pools").as_object()) {
    pool::ModelAvailability model{.total_slots = pool_of(shares.as_object()).total_slots};
    if (const json::value* bounds = input.at("bounds").as_object().if_contains(name)) {
      model.bounds.least = number_in(bounds->as_object(), "minCapacity").value_or(0);
      model.bounds.most = number_in(bounds->as_object(), "maxCapacity");
    }
    models.push_back(model);
  }
  const std::optional<std::int64_t> in_memory = pool::memory_slots(
      types, pool::initial_ratios(types).value(), number_of(input, "totalMemoryKB"));
  return compare(
      "availability",
      json::object{{"memorySlots", in_memory ? json::value(*in_memory) : json::value(nullptr)},
                   {"slots", pool::available_slots(models, in_memory)}},
      recorded.at("expect"));
}

Failure run_pool_cost(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const json::object& usage = input.at("usage").as_object();
  const double cost = pool::cost_of(pricing_of(input.at("pricing").as_object()),
                                    {.input_tokens = number_of(usage, "inputTokens"),
                                     .output_tokens = number_of(usage, "outputTokens"),
                                     .cached_tokens = number_of(usage, "cachedTokens")});
  const double expected = recorded.at("expect").as_object().at("cost").to_number<double>();
  if (cost == expected) return std::nullopt;
  return fmt::format("cost {}, expected {}", cost, expected);
}

Failure run_pool_default_wait(const json::object& recorded) {
  const json::object& input = recorded.at("input").as_object();
  const Duration wait = pool::default_wait(instant_of_ms(number_of(input, "nowMs")));
  return compare("wait", json::object{{"maxWaitMS", wait.count() / 1'000'000}},
                 recorded.at("expect"));
}

}  // namespace weir::conformance
