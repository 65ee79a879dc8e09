// One rotation as published: how many ids leave and come, by bounds that are checked first, and
// which ids could come.

#include "weir/system/sampling/published/rotation.h"

#include <algorithm>

namespace weir::system::sampling {
namespace {

// In order, and without what several ranges share.
std::vector<IdRange> merged(std::span<const IdRange> dataset) {
  std::vector<IdRange> ranges(dataset.begin(), dataset.end());
  std::erase_if(ranges, [](const IdRange& range) { return range.end <= range.begin; });
  std::sort(ranges.begin(), ranges.end(),
            [](const IdRange& a, const IdRange& b) { return a.begin < b.begin; });
  std::vector<IdRange> merged;
  for (const IdRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::int64_t size_of(std::span<const IdRange> dataset) {
  std::int64_t size = 0;
  for (const IdRange& range : dataset) size += range.end - range.begin;
  return size;
}

bool holds(std::span<const IdRange> dataset, std::int64_t id) {
  return std::any_of(dataset.begin(), dataset.end(),
                     [&](const IdRange& range) { return range.begin <= id && id < range.end; });
}

}  // namespace

ListChange rotate(std::span<const std::int64_t> list, const RotationSpec& spec) {
  if (spec.rotation_count < 0 || spec.sampling_count < 0) return {};
  const std::vector<IdRange> dataset = merged(spec.dataset);
  const std::int64_t size = size_of(dataset);
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
  const auto taken =
      std::count_if(used.begin(), used.end(), [&](std::int64_t id) { return holds(dataset, id); });
  if (size - taken < added) return {};
  return {static_cast<std::size_t>(std::min(removed, have)), static_cast<std::size_t>(added)};
}

std::vector<std::int64_t> unused_ids(std::span<const std::int64_t> list,
                                     std::span<const IdRange> dataset) {
  std::vector<std::int64_t> used(list.begin(), list.end());
  std::sort(used.begin(), used.end());
  std::vector<std::int64_t> unused;
  for (const IdRange& range : merged(dataset)) {
    for (std::int64_t id = range.begin; id < range.end; ++id) {
      if (!std::binary_search(used.begin(), used.end(), id)) unused.push_back(id);
    }
  }
  return unused;
}

}  // namespace weir::system::sampling
