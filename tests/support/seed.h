// Seed of a random test: WEIR_SEED, or any number.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace weir {

inline std::uint64_t seed_of_test() {
  const char* text = std::getenv("WEIR_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

}  // namespace weir
