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
    : account_(std::move(account)),
      options_(std::move(options)),
      random_(options_.seed),
      token_due_(options_.authenticates ? now : kForever),
      contract_due_(now),
      counts_due_(now) {
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
  if (now < not_before_) return std::nullopt;
  const bool needs_token = options_.authenticates && token_.empty();
  if (token_due_ <= now || needs_token) return Fetch::kToken;
  if (contract_due_ <= now) return Fetch::kContract;
  if (counts_due_ <= now) return Fetch::kTokenCounts;
  return std::nullopt;
}

Instant Syncer::next_instant() const {
  const bool needs_token = options_.authenticates && token_.empty();
  const Instant due =
      needs_token ? Instant{0} : earlier_of(token_due_, earlier_of(contract_due_, counts_due_));
  return later_of(due, not_before_);
}

Status Syncer::take(Fetch what, const std::string& body, Instant now) {
  switch (what) {
    case Fetch::kToken: {
      Result<AccessToken> token = read_access_token(body);
      if (!token) return token.error();
      token_ = std::move(token->token);
      token_ends_ = now + token->lasts;
      // The margin, or a quarter of a short life; and up to an eighth more by chance.
      const Duration margin = std::min(options_.token_margin, token->lasts / 4);
      token_due_ = token_ends_ - margin - random_up_to(token->lasts / 8);
      return Done{};
    }
    case Fetch::kContract: {
      const Result<std::vector<Contract>> contracts = read_contracts(body);
      if (!contracts) return contracts.error();
      Result<std::vector<Policy>> policies = policies_of(*contracts, options_.user_id);
      if (!policies) return policies.error();
      if (Status changed = account_->change(std::move(*policies), now); !changed) return changed;
      contract_at_ = now;
      contract_due_ = now + options_.refresh;
      return Done{};
    }
    case Fetch::kTokenCounts: {
      const Result<std::vector<Account::Count>> counts = read_token_counts(body);
      if (!counts) return counts.error();
      account_->refresh(*counts, finals_before_.value_or(account_->finals()), now);
      counts_at_ = now;
      counts_due_ = now + options_.refresh;
      return Done{};
    }
  }
  return Done{};
}

void Syncer::begin(Fetch what) {
  if (what == Fetch::kTokenCounts) finals_before_ = account_->finals();
}

Status Syncer::finish(Fetch what, const Reply& reply, Instant now) {
  ++fetches_;
  std::string message;
  if (reply.status >= 200 && reply.status < 300) {
    const Status taken = take(what, reply.body, now);
    if (taken) {
      succeeded(what);
      return Done{};
    }
    message = taken.error().message;
  } else if (reply.status == 0) {
    message = fmt::format("no answer ({})", in_quotes(reply.body));
  } else if (reply.status >= 300 && reply.status < 400) {
    message = fmt::format("status {}, but redirects are not followed; write where it leads to",
                          reply.status);
  } else {
    message = fmt::format("status {}", reply.status);
  }
  trouble(what).message = fmt::format("account {}: {}: {}; the last good values stay in force",
                                      in_quotes(account_->name()), to_string(what), message);
  failed(what, reply, now);
  return Error{ErrorCode::kUnavailable, trouble(what).message};
}

void Syncer::succeeded(Fetch what) {
  trouble(what) = {};
  // A token alone is no success: one that is always refused is asked for ever more seldom.
  if (what != Fetch::kToken) failures_in_a_row_ = 0;
  not_before_ = Instant{};
}

void Syncer::failed(Fetch what, const Reply& reply, Instant now) {
  ++failures_;
  trouble(what).missing = what != Fetch::kToken && (reply.status == 404 || reply.status == 410);
  if (trouble(what).missing) {
    // Withdrawn: asked for again as seldom as values that are there.
    (what == Fetch::kContract ? contract_due_ : counts_due_) = now + options_.refresh;
    return;
  }
  ++failures_in_a_row_;
  if (reply.status == 401 || token_ends_ <= now) token_.clear();
  const auto doubled = std::min<std::uint64_t>(failures_in_a_row_ - 1, 16);
  Duration wait = std::min(options_.retry * (std::int64_t{1} << doubled), options_.refresh);
  wait = std::max(wait, options_.retry);
  if (reply.retry_after) wait = within(*reply.retry_after, options_.retry);
  if (what == Fetch::kToken && !token_.empty()) {
    // The one there is will do meanwhile.
    token_due_ = earlier_of(now + wait, token_ends_);
    return;
  }
  not_before_ = now + wait + random_up_to(wait / 4);
}

Status Syncer::step(Client& client, Instant now) {
  Status last = Done{};
  for (int i = 0; i < 3; ++i) {
    const std::optional<Fetch> what = next(now);
    if (!what) break;
    begin(*what);
    const Status status = finish(*what, client.fetch(*what, token_), now);
    if (!status) last = status;
  }
  return last;
}

SyncerStatus Syncer::status(Instant now) const {
  SyncerStatus status;
  if (contract_at_) status.contract_age = now - *contract_at_;
  if (counts_at_) status.counts_age = now - *counts_at_;
  status.has_token = !token_.empty();
  for (const Trouble& trouble : troubles_) {
    if (status.last_error.empty()) status.last_error = trouble.message;
    if (trouble.missing) status.endpoint_missing = true;
  }
  status.failures_in_a_row = failures_in_a_row_;
  status.failures = failures_;
  status.fetches = fetches_;
  return status;
}

}  // namespace weir::system::contract
