// Gate: anything that may refuse.
//
// Keyed limits are gates that the engine keeps itself, in its table. This
// interface is for the others: a throttle set, a contract account, a cluster, a
// local pool. The engine locks all gates of a request in one global order, asks
// each to check, and charges all of them or none.
//
// Thread safety: the engine calls these functions with the gate's own lock held,
// never two of them at once. An implementation must not call the engine.

#pragma once

#include <cstdint>

#include "weir/base/time.h"
#include "weir/engine/request.h"
#include "weir/meter/step.h"

namespace weir::engine {

class Gate {
 public:
  virtual ~Gate() = default;

  // Whether `cost` would pass at `now`. Takes nothing, but may advance to `now`.
  virtual meter::Check check(const Request& request, Instant now, std::int64_t cost) = 0;

  // The first instant from `from` on at which `cost` would pass if nobody else came, or
  // kForever if that is unknown. Changes nothing: where several limits must agree, it is
  // asked about instants to come, which check() must not see before their time.
  virtual Instant fits_from(const Request& request, Instant from, std::int64_t cost) const = 0;

  // Takes `cost`; the same gate has just said that it passes at `now`.
  virtual void charge(const Request& request, Instant now, std::int64_t cost) = 0;

  // Gives back part of what was charged at `charged_at`, or takes an overage if
  // `amount` is negative. `ended` says that the work itself is over.
  virtual void give_back(Instant now, Instant charged_at, std::int64_t amount, bool ended) = 0;

  // Whole units that would pass at `now`, at least 0.
  virtual std::int64_t available(Instant now) = 0;

  // The most it can ever hold.
  virtual std::int64_t capacity() const = 0;
};

}  // namespace weir::engine
