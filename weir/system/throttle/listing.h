// Listing: which buckets an operation touches, and how much it takes of each.
//
// There are two families of buckets, normal and high-volume; an operation may be in both.
//
// Thread safety: immutable once built.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weir/system/throttle/operations.h"

namespace weir::system::throttle {

enum class Family : std::uint8_t { kNormal, kHighVolume };

// What one real operation takes of one bucket.
struct Requirement {
  std::uint32_t bucket = 0;  // place in the set
  std::int32_t logical = 0;  // operations
};

class Listing {
 public:
  struct Entry {
    OperationId operation;
    Family family;
    Requirement requirement;
  };

  Listing() = default;
  // Of each operation, requirements keep the order of the entries.
  Listing(std::size_t operations, const std::vector<Entry>& entries) {
    for (const Family family : {Family::kNormal, Family::kHighVolume}) {
      std::vector<Range>& ranges = ranges_of(family);
      ranges.resize(operations);
      for (const Entry& entry : entries) ranges[entry.operation].size += entry.family == family;
      std::uint32_t first = static_cast<std::uint32_t>(requirements_.size());
      for (Range& range : ranges) {
        range.first = first;
        first += range.size;
        range.size = 0;
      }
      requirements_.resize(first);
      for (const Entry& entry : entries) {
        if (entry.family != family) continue;
        Range& range = ranges[entry.operation];
        requirements_[range.first + range.size++] = entry.requirement;
      }
    }
  }

  // Empty: no bucket of the family lists it.
  std::span<const Requirement> of(OperationId operation, Family family) const noexcept {
    const std::vector<Range>& ranges = family == Family::kNormal ? normal_ : high_volume_;
    if (operation >= ranges.size()) return {};
    return std::span(requirements_).subspan(ranges[operation].first, ranges[operation].size);
  }

  // High-volume requirements if they are wanted and there are any, else the normal ones.
  std::span<const Requirement> choose(OperationId operation, Family wanted) const noexcept {
    const std::span<const Requirement> found = of(operation, wanted);
    return found.empty() ? of(operation, Family::kNormal) : found;
  }

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t size = 0;
  };

  std::vector<Range>& ranges_of(Family family) noexcept {
    return family == Family::kNormal ? normal_ : high_volume_;
  }

  std::vector<Requirement> requirements_;
  std::vector<Range> normal_, high_volume_;
};

}  // namespace weir::system::throttle
