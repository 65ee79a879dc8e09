// Counting decisions, and telling what was counted.

#include "weir/engine/engine_impl.h"

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

void Engine::Impl::count(Local& mine, const Plan& plan, const Decision& decision) {
  for (std::size_t i = 0; i < plan.count; ++i) {
    count_row(mine.tallies, plan.items[i].limit->tally, decision.outcome_rows[i],
              decision.allowed());
  }
}

void Engine::Impl::count(const Decision& decision) {
  Local& mine = local();
  const std::shared_ptr<const Active> rules = current_shared();
  for (const Outcome& row : decision.outcomes()) {
    const ActiveLimit* limit = rules->find(row.limit);
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

std::uint32_t Engine::Impl::tally_of(std::string_view limit) {
  const auto found = tally_places.find(limit);
  if (found != tally_places.end()) return found->second;
  const auto place = static_cast<std::uint32_t>(tally_places.size()) + kOtherTally + 1;
  if (place >= kTalliesMax) return kOtherTally;
  tally_places.emplace(limit, place);
  return place;
}

Counts Engine::counts() const noexcept {
  TallySums sums;
  {
    const std::scoped_lock lock(impl_->locals_lock);
    sums = impl_->departed_tallies;
    for (const std::shared_ptr<Local>& local : impl_->locals) local->tallies.add_to(sums);
  }
  const auto sum = [&](std::uint32_t place, std::size_t outcome) {
    return place < sums.size() ? sums[place][outcome] : 0;
  };
  const auto of = [&](std::uint32_t place, Verdict verdict) {
    return sum(place, static_cast<std::size_t>(verdict));
  };
  Counts counts{.limits = {},
                .ad_hoc_allowed = of(kAdHocTally, Verdict::kAllowed),
                .ad_hoc_denied = of(kAdHocTally, Verdict::kDenied)};
  const std::shared_ptr<const Active> rules = impl_->current_shared();
  for (const ActiveLimit& limit : rules->limits) {
    counts.limits.push_back({.limit = std::string(limit.name),
                             .allowed = of(limit.tally, Verdict::kAllowed),
                             .denied = of(limit.tally, Verdict::kDenied),
                             .never = of(limit.tally, Verdict::kNever),
                             .overloaded = of(limit.tally, Verdict::kOverloaded),
                             .shadow_denied = sum(limit.tally, kShadowDenied)});
  }
  return counts;
}

}  // namespace weir::engine
