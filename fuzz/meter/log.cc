#include "weir/meter/log.h"

#include <vector>

#include "fuzz/meter/meters.h"

namespace weir::fuzz {
namespace {

using namespace weir::meter;

Result<LogShape> any_shape(Input& input) {
  const std::int64_t limit = input.term();
  return make_log(limit, Duration{input.term()});
}

// A log and a ring that is no larger than it must be, so that the address sanitizer sees
// every step beyond it.
class Log {
 public:
  explicit Log(const LogShape& shape) : shape_(shape) {}

  const LogShape& shape() const { return shape_; }
  void reshape(const LogShape& shape) { shape_ = shape; }

  std::int64_t used_at(Instant now) const { return used(shape_, state_, ring_, now); }
  Check check_at(Instant now, std::int64_t cost) const {
    return check(shape_, state_, ring_, now, cost);
  }
  Instant free_at(Instant now) const { return next_free(shape_, state_, ring_, now); }

  // Whether or not it fits. The count never passes 2^62.
  void charge_at(Instant now, std::int64_t cost) {
    const Wide sum = Wide{used_at(now)} + cost;
    make_room(now);
    state_ = charge(shape_, state_, ring_, now, cost);
    require(used_at(now) == std::min(sum, Wide{kTermMax}));
    // It counts during the whole window that begins now.
    const Instant last = now + Duration{shape_.window_ns - 1};
    if (last.ns <= kInstantNsMax && sum <= kTermMax) require(used_at(last) >= cost);
  }

  // Under a stamp of the past or the future; a log may be filled in any order.
  void remember_at(Instant now, Instant at, std::int64_t cost) {
    make_room(now);
    const Wide sum = Wide{used_at(now)} + cost;
    state_ = remember(forget(shape_, state_, ring_, now), ring_, at, cost);
    require(state_.held == std::min(sum, Wide{kTermMax}));
  }

  void give_back_at(Instant now, Instant stamped, std::int64_t amount) {
    const std::int64_t before = used_at(now);
    state_ = give_back(state_, ring_, stamped, amount);
    require(used_at(now) <= before);
    require(Wide{used_at(now)} >= Wide{before} - amount);
  }

  void forget_at(Instant now) {
    const std::int64_t before = used_at(now);
    state_ = forget(shape_, state_, ring_, now);
    require(state_.held == before);
    require(used_at(now) == before);
  }

  // Into a ring with `more` places than runs.
  void move(std::uint32_t more) {
    std::vector<LogRun> ring(std::min(state_.size + more, kRunsMax));
    state_ = move_runs(state_, ring_, ring);
    ring_ = std::move(ring);
  }

  Instant newest_stamp() const { return state_.size == 0 ? Instant{} : newest(state_, ring_); }

  // What holds for any state at any instant.
  void require_sane(Instant now) const {
    const std::int64_t in_use = used_at(now);
    require(state_.size <= kRunsMax);
    require(state_.size <= ring_.size());
    require(state_.held <= kTermMax);
    require(in_use >= 0 && in_use <= state_.held);
    require(level(shape_, state_, ring_, now) == shape_.limit - in_use);
    require(is_initial(shape_, state_, ring_, now) == (in_use == 0));
    const Instant stamped = stamp(shape_, now);
    require(stamped >= now && stamped.ns - now.ns < shape_.grain_ns);
    require(stamped.ns % shape_.grain_ns == 0);
    const Instant free = free_at(now);
    require((free == now) == (in_use < shape_.limit));
    if (free == now || free.ns > kInstantNsMax) return;
    require(used_at(free) < shape_.limit);
    require(used_at(free - Duration{1}) >= shape_.limit);
  }

 private:
  void make_room(Instant now) {
    const std::uint32_t needed = runs_needed(shape_, state_, ring_, now);
    require(needed >= 1 && needed <= kRunsMax);
    if (needed <= ring_.size()) return;
    state_ = forget(shape_, state_, ring_, now);
    move(needed - state_.size);
  }

  LogShape shape_;
  LogState state_;
  std::vector<LogRun> ring_;
};

void take_once(Log& log, Timeline& time, Instant now, std::int64_t cost) {
  const Check checked = log.check_at(now, cost);
  if (checked.allowed()) {
    log.charge_at(now, cost);
    require(cost == 0 || log.used_at(now) <= log.shape().limit);
    return;
  }
  require_refusal(checked, now, [&](Instant at) { return log.check_at(at, cost); });
  time.promise(checked.earliest);
}

}  // namespace

void run_log(Input& input) {
  const Result<LogShape> made = any_shape(input);
  if (!made) return;
  Log log(*made);
  Instant charged;
  Timeline time;
  while (!input.empty()) {
    const int call = input.choice(8);
    const Instant now = time.next(input);
    if (call == 0) {
      take_once(log, time, now, input.term());
      charged = stamp(log.shape(), now);
    } else if (call == 1) {
      log.charge_at(now, input.term());
      charged = stamp(log.shape(), now);
    } else if (call == 2) {
      log.give_back_at(now, charged, input.term());
    } else if (call == 3) {
      log.give_back_at(now, log.newest_stamp(), input.term());
    } else if (call == 4) {
      log.forget_at(now);
    } else if (call == 5) {
      const Instant at{std::min(input.term(), kInstantNsMax)};
      log.remember_at(now, at, input.term());
      charged = at;
    } else if (call == 6) {
      if (const Result<LogShape> other = any_shape(input)) log.reshape(*other);
    } else {
      // Many at once: no input is long enough to fill a log one by one.
      const Duration apart{input.term()};
      const int count = 8 * input.byte();
      Instant at = now;
      for (int i = 0; i < count && at.ns <= kInstantNsMax; ++i, at = at + apart) {
        take_once(log, time, at, 1);
      }
      log.move(input.byte());
    }
    log.require_sane(now);
  }
}

}  // namespace weir::fuzz
