#include "weir/engine/print.h"

#include <random>

namespace weir::engine {

Secret random_secret() {
  std::random_device device;
  Secret secret;
  for (std::uint64_t& word : secret) word = (std::uint64_t{device()} << 32) | device();
  return secret;
}

}  // namespace weir::engine
