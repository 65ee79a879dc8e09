#include "apps/weir/pool.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "apps/weir/exit.h"
#include "apps/weir/table.h"
#include "weir/config/config.h"
#include "weir/system/pool/job_type.h"
#include "weir/system/pool/limits.h"
#include "weir/system/pool/type_slots.h"

namespace weir::app {
namespace {

namespace pool = weir::system::pool;
using Rows = std::vector<std::vector<std::string>>;

std::string text_of(const std::optional<std::int64_t>& number) {
  return number ? fmt::format("{}", *number) : "-";
}
std::string slots_text(std::int64_t slots) {
  return slots == pool::kNoLimit ? "-" : fmt::format("{}", slots);
}

std::string published_text(const pool::PublishedSlots& slots) {
  if (slots.window == pool::kMinute) return fmt::format("{} a minute", slots.slots);
  if (slots.window == pool::kDay) return fmt::format("{} a day", slots.slots);
  return fmt::format("{} at once", slots.slots);
}

Rows pools_of(const pool::PoolsSettings& settings, const std::vector<pool::Pool>& pools) {
  Rows rows = {
      {"model", "slots", "tokens/minute", "requests/minute", "tokens/day", "requests/day"}};
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const pool::Rates& shares = pools[i].whole;
    rows.push_back({settings.models[i].name, fmt::format("{}", pools[i].total_slots),
                    text_of(shares.tokens_per_minute), text_of(shares.requests_per_minute),
                    text_of(shares.tokens_per_day), text_of(shares.requests_per_day)});
  }
  return rows;
}

Rows types_of(const pool::PoolsSettings& settings, const std::vector<pool::Pool>& pools,
              const std::vector<double>& ratios) {
  Rows rows = {{"job type", "model", "ratio", "a minute", "a day", "at once", "published"}};
  for (std::size_t type = 0; type < settings.types.size(); ++type) {
    for (std::size_t model = 0; model < pools.size(); ++model) {
      const pool::Amounts estimate = pool::estimate_of(settings, type);
      const std::int64_t least = settings.ratios.min_capacity;
      const pool::StrictSlots slots =
          pool::strict_slots(pools[model], ratios[type], estimate, least);
      rows.push_back(
          {settings.types[type].name, settings.models[model].name,
           fmt::format("{:.4g}", ratios[type]), slots_text(slots.minute), slots_text(slots.day),
           slots_text(slots.in_flight),
           published_text(pool::published_slots(pools[model], ratios[type], estimate, least))});
    }
  }
  return rows;
}

}  // namespace

int run_pool_slots(const PoolOptions& options) {
  const Result<config::Config> config = config::load(options.path);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().message);
    return kExitFailed;
  }
  if (!config->pools) {
    fmt::print(stderr, "{}: there is no 'pools'; write one with its models and job types\n",
               options.path);
    return kExitFailed;
  }
  const pool::PoolsSettings& settings = config->pools->settings;
  // The reader of the file has judged them.
  const std::vector<double> ratios = pool::initial_ratios(settings.types).value();
  std::vector<pool::Pool> pools;
  for (const pool::ModelSpec& model : settings.models) {
    pools.push_back(pool::make_pool(model.limits, {}, pool::average_estimate(settings.types),
                                    options.instances));
  }
  print_table(pools_of(settings, pools));
  fmt::print("\n");
  print_table(types_of(settings, pools, ratios));
  fmt::print("On each of {} instance{}, with nothing used and the ratios to begin with.\n",
             options.instances, options.instances == 1 ? "" : "s");
  return kExitOk;
}

}  // namespace weir::app
