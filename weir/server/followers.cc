#include "weir/server/followers.h"

#include <algorithm>
#include <string>

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
      case Kind::kRound:
        return;
    }
  };
}

void Followers::follow(const std::vector<config::ContractSettings>& contracts, const Log& log) {
  const std::scoped_lock lock(lock_);
  if (has_stopped_) return;
  std::vector<std::shared_ptr<Follower>> next;
  for (const config::ContractSettings& settings : contracts) {
    if (!settings.sync) continue;
    const auto same = std::find_if(followers_.begin(), followers_.end(), [&](const auto& each) {
      return &each->account() == settings.account.get() && each->options() == *settings.sync;
    });
    next.push_back(same != followers_.end()
                       ? *same
                       : std::make_shared<Follower>(settings.account, *settings.sync, clock_,
                                                    log_follower(log)));
  }
  for (const std::shared_ptr<Follower>& former : followers_) {
    const bool goes_on = std::any_of(next.begin(), next.end(), [&](const auto& each) {
      return &each->account() == &former->account();
    });
    if (!goes_on) former->forget();
  }
  followers_ = std::move(next);
}

void Followers::stop() {
  const std::scoped_lock lock(lock_);
  has_stopped_ = true;
  followers_.clear();
}

}  // namespace weir::server
