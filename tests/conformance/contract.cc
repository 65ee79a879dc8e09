// Families of the contract system.

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/runner.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/costs.h"
#include "weir/system/contract/document.h"
#include "weir/system/contract/fraction.h"
#include "weir/system/contract/period.h"
#include "weir/system/contract/processing_units.h"
#include "weir/system/contract/published.h"

namespace weir::conformance {
namespace {

namespace json = boost::json;
using namespace system::contract;

bool is_near(double found, double expected) {
  const double apart = std::abs(found - expected);
  return apart <= 1e-6 || apart <= 1e-9 * std::abs(expected);
}

double number(const json::value& value) { return value.to_number<double>(); }
std::int64_t whole(const json::value& value) { return value.to_number<std::int64_t>(); }
std::string text(const json::value& value) { return std::string(value.as_string()); }

std::int64_t signed_micro(double units) {
  const std::int64_t micro =
      *micro_of("amount", *decimal_of("amount", std::abs(units)), Rounding::kDown);
  return units < 0 ? -micro : micro;
}

// What a policy has left, in units.
double left(const Policy& policy, Wide level_fs) {
  const Wide one_fs = worth_fs(policy, kMicro);
  return static_cast<double>(level_fs / one_fs) +
         static_cast<double>(level_fs % one_fs) / static_cast<double>(one_fs);
}

std::vector<Policy> policies_in(const json::object& recorded) {
  std::vector<Policy> policies;
  for (const json::value& row : recorded.at("policies").as_array()) {
    const Resource resource =
        row.at("type").as_string() == "RQ" ? Resource::kRequests : Resource::kProcessingUnits;
    policies.push_back(*make_policy(resource, whole(row.at("capacity")),
                                    *parse_period(text(row.at("samplingPeriod"))),
                                    whole(row.at("nanosBetweenRefills"))));
  }
  return policies;
}

// What each policy starts with, as whole micro-units.
std::vector<std::optional<std::int64_t>> initial_in(const json::object& recorded) {
  std::vector<std::optional<std::int64_t>> initial;
  for (const json::value& row : recorded.at("policies").as_array()) {
    initial.emplace_back(signed_micro(number(row.at("initial"))));
  }
  return initial;
}

Costs costs_in(const json::object& event) {
  const json::value* requests = event.if_contains("requests");
  return *costs_of(requests == nullptr ? 1 : number(*requests), number(event.at("pu")));
}

Failure compare_left(std::span<const Policy> policies, std::span<const Wide> levels_fs,
                     const json::value& remaining, std::size_t event) {
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const double found = left(policies[i], levels_fs[i]);
    const double expected = number(remaining.as_array().at(i));
    if (!is_near(found, expected)) {
      return fmt::format("event {}: {} has {} left, expected {}", event, policy_id(policies[i]),
                         found, expected);
    }
  }
  return std::nullopt;
}

Published published_in(const json::object& recorded) {
  Published published(policies_in(recorded), Instant{0});
  const auto initial = initial_in(recorded);
  for (std::size_t i = 0; i < initial.size(); ++i) {
    published.set_left(i, *initial[i], Instant{0});
  }
  return published;
}

std::shared_ptr<Account> account_in(const json::object& recorded, const AccountOptions& options) {
  auto account = *Account::create("recorded", policies_in(recorded), options, Instant{0});
  account->refresh(initial_in(recorded), Instant{0}).value();
  return account;
}

std::vector<Wide> levels_of(Account& account, Instant now) {
  const std::scoped_lock lock(account);
  std::vector<Wide> levels_fs;
  for (const Standing& row : account.locked().book.standing({0, 0}, now)) {
    levels_fs.push_back(row.level_fs);
  }
  return levels_fs;
}

// How often a service with the same policies refuses those who start so.
std::int64_t refusals(const json::object& recorded, std::vector<std::pair<Instant, Costs>> starts) {
  std::stable_sort(starts.begin(), starts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto service = account_in(recorded, {.role = AccountRole::kService});
  std::int64_t count = 0;
  for (const auto& [start, costs] : starts) {
    count += service->consume(costs, start)->refusal ? 1 : 0;
  }
  return count;
}

Failure compare_bucket(const Policy& found, const json::value& expected, std::size_t place) {
  const double per_second = 1e9 / static_cast<double>(found.refill_ns);
  if (type_name(found.resource) == expected.at("type").as_string() &&
      is_near(static_cast<double>(found.capacity), number(expected.at("capacity"))) &&
      found.period == *parse_period(text(expected.at("samplingPeriod"))) &&
      is_near(per_second, number(expected.at("refill_per_second"))) &&
      found.is_fixed() == expected.at("fixed").as_bool()) {
    return std::nullopt;
  }
  return fmt::format("bucket {}: {} with {} a second, expected {}", place, policy_id(found),
                     per_second, json::serialize(expected));
}

}  // namespace

// Asks in order, no time passing -> delay, what is left.
Failure run_contract_apply_static(const json::object& recorded) {
  Published published = published_in(recorded);
  const json::array& events = recorded.at("events").as_array();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json::object& event = events[i].as_object();
    const Delay asked = *published.ask(costs_in(event), Instant{0});
    const double delay_s = static_cast<double>(asked.delay_ns) / 1e9;
    if (!is_near(delay_s, number(event.at("delay_s")))) {
      return fmt::format("event {}: delay {} s, expected {}", i, delay_s,
                         number(event.at("delay_s")));
    }
    if (Failure failure =
            compare_left(published.policies(), published.levels_fs(), event.at("remaining"), i)) {
      return failure;
    }
  }
  return std::nullopt;
}

// Asks at instants -> delay, the policy that binds, what is left.
Failure run_contract_apply_timed(const json::object& recorded) {
  Published published = published_in(recorded);
  const json::array& events = recorded.at("events").as_array();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json::object& event = events[i].as_object();
    const Delay asked = *published.ask(costs_in(event), Instant{whole(event.at("t_ns"))});
    const std::int64_t binding = asked.binding ? static_cast<std::int64_t>(*asked.binding) : -1;
    const json::value& expected = event.at("binding");
    if (asked.delay_ns != whole(event.at("delay_ns")) ||
        binding != (expected.is_null() ? -1 : whole(expected))) {
      return fmt::format("event {}: delay {} ns by {}, expected {} ns by {}", i, asked.delay_ns,
                         binding, whole(event.at("delay_ns")), json::serialize(expected));
    }
    if (Failure failure =
            compare_left(published.policies(), published.levels_fs(), event.at("remaining"), i)) {
      return failure;
    }
  }
  return std::nullopt;
}

// contract -> with_defaults: the buckets, or the name of the mistake.
Failure run_contract_contract(const json::object& recorded) {
  const auto contracts = read_contracts(json::serialize(recorded.at("contract")));
  const json::value& expected = recorded.at("with_defaults");
  if (expected.is_object()) {
    const std::string name = text(expected.at("error"));
    if (contracts) return fmt::format("was read, expected error {}", name);
    if (contracts.error().message.starts_with(name + ": ")) return std::nullopt;
    return fmt::format("error '{}', expected {}", contracts.error().message, name);
  }
  if (!contracts) return contracts.error().message;
  if (contracts->empty()) {
    return expected.as_array().empty() ? Failure{} : Failure{"no contract was found"};
  }
  const auto policies = policies_of(*contracts, "");
  if (!policies) return policies.error().message;
  if (policies->size() != expected.as_array().size()) {
    return fmt::format("{} buckets, expected {}", policies->size(), expected.as_array().size());
  }
  for (std::size_t i = 0; i < policies->size(); ++i) {
    if (Failure failure = compare_bucket((*policies)[i], expected.as_array()[i], i)) return failure;
  }
  return std::nullopt;
}

// text -> ns, canonical text, whether it is fixed; with a capacity the refill interval.
Failure run_contract_period(const json::object& recorded) {
  const auto period = parse_period(text(recorded.at("text")));
  const json::value& expected_ns = recorded.at("ns");
  if (period.ok() != !expected_ns.is_null()) {
    return period ? fmt::format("read as {} ns", period->count()) : period.error().message;
  }
  if (!period) return std::nullopt;
  if (period->count() != whole(expected_ns)) {
    return fmt::format("{} ns, expected {}", period->count(), whole(expected_ns));
  }
  if (recorded.at("canonical").is_null()) {
    const auto policy = make_policy(Resource::kRequests, 1, *period);
    return policy ? Failure{"a policy took it"} : Failure{};
  }
  if (period_text(*period) != text(recorded.at("canonical"))) {
    return fmt::format("written {}, expected {}", period_text(*period),
                       text(recorded.at("canonical")));
  }
  if ((period->count() == 0) != recorded.at("fixed").as_bool()) return "fixed is not as expected";
  const json::value* capacity = recorded.if_contains("capacity");
  if (capacity == nullptr) return std::nullopt;
  const std::int64_t expected = whole(recorded.at("nanosBetweenRefills"));
  const auto policy = make_policy(Resource::kRequests, whole(*capacity), *period);
  if (expected == 0) return policy ? Failure{"a policy took it"} : Failure{};
  if (!policy) return policy.error().message;
  if (policy->refill_ns == expected) return std::nullopt;
  return fmt::format("interval {} ns, expected {}", policy->refill_ns, expected);
}

// A piece of work -> its cost, exactly.
Failure run_contract_pu_published(const json::object& recorded) {
  const auto flag = [&](std::string_view name) {
    const json::value* value = recorded.if_contains(json::string_view(name.data(), name.size()));
    return value != nullptr && value->as_bool();
  };
  Work work;
  work.api = api_named(text(recorded.at("api"))).value();
  work.orthorectify = flag("ortho");
  work.terrain_correct = flag("rtc");
  work.speckle_filter = flag("speckle");
  if (const json::value* tiles = recorded.if_contains("tiles")) {
    for (const json::value& tile : tiles->as_array()) {
      work.tiles.push_back({whole(tile.as_array().at(0)), whole(tile.as_array().at(1))});
    }
    for (const json::value& band : recorded.at("bands").as_array()) {
      work.bands.push_back(text(band));
    }
    work.output = output_named(text(recorded.at("output"))).value();
    work.samples = whole(recorded.at("samples"));
  }
  if (const json::value* local = recorded.if_contains("local")) {
    work.local_collections = whole(*local);
    work.remote_collections = whole(recorded.at("remote"));
  }
  if (const json::value* area = recorded.if_contains("area_km2")) {
    work.area_km2 = *decimal_of("area", number(*area));
    work.months = *decimal_of("months", number(recorded.at("months")));
  }
  const auto cost = processing_units(work);
  if (!cost) return cost.error().message;
  if (cost->num == whole(recorded.at("num")) && cost->den == whole(recorded.at("den"))) {
    return std::nullopt;
  }
  return fmt::format("{}/{} units, expected {}/{}", cost->num, cost->den, whole(recorded.at("num")),
                     whole(recorded.at("den")));
}

// Joint reservation -> start, or why never; and what a service makes of it.
Failure run_contract_reserve(const json::object& recorded) {
  const auto account = account_in(recorded, {.jitter = Duration{0}});
  const auto documented = account_in(recorded, {.rule = Rule::kPublished, .jitter = Duration{0}});
  std::vector<std::pair<Instant, Costs>> granted_starts;
  std::vector<std::pair<Instant, Costs>> documented_starts;
  const json::array& events = recorded.at("events").as_array();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json::object& event = events[i].as_object();
    const Instant now{whole(event.at("t_ns"))};
    const Costs costs = costs_in(event);
    const Reserved reserved = *account->reserve({.costs = costs}, now);
    const json::value* error = event.if_contains("error");
    if (error != nullptr) {
      if (to_string(reserved.never) == error->as_string()) continue;
      return fmt::format("event {}: start {} ns ('{}'), expected error {}", i, reserved.start.ns,
                         to_string(reserved.never), text(*error));
    }
    if (reserved.verdict != Verdict::kAllowed || reserved.start.ns != whole(event.at("start_ns")) ||
        reserved.delay_ns != whole(event.at("delay_ns")) || reserved.debited != costs) {
      return fmt::format("event {}: {} at {} ns, expected start {} ns", i,
                         to_string(reserved.verdict), reserved.start.ns,
                         whole(event.at("start_ns")));
    }
    const Reserved asked = *documented->reserve({.costs = costs}, now);
    if (asked.delay_ns != whole(event.at("documented_delay_ns"))) {
      return fmt::format("event {}: documented delay {} ns, expected {}", i, asked.delay_ns,
                         whole(event.at("documented_delay_ns")));
    }
    granted_starts.emplace_back(reserved.start, costs);
    documented_starts.emplace_back(asked.start, costs);
  }
  const std::int64_t granted_refused = refusals(recorded, granted_starts);
  const std::int64_t documented_refused = refusals(recorded, documented_starts);
  if (granted_refused == whole(recorded.at("reservation_429")) &&
      documented_refused == whole(recorded.at("documented_rule_429"))) {
    return std::nullopt;
  }
  return fmt::format(
      "{} refusals of reservations and {} of the documented rule, expected {} and {}",
      granted_refused, documented_refused, whole(recorded.at("reservation_429")),
      whole(recorded.at("documented_rule_429")));
}

// All or nothing -> status, and on 429 code, policies, Retry-After; what is left.
Failure run_contract_server(const json::object& recorded) {
  const auto service = account_in(recorded, {.role = AccountRole::kService});
  const std::vector<Policy> policies = service->policies();
  const json::array& events = recorded.at("events").as_array();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json::object& event = events[i].as_object();
    const Instant now{whole(event.at("t_ns"))};
    const Consumed consumed = *service->consume(costs_in(event), now);
    if (consumed.refusal.has_value() != (whole(event.at("status")) == 429)) {
      return fmt::format("event {}: refused is {}", i, consumed.refusal.has_value());
    }
    if (consumed.refusal) {
      json::object found;
      const Refusal& refusal = *consumed.refusal;
      found["code"] = std::string(to_string(refusal.code));
      json::array& violated = found["violated"].emplace_array();
      for (const std::size_t policy : refusal.violated) violated.emplace_back(policy);
      if (refusal.worst) found["worst"] = *refusal.worst;
      const auto after = retry_after_text(refusal, RetryAfterUnit::kMilliseconds);
      found["retry_after_ms"] = after ? json::value(std::stoll(*after)) : json::value();
      for (const auto& [name, value] : found) {
        if (event.at(name) != value) {
          return fmt::format("event {}: {} is {}, expected {}", i,
                             std::string_view(name.data(), name.size()), json::serialize(value),
                             json::serialize(event.at(name)));
        }
      }
    }
    if (Failure failure =
            compare_left(policies, levels_of(*service, now), event.at("remaining"), i)) {
      return failure;
    }
  }
  return std::nullopt;
}

// value, add, capacity -> ideal. Weir fills by letting time pass, here a unit each
// millisecond, and takes by debiting.
Failure run_contract_fill(const json::object& recorded) {
  constexpr std::int64_t kRefillNs = kMicro;  // a nanosecond for each micro-unit
  const std::int64_t capacity = whole(recorded.at("capacity"));
  const Policy policy =
      *make_policy(Resource::kProcessingUnits, capacity, Duration{kRefillNs * capacity}, kRefillNs);
  const std::int64_t add_micro = signed_micro(number(recorded.at("add")));
  Wide level_fs = worth_fs(policy, signed_micro(number(recorded.at("value"))));
  if (add_micro < 0) level_fs = debited_fs(level_fs, worth_fs(policy, -add_micro));
  const Duration elapsed{std::max<std::int64_t>(0, add_micro)};
  const double found = left(policy, refilled_fs(policy, level_fs, elapsed));
  if (is_near(found, number(recorded.at("ideal")))) return std::nullopt;
  return fmt::format("filled to {}, expected {}", found, number(recorded.at("ideal")));
}

}  // namespace weir::conformance
