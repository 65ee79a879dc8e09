// Accounts: all contract accounts of a process, by name.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/contract/account.h"

namespace weir::system::contract {

constexpr std::size_t kAccountsMax = 10'000;
constexpr std::size_t kAccountNameBytesMax = 128;

// Which names and user ids are taken: of each there is one.
//
// Thread safety: none.
class AccountNames {
 public:
  // An empty `user_id` is the name. Refused: a name or an id that is taken, empty or too long; one
  // account too many.
  Status add(const std::string& name, const std::string& user_id);
  // As it was added; empty: there is none of that name.
  std::string user_id(std::string_view name) const;
  void remove(std::string_view name);

 private:
  std::map<std::string, std::string, std::less<>> user_ids_;  // by name
  std::set<std::string, std::less<>> taken_ids_;
};

class Accounts {
 public:
  // `user_id` is whose it is in published documents; empty: its name. Refused as AccountNames
  // does.
  Status add(std::shared_ptr<Account> account, const std::string& user_id = {});
  // Whether there was one of that name.
  bool remove(std::string_view name);

  // kNotFound names those there are.
  Result<std::shared_ptr<Account>> find(std::string_view name) const;
  // nullptr: no account has that id.
  std::shared_ptr<Account> of_user(std::string_view user_id) const;
  // As it was added; empty: there is none of that name.
  std::string user_id(std::string_view name) const;
  // In the order of their names.
  std::vector<std::shared_ptr<Account>> all() const;

 private:
  mutable std::shared_mutex lock_;
  AccountNames names_;
  std::map<std::string, std::shared_ptr<Account>, std::less<>> accounts_;
  std::map<std::string, std::shared_ptr<Account>, std::less<>> users_;
};

}  // namespace weir::system::contract
