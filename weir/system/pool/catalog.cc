#include "weir/system/pool/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {

Catalog::Catalog(PoolsSettings settings) : settings_(std::move(settings)) {
  for (std::size_t i = 0; i < settings_.models.size(); ++i) models_[settings_.models[i].name] = i;
  for (std::size_t i = 0; i < settings_.types.size(); ++i) types_[settings_.types[i].name] = i;
  for (const std::string& name : settings_.escalation) {
    escalation_.push_back(models_.find(name)->second);
  }
}

std::optional<std::size_t> Catalog::place_of_model(std::string_view name) const {
  const auto found = models_.find(name);
  return found == models_.end() ? std::nullopt : std::optional(found->second);
}

Result<std::size_t> Catalog::place_of_type(std::string_view name) const {
  if (const auto found = types_.find(name); found != types_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const JobType& known : settings_.types) names.push_back(known.name);
  return Error{ErrorCode::kNotFound, fmt::format("there is no job type {}; write one of: {}",
                                                 in_quotes(name), fmt::join(names, ", "))};
}

Duration Catalog::max_wait(std::size_t type, std::size_t model, Instant now) const {
  const auto& waits = settings_.types[type].max_wait;
  const auto found = waits.find(settings_.models[model].name);
  return found == waits.end() ? default_wait(now) : found->second;
}

Status Catalog::allows(const PoolsSettings& to) const {
  const PoolsSettings& from = settings_;
  const auto same = [](const auto& a, const auto& b, auto name) {
    return std::ranges::equal(a, b, {}, name, name);
  };
  if (!same(from.models, to.models, &ModelSpec::name) || from.escalation != to.escalation ||
      !same(from.types, to.types, &JobType::name)) {
    return bad_argument(
        "models, job types and the escalation order cannot change while jobs run; start again");
  }
  if (!same(from.types, to.types, &JobType::memory_kb) || from.rule != to.rule ||
      from.memory.has_value() != to.memory.has_value()) {
    return bad_argument("memory and the rule cannot change while jobs run; start again");
  }
  const Registration before = registration_of(from);
  const Registration after = registration_of(to);
  const bool is_same = before.limits == after.limits && before.average == after.average;
  if (is_same ? after.version >= before.version : after.version > before.version) return Done{};
  return bad_argument(
      fmt::format("limits or estimates changed, but the version went from {} to {}; write {}",
                  before.version, after.version, before.version + 1));
}

// Field by field: names are read without the lock.
void Catalog::change(const PoolsSettings& next) {
  for (std::size_t i = 0; i < settings_.models.size(); ++i) {
    ModelSpec& model = settings_.models[i];
    model.limits = next.models[i].limits;
    model.pricing = next.models[i].pricing;
    model.bounds = next.models[i].bounds;
  }
  for (std::size_t i = 0; i < settings_.types.size(); ++i) {
    JobType& type = settings_.types[i];
    type.tokens = next.types[i].tokens;
    type.requests = next.types[i].requests;
    type.ratio = next.types[i].ratio;
    type.is_flexible = next.types[i].is_flexible;
    type.max_wait = next.types[i].max_wait;
  }
  settings_.ratios = next.ratios;
  settings_.delegations_max = next.delegations_max;
  settings_.pacing = next.pacing;
  settings_.jobs_max = next.jobs_max;
  settings_.version = next.version;
}

}  // namespace weir::system::pool
