// Stand-in: decides shared limits alone while the store cannot be asked.
//
// Each server of the fleet takes its share: with n of them a bucket refills an n-th as fast
// and holds an n-th, rounded down, of the burst; at least 1. A key begins unused, because what
// the store would say is not known: an outage may admit one burst more than the limit has. What
// was used is remembered until it has refilled, however often the store comes and goes meanwhile.
//
// Each limit has a share of the keys and of the runs of logs: whoever invents keys of one limit
// denies further keys of that limit only. After a reload, keys of limits that are gone count among
// all of them until the next turn.
//
// Slots are not decided here: whether work elsewhere has ended cannot be known.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/time.h"
#include "weir/engine/meter.h"
#include "weir/engine/shared.h"

namespace weir::store::redis {

// Of all limits. A limit may have its share of them; one more is refused.
constexpr std::size_t kStandInKeysMax = 65'536;
constexpr std::size_t kStandInRunsMax = 1'048'576;  // of logs

// An n-th of a shape. Requires n >= 1.
engine::MeterShape share_of(const engine::MeterShape& shape, std::int64_t n);

class StandIn {
 public:
  struct Item {
    const engine::MeterShape* shape = nullptr;
    std::string key;
    std::int64_t cost = 0;
    bool shadow = false;
    std::string_view limit{};  // its name
  };

  // Charges all items or none. `limits` is how many are decided here, at least 1.
  boost::container::small_vector<engine::SharedOutcome, 4> take(std::span<const Item> items,
                                                                std::int64_t servers, Instant now,
                                                                bool is_peek,
                                                                std::size_t limits = 1);
  // An outage begins or ends: drops the keys that are back in their initial state.
  void forget(Instant now);

 private:
  struct Meter {
    engine::MeterShape shape;
    engine::Words words{};
  };

  struct Limit {
    explicit Limit(std::size_t runs_max) : logs(runs_max) {}

    std::map<std::string, Meter> meters;
    engine::LogBlocks logs;
  };

  Limit& limit_of(const Item& item, std::size_t limits);
  // Nothing: there are too many.
  Meter* meter_for(Limit& limit, const Item& item, std::int64_t servers, std::size_t limits,
                   Instant now);

  std::mutex lock_;
  std::map<std::string, Limit, std::less<>> limits_;
  std::size_t keys_ = 0;  // of all
};

}  // namespace weir::store::redis
