// A decision on its way to Redis. Internal to SharedLimits.

#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "weir/store/redis/shared/limits.h"

namespace weir::store::redis {

inline bool refuses(const engine::SharedItem& item, const engine::SharedOutcome& outcome) {
  return !item.rule->shadow && !outcome.check.allowed();
}

struct SharedLimits::Asked {
  std::shared_ptr<const engine::RuleSet> rules;
  boost::container::small_vector<engine::SharedItem, 8> items;
  boost::container::small_vector<std::string, 8> keys;
  HoldId hold{};
  Duration ttl{};
  bool is_peek = false;
  bool is_started = true;  // false: it was refused because Redis did not answer in time
  Instant now{};
  std::uint64_t lossy_version = 0;  // of the epoch when this was sent; 0: nothing was lost
  engine::SharedCallback callback;
};

}  // namespace weir::store::redis
