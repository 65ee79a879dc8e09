// Kept claims: those of one sheet of the claims, as the state has them.
//
//   claims 1 <shape of the front end> <shape of consensus>
//   <number> <word> <f|c> <seconds> <nanos> [<b|g|y> <bucket> <amount>] ...
//
// A claim is a line. Claims are on sheets so that a flush writes those that have changed and not
// all of them.
//
// Thread safety: plain values; pure functions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/throttle/published/moment.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {

constexpr std::size_t kClaimsOfSheet = 1'024;

struct KeptClaim {
  std::uint64_t number = 0;  // 1 or more, as its word has it
  std::uint64_t word = 0;
  SetRole role = SetRole::kFrontEnd;
  Moment at{};
  std::vector<ThrottleSet::KeptItem> items{};
};

struct ClaimSheet {
  std::uint64_t front_end_shape = 0;
  std::uint64_t consensus_shape = 0;
  std::vector<KeptClaim> claims{};
};

std::string to_text(const ClaimSheet& sheet);
// An error if to_text() would not have written it.
Result<ClaimSheet> parse_claim_sheet(std::string_view text);

}  // namespace weir::system::throttle
