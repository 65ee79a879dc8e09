// What streams of random calls share.
//
// A stream draws everything from a Random made of one seed, says what it does to a Trace, and
// throws where the engine and the naive one part. The failure ends with the line that repeats
// it: `reproduce with WEIR_SEED=8127 WEIR_MODEL_STREAMS=1`.

#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

namespace weir::engine::naive {

class Random {
 public:
  // Two numbers, so that each step of a stream has a generator of its own and
  // leaving one out does not change what the others draw.
  Random(std::uint64_t seed, std::uint64_t step) {
    std::seed_seq mixed{seed & 0xffffffff, seed >> 32, step};
    engine_.seed(mixed);
  }

  // Slightly uneven over huge ranges, the same on every platform.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const std::uint64_t range = static_cast<std::uint64_t>(most - least) + 1;
    return least + static_cast<std::int64_t>(range == 0 ? engine_() : engine_() % range);
  }
  bool chance(int percent) { return between(1, 100) <= percent; }

  template <typename T>
  T pick(std::initializer_list<T> from) {
    return *(from.begin() + between(0, static_cast<std::int64_t>(from.size()) - 1));
  }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

// What a stream throws.
struct Failed {
  std::string message;
};

inline void check(bool condition, const std::string& message) {
  if (!condition) throw Failed{message};
}

// The last steps of a stream, in words. Off while a stream only has to pass.
class Trace {
 public:
  explicit Trace(bool on) : on_(on) {}

  template <typename... Args>
  void operator()(fmt::format_string<Args...> format, Args&&... args) {
    if (!on_) return;
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
    if (lines_.size() > kLinesMax) lines_.pop_front();
  }

  std::string text() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  static constexpr std::size_t kLinesMax = 100;

  const bool on_;
  std::deque<std::string> lines_;
};

// How many streams a test runs: WEIR_MODEL_STREAMS, if that is given.
inline std::uint64_t stream_count(std::uint64_t otherwise) {
  return number_from_environment("WEIR_MODEL_STREAMS", otherwise);
}

}  // namespace weir::engine::naive
