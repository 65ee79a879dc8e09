// What a book makes of what the service says: reports, other policies, refusals.

#include <algorithm>
#include <utility>

#include "weir/base/assert.h"
#include "weir/system/contract/book.h"

namespace weir::system::contract {

using engine::HoldState;

// What the policies have at `now` with the reservations that started by then, and
// these given back: put back on top, at `now`, they come to the same.
Book::Levels Book::levels_without_outstanding(Instant now) const {
  Levels levels = anchor_;
  Instant at = anchor_at_;
  replay(levels, at, now);
  advance(levels, at, now);
  for (const Entry& entry : entries_) {
    if (entry.start > at || entry.state != HoldState::kActive) continue;
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      if (entry.counted[i]) continue;
      levels[i] =
          credited_fs(levels[i], worth_fs(policies_[i], entry.costs.of(policies_[i].resource)));
    }
  }
  // What was full in between has lost its refill: not more than it holds.
  for (std::size_t i = 0; i < policies_.size(); ++i) levels[i] = std::min(levels[i], cap_fs(i));
  return levels;
}

// Starts the book anew from `levels` at `now`, under the same reservations. Those that are
// final and have started are in the levels already, and so is what was learnt.
void Book::anchor_at(Instant now, Levels levels, const Policies& reported, Instant asked_at) {
  anchor_ = std::move(levels);
  anchor_at_ = now;
  for (Entry& entry : entries_) {
    if (entry.state != HoldState::kActive) {
      if (entry.start <= now) entry.costs = {0, 0};
      entry.counted |= reported;  // its work is done
    } else if (entry.start + jitter_ < asked_at) {
      entry.counted |= reported;
    } else {
      entry.counted &= ~reported;
    }
  }
  lowerings_.clear();
  fold();
  touch();
}

void Book::refresh(std::span<const std::optional<std::int64_t>> left_micro, Instant now,
                   Instant asked_at) {
  WEIR_ASSERT(left_micro.size() == policies_.size());
  Policies reported;
  for (std::size_t i = 0; i < policies_.size(); ++i) reported[i] = left_micro[i].has_value();
  if (reported.none()) return;
  const Instant at = later_of(now, anchor_at_);
  expire_all(at);
  Levels levels = levels_without_outstanding(at);
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    if (!left_micro[i]) continue;
    levels[i] = std::min(worth_fs(policies_[i], *left_micro[i]), cap_fs(i));
  }
  not_before_ = Instant{};  // the service has spoken
  anchor_at(at, std::move(levels), reported, asked_at);
}

void Book::change(std::vector<Policy> policies, Instant now) {
  WEIR_ASSERT(policies.size() <= kPoliciesMax);
  const Instant at = later_of(now, anchor_at_);
  expire_all(at);
  const Levels before = levels_without_outstanding(at);
  const std::vector<Policy> former = std::exchange(policies_, std::move(policies));
  Levels levels;
  std::vector<std::optional<std::size_t>> places;  // where each was before
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const Policy& policy = policies_[i];
    const auto was = std::find_if(former.begin(), former.end(), [&](const Policy& old) {
      return old.resource == policy.resource && old.period == policy.period;
    });
    Wide level_fs = full_fs(policy);
    places.emplace_back();
    if (was != former.end()) {
      const auto place = static_cast<std::size_t>(was - former.begin());
      places[i] = place;
      const Wide used_fs = full_fs(*was) - before[place];
      // Under another interval used units are kept, rounded up. The product fits: what
      // is used is at most 2^127 / refill_ns micro-units, cut at the largest cost.
      level_fs -= was->refill_ns == policy.refill_ns
                      ? used_fs
                      : worth_fs(policy, saturate(std::min(ceil_div(used_fs, was->refill_ns),
                                                           Wide{kCostMicroMax})));
    }
    levels.push_back(std::min(level_fs, cap_fs(i)));
  }
  for (Entry& entry : entries_) {
    const Policies counted = std::exchange(entry.counted, {});
    for (std::size_t i = 0; i < places.size(); ++i) {
      entry.counted[i] = places[i] && counted[*places[i]];
    }
  }
  anchor_at(at, std::move(levels), {}, Instant{});
}

void Book::hold_off(Duration wait, Instant now) {
  not_before_ = later_of(not_before_, now + std::clamp(wait, Duration{0}, kRetryAfterMax));
  ++changes_;
}

void Book::lower(const Costs& costs, Duration retry_after, std::optional<std::size_t> violated,
                 Instant now, Duration rounded_by) {
  const Wide waits_fs = std::max<Wide>(0, retry_after.count()) * kMicro;
  const Wide waits_at_least_fs = waits_fs - Wide{rounded_by.count()} * kMicro;
  Levels levels = anchor_;
  Instant at = anchor_at_;
  replay(levels, at, later_of(now, at));
  advance(levels, at, now);
  const auto cost_fs = [&](std::size_t i) {
    return worth_fs(policies_[i], costs.of(policies_[i].resource));
  };
  // The service never lets a bucket go negative, so a policy cannot make anybody wait
  // longer than the cost takes to refill.
  const auto explains = [&](std::size_t i) {
    return cost_fs(i) > 0 && cost_fs(i) >= waits_at_least_fs;
  };
  // What a policy has here that it cannot have there: the time it takes to recover.
  const auto excess_fs = [&](std::size_t i) {
    return std::max<Wide>(0, levels[i] - std::max<Wide>(0, cost_fs(i) - waits_fs));
  };
  std::optional<std::size_t> blamed;
  if (violated) {
    if (*violated < policies_.size() && explains(*violated)) blamed = violated;
  } else {
    for (std::size_t i = 0; i < policies_.size(); ++i) {
      if (policies_[i].is_fixed() || !explains(i)) continue;
      if (!blamed || excess_fs(i) < excess_fs(*blamed)) blamed = i;
    }
  }
  if (!blamed || lowerings_.size() >= kLoweringsMax) {
    hold_off(retry_after, now);
    return;
  }
  Wide by_fs = excess_fs(*blamed);
  // A guess may be wrong, so one refusal does not cost a month: those that follow teach more.
  const Wide most_fs = Wide{kRetryAfterMax.count()} * kMicro;
  if (!violated && by_fs > most_fs) {
    by_fs = most_fs;
    hold_off(retry_after, now);
  }
  if (by_fs == 0) return;
  const auto place = std::upper_bound(lowerings_.begin(), lowerings_.end(), at,
                                      [](Instant a, const Lowering& b) { return a < b.at; });
  lowerings_.insert(place, {at, *blamed, by_fs});
  touch();
  fold();
}

}  // namespace weir::system::contract
