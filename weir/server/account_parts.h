// Account parts: contract accounts as parts of the state that outlives the process.
//
// Thread safety: the store's; accounts may be used and exchanged meanwhile.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/store/sqlite/parts.h"
#include "weir/system/contract/accounts.h"

namespace weir::server {

class AccountParts final : public store::sqlite::Parts {
 public:
  // What `in_force` returns may be nullptr: there are no accounts.
  using InForce = std::function<std::shared_ptr<const system::contract::Accounts>()>;
  explicit AccountParts(InForce in_force) : in_force_(std::move(in_force)) {}

  std::vector<store::sqlite::Part> changed(Instant now) override;
  void mark_changed(const std::vector<store::sqlite::Part>& parts) override;
  Status restore(std::string_view name, store::sqlite::Bytes bytes, Instant now) override;

 private:
  // What was written of an account.
  struct Written {
    std::weak_ptr<system::contract::Account> account{};
    std::uint64_t changes = 0;
  };

  InForce in_force_;
  std::map<std::string, Written, std::less<>> written_;  // by the name of the part
};

}  // namespace weir::server
