// The three stages work on the same counts: each takes what the one before has left of slots and of
// work.

#include "weir/system/sampling/published/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::sampling {
namespace {

using Places = std::vector<std::size_t>;

// A pass in the making.
class Plan {
 public:
  Plan(std::int64_t slots, std::span<const Candidate> candidates, Arithmetic arithmetic)
      : slots_(slots), candidates_(candidates), arithmetic_(arithmetic) {
    planned_.resize(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      pool_ += candidates[i].active;
      if (!candidates[i].is_open || candidates[i].work <= 0) continue;
      eligible_.push_back(i);
      if (candidates[i].active == 0) starving_.push_back(i);
    }
    available_ = std::max<std::int64_t>(0, permitted() - pool_);
  }

  void feed_the_starving(const Random& random) {
    // The first of a shuffled list: every choice is as likely as any other.
    for (std::size_t i = 0; static_cast<std::int64_t>(starving_.size()) > available_ &&
                            static_cast<std::int64_t>(i) < available_;
         ++i) {
      std::swap(starving_[i], starving_[i + random(starving_.size() - i)]);
    }
    for (const std::size_t place : starving_) {
      if (available_ == 0) return;
      give(place);
    }
  }

  void fill_shares() {
    std::vector<std::int64_t> lacking = targets();
    for (const std::size_t i : eligible_) lacking[i] -= candidates_[i].active + planned_[i];
    const auto needs_less = [&](std::size_t a, std::size_t b) {
      const Candidate& left = candidates_[a];
      const Candidate& right = candidates_[b];
      return std::tuple(lacking[a], left.weight_micro, left.name) <
             std::tuple(lacking[b], right.weight_micro, right.name);
    };
    while (available_ > 0) {
      Places open;
      for (const std::size_t i : eligible_) {
        if (has_work(i) && lacking[i] > 0) open.push_back(i);
      }
      if (open.empty()) return;
      const std::size_t most = *std::max_element(open.begin(), open.end(), needs_less);
      give(most);
      lacking[most] -= 1;
    }
  }

  void share_the_rest() {
    Places order = eligible_;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Candidate& left = candidates_[a];
      const Candidate& right = candidates_[b];
      return std::tuple(-left.weight_micro, left.name) <
             std::tuple(-right.weight_micro, right.name);
    });
    for (bool gave = true; gave && available_ > 0;) {
      gave = false;
      for (const std::size_t place : order) {
        if (available_ == 0 || !has_work(place)) continue;
        give(place);
        gave = true;
      }
    }
  }

  std::vector<std::int64_t> planned() && { return std::move(planned_); }

 private:
  // An environment that starves may be fed beyond the slots, for up to half of them more.
  std::int64_t permitted() const {
    if (pool_ < slots_) return slots_;
    const auto starving = static_cast<std::int64_t>(starving_.size());
    return slots_ + std::min(starving, (slots_ + 1) / 2);
  }

  bool has_work(std::size_t place) const { return planned_[place] < candidates_[place].work; }
  void give(std::size_t place) {
    planned_[place] += 1;
    available_ -= 1;
  }

  // Slots by weight, rounded down; those left over go one each to the largest remainders.
  std::vector<std::int64_t> targets() const {
    std::vector<std::int64_t> whole(candidates_.size());
    Places order = eligible_;
    if (arithmetic_ == Arithmetic::kExact) {
      // Slots are at most 10^6, weights 10^15 each.
      Wide sum = 0;
      for (const std::size_t i : eligible_) sum += candidates_[i].weight_micro;
      std::vector<Wide> remainder(candidates_.size());
      for (const std::size_t i : eligible_) {
        if (sum == 0) continue;
        const Wide share = Wide{slots_} * candidates_[i].weight_micro;
        whole[i] = static_cast<std::int64_t>(share / sum);
        remainder[i] = share % sum;
      }
      sort_by(order, remainder);
    } else {
      double sum = 0;
      for (const std::size_t i : eligible_) sum += weight(i);
      std::vector<double> remainder(candidates_.size());
      for (const std::size_t i : eligible_) {
        // In this order, as published: thirds of equal weight would tie otherwise.
        const double share = sum > 0 ? static_cast<double>(slots_) * (weight(i) / sum) : 0;
        whole[i] = static_cast<std::int64_t>(std::floor(share));
        remainder[i] = share - std::floor(share);
      }
      sort_by(order, remainder);
    }
    std::int64_t left = slots_ - std::accumulate(whole.begin(), whole.end(), std::int64_t{0});
    for (const std::size_t place : order) {
      if (left-- <= 0) break;
      whole[place] += 1;
    }
    return whole;
  }

  template <typename Number>
  void sort_by(Places& order, const std::vector<Number>& remainder) const {
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if (remainder[a] != remainder[b]) return remainder[a] > remainder[b];
      const Candidate& left = candidates_[a];
      const Candidate& right = candidates_[b];
      return std::tuple(-left.weight_micro, left.name) <
             std::tuple(-right.weight_micro, right.name);
    });
  }

  double weight(std::size_t place) const {
    return static_cast<double>(candidates_[place].weight_micro) / 1e6;
  }

  const std::int64_t slots_;
  const std::span<const Candidate> candidates_;
  const Arithmetic arithmetic_;
  Places eligible_;
  Places starving_;
  std::int64_t pool_ = 0;
  std::int64_t available_ = 0;
  std::vector<std::int64_t> planned_;
};

Status check(const Round& round) {
  if (round.slots < 1 || round.slots > kSlotsMax) {
    return bad_argument(
        fmt::format("pass: slots is {}, but it must be between 1 and {}; write how "
                    "many tasks the miner may have at once",
                    round.slots, kSlotsMax));
  }
  for (std::size_t i = 0; i < round.work.size(); ++i) {
    const Work& work = round.work[i];
    if (work.active < 0 || work.active > kTasksMax || work.missing < 0 ||
        work.missing > kTasksMax) {
      return bad_argument(fmt::format(
          "pass: environment {} has {} active and {} missing tasks, but both must be between 0 and "
          "2^40; correct the counts",
          in_quotes(work.environment), work.active, work.missing));
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (round.work[k].environment != work.environment) continue;
      return bad_argument(fmt::format("pass: environment {} is there twice; write it once",
                                      in_quotes(work.environment)));
    }
  }
  return Done{};
}

}  // namespace

std::vector<std::int64_t> plan_pass(std::int64_t slots, std::span<const Candidate> candidates,
                                    Arithmetic arithmetic, const Random& random) {
  Plan plan(slots, candidates, arithmetic);
  plan.feed_the_starving(random);
  plan.fill_shares();
  plan.share_the_rest();
  return std::move(plan).planned();
}

Result<std::vector<Planned>> run_pass(Sampling& sampling, const Miner& miner, const Round& round,
                                      const Random& random, Instant now) {
  if (Status status = check(round); !status) return std::move(status).error();
  const std::scoped_lock lock(sampling);
  Counters& counters = sampling.locked();
  const Rules& rules = counters.rules();
  std::vector<Candidate> candidates;
  std::vector<Planned> planned;
  for (const Work& work : round.work) {
    const Who who{miner.hotkey, miner.revision, work.environment, miner.id};
    Result<Grant> now_open = counters.peek(who, kWantMax, now);
    if (!now_open) return std::move(now_open).error();
    candidates.push_back({.name = work.environment,
                          .active = work.active,
                          .work = std::min(work.missing, now_open->granted),
                          .weight_micro = rules.find(work.environment)->weight_micro,
                          .is_open = now_open->granted > 0});
    planned.push_back({work.environment, now_open->count - now_open->granted, {}});
    if (work.missing > 0 && now_open->granted == 0) counters.refuse(who, 1, now);
  }
  const std::vector<std::int64_t> tasks =
      plan_pass(round.slots, candidates, rules.formula().arithmetic, random);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Who who{miner.hotkey, miner.revision, planned[i].environment, miner.id};
    Result<Grant> grant =
        tasks[i] > 0 ? counters.grant(who, tasks[i], now) : counters.peek(who, 0, now);
    if (!grant) {
      for (const Planned& made : planned) {
        // What the pass was given before it failed; an error here is the same one again.
        if (made.grant.reservation) (void)counters.release(made.grant.reservation, now).ok();
      }
      return std::move(grant).error();
    }
    planned[i].grant = *grant;
  }
  return planned;
}

}  // namespace weir::system::sampling
