// What the runs of the five meters share: numbers out of the fuzzer's bytes,
// instants that go back and forth, and a way to stop.
//
// A run reads a shape, then calls until the input is empty, each a byte that says
// which, an instant and a term. After every call it requires what the headers of
// weir/meter promise whatever was called before.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "weir/base/integer.h"
#include "weir/base/time.h"
#include "weir/meter/step.h"

namespace weir::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }

  // 0 when the input has run out, here and below.
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    left_ -= 1;
    return *data_++;
  }

  // Below `count`.
  int choice(int count) { return byte() % count; }

  // Between 0 and 2^62, of any length: a byte says how many bits, and as many bytes
  // as they need follow, lowest first.
  std::int64_t term() {
    const int bits = choice(63);
    std::uint64_t word = 0;
    for (int i = 0; i < bits; i += 8) word |= std::uint64_t{byte()} << i;
    return static_cast<std::int64_t>(word % ((std::uint64_t{1} << bits) + 1));
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

inline void require(bool condition, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (condition) return;
  std::fprintf(stderr, "%s:%d: does not hold\n", file, line);
  std::abort();
}

// Where the next call happens: anywhere, or where it may matter.
class Timeline {
 public:
  Instant next(Input& input) {
    const int place = input.choice(6);
    if (place == 1) now_ = now_ + Duration{input.term()};
    if (place == 2) now_ = now_ - Duration{input.term()};
    if (place == 3) now_ = promise_;
    if (place == 4) now_ = promise_ - Duration{1};
    if (place == 5) now_ = Instant{input.term()};
    now_.ns = std::clamp<std::int64_t>(now_.ns, 0, kInstantNsMax);
    latest_ = later_of(latest_, now_);
    return now_;
  }

  // An instant that a meter named.
  void promise(Instant at) { promise_ = at; }

  // Of all that there have been.
  Instant latest() const { return latest_; }

 private:
  Instant now_{};
  Instant promise_{};
  Instant latest_{};
};

// What a refusal says at `now`, where `take_at(instant)` asks for the same at
// another instant.
template <typename TakeAt>
void require_refusal(const meter::Check& check, Instant now, const TakeAt& take_at) {
  require(check.shortfall >= 1);
  require(check.earliest > now);
  if (check.verdict == Verdict::kNever) require(check.earliest == kForever);
  if (check.earliest.ns > kInstantNsMax) return;
  require(take_at(check.earliest).allowed());
  require(!take_at(check.earliest - Duration{1}).allowed());
}

void run_bucket(Input& input);
void run_ticker(Input& input);
void run_window(Input& input);
void run_log(Input& input);
void run_slots(Input& input);

}  // namespace weir::fuzz
