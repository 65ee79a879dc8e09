// Entity scaling: the generic multiplier is raised for operations that create an entity,
// by how many of its kind there are.
//
// Thread safety: immutable once parsed.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {

enum class EntityKind : std::uint8_t {
  kAccount,
  kAirdrop,
  kContractBytecode,
  kContractStorage,
  kFile,
  kNft,
  kNode,
  kSchedule,
  kToken,
  kTokenAssociation,
  kTopic,
  kNone,  // the operation creates none
};

EntityKind entity_kind(std::string_view name) noexcept;  // `TOKEN_ASSOCIATION`

// What an operation creates; a mint creates tokens of kind NFT only if it makes `nfts`.
EntityKind created_by(OperationId operation, std::int32_t nfts) noexcept;

class EntityScales {
 public:
  // 1:1 for everything.
  EntityScales() = default;

  // `DEFAULT(50,3:2),NFT(0,1:1,95,7:2)`: percentages and factors in turn, both rising.
  static Result<EntityScales> parse(std::string_view text);

  // Of the last percentage that `percent_used` reaches; 1:1 before the first.
  ScaleFactor factor(EntityKind kind, std::int32_t percent_used) const noexcept;

 private:
  struct Step {
    std::int32_t percent;
    ScaleFactor factor;
  };
  struct Steps {
    bool is_set = false;
    std::vector<Step> steps{};
  };

  Steps default_;
  std::array<Steps, static_cast<std::size_t>(EntityKind::kNone)> by_kind_;
};

// 100 if there can be none; rounded down.
std::int32_t percent_of(std::int64_t count, std::int64_t maximum) noexcept;

}  // namespace weir::system::throttle
