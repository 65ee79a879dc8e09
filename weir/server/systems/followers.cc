#include "weir/server/systems/followers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "weir/base/in_quotes.h"
#include "weir/system/contract/policy.h"

namespace weir::server {

namespace contract = system::contract;

contract::Follower::Listener log_follower(const Log& log) {
  if (!log) return {};
  return [log](const contract::FollowerEvent& event) {
    using Kind = contract::FollowerEvent::Kind;
    const std::string& name = event.account.name();
    switch (event.kind) {
      case Kind::kLost:
        log({LogLevel::kError, "outage", {{"part", "sync " + name}, {"error", event.error}}});
        return;
      case Kind::kFound:
        log({LogLevel::kInfo, "outage-over", {{"part", "sync " + name}}});
        return;
      case Kind::kPolicies: {
        std::string policies;
        for (const contract::Policy& policy : event.account.policies()) {
          if (!policies.empty()) policies += ' ';
          policies += policy_id(policy);
        }
        log({LogLevel::kInfo, "contract", {{"account", name}, {"policies", policies}}});
        return;
      }
      case Kind::kLeftOut: {
        std::string types;
        for (const std::string& type : event.status.left_out) {
          types += (types.empty() ? "" : " ") + in_quotes(type);
        }
        log({LogLevel::kWarning, "contract-left-out", {{"account", name}, {"types", types}}});
        return;
      }
      case Kind::kRound:
        return;
    }
  };
}

std::shared_ptr<contract::Follower> Followers::start(const FollowedAccount& followed,
                                                     const Log& log) const {
  auto tell = [on_fetched = on_fetched_,
               write = log_follower(log)](const contract::FollowerEvent& event) {
    if (write) write(event);
    if (event.kind == contract::FollowerEvent::Kind::kRound && on_fetched) on_fetched();
  };
  try {
    return std::make_shared<Follower>(followed.account, followed.options, clock_, std::move(tell));
  } catch (const std::system_error& error) {
    followed.account->set_followed(std::nullopt);
    if (log) {
      log({LogLevel::kError,
           "outage",
           {{"part", "sync " + followed.account->name()},
            {"error", fmt::format("account {}: no thread to follow its service with: {}; let the "
                                  "process have more threads, and reload",
                                  in_quotes(followed.account->name()), error.what())}}});
    }
    return nullptr;
  }
}

void Followers::follow(const std::vector<FollowedAccount>& accounts, const Log& log) {
  const std::scoped_lock lock(lock_);
  if (has_stopped_) return;
  const auto is_wanted = [&](const Follower& follower) {
    return std::any_of(accounts.begin(), accounts.end(), [&](const FollowedAccount& each) {
      return each.account == follower.account() && each.options == follower.options();
    });
  };
  // Those that end do so before others begin: no follower notes anything about an account that
  // it has left, nor do two follow one.
  for (std::shared_ptr<Follower>& former : followers_) {
    if (is_wanted(*former)) continue;
    const std::shared_ptr<contract::Account> account = former->account();
    former.reset();
    account->set_followed(std::nullopt);
  }
  std::erase(followers_, nullptr);
  for (const FollowedAccount& followed : accounts) {
    const bool goes_on = std::any_of(followers_.begin(), followers_.end(), [&](const auto& each) {
      return each->account() == followed.account;
    });
    if (goes_on) continue;
    if (auto follower = start(followed, log)) followers_.push_back(std::move(follower));
  }
}

void Followers::stop() {
  const std::scoped_lock lock(lock_);
  has_stopped_ = true;
  followers_.clear();
}

}  // namespace weir::server
