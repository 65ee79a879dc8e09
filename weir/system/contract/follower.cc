// The thread asks its syncer what is due and fetches without the lock, so that status() never waits
// for a service. What the listener is told is the difference between two rounds.

#include "weir/system/contract/follower.h"

#include <algorithm>
#include <random>
#include <utility>

namespace weir::system::contract {
namespace {

// The clock is looked at so often, since it may be set, or be a manual one.
constexpr Duration kLookEvery = std::chrono::milliseconds{100};

SyncerOptions syncer_options(const FollowerOptions& options) {
  std::random_device random;
  const ServiceOptions& service = options.service;
  // A token that does not end is not fetched, and names the same user always.
  const auto named = service.asks_token ? subject_of(service.bearer) : std::nullopt;
  return {.user_id = named.value_or(service.user_id),
          .asks_token = service.asks_token,
          .authenticates = !options.service.token_url.empty(),
          .refresh = options.refresh,
          .retry = options.retry,
          .token_margin = options.token_margin,
          .seed = std::uint64_t{random()} << 32 | random()};
}

}  // namespace

Follower::Follower(std::shared_ptr<Account> account, const FollowerOptions& options, Clock& clock,
                   Listener listener)
    : Follower(std::move(account), options, std::make_unique<ServiceClient>(options.service), clock,
               std::move(listener)) {}

Follower::Follower(std::shared_ptr<Account> account, FollowerOptions options,
                   std::unique_ptr<Fetcher> fetcher, Clock& clock, Listener listener)
    : account_(std::move(account)),
      options_(std::move(options)),
      clock_(clock),
      listener_(std::move(listener)),
      fetcher_(std::move(fetcher)),
      syncer_(account_, syncer_options(options_), clock.now()) {
  note();  // before the first caller asks the account
  thread_ = std::thread([this] { run(); });
}

Follower::~Follower() {
  {
    const std::scoped_lock lock(lock_);
    is_ending_ = true;
  }
  fetcher_->cancel();
  wake_.notify_all();
  thread_.join();
}

SyncerStatus Follower::status() const {
  const std::scoped_lock lock(lock_);
  return syncer_.status(clock_.now());
}

void Follower::run() {
  std::unique_lock lock(lock_);
  while (!is_ending_) {
    if (syncer_.next(clock_.now())) {
      lock.unlock();
      fetch_what_is_due();
      lock.lock();
      continue;
    }
    const Duration wait = syncer_.next_instant() - clock_.now();
    wake_.wait_for(lock, std::clamp(wait, Duration{1'000'000}, kLookEvery));
  }
}

// A round: each at most once, and without the lock while the service is waited for.
void Follower::fetch_what_is_due() {
  const std::vector<Policy> before = account_->policies();
  std::unique_lock lock(lock_);
  for (std::size_t i = 0; i < kFetches && !is_ending_; ++i) {
    const Instant now = clock_.now();
    const std::optional<Fetch> what = syncer_.next(now);
    if (!what) break;
    syncer_.begin(*what, now);
    const std::string token = syncer_.access_token();
    lock.unlock();
    const Fetched fetched = fetcher_->fetch(*what, token);
    lock.lock();
    if (is_ending_) return;  // cancelled: no failure of the service
    // Told by its status.
    static_cast<void>(syncer_.finish(*what, fetched, clock_.now()).ok());
  }
  note();
  lock.unlock();
  tell(before);
}

// With the lock, or before the thread.
void Follower::note() const {
  const Instant now = clock_.now();
  const SyncerStatus status = syncer_.status(now);
  const auto at = [now](const std::optional<Duration>& age) {
    return age ? std::optional(now - *age) : std::nullopt;
  };
  account_->set_followed(Followed{at(status.contract_age), at(status.counts_age), status.fetches,
                                  status.failures, status.contract_missing, status.last_error,
                                  status.left_out});
}

void Follower::tell(const std::vector<Policy>& before) {
  if (!listener_) return;
  using Kind = FollowerEvent::Kind;
  SyncerStatus status = this->status();
  if (account_->policies() != before) listener_({Kind::kPolicies, *account_, {}, status});
  if (status.last_error.empty() != trouble_.empty()) {
    const Kind kind = status.last_error.empty() ? Kind::kFound : Kind::kLost;
    listener_({kind, *account_, status.last_error, status});
  }
  if (status.left_out != left_out_ && !status.left_out.empty()) {
    listener_({Kind::kLeftOut, *account_, {}, status});
  }
  left_out_ = status.left_out;
  trouble_ = status.last_error;
  listener_({Kind::kRound, *account_, trouble_, std::move(status)});
}

}  // namespace weir::system::contract
