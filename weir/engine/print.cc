#include "weir/engine/print.h"

#include <random>

namespace weir::engine {

Print with_blocks(const Secret& secret, Print print, std::string_view value) noexcept {
  using internal::load64;
  for (std::size_t at = 0; at + 16 < value.size(); at += 16) {
    print = internal::mix(secret, print, load64(&value[at]), load64(&value[at + 8]));
  }
  return print;
}

Secret random_secret() {
  std::random_device device;
  Secret secret;
  for (std::uint64_t& word : secret) word = (std::uint64_t{device()} << 32) | device();
  return secret;
}

}  // namespace weir::engine
