// What tests of servers that share limits have in common.

#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <thread>

namespace weir::server {

constexpr std::string_view kTenADay =
    "limits: [ { name: calls, per: [client], bucket: { rate: 10/24h }, store: redis } ]\n";

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// Waits until `holds()`, for as long as a slow machine may take.
template <typename Condition>
bool in_time(Condition&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (std::chrono::steady_clock::now() < deadline) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return false;
}

}  // namespace weir::server
