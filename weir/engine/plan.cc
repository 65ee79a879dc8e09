#include "weir/engine/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/engine/pattern.h"

namespace weir::engine {
namespace {

std::unique_ptr<Error> bad_request(std::string message) {
  return std::make_unique<Error>(bad_argument(std::move(message)));
}

// A request with names resolved to places in the rule set.
struct Facts {
  Facts() noexcept {}  // values are written before they are read

  std::uint64_t present = 0;  // attributes
  std::uint64_t costed = 0;   // units
  union {
    std::array<std::string_view, kAttributesMax> values;
  };
  std::array<std::int64_t, kUnitsMax> amounts;

  bool has(std::size_t attribute) const { return (present >> attribute & 1) != 0; }
};

// What is wrong with a request. Kept out of the way of those with which nothing is.

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> unknown_attribute(std::string_view name,
                                                                      const Names& known) {
  return bad_request(
      fmt::format("request: attribute '{}' is not used by any limit; known are {}; correct the "
                  "name, or declare "
                  "it in the rule set",
                  name.substr(0, kNameBytesMax), known.joined()));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> repeated_attribute(std::string_view name) {
  return bad_request(fmt::format("request: attribute '{}' is given twice; write it once", name));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> long_value(const Attribute& attribute) {
  return bad_request(fmt::format(
      "request: the value of attribute '{}' is {} bytes long, but at most {} are allowed; write a "
      "shorter one, or a digest of it",
      attribute.name, attribute.value.size(), kValueBytesMax));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> unknown_unit(std::string_view unit,
                                                                 const Names& known) {
  return bad_request(fmt::format(
      "request: unit '{}' is unknown; known are {}; correct the name, or declare the unit",
      unit.substr(0, kNameBytesMax), known.joined()));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> repeated_cost(std::string_view unit) {
  return bad_request(fmt::format("request: the cost in '{}' is given twice; write it once", unit));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> bad_cost(const Cost& cost) {
  return bad_request(fmt::format(
      "request: the cost in '{}' is {}, but it must be between 0 and 2^62; to give something back, "
      "settle or cancel a hold",
      cost.unit, cost.amount));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> too_many_limits(const ActiveLimit& limit) {
  return bad_request(fmt::format(
      "limit '{}': the request already meets {} limits, the most that one request may meet; narrow "
      "the limits with 'when', or split the request",
      limit.name, kLimitsPerRequestMax));
}

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> cost_too_large(const ActiveLimit& limit,
                                                                   std::int64_t cost,
                                                                   std::int64_t weight) {
  return bad_request(fmt::format(
      "limit '{}': a cost of {} times a weight of {} exceeds 2^62; write a smaller cost",
      limit.name, cost, weight));
}

inline std::unique_ptr<Error> resolve_attributes(const RuleSet& rules, const Request& request,
                                                 Facts& facts) {
  const Names& known = rules.attributes();
  for (const Attribute& attribute : request.attributes) {
    const std::size_t place = known.find(attribute.name);
    if (place == known.size()) return unknown_attribute(attribute.name, known);
    if (facts.has(place)) return repeated_attribute(attribute.name);
    if (attribute.value.size() > kValueBytesMax) return long_value(attribute);
    facts.present |= std::uint64_t{1} << place;
    facts.values[place] = attribute.value;
  }
  return nullptr;
}

inline std::unique_ptr<Error> resolve_costs(const RuleSet& rules, const Request& request,
                                            Facts& facts) {
  facts.costed = 1;  // `requests` stands first in every rule set
  facts.amounts[0] = 1;
  std::uint64_t given = 0;
  const Names& known = rules.units();
  for (const Cost& cost : request.costs) {
    const std::size_t place = known.find(cost.unit);
    if (place == known.size()) return unknown_unit(cost.unit, known);
    if ((given >> place & 1) != 0) return repeated_cost(cost.unit);
    if (cost.amount < 0 || cost.amount > kTermMax) return bad_cost(cost);
    given |= std::uint64_t{1} << place;
    facts.costed |= std::uint64_t{1} << place;
    facts.amounts[place] = cost.amount;
  }
  return nullptr;
}

bool holds(const Matcher& matcher, const Facts& facts) {
  if (!facts.has(matcher.attribute)) return false;
  const std::string_view value = facts.values[matcher.attribute];
  if (matcher.exact.find(value) != matcher.exact.end()) return true;
  return std::any_of(matcher.globs.begin(), matcher.globs.end(),
                     [&](const std::string& glob) { return matches(glob, value); });
}

bool all_hold(const std::vector<Matcher>& matchers, const Facts& facts) {
  return std::all_of(matchers.begin(), matchers.end(),
                     [&](const Matcher& matcher) { return holds(matcher, facts); });
}

bool is_exempt(const Rule& rule, const Facts& facts) {
  return std::any_of(rule.exempt.begin(), rule.exempt.end(),
                     [&](const std::vector<Matcher>& group) { return all_hold(group, facts); });
}

bool applies(const ActiveLimit& limit, const Facts& facts) {
  if ((facts.present & limit.attributes) != limit.attributes) return false;
  if ((facts.costed >> limit.unit_place & 1) == 0) return false;
  return limit.is_simple || (all_hold(limit.rule->when, facts) && !is_exempt(*limit.rule, facts));
}

std::int64_t weight_of(const Rule& rule, const Facts& facts) {
  if (rule.weigh.empty() || !facts.has(rule.weigh[0].attribute)) return 1;
  const auto found = rule.weigh[0].exact.find(facts.values[rule.weigh[0].attribute]);
  return found == rule.weigh[0].exact.end() ? 1 : found->second;
}

bool is_planned(const Plan& plan, const ActiveLimit& limit) {
  return std::any_of(plan.items.begin(), plan.items.begin() + plan.count,
                     [&](const PlanItem& item) { return item.limit == &limit; });
}

inline std::unique_ptr<Error> add_item(const Active& active, const ActiveLimit& limit,
                                       const Facts& facts, Plan& plan) {
  if (plan.count == kLimitsPerRequestMax) return too_many_limits(limit);
  PlanItem& item = plan.items[plan.count];
  item.limit = &limit;
  item.weight = 1;
  item.cost = facts.amounts[limit.unit_place];
  if (!limit.is_simple) {
    item.weight = weight_of(*limit.rule, facts);
    const Wide cost = Wide{item.cost} * item.weight;
    if (cost > kTermMax) return cost_too_large(limit, item.cost, item.weight);
    item.cost = static_cast<std::int64_t>(cost);
  }
  Print print = limit.seed;
  for (std::size_t i = 0; i < limit.per_count; ++i) {
    print = with_value(active.secret, print, facts.values[limit.per[i]]);
  }
  item.print = finished(print);
  plan.has_gates |= limit.seat != nullptr;
  plan.has_slots |= limit.is_slots;
  plan.count += 1;
  return nullptr;
}

// Locks are taken in this order by everybody.
void order_shards(Plan& plan) {
  plan.shard_count = 0;
  if (plan.count == 1 && !plan.has_gates) {
    plan.shards[0] = static_cast<std::uint8_t>(plan.items[0].print.high >> 56);
    plan.shard_count = 1;
    return;
  }
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (plan.items[i].limit->seat != nullptr) continue;
    const auto shard = static_cast<std::uint8_t>(plan.items[i].print.high >> 56);
    std::size_t at = plan.shard_count;
    while (at > 0 && plan.shards[at - 1] > shard) --at;
    if (at > 0 && plan.shards[at - 1] == shard) continue;
    for (std::size_t j = plan.shard_count; j > at; --j) plan.shards[j] = plan.shards[j - 1];
    plan.shards[at] = shard;
    plan.shard_count += 1;
  }
}

}  // namespace

std::unique_ptr<Error> make_plan(const Active& active, const Request& request, Plan& plan) {
  Facts facts;
  if (auto error = resolve_attributes(*active.rules, request, facts)) return error;
  if (auto error = resolve_costs(*active.rules, request, facts)) return error;
  plan.generation = active.generation;
  plan.count = 0;
  plan.has_gates = false;
  plan.has_slots = false;
  for (const ActiveLimit& limit : active.limits) {
    if (!applies(limit, facts)) continue;
    if (!active.has_parents) {
      if (auto error = add_item(active, limit, facts, plan)) return error;
      continue;
    }
    // A child draws on its ancestors too, whatever their own conditions say,
    // each once, and unless the request is exempt from them.
    for (const ActiveLimit* drawn = &limit;;) {
      if (!is_planned(plan, *drawn) && (drawn == &limit || !is_exempt(*drawn->rule, facts))) {
        if (auto error = add_item(active, *drawn, facts, plan)) return error;
      }
      if (drawn->rule->parent < 0) break;
      drawn = &active.limits[static_cast<std::size_t>(drawn->rule->parent)];
    }
  }
  // Ancestors were added with their children; outcomes come in the order of the rules.
  if (active.has_parents) {
    std::sort(plan.items.begin(), plan.items.begin() + plan.count,
              [](const PlanItem& a, const PlanItem& b) { return a.limit < b.limit; });
  }
  order_shards(plan);
  return nullptr;
}

Print print_of(const Active& active, const ActiveLimit& limit,
               std::span<const std::string_view> values) {
  Print print = limit.seed;
  for (const std::string_view value : values) print = with_value(active.secret, print, value);
  return finished(print);
}

std::string key_text(const Active& active, const ActiveLimit& limit, const Request& request) {
  std::string text;
  for (const std::size_t place : limit.rule->per) {
    const std::string& name = active.rules->attributes()[place];
    for (const Attribute& attribute : request.attributes) {
      if (attribute.name != name) continue;
      if (!text.empty()) text += ' ';
      text += name;
      text += '=';
      text += attribute.value;
    }
  }
  return text;
}

}  // namespace weir::engine
