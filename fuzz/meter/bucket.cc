#include "weir/meter/bucket.h"

#include <limits>

#include "fuzz/meter/meters.h"

namespace weir::fuzz {
namespace {

using namespace weir::meter;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

Result<BucketShape> any_shape(Input& input) {
  const std::int64_t amount = input.term();
  const Duration period{input.term()};
  return make_bucket(amount, period, input.term());
}

bool operator==(const TimedBucket& a, const TimedBucket& b) {
  return a.bucket == b.bucket && a.charged_at == b.charged_at;
}

// What is left after a call at `now` that changed it by `change`. Beyond what 64 bits
// hold a level is cut off.
void require_change(const BucketShape& shape, BucketState before, BucketState after, Instant now,
                    Wide change) {
  const std::int64_t was = level(shape, before, now);
  if (was == kLeast) return;
  const Wide is = std::min(Wide{was} + change, Wide{shape.burst});
  require(level(shape, after, now) == saturate(is));
}

// What holds for any state at any instant.
void require_sane(const BucketShape& shape, BucketState state, Instant now) {
  const std::int64_t left = level(shape, state, now);
  const std::int64_t in_use = used(shape, state, now);
  require(left <= shape.burst);
  require(in_use >= 0);
  if (in_use < std::numeric_limits<std::int64_t>::max()) require(left == shape.burst - in_use);
  const bool is_spent = used_parts(shape, state, now) >= Wide{shape.burst} * shape.den;
  require((percent_used_micro(shape, state, now) >= 100 * kMicro) == is_spent);
  if (is_initial(state, now)) require(left == shape.burst);
  require((solvent_at(shape, state) <= now) == (left >= 0));
  require(level(shape, settled(state, now), now) == left);
}

BucketState take_once(const BucketShape& shape, BucketState state, Timeline& time, Instant now,
                      std::int64_t cost) {
  const BucketStep step = take(shape, state, now, cost);
  if (step.allowed()) {
    require(step.check.earliest == now);
    require_change(shape, state, step.state, now, -Wide{cost});
    if (cost > 0) require(level(shape, step.state, now) >= 0);
  } else {
    require(step.state == state);
    require_refusal(step.check, now, [&](Instant at) { return take(shape, state, at, cost); });
    time.promise(step.check.earliest);
  }
  return step.state;
}

BucketState book_once(const BucketShape& shape, BucketState state, Timeline& time, Instant now,
                      std::int64_t cost) {
  const BucketStep step = book(shape, state, now, cost);
  const Instant start = step.check.earliest;
  if (!step.allowed()) {
    require(step.check.verdict == Verdict::kNever);
    require(step.state == state);
  } else if (start.ns <= kInstantNsMax) {
    require(start >= now);
    require(take(shape, state, start, cost).state == step.state);
    if (start > now) require(!take(shape, state, start - Duration{1}, cost).allowed());
    time.promise(start);
  }
  return step.state;
}

BucketState debit_once(const BucketShape& shape, BucketState state, Timeline& time, Instant now,
                       std::int64_t cost) {
  const BucketStep step = debit(shape, state, now, cost);
  const Instant solvent = step.check.earliest;
  if (!step.allowed()) {
    require(step.state == state);
    return state;
  }
  require_change(shape, state, step.state, now, -Wide{cost});
  require(solvent >= now);
  if (solvent.ns <= kInstantNsMax) {
    require(level(shape, step.state, solvent) >= 0);
    if (solvent > now) require(level(shape, step.state, solvent - Duration{1}) < 0);
    time.promise(solvent);
  }
  return step.state;
}

BucketState reshape_once(const BucketShape& from, const BucketShape& to, BucketState state,
                         Instant now) {
  const BucketState after = reshape(from, to, state, now);
  const std::int64_t units = used(from, state, now);
  if (Wide{units} * to.den / to.num < kTermMax) require(used(to, after, now) == units);
  return after;
}

// The same call of a bucket that knows when it was charged: an earlier instant counts as
// no time passed.
TimedBucket call_timed(int call, const BucketShape& shape, TimedBucket timed, Instant now,
                       std::int64_t cost) {
  const Instant at = later_of(now, timed.charged_at);
  const std::int64_t before = level(shape, timed, now);
  require(before == level(shape, timed.bucket, at));
  if (call == 3) {
    const TimedBucket after = give_back(shape, timed, now, cost);
    require(after.charged_at == timed.charged_at);
    require(level(shape, after, now) >= before);
    return after;
  }
  const Step<TimedBucket> step = call == 0   ? take(shape, timed, now, cost)
                                 : call == 1 ? book(shape, timed, now, cost)
                                             : debit(shape, timed, now, cost);
  require(step.state.charged_at >= timed.charged_at);
  if (!step.allowed()) require(step.state == timed);
  if (call == 0) {
    const Result<Step<TimedBucket>> strictly = take_strictly(shape, timed, now, cost);
    require(strictly.ok() == (now >= timed.charged_at));
    if (strictly) require(strictly->check == step.check && strictly->state == step.state);
  }
  return step.state;
}

}  // namespace

void run_bucket(Input& input) {
  const Result<BucketShape> made = any_shape(input);
  if (!made) return;
  BucketShape shape = *made;
  BucketState state;
  TimedBucket timed;
  Timeline time;
  while (!input.empty()) {
    const int call = input.choice(5);
    const Instant now = time.next(input);
    if (call == 4) {
      const Result<BucketShape> other = any_shape(input);
      if (!other) continue;
      state = reshape_once(shape, *other, state, now);
      timed.bucket = reshape_once(shape, *other, timed.bucket, later_of(now, timed.charged_at));
      shape = *other;
    } else {
      const std::int64_t cost = input.term();
      if (call == 0) state = take_once(shape, state, time, now, cost);
      if (call == 1) state = book_once(shape, state, time, now, cost);
      if (call == 2) state = debit_once(shape, state, time, now, cost);
      if (call == 3) {
        const BucketState after = give_back(shape, state, now, cost);
        require_change(shape, state, after, now, cost);
        state = after;
      }
      timed = call_timed(call, shape, timed, now, cost);
    }
    require_sane(shape, state, now);
    require_sane(shape, timed.bucket, now);
  }
}

}  // namespace weir::fuzz
