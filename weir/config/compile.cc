#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "weir/config/draft.h"
#include "weir/engine/rule_set.h"

namespace weir::config {
namespace {

// The limits with those that have mistakes replaced by harmless ones of the same
// name, so that the engine finds only what is wrong with the others. A parent that
// does not exist is wrong in any case.
engine::RuleSetSpec without_broken(const Draft& draft) {
  engine::RuleSetSpec spec = draft.config.limits_spec;
  std::set<std::string> names;
  std::set<std::string> broken;
  for (std::size_t i = 0; i < spec.limits.size(); ++i) {
    names.insert(spec.limits[i].name);
    if (draft.limit_places[i].is_broken) broken.insert(spec.limits[i].name);
  }
  for (engine::LimitSpec& limit : spec.limits) {
    if (broken.contains(limit.name)) {
      const std::string parent = names.contains(limit.parent) ? "" : limit.parent;
      limit = engine::LimitSpec{.name = limit.name,
                                .parent = parent,
                                .meter = engine::WindowSpec{1, std::chrono::seconds{1}}};
    } else if (broken.contains(limit.parent)) {
      limit.parent.clear();
    }
  }
  return spec;
}

// Where to put a line that begins with `limit 'NAME': `, `units: ` or
// `attributes: `. A name may itself contain `': `, so the longest one is meant.
struct Located {
  Place place{};
  std::size_t where_bytes = 0;
};

Located locate(std::string_view line, const Draft& draft) {
  Located best;
  const auto consider = [&](const std::string& where, Place place) {
    if (where.size() > best.where_bytes && line.starts_with(where + ": ")) {
      best = {place, where.size()};
    }
  };
  consider("units", draft.units_place);
  consider("attributes", draft.attributes_place);
  const std::vector<engine::LimitSpec>& limits = draft.config.limits_spec.limits;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    consider("limit '" + limits[i].name + "'", draft.limit_places[i].place);
  }
  if (best.where_bytes == 0) best.where_bytes = std::min(line.find(": "), line.size());
  return best;
}

}  // namespace

void compile_limits(Mistakes& mistakes, Draft& draft) {
  Result<engine::UnboundRules> rules = engine::compile_unbound(without_broken(draft));
  if (rules) {
    draft.config.rules = std::move(*rules);
    return;
  }
  std::string_view left = rules.error().message;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    const Located located = locate(line, draft);
    const std::size_t what = std::min(located.where_bytes + 2, line.size());
    mistakes.add(located.place, line.substr(0, located.where_bytes), line.substr(what));
  }
}

}  // namespace weir::config
