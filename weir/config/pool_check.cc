// What is wrong with `pools:` only in the whole, and what differs between two of them.

#include <tuple>

#include "weir/config/pool_draft.h"

namespace weir::config {
namespace {

namespace pool = system::pool;
using pool::ModelSpec;

Place place_of(const Entry* entry, Place otherwise) {
  return entry == nullptr ? otherwise : entry->place;
}

}  // namespace

void check_pools(Place place, Context& context, const PoolDraft& draft) {
  const pool::PoolsSettings& settings = draft.pools.settings;
  const std::size_t before = context.mistakes.count();
  const auto check = [&](Place at, const Status& status) {
    if (!status) context.mistake(at, status.error().message);
  };
  const auto has_model = [&](std::string_view name) {
    return std::ranges::find(settings.models, name, &ModelSpec::name) != settings.models.end();
  };
  std::vector<std::string_view> names;
  for (const ModelSpec& model : settings.models) names.emplace_back(model.name);
  const auto unknown = [&](std::string_view name) {
    const std::string_view meant = nearest(name, names);
    return fmt::format("there is no model {}; write '{}'", in_quotes(name),
                       meant.empty() ? names.front() : meant);
  };
  if (draft.escalation == nullptr && settings.models.size() > 1) {
    context.mistake(draft.models->place,
                    fmt::format("there are {} models, but no escalation says which to try first; "
                                "write 'escalation: [{}]'",
                                names.size(), fmt::join(names, ", ")));
  }
  for (std::size_t i = 0; i < settings.escalation.size(); ++i) {
    const std::string& name = settings.escalation[i];
    const Place at = draft.escalation->value.kind == TreeNode::Kind::kList
                         ? draft.escalation->value.items[i].place
                         : draft.escalation->value.place;
    if (!has_model(name)) context.mistake(at, fmt::format("escalation: {}", unknown(name)));
  }
  for (std::size_t i = 0; i < settings.models.size(); ++i) {
    const pool::CapacityBounds& bounds = settings.models[i].bounds;
    if (bounds.most && *bounds.most < bounds.least) {
      context.mistake(draft.model_places[i],
                      fmt::format("model {}: max_capacity is {}, but min_capacity is {}; write a "
                                  "larger one",
                                  in_quotes(settings.models[i].name), *bounds.most, bounds.least));
    }
  }
  for (std::size_t i = 0; i < settings.types.size(); ++i) {
    check(draft.type_places[i], validate_job_type(settings.types[i]));
    for (const auto& [model, wait] : settings.types[i].max_wait) {
      if (has_model(model)) continue;
      context.mistake(draft.type_places[i],
                      fmt::format("job type {}: max_wait: {}", in_quotes(settings.types[i].name),
                                  unknown(model)));
    }
  }
  for (std::size_t i = 0; i < settings.types.size(); ++i) {
    if (settings.types[i].tokens) continue;
    const auto limited = std::ranges::find_if(settings.models, [](const ModelSpec& model) {
      return model.limits.rates.tokens_per_minute || model.limits.rates.tokens_per_day;
    });
    if (limited == settings.models.end()) break;
    context.mistakes.warn(
        draft.type_places[i], context.where,
        fmt::format("job type {}: it has no estimate of tokens, but model {} limits them: its jobs "
                    "start until what others have used fills the window; write 'tokens: 1000'",
                    in_quotes(settings.types[i].name), in_quotes(limited->name)));
  }
  const Result<std::vector<double>> ratios = initial_ratios(settings.types);
  if (!ratios) context.mistake(place_of(draft.types, place), ratios.error().message);
  check(place_of(draft.ratios, place), validate_ratio_settings(settings.ratios));
  if (settings.memory) {
    check(place_of(draft.memory, place), validate_memory_settings(*settings.memory));
  }
  check(place_of(draft.hold, place), validate_hold_settings(draft.pools.hold));
  // Whatever is left has no place of its own.
  if (context.mistakes.count() == before) check(place, validate_settings(settings));
}

bool operator==(const PoolSettings& a, const PoolSettings& b) {
  const pool::PoolsSettings& x = a.settings;
  const pool::PoolsSettings& y = b.settings;
  const auto memory_of = [](const pool::PoolsSettings& settings) {
    const pool::MemorySettings memory = settings.memory.value_or(pool::MemorySettings{});
    return std::tuple(settings.memory.has_value(), memory.free_ratio, memory.max_kb,
                      memory.interval);
  };
  return x.models == y.models && x.escalation == y.escalation && x.types == y.types &&
         x.ratios == y.ratios && memory_of(x) == memory_of(y) && x.rule == y.rule &&
         x.delegations_max == y.delegations_max && x.pacing == y.pacing &&
         x.jobs_max == y.jobs_max && x.version == y.version && a.hold == b.hold &&
         a.redis == b.redis;
}

bool can_change(const PoolSettings& running, const PoolSettings& next) {
  // The next, with whatever may change as it is.
  PoolSettings same = next;
  same.hold = running.hold;
  pool::PoolsSettings& settings = same.settings;
  const pool::PoolsSettings& now = running.settings;
  if (settings.models.size() != now.models.size() || settings.types.size() != now.types.size()) {
    return false;
  }
  for (std::size_t i = 0; i < now.models.size(); ++i) {
    settings.models[i].limits = now.models[i].limits;
    settings.models[i].pricing = now.models[i].pricing;
    settings.models[i].bounds = now.models[i].bounds;
  }
  for (std::size_t i = 0; i < now.types.size(); ++i) {
    const std::string name = settings.types[i].name;
    const std::int64_t memory_kb = settings.types[i].memory_kb;
    settings.types[i] = now.types[i];
    settings.types[i].name = name;
    settings.types[i].memory_kb = memory_kb;
  }
  settings.ratios = now.ratios;
  settings.delegations_max = now.delegations_max;
  settings.pacing = now.pacing;
  settings.jobs_max = now.jobs_max;
  settings.version = now.version;
  return same == running;
}

}  // namespace weir::config
