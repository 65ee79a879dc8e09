// What tests of servers that share limits have in common.

#pragma once

#include <cstddef>
#include <string_view>

namespace weir::server {

constexpr std::string_view kTenADay =
    "limits: [ { name: calls, per: [client], bucket: { rate: 10/24h }, store: redis } ]\n";
constexpr std::string_view kAskOfAcme = "WEIR.ACQUIRE client=acme\r\n";

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

}  // namespace weir::server
