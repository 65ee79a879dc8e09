// Stand-in: decides shared limits alone while the store cannot be asked.
//
// Each server of the fleet takes its share: with n of them a bucket refills an n-th as fast
// and holds an n-th, rounded down, of the burst; at least 1. A key begins unused, because what
// the store would say is not known: an outage may admit one burst more than the limit has. What
// was used is remembered until it has refilled, however often the store comes and goes meanwhile.
//
// Slots are not decided here: whether work elsewhere has ended cannot be known.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "weir/base/time.h"
#include "weir/engine/meter.h"
#include "weir/engine/shared.h"

namespace weir::store::redis {

constexpr std::size_t kStandInKeysMax = 65'536;  // one key more is refused
constexpr std::size_t kStandInRunsMax =
    1'048'576;  // of all logs; a request for one more is refused

// An n-th of a shape. Requires n >= 1.
engine::MeterShape share_of(const engine::MeterShape& shape, std::int64_t n);

class StandIn {
 public:
  struct Item {
    const engine::MeterShape* shape = nullptr;
    std::string key;
    std::int64_t cost = 0;
    bool shadow = false;
  };

  // Charges all items or none.
  boost::container::small_vector<engine::SharedOutcome, 4> take(std::span<const Item> items,
                                                                std::int64_t servers, Instant now,
                                                                bool is_peek);
  // An outage begins or ends: drops the keys that are back in their initial state.
  void forget(Instant now);

 private:
  struct Meter {
    engine::MeterShape shape;
    engine::Words words{};
  };

  // Nothing: there are too many.
  Meter* meter_for(const Item& item, std::int64_t servers, Instant now);

  std::mutex lock_;
  std::map<std::string, Meter> meters_;
  engine::LogBlocks logs_{kStandInRunsMax};
};

}  // namespace weir::store::redis
