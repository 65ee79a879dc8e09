// Key holds: ending the holds of one key, for who runs the program rather than asks it.
//
//   end_holds(*engine, "running", key, now, [](const Result<EndedHolds>& ended) { ... });
//
// Thread safety: as every function of an engine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "weir/base/result.h"
#include "weir/base/time.h"

namespace weir::engine {

class Engine;

// How many were ended.
struct EndedHolds {
  std::size_t count = 0;
  std::uint64_t record = 0;  // as that of a Decision

  friend bool operator==(const EndedHolds&, const EndedHolds&) = default;
};
constexpr std::size_t kHoldsEndedMax = 10'000;  // by one call; there may be more

using EndedHoldsCallback = std::function<void(const Result<EndedHolds>&)>;

// Cancels the holds that were charged at one key, wherever else they were charged too, and then
// does what Engine::reset() does. Of more than kHoldsEndedMax as many are ended, which the answer
// tells: call again. Of shared limits only slots know their holds: at others it is an error.
void end_holds(Engine& engine, std::string_view limit, std::span<const std::string_view> key,
               Instant now, EndedHoldsCallback answered = {}) noexcept;

}  // namespace weir::engine
