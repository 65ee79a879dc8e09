// The contract accounts of a server: their values and reservations, and the services they follow.
//
// 1. What is in force changes by change() only, under lock_.
// 2. An account that the next configuration still names is kept, with its gate: values and
//    reservations go on. Its role and rule cannot change meanwhile.
// 3. Each account is a part of the state.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "weir/base/assert.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/server/systems.h"
#include "weir/server/systems/followers.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/contract/gate.h"
#include "weir/system/contract/usage.h"
#include "weir/wire/http/contract_routes.h"

namespace weir::server {
namespace {

namespace contract = system::contract;
using contract::Account;
using contract::Accounts;
using store::sqlite::Bytes;
using store::sqlite::Part;

constexpr std::string_view kAccountPrefix = "contract/";
constexpr Duration kLookAtUsesEvery = std::chrono::seconds{10};
// Full since ever: the first request comes later than that.
constexpr Instant kSinceEver{0};

constexpr MetricRow kContractMetrics[] = {
    {"weir_contract_left", "gauge", "account, policy",
     "What a policy of an account has left, in its units; negative in debt."},
    {"weir_contract_capacity", "gauge", "account, policy",
     "What that policy holds, in the same units."},
    {"weir_contract_outstanding", "gauge", "account", "Reservations that have not ended."},
    {"weir_contract_granted_total", "counter", "account",
     "Reservations and consumptions that were granted over the routes of the account."},
    {"weir_contract_refused_total", "counter", "account",
     "Those that were refused there: denied, never or 429."},
    {"weir_contract_refusals_met_total", "counter", "account",
     "Refusals by the service that workers reported."},
    {"weir_contract_overage_clipped_total", "counter", "account",
     "Commits that were not charged in full, because a policy would have owed more than ten times "
     "its capacity."},
    {"weir_contract_used_up_seconds", "gauge", "account, policy",
     "When a policy of an hour or more is used up at the pace of the last hour; +Inf: not, nobody "
     "knows yet, or it is shorter."},
    {"weir_sync_age_seconds", "gauge", "account, of",
     "Age of what was last fetched from the service, contract or counts; +Inf: never."},
    {"weir_sync_fetches_total", "counter", "account, result",
     "Fetches from the service: done or failed."},
    {"weir_sync_failing", "gauge", "account",
     "Whether something could not be fetched the last time: 1 or 0."},
    {"weir_sync_left_out", "gauge", "account",
     "Types of contracts that the service names and that are not known here."},
};

using NamedView = std::pair<std::string, system::contract::AccountView>;

// Of accounts that follow a service.
void write_sync(MetricsText& out, std::vector<NamedView> all, Instant now) {
  std::erase_if(all, [](const NamedView& each) { return !each.second.followed; });
  if (all.empty()) return;
  out.begin("weir_sync_age_seconds");
  for (const auto& [name, view] : all) {
    const auto write = [&, &account = name](std::string_view of, std::optional<Instant> at) {
      out.seconds("account", account, "of", of,
                  at ? std::optional(std::max(Duration{0}, now - *at)) : std::nullopt);
    };
    write("contract", view.followed->contract_at);
    write("counts", view.followed->counts_at);
  }
  out.begin("weir_sync_fetches_total");
  for (const auto& [name, view] : all) {
    const system::contract::Followed& followed = *view.followed;
    out.value("account", name, "result", "done", followed.fetches - followed.failures);
    out.value("account", name, "result", "failed", followed.failures);
  }
  out.begin("weir_sync_failing");
  for (const auto& [name, view] : all) {
    out.value("account", name, view.followed->error.empty() ? 0 : 1);
  }
  out.begin("weir_sync_left_out");
  for (const auto& [name, view] : all) out.value("account", name, view.followed->left_out.size());
}

void write_contracts(MetricsText& out, const system::contract::Accounts& accounts, Instant now) {
  using system::contract::AccountView;
  std::vector<NamedView> all;
  for (const auto& account : accounts.all()) all.emplace_back(account->name(), account->view(now));
  out.begin("weir_contract_left");
  for (const auto& [name, view] : all) {
    for (const auto& row : view.policies) {
      out.micro_value("account", name, "policy", policy_id(row.policy), row.left_micro);
    }
  }
  out.begin("weir_contract_capacity");
  for (const auto& [name, view] : all) {
    for (const auto& row : view.policies) {
      out.value("account", name, "policy", policy_id(row.policy),
                static_cast<std::uint64_t>(row.policy.capacity));
    }
  }
  const auto write = [&, &rows = all](std::string_view metric, auto member) {
    out.begin(metric);
    for (const auto& [name, view] : rows) out.value("account", name, view.*member);
  };
  write("weir_contract_outstanding", &AccountView::outstanding);
  write("weir_contract_granted_total", &AccountView::granted);
  write("weir_contract_refused_total", &AccountView::refused);
  write("weir_contract_refusals_met_total", &AccountView::refusals_met);
  write("weir_contract_overage_clipped_total", &AccountView::overages_clipped);
  write_sync(out, all, now);
}

struct AccountInForce {
  config::ContractSettings settings{};
  std::shared_ptr<Account> account{};
  std::shared_ptr<engine::Gate> gate{};
};
struct ContractsInForce {
  std::vector<AccountInForce> rows{};
  std::shared_ptr<const Accounts> accounts{};  // of these; nullptr: there are none

  const AccountInForce* find(std::string_view name) const {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const AccountInForce& row) {
      return row.settings.name == name;
    });
    return found == rows.end() ? nullptr : &*found;
  }
};

class ContractSystem final : public System, private store::sqlite::Parts {
 public:
  explicit ContractSystem(const SystemGround& ground)
      : log_(ground.log), followers_(ground.clock, ground.try_waiters) {}

  std::string_view name() const noexcept override { return "contracts"; }

  Status check(const config::Config& next) override {
    next_ = {};
    ContractsInForce made;
    auto accounts = std::make_shared<Accounts>();
    for (const config::ContractSettings& settings : next.contracts) {
      Result<AccountInForce> row = prepared(settings, next.path);
      if (!row) return std::move(row).error();
      if (Status status = accounts->add(row->account, settings.user_id); !status) return status;
      made.rows.push_back(std::move(*row));
    }
    if (!made.rows.empty()) made.accounts = std::move(accounts);
    next_ = std::move(made);
    return Done{};
  }

  void add_gates(engine::Gates& gates) const override {
    for (const AccountInForce& row : next_.rows) {
      gates.emplace(config::contract_gate(row.settings.name), row.gate);
    }
  }

  void change(Instant now) noexcept override {
    for (const AccountInForce& row : next_.rows) {
      const AccountInForce* const old = in_force_.find(row.settings.name);
      if (old == nullptr) continue;
      // check() has judged both.
      const bool takes_options = row.account->change_options(row.settings.options).ok();
      WEIR_ASSERT(takes_options);
      if (old->settings.given != row.settings.given) row.account->set_given(row.settings.given);
      // Policies that the file has as before may have been changed by a service since.
      if (old->settings.policies == row.settings.policies) continue;
      const bool takes_policies = row.account->change(row.settings.policies, now).ok();
      WEIR_ASSERT(takes_policies);
    }
    {
      const std::scoped_lock lock(lock_);
      in_force_ = std::exchange(next_, {});
    }
    if (has_started_) follow();
  }

  void drop() noexcept override { next_ = {}; }

  Status start() override {
    has_started_ = true;
    follow();
    return Done{};
  }
  void rest() override { followers_.stop(); }
  // Says which commits were clipped, and which thresholds of use were reached, every
  // kLookAtUsesEvery at most.
  void tick(Instant now) override {
    if (now < look_at_) return;
    look_at_ = now + kLookAtUsesEvery;
    const auto accounts = this->accounts();
    std::map<std::string, Watched> watched;  // without accounts that are gone
    std::map<std::string, std::vector<contract::PolicyUsage>> usages;
    if (accounts != nullptr) {
      for (const auto& account : accounts->all()) {
        Watched& of = watched[account->name()];
        of = std::move(watched_[account->name()]);
        usages[account->name()] = look_at(*account, of, now);
      }
    }
    watched_ = std::move(watched);
    const std::scoped_lock lock(lock_);
    usages_ = std::move(usages);
  }

  std::span<const MetricRow> metric_rows() const noexcept override { return kContractMetrics; }
  void write_metrics(MetricsText& out, Instant now) const override {
    const auto accounts = this->accounts();
    if (accounts == nullptr) return;
    write_contracts(out, *accounts, now);
    out.begin("weir_contract_used_up_seconds");
    const std::scoped_lock lock(lock_);
    for (const auto& account : accounts->all()) {
      const auto known = usages_.find(account->name());
      for (const contract::Policy& policy : account->policies()) {
        std::optional<Duration> in;
        if (known != usages_.end()) {
          for (const contract::PolicyUsage& usage : known->second) {
            if (usage.policy == policy) in = usage.used_up_in;
          }
        }
        out.seconds("account", account->name(), "policy", policy_id(policy), in);
      }
    }
  }
  store::sqlite::Parts* parts() noexcept override { return this; }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }

 private:
  // The account that goes on, or a new one. Fails if it cannot be what `settings` say.
  Result<AccountInForce> prepared(const config::ContractSettings& settings,
                                  const std::string& path) const {
    // Only the thread that checks changes what is in force, so it may be read without the lock.
    const AccountInForce* const old = in_force_.find(settings.name);
    if (old == nullptr) {
      auto made = Account::create(settings.name, settings.policies, settings.options, kSinceEver);
      if (!made) return std::move(made).error();
      (*made)->set_given(settings.given);
      auto gate = std::make_shared<contract::AccountGate>(*made);
      return AccountInForce{settings, std::move(*made), std::move(gate)};
    }
    const contract::AccountOptions& before = old->settings.options;
    if (before.role != settings.options.role || before.rule != settings.options.rule) {
      return bad_argument(
          fmt::format("{}: contract {}: its role or rule is another one, which cannot change while "
                      "it has reservations and values; leave them, or restart",
                      path, in_quotes(settings.name)));
    }
    if (Status status = Account::check(settings.name, settings.policies, settings.options);
        !status) {
      return std::move(status).error();
    }
    return AccountInForce{settings, old->account, old->gate};
  }

  // Waits for those that end, so it is called without the lock that requests take.
  void follow() {
    std::vector<FollowedAccount> followed;
    for (const AccountInForce& row : in_force_.rows) {
      if (row.settings.sync) followed.push_back({row.account, *row.settings.sync});
    }
    followers_.follow(followed, log_);
  }

  struct Watched {
    contract::UsageWatch watch{};
    std::uint64_t clipped = 0;  // as last told
  };

  std::vector<contract::PolicyUsage> look_at(Account& account, Watched& watched,
                                             Instant now) const {
    const contract::AccountView view = account.view(now);
    std::vector<contract::PolicyUsage> usages = watched.watch.look(view, now);
    const std::uint64_t clipped =
        view.overages_clipped - std::min(view.overages_clipped, watched.clipped);
    watched.clipped = view.overages_clipped;
    if (!log_) return usages;
    if (clipped > 0) {
      log_({LogLevel::kWarning,
            "overage-clipped",
            {{"limit", "contract " + account.name()}, {"times", std::to_string(clipped)}}});
    }
    for (const contract::PolicyUsage& usage : usages) {
      if (!usage.reached) continue;
      std::vector<LogField> fields = {{"account", account.name()},
                                      {"policy", policy_id(usage.policy)},
                                      {"reached", fmt::format("{} %", *usage.reached)}};
      if (usage.used_up_in) {
        fields.push_back({"used_up_in", engine::duration_text(*usage.used_up_in)});
      }
      log_({LogLevel::kWarning, "contract-used", std::move(fields)});
    }
    return usages;
  }

  std::shared_ptr<const Accounts> accounts() const {
    const std::scoped_lock lock(lock_);
    return in_force_.accounts;
  }

  std::vector<Part> changed(Instant now) override {
    std::vector<Part> parts;
    const auto accounts = this->accounts();
    if (accounts == nullptr) return parts;
    for (const auto& account : accounts->all()) {
      std::string name = std::string(kAccountPrefix) + account->name();
      Written& written = written_[name];
      const std::uint64_t changes = account->changes();
      if (written.account.lock() == account && written.changes == changes) continue;
      // Read before it is saved: what comes in between is written once more.
      written = {account, changes};
      parts.push_back({std::move(name), account->save(now)});
    }
    return parts;
  }

  void mark_changed(const std::vector<Part>& parts) override {
    for (const Part& part : parts) written_.erase(part.name);
  }

  Status restore(std::string_view name, Bytes bytes, Instant now) override {
    const auto accounts = this->accounts();
    if (accounts == nullptr || !name.starts_with(kAccountPrefix)) return Done{};
    const auto account = accounts->find(name.substr(kAccountPrefix.size()));
    return account ? (*account)->restore(bytes, now) : Status(Done{});
  }

  // What was written of an account.
  struct Written {
    std::weak_ptr<Account> account{};
    std::uint64_t changes = 0;
  };

  const Log& log_;
  mutable std::mutex lock_;
  ContractsInForce in_force_;
  ContractsInForce next_;                                // as checked
  std::map<std::string, Written, std::less<>> written_;  // by the name of the part
  bool has_started_ = false;
  Instant look_at_{};
  std::map<std::string, Watched> watched_;                            // by account; tick()'s own
  std::map<std::string, std::vector<contract::PolicyUsage>> usages_;  // by account; under lock_
  Followers followers_;
  const wire::http::ContractRoutes routes_ =
      wire::http::contract_routes([this] { return accounts(); });
};

}  // namespace

std::unique_ptr<System> make_contract_system(const SystemGround& ground) {
  return std::make_unique<ContractSystem>(ground);
}

}  // namespace weir::server
