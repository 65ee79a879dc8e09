// Slots: how many tasks a miner may have at once, following how it fares.
//
// Every so often a miner's slots move with its health, the share of its samples that did
// not end in a rate-limit error: they grow slowly and are cut fast. A value below the
// minimum is raised at once.
//
//   adjust({}, {.slots = 40, .last_adjusted_s = then}, {.success = 60, .rate_limited = 40}, now);
//   // 60 %: three fewer, 37
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>

namespace weir::system::sampling {

struct SlotSettings {
  std::int64_t usual = 25;
  std::int64_t least = 20;
  std::int64_t most = 50;
  std::int64_t every_s = 7200;
  std::int64_t samples_min = 30;  // in the last hour; fewer say nothing
};

struct SlotState {
  std::int64_t slots = 0;                         // 0: the usual number
  std::optional<std::int64_t> last_adjusted_s{};  // seconds since the epoch
};

struct Samples {
  std::int64_t success = 0;
  std::int64_t rate_limited = 0;
};

struct Adjustment {
  bool changed = false;                 // the number is another
  std::optional<std::int64_t> slots{};  // to be written, with the time; none: leave all as it is
};

std::int64_t slots_of(const SlotSettings& settings, std::int64_t stored) noexcept;

// Requires samples of 0 or more, below 2^53.
Adjustment adjust(const SlotSettings& settings, const SlotState& state, const Samples& samples,
                  std::int64_t now_s) noexcept;

}  // namespace weir::system::sampling
