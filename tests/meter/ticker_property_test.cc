#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <vector>

#include "tests/meter/property.h"
#include "tests/meter/support.h"
#include "weir/meter/ticker.h"

namespace weir::meter {
namespace ticker_property_test {

rc::Gen<TickerStart> any_start() {
  return rc::gen::element(TickerStart::kFull, TickerStart::kEmpty);
}

rc::Gen<TickerShape> small_ticker() {
  return rc::gen::apply(
      [](std::int64_t per_tick, std::int64_t interval_ns, std::int64_t more, TickerStart start) {
        return make_ticker(per_tick, Duration{interval_ns}, per_tick + more, start).value();
      },
      between(1, 5), between(1, 12), between(0, 10), any_start());
}

// Any shape that make_ticker accepts: the burst is cut to what fills in time.
rc::Gen<TickerShape> extreme_ticker() {
  return rc::gen::apply(
      [](std::int64_t per_tick, std::int64_t interval_ns, std::int64_t burst, TickerStart start) {
        const Exact ticks_most = (Exact{kTermMax} - 1) / interval_ns;
        const std::int64_t most = nearest(std::min<Exact>(kTermMax, ticks_most * per_tick));
        return make_ticker(per_tick, Duration{interval_ns}, std::clamp(burst, per_tick, most),
                           start)
            .value();
      },
      extreme_term(), extreme(1, kTermMax - 1), extreme_term(), any_start());
}

rc::Gen<TickerShape> any_ticker() { return rc::gen::oneOf(small_ticker(), extreme_ticker()); }

enum class Deed { kTake, kDebit, kGiveBack, kReshape };

struct Call {
  Deed deed;
  Instant now;
  std::int64_t cost;
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << "{deed " << static_cast<int>(call.deed) << " at " << call.now << ", cost "
             << call.cost << "}";
}

rc::Gen<Instant> soon() {
  return rc::gen::map(between(0, 300), [](std::int64_t ns) { return Instant{ns}; });
}

rc::Gen<Instant> any_instant() { return rc::gen::oneOf(soon(), extreme_instant()); }

rc::Gen<std::int64_t> extreme_cost(const TickerShape& shape) {
  return rc::gen::oneOf(extreme(0, shape.burst), extreme(0, kTermMax));
}

rc::Gen<std::vector<Call>> calls(rc::Gen<Instant> instants, rc::Gen<std::int64_t> costs) {
  return list_of(rc::gen::apply(
      [](Deed deed, Instant now, std::int64_t cost) {
        return Call{deed, now, cost};
      },
      rc::gen::element(Deed::kTake, Deed::kTake, Deed::kDebit, Deed::kGiveBack, Deed::kReshape),
      std::move(instants), std::move(costs)));
}

std::vector<Call> in_order(std::vector<Call> past) {
  std::stable_sort(past.begin(), past.end(),
                   [](const Call& a, const Call& b) { return a.now < b.now; });
  return past;
}

// The state that some calls before leave behind, and the last instant of them.
struct Lived {
  TickerState state;
  Instant at;
};

std::ostream& operator<<(std::ostream& out, const Lived& lived) {
  return out << lived.state << " at " << lived.at;
}

TickerState after(const Call& call, const TickerShape& shape, TickerState state) {
  switch (call.deed) {
    case Deed::kTake:
      return take(shape, state, call.now, call.cost).state;
    case Deed::kDebit:
      return debit(shape, state, call.now, call.cost);
    case Deed::kGiveBack:
      return give_back(shape, state, call.now, call.cost);
    case Deed::kReshape:
      break;
  }
  return state;
}

rc::Gen<Lived> lived(const TickerShape& shape) {
  return rc::gen::map(calls(any_instant(), extreme_cost(shape)), [shape](std::vector<Call> past) {
    past = in_order(std::move(past));
    const Instant begin = past.empty() ? kEpoch : past.front().now;
    Lived life{initial_ticker(shape, begin), begin};
    for (const Call& call : past) {
      life.at = call.now;
      life.state = after(call, shape, life.state);
    }
    return life;
  });
}

TEST(TickerProperty, AdmitsAtThePromisedTickAndNotOneNanosecondBefore) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    TickerState state = initial_ticker(shape, kEpoch);
    for (const Call& call : in_order(*calls(any_instant(), extreme_cost(shape)))) {
      state = after(call, shape, state);
      const std::int64_t cost = std::clamp<std::int64_t>(call.cost, 1, shape.burst);
      const Check check = take(shape, state, call.now, cost).check;
      if (check.allowed() || check.earliest > kLastInstant) continue;

      RC_ASSERT(check.earliest > call.now);
      RC_ASSERT(!take(shape, state, check.earliest - 1ns, cost).allowed());
      RC_ASSERT(take(shape, state, check.earliest, cost).allowed());
    }
  });
}

TEST(TickerProperty, AdmitsItsLevelAndNotOneMore) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const Lived life = *lived(shape);
    const std::int64_t there = level(shape, life.state, life.at);

    RC_ASSERT(there <= shape.burst);
    if (there >= 0) RC_ASSERT(take(shape, life.state, life.at, there).allowed());
    RC_ASSERT(!take(shape, life.state, life.at, std::max<std::int64_t>(0, there) + 1).allowed());
  });
}

TEST(TickerProperty, KeepsItsStateWhenItRefuses) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const Lived life = *lived(shape);
    const TickerStep step = take(shape, life.state, *any_instant(), *extreme_cost(shape));

    if (!step.allowed()) RC_ASSERT(step.state == life.state);
  });
}

TEST(TickerProperty, NeverHoldsMoreThanItsBurstAfterGivingBack) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const Lived life = *lived(shape);
    const TickerState given = give_back(shape, life.state, life.at, *extreme(0, kTermMax));

    RC_ASSERT(level(shape, given, life.at) <= shape.burst);
    RC_ASSERT(level(shape, given, kLastInstant) <= shape.burst);
  });
}

TEST(TickerProperty, CountsAnEarlierInstantAsNoTimePassed) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const Lived life = *lived(shape);
    const TickerState state = advance(shape, life.state, life.at);
    const Instant earlier{*extreme(0, life.at.ns)};

    RC_ASSERT(advance(shape, state, earlier) == state);
  });
}

TEST(TickerProperty, TicksAWholeNumberOfIntervalsAfterItsFirstTick) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const Instant begin = *any_instant();
    TickerState state = initial_ticker(shape, begin);
    const std::int64_t phase_ns = state.last_tick.ns % shape.interval_ns;
    for (const Call& call : *calls(any_instant(), extreme_cost(shape))) {
      const Instant now = later_of(call.now, begin);
      state = call.deed == Deed::kGiveBack ? give_back(shape, state, now, call.cost)
                                           : take(shape, state, now, call.cost).state;
      RC_ASSERT(state.last_tick.ns % shape.interval_ns == phase_ns);
    }
  });
}

TEST(TickerProperty, GoesOnAsANewOneOnceItIsInitial) {
  for_all([] {
    TickerShape shape = *small_ticker();
    shape.start = TickerStart::kFull;
    const Lived life = *lived(shape);
    Instant now = earlier_of(life.at + 1us, kLastInstant);  // longer than any of them fills
    RC_PRE(is_initial(shape, life.state, now));
    TickerState kept = life.state;
    TickerState anew = initial_ticker(shape, now);
    for (const std::int64_t gap_ns : *list_of(between(0, 2 * shape.interval_ns))) {
      now = earlier_of(now + Duration{gap_ns}, kLastInstant);
      const TickerStep kept_step = take(shape, kept, now, 1);
      const TickerStep anew_step = take(shape, anew, now, 1);
      RC_ASSERT(kept_step.check == anew_step.check);
      kept = kept_step.state;
      anew = anew_step.state;
    }
  });
}

// Models. Both start where the ticker starts and hold the same two facts: the
// tokens, and when the last tick came.

// One tick after another, as the drawing in the header shows it.
struct TickByTick {
  std::int64_t tokens;
  std::int64_t last_ns;

  void advance(const TickerShape& shape, Instant now) {
    while (last_ns + shape.interval_ns <= now.ns) {
      last_ns += shape.interval_ns;
      tokens = std::min(tokens + shape.per_tick, shape.burst);
    }
  }
};

// All ticks at once, in 256 bits.
struct ExactTicker {
  Exact tokens;
  Exact last_ns;

  void advance(const TickerShape& shape, Instant now) {
    if (last_ns > now.ns) return;
    const Exact ticks = (now.ns - last_ns) / shape.interval_ns;
    last_ns += ticks * shape.interval_ns;
    if (ticks > 0) tokens = std::min<Exact>(tokens + ticks * shape.per_tick, shape.burst);
  }
};

template <typename Model>
Model advanced(Model model, const TickerShape& shape, Instant now) {
  model.advance(shape, now);
  return model;
}

// Takes from the ticker and from the model; a refusal and a cost of nothing
// change neither, not even the tick that was counted last.
template <typename Model>
TickerState assert_same_take(const TickerShape& shape, Model& model, TickerState state,
                             const Call& call) {
  const TickerStep step = take(shape, state, call.now, call.cost);
  Model after = advanced(model, shape, call.now);
  const Exact missing = Exact{call.cost} - after.tokens;
  if (call.cost > shape.burst) {
    RC_ASSERT(step.check == (Check{Verdict::kNever, kForever, nearest(missing)}));
  } else if (call.cost > 0 && missing > 0) {
    const Exact ticks = exact_ceil_div(missing, shape.per_tick);
    const Instant earliest{nearest(after.last_ns + ticks * shape.interval_ns)};
    RC_ASSERT(step.check == (Check{Verdict::kDenied, earliest, nearest(missing)}));
  } else {
    RC_ASSERT(step.check == (Check{Verdict::kAllowed, call.now, 0}));
    after.tokens -= call.cost;
    if (call.cost > 0) model = after;
  }
  if (!step.allowed() || call.cost == 0) RC_ASSERT(step.state == state);
  return step.state;
}

// Runs the calls through the ticker and the model side by side. A reshape swaps
// the two shapes.
template <typename Model>
void assert_same_steps(TickerShape shape, TickerShape other, const std::vector<Call>& steps) {
  TickerState state = initial_ticker(shape, steps.empty() ? kEpoch : steps.front().now);
  Model model{state.tokens, state.last_tick.ns};
  for (const Call& call : steps) {
    if (call.deed == Deed::kTake) {
      state = assert_same_take(shape, model, state, call);
    } else {
      model.advance(shape, call.now);
    }
    if (call.deed == Deed::kDebit) {
      state = debit(shape, state, call.now, call.cost);
      model.tokens -= call.cost;
      if (model.tokens < -kTermMax) model.tokens = -kTermMax;  // no debt is larger
    }
    if (call.deed == Deed::kGiveBack) {
      state = give_back(shape, state, call.now, call.cost);
      model.tokens += call.cost;
    }
    if (call.deed == Deed::kReshape) {
      state = reshape(shape, other, state, call.now);
      std::swap(shape, other);
    }
    if (model.tokens > shape.burst) model.tokens = shape.burst;

    const Model now = advanced(model, shape, call.now);
    RC_ASSERT(level(shape, state, call.now) == now.tokens);
    RC_ASSERT(next_tick(shape, state, call.now).ns == now.last_ns + shape.interval_ns);
  }
}

TEST(TickerProperty, AgreesWithOneTickAfterAnother) {
  for_all([] {
    const TickerShape shape = *small_ticker();
    const TickerShape other = *small_ticker();
    const auto steps = *calls(soon(), between(0, 20));
    assert_same_steps<TickByTick>(shape, other, in_order(steps));
  });
}

TEST(TickerProperty, AgreesStepByStepWithAModelInWideIntegers) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const TickerShape other = *any_ticker();
    const auto steps =
        *calls(any_instant(), rc::gen::oneOf(extreme_cost(shape), extreme_cost(other)));
    assert_same_steps<ExactTicker>(shape, other, in_order(steps));
  });
}

TEST(TickerProperty, AgreesWithTheModelWhenTimeRunsBackwards) {
  for_all([] {
    const TickerShape shape = *any_ticker();
    const TickerShape other = *any_ticker();
    const auto steps =
        *calls(any_instant(), rc::gen::oneOf(extreme_cost(shape), extreme_cost(other)));
    assert_same_steps<ExactTicker>(shape, other, steps);
  });
}

TEST(TickIntervalProperty, IsTheNearestWholeNanosecondAndATieIsEven) {
  for_all([] {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() - 1;
    const std::int64_t period_ns = *rc::gen::oneOf(extreme(0, most), between(0, 50));
    const std::int64_t amount = *rc::gen::oneOf(extreme(1, most), between(1, 20));
    const std::int64_t interval_ns = tick_interval_ns(Duration{period_ns}, amount);
    const Exact twice_off = 2 * (Exact{interval_ns} * amount - period_ns);

    RC_ASSERT(abs(twice_off) <= amount);
    if (abs(twice_off) == amount) RC_ASSERT(interval_ns % 2 == 0);
  });
}

}  // namespace ticker_property_test
}  // namespace weir::meter
