#include "weir/meter/slots.h"

#include "fuzz/meter/meters.h"

namespace weir::fuzz {
namespace {

using namespace weir::meter;

Result<SlotsShape> any_shape(Input& input) {
  const std::int64_t limit = input.term();
  const std::int64_t queue = input.term();
  return make_slots(limit, queue, Duration{input.term()});
}

SlotsState take_once(const SlotsShape& shape, SlotsState state, Instant now, std::int64_t cost) {
  const std::int64_t left = level(shape, state);
  const SlotsStep step = take(shape, state, now, cost);
  require(step.state.queued == state.queued);
  if (step.allowed()) {
    require(level(shape, step.state) == left - cost);
    require(cost == 0 || left >= cost);
    return step.state;
  }
  require(step.state == state);
  require((step.check.verdict == Verdict::kNever) == (cost > shape.limit));
  require(step.check.earliest == kForever);
  require(step.check.shortfall == saturate(Wide{cost} - left));
  // So many fewer would do, if so many can be had at all.
  require(left < 0 || take(shape, state, now, left).allowed());
  return state;
}

SlotsState enqueue_once(const SlotsShape& shape, SlotsState state) {
  const SlotsStep step = enqueue(shape, state);
  require(step.state.in_flight == state.in_flight);
  if (step.check.verdict == Verdict::kQueued) {
    require(step.state.queued == state.queued + 1);
    require(step.state.queued <= shape.queue);
    require(dequeue(step.state) == state);
  } else {
    require(step.check.verdict == Verdict::kOverloaded);
    require(step.state == state);
    require(state.queued >= shape.queue);
  }
  return step.state;
}

}  // namespace

void run_slots(Input& input) {
  const Result<SlotsShape> made = any_shape(input);
  if (!made) return;
  SlotsShape shape = *made;
  SlotsState state;
  Timeline time;
  bool was_lowered = false;
  while (!input.empty()) {
    const int call = input.choice(5);
    if (call == 0) {
      const Instant now = time.next(input);
      state = take_once(shape, state, now, input.term());
    } else if (call == 1) {
      state = enqueue_once(shape, state);
    } else if (call == 2) {
      state = dequeue(state);
    } else if (call == 3) {
      const std::int64_t left = level(shape, state);
      const std::int64_t amount = input.term();
      state = give_back(state, amount);
      require(level(shape, state) == std::min(Wide{left} + amount, Wide{shape.limit}));
    } else if (const Result<SlotsShape> other = any_shape(input)) {
      was_lowered = was_lowered || other->limit < shape.limit;
      shape = *other;
    }
    require(state.in_flight >= 0);
    require(state.queued >= 0);
    require(level(shape, state) <= shape.limit);
    if (!was_lowered) require(level(shape, state) >= 0);
    require(is_initial(state) == (state.in_flight == 0 && state.queued == 0));
  }
}

}  // namespace weir::fuzz
