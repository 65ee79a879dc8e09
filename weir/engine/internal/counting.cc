#include "weir/engine/internal/counting.h"

namespace weir::engine {
namespace {

void count_row(Tallies& tallies, std::uint32_t place, const Outcome& row, bool allowed) {
  const bool admits = row.verdict == Verdict::kAllowed;
  if (row.shadow && !admits) {
    tallies.add(place, kShadowDenied);
  } else if (allowed) {
    tallies.add(place, static_cast<std::size_t>(Verdict::kAllowed));
  } else if (!admits) {
    tallies.add(place, static_cast<std::size_t>(row.verdict));
  }
}

}  // namespace

void Counting::count(Local& mine, const Plan& plan, const Decision& decision) {
  for (std::size_t i = 0; i < plan.count; ++i) {
    count_row(mine.tallies, plan.items[i].limit->tally, decision.outcome_rows[i],
              decision.allowed());
  }
}

void Counting::count(const Active& rules, const Decision& decision) {
  Local& mine = ground_.locals.mine();
  for (const Outcome& row : decision.outcomes()) {
    const ActiveLimit* limit = rules.find(row.limit);
    if (limit == nullptr) continue;  // gone since
    if (decision.verdict == Verdict::kOverloaded && !row.shadow) {
      if (&row == decision.binding()) {
        mine.tallies.add(limit->tally, static_cast<std::size_t>(Verdict::kOverloaded));
      }
    } else {
      count_row(mine.tallies, limit->tally, row, decision.allowed());
    }
  }
}

void Counting::count_clipped(const Active& rules, std::span<const std::string> limits) {
  for (const std::string& name : limits) {
    const ActiveLimit* limit = rules.find(name);
    if (limit != nullptr) ground_.locals.mine().tallies.add(limit->tally, kClipped);
  }
}

void Counting::take_sample(Local& mine, const Active& rules, std::span<const PlanItem> items,
                           const Request& request) {
  const std::uint32_t stands_for = mine.begin_sample(ground_.options.heavy_sample_every);
  if (ground_.options.heavy_keys == 0) return;
  const std::scoped_lock lock(mine.sketch_lock);
  for (const PlanItem& item : items) {
    if (item.limit->rule->per.empty()) continue;
    const std::int64_t units = saturate(Wide{item.cost} * stands_for);
    std::string* const text = mine.heavy.add(item.limit->name, item.print, units);
    if (text != nullptr) pack_key(rules, *item.limit, request, *text);
  }
}

std::uint32_t Counting::tally_of(std::string_view limit) {
  const auto found = places_.find(limit);
  if (found != places_.end()) return found->second;
  const auto place = static_cast<std::uint32_t>(places_.size()) + kUnmatchedTally + 1;
  if (place >= kTalliesMax) return kOtherTally;
  places_.emplace(limit, place);
  return place;
}

Counts Counting::counts(const Active& rules) const {
  const TallySums sums = ground_.locals.tallies();
  const auto sum = [&](std::uint32_t place, std::size_t outcome) {
    return place < sums.size() ? sums[place][outcome] : 0;
  };
  const auto of = [&](std::uint32_t place, Verdict verdict) {
    return sum(place, static_cast<std::size_t>(verdict));
  };
  Counts counts{.limits = {},
                .ad_hoc_allowed = of(kAdHocTally, Verdict::kAllowed),
                .ad_hoc_denied = of(kAdHocTally, Verdict::kDenied),
                .unmatched = of(kUnmatchedTally, Verdict::kAllowed)};
  for (const ActiveLimit& limit : rules.limits) {
    counts.limits.push_back({.limit = std::string(limit.name),
                             .allowed = of(limit.tally, Verdict::kAllowed),
                             .denied = of(limit.tally, Verdict::kDenied),
                             .never = of(limit.tally, Verdict::kNever),
                             .overloaded = of(limit.tally, Verdict::kOverloaded),
                             .shadow_denied = sum(limit.tally, kShadowDenied),
                             .clipped = sum(limit.tally, kClipped)});
  }
  return counts;
}

std::vector<HeavyKey> Counting::heaviest(const Active& rules, std::string_view limit,
                                         std::size_t count) const {
  std::vector<HeavyKey> keys;
  const ActiveLimit* const known = rules.find(limit);
  if (known == nullptr) return keys;
  for (const HeavyKeys::Entry& entry : ground_.locals.heavy().heaviest(limit, count)) {
    HeavyKey& heavy = keys.emplace_back();
    heavy.values = unpack_key(entry.text);
    heavy.units = entry.units;
    // A thread may still have counted by older rules.
    if (heavy.values.size() != known->rule->per.size()) {
      keys.pop_back();
      continue;
    }
    for (std::size_t i = 0; i < heavy.values.size(); ++i) {
      if (i > 0) heavy.key += ' ';
      heavy.key += rules.rules->attributes()[known->rule->per[i]] + '=' + heavy.values[i];
    }
  }
  return keys;
}

}  // namespace weir::engine
