#include "weir/engine/internal/outline.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::engine {
namespace {

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

}  // namespace weir::engine
