// Accounts: all contract accounts of a process, by name.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/contract/account.h"

namespace weir::system::contract {

constexpr std::size_t kAccountsMax = 10'000;
constexpr std::size_t kAccountNameBytesMax = 128;

class Accounts {
 public:
  // Refused: a name that is taken, empty or too long; one account too many.
  Status add(std::shared_ptr<Account> account);
  // False: there is none of that name.
  bool remove(std::string_view name);

  // kNotFound names those there are.
  Result<std::shared_ptr<Account>> find(std::string_view name) const;
  // In the order of their names.
  std::vector<std::shared_ptr<Account>> all() const;

 private:
  mutable std::shared_mutex lock_;
  std::map<std::string, std::shared_ptr<Account>, std::less<>> accounts_;
};

}  // namespace weir::system::contract
