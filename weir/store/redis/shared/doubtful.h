// Doubtful holds: admitted by an outage policy, though Redis may have made them as well.
//
// A decision with a hold that Redis has not answered in time may have been executed there all the
// same. The client is then given a hold of this server, and ends that one. If its part in Redis
// were left alone, its slots would be taken until its time. So it is remembered until both have
// been heard: the late answer, and the end.
//
//   the answer says it was made, then the client ends its hold  ─► ended in Redis too
//   the client ends its hold, then the answer comes             ─► ended in Redis then
//   the connection breaks, so that no answer comes              ─► ended in Redis when it ends here
//
// Beyond the bound, and where Redis cannot be asked at the end either, the part in Redis stays
// until its time.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/shared.h"
#include "weir/store/redis/shared/holds.h"

namespace weir::store::redis {

constexpr std::size_t kDoubtfulHoldsMax = 65'536;

class DoubtfulHolds {
 public:
  explicit DoubtfulHolds(SharedHolds& holds) : holds_(holds) {}

  // A policy admitted it at `now`. `is_due`: the answer of Redis may still come.
  void add(HoldId hold, std::shared_ptr<const engine::RuleSet> rules, bool is_due, Instant now,
           Instant expires);
  // The answer came: whether Redis has made it.
  void heard(HoldId hold, bool is_made, Instant now);
  // Its part here was ended by the client. One that is not known is none of these.
  void ended(HoldId hold, engine::HoldState as, std::span<const engine::Cost> actual, Instant now);

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  using Name = std::pair<std::uint64_t, std::uint64_t>;  // owner and number
  using Costs = std::vector<std::pair<std::string, std::int64_t>>;
  struct End {
    engine::HoldState as;
    Costs actual;
  };
  struct Doubtful {
    std::shared_ptr<const engine::RuleSet> rules;
    Instant expires;
    bool is_due;
    std::optional<End> end{};
  };
  using Place = std::map<Name, Doubtful>::iterator;

  void erase(Place place);
  void end_there(HoldId hold, const End& end, std::shared_ptr<const engine::RuleSet> rules,
                 Instant now);

  SharedHolds& holds_;
  std::mutex lock_;
  std::map<Name, Doubtful> doubtful_;
  std::set<std::pair<Instant, Name>> by_end_;  // the same
  std::atomic<std::size_t> size_{0};
};

}  // namespace weir::store::redis
