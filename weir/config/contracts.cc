// `contracts:`: accounts, and the limits that draw on them.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "weir/config/draft.h"
#include "weir/engine/quantity.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/contract/document.h"
#include "weir/system/contract/follower.h"
#include "weir/system/contract/gate.h"
#include "weir/system/contract/period.h"

namespace weir::config {
namespace {

namespace contract = system::contract;
using contract::AccountOptions;
using contract::Policy;
using contract::Resource;

constexpr std::string_view kContractForm =
    "[ { name: acme, policies: [ { type: REQUESTS, capacity: 1000, period: PT1M } ] } ]";

// --- policies

struct PolicyDraft {
  std::optional<Resource> resource{};
  std::optional<std::int64_t> capacity{};
  std::optional<Duration> period{};
  std::optional<Duration> refill{};
};

constexpr std::string_view kTypes[] = {type_name(Resource::kRequests),
                                       type_name(Resource::kProcessingUnits)};

void read_type(const Entry& entry, Context& context, PolicyDraft& policy) {
  const std::ptrdiff_t place = read_choice(entry, context, kTypes);
  if (place >= 0) policy.resource = static_cast<Resource>(place);
}

void read_capacity(const Entry& entry, Context& context, PolicyDraft& policy) {
  std::int64_t capacity = -1;
  read_count(entry, context, 0, contract::kCapacityMax, capacity);
  if (capacity >= 0) policy.capacity = capacity;
}

void read_period(const Entry& entry, Context& context, PolicyDraft& policy) {
  if (!check_text(entry.value, entry.key, context)) return;
  const Result<Duration> period = contract::parse_period(entry.value.text);
  if (period) {
    policy.period = *period;
  } else {
    context.mistake(entry.value.place, period.error().message);
  }
}

void read_refill(const Entry& entry, Context& context, PolicyDraft& policy) {
  Duration refill{};
  read_duration(entry, context, refill);
  if (refill.count() > 0) policy.refill = refill;
}

constexpr Key<PolicyDraft> kPolicyKeys[] = {
    {"type", read_type, "PROCESSING_UNITS", "`REQUESTS` or `PROCESSING_UNITS`.", kRequired},
    {"capacity", read_capacity, "1000", "Whole units that it holds; 0 is a ban.", kRequired},
    {"period", read_period, "PT1M",
     "In which as many refill, ISO-8601 ([contract.md](contract.md)); `PT0S`: never.", kRequired},
    {"refill", read_refill, "60ms",
     "`nanosBetweenRefills`: the time in which one refills. Default: period / capacity, rounded "
     "down."},
};

void read_policy(const TreeNode& item, Context& context, std::vector<Policy>& out) {
  if (item.kind != TreeNode::Kind::kMap) {
    context.mistake(item.place,
                    fmt::format("a policy is {}, but it must be a map; write '{{ type: REQUESTS, "
                                "capacity: 1000, period: PT1M }}'",
                                item.shown()));
    return;
  }
  PolicyDraft draft;
  read_map<PolicyDraft>(item, kPolicyKeys, context, draft);
  if (!draft.resource || !draft.capacity || !draft.period) return;  // reported
  const auto refill_ns =
      draft.refill ? std::optional<std::int64_t>(draft.refill->count()) : std::nullopt;
  const Result<Policy> policy =
      contract::make_policy(*draft.resource, *draft.capacity, *draft.period, refill_ns);
  if (!policy) {
    context.mistake(item.place, policy.error().message);
    return;
  }
  const auto same = std::find_if(out.begin(), out.end(), [&](const Policy& other) {
    return other.resource == policy->resource && other.period == policy->period;
  });
  if (same == out.end()) {
    out.push_back(*policy);
    return;
  }
  context.mistake(item.place,
                  fmt::format("{}: it has {} and {}, but of one type and period there may be one; "
                              "leave out the larger",
                              *same == *policy ? "duplicate_policy" : "overlapping_policies",
                              policy_id(*same), policy_id(*policy)));
}

// --- accounts

struct AccountDraft {
  const ReadFile& read_file;
  ContractSettings settings{};
  std::vector<Policy> listed{};
};

void read_account_policies(const Entry& entry, Context& context, AccountDraft& account) {
  if (!check_kind(entry, TreeNode::Kind::kList, "[ { type: REQUESTS, capacity: 1000 … } ]",
                  context)) {
    return;
  }
  for (const TreeNode& item : entry.value.items) read_policy(item, context, account.listed);
}

// Rows are read in the order of the table, so the user is known.
void read_document(const Entry& entry, Context& context, AccountDraft& account) {
  ContractSettings& settings = account.settings;
  read_text(entry, context, settings.file);
  if (settings.file.empty()) return;  // reported
  if (!account.read_file) {
    context.mistake(entry.value.place,
                    fmt::format("file {} is not read here, because no files are; load the "
                                "configuration from a file",
                                in_quotes(settings.file)));
    return;
  }
  const Result<std::string> text = account.read_file(settings.file);
  if (!text) {
    context.mistake(entry.value.place, text.error().message);
    return;
  }
  const auto elsewhere = [&](const Error& error) {
    context.mistakes.add_elsewhere(entry.value.place,
                                   fmt::format("{}: {}", settings.file, error.message));
  };
  contract::LeftOut left_out;
  const auto contracts = contract::read_contracts(*text, &left_out);
  if (!contracts) return elsewhere(contracts.error());
  for (const std::string& type : left_out) {
    context.mistakes.warn(
        entry.value.place, context.where,
        fmt::format("{}: contracts of type {} are not known, so they are left out; write "
                    "'policies' if they are to count",
                    settings.file, in_quotes(type)));
  }
  // An account that does not say whose it is, is the only user's there is.
  Result<std::vector<Policy>> policies = policies_of(*contracts, settings.user_id);
  if (!policies) return elsewhere(policies.error());
  settings.policies = std::move(*policies);
  settings.given = contracts_of(*contracts, settings.user_id);
}

void read_account_name(const Entry& entry, Context& context, AccountDraft& account) {
  read_text(entry, context, account.settings.name);
}

void read_user_id(const Entry& entry, Context& context, AccountDraft& account) {
  read_text(entry, context, account.settings.user_id);
}

template <auto Read>
void in_options(const Entry& entry, Context& context, AccountDraft& account) {
  Read(entry, context, account.settings.options);
}

template <auto Member>
void span_at(const Entry& entry, Context& context, AccountDraft& account) {
  if (!check_text(entry.value, entry.key, context)) return;
  const Result<Duration> span = engine::parse_span(entry.key, entry.value.text);
  if (!span) {
    context.mistake(entry.value.place, span.error().message);
  } else if (*span > contract::kTimeMax) {
    context.mistake(entry.value.place, fmt::format("{} is {}, but it may be at most {}; write less",
                                                   entry.key, in_quotes(entry.value.text),
                                                   engine::duration_text(contract::kTimeMax)));
  } else {
    account.settings.options.*Member = *span;
  }
}

void read_account_sync(const Entry& entry, Context& context, AccountDraft& account) {
  read_sync(entry, context, account.read_file, account.settings.sync);
  if (account.settings.options.role != contract::AccountRole::kService) return;
  context.mistake(entry.place,
                  "its role is 'service', which counts itself, but sync follows another; write "
                  "'role: guard', or leave one of the two out");
}

constexpr std::string_view kAccountRoles[] = {"guard", "service"};
constexpr std::string_view kAccountRules[] = {"reservation", "published"};
constexpr std::string_view kRetryAfterUnits[] = {"milliseconds", "seconds"};

constexpr Key<AccountDraft> kAccountKeys[] = {
    {"name", read_account_name, "acme", "Unique, at most 128 bytes.", kRequired},
    {"user_id", read_user_id, "u-1547",
     "Whose it is in published documents. Default: its name; in `file`, the only user there is; "
     "for "
     "`sync`, the `sub` of the access token, if it has one."},
    {"file", read_document, "./contracts.json",
     "A published list of contracts ([contract.md](contract.md)); relative to the working "
     "directory."},
    {"policies", read_account_policies, "[ { type: REQUESTS, capacity: 1000, period: PT1M } ]",
     "Policies instead of those of the file with the same type and period, or besides them. With "
     "`sync`, until the service has answered: its contract replaces all of them."},
    {"role", in_options<choice_at<&AccountOptions::role, kAccountRoles, AccountOptions>>, "guard",
     "`guard`: tells workers when to start; `service`: refuses with 429. Default `guard`."},
    {"rule", in_options<choice_at<&AccountOptions::rule, kAccountRules, AccountOptions>>,
     "reservation",
     "`reservation`, or `published` as the source document has it. Default `reservation`."},
    {"jitter", span_at<&AccountOptions::jitter>, "100ms",
     "How late a worker may start; a guard keeps what refills meanwhile in hand. Default `100ms`."},
    {"hold", span_at<&AccountOptions::hold>, "10m",
     "A reservation is final this long after its start. Default `10m`."},
    {"max_delay", span_at<&AccountOptions::max_delay>, "1h",
     "The longest wait that a reservation is given if it names none. Left out: any."},
    {"retry_after",
     in_options<choice_at<&AccountOptions::retry_after, kRetryAfterUnits, AccountOptions>>,
     "milliseconds",
     "Unit of `Retry-After`, sent and met: `milliseconds` as the service has it, or `seconds` as "
     "HTTP has it. Default `milliseconds`."},
    {"retry_after_default", span_at<&AccountOptions::retry_after_default>, "30s",
     "How long a refusal counts that was met without a `Retry-After`. Default `30s`."},
    {"sync", read_account_sync, "{ url: https://services.example.org }",
     "The service that it follows. At most 64 accounts have one."},
};

// Those of the list instead of those of the file, where both have one.
void merge(std::vector<Policy>& policies, const std::vector<Policy>& listed) {
  for (const Policy& policy : listed) {
    const auto same = std::find_if(policies.begin(), policies.end(), [&](const Policy& other) {
      return other.resource == policy.resource && other.period == policy.period;
    });
    if (same == policies.end()) {
      policies.push_back(policy);
    } else {
      *same = policy;
    }
  }
}

// If a mistake is reported, only the name counts.
ContractSettings read_account(const TreeNode& item, Context& context, const ReadFile& read_file) {
  AccountDraft account{read_file};
  if (item.kind != TreeNode::Kind::kMap) {
    context.mistake(item.place, fmt::format("it is {}, but it must be a map; write 'contracts: {}'",
                                            item.shown(), kContractForm));
    return {};
  }
  const std::size_t before = context.mistakes.count();
  read_map<AccountDraft>(item, kAccountKeys, context, account);
  ContractSettings& settings = account.settings;
  if (settings.sync) settings.sync->service.asks_token = settings.user_id.empty();
  if (settings.user_id.empty()) settings.user_id = settings.name;
  if (settings.sync) {
    settings.sync->service.user_id = settings.user_id;
    settings.sync->service.retry_after = settings.options.retry_after;
  }
  if (context.mistakes.count() > before) return {.name = settings.name};
  merge(settings.policies, account.listed);
  const Status status =
      contract::Account::check(settings.name, settings.policies, settings.options);
  if (!status) context.mistake(item.place, status.error().message);
  return std::exchange(settings, {});
}

// Each has a thread of its own.
void check_followers(Place place, Context& context,
                     const std::vector<ContractSettings>& contracts) {
  const auto count = static_cast<std::size_t>(
      std::count_if(contracts.begin(), contracts.end(),
                    [](const ContractSettings& each) { return each.sync.has_value(); }));
  if (count <= contract::kFollowersMax) return;
  context.mistake(place, fmt::format("{} accounts have 'sync', but at most {} may; run several "
                                     "servers, or 'weir sync' beside this one for the others",
                                     count, contract::kFollowersMax));
}

const ContractSettings* find(const std::vector<ContractSettings>& contracts,
                             std::string_view name) {
  const auto found = std::find_if(contracts.begin(), contracts.end(),
                                  [&](const ContractSettings& each) { return each.name == name; });
  return found == contracts.end() ? nullptr : &*found;
}

}  // namespace

void read_contracts(const Entry& entry, Context& context, Draft& draft) {
  Context inner{context.mistakes, "contracts"};
  declare_unit(contract::kProcessingUnitsUnit, engine::UnitScale::kMicro, entry.place, inner,
               draft.config.limits_spec);
  if (!check_kind(entry, TreeNode::Kind::kList, kContractForm, context)) return;
  const std::vector<TreeNode>& items = entry.value.items;
  if (items.size() > kAccountsMax) {
    inner.mistake(items[kAccountsMax].place,
                  fmt::format("there are {} accounts, but at most {} are allowed; run several "
                              "servers",
                              items.size(), kAccountsMax));
    return;
  }
  contract::AccountNames names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Context of_account{context.mistakes, named_item("contract", items[i], i + 1)};
    const std::size_t before = context.mistakes.count();
    ContractSettings settings = read_account(items[i], of_account, draft.read_file);
    if (context.mistakes.count() == before) {
      if (const Status added = names.add(settings.name, settings.user_id); !added) {
        of_account.mistake(items[i].place, added.error().message);
      }
    }
    if (context.mistakes.count() > before) draft.broken_contracts.insert(settings.name);
    if (!settings.name.empty()) draft.config.contracts.push_back(std::move(settings));
  }
  check_followers(entry.place, inner, draft.config.contracts);
}

std::string contract_gate(std::string_view account) { return fmt::format("contract {}", account); }

std::optional<engine::GateRef> read_contract_gate(const Entry& entry, Context& context,
                                                  const Draft& draft) {
  const std::vector<ContractSettings>& contracts = draft.config.contracts;
  std::string name;
  read_text(entry, context, name);
  if (name.empty()) return std::nullopt;  // reported
  const ContractSettings* const settings = find(contracts, name);
  if (settings == nullptr) {
    std::vector<std::string> known;
    known.reserve(contracts.size());
    for (const ContractSettings& each : contracts) known.push_back(in_quotes(each.name));
    context.mistake(
        entry.value.place,
        fmt::format("contract is {}, but it must be the name of an account under "
                    "'contracts'; known are {}",
                    in_quotes(name),
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    return std::nullopt;
  }
  if (draft.broken_contracts.contains(name)) return std::nullopt;
  if (settings->options.rule == contract::Rule::kPublished) {
    context.mistake(entry.value.place,
                    fmt::format("account {} follows the published rule, which cannot be decided "
                                "together with limits; write 'rule: reservation' for it",
                                in_quotes(name)));
    return std::nullopt;
  }
  return engine::GateRef{contract_gate(name)};
}

void list_contract_keys(std::vector<KeyHelp>& out) {
  list_keys<AccountDraft>("contracts", kAccountKeys, out);
  list_keys<PolicyDraft>("contracts: policies", kPolicyKeys, out);
  list_sync_keys(out);
}

}  // namespace weir::config
