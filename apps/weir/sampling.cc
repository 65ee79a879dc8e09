#include "apps/weir/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "weir/config/config.h"
#include "weir/engine/quantity.h"
#include "weir/system/sampling/rules.h"

namespace weir::app {
namespace {

namespace sampling = weir::system::sampling;

constexpr std::array<const char*, 7> kColumns = {"environment", "rotates",   "every s",      "list",
                                                 "allowance",   "published", "all revisions"};
using Line = std::array<std::string, kColumns.size()>;

std::string limit_text(std::optional<std::int64_t> limit) {
  return limit ? fmt::format("{}", *limit) : "unlimited";
}

Line line_of(const sampling::Environment& environment, const sampling::Formula& formula) {
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

void print(const std::vector<Line>& lines) {
  std::array<std::size_t, kColumns.size()> widths{};
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const Line& line : lines) {
    std::string text = fmt::format("{:<{}}", line[0], widths[0]);
    for (std::size_t i = 1; i < line.size(); ++i)
      text += fmt::format("  {:>{}}", line[i], widths[i]);
    fmt::print("{}\n", text);
  }
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
  std::vector<Line> lines(1);
  std::copy(kColumns.begin(), kColumns.end(), lines[0].begin());
  for (const sampling::Environment& environment : rules->environments()) {
    lines.push_back(line_of(environment, rules->formula()));
  }
  print(lines);
  fmt::print("Tasks of one revision in any {}; 'published' as the published scheduler rounds.\n",
             engine::duration_text(rules->window()));
  return 0;
}

}  // namespace weir::app
