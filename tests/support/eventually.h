// Waiting for what other threads and processes do.

#pragma once

#include <chrono>
#include <thread>

namespace weir {

// Far longer than anything here takes, even under sanitizers on a busy machine.
constexpr auto kPatience = std::chrono::seconds{60};

// Looks again and again until `holds()`. False: the time is up.
template <typename Condition>
bool eventually(Condition&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

}  // namespace weir
