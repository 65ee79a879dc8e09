// Who owns what, and how a call finds its owner. Connections end before the owners of what they
// answer.

#include "weir/store/redis/shared/limits.h"

#include <algorithm>
#include <utility>

#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

constexpr Duration kRetryMost = std::chrono::milliseconds{500};  // between attempts to connect

ClientOptions client_options(const SharedOptions& shared) {
  ClientOptions options;
  options.address = shared.address;
  options.timeout = shared.timeout;
  // A request that waits for a slow answer gets it: the connection is not broken meanwhile.
  options.connect_timeout = std::max(options.connect_timeout, shared.timeout);
  options.silence = std::max(options.silence, shared.timeout);
  options.retry_most = kRetryMost;
  const SharedScripts& scripts = shared_scripts();
  options.scripts = {&scripts.decide,    &scripts.one_bucket, &scripts.buckets, &scripts.end,
                     &scripts.renew,     &scripts.reset,      &scripts.beat,    &scripts.draw,
                     &scripts.give_back, &scripts.slot_holds};
  return options;
}

}  // namespace

SharedLimits::SharedLimits(Loop& loop, SharedOptions options, Clock& clock)
    : loop_(loop),
      fleet_(options.name, clock, options.redis_clock),
      outages_(options.breaker, clock, std::move(options.on_turn), std::move(options.on_topology)),
      connections_(loop, client_options(options), options.connections),
      holds_(fleet_, connections_, epochs_, outages_),
      decisions_(fleet_, connections_, epochs_, outages_, holds_, doubtful_),
      source_(fleet_, connections_, epochs_, outages_, decisions_),
      leases_(source_, fleet_.prefix),
      leased_(loop, fleet_, connections_, outages_, decisions_, source_, leases_),
      levels_(fleet_, connections_, epochs_, outages_, source_, leases_),
      timers_(loop) {
  loop_.run([&] {
    heart_ = std::make_unique<Heart>(loop_, fleet_, connections_, epochs_, outages_,
                                     options.timeout, std::move(options.on_beat));
    // Requests that wait for Redis to come back are not kept waiting for the next beat.
    connections_.open(
        [this] {
          outages_.note_sign_of_life();
          heart_->beat();
        },
        // That it is out of reach, those who ask find out.
        [this](const Failure& failure) {
          if (failure.kind == FailureKind::kTopology) outages_.note_failure(failure);
        });
    heart_->beat();
  });
}

SharedLimits::~SharedLimits() {
  leased_.end();
  loop_.run([this] { heart_->stop(); });
  timers_.end();
  connections_.close();
  loop_.run([this] { heart_.reset(); });
}

void SharedLimits::decide(const engine::SharedAsk& ask, engine::SharedCallback callback) {
  if (std::any_of(ask.items.begin(), ask.items.end(), is_leased)) {
    return leased_.decide(ask, std::move(callback));
  }
  decisions_.decide(ask, std::move(callback));
}

bool SharedLimits::decide_leased(std::span<const engine::LeasedItem> items, Instant now,
                                 std::span<engine::SharedOutcome> outcomes) {
  return leased_.decide_now(items, now, outcomes);
}

void SharedLimits::end(HoldId hold, engine::HoldState as, std::span<const engine::Cost> actual,
                       std::shared_ptr<const engine::RuleSet> rules, Instant now,
                       engine::SharedEndCallback callback) {
  holds_.end(hold, as, actual, std::move(rules), now, std::move(callback));
}

void SharedLimits::renew(HoldId hold, Duration ttl, Instant, engine::HoldStateCallback callback) {
  holds_.renew(hold, ttl, std::move(callback));
}

void SharedLimits::inspect(const engine::SharedItem& item,
                           const std::shared_ptr<const engine::RuleSet>& rules, Instant now,
                           engine::LevelCallback callback) {
  levels_.inspect(item, rules, now, std::move(callback));
}

void SharedLimits::reset(const engine::SharedItem& item,
                         const std::shared_ptr<const engine::RuleSet>&, Instant now,
                         engine::StatusCallback callback) {
  levels_.reset(item, now, std::move(callback));
}

void SharedLimits::holds(const engine::SharedItem& item, std::size_t most,
                         engine::HoldsCallback callback) {
  holds_.of_slots(item, most, std::move(callback));
}

void SharedLimits::later(Duration span, std::function<void(Instant)> work) {
  timers_.after(span, [&clock = fleet_.clock, work = std::move(work)] { work(clock.now()); });
}

void SharedLimits::detach(Loop& loop) {
  connections_.detach(loop, [this](Desk& desk) { decisions_.send_gathered(desk); });
}

SharedCounts SharedLimits::counts() const {
  SharedCounts counts{.asked = decisions_.asked(),
                      .answered = decisions_.answered(),
                      .by_policy = outages_.by_policy(),
                      .turns = outages_.turns(),
                      .losses = epochs_.losses(),
                      .servers = outages_.servers(),
                      .is_out = outages_.is_open()};
  for (std::size_t i = 0; i < kFailureKinds; ++i) {
    counts.failed_by[i] = outages_.failed_by(i);
    counts.failed += counts.failed_by[i];
  }
  return counts;
}

std::vector<LeaseCounts> SharedLimits::lease_counts() { return leases_.counts(fleet_.clock.now()); }

}  // namespace weir::store::redis
