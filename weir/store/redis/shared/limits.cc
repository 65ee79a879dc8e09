#include "weir/store/redis/shared/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <list>
#include <random>
#include <utility>

#include "weir/store/redis/shared/errors.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/meter.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

constexpr Duration kBeatEvery = std::chrono::seconds{1};
constexpr Duration kRetryMost = std::chrono::milliseconds{500};  // between attempts to connect
constexpr std::int64_t kAliveUs = 5'000'000;  // after its last beat a server is gone

std::string random_id() {
  std::random_device random;
  const auto draw = [&] { return static_cast<std::uint64_t>(random()) & 0xffff'ffff; };
  return fmt::format("{:08x}{:08x}", draw(), draw());
}

// When data was lost, as an epoch says it: its tail, all of it, is a number.
std::int64_t loss_in(std::string_view epoch) {
  if (epoch.size() < kEpochIdBytes + 2) return -1;
  std::int64_t at_us = 0;
  const char* const end = epoch.data() + epoch.size();
  const auto read = std::from_chars(epoch.data() + kEpochIdBytes + 1, end, at_us);
  return read.ec == std::errc{} && read.ptr == end ? at_us : -1;
}

// Drawn for each state of each epoch, so that a number says which one was meant, and whose.
std::uint64_t next_version() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

struct SharedLimits::Timers {
  std::list<Timer> running;
  bool is_over = false;
};

SharedLimits::SharedLimits(Loop& loop, SharedOptions options, Clock& clock)
    : loop_(loop),
      options_(std::move(options)),
      clock_(clock),
      prefix_(key_prefix(options_.name)),
      epoch_key_(prefix_ + "epoch"),
      servers_key_(prefix_ + "servers"),
      id_(random_id()),
      breaker_(options_.breaker),
      epoch_{.seen = {}, .fresh = random_id(), .version = next_version()},
      epoch_version_(epoch_.version),
      leases_(*this, prefix_),
      timers_(std::make_shared<Timers>()) {
  loop_.run([this] {
    heart_ = std::make_unique<Timer>(loop_);
    ClientOptions first = client_options();
    // Whoever waits for Redis to come back is not kept waiting for the next beat.
    first.on_up = [this] {
      breaker_.heard_of(clock_.now());
      beat();
    };
    clients_.push_back(make_client(loop_, std::move(first)));
    while (clients_.size() < std::min(options_.connections, kConnectionsMax)) {
      clients_.push_back(make_client(loop_, client_options()));
    }
    beat();
  });
}

ClientOptions SharedLimits::client_options() const {
  ClientOptions options;
  options.address = options_.address;
  options.timeout = options_.timeout;
  // Whoever waits for a slow answer gets it: the connection is not broken meanwhile.
  options.connect_timeout = std::max(options.connect_timeout, options_.timeout);
  options.silence = std::max(options.silence, options_.timeout);
  options.retry_most = kRetryMost;
  const SharedScripts& scripts = shared_scripts();
  options.scripts = {&scripts.decide, &scripts.one_bucket, &scripts.buckets,
                     &scripts.end,    &scripts.renew,      &scripts.reset,
                     &scripts.beat,   &scripts.draw,       &scripts.give_back};
  return options;
}

SharedLimits::~SharedLimits() {
  WEIR_ASSERT(attached_.empty());
  end_leases();
  loop_.run([this] {
    heart_.reset();
    ticker_.reset();
    timers_->is_over = true;
    timers_->running.clear();
  });
  for (const auto& client : clients_) client->close();
}

std::string SharedLimits::now_argument() const {
  if (options_.redis_clock == nullptr) return {};
  return fmt::format("{}", options_.redis_clock->now().ns / kNsPerUs);
}

// Each thread keeps a copy, so that nobody waits for anybody in the usual case.
const SharedLimits::Epoch& SharedLimits::epoch() const {
  thread_local Epoch mine;
  if (mine.version != epoch_version_.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(lock_);
    mine = epoch_;
  }
  return mine;
}

void SharedLimits::learn_epoch(std::string_view epoch) {
  if (epoch.empty()) return;
  const std::scoped_lock lock(lock_);
  if (!epoch_.seen.empty() && !epoch.starts_with(epoch_.seen.substr(0, kEpochIdBytes))) {
    losses_.fetch_add(1, std::memory_order_relaxed);
  }
  if (epoch == epoch_.seen) return;
  epoch_.seen = epoch;
  if (epoch.starts_with(epoch_.fresh)) epoch_.fresh = random_id();
  epoch_.version = next_version();
  epoch_.lost_at_us = loss_in(epoch);
  // Its clock may have been set back between one loss and the next, so a time from before says
  // nothing. Whoever sees the new epoch does not see that time any more.
  heard_at_us_.store(0, std::memory_order_relaxed);
  epoch_version_.store(epoch_.version, std::memory_order_release);
}

void SharedLimits::hear_time(std::int64_t now_us, std::uint64_t version) {
  if (version == 0) return;
  const std::scoped_lock lock(lock_);
  if (version == epoch_.version) heard_at_us_.store(now_us, std::memory_order_relaxed);
}

// --- outages

void SharedLimits::count_failure(FailureKind kind) {
  failed_by_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
}

void SharedLimits::note_failure(const Failure& failure) {
  {
    const std::scoped_lock lock(lock_);
    trouble_ = failure.message;
  }
  const Instant now = clock_.now();
  const std::scoped_lock lock(turn_lock_);
  if (!breaker_.failed(now)) return;
  turns_.fetch_add(1, std::memory_order_relaxed);
  stand_in_.forget(now);  // what has refilled since the outage before
  if (options_.on_turn) options_.on_turn(failure.message);
}

void SharedLimits::note_success() {
  if (!breaker_.has_failed()) return;
  const std::scoped_lock lock(turn_lock_);
  if (!breaker_.succeeded()) return;
  turns_.fetch_add(1, std::memory_order_relaxed);
  stand_in_.forget(clock_.now());
  if (options_.on_turn) options_.on_turn({});
}

void SharedLimits::beat() {
  if (heart_ == nullptr) return;  // this ends
  heart_->start(kBeatEvery, [this] { beat(); });
  const std::string alive = fmt::format("{}", kAliveUs);
  const Epoch known = epoch();
  const std::string at = now_argument();
  const std::array<std::string_view, 2> keys = {epoch_key_, servers_key_};
  const std::array<std::string_view, 5> arguments = {at, id_, known.seen, known.fresh, alive};
  clients_[0]->call(shared_scripts().beat, keys, arguments,
                    [this, sent_at = clock_.now()](const Answer& answer) {
                      if (!answer.ok()) {
                        const Failure& failure = answer.failure();
                        if (is_outage(failure.kind)) return note_failure(failure);
                        if (failure.kind == FailureKind::kForeign) count_failure(failure.kind);
                        return tell_beat(failure.message);
                      }
                      tell_beat({});
                      // A Redis that is too slow for decisions is still out of reach.
                      if (clock_.now() - sent_at < options_.timeout) {
                        note_success();
                      } else {
                        breaker_.heard_of(clock_.now());
                      }
                      const auto count = answer.reply().at(0).integer();
                      const auto heard = answer.reply().at(1).text();
                      if (heard) learn_epoch(*heard);
                      if (count && *count >= 1) {
                        servers_.store(static_cast<std::uint64_t>(*count),
                                       std::memory_order_relaxed);
                      }
                    },
                    {.timeout = kBeatEvery, .late = {}});
}

void SharedLimits::tell_beat(std::string_view why) {
  if (std::exchange(has_bad_beats_, !why.empty()) == has_bad_beats_) return;
  if (options_.on_beat) options_.on_beat(why);
}

void SharedLimits::later(Duration span, std::function<void(Instant)> work) {
  loop_.post([this, timers = timers_, span, work = std::move(work)] {
    if (timers->is_over) return;
    timers->running.emplace_front(loop_);
    const auto mine = timers->running.begin();
    mine->start(span, [this, timers, mine, work] {
      // Destroyed after it has run, not while it runs.
      std::list<Timer> done;
      done.splice(done.begin(), timers->running, mine);
      work(clock_.now());
    });
  });
}

SharedCounts SharedLimits::counts() const {
  SharedCounts counts{.asked = asked_.load(),
                      .answered = answered_.load(),
                      .by_policy = by_policy_.load(),
                      .turns = turns_.load(),
                      .losses = losses_.load(),
                      .servers = servers_.load(),
                      .is_out = breaker_.is_open()};
  for (std::size_t i = 0; i < kFailureKinds; ++i) {
    counts.failed_by[i] = failed_by_[i].load();
    counts.failed += counts.failed_by[i];
  }
  return counts;
}

std::string SharedLimits::trouble() const {
  if (!breaker_.is_open()) return {};
  const std::scoped_lock lock(lock_);
  return trouble_;
}

}  // namespace weir::store::redis
