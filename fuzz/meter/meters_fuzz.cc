// Any sequence of operations on any meter: nothing overflows (the sanitizers
// watch), a refusal changes nothing, and a promised instant is kept.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "weir/meter/bucket.h"
#include "weir/meter/log.h"
#include "weir/meter/ticker.h"
#include "weir/meter/window.h"

namespace {

using namespace weir;
using namespace weir::meter;

// Numbers out of the input; zeros when it has run out.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::int64_t number(std::int64_t most) {
    std::uint64_t word = 0;
    const std::size_t taken = left_ < sizeof word ? left_ : sizeof word;
    std::memcpy(&word, data_, taken);
    data_ += taken;
    left_ -= taken;
    return static_cast<std::int64_t>(word % (static_cast<std::uint64_t>(most) + 1));
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename Shape, typename State>
void run(const Shape& shape, State state, Input& input) {
  Instant now{0};
  while (!input.empty()) {
    now.ns = std::min(kInstantNsMax, now.ns + input.number(kTermMax >> input.number(61)));
    const std::int64_t cost = input.number(kTermMax >> input.number(61));
    const auto step = take(shape, state, now, cost);
    if (step.allowed()) {
      state = step.state;
      continue;
    }
    require(step.state == state);
    if (step.check.verdict == Verdict::kDenied && step.check.earliest.ns <= kInstantNsMax) {
      require(step.check.earliest > now);
      require(take(shape, state, step.check.earliest, cost).allowed());
      require(!take(shape, state, Instant{step.check.earliest.ns - 1}, cost).allowed());
    }
  }
}

void run_log(const LogShape& shape, Input& input) {
  std::vector<LogRun> ring(kRunsMax);
  LogState state;
  Instant now{0};
  while (!input.empty()) {
    now.ns = std::min(kInstantNsMax, now.ns + input.number(kTermMax >> input.number(61)));
    const std::int64_t cost = input.number(kTermMax >> input.number(61));
    const Check checked = check(shape, state, ring, now, cost);
    if (checked.allowed()) {
      state = charge(shape, state, ring, now, cost);
      require(used(shape, state, ring, now) <= shape.limit);
    } else if (checked.verdict == Verdict::kDenied && checked.earliest.ns <= kInstantNsMax) {
      require(check(shape, state, ring, checked.earliest, cost).allowed());
      require(!check(shape, state, ring, Instant{checked.earliest.ns - 1}, cost).allowed());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::int64_t kind = input.number(3);
  const std::int64_t a = input.number(kTermMax >> input.number(62));
  const std::int64_t b = input.number(kTermMax >> input.number(62));
  const std::int64_t c = input.number(kTermMax >> input.number(62));
  if (kind == 0) {
    if (const auto shape = make_bucket(a, Duration{b}, c)) run(*shape, BucketState{}, input);
  } else if (kind == 1) {
    if (const auto shape = make_ticker(a, Duration{b}, c, TickerStart::kFull)) {
      run(*shape, full_ticker(*shape, Instant{0}), input);
    }
  } else if (kind == 2) {
    if (const auto shape = make_window(a, Duration{b})) run(*shape, WindowState{}, input);
  } else if (const auto shape = make_log(a, Duration{b})) {
    run_log(*shape, input);
  }
  return 0;
}
