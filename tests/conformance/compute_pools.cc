// Families of the compute system: pools, registries of two generations, and portals.

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/fields.h"
#include "tests/conformance/runner.h"
#include "weir/system/compute/published/exit_queue.h"
#include "weir/system/compute/published/merge.h"
#include "weir/system/compute/published/stake_pool.h"
#include "weir/system/compute/published/worker_choice.h"

namespace weir::conformance {
namespace {

namespace compute = system::compute;
namespace json = boost::json;
using compute::Amount;

Amount parts(const json::object& object, std::string_view name) {
  return compute::parse_parts(name, text_of(object, name)).value();
}
std::vector<std::string> texts(const json::object& object, std::string_view name) {
  std::vector<std::string> list;
  for (const json::value& item : object.at(name).as_array()) list.emplace_back(item.as_string());
  return list;
}

Failure compare(std::string_view what, Amount found, Amount expected) {
  if (found == expected) return std::nullopt;
  return fmt::format("{} {}, expected {}", what, compute::parts_text(found),
                     compute::parts_text(expected));
}

compute::AnswerKind kind_of(const std::string& name) {
  using enum compute::AnswerKind;
  static const std::map<std::string, compute::AnswerKind> kKinds = {
      {"ok", kOk},
      {"bad_request", kBadRequest},
      {"too_many_requests", kTooManyRequests},
      {"server_overloaded", kOverloaded},
      {"server_error", kServerError},
      {"not_found", kNotFound},
      {"timeout", kTimeout},
  };
  return kKinds.at(name);
}

Instant at_ms(std::int64_t ms) { return Instant{ms * 1'000'000}; }

std::string said(const compute::Chosen& chosen) {
  if (chosen.worker) return std::string(*chosen.worker);
  if (chosen.until) return fmt::format("backoff until {}", chosen.until->ns / 1'000'000);
  return "all_unavailable";
}

std::string expected_choice(const json::object& expected) {
  if (expected.contains("ok")) return text_of(expected, "ok");
  const std::string error = text_of(expected, "err");
  return error == "backoff" ? fmt::format("backoff until {}", number_of(expected, "until")) : error;
}

}  // namespace

Failure run_compute_merge(const json::object& recorded) {
  std::vector<compute::ClusterAllocation> pools;
  for (const json::value& row : recorded.at("pools").as_array()) {
    const json::object& pool = row.as_object();
    pools.push_back({text_of(pool, "op"), texts(pool, "portals"), number_of(pool, "cu")});
  }
  std::vector<compute::LegacyPortal> legacy;
  for (const json::value& row : recorded.at("legacy").as_array()) {
    const json::object& portal = row.as_object();
    legacy.push_back({text_of(portal, "p"), text_of(portal, "op"), number_of(portal, "cu")});
  }
  std::vector<compute::ClusterAllocation> expected;
  for (const json::value& row : recorded.at("x").as_array()) {
    const json::object& owner = row.as_object();
    expected.push_back({text_of(owner, "op"), texts(owner, "portals"), number_of(owner, "cu")});
  }
  if (compute::merge_registries(pools, legacy) == expected) return std::nullopt;
  return "other clusters than expected";
}

Failure run_compute_pool(const json::object& recorded) {
  const json::object& config = recorded.at("config").as_object();
  compute::StakePool pool({.least = parts(config, "min_stake"),
                           .capacity = parts(config, "capacity"),
                           .mana_bp = number_of(config, "mana_bp")});
  return run_steps(recorded, [&](const json::object& step) -> Failure {
    const json::object& expected = step.at("x").as_object();
    const std::string op = text_of(step, "op");
    bool done = true;
    if (op == "stake") pool.stake(parts(step, "amount"));
    if (op == "unstake") done = pool.unstake(parts(step, "amount"));
    if (op == "set_min") pool.set_least(parts(step, "min"));
    if (expected.contains("err") == done) return "refused or not, unlike expected";
    if (!done) return std::nullopt;
    if (pool.is_active() != expected.at("active").as_bool())
      return "active or not, unlike expected";
    return compare("units", pool.units(), static_cast<Amount>(number_of(expected, "cu")));
  });
}

Failure run_compute_exit_queue(const json::object& recorded) {
  const json::object& config = recorded.at("config").as_object();
  compute::ExitQueue queue(number_of(config, "t0"),
                           static_cast<Amount>(number_of(config, "rate0")));
  std::vector<Amount> ends;  // by ticket
  return run_steps(recorded, [&](const json::object& step) -> Failure {
    const json::object& expected = step.at("x").as_object();
    const std::string op = text_of(step, "op");
    const auto rate = static_cast<Amount>(number_of(step, "rate"));
    if (op == "rate_now") {
      queue.change_rate(rate);
      return std::nullopt;
    }
    const std::int64_t at = number_of(step, "t");
    if (op == "request") {
      ends.push_back(queue.request(at, static_cast<Amount>(number_of(step, "amount")), rate));
      return compare("end", ends.back(), static_cast<Amount>(number_of(expected, "end")));
    }
    queue.change_rate(rate);
    const Amount end = ends.at(static_cast<std::size_t>(number_of(step, "ticket")));
    const std::optional<std::int64_t> wait = queue.wait_seconds(at, end);
    if ((wait == 0) != expected.at("ready").as_bool()) return "ready or not, unlike expected";
    const json::value& wait_s = expected.at("wait_s");
    const std::optional<std::int64_t> expected_wait =
        wait_s.is_null() ? std::nullopt : std::optional(wait_s.to_number<std::int64_t>());
    if (wait != expected_wait) return fmt::format("waits {} s", wait.value_or(-1));
    return compare("processed", queue.processed(at),
                   static_cast<Amount>(number_of(expected, "processed")));
  });
}

Failure run_compute_pick(const json::object& recorded) {
  const json::object& config = recorded.at("config").as_object();
  compute::WorkerChoice choice(
      {.queries_per_worker = number_of(config, "max_queries_per_worker"),
       .error_window = std::chrono::seconds{number_of(config, "error_window_s")},
       .timeout_window = std::chrono::seconds{number_of(config, "timeout_window_s")},
       .default_backoff = std::chrono::milliseconds{number_of(config, "default_backoff_ms")}});
  return run_steps(recorded, [&](const json::object& step) -> Failure {
    const json::object& expected = step.at("x").as_object();
    const Instant now = at_ms(number_of(step, "t"));
    if (text_of(step, "op") == "pick") {
      const std::vector<std::string> names = texts(step, "from");
      const std::vector<std::string_view> from(names.begin(), names.end());
      const std::string found = said(choice.pick(from, now));
      if (found == expected_choice(expected)) return std::nullopt;
      return fmt::format("{}, expected {}", found, expected_choice(expected));
    }
    compute::WorkerAnswer answer{.kind = kind_of(text_of(step, "kind"))};
    if (!step.at("retry_after_ms").is_null()) {
      answer.hint = std::chrono::milliseconds{number_of(step, "retry_after_ms")};
    }
    if (!step.at("throughput").is_null()) answer.throughput = number_of(step, "throughput");
    choice.answered(text_of(step, "w"), answer, now);
    return std::nullopt;
  });
}

}  // namespace weir::conformance
