#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "tests/meter/property.h"
#include "tests/meter/support.h"
#include "weir/meter/bucket.h"

namespace weir::meter {
namespace bucket_property_test {

// Shapes whose fractions meet often: a unit lasts from a tenth of a nanosecond
// to thirty, seldom a whole number of them.
rc::Gen<BucketShape> small_bucket() {
  return rc::gen::apply(
      [](std::int64_t amount, std::int64_t period_ns, std::int64_t burst) {
        return make_bucket(amount, Duration{period_ns}, burst).value();
      },
      between(1, 10), between(1, 30), between(1, 8));
}

// Any shape that make_bucket accepts: the burst is cut to what fills in time.
rc::Gen<BucketShape> extreme_bucket() {
  return rc::gen::apply(
      [](std::int64_t amount, std::int64_t period_ns, std::int64_t burst) {
        const Exact most = (Exact{amount} * kTermMax - 1) / period_ns;
        const std::int64_t fitting =
            std::clamp<std::int64_t>(burst, 1, std::max<std::int64_t>(1, nearest(most)));
        return make_bucket(most < 1 ? 2 : amount, Duration{period_ns}, fitting).value();
      },
      extreme_term(), extreme_term(), extreme_term());
}

rc::Gen<BucketShape> any_bucket() { return rc::gen::oneOf(small_bucket(), extreme_bucket()); }

Instant instant_within(const Exact& ns) {
  return Instant{nearest(std::clamp<Exact>(ns, 0, kInstantNsMax))};
}

// One call of a bucket. The instant is chosen against the state it will meet.
enum class Place { kAnywhere, kAtLastInstant, kNearFull, kNearSolvent, kAtPromise };
enum class Deed { kTake, kBook, kDebit, kGiveBack, kReshape };

struct Call {
  Deed deed;
  Place place;
  Instant instant;
  std::int64_t offset_ns;
  std::int64_t cost;

  Instant at(const BucketShape& shape, BucketState state, Instant last, Instant promise) const {
    switch (place) {
      case Place::kAnywhere:
        return instant;
      case Place::kAtLastInstant:
        return instant_within(Exact{last.ns} + std::abs(offset_ns));
      case Place::kNearFull:
        return instant_within(Exact{state.full_at.ns} + offset_ns);
      case Place::kNearSolvent:
        return instant_within(Exact{solvent_at(shape, state).ns} + offset_ns);
      case Place::kAtPromise:
        return instant_within(promise.ns);
    }
    return instant;
  }
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << "{deed " << static_cast<int>(call.deed) << ", place "
             << static_cast<int>(call.place) << ", at " << call.instant << ", offset "
             << call.offset_ns << ", cost " << call.cost << "}";
}

rc::Gen<std::vector<Call>> calls(std::initializer_list<Deed> deeds, rc::Gen<Instant> instants,
                                 rc::Gen<std::int64_t> costs) {
  return list_of(rc::gen::apply(
      [](Deed deed, Place place, Instant instant, std::int64_t offset_ns, std::int64_t cost) {
        return Call{deed, place, instant, offset_ns, cost};
      },
      rc::gen::elementOf(std::vector<Deed>(deeds)),
      rc::gen::element(Place::kAtLastInstant, Place::kAnywhere, Place::kNearFull,
                       Place::kNearSolvent, Place::kAtPromise),
      std::move(instants), between(-4, 4), std::move(costs)));
}

rc::Gen<Instant> soon() {
  return rc::gen::map(between(0, 200), [](std::int64_t ns) { return Instant{ns}; });
}

// Costs near the burst as often as costs anywhere.
rc::Gen<std::int64_t> extreme_cost(const BucketShape& shape) {
  return rc::gen::oneOf(extreme(0, shape.burst), extreme(0, kTermMax));
}

rc::Gen<std::vector<Call>> any_calls(const BucketShape& shape) {
  return calls({Deed::kTake, Deed::kTake, Deed::kBook, Deed::kDebit, Deed::kGiveBack},
               rc::gen::oneOf(soon(), extreme_instant()), extreme_cost(shape));
}

BucketState after(const Call& call, const BucketShape& shape, BucketState state, Instant now) {
  switch (call.deed) {
    case Deed::kTake:
      return take(shape, state, now, call.cost).state;
    case Deed::kBook:
      return book(shape, state, now, call.cost).state;
    case Deed::kDebit:
      return debit(shape, state, now, call.cost).state;
    case Deed::kGiveBack:
      return give_back(shape, state, now, call.cost);
    case Deed::kReshape:
      break;
  }
  return state;
}

// The state that some calls leave behind, and the last instant of them.
struct Lived {
  BucketState state;
  Instant at;
};

std::ostream& operator<<(std::ostream& out, const Lived& lived) {
  return out << lived.state << " at " << lived.at;
}

rc::Gen<Lived> lived(const BucketShape& shape) {
  return rc::gen::map(any_calls(shape), [shape](const std::vector<Call>& past) {
    Lived life;
    for (const Call& call : past) {
      life.at = call.at(shape, life.state, life.at, life.at);
      life.state = after(call, shape, life.state, life.at);
    }
    return life;
  });
}

// The promised instant.

TEST(BucketProperty, AdmitsAtThePromisedInstantAndNotOneNanosecondBefore) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    BucketState state;
    Instant now;
    for (const Call& call : *any_calls(shape)) {
      now = call.at(shape, state, now, now);
      state = after(call, shape, state, now);
      const std::int64_t cost = std::clamp<std::int64_t>(call.cost, 1, shape.burst);
      const Check check = take(shape, state, now, cost).check;
      if (check.allowed() || check.earliest > kLastInstant) continue;

      RC_ASSERT(check.earliest > now);
      RC_ASSERT(!take(shape, state, check.earliest - 1ns, cost).allowed());
      RC_ASSERT(take(shape, state, check.earliest, cost).allowed());
    }
  });
}

TEST(BucketProperty, BooksTheFirstInstantAtWhichItWouldTake) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const std::int64_t cost = *extreme(0, shape.burst);
    const BucketStep step = book(shape, life.state, life.at, cost);
    const Instant start = step.check.earliest;
    RC_PRE(step.allowed() && start <= kLastInstant);

    RC_ASSERT(start >= life.at);
    RC_ASSERT(take(shape, life.state, start, cost).allowed());
    RC_ASSERT(take(shape, life.state, start, cost).state == step.state);
    if (start > life.at) RC_ASSERT(!take(shape, life.state, start - 1ns, cost).allowed());
  });
}

TEST(BucketProperty, ReportsTheExactDelayOfADebit) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const BucketStep step = debit(shape, life.state, life.at, *extreme_cost(shape));
    const Instant solvent = step.check.earliest;
    RC_PRE(step.allowed());

    RC_ASSERT(solvent >= life.at);
    RC_ASSERT(level(shape, step.state, solvent) >= 0);
    if (solvent > life.at) RC_ASSERT(level(shape, step.state, solvent - 1ns) < 0);
  });
}

TEST(BucketProperty, AdmitsItsLevelAndNotOneMore) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const std::int64_t there = level(shape, life.state, life.at);

    RC_ASSERT(there <= shape.burst);
    if (there >= 0) RC_ASSERT(take(shape, life.state, life.at, there).allowed());
    if (there < shape.burst) {
      RC_ASSERT(!take(shape, life.state, life.at, std::max<std::int64_t>(0, there) + 1).allowed());
    }
  });
}

TEST(BucketProperty, KeepsItsStateWhenItRefuses) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const std::int64_t cost = *extreme_cost(shape);
    for (const BucketStep& step :
         {take(shape, life.state, life.at, cost), book(shape, life.state, life.at, cost),
          debit(shape, life.state, life.at, cost)}) {
      if (!step.allowed()) RC_ASSERT(step.state == life.state);
    }
  });
}

// The rate.

struct Admission {
  Instant at;
  std::int64_t cost;
};

// Over every interval, what was admitted is at most burst + rate * time.
void assert_within_rate(const BucketShape& shape, std::vector<Admission> admitted) {
  std::sort(admitted.begin(), admitted.end(),
            [](const Admission& a, const Admission& b) { return a.at < b.at; });
  for (std::size_t first = 0; first < admitted.size(); ++first) {
    Exact sum = 0;
    for (std::size_t last = first; last < admitted.size(); ++last) {
      sum += admitted[last].cost;
      const Exact lasted_ns = Exact{admitted[last].at.ns} - admitted[first].at.ns;
      RC_ASSERT(sum * shape.den <= Exact{shape.burst} * shape.den + lasted_ns * shape.num);
    }
  }
}

// Runs the calls, takes and bookings alike, and collects what started when.
std::vector<Admission> admissions(const BucketShape& shape, const std::vector<Call>& arrivals,
                                  bool in_order) {
  std::vector<Admission> admitted;
  BucketState state;
  Instant last, promise;
  for (const Call& call : arrivals) {
    Instant now = call.at(shape, state, last, promise);
    if (in_order) now = later_of(now, last);
    const BucketStep step = call.deed == Deed::kBook ? book(shape, state, now, call.cost)
                                                     : take(shape, state, now, call.cost);
    if (step.allowed()) admitted.push_back({step.check.earliest, call.cost});
    if (step.check.verdict == Verdict::kDenied) promise = step.check.earliest;
    state = step.state;
    last = now;
  }
  return admitted;
}

TEST(BucketProperty, AdmitsNoMoreThanBurstPlusRateTimesTimeOverAnyInterval) {
  for_all([] {
    const BucketShape shape = *small_bucket();
    const auto arrivals = *calls({Deed::kTake}, soon(), between(0, shape.burst));
    assert_within_rate(shape, admissions(shape, arrivals, true));
  });
}

TEST(BucketProperty, AdmitsNoMoreWhenTimeRunsBackAndForth) {
  for_all([] {
    const BucketShape shape = *small_bucket();
    const auto arrivals = *calls({Deed::kTake}, soon(), between(0, shape.burst));
    assert_within_rate(shape, admissions(shape, arrivals, false));
  });
}

TEST(BucketProperty, StartsNoMoreThanBurstPlusRateTimesTimeWhenBooked) {
  for_all([] {
    const BucketShape shape = *small_bucket();
    const auto arrivals = *calls({Deed::kBook, Deed::kTake}, soon(), between(1, shape.burst));
    assert_within_rate(shape, admissions(shape, arrivals, false));
  });
}

TEST(BucketProperty, StartsNoMoreWithExtremeShapes) {
  for_all([] {
    const BucketShape shape = *extreme_bucket();
    const auto arrivals =
        *calls({Deed::kBook, Deed::kTake}, extreme_instant(), extreme(1, shape.burst));
    assert_within_rate(shape, admissions(shape, arrivals, false));
  });
}

TEST(BucketProperty, LosesNothingToRoundingWhileItIsNotFull) {
  for_all([] {
    const BucketShape shape = *small_bucket();
    // Less than one unit is left behind each time, so it never fills within these.
    const auto gaps = *list_of(between(0, refill_time(shape, shape.burst - 1).ns));
    BucketState state = take(shape, BucketState{}, kEpoch, shape.burst).state;
    Instant now;
    Exact taken = 0;
    for (const std::int64_t gap_ns : gaps) {
      now = now + Duration{gap_ns};
      const std::int64_t there = level(shape, state, now);
      state = take(shape, state, now, there).state;
      taken += there;
      RC_ASSERT(taken == Exact{now.ns} * shape.num / shape.den);
    }
  });
}

// Giving back and changing shape.

TEST(BucketProperty, GivesBackWhatWasTakenToTheLastFraction) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const std::int64_t cost = *extreme(1, shape.burst);
    const BucketStep step = take(shape, life.state, life.at, cost);
    RC_PRE(step.allowed());
    const BucketState given = give_back(shape, step.state, life.at, cost);

    RC_ASSERT(settled(given, life.at) == settled(life.state, life.at));
  });
}

TEST(BucketProperty, NeverHoldsMoreThanItsBurstAfterGivingBack) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const BucketState given = give_back(shape, life.state, life.at, *extreme(0, kTermMax));

    RC_ASSERT(level(shape, given, life.at) <= shape.burst);
    const BucketStep whole = take(shape, given, life.at, shape.burst);
    if (whole.allowed()) RC_ASSERT(!take(shape, whole.state, life.at, 1).allowed());
  });
}

TEST(BucketProperty, KeepsUnitsInUseRoundedUpWhenItsShapeChanges) {
  for_all([] {
    const BucketShape from = *any_bucket();
    const BucketShape to = *any_bucket();
    const Lived life = *lived(from);
    const std::int64_t units = used(from, life.state, life.at);
    RC_PRE(Exact{units} * to.den / to.num < kTermMax);

    RC_ASSERT(used(to, reshape(from, to, life.state, life.at), life.at) == units);
  });
}

// However often the burst changes, even while a start is booked or the use is a debt.
TEST(BucketProperty, RefillsAsIfUntouchedWhileOnlyItsBurstChanges) {
  for_all([] {
    BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const Wide used_before = used_parts(shape, life.state, life.at);
    BucketState state = life.state;
    Instant now = life.at;
    const Exact most = (Exact{shape.num} * kTermMax - 1) / shape.den;
    for (const std::int64_t gap_ns : *list_of(rc::gen::oneOf(between(0, 40), extreme_term()))) {
      now = instant_within(Exact{now.ns} + gap_ns);
      const std::int64_t burst = *rc::gen::oneOf(between(1, 8), extreme_term());
      const BucketShape other =
          make_bucket(shape.num, Duration{shape.den},
                      std::min(burst, std::max<std::int64_t>(1, nearest(most))))
              .value();
      state = reshape(shape, other, state, now);
      shape = other;
      const Wide gained = Wide{now.ns - life.at.ns} * shape.num;
      RC_ASSERT(used_parts(shape, state, now) == std::max(Wide{0}, used_before - gained));
    }
  });
}

// Time running backwards.

TEST(BucketProperty, CountsAnEarlierInstantAsNoTimePassed) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const TimedBucket timed{life.state, life.at};
    const Instant now = *rc::gen::oneOf(extreme_instant(), soon());
    const std::int64_t cost = *extreme_cost(shape);
    const Step<TimedBucket> step = take(shape, timed, now, cost);
    const Step<TimedBucket> no_earlier = take(shape, timed, later_of(now, life.at), cost);

    RC_ASSERT(step.check == no_earlier.check);
    RC_ASSERT(step.state.bucket == no_earlier.state.bucket);
    RC_ASSERT(step.state.charged_at == no_earlier.state.charged_at);
  });
}

TEST(BucketProperty, ReportsAnEarlierInstantAsAnErrorWhenStrict) {
  for_all([] {
    const BucketShape shape = *any_bucket();
    const Lived life = *lived(shape);
    const Instant now = *rc::gen::oneOf(extreme_instant(), soon());
    const std::int64_t cost = *extreme_cost(shape);

    RC_ASSERT(take_strictly(shape, {life.state, life.at}, now, cost).ok() == (now >= life.at));
  });
}

// The same bucket in 256-bit integers: one number, the instant at which it is
// full again in 1/num parts of a nanosecond, and the definitions of the header.
class ExactBucket {
 public:
  explicit ExactBucket(const BucketShape& shape) : shape_(shape) {}

  static Exact parts_of(const BucketShape& shape, BucketState state) {
    return Exact{state.full_at.ns} * shape.num + state.full_at_parts;
  }

  Exact parts_at(Instant now) const { return Exact{now.ns} * shape_.num; }
  Exact parts_used(Instant now) const { return std::max<Exact>(0, full_at_ - parts_at(now)); }
  Exact units_used(Instant now) const { return exact_ceil_div(parts_used(now), shape_.den); }
  Exact level(Instant now) const { return shape_.burst - units_used(now); }
  Exact percent_used_micro(Instant now) const {
    return parts_used(now) * 100 * kMicro / (Exact{shape_.burst} * shape_.den);
  }

  // When `cost` more, charged at `now`, would leave no debt.
  Exact solvent_ns(Instant now, std::int64_t cost) const {
    const Exact fill = Exact{shape_.burst} * shape_.den;
    return exact_ceil_div(charged(now, cost) - fill, shape_.num);
  }
  Exact charged(Instant now, std::int64_t cost) const {
    return std::max(full_at_, parts_at(now)) + Exact{cost} * shape_.den;
  }
  bool ends_in_time(Instant now, std::int64_t cost) const {
    return charged(now, cost) < Exact{kForever.ns} * shape_.num;
  }

  void charge(Instant now, std::int64_t cost) { full_at_ = charged(now, cost); }
  void give_back(std::int64_t amount) { full_at_ -= Exact{amount} * shape_.den; }
  void reshape(const BucketShape& to, Instant now) {
    if (std::pair(shape_.num, shape_.den) == std::pair(to.num, to.den)) {
      shape_ = to;
      return;
    }
    // Rounded up to the new shape's parts; of units no more than 64 bits hold.
    const Exact parts = parts_used(now);
    const Exact units = nearest(Exact{parts / shape_.den});
    const Exact rest = exact_ceil_div(Exact{parts % shape_.den} * to.den, shape_.den);
    shape_ = to;
    full_at_ = parts_at(now) + units * to.den + rest;
  }

  // A full bucket may be written in many ways; any other in one. Takes over the
  // way it was written, because an earlier instant sees the difference.
  void assert_same(BucketState state, Instant now) {
    RC_ASSERT(state.full_at_parts >= 0);
    RC_ASSERT(state.full_at_parts < shape_.num);
    const Exact written = parts_of(shape_, state);
    if (full_at_ <= parts_at(now)) {
      RC_ASSERT(written <= parts_at(now));
      full_at_ = written;
    }
    RC_ASSERT(written == full_at_);
  }
  void adopt(BucketState state) { full_at_ = parts_of(shape_, state); }

 private:
  BucketShape shape_;
  Exact full_at_ = 0;
};

void assert_same_take(const BucketShape& shape, ExactBucket& model, const BucketStep& step,
                      Instant now, std::int64_t cost) {
  const Check& check = step.check;
  const std::int64_t missing = nearest(cost - model.level(now));
  const Exact solvent_ns = model.solvent_ns(now, cost);
  if (cost > shape.burst) {
    RC_ASSERT(check == (Check{Verdict::kNever, kForever, missing}));
  } else if (cost > 0 && solvent_ns > now.ns) {
    RC_ASSERT(check.verdict == Verdict::kDenied);
    RC_ASSERT(check.shortfall == missing);
    // Beyond the instants that meters accept, any such instant will do.
    if (solvent_ns <= kInstantNsMax) RC_ASSERT(check.earliest.ns == solvent_ns);
    RC_ASSERT((check.earliest.ns > kInstantNsMax) == (solvent_ns > kInstantNsMax));
  } else {
    RC_ASSERT(check == (Check{Verdict::kAllowed, now, 0}));
    if (cost > 0) model.charge(now, cost);
  }
}

void assert_same_booking(const BucketShape& shape, ExactBucket& model, const BucketStep& step,
                         Instant now, std::int64_t cost) {
  const std::int64_t missing = nearest(cost - model.level(now));
  const Exact start_ns =
      cost == 0 ? Exact{now.ns} : std::max<Exact>(now.ns, model.solvent_ns(now, cost));
  const Instant start{nearest(start_ns)};
  if (cost > shape.burst || (cost > 0 && !model.ends_in_time(start, cost))) {
    RC_ASSERT(step.check == (Check{Verdict::kNever, kForever, missing}));
  } else {
    RC_ASSERT(step.check == (Check{Verdict::kAllowed, start, 0}));
    if (cost > 0) model.charge(start, cost);
  }
}

void assert_same_debit(ExactBucket& model, const BucketStep& step, Instant now, std::int64_t cost) {
  const Exact solvent_ns = std::max<Exact>(now.ns, model.solvent_ns(now, cost));
  if (step.check.verdict == Verdict::kNever) {
    RC_ASSERT(solvent_ns > kInstantNsMax);
    RC_ASSERT(step.check == (Check{Verdict::kNever, kForever, nearest(cost - model.level(now))}));
  } else {
    RC_ASSERT(step.check == (Check{Verdict::kAllowed, Instant{nearest(solvent_ns)}, 0}));
    RC_ASSERT(solvent_ns < kForever.ns);
    model.charge(now, cost);
  }
}

void assert_same_step(const BucketShape& shape, ExactBucket& model, BucketState& state,
                      const Call& call, Instant now) {
  BucketStep step{{}, state};
  switch (call.deed) {
    case Deed::kTake:
      step = take(shape, state, now, call.cost);
      assert_same_take(shape, model, step, now, call.cost);
      break;
    case Deed::kBook:
      step = book(shape, state, now, call.cost);
      assert_same_booking(shape, model, step, now, call.cost);
      break;
    case Deed::kDebit:
      step = debit(shape, state, now, call.cost);
      assert_same_debit(model, step, now, call.cost);
      break;
    case Deed::kGiveBack:
      step.state = give_back(shape, state, now, call.cost);
      model.give_back(call.cost);
      break;
    case Deed::kReshape:
      break;
  }
  if (!step.allowed()) RC_ASSERT(step.state == state);
  state = step.state;
  model.assert_same(state, now);
}

void assert_same_readings(const BucketShape& shape, const ExactBucket& model, BucketState state,
                          Instant now) {
  RC_ASSERT(used(shape, state, now) == nearest(model.units_used(now)));
  RC_ASSERT(level(shape, state, now) == nearest(model.level(now)));
  RC_ASSERT(percent_used_micro(shape, state, now) == nearest(model.percent_used_micro(now)));
  RC_ASSERT(is_initial(state, now) == (model.parts_used(now) == 0));
}

TEST(BucketProperty, AgreesStepByStepWithAModelInWideIntegers) {
  for_all([] {
    BucketShape shape = *any_bucket();
    BucketShape other = *any_bucket();
    const auto steps = *calls(
        {Deed::kTake, Deed::kTake, Deed::kBook, Deed::kDebit, Deed::kGiveBack, Deed::kReshape},
        rc::gen::oneOf(soon(), extreme_instant()),
        rc::gen::oneOf(extreme_cost(shape), extreme_cost(other)));
    ExactBucket model(shape);
    BucketState state;
    Instant last;
    for (const Call& call : steps) {
      const Instant now = call.at(shape, state, last, last);
      assert_same_readings(shape, model, state, now);
      if (call.deed == Deed::kReshape) {
        state = reshape(shape, other, state, now);
        model.reshape(other, now);
        std::swap(shape, other);
        // A debt that would take longer to pay than any bucket to fill is cut.
        if (model.parts_used(now) >= Exact{kTermMax} * shape.num) {
          RC_ASSERT(state.full_at.ns >= now.ns + kTermMax);
          model.adopt(state);
        }
      }
      assert_same_step(shape, model, state, call, now);
      assert_same_readings(shape, model, state, now);
      last = now;
    }
  });
}

}  // namespace bucket_property_test
}  // namespace weir::meter
