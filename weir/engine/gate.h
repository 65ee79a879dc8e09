// Gate: anything that may refuse.
//
// Keyed limits are gates that the engine keeps itself, in its table. This
// interface is for the others: the throttles of a network, a contract account, the
// worker of a cluster, the allowances of a scheduler, or one of your own. The
// engine locks all gates of a request in one global order, asks each to check, and
// charges all of them or none:
//
//   lock ─► check ─► charge, or charge_held ─► unlock        the decision
//                      └─► later: lock ─► end ─► unlock      its hold is over
//
// Pools are no gates yet. They are an engine of their own, with queues, holds and
// a driver, behind their system object; so no decision covers a pool and a limit.
// A pool in memory would fit in here: its job is the receipt of charge_held(), its
// job type the queue. One that is kept in Redis would be asked like shared limits.
//
// Thread safety: the engine calls these functions between lock() and unlock(),
// never two of them at once. A gate whose state has other callers too forwards
// both to the lock of that state (weir/base/guarded.h), and such a state has one
// gate only: two would lock it twice. An implementation must not call the engine.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "weir/base/export.h"
#include "weir/base/time.h"
#include "weir/engine/request.h"
#include "weir/meter/step.h"

namespace weir::engine {

// How a hold on a gate ended.
enum class Ending : std::uint8_t {
  kSettled,    // with the actual costs
  kCancelled,  // as if it had never been
  kExpired,    // neither was asked in time; the work may have been done
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

  // Only a request with one of these attributes is a concern of this gate, whatever their
  // values are; the others do not meet its limit. None: every request is. They never change.
  virtual std::span<const std::string_view> concerned_by() const { return {}; }

  // The queue in which the request waits here. Only requests of one queue wait behind one
  // another. None: the request is no concern of this gate, and passes all that wait here.
  virtual std::optional<std::uint64_t> queue_of(const Request& /*request*/) const { return 0; }

  // Whether `cost` would pass at `now`. Takes nothing, but may advance to `now`.
  virtual meter::Check check(const Request& request, Instant now, std::int64_t cost) = 0;

  // The first instant from `from` on at which `cost` would pass if no other request came, or
  // kForever if that is unknown. Changes nothing: where several limits must agree, it is
  // asked about instants to come, which check() must not see before their time.
  virtual Instant fits_from(const Request& request, Instant from, std::int64_t cost) const = 0;

  // Takes `cost`; the same gate has just said that it passes at `now`.
  virtual void charge(const Request& request, Instant now, std::int64_t cost) = 0;

  // charge() for work that keeps a hold. The receipt it returns comes back with the end of
  // the hold, for a gate that must know more than the amount to give something back.
  virtual std::uint64_t charge_held(const Request& request, Instant now, std::int64_t cost) {
    charge(request, now, cost);
    return 0;
  }

  // check() has refused, and the refusal is the answer: the request was no peek, and does
  // not wait to be tried again. For a gate whose own refusals move it forward.
  virtual void refused(const Request& /*request*/, Instant /*now*/, std::int64_t /*cost*/) {}

  // A hold on this gate ended: gives back `hold.back` of what was charged, or takes an
  // overage if that is negative. A gate that counts more of a request than its limit's unit
  // finds the rest in `hold.actual`.
  virtual void end(Instant now, const HoldEnd& hold) = 0;

  // The record that tells of the last charge or end; 0: none. The engine puts it into the
  // answer (Decision::record), which leaves when the record is on disk.
  virtual std::uint64_t last_record() const noexcept { return 0; }

  // Whether charge() may be given an instant to come, if fits_from() gave that instant.
  virtual bool can_book() const { return false; }

  // Whether who waits here is given a start to come, once and in the order of arrival, instead of
  // a turn to be tried. The gate keeps that order itself: nobody waits here for older ones to pass.
  virtual bool gives_places() const { return false; }
  // What follows up to unlock() is asked for the waiter with this ticket. check() passes at the
  // start of its place, and charge() takes the place.
  virtual void enter(std::uint64_t /*ticket*/) {}
  // Gives the waiter that has entered a place whose start is `from` or later. One that it has stays
  // in its turn, and starts no earlier from then on. Without room for one it has none.
  virtual void take_place(const Request& /*request*/, Instant /*from*/, std::int64_t /*cost*/) {}
  // Gives up the place of the waiter, if it has one.
  virtual void leave_place(std::uint64_t /*ticket*/) {}

  // Whole units of the limit that would pass for the request at `now`, at least 0.
  virtual std::int64_t available(const Request& request, Instant now) = 0;

  // The most that could ever pass for the request.
  virtual std::int64_t capacity(const Request& request) const = 0;
};

}  // namespace weir::engine
