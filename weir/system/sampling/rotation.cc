#include "weir/system/sampling/rotation.h"

#include <algorithm>

namespace weir::system::sampling {
namespace {

std::int64_t size_of(std::span<const IdRange> dataset) {
  std::int64_t size = 0;
  for (const IdRange& range : dataset) size += std::max<std::int64_t>(0, range.end - range.begin);
  return size;
}

bool holds(std::span<const IdRange> dataset, std::int64_t id) {
  return std::any_of(dataset.begin(), dataset.end(),
                     [&](const IdRange& range) { return range.begin <= id && id < range.end; });
}

}  // namespace

ListChange rotate(std::span<const std::int64_t> list, const RotationSpec& spec) {
  const std::int64_t size = size_of(spec.dataset);
  if (spec.rotation_count < 0) return {};
  if ((spec.sampling_count + spec.rotation_count) * 5 > size * 4) return {};

  const auto have = static_cast<std::int64_t>(list.size());
  std::int64_t removed = spec.rotation_count;
  std::int64_t added = spec.rotation_count;
  if (have < spec.sampling_count) {
    removed = 0;
    added = spec.sampling_count - have;
  } else {
    removed += have - spec.sampling_count;
  }
  std::vector<std::int64_t> used(list.begin(), list.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  const auto taken = std::count_if(used.begin(), used.end(),
                                   [&](std::int64_t id) { return holds(spec.dataset, id); });
  if (size - taken < added) return {};
  return {static_cast<std::size_t>(std::min(removed, have)), static_cast<std::size_t>(added)};
}

std::vector<std::int64_t> unused_ids(std::span<const std::int64_t> list,
                                     std::span<const IdRange> dataset) {
  std::vector<std::int64_t> used(list.begin(), list.end());
  std::sort(used.begin(), used.end());
  std::vector<std::int64_t> unused;
  for (const IdRange& range : dataset) {
    for (std::int64_t id = range.begin; id < range.end; ++id) {
      if (!std::binary_search(used.begin(), used.end(), id)) unused.push_back(id);
    }
  }
  return unused;
}

}  // namespace weir::system::sampling
