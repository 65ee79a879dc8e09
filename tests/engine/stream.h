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
#include <optional>
#include <random>
#include <set>
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

// What is left out of a stream to make it shorter: steps, and limits of its rules.
struct Cuts {
  std::set<std::uint64_t> steps{};
  std::set<std::string> limits{};
};

// Leaves out of a failing stream whatever it fails without.
template <typename Stream>
Cuts shortened(std::uint64_t seed) {
  Cuts cuts;
  bool shorter = true;
  const auto attempt = [&](const Cuts& candidate) {
    if (!Stream{seed, candidate, false}.run()) return;
    cuts = candidate;
    shorter = true;
  };
  while (shorter) {
    shorter = false;
    for (const std::string& limit : Stream::limits()) {
      Cuts candidate = cuts;
      if (candidate.limits.insert(limit).second) attempt(candidate);
    }
    for (std::uint64_t step = Stream::kSteps; step > 0; --step) {
      Cuts candidate = cuts;
      if (candidate.steps.insert(step).second) attempt(candidate);
    }
  }
  return cuts;
}

// Runs WEIR_MODEL_STREAMS streams, or as many as is usual. What the first that fails says, made
// shorter; or nothing.
template <typename Stream>
std::optional<std::string> first_failure(std::uint64_t usual) {
  const std::uint64_t seed = seed_of_test();
  const std::uint64_t streams = number_from_environment("WEIR_MODEL_STREAMS", usual);
  for (std::uint64_t i = 0; i < streams; ++i) {
    if (!Stream{seed + i, {}, false}.run()) continue;
    const Cuts cuts = shortened<Stream>(seed + i);
    return fmt::format(
        "{}\nreproduce with WEIR_SEED={} WEIR_MODEL_STREAMS=1",
        Stream{seed + i, cuts, true}.run().value_or("it no longer fails: not deterministic"),
        seed + i);
  }
  return std::nullopt;
}

}  // namespace weir::engine::naive
