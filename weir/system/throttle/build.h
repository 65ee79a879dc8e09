// Building buckets for a network of N nodes.
//
// With L the least common multiple of a bucket's rates, a real operation of a group is
// L / rate logical operations, and a node's share of the bucket leaks L / N thousandths of
// a logical operation a second. The burst is lengthened until the dearest operation fits.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/system/throttle/definitions.h"
#include "weir/system/throttle/finding.h"
#include "weir/system/throttle/published/operation_bucket.h"

namespace weir::system::throttle {

// What one real operation takes of a bucket.
struct Need {
  std::string operation;
  std::int32_t logical = 0;  // operations
};

struct BuiltBucket {
  std::string name{};
  bool high_volume = false;
  Finding finding = Finding::kSuccess;  // otherwise the bucket is left out
  std::int64_t burst_ms = 0;            // as lengthened
  std::optional<OperationBucket> bucket{};
  std::vector<Need> needs{};  // in the file's order, each operation once

  bool is_live() const noexcept { return bucket.has_value(); }
};

// Requires nodes >= 1.
BuiltBucket build(const BucketDefinition& definition, std::int32_t nodes);

// Every bucket on its own, in the file's order.
std::vector<BuiltBucket> build(const Definitions& definitions, std::int32_t nodes);

// The text in which the published software logs what it has built: what each operation
// may do alone, a line each.
std::string resolved_text(std::string_view type, std::int32_t nodes,
                          const std::vector<BuiltBucket>& buckets);

}  // namespace weir::system::throttle
