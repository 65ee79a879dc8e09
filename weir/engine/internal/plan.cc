#include "weir/engine/internal/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>

#include "weir/engine/rule_set.h"

namespace weir::engine {
namespace {

// What is wrong with a request. Kept out of the way of those with which nothing is.

[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> long_value(const Attribute& attribute) {
  return bad_request(fmt::format(
      "request: the value of attribute '{}' is {} bytes long, but at most {} are allowed; write a "
      "shorter one, or a digest of it",
      attribute.name, attribute.value.size(), kValueBytesMax));
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

// Without a cost in it, the unit is `requests`, of which every request costs one.
inline std::int64_t amount_of(const Candidate& candidate, const Request& request) {
  if (candidate.cost < 0) return 1;
  return request.costs[static_cast<std::size_t>(candidate.cost)].amount;
}

inline Print mix_key(const Secret& secret, const Candidate& candidate, const Request& request) {
  Print key;
  for (std::size_t i = 0; i < candidate.per_count; ++i) {
    key = with_value(secret, key, request.attributes[candidate.per[i]].value);
  }
  return key;
}

// The candidates that apply to one request because of its values.
class Chosen {
 public:
  Chosen(const Outline& outline, const Request& request) : outline_(outline), request_(request) {
    const std::vector<Candidate>& candidates = outline_.candidates();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!applies(candidates[i])) continue;
      chosen_.set(i);
      // A child draws on its ancestors too, whatever their own conditions say, unless
      // the request is exempt from them; one in shadow only on those that are too.
      for (int up = candidates[i].parent; up >= 0;) {
        const Candidate& ancestor = candidates[static_cast<std::size_t>(up)];
        const bool is_drawn_on = ancestor.limit->shadow || !candidates[i].limit->shadow;
        if (is_drawn_on && !is_exempt(*ancestor.limit->rule)) {
          chosen_.set(static_cast<std::size_t>(up));
        }
        up = ancestor.parent;
      }
    }
  }

  bool has(std::size_t candidate) const { return chosen_[candidate]; }

  std::int64_t weight_of(const Candidate& candidate) const {
    const Rule& rule = *candidate.limit->rule;
    if (rule.weigh.empty()) return 1;
    const Matcher& table = rule.weigh[0];
    const int place = outline_.place_of(table.attribute);
    if (place < 0) return 1;
    const auto found = table.exact.find(request_.attributes[static_cast<std::size_t>(place)].value);
    return found == table.exact.end() ? 1 : found->second;
  }

 private:
  bool applies(const Candidate& candidate) const {
    return candidate.applies_alone &&
           (candidate.limit->is_simple ||
            (all_hold(candidate.limit->rule->when) && !is_exempt(*candidate.limit->rule)));
  }

  bool is_exempt(const Rule& rule) const {
    return std::any_of(rule.exempt.begin(), rule.exempt.end(),
                       [&](const std::vector<Matcher>& group) { return all_hold(group); });
  }

  bool all_hold(const std::vector<Matcher>& matchers) const {
    return std::all_of(matchers.begin(), matchers.end(),
                       [&](const Matcher& matcher) { return holds(matcher); });
  }

  bool holds(const Matcher& matcher) const {
    const int place = outline_.place_of(matcher.attribute);
    if (place < 0) return false;
    const std::string_view value = request_.attributes[static_cast<std::size_t>(place)].value;
    if (matcher.exact.find(value) != matcher.exact.end()) return true;
    return std::any_of(matcher.globs.begin(), matcher.globs.end(),
                       [&](const std::string& glob) { return matches(glob, value); });
  }

  const Outline& outline_;
  const Request& request_;
  std::bitset<kLimitsMax> chosen_;
};

// Of the limits that the request meets, the first that counts the cost is named.
[[gnu::cold, gnu::noinline]] std::unique_ptr<Error> bad_cost(const Outline& outline,
                                                             const Request& request,
                                                             std::size_t place) {
  const Cost& cost = request.costs[place];
  const Chosen chosen(outline, request);
  std::string where = "request";
  for (std::size_t i = 0; i < outline.candidates().size() && where == "request"; ++i) {
    const Candidate& candidate = outline.candidates()[i];
    if (!chosen.has(i) || candidate.cost != static_cast<int>(place)) continue;
    where = fmt::format("limit '{}'", candidate.limit->name);
  }
  return bad_request(fmt::format(
      "{}: the cost in '{}' is {}, but it must be between 0 and 2^62; {}", where, cost.unit,
      cost.amount,
      cost.amount < 0 ? "write what the work takes; to give something back, settle or cancel a hold"
                      : "write a smaller one, or count in a larger unit"));
}

// What the values settle of a plan that holds every candidate.
inline void fill_in(const Active& active, const Outline& outline, const Request& request,
                    Plan& plan) {
  PlanItem* item = plan.items.data();
  Print key;
  for (const Candidate& candidate : outline.candidates()) {
    if (!candidate.continues_key) key = mix_key(active.secret, candidate, request);
    item->print = print_for(candidate.limit->seed, key);
    if (candidate.cost >= 0) item->cost = amount_of(candidate, request);
    item += 1;
  }
}

[[gnu::noinline]] std::unique_ptr<Error> add_chosen(const Active& active, const Outline& outline,
                                                    const Request& request, Plan& plan) {
  plan.begin(active.generation);
  const Chosen chosen(outline, request);
  for (std::size_t i = 0; i < outline.candidates().size(); ++i) {
    if (!chosen.has(i)) continue;
    const Candidate& candidate = outline.candidates()[i];
    const ActiveLimit& limit = *candidate.limit;
    if (plan.count == kLimitsPerRequestMax) return too_many_limits(limit);
    PlanItem& item = plan.add(limit);
    item.print = print_for(limit.seed, mix_key(active.secret, candidate, request));
    item.weight = chosen.weight_of(candidate);
    const std::int64_t amount = amount_of(candidate, request);
    // Both are at most 2^62.
    if (Wide{amount} * item.weight > kTermMax) return cost_too_large(limit, amount, item.weight);
    item.cost = amount * item.weight;
  }
  return nullptr;
}

std::unique_ptr<Error> unknown_attribute(std::string_view name, const Names& known,
                                         const SettingNames& names) {
  return bad_request(fmt::format(
      "request: attribute '{}' is not used by any limit; known are {}; correct the name, or "
      "{}",
      name.substr(0, kNameBytesMax), known.joined(), names.declare_attribute));
}

std::unique_ptr<Error> repeated_attribute(std::string_view name) {
  return bad_request(fmt::format("request: attribute '{}' is given twice; write it once", name));
}

std::unique_ptr<Error> unknown_unit(std::string_view unit, const Names& known,
                                    const SettingNames& names) {
  return bad_request(
      fmt::format("request: unit '{}' is unknown; known are {}; correct the name, or {}",
                  unit.substr(0, kNameBytesMax), known.joined(), names.declare_unit));
}

std::unique_ptr<Error> repeated_cost(std::string_view unit) {
  return bad_request(fmt::format("request: the cost in '{}' is given twice; write it once", unit));
}

bool have_same_key(const Candidate& a, const Candidate& b) {
  return std::equal(a.per.begin(), a.per.begin() + a.per_count, b.per.begin(),
                    b.per.begin() + b.per_count);
}

}  // namespace

std::unique_ptr<Error> bad_request(std::string message) {
  return std::make_unique<Error>(bad_argument(std::move(message)));
}

std::unique_ptr<Error> Outline::fill_plan(const Active& active, const Request& request) {
  for (const Attribute& attribute : request.attributes) {
    if (attribute.value.size() > kValueBytesMax) return long_value(attribute);
  }
  for (std::size_t i = 0; i < request.costs.size(); ++i) {
    const std::int64_t amount = request.costs[i].amount;
    if (amount < 0 || amount > kTermMax) return bad_cost(*this, request, i);
  }
  if (!plain_) return add_chosen(active, *this, request, plan_);
  fill_in(active, *this, request, plan_);
  return nullptr;
}

std::unique_ptr<Error> make_plan(const Active& active, const Request& request, Plan& plan) {
  Outline outline;
  if (auto error = Outline::make(active, request, outline)) return error;
  if (auto error = outline.fill_plan(active, request)) return error;
  plan = outline.plan();
  return nullptr;
}

Print print_of(const Active& active, const ActiveLimit& limit,
               std::span<const std::string_view> values) {
  Print key;
  for (const std::string_view value : values) key = with_value(active.secret, key, value);
  return print_for(limit.seed, key);
}

void pack_key(const Active& active, const ActiveLimit& limit, const Request& request,
              std::string& packed) {
  packed.clear();
  for (const std::size_t place : limit.rule->per) {
    const std::string_view value =
        request.attribute(active.rules->attributes()[place]).value_or(std::string_view());
    packed += static_cast<char>(value.size() >> 8);  // at most kValueBytesMax
    packed += static_cast<char>(value.size() & 0xff);
    packed += value;
  }
}

std::vector<std::string> unpack_key(std::string_view packed) {
  std::vector<std::string> values;
  while (packed.size() >= 2) {
    const std::size_t size = static_cast<std::size_t>(static_cast<unsigned char>(packed[0])) << 8 |
                             static_cast<unsigned char>(packed[1]);
    values.emplace_back(packed.substr(2, size));
    packed.remove_prefix(2 + size);
  }
  return values;
}

std::unique_ptr<Error> Outline::make(const Active& active, const Request& request,
                                     Outline& outline) {
  const Names& attributes = active.rules->attributes();
  const Names& units = active.rules->units();
  outline.attributes_.clear();
  outline.units_.clear();
  outline.candidates_.clear();
  outline.places_.fill(-1);
  outline.plain_ = true;

  std::uint64_t present = 0;
  for (std::size_t i = 0; i < request.attributes.size(); ++i) {
    const std::string_view name = request.attributes[i].name;
    const std::size_t place = attributes.find(name);
    if (place == attributes.size()) return unknown_attribute(name, attributes, active.names);
    if (outline.places_[place] >= 0) return repeated_attribute(name);
    outline.places_[place] = static_cast<std::int8_t>(i);
    outline.attributes_.emplace_back(attributes[place]);
    present |= std::uint64_t{1} << place;
  }
  std::array<std::int16_t, kUnitsMax> costs;
  costs.fill(-1);
  for (std::size_t i = 0; i < request.costs.size(); ++i) {
    const std::string_view unit = request.costs[i].unit;
    const std::size_t place = units.find(unit);
    if (place == units.size()) return unknown_unit(unit, units, active.names);
    if (costs[place] >= 0) return repeated_cost(unit);
    costs[place] = static_cast<std::int16_t>(i);
    outline.units_.emplace_back(units[place]);
  }

  const auto is_concern = [&](const ActiveLimit& limit) {
    return limit.any_of == 0 || (present & limit.any_of) != 0;
  };
  const auto applies = [&](const ActiveLimit& limit) {
    const bool has_cost = limit.unit_place == 0 || costs[limit.unit_place] >= 0;
    return has_cost && (present & limit.attributes) == limit.attributes && is_concern(limit);
  };
  // Those that apply, and their ancestors; then numbered in the order of the rules.
  std::array<std::int16_t, kLimitsMax> numbers;
  numbers.fill(-1);
  for (const ActiveLimit& limit : active.limits) {
    if (!applies(limit)) continue;
    for (auto at = &limit - active.limits.data(); at >= 0;) {
      const ActiveLimit& ancestor = active.limits[static_cast<std::size_t>(at)];
      if (is_concern(ancestor)) numbers[static_cast<std::size_t>(at)] = 0;
      at = ancestor.rule->parent;
    }
  }
  std::int16_t next = 0;
  for (std::size_t i = 0; i < active.limits.size(); ++i) {
    if (numbers[i] == 0) numbers[i] = next++;
  }
  for (std::size_t i = 0; i < active.limits.size(); ++i) {
    if (numbers[i] < 0) continue;
    const ActiveLimit& limit = active.limits[i];
    Candidate candidate;
    candidate.limit = &limit;
    candidate.cost = costs[limit.unit_place];
    candidate.applies_alone = applies(limit);
    // The nearest of its ancestors that the request concerns.
    for (auto up = limit.rule->parent; up >= 0 && candidate.parent < 0;) {
      candidate.parent = numbers[static_cast<std::size_t>(up)];
      up = active.limits[static_cast<std::size_t>(up)].rule->parent;
    }
    for (const std::size_t attribute : limit.rule->per) {
      candidate.per[candidate.per_count++] = static_cast<std::uint8_t>(outline.places_[attribute]);
    }
    candidate.continues_key =
        !outline.candidates_.empty() && have_same_key(candidate, outline.candidates_.back());
    outline.plain_ &= limit.is_simple;
    outline.candidates_.push_back(candidate);
  }
  outline.plain_ &= outline.candidates_.size() <= kLimitsPerRequestMax;
  if (outline.plain_) outline.begin_plan(active.generation);
  return nullptr;
}

// All that does not depend on values: each candidate, at a weight of one, and at a cost of one
// unless one is given.
void Outline::begin_plan(std::uint64_t generation) {
  plan_.begin(generation);
  plan_.is_unmatched = candidates_.empty();
  plan_.is_direct = !candidates_.empty();
  for (const Candidate& candidate : candidates_) {
    PlanItem& item = plan_.add(*candidate.limit);
    item.weight = 1;
    item.cost = 1;
  }
}

const ActiveLimit* Outline::sole_limit() const noexcept {
  const bool is_sole = attributes_.size() == 1 && units_.empty() && candidates_.size() == 1 &&
                       candidates_[0].per_count == 1 && plain_ && plan_.is_direct &&
                       !candidates_[0].limit->is_log;
  return is_sole ? candidates_[0].limit : nullptr;
}

std::unique_ptr<Error> Outlines::make_plan(const Active& active, const Request& request) {
  if (last_ != nullptr && last_->describes(request)) [[likely]] {
    return last_->fill_plan(active, request);
  }
  auto found = std::find_if(known_.begin(), known_.end(),
                            [&](const Outline& outline) { return outline.describes(request); });
  if (found == known_.end()) {
    if (auto error = Outline::make(active, request, draft_)) return error;
    if (known_.size() < kKept) {
      found = known_.emplace(known_.end());
    } else {
      found = known_.begin() + static_cast<std::ptrdiff_t>(oldest_);
      oldest_ = (oldest_ + 1) % kKept;
    }
    std::swap(*found, draft_);
  }
  last_ = &*found;
  sole_ = last_->sole_limit();
  if (sole_ != nullptr) sole_name_ = last_->attributes()[0];
  return last_->fill_plan(active, request);
}

OwnedRequest::OwnedRequest(const Request& request) {
  texts_.reserve(2 * request.attributes.size() + request.costs.size());  // views must not move
  attributes_.reserve(request.attributes.size());
  costs_.reserve(request.costs.size());
  for (const Attribute& attribute : request.attributes) {
    const std::string_view name = texts_.emplace_back(attribute.name);
    const std::string_view value = texts_.emplace_back(attribute.value);
    attributes_.push_back({name, value});
  }
  for (const Cost& cost : request.costs) {
    costs_.push_back({texts_.emplace_back(cost.unit), cost.amount});
  }
  view_ = {attributes_, costs_};
}

}  // namespace weir::engine
