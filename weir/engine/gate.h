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
#include <span>

#include "weir/base/time.h"
#include "weir/engine/request.h"
#include "weir/meter/step.h"

namespace weir::engine {

// How a hold on a gate ended.
enum class Ending : std::uint8_t {
  kSettled,    // with the actual costs
  kCancelled,  // as if it had never been
  kExpired,    // nobody said; the work may have been done
};

struct HoldEnd {
  Ending how = Ending::kExpired;
  Instant charged_at{};
  std::int64_t amount = 0;         // to give back, in the limit's unit; negative: an overage
  std::uint64_t mark = 0;          // what mark() said after the charge
  std::span<const Cost> actual{};  // of a settlement, in all units it names
};

class Gate {
 public:
  virtual ~Gate() = default;

  // Called around everything else, for a gate whose state is also reached without the
  // engine: it keeps its own lock from check to charge. In the global order of gates.
  virtual void lock() {}
  virtual void unlock() {}

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

  // Whether charge() may be given an instant to come, if fits_from() gave that instant.
  virtual bool can_book() const { return false; }

  // Names the last charge, for a gate that wants to know which one a hold ends.
  virtual std::uint64_t mark() const { return 0; }

  // A hold on this gate ended. For gates that count more of a request than their
  // limit's unit; the others are told by give_back().
  virtual void end(Instant now, const HoldEnd& hold) {
    give_back(now, hold.charged_at, hold.amount, true);
  }

  // Whole units that would pass at `now`, at least 0.
  virtual std::int64_t available(Instant now) = 0;

  // The most it can ever hold.
  virtual std::int64_t capacity() const = 0;
};

}  // namespace weir::engine
