#include "weir/system/pool/availability.h"

#include <algorithm>
#include <cmath>

#include "weir/system/pool/type_slots.h"

namespace weir::system::pool {

std::optional<std::int64_t> memory_slots(std::span<const JobType> types,
                                         std::span<const double> ratios, std::int64_t total_kb) {
  std::optional<std::int64_t> sum;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].memory_kb == 0) continue;
    sum = sum.value_or(0) + slots_of(total_kb, ratios[i], types[i].memory_kb);
  }
  return sum;
}

std::int64_t available_slots(std::span<const ModelAvailability> models,
                             std::optional<std::int64_t> in_memory) {
  std::int64_t total = 0;
  for (const ModelAvailability& model : models) total += model.total_slots;
  double scale = 1;
  if (in_memory && total > 0) {
    scale = static_cast<double>(std::min(total, *in_memory)) / static_cast<double>(total);
  }
  std::int64_t sum = 0;
  std::int64_t least_sum = 0;
  for (const ModelAvailability& model : models) {
    std::int64_t slots = slots_of(model.total_slots, scale, 1);
    if (model.bounds.most) slots = std::min(slots, *model.bounds.most);
    slots = std::max(slots, model.bounds.least);
    sum += slots;
    least_sum += model.bounds.least;
  }
  return sum == 0 ? least_sum : sum;
}

}  // namespace weir::system::pool
