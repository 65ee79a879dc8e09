#include "weir/system/pool/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {
namespace {

Status validate_models(const PoolsSettings& settings) {
  if (settings.models.empty() || settings.models.size() > kModelsMax) {
    return bad_argument(fmt::format("there are {} models, but there must be 1 to {}",
                                    settings.models.size(), kModelsMax));
  }
  std::set<std::string_view> names;
  for (const ModelSpec& model : settings.models) {
    if (Status valid = validate_model(model.name, model.limits); !valid) return valid;
    if (!names.insert(model.name).second) {
      return bad_argument(fmt::format("model {} is there twice; give each a name of its own",
                                      in_quotes(model.name)));
    }
    for (const double price : {model.pricing.input, model.pricing.cached, model.pricing.output}) {
      if (price >= 0 && std::isfinite(price)) continue;
      return bad_argument(fmt::format("model {}: a price is {}, but it must not be negative",
                                      in_quotes(model.name), price));
    }
    const CapacityBounds& bounds = model.bounds;
    if (bounds.least < 0 || bounds.least > kLimitMax ||
        (bounds.most && (*bounds.most < bounds.least || *bounds.most > kLimitMax))) {
      return bad_argument(fmt::format(
          "model {}: the advertised capacity must be bounded by 0 <= least <= most <= {}",
          in_quotes(model.name), kLimitMax));
    }
  }
  if (settings.escalation.empty() && settings.models.size() > 1) {
    return bad_argument(
        "there are several models but no escalation order; name the models in the order in which "
        "they are to be tried");
  }
  std::set<std::string_view> ordered;
  for (const std::string& name : settings.escalation) {
    if (!names.contains(name)) {
      return bad_argument(fmt::format("escalation: there is no model {}; write one of: {}",
                                      in_quotes(name), fmt::join(names, ", ")));
    }
    if (!ordered.insert(name).second) {
      return bad_argument(fmt::format("escalation: model {} is there twice", in_quotes(name)));
    }
  }
  return Done{};
}

Status validate_types(const PoolsSettings& settings) {
  if (settings.types.size() > kJobTypesMax) {
    return bad_argument(fmt::format("there are {} job types, but at most {} are possible",
                                    settings.types.size(), kJobTypesMax));
  }
  std::set<std::string_view> names;
  for (const JobType& type : settings.types) {
    if (Status valid = validate_job_type(type); !valid) return valid;
    if (!names.insert(type.name).second) {
      return bad_argument(fmt::format("job type {} is there twice; give each a name of its own",
                                      in_quotes(type.name)));
    }
    for (const auto& [model, wait] : type.max_wait) {
      if (std::ranges::find(settings.models, model, &ModelSpec::name) != settings.models.end()) {
        continue;
      }
      return bad_argument(fmt::format("job type {}: max_wait: there is no model {}",
                                      in_quotes(type.name), in_quotes(model)));
    }
  }
  const Result<std::vector<double>> ratios = initial_ratios(settings.types);
  return ratios ? Status(Done{}) : Status(ratios.error());
}

}  // namespace

Status validate_settings(const PoolsSettings& settings) {
  if (Status valid = validate_models(settings); !valid) return valid;
  if (Status valid = validate_types(settings); !valid) return valid;
  if (Status valid = validate_ratio_settings(settings.ratios); !valid) return valid;
  if (settings.memory) {
    if (Status valid = validate_memory_settings(*settings.memory); !valid) return valid;
  }
  if (settings.delegations_max < 0 || settings.delegations_max > kDelegationsMax) {
    return bad_argument(fmt::format("delegations_max is {}, but it must be 0 to {}",
                                    settings.delegations_max, kDelegationsMax));
  }
  if (settings.pacing < Duration{0} || settings.pacing > kMinute) {
    return bad_argument("pacing must be 0 to 1m; write 5s, or 0s for none");
  }
  if (settings.jobs_max < 1 || settings.jobs_max > kJobsMax) {
    return bad_argument(
        fmt::format("jobs_max is {}, but it must be 1 to {}", settings.jobs_max, kJobsMax));
  }
  return Done{};
}

Amounts estimate_of(const PoolsSettings& settings, std::size_t type) noexcept {
  const JobType& of = settings.types[type];
  const std::int64_t requests = settings.rule == CountRule::kStrict ? 1 : 0;
  return {of.tokens.value_or(0), of.requests.value_or(requests)};
}

Registration registration_of(const PoolsSettings& settings) {
  Registration registration{.average = average_estimate(settings.types),
                            .version = settings.version};
  for (const ModelSpec& model : settings.models) registration.limits[model.name] = model.limits;
  return registration;
}

std::int64_t capacity_before_allocation(const PoolsSettings& settings) {
  double tokens = 0;
  for (const JobType& type : settings.types) tokens += static_cast<double>(type.tokens.value_or(0));
  tokens /= static_cast<double>(std::max<std::size_t>(1, settings.types.size()));
  if (!(tokens > 0)) tokens = 1000;
  std::int64_t sum = 0;
  for (const ModelSpec& model : settings.models) {
    const std::optional<std::int64_t>& per_minute = model.limits.rates.tokens_per_minute;
    if (model.limits.concurrent) {
      sum += *model.limits.concurrent;
    } else if (per_minute) {
      const double jobs = std::floor(static_cast<double>(*per_minute) / tokens);
      sum += std::max<std::int64_t>(1, static_cast<std::int64_t>(jobs));
    }
  }
  return sum == 0 ? kUnlimitedSlots : sum;
}

}  // namespace weir::system::pool
