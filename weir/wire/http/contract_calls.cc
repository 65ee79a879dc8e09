// Contracts: reservations, consumption, feedback, processing units, and the documents as
// the service publishes them.

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/contract/document.h"
#include "weir/wire/http/contract_json.h"
#include "weir/wire/http/contract_routes.h"
#include "weir/wire/http/contract_schemas.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

namespace contract = system::contract;
using contract::Account;
using contract::Accounts;
using engine::HoldState;

constexpr std::uint64_t kListedByDefault = 100;

// nullptr: there are none, and the problem is written.
std::shared_ptr<const Accounts> accounts_of(Exchange& exchange) {
  std::shared_ptr<const Accounts> accounts = exchange.in_force<ContractPart>();
  if (accounts == nullptr) {
    exchange.fail(Problem::kNotFound,
                  "contracts: none are configured; write 'contracts: [ { name: acme, policies: [ "
                  "{ type: REQUESTS, capacity: 1000, period: PT1M } ] } ]' in weir.yaml, and start "
                  "the server or POST /v1/reload");
  }
  return accounts;
}

void append_account_retry_after(Exchange& exchange, const Account& account, const Wide& wait_ns) {
  const contract::Refusal refusal{.wait_ns = wait_ns};
  if (const auto text = retry_after_text(refusal, account.options().retry_after)) {
    exchange.answer.headers += fmt::format("Retry-After: {}\r\n", *text);
  }
}

void answer_end(Exchange& exchange, HoldId reservation, HoldState wanted, HoldState state) {
  if (state == wanted) {
    exchange.answer_state(to_string(state));
  } else if (state == HoldState::kGone) {
    exchange.fail(Problem::kNotFound,
                  fmt::format("reservation '{}': it has expired, or this account never made it; "
                              "reserve again if there is more to do",
                              hold_text(reservation)));
  } else {
    exchange.fail(Problem::kConflict,
                  fmt::format("reservation '{}': it has been {} already, so it cannot become {}; "
                              "reserve again if there is more to do",
                              hold_text(reservation), to_string(state), to_string(wanted)));
  }
}

std::optional<contract::Policy> policy_with_id(const std::vector<contract::Policy>& policies,
                                               std::string_view id) {
  const auto found =
      std::find_if(policies.begin(), policies.end(),
                   [&](const contract::Policy& policy) { return policy_id(policy) == id; });
  if (found == policies.end()) return std::nullopt;
  return *found;
}

}  // namespace

std::shared_ptr<Account> named_account(Exchange& exchange) {
  if (!exchange.reaches(engine::kAccountIdentity, exchange.parameter)) return nullptr;
  const std::shared_ptr<const Accounts> accounts = accounts_of(exchange);
  if (accounts == nullptr) return nullptr;
  Result<std::shared_ptr<Account>> account = accounts->find(exchange.parameter);
  if (account) return std::move(*account);
  exchange.fail(account.error());
  return nullptr;
}

namespace {

void contract_reserve(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr) return;
  Texts texts;
  const Result<contract::Ask> ask = read_reservation(exchange.call.body, texts);
  if (!ask) {
    exchange.fail(ask.error());
    return;
  }
  const Result<contract::Reserved> reserved = account->reserve(*ask, exchange.now);
  if (!reserved) {
    exchange.fail(reserved.error());
    return;
  }
  exchange.answer.status = status_of(reserved->verdict);
  exchange.answer.content_type = kJsonType;
  append_reserved(exchange.answer.body, *reserved);
  if (reserved->verdict == Verdict::kDenied) {
    append_account_retry_after(exchange, *account, reserved->delay_ns);
  }
}

void contract_commit(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr) return;
  Texts texts;
  const Result<ReservationEnd> asked = read_commit(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  // What is not given was as reserved. Without a reservation the costs do not matter.
  std::optional<contract::Costs> actual;
  if (!asked->actual.empty()) {
    actual = asked->actual.over(account->reserved(asked->reservation).value_or(contract::Costs{}));
  }
  const Result<contract::Committed> committed =
      account->commit(asked->reservation, actual, exchange.now);
  if (!committed) {
    exchange.fail(committed.error());
    return;
  }
  // Costs that were not needed are room that a request may wait for at the gate.
  if (actual) exchange.try_waiters();
  if (committed->debited) {
    exchange.answer.content_type = kJsonType;
    append_committed(exchange.answer.body, committed->state, *committed->debited);
    return;
  }
  answer_end(exchange, asked->reservation, HoldState::kSettled, committed->state);
}

void contract_release(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr) return;
  Texts texts;
  const Result<ReservationEnd> asked = read_release(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  const HoldState state = account->release(asked->reservation, exchange.now);
  exchange.try_waiters();
  answer_end(exchange, asked->reservation, HoldState::kCancelled, state);
}

void contract_consume(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr) return;
  Texts texts;
  const Result<contract::Costs> costs = read_consumption(exchange.call.body, texts);
  if (!costs) {
    exchange.fail(costs.error());
    return;
  }
  const Result<contract::Consumed> consumed = account->consume(*costs, exchange.now);
  if (!consumed) {
    exchange.fail(consumed.error());
    return;
  }
  Answer& answer = exchange.answer;
  answer.content_type = kJsonType;
  if (consumed->refusal) {
    answer.status = 429;
    answer.body = refusal_body(*consumed->refusal, consumed->policies);
    if (consumed->refusal->wait_ns) {
      append_account_retry_after(exchange, *account, *consumed->refusal->wait_ns);
    }
    return;
  }
  append_consumed(answer.body, *consumed);
  answer.headers += "X-ProcessingUnits-Spent: ";
  append_units(answer.headers, consumed->debited.processing_units_micro);
  answer.headers += "\r\n";
}

void contract_feedback(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_guard(exchange);
  if (account == nullptr) return;
  Texts texts;
  const Result<FeedbackBody> asked =
      read_feedback(exchange.call.body, account->options().retry_after, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  contract::Met met{.reservation = asked->reservation,
                    .costs = asked->costs.over({}),
                    .retry_after = asked->retry_after};
  if (!asked->policy.empty()) {
    met.violated = policy_with_id(account->policies(), asked->policy);
    if (!met.violated) {
      exchange.fail(bad_argument(
          fmt::format("body: policy is {}, but it must be one of the account's; GET /v1/contract/… "
                      "shows them, or leave it out",
                      in_quotes(asked->policy))));
      return;
    }
  }
  if (const Status status = account->feedback(met, exchange.now); !status) {
    exchange.fail(status.error());
    return;
  }
  if (met.reservation) exchange.try_waiters();  // it has been released
  exchange.answer_state("noted");
}

void show_account(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr) return;
  const std::shared_ptr<const Accounts> accounts = exchange.in_force<ContractPart>();
  const std::string user_id = accounts == nullptr ? "" : accounts->user_id(account->name());
  exchange.answer.content_type = kJsonType;
  append_account(exchange.answer.body, *account, user_id, account->view(exchange.now),
                 exchange.now);
}

void list_reservations(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr) return;
  std::string who;
  if (exchange.query.has("who")) {
    const Result<std::string_view> given = exchange.query.one("who");
    if (!given) {
      exchange.fail(given.error());
      return;
    }
    who = *given;
  }
  std::uint64_t after = 0;
  std::uint64_t most = kListedByDefault;
  for (const auto& [name, number] : {std::pair{"after", &after}, std::pair{"limit", &most}}) {
    if (!exchange.query.has(name)) continue;
    const Result<std::string_view> given = exchange.query.one(name);
    if (!given) {
      exchange.fail(given.error());
      return;
    }
    const char* const end = given->data() + given->size();
    const auto read = std::from_chars(given->data(), end, *number);
    if (read.ec == std::errc{} && read.ptr == end) continue;
    exchange.fail(bad_argument(
        fmt::format("query: {} is {}, but it must be a whole number of 0 or more; write one", name,
                    in_quotes(*given))));
    return;
  }
  if (most < 1 || most > contract::kListedMax) {
    exchange.fail(
        bad_argument(fmt::format("query: limit is {}, but it must be between 1 and {}; "
                                 "ask for the rest with 'after'",
                                 most, contract::kListedMax)));
    return;
  }
  const contract::Listing listing = account->list(who, after, static_cast<std::size_t>(most));
  exchange.answer.content_type = kJsonType;
  append_listed(exchange.answer.body, listing);
}

void work_out_processing_units(Exchange& exchange) {
  Texts texts;
  const Result<contract::Work> work = read_work(exchange.call.body, texts);
  if (!work) {
    exchange.fail(work.error());
    return;
  }
  const Result<contract::Fraction> cost = processing_units(*work);
  if (!cost) {
    exchange.fail(cost.error());
    return;
  }
  const Result<std::int64_t> debited_micro = contract::micro_of("the cost", *cost);
  if (!debited_micro) {
    exchange.fail(debited_micro.error());
    return;
  }
  exchange.answer.content_type = kJsonType;
  exchange.answer.body =
      fmt::format(R"({{"processing_units":"{}/{}","debited":)", cost->num, cost->den);
  append_units(exchange.answer.body, *debited_micro);
  exchange.answer.body += '}';
}

void show_contracts(Exchange& exchange) {
  const std::shared_ptr<const Accounts> accounts = accounts_of(exchange);
  if (accounts == nullptr) return;
  const Result<std::string_view> filter = exchange.query.one("userId");
  if (!filter) {
    exchange.fail(filter.error());
    return;
  }
  constexpr std::string_view kEqual = "eq:";
  if (!filter->starts_with(kEqual)) {
    exchange.fail(bad_argument(
        fmt::format("query: userId is {}, but it must be 'eq:' and an id; write 'userId=eq:ID'",
                    in_quotes(*filter))));
    return;
  }
  const std::string user_id(filter->substr(kEqual.size()));
  std::vector<contract::Contract> contracts;
  std::int64_t first_id = 1;
  for (const std::shared_ptr<Account>& account : accounts->all()) {
    if (accounts->user_id(account->name()) == user_id) {
      contracts = published_contracts(account->given(), account->policies(), user_id, first_id);
    }
    first_id += 2;
  }
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = write_contracts(contracts);
}

// Each type that an account was given, with the defaults that were given first.
void show_contract_types(Exchange& exchange) {
  const std::shared_ptr<const Accounts> accounts = accounts_of(exchange);
  if (accounts == nullptr) return;
  std::vector<contract::Contract> types;
  for (const std::shared_ptr<Account>& account : accounts->all()) {
    for (const contract::Contract& given : account->given()) {
      const auto same = std::find_if(types.begin(), types.end(), [&](const auto& each) {
        return each.resource == given.resource;
      });
      if (same == types.end()) {
        types.push_back(given);
      } else if (same->default_policies.empty()) {
        same->default_policies = given.default_policies;
      }
    }
  }
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = write_contract_types(types);
}

void show_token_counts(Exchange& exchange) {
  const std::shared_ptr<const Accounts> accounts = accounts_of(exchange);
  if (accounts == nullptr) return;
  const std::shared_ptr<Account> account = accounts->of_user(exchange.parameter);
  if (account == nullptr) {
    exchange.fail(Problem::kNotFound, fmt::format("user {}: no account is theirs; correct the id",
                                                  in_quotes(exchange.parameter)));
    return;
  }
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = write_token_counts(account->view(exchange.now).policies);
}

constexpr std::array<QueryParameter, 1> kUserQuery = {{
    {"userId", true, false, "Whose contracts: 'eq:' and the id."},
}};

constexpr std::array<QueryParameter, 3> kListQuery = {{
    {"who", false, false, "Only those of this name."},
    {"after", false, false, "'next' of the list before."},
    {"limit", false, false, "The most to list, up to 1000. Left out: 100."},
}};

constexpr std::array<QueryParameter, 1> kMarkQuery = {{
    {"mark", false, false, "What the account showed before the service was asked."},
}};

constexpr std::array kContractRows = {
    checks_when_bound(Route{"POST", "/v1/contract/{account}/reserve", Role::kDecide,
                            contract_reserve, "contract_reserve",
                            "Tell when to start, and debit all policies there, or none.",
                            "ContractAsk", "Reserved"}),
    checks_when_bound(Route{
        "POST", "/v1/contract/{account}/commit", Role::kDecide, contract_commit, "contract_commit",
        "End a reservation with the costs that were charged.", "ReservationCommit", "Committed"}),
    checks_when_bound(Route{"POST", "/v1/contract/{account}/release", Role::kDecide,
                            contract_release, "contract_release",
                            "End a reservation as if it had never been.", "ReservationRelease",
                            "State"}),
    checks_when_bound(Route{"POST", "/v1/contract/{account}/consume", Role::kDecide,
                            contract_consume, "contract_consume",
                            "Debit all policies now, or refuse with 429 as the service does.",
                            "ContractCosts", "Consumed"}),
    checks_when_bound(Route{"POST", "/v1/contract/{account}/feedback", Role::kDecide,
                            contract_feedback, "contract_feedback",
                            "Report a 429 that was met, so that the values here follow.",
                            "Feedback", "State"}),
    answers_when_bound(Route{"POST", "/v1/contract/processing-units", Role::kObserve,
                             work_out_processing_units, "contract_processing_units",
                             "Work out what a request to the service costs.", "Work",
                             "ProcessingUnits"}),
    checks_when_bound(
        Route{"GET", "/v1/contract/{account}", Role::kObserve, show_account, "contract",
              "Show the policies of an account, what is left of them and what is outstanding.", "",
              "Account"}),
    checks_when_bound(with_names({"GET", "/v1/contract/{account}/reservations", Role::kDecide,
                                  list_reservations, "contract_reservations",
                                  "List the reservations that have not ended, and whose.", "",
                                  "Reservations", kListQuery})),
    Route{"PUT", "/v1/contract/{account}/contract", Role::kAdmin, set_contract, "contract_set",
          "Take the policies of a published list of contracts.", "Document", "DocumentTaken"},
    with_names({"PUT", "/v1/contract/{account}/counts", Role::kAdmin, set_token_counts,
                "contract_counts", "Take what the service reports as left.", "Document",
                "DocumentTaken", kMarkQuery}),
    with_names({"GET", "/aux/ratelimit/contract", Role::kObserve, show_contracts,
                "published_contracts", "Show a user's contracts as the service publishes them.", "",
                "Document", kUserQuery}),
    Route{"GET", "/aux/ratelimit/contract/types", Role::kObserve, show_contract_types,
          "published_contract_types",
          "Show the types of contracts and their default policies as the service publishes them.",
          "", "Document"},
    Route{"GET", "/aux/ratelimit/statistics/tokenCounts/{userId}", Role::kObserve,
          show_token_counts, "published_token_counts",
          "Show what a user's policies have left as the service publishes it.", "", "Document"},
};

}  // namespace

ContractRoutes contract_routes(ContractRoutes::InForce in_force) {
  return ContractRoutes(kContractRows, std::move(in_force), kContractSchemas);
}

}  // namespace weir::wire::http
