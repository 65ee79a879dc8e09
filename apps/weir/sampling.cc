#include "apps/weir/sampling.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "apps/weir/table.h"
#include "weir/config/config.h"
#include "weir/engine/quantity.h"
#include "weir/system/sampling/rules.h"

namespace weir::app {
namespace {

namespace sampling = weir::system::sampling;

using Row = std::vector<std::string>;

std::string limit_text(std::optional<std::int64_t> limit) {
  return limit ? fmt::format("{}", *limit) : "unlimited";
}

Row row_of(const sampling::Environment& environment, const sampling::Formula& formula) {
  sampling::Formula published = formula;
  published.arithmetic = sampling::Arithmetic::kDouble;
  const auto in_doubles = sampling::allowance(published, environment.rotation);
  return {environment.name,
          sampling::decimal_text(environment.rotation.rotation_count_micro),
          sampling::decimal_text(environment.rotation.rotation_interval_micro),
          sampling::decimal_text(environment.rotation.sampling_count_micro),
          limit_text(environment.allowed),
          in_doubles ? limit_text(*in_doubles) : "too large",
          environment.parent ? fmt::format("{}", *environment.parent) : "-"};
}

}  // namespace

int run_sampling_allowance(const std::string& path) {
  const Result<config::Config> config = config::load(path);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().message);
    return 1;
  }
  if (!config->sampling) {
    fmt::print(stderr, "{}: there is no 'sampling'; write one with its environments\n", path);
    return 1;
  }
  const Result<sampling::Rules> rules = sampling::make_rules(config->sampling->spec);
  if (!rules) {
    fmt::print(stderr, "{}\n", rules.error().message);
    return 1;
  }
  std::vector<Row> rows = {
      {"environment", "rotates", "every s", "list", "allowance", "published", "all revisions"}};
  for (const sampling::Environment& environment : rules->environments()) {
    rows.push_back(row_of(environment, rules->formula()));
  }
  print_table(rows);
  fmt::print("Tasks of one revision in any {}; 'published' as the published scheduler rounds.\n",
             engine::duration_text(rules->window()));
  return 0;
}

}  // namespace weir::app
