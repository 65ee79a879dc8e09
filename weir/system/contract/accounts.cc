// Two maps under one lock, by name and by user id: an account is in both, or in neither.

#include "weir/system/contract/accounts.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::contract {
namespace {

constexpr std::size_t kNamesShown = 8;

}  // namespace

Status AccountNames::add(const std::string& name, const std::string& given_id) {
  const std::string& user_id = given_id.empty() ? name : given_id;
  for (const std::string& text : {name, user_id}) {
    if (!text.empty() && text.size() <= kAccountNameBytesMax) continue;
    return bad_argument(fmt::format(
        "account {}: its {} has {} bytes, but it must have between 1 and {}; write "
        "another one",
        in_quotes(name), text == name ? "name" : "user id", text.size(), kAccountNameBytesMax));
  }
  if (user_ids_.size() >= kAccountsMax) {
    return Error{ErrorCode::kExhausted,
                 fmt::format("account {}: there are {} accounts already, as many as there may be; "
                             "remove some",
                             in_quotes(name), kAccountsMax)};
  }
  if (user_ids_.contains(name)) {
    return bad_argument(
        fmt::format("account {}: the name is taken; write another one", in_quotes(name)));
  }
  if (!taken_ids_.insert(user_id).second) {
    return bad_argument(
        fmt::format("account {}: the user id {} is that of another account; write another one",
                    in_quotes(name), in_quotes(user_id)));
  }
  user_ids_.emplace(name, user_id);
  return Done{};
}

std::string AccountNames::user_id(std::string_view name) const {
  const auto found = user_ids_.find(name);
  return found == user_ids_.end() ? std::string() : found->second;
}

void AccountNames::remove(std::string_view name) {
  const auto found = user_ids_.find(name);
  if (found == user_ids_.end()) return;
  taken_ids_.erase(found->second);
  user_ids_.erase(found);
}

Status Accounts::add(std::shared_ptr<Account> account, const std::string& user_id) {
  const std::string& name = account->name();
  const std::scoped_lock lock(lock_);
  if (Status status = names_.add(name, user_id); !status) return status;
  users_.emplace(names_.user_id(name), account);
  accounts_.emplace(name, std::move(account));
  return Done{};
}

bool Accounts::remove(std::string_view name) {
  const std::scoped_lock lock(lock_);
  const auto found = accounts_.find(name);
  if (found == accounts_.end()) return false;
  users_.erase(names_.user_id(name));
  names_.remove(name);
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

std::shared_ptr<Account> Accounts::of_user(std::string_view user_id) const {
  const std::shared_lock lock(lock_);
  const auto found = users_.find(user_id);
  return found == users_.end() ? nullptr : found->second;
}

std::string Accounts::user_id(std::string_view name) const {
  const std::shared_lock lock(lock_);
  return names_.user_id(name);
}

std::vector<std::shared_ptr<Account>> Accounts::all() const {
  const std::shared_lock lock(lock_);
  std::vector<std::shared_ptr<Account>> accounts;
  for (const auto& [name, account] : accounts_) accounts.push_back(account);
  return accounts;
}

}  // namespace weir::system::contract
