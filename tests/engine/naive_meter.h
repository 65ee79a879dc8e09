// The five meters of the naive engine: fractions as 256-bit integers, no state shared with
// weir/meter. Unlike there, a meter carries its own parameters.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/exact.h"
#include "weir/base/time.h"
#include "weir/engine/rules.h"
#include "weir/meter/step.h"

namespace weir::engine::naive {

class Meter {
 public:
  virtual ~Meter() = default;

  virtual meter::Check check(Instant now, std::int64_t cost) const = 0;
  // Takes `cost`, fitting or not; returns what give_back() wants to know.
  virtual Instant charge(Instant now, std::int64_t cost) = 0;
  // Takes `cost` at a start to come, for which check() at `now` said that it fits.
  virtual Instant book(Instant /*now*/, Instant start, std::int64_t cost) {
    return charge(start, cost);
  }
  // Takes `cost` too, as far as no more than `most` is owed then.
  virtual void owe(Instant now, std::int64_t cost, std::int64_t most) {
    const std::int64_t room = std::max<std::int64_t>(0, level(now) + most);
    if (room > 0) charge(now, std::min(cost, room));
  }
  // Of a meter without ebbs.
  virtual void give_back(Instant /*now*/, Instant /*charged_at*/, std::int64_t /*amount*/) {}

  // Of buckets and tickers: how much comes back to them depends on what was in use since the
  // charge. All of it in numbers that only meters of these parameters share.
  virtual bool has_ebbs() const { return false; }
  virtual Exact in_use(Instant /*now*/) const { return 0; }
  virtual Exact use_of(std::int64_t /*units*/) const { return 0; }
  // What a charge made `then` has in use at least, whatever else there was.
  virtual Exact left_of(std::int64_t /*units*/, Instant /*then*/, Instant /*now*/) const {
    return 0;
  }
  // What `use` of a meter of the same kind is here.
  virtual Exact reshaped_use(const Meter& /*from*/, const Exact& use) const { return use; }
  virtual void free(Instant /*now*/, const Exact& /*use*/) {}

  virtual std::int64_t level(Instant now) const = 0;  // negative in debt
  virtual std::int64_t capacity() const = 0;
  // Cannot be told from one that was never used.
  virtual bool is_initial(Instant now) const = 0;
  // The same use under other parameters of the same kind.
  virtual void reshape(const MeterSpec& to, Instant now) = 0;
  virtual std::unique_ptr<Meter> copy() const = 0;
};

std::unique_ptr<Meter> make_meter(const MeterSpec& spec, Instant now);

// Whether both describe the same meter, whatever the way it is written.
bool same_parameters(const MeterSpec& a, const MeterSpec& b);
bool is_slots(const MeterSpec& spec);

enum class Kind { kBucket, kTicker, kWindow, kLog, kSlots };  // a calendar is a window

Kind kind_of(const MeterSpec& spec);
// Whether a start to come can be booked there.
bool can_book(const MeterSpec& spec);

std::string describe(Instant at);
std::string describe(const MeterSpec& spec);

}  // namespace weir::engine::naive
