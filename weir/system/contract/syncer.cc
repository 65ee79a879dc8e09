// What holds between the calls:
//
//  1. A task has one due instant; a fetch that succeeded, failed or is missing sets the next one.
//  2. Without a token that is needed, only the token is due.
//  3. awaited_ are policies that can be in force. They wait for counts, and go in without them as
//     soon as counts have failed.
//  4. finals_before_ is what the account had made final when it last asked for counts. What became
//     final since then, the service may not have counted.
//  5. A fetch that failed changes nothing in the account, but for policies that waited for it.

#include "weir/system/contract/syncer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::contract {
namespace {

constexpr Duration kLongest = std::chrono::hours{24};

Duration within(Duration value, Duration least) { return std::clamp(value, least, kLongest); }

}  // namespace

Syncer::Syncer(std::shared_ptr<Account> account, SyncerOptions options, Instant now)
    : account_(std::move(account)), options_(std::move(options)), random_(options_.seed) {
  task(Fetch::kToken).due = options_.authenticates ? now : kForever;
  task(Fetch::kContract).due = now;
  task(Fetch::kContractTypes).due = kForever;  // until the user turns out to have no contract
  task(Fetch::kTokenCounts).due = now;
  options_.refresh = within(options_.refresh, std::chrono::seconds{1});
  options_.retry = within(options_.retry, std::chrono::milliseconds{100});
  options_.token_margin = within(options_.token_margin, Duration{0});
}

// Splitmix64: any seed will do, and the same one repeats.
Duration Syncer::random_up_to(Duration most) {
  if (most.count() <= 0) return Duration{0};
  random_ += 0x9e3779b97f4a7c15;
  std::uint64_t mixed = random_;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  return Duration{
      static_cast<std::int64_t>(mixed % (static_cast<std::uint64_t>(most.count()) + 1))};
}

std::optional<Fetch> Syncer::next(Instant now) const {
  for (std::size_t i = 0; i < kFetches; ++i) {
    if (tasks_[i].due <= now) return static_cast<Fetch>(i);
    if (needs_token()) break;  // it is the first, and nothing else will be answered
  }
  return std::nullopt;
}

Instant Syncer::next_instant() const {
  Instant due = tasks_[0].due;
  if (needs_token()) return due;
  for (const Task& task : tasks_) due = earlier_of(due, task.due);
  return due;
}

Status Syncer::take(Fetch what, const std::string& body, Instant now) {
  switch (what) {
    case Fetch::kToken:
      return take_token(body, now);
    case Fetch::kContract:
      return take_contract(body, now);
    case Fetch::kContractTypes:
      return take_contract_types(body, now);
    case Fetch::kTokenCounts:
      return take_counts(body, now);
  }
  return Done{};
}

Status Syncer::take_token(const std::string& body, Instant now) {
  Result<AccessToken> token = read_access_token(body);
  if (!token) return token.error();
  token_ = std::move(token->token);
  token_ends_ = now + token->lasts;
  // The margin, or a quarter of a short life; and up to an eighth more by chance.
  const Duration margin = std::min(options_.token_margin, token->lasts / 4);
  task(Fetch::kToken).due = token_ends_ - margin - random_up_to(token->lasts / 8);
  return Done{};
}

std::string Syncer::user_id() const {
  return options_.asks_token ? subject_of(token_).value_or(options_.user_id) : options_.user_id;
}

Status Syncer::take_contract(const std::string& body, Instant now) {
  LeftOut left_out;
  const Result<std::vector<Contract>> contracts = read_contracts(body, &left_out);
  if (!contracts) return contracts.error();
  left_out_of_contract_ = std::move(left_out);
  const std::string user = user_id();
  const bool has_one = std::any_of(contracts->begin(), contracts->end(),
                                   [&](const auto& each) { return is_of(each, user); });
  if (has_one) {
    left_out_of_types_.clear();  // they are not gone by any more
    Result<std::vector<Policy>> policies = policies_of(*contracts, user);
    if (!policies) return policies.error();
    if (Status adopted = adopt(std::move(*policies), now); !adopted) return adopted;
    account_->set_given(contracts_of(*contracts, user));
  }
  // Asked for once for each answer that has no contract of the user.
  task(Fetch::kContractTypes) = {.due = has_one ? kForever : now};
  task(Fetch::kContract).due = now + options_.refresh;
  return Done{};
}

Status Syncer::take_contract_types(const std::string& body, Instant now) {
  LeftOut left_out;
  const Result<std::vector<Contract>> types = read_contract_types(body, &left_out);
  if (!types) return types.error();
  left_out_of_types_ = std::move(left_out);
  Result<std::vector<Policy>> policies = policies_of(*types, {});
  if (!policies) return policies.error();
  // Taken at its word, the user would have no limits.
  if (policies->empty()) {
    return bad_argument("missing_policies: the document has no defaultPolicies; write some");
  }
  if (Status adopted = adopt(std::move(*policies), now); !adopted) return adopted;
  account_->set_given(*types);
  task(Fetch::kContractTypes).due = kForever;
  return Done{};
}

Status Syncer::take_counts(const std::string& body, Instant now) {
  LeftOut left_out;
  const Result<std::vector<Account::Count>> counts = read_token_counts(body, &left_out);
  if (!counts) return counts.error();
  left_out_of_counts_ = std::move(left_out);
  const Totals before = finals_before_.value_or(account_->finals());
  if (awaited_) {
    Status changed = account_->change(std::move(*awaited_), *counts, before, now);
    awaited_.reset();
    if (!changed) return changed;
  } else {
    account_->refresh(*counts, before, now);
  }
  counts_at_ = now;
  task(Fetch::kTokenCounts).due = now + options_.refresh;
  return Done{};
}

// Policies that are to be in force, as soon as their counts are there.
Status Syncer::adopt(std::vector<Policy> policies, Instant now) {
  // What cannot be in force is the mistake of the document that has it.
  auto possible = Account::create(account_->name(), policies, {}, now);
  if (!possible) return possible.error();
  contract_at_ = now;
  awaited_.reset();
  if (policies == account_->policies()) return Done{};
  awaited_ = std::move(policies);
  Task& counts = task(Fetch::kTokenCounts);
  if (counts.trouble.empty()) {
    counts.due = now;
  } else if (counts.due > now) {
    adopt_without_counts(now);
  }
  return Done{};
}

void Syncer::adopt_without_counts(Instant now) {
  if (!awaited_) return;
  // adopt() has found them possible.
  static_cast<void>(account_->change(std::move(*awaited_), now).ok());
  awaited_.reset();
}

void Syncer::begin(Fetch what, Instant now) {
  if (what != Fetch::kTokenCounts) return;
  finals_before_ = account_->finals();
  finals_before_->at = later_of(finals_before_->at, now);
}

Status Syncer::finish(Fetch what, const Fetched& fetched, Instant now) {
  ++fetches_;
  std::string message;
  if (fetched.status >= 200 && fetched.status < 300) {
    const Status taken = take(what, fetched.body, now);
    if (taken) {
      Task& done = task(what);
      done = {.due = done.due};
      return Done{};
    }
    message = taken.error().message;
  } else if (fetched.status == 0) {
    message = fmt::format("no answer ({})", in_quotes(fetched.body));
  } else if (fetched.status >= 300 && fetched.status < 400) {
    message = fmt::format("status {}, but redirects are not followed; write where it leads to",
                          fetched.status);
  } else {
    message = fmt::format("status {}", fetched.status);
  }
  task(what).trouble = fmt::format("account {}: {}: {}; the last good values stay in force",
                                   in_quotes(account_->name()), to_string(what), message);
  failed(what, fetched, now);
  return Error{ErrorCode::kUnavailable, task(what).trouble};
}

void Syncer::failed(Fetch what, const Fetched& fetched, Instant now) {
  ++failures_;
  if (what == Fetch::kTokenCounts) adopt_without_counts(now);
  Task& failed = task(what);
  if (what != Fetch::kToken && (fetched.status == 404 || fetched.status == 410)) {
    // Withdrawn: asked for again as seldom as values that are there.
    failed.missing = true;
    failed.due = now + options_.refresh;
    return;
  }
  const auto doubled = std::min<std::uint64_t>(failed.failures_in_a_row++, 16);
  Duration wait = std::min(options_.retry * (std::int64_t{1} << doubled), options_.refresh);
  wait = std::max(wait, options_.retry);
  if (fetched.retry_after) wait = within(*fetched.retry_after, options_.retry);
  failed.due = now + wait + random_up_to(wait / 4);
  if (what == Fetch::kToken) {
    // The one there is will do meanwhile.
    if (token_ends_ <= now) token_.clear();
    if (!token_.empty()) failed.due = earlier_of(failed.due, token_ends_);
  } else if (fetched.status == 401 && options_.authenticates) {
    // A new token before the next try. Others may be answered with this one meanwhile.
    task(Fetch::kToken).due = earlier_of(task(Fetch::kToken).due, failed.due);
  }
}

Status Syncer::step(Fetcher& fetcher, Instant now) {
  Status last = Done{};
  for (std::size_t i = 0; i < kFetches; ++i) {
    const std::optional<Fetch> what = next(now);
    if (!what) break;
    begin(*what, now);
    const Status status = finish(*what, fetcher.fetch(*what, token_), now);
    if (!status) last = status;
  }
  return last;
}

SyncerStatus Syncer::status(Instant now) const {
  SyncerStatus status;
  if (contract_at_) status.contract_age = now - *contract_at_;
  if (counts_at_) status.counts_age = now - *counts_at_;
  status.has_token = !token_.empty();
  for (const Task& task : tasks_) {
    if (status.last_error.empty()) status.last_error = task.trouble;
    if (task.missing) status.endpoint_missing = true;
    status.failures_in_a_row = std::max(status.failures_in_a_row, task.failures_in_a_row);
  }
  status.contract_missing = tasks_[static_cast<std::size_t>(Fetch::kContract)].missing;
  status.left_out = left_out_of_contract_;
  for (const LeftOut* const more : {&left_out_of_types_, &left_out_of_counts_}) {
    for (const std::string& name : *more) {
      const auto known = std::find(status.left_out.begin(), status.left_out.end(), name);
      if (known == status.left_out.end()) status.left_out.push_back(name);
    }
  }
  status.failures = failures_;
  status.fetches = fetches_;
  return status;
}

}  // namespace weir::system::contract
