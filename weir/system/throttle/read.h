// Reading a throttles.json.
//
// Strict, for a file that an operator wrote: an operation may have any name, and what is
// probably a mistake, such as a number in quotes, is one. Published, for conformance:
// accepts what the published reader accepts (numbers in quotes, fractions cut off, empty
// lists, an operation twice in one group, text after the end) and knows only the
// network's operations.
//
// An error is one line, `FILE:LINE:COLUMN: NAME: ...`, with a name from finding.h.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/result.h"
#include "weir/system/throttle/definitions.h"

namespace weir::system::throttle {

enum class Reader : std::uint8_t { kStrict, kPublished };

Result<Definitions> read_definitions(std::string_view text, std::string_view file,
                                     Reader reader = Reader::kStrict);

}  // namespace weir::system::throttle
