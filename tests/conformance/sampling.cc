// Families of the sampling system. Those of its log alone come first.

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/conformance/runner.h"
#include "weir/meter/log.h"
#include "weir/system/sampling/published/pass.h"
#include "weir/system/sampling/published/rotation.h"
#include "weir/system/sampling/published/slots.h"
#include "weir/system/sampling/sampling.h"

namespace weir::conformance {
namespace {

// Recorded times are seconds in exact quarters.
Instant instant_of(const boost::json::value& seconds) {
  const double quarters = seconds.to_number<double>() * 4;
  return Instant{static_cast<std::int64_t>(quarters) * 250'000'000};
}

// A log as the published scheduler keeps it: it records whatever it is told and
// trims when it is counted. The limit plays no part; it only has to be exact.
struct Log {
  meter::LogShape shape{meter::kRunsMax, 0, 1};
  meter::LogState state;
  std::vector<meter::LogRun> ring{meter::kRunsMax};
};

using Key = std::tuple<std::string, std::string, std::string>;

Key key_of(const boost::json::object& op) {
  return {std::string(op.at("hotkey").as_string()), std::string(op.at("revision").as_string()),
          std::string(op.at("env").as_string())};
}

// A key is always counted with the same window; `record` does not name it.
std::map<Key, Log> logs_of(const boost::json::array& ops) {
  std::map<Key, Log> logs;
  for (const boost::json::value& value : ops) {
    const boost::json::object& op = value.as_object();
    Log& log = logs[key_of(op)];
    if (const boost::json::value* window = op.if_contains("window")) {
      log.shape.window_ns = instant_of(*window).ns;
    }
  }
  return logs;
}

}  // namespace

// record n at t, count at t -> count.
Failure run_sampling_window(const boost::json::object& recorded) {
  const boost::json::array& ops = recorded.at("ops").as_array();
  std::map<Key, Log> logs = logs_of(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const boost::json::object& op = ops[i].as_object();
    const Instant at = instant_of(op.at("t"));
    Log& log = logs[key_of(op)];
    if (op.at("op").as_string() == "record") {
      const auto units = op.at("n").to_number<std::int64_t>();
      meter::LogShape untrimmed = log.shape;
      untrimmed.window_ns = kTermMax / 2;
      log.state = meter::charge(untrimmed, log.state, log.ring, at, units);
      continue;
    }
    log.state = meter::forget(log.shape, log.state, log.ring, at);
    const auto expected = op.at("count").to_number<std::int64_t>();
    const std::int64_t count = meter::used(log.shape, log.state, log.ring, at);
    if (count != expected) {
      return fmt::format("op {}: count {} at {} ns, expected {}", i, count, at.ns, expected);
    }
  }
  return std::nullopt;
}

namespace {

namespace sampling = system::sampling;
using boost::json::object;
using boost::json::value;

constexpr std::string_view kHotkey = "h";
constexpr std::string_view kRevision = "r";
constexpr std::string_view kEnvironment = "E";

// Decimals of at most six places.
std::int64_t micro_of(const value& number) {
  return static_cast<std::int64_t>(std::llround(number.to_number<double>() * 1e6));
}

std::optional<std::int64_t> micro_in(const object& config, std::string_view name) {
  const value* const found = config.if_contains(name);
  return found == nullptr ? std::nullopt : std::optional(micro_of(*found));
}

std::optional<std::int64_t> integer_of(const value& number) {
  return number.is_null() ? std::nullopt : std::optional(number.to_number<std::int64_t>());
}

sampling::EnvironmentSpec environment_of(std::string_view name, const object& config) {
  return {.name = std::string(name),
          .rotation_count_micro = micro_in(config, "rotation_count"),
          .rotation_interval_micro = micro_in(config, "rotation_interval"),
          .sampling_count_micro = micro_in(config, "sampling_count"),
          .weight_micro = micro_in(config, "scheduling_weight").value_or(kMicro)};
}

// As the published scheduler has it, but for what is named.
sampling::RulesSpec published() {
  return {.formula = {.arithmetic = sampling::Arithmetic::kDouble},
          .exempt = sampling::published_exemptions(),
          .granting = sampling::Granting::kGate,
          .mode = sampling::Mode::kPublished};
}

sampling::Rules rules_of(sampling::RulesSpec spec) {
  Result<sampling::Rules> rules = sampling::make_rules(std::move(spec));
  if (!rules) throw std::runtime_error(rules.error().message);
  return std::move(*rules);
}

std::shared_ptr<sampling::Sampling> sampling_of(sampling::RulesSpec spec) {
  return sampling::Sampling::create(rules_of(std::move(spec)), {.secret = {1, 2, 3, 4}});
}

template <typename T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

std::string text_of(std::optional<std::int64_t> number) {
  return number ? fmt::format("{}", *number) : "none";
}

// Whether somebody with so many in the window is skipped.
bool is_skipped(const object& recorded, std::int64_t count) {
  sampling::RulesSpec spec = published();
  spec.environments = {environment_of(kEnvironment, recorded.at("config").as_object())};
  const auto counters = sampling_of(std::move(spec));
  const sampling::Who who{kHotkey, kRevision, kEnvironment, integer_of(recorded.at("uid"))};
  if (count > 0) (void)checked(counters->grant(who, count, Instant{}));
  return checked(counters->peek(who, 1, Instant{})).granted == 0;
}

}  // namespace

// uid and config -> allowed an hour in both arithmetics, and who is skipped.
Failure run_sampling_rate(const boost::json::object& recorded) {
  struct Form {
    std::string_view field;
    sampling::Arithmetic arithmetic;
  };
  for (const Form& form : {Form{"allowed", sampling::Arithmetic::kDouble},
                           Form{"allowed_exact", sampling::Arithmetic::kExact}}) {
    sampling::RulesSpec spec = published();
    spec.formula.arithmetic = form.arithmetic;
    spec.environments = {environment_of(kEnvironment, recorded.at("config").as_object())};
    const auto counters = sampling_of(std::move(spec));
    const sampling::Who who{kHotkey, kRevision, kEnvironment, integer_of(recorded.at("uid"))};
    const sampling::Grant said = checked(counters->peek(who, 1, Instant{}));
    const std::optional<std::int64_t> expected = integer_of(recorded.at(form.field));
    if (said.limit != expected) {
      return fmt::format("{} {}, expected {}", form.field, text_of(said.limit), text_of(expected));
    }
    if ((said.reason == sampling::Reason::kExempt) != recorded.at("exempt").as_bool()) {
      return fmt::format("reason {}", to_string(said.reason));
    }
  }
  for (const value& check : recorded.at("checks").as_array()) {
    const auto count = check.at(0).to_number<std::int64_t>();
    if (is_skipped(recorded, count) != check.at(1).as_bool()) {
      return fmt::format("with {} in the window: not as recorded", count);
    }
  }
  return std::nullopt;
}

// Passes over one key, as published and capped.
Failure run_sampling_decide(const boost::json::object& recorded) {
  sampling::RulesSpec spec = published();
  spec.environments = {environment_of(kEnvironment, recorded.at("config").as_object())};
  spec.formula.window_s = recorded.at("window").to_number<std::int64_t>();
  const auto open = sampling_of(spec);
  spec.granting = sampling::Granting::kCapped;
  const auto capped = sampling_of(spec);
  const sampling::Who who{kHotkey, kRevision, kEnvironment, integer_of(recorded.at("uid"))};
  for (const value& each : recorded.at("passes").as_array()) {
    const object& pass = each.as_object();
    const Instant at = instant_of(pass.at("t"));
    const auto want = pass.at("want").to_number<std::int64_t>();
    const auto expect = [&](std::string_view field) { return *integer_of(pass.at(field)); };

    const bool skip = checked(open->peek(who, 1, at)).granted == 0;
    const sampling::Grant gate = checked(open->grant(who, want, at));
    if (gate.count - gate.granted != expect("count") || skip != pass.at("skip").as_bool() ||
        gate.granted != expect("granted") || gate.count != expect("count_after")) {
      return fmt::format("at {} ns: as a gate {} granted, {} after", at.ns, gate.granted,
                         gate.count);
    }
    const sampling::Grant strict = checked(capped->grant(who, want, at));
    if (strict.count - strict.granted != expect("strict_count") ||
        strict.granted != expect("strict_granted")) {
      return fmt::format("at {} ns: capped {} granted, {} after", at.ns, strict.granted,
                         strict.count);
    }
    const value& next_at = pass.at("strict_next_at");
    if (!next_at.is_null() && strict.next_free != instant_of(next_at)) {
      return fmt::format("at {} ns: next free at {} ns", at.ns, strict.next_free.ns);
    }
    if (next_at.is_null() && strict.granted < want) return "not all that was wanted";
  }
  return std::nullopt;
}

namespace {

// Everything that was allocated before, whoever was allowed it then.
std::shared_ptr<sampling::Sampling> with_allocations(const object& recorded,
                                                     const sampling::RulesSpec& spec) {
  sampling::RulesSpec unlimited = spec;
  unlimited.exempt.above = -1;
  const auto counters = sampling_of(unlimited);
  std::vector<std::pair<Instant, std::string_view>> stamps;
  for (const value& each : recorded.at("envs").as_array()) {
    for (const value& stamp : each.at("alloc").as_array()) {
      stamps.emplace_back(instant_of(stamp), each.at("env").as_string());
    }
  }
  std::sort(stamps.begin(), stamps.end());
  for (const auto& [at, environment] : stamps) {
    (void)checked(counters->grant({kHotkey, kRevision, environment, 0}, 1, at));
  }
  counters->set_rules(rules_of(spec));
  return counters;
}

Failure compare_pass(const object& expected, const std::vector<sampling::Planned>& planned) {
  std::set<std::string_view> exceeded;
  for (const sampling::Planned& made : planned) {
    const auto recorded = [&](std::string_view field) {
      return integer_of(expected.at(field).at(made.environment));
    };
    if (made.grant.limit != recorded("allowed") || made.count_before != *recorded("count_before") ||
        made.grant.granted != *recorded("created") ||
        made.grant.count != *recorded("count_after")) {
      return fmt::format("{}: {} before, {} created, {} after", made.environment, made.count_before,
                         made.grant.granted, made.grant.count);
    }
    if (made.grant.limit && made.grant.granted > 0 && made.grant.count > *made.grant.limit) {
      exceeded.insert(made.environment);
    }
  }
  std::set<std::string_view> known;
  for (const value& name : expected.at("exceeded").as_array()) known.insert(name.as_string());
  if (exceeded != known) return fmt::format("exceeded {}", exceeded.size());
  return std::nullopt;
}

}  // namespace

// One pass of one miner, as published; and capped, where it must not exceed any limit.
Failure run_sampling_schedule(const boost::json::object& recorded) {
  sampling::RulesSpec spec = published();
  std::vector<sampling::Work> work;
  for (const value& each : recorded.at("envs").as_array()) {
    const std::string_view name = each.at("env").as_string();
    spec.environments.push_back(environment_of(name, each.at("config").as_object()));
    work.push_back({name, *integer_of(each.at("active")), *integer_of(each.at("missing"))});
  }
  const sampling::Round round{*integer_of(recorded.at("total_slots")), work};
  const sampling::Miner miner{kHotkey, kRevision, integer_of(recorded.at("uid"))};
  const sampling::Random random = [](std::uint64_t) { return std::uint64_t{0}; };
  const Instant now = instant_of(recorded.at("now"));
  const auto counters = with_allocations(recorded, spec);
  const std::vector<sampling::Planned> planned =
      checked(sampling::run_pass(*counters, miner, round, random, now));
  if (Failure failure = compare_pass(recorded.at("expect").as_object(), planned)) return failure;

  spec.granting = sampling::Granting::kCapped;
  const auto capped = with_allocations(recorded, spec);
  for (const sampling::Planned& made :
       checked(sampling::run_pass(*capped, miner, round, random, now))) {
    if (made.grant.limit && made.grant.granted > 0 && made.grant.count > *made.grant.limit) {
      return fmt::format("{}: {} of {} in a capped pass", made.environment, made.grant.count,
                         *made.grant.limit);
    }
  }
  return std::nullopt;
}

// The slot adjuster.
Failure run_sampling_slots(const boost::json::object& recorded) {
  const std::int64_t now_s = *integer_of(recorded.at("now"));
  const sampling::Adjustment made =
      sampling::adjust({},
                       {.slots = integer_of(recorded.at("slots")).value_or(0),
                        .last_adjusted_s = integer_of(recorded.at("last_adjusted"))},
                       {.success = *integer_of(recorded.at("success")),
                        .rate_limited = *integer_of(recorded.at("rate_limited"))},
                       now_s);
  const object& expected = recorded.at("expect").as_object();
  const value& written = expected.at("written");
  const std::optional<std::int64_t> slots =
      written.is_null() ? std::nullopt : integer_of(written.at(0));
  if (made.changed != expected.at("changed").as_bool() || made.slots != slots) {
    return fmt::format("wrote {}, expected {}", text_of(made.slots), text_of(slots));
  }
  if (!written.is_null() && *integer_of(written.at(1)) != now_s) return "another time was written";
  return std::nullopt;
}

// List rotation; the ids that join are drawn by the caller.
Failure run_sampling_rotate(const boost::json::object& recorded) {
  const auto ids_of = [](const value& list) {
    std::vector<std::int64_t> ids;
    for (const value& id : list.as_array()) ids.push_back(*integer_of(id));
    return ids;
  };
  sampling::RotationSpec spec{.sampling_count = *integer_of(recorded.at("sampling_count")),
                              .rotation_count = *integer_of(recorded.at("rotation_count"))};
  for (const value& range : recorded.at("dataset_range").as_array()) {
    spec.dataset.push_back({*integer_of(range.at(0)), *integer_of(range.at(1))});
  }
  const std::vector<std::int64_t> list = ids_of(recorded.at("current"));
  const sampling::ListChange made = sampling::rotate(list, spec);
  const object& expected = recorded.at("expect").as_object();
  const auto middle = list.begin() + static_cast<std::ptrdiff_t>(made.removed);
  const bool is_same =
      std::vector(list.begin(), middle) == ids_of(expected.at("removed")) &&
      std::vector(middle, list.end()) == ids_of(expected.at("kept_prefix")) &&
      static_cast<std::int64_t>(made.added) == *integer_of(expected.at("added_count")) &&
      static_cast<std::int64_t>(list.size() - made.removed + made.added) ==
          *integer_of(expected.at("new_size")) &&
      made.changed() == expected.at("changed").as_bool();
  if (!is_same) return fmt::format("{} removed, {} added", made.removed, made.added);
  return std::nullopt;
}

}  // namespace weir::conformance
