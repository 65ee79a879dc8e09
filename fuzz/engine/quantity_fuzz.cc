// Durations and amounts: what is read can be written and is read back the same.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weir/engine/quantity.h"

using weir::engine::amount_text;
using weir::engine::duration_text;
using weir::engine::parse_amount;
using weir::engine::parse_duration;
using weir::engine::parse_rate;
using weir::engine::UnitScale;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto duration = parse_duration("it", text);
  if (duration) {
    const auto again = parse_duration("it", duration_text(*duration));
    if (!again || *again != *duration || duration->count() < 1) std::abort();
  }
  for (const UnitScale scale : {UnitScale::kWhole, UnitScale::kMicro}) {
    const auto amount = parse_amount("it", text, scale);
    if (amount) {
      const auto again = parse_amount("it", amount_text(*amount, scale), scale);
      if (!again || *again != *amount || *amount < 0) std::abort();
    }
    const auto rate = parse_rate("it", text, scale);
    if (rate && (rate->amount < 1 || rate->period.count() < 1)) std::abort();
  }
  return 0;
}
