// Rotation: which ids leave the sampling list, and how many join it.
//
// The oldest ids stand in front and leave there; new ones, drawn by the caller from those
// that are not in the list, join at the end.
//
//   rotate({4, 8, 15, 16}, {.dataset = {{0, 100}}, .sampling_count = 4, .rotation_count = 1});
//   // removed 4, added 1
//
// Thread safety: every function is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::system::sampling {

struct IdRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // not in it
};

struct RotationSpec {
  std::vector<IdRange> dataset{};
  std::int64_t sampling_count = 0;
  std::int64_t rotation_count = 0;
};

struct ListChange {
  std::size_t removed = 0;  // from the front
  std::size_t added = 0;    // at the end

  bool changed() const noexcept { return removed != 0 || added != 0; }
};

// Whether it is time. `now_s` in whole seconds, rounded down.
constexpr bool is_rotation_due(std::int64_t now_s, std::int64_t last_s,
                               std::int64_t interval_s) noexcept {
  return now_s - last_s >= interval_s;
}

// A list that is too short only grows, one that is too long shrinks too. Ids that several
// ranges share are one id each. Nothing changes if a count is negative, if list and rotation take
// more than four fifths of the dataset, or if too few of its ids are unused. Requires sizes and
// counts below 2^40.
ListChange rotate(std::span<const std::int64_t> list, const RotationSpec& spec);

// The ids that may join, each once and in order: those of the dataset that are not in the
// list. As many as the dataset has, so not for one that is beyond memory.
std::vector<std::int64_t> unused_ids(std::span<const std::int64_t> list,
                                     std::span<const IdRange> dataset);

}  // namespace weir::system::sampling
