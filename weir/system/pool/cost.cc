#include "weir/system/pool/cost.h"

#include <fmt/format.h>

namespace weir::system::pool {

Status validate_used(const Used& used) {
  for (const std::int64_t tokens : {used.input_tokens, used.output_tokens, used.cached_tokens}) {
    if (tokens >= 0 && tokens <= kAmountMax) continue;
    return bad_argument(
        fmt::format("usage is {} input, {} output and {} cached tokens, but each must be 0 to {}",
                    used.input_tokens, used.output_tokens, used.cached_tokens, kAmountMax));
  }
  return validate_amounts("usage", used.amounts());
}

}  // namespace weir::system::pool
