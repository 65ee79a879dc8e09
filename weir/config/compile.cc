#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "weir/config/draft.h"
#include "weir/engine/rule_set.h"

namespace weir::config {
namespace {

// What has a mistake is made harmless in its limit, so that the engine finds what else is wrong and
// nothing that follows from it: which part it was is not known, so the meter, which is most often
// it, is another, and so are parts that may have been read by half. A parent that does not exist is
// wrong in any case.
void make_harmless(engine::LimitSpec& limit) {
  const auto is_half = [](const engine::Condition& condition) {
    return condition.patterns.empty();
  };
  limit.meter = engine::WindowSpec{1, std::chrono::seconds{1}};
  limit.queue_max = engine::LimitSpec{}.queue_max;
  limit.shared.reset();
  limit.keys = 0;  // which an unread 'per' would make a mistake
  std::erase_if(limit.when, is_half);
  for (auto& group : limit.exempt) std::erase_if(group, is_half);
  std::erase_if(limit.exempt, [](const auto& group) { return group.empty(); });
}

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
      if (names.contains(limit.parent)) limit.parent.clear();
      make_harmless(limit);
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
