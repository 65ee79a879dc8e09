// Judging definitions, in the order and with the names of the published network.
//
// Four passes, each over all buckets before the next begins: a bucket without groups, a
// rate of 0, an operation in two groups of one bucket, rates whose least common multiple
// is too large. The first finding is the answer.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/system/throttle/definitions.h"
#include "weir/system/throttle/finding.h"

namespace weir::system::throttle {

struct Validation {
  Finding finding = Finding::kSuccess;
  std::string message{};  // of a refusal: `FILE:LINE:COLUMN: NAME: ...`

  bool accepted() const noexcept { return is_success(finding); }
};

// What the published network says to an upload.
Validation validate(const Definitions& definitions);

// Also refuses what is probably a mistake (a group without operations, an operation twice
// in one group, more names than a set may have), and a bucket that cannot be built for a
// network of `nodes`. Requires nodes >= 1.
Validation validate_strictly(const Definitions& definitions, std::int32_t nodes);

// Strict reading and judging in one: what a configuration or an upload goes through.
Result<Definitions> load_definitions(std::string_view text, std::string_view file,
                                     std::int32_t nodes);

// The least common multiple of a bucket's rates, folded from the left; none: the product
// of a step, not yet reduced, would not fit in 64 bits. Requires a group.
std::optional<std::int64_t> common_multiple(const BucketDefinition& bucket,
                                            bool drop_negative = false) noexcept;

}  // namespace weir::system::throttle
