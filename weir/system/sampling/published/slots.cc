// The published table of how slots move with the share of good samples.

#include "weir/system/sampling/published/slots.h"

#include <algorithm>

namespace weir::system::sampling {
namespace {

struct Health {
  std::int64_t success;
  std::int64_t samples;

  // Both terms are below 2^60.
  bool is_at_least(std::int64_t percent) const { return success * 100 >= samples * percent; }
};

std::int64_t moved(std::int64_t slots, const Health& health) {
  if (health.is_at_least(90)) return slots + 2;
  if (health.is_at_least(70)) return slots;
  if (health.is_at_least(50)) return slots - 3;
  if (health.is_at_least(30)) return slots * 7 / 10;  // rounded down, as is the next
  return slots / 2;
}

}  // namespace

std::int64_t slots_of(const SlotSettings& settings, std::int64_t stored) noexcept {
  return stored != 0 ? stored : settings.usual;
}

Adjustment adjust(const SlotSettings& settings, const SlotState& state, const Samples& samples,
                  std::int64_t now_s) noexcept {
  const std::int64_t slots = slots_of(settings, state.slots);
  if (slots < settings.least) return {true, settings.least};
  // A time of 0 stands for never.
  const std::int64_t last_s = state.last_adjusted_s.value_or(0);
  if (last_s != 0 && now_s - last_s < settings.every_s) return {};
  const std::int64_t count = samples.success + samples.rate_limited;
  if (count < settings.samples_min) return {};
  const std::int64_t next =
      std::clamp(moved(slots, {samples.success, count}), settings.least, settings.most);
  return {next != slots, next};
}

}  // namespace weir::system::sampling
