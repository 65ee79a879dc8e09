#include "weir/system/contract/accounts.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::contract {
namespace {

constexpr std::size_t kNamesShown = 8;

}  // namespace

Status Accounts::add(std::shared_ptr<Account> account) {
  const std::string& name = account->name();
  if (name.empty() || name.size() > kAccountNameBytesMax) {
    return bad_argument(
        fmt::format("account {}: the name has {} bytes, but it must have between 1 and {}; write "
                    "another one",
                    in_quotes(name), name.size(), kAccountNameBytesMax));
  }
  const std::scoped_lock lock(lock_);
  if (accounts_.size() >= kAccountsMax) {
    return Error{ErrorCode::kExhausted,
                 fmt::format("account {}: there are {} accounts already, as many as there may be; "
                             "remove some",
                             in_quotes(name), kAccountsMax)};
  }
  if (!accounts_.emplace(name, account).second) {
    return bad_argument(
        fmt::format("account {}: the name is taken; write another one", in_quotes(name)));
  }
  return Done{};
}

bool Accounts::remove(std::string_view name) {
  const std::scoped_lock lock(lock_);
  const auto found = accounts_.find(name);
  if (found == accounts_.end()) return false;
  accounts_.erase(found);
  return true;
}

Result<std::shared_ptr<Account>> Accounts::find(std::string_view name) const {
  const std::shared_lock lock(lock_);
  const auto found = accounts_.find(name);
  if (found != accounts_.end()) return found->second;
  std::string known;
  std::size_t shown = 0;
  for (const auto& [other, account] : accounts_) {
    if (shown++ == kNamesShown) break;
    known += (known.empty() ? "" : ", ") + in_quotes(other);
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("account {} is unknown; known are {}{}; correct the name",
                           in_quotes(name), known.empty() ? "none" : known,
                           accounts_.size() > kNamesShown ? " and others" : "")};
}

std::vector<std::shared_ptr<Account>> Accounts::all() const {
  const std::shared_lock lock(lock_);
  std::vector<std::shared_ptr<Account>> accounts;
  for (const auto& [name, account] : accounts_) accounts.push_back(account);
  return accounts;
}

}  // namespace weir::system::contract
