// Contracts that another program follows: documents as the service publishes them, brought
// by `weir sync`.

#include <charconv>
#include <memory>
#include <vector>

#include "weir/base/in_quotes.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/contract/document.h"
#include "weir/wire/http/contract_json.h"
#include "weir/wire/http/contract_routes.h"
#include "weir/wire/http/exchange.h"

namespace weir::wire::http {
namespace {

namespace contract = system::contract;
using contract::Account;

bool read_number(std::string_view text, Wide& number) {
  std::int64_t read = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), read);
  number = read;
  return !text.empty() && parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() &&
         read >= 0;
}

Result<contract::Totals> read_mark(std::string_view text) {
  const std::size_t first = text.find('-');
  const std::size_t second = first == std::string_view::npos ? first : text.find('-', first + 1);
  contract::Totals totals;
  Wide at_ns = 0;
  if (second == std::string_view::npos ||
      !read_number(text.substr(0, first), totals.requests_micro) ||
      !read_number(text.substr(first + 1, second - first - 1), totals.processing_units_micro) ||
      !read_number(text.substr(second + 1), at_ns)) {
    return bad_argument(fmt::format(
        "query: mark is {}, but it must be one that GET /v1/contract/… showed; leave it out, or "
        "write that",
        in_quotes(text)));
  }
  totals.at = Instant{saturate(at_ns)};
  return totals;
}

// A document was taken, but for what has these types.
void answer_taken(Exchange& exchange, std::string_view state, const contract::LeftOut& left_out) {
  exchange.answer_state(state);
  if (left_out.empty()) return;
  std::string& body = exchange.answer.body;
  body.back() = ',';
  body += R"("left_out":[)";
  for (const std::string& type : left_out) {
    if (body.back() != '[') body += ',';
    append_quoted(body, type);
  }
  body += "]}";
}

}  // namespace

std::shared_ptr<Account> named_guard(Exchange& exchange) {
  std::shared_ptr<Account> account = named_account(exchange);
  if (account == nullptr || account->options().role == contract::AccountRole::kGuard)
    return account;
  exchange.fail(Problem::kConflict,
                fmt::format("account {}: its role is 'service', which counts itself; write 'role: "
                            "guard' for it",
                            in_quotes(account->name())));
  return nullptr;
}

std::string contract_mark(const contract::Totals& finals) {
  return fmt::format("{}-{}-{}", saturate(finals.requests_micro),
                     saturate(finals.processing_units_micro), finals.at.ns);
}

void set_contract(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_guard(exchange);
  if (account == nullptr) return;
  contract::LeftOut left_out;
  const auto contracts = contract::read_contracts(exchange.call.body, &left_out);
  if (!contracts) {
    exchange.fail(contracts.error());
    return;
  }
  const auto accounts = exchange.in_force<ContractPart>();
  const std::string user_id = accounts == nullptr ? "" : accounts->user_id(account->name());
  Result<std::vector<contract::Policy>> policies = policies_of(*contracts, user_id);
  if (!policies) {
    exchange.fail(policies.error());
    return;
  }
  if (const Status status = account->change(std::move(*policies), exchange.now); !status) {
    exchange.fail(status.error());
    return;
  }
  account->set_given(contracts_of(*contracts, user_id));
  exchange.try_waiters();
  answer_taken(exchange, "changed", left_out);
}

void set_token_counts(Exchange& exchange) {
  const std::shared_ptr<Account> account = named_guard(exchange);
  if (account == nullptr) return;
  contract::Totals before = account->finals();
  before.at = Instant{};  // the report does not say when these were counted
  if (exchange.query.has("mark")) {
    const Result<std::string_view> mark = exchange.query.one("mark");
    if (!mark) {
      exchange.fail(mark.error());
      return;
    }
    const Result<contract::Totals> read = read_mark(*mark);
    if (!read) {
      exchange.fail(read.error());
      return;
    }
    before = *read;
  }
  contract::LeftOut left_out;
  const auto counts = contract::read_token_counts(exchange.call.body, &left_out);
  if (!counts) {
    exchange.fail(counts.error());
    return;
  }
  account->refresh(*counts, before, exchange.now);
  exchange.try_waiters();
  answer_taken(exchange, "refreshed", left_out);
}

}  // namespace weir::wire::http
