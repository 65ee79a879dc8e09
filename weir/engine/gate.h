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
#include <optional>
#include <span>

#include "weir/base/export.h"
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
  std::int64_t charged = 0;        // what charge_held() was given
  std::int64_t back = 0;           // to give back of it; negative: an overage
  std::span<const Cost> actual{};  // of a settlement, in all units it names
  std::uint64_t receipt = 0;       // what charge_held() said; 0 after a restart
};

class WEIR_EXPORT Gate {
 public:
  virtual ~Gate() = default;

  // Called around everything else, from the check to the charge of a decision, in the
  // global order of gates: for a gate whose state is also reached without the engine.
  virtual void lock() noexcept {}
  virtual void unlock() noexcept {}

  // Who waits behind whom: requests of the same number do, others pass one another. None:
  // the request is no concern of this gate, and passes whoever waits here.
  virtual std::optional<std::uint64_t> queue_of(const Request& /*request*/) const { return 0; }

  // Whether `cost` would pass at `now`. Takes nothing, but may advance to `now`.
  virtual meter::Check check(const Request& request, Instant now, std::int64_t cost) = 0;

  // The first instant from `from` on at which `cost` would pass if nobody else came, or
  // kForever if that is unknown. Changes nothing: where several limits must agree, it is
  // asked about instants to come, which check() must not see before their time.
  virtual Instant fits_from(const Request& request, Instant from, std::int64_t cost) const = 0;

  // Takes `cost`; the same gate has just said that it passes at `now`.
  virtual void charge(const Request& request, Instant now, std::int64_t cost) = 0;

  // The same for work that keeps a hold. What it returns comes back with the end of the
  // hold, for a gate that must know more than the amount to give something back.
  virtual std::uint64_t charge_held(const Request& request, Instant now, std::int64_t cost) {
    charge(request, now, cost);
    return 0;
  }

  // check() has refused, and that is the last word: nobody was only looking, or waits to
  // try again. For a gate whose own refusals move it forward.
  virtual void refused(const Request& /*request*/, Instant /*now*/, std::int64_t /*cost*/) {}

  // A hold on this gate ended. For gates that count more of a request than their
  // limit's unit; the others are told by give_back().
  virtual void end(Instant now, const HoldEnd& hold) {
    give_back(now, hold.charged_at, hold.back, true);
  }

  // Gives back part of what was charged at `charged_at`, or takes an overage if
  // `amount` is negative. `ended` says that the work itself is over.
  virtual void give_back(Instant now, Instant charged_at, std::int64_t amount, bool ended) = 0;

  // The record that tells of the last charge or end; 0: none. Who is told of that is told when the
  // record is on disk (Decision::record).
  virtual std::uint64_t last_record() const noexcept { return 0; }

  // Whether charge() may be given an instant to come, if fits_from() gave that instant.
  virtual bool can_book() const { return false; }

  // Whole units that would pass at `now`, at least 0.
  virtual std::int64_t available(Instant now) = 0;

  // The most it can ever hold.
  virtual std::int64_t capacity() const = 0;

  // The same for one request, where that depends on what is asked for.
  virtual std::int64_t available_to(const Request& /*request*/, Instant now) {
    return available(now);
  }
  virtual std::int64_t capacity_for(const Request& /*request*/) const { return capacity(); }
};

}  // namespace weir::engine
