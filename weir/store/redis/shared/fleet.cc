#include "weir/store/redis/shared/fleet.h"

#include <fmt/format.h>

#include <cstdint>
#include <random>

#include "weir/store/redis/shared/keys.h"

namespace weir::store::redis {

std::string random_id() {
  std::random_device random;
  const auto draw = [&] { return static_cast<std::uint64_t>(random()) & 0xffff'ffff; };
  return fmt::format("{:08x}{:08x}", draw(), draw());
}

Fleet::Fleet(const std::string& name, Clock& its_clock, Clock* its_redis_clock)
    : prefix(key_prefix(name)),
      epoch_key(prefix + "epoch"),
      servers_key(prefix + "servers"),
      id(random_id()),
      clock(its_clock),
      redis_clock(its_redis_clock) {}

std::string Fleet::now_argument() const {
  if (redis_clock == nullptr) return {};
  return fmt::format("{}", redis_clock->now().ns / kNsPerUs);
}

}  // namespace weir::store::redis
