// A contract as a document lists it, with what the document says of it beside its policies.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weir/system/contract/policy.h"

namespace weir::system::contract {

struct Contract {
  std::int64_t id = 0;
  std::string address{};  // `@id`; empty: it has none
  std::string user_id{};
  Resource resource = Resource::kRequests;
  std::vector<Policy> policies{};          // its own; none: the defaults apply
  std::vector<Policy> default_policies{};  // of its type
  std::string notification{};              // `usageNotificationExtra`, JSON; empty: it has none

  const std::vector<Policy>& effective() const noexcept {
    return policies.empty() ? default_policies : policies;
  }
  friend bool operator==(const Contract&, const Contract&) = default;
};

}  // namespace weir::system::contract
