// Asking: one request on its way to the store of shared limits and back.
//
// Internal to the engine.

#pragma once

#include <cstdint>
#include <memory>

#include "weir/engine/engine_impl.h"

namespace weir::engine {

// Where a request with a ticket is. Guarded by the lock of the shared room.
enum class AskStage : std::uint8_t {
  kAsking,  // it is being decided
  kTimed,   // it was refused, and is tried again at an instant
  kBehind,  // somebody older has a place where it has one
};

struct Engine::Impl::Asking {
  explicit Asking(const Request& asked) : request(asked) {}

  // What it costs, with what it wants now of the unit it takes a part of.
  Request lowered(boost::container::small_vector<Cost, 8>& costs) const;

  OwnedRequest request;
  AcquireOptions options;
  Instant deadline{};
  bool is_peek = false;
  WaitCallback callback;

  std::shared_ptr<const Active> active;
  Plan plan;                              // all limits
  Result<Decision> local{std::in_place};  // what those of this engine said
  HoldId held{};                          // their charges
  bool wants_hold = false;
  Duration ttl{};

  std::int64_t want = 0;  // of options.up_to
  int lowered_times = 0;

  std::uint64_t ticket = 0;  // 0: it does not wait
  AskStage stage = AskStage::kAsking;
  bool is_waiting = false;  // it counts as a waiter
  // Limits of the plan at which somebody older waits, a bit each: it is refused there, and
  // nothing is charged.
  std::uint32_t behind = 0;
  Instant behind_until{};  // not before then, as far as is known
  bool is_overloaded = false;
};

}  // namespace weir::engine
