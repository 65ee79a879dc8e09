// Counting: how often each limit decided what, and which keys ask most.
//
//  1. A decision is counted once, by the thread that makes it final. Peeks are not counted,
//     and a request that waits is counted when it is answered.
//  2. A limit's name keeps its place in the tallies for as long as the engine lives, so what
//     was counted survives changes of the rules.
//  3. The first decisions of each thread are all looked at for heavy keys, then fewer and fewer,
//     down to one in `heavy_sample_every` in the mean. One counts for as many as it stands for.
//     Peeks are not looked at.
//
// Thread safety: safe from any thread; tally_of() under the rules' lock.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/engine/counts.h"
#include "weir/engine/internal/ground.h"

namespace weir::engine {

// Places in tallies that are no limit's: ad-hoc buckets, limits beyond the bound, and requests
// that met no limit.
constexpr std::uint32_t kAdHocTally = 0;
constexpr std::uint32_t kOtherTally = 1;
constexpr std::uint32_t kUnmatchedTally = 2;
constexpr std::uint32_t kTalliesMax = 65'536;

class Counting {
 public:
  explicit Counting(Ground& ground) : ground_(ground) {}

  // A decision that was made by `plan`.
  void count(const Plan& plan, const Decision& decision) {
    count(ground_.locals.mine(), plan, decision);
  }
  // The same of a plan that was decided directly: no limit of it is in shadow.
  static void count_direct(Local& mine, const Plan& plan, const Decision& decision) {
    if (plan.count != 1 && !decision.allowed()) return count(mine, plan, decision);
    for (const PlanItem& item : plan.limits()) {
      mine.tallies.add(item.limit->tally, static_cast<std::size_t>(decision.verdict));
    }
  }
  // A decision made some time after its request was planned; `rules` are those in force now.
  void count(const Active& rules, const Decision& decision);
  // Settlements that these limits were not charged in full; `rules` are those in force now.
  void count_clipped(const Active& rules, std::span<const std::string> limits);
  void count_ad_hoc(Verdict verdict) {
    ground_.locals.mine().tallies.add(kAdHocTally, static_cast<std::size_t>(verdict));
  }
  // Whatever it is answered.
  void count_unmatched() {
    ground_.locals.mine().tallies.add(kUnmatchedTally, static_cast<std::size_t>(Verdict::kAllowed));
  }

  // Looks at one decision in so many for the heavy keys (3).
  void sample(Local& mine, const Active& rules, std::span<const PlanItem> items,
              const Request& request) {
    if (mine.until_sample > 1) [[likely]] {
      mine.until_sample -= 1;
    } else {
      take_sample(mine, rules, items, request);
    }
  }

  // The place of a limit's name, given out when it is first met. Beyond kTalliesMax all limits
  // share one place.
  std::uint32_t tally_of(std::string_view limit);

  // What was counted of the limits in force.
  Counts counts(const Active& rules) const;
  // Of all threads together, those that have ended among them.
  std::vector<HeavyKey> heaviest(const Active& rules, std::string_view limit,
                                 std::size_t count) const;

 private:
  static void count(Local& mine, const Plan& plan, const Decision& decision);
  void take_sample(Local& mine, const Active& rules, std::span<const PlanItem> items,
                   const Request& request);

  Ground& ground_;
  std::map<std::string, std::uint32_t, std::less<>> places_;
};

}  // namespace weir::engine
