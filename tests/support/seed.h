// Numbers that a random test takes from its environment: WEIR_SEED repeats a failure.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace weir {

inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text, &end, 10);
  if (*end == '\0') return number;
  std::cerr << name << " is '" << text << "', but it must be a whole number; write " << name
            << "=8127\n";
  std::exit(2);
}

// WEIR_SEED, or any number.
inline std::uint64_t seed_of_test() {
  return number_from_environment("WEIR_SEED", std::random_device{}());
}

}  // namespace weir
