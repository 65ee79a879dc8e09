// How a model's part registers, stays registered, and ends.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool/model.h"
#include "weir/store/redis/pool/scripts.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

bool is(const PoolReply& reply, PoolCode expected) {
  return reply.code == static_cast<std::int64_t>(expected);
}

// Two stores do not have the same, and none has 0.
std::int64_t new_marker() {
  std::random_device random;
  return std::uniform_int_distribution<std::int64_t>(1, kExactMax)(random);
}

enum class Kind : std::uint8_t {
  kNew = 0,      // nothing was known of this instance
  kResumed = 1,  // its registration was there and has been continued
  kLost = 2,     // the books were lost; what it remembers is in the new ones
};

}  // namespace

void PoolModel::enrol() {
  if (phase_ == Phase::kEnrolling || phase_ == Phase::kClosed) return;
  phase_ = Phase::kEnrolling;
  is_stale_ = false;
  enrolled_until_ = last_number_;
  OwnUsage own = own_;
  OwnUsage seen{totals_.minute_us, totals_.day_us, totals_.used};
  for (const auto& [number, settling] : settling_) {
    own.settle(settling.grant, settling.used, settling.is_granted);
    seen.settle(settling.grant, settling.used, settling.is_granted);
  }
  const PoolCoordinatorOptions& options = host_.options();
  const ModelLimits& limits = rules_.limits;
  const auto limit = [](const std::optional<std::int64_t>& value) {
    return value.value_or(kNoLimit);
  };
  const std::string numbers = packed(
      us_of(options.instance_timeout), rules_.version, us_of(options.minute), us_of(options.day),
      marker_, new_marker(), last_number_, outstanding_, totals_.epoch, most_seen_, own.minute_us,
      own.used.minute.tokens, own.used.minute.requests, own.day_us, own.used.day.tokens,
      own.used.day.requests, limit(limits.rates.tokens_per_minute),
      limit(limits.rates.requests_per_minute), limit(limits.rates.tokens_per_day),
      limit(limits.rates.requests_per_day), limit(limits.concurrent), options.trusts_empty ? 1 : 0,
      change_us_, seen.minute_us, seen.used.minute.tokens, seen.used.minute.requests, seen.day_us,
      seen.used.day.tokens, seen.used.day.requests);
  const std::string words = limits_in_words(limits, rules_.average, options.minute, options.day);
  const std::array<std::string_view, 2> keys = {keys_.books, keys_.leases};
  const std::array<std::string_view, 5> arguments = {keys_.channel, options.instance, words,
                                                     registration_, numbers};
  host_.client().call(pool_scripts().enrol, keys, arguments,
                      [this](const Answer& answer) { on_enrolled(answer); });
}

void PoolModel::change(const PoolRules& rules) {
  rules_ = rules;
  if (phase_ == Phase::kEnrolling) {
    is_stale_ = true;
    return;
  }
  enrol();
}

void PoolModel::on_enrolled(const Answer& answer) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kOut;
  if (!answer.ok()) {
    const std::string& message = answer.failure().message;
    fail_waiting(Refused::kUnreachable, fmt::format("unreachable: {}", message));
    fail_settling(Released::kUnreachable);
    return host_.on_enrolled(*this, to_error(answer.failure()));
  }
  const PoolReply reply = read_reply(answer.reply());
  if (is(reply, PoolCode::kMismatch)) {
    if (is_stale_) return enrol();
    phase_ = Phase::kRefused;
    is_kept_ = reply.more == 1;
    mismatch_ = fmt::format(
        "mismatch: model {}: the fleet has version {} with {}, but this instance has version {} "
        "with {}; give every instance the same, or a higher version with the new one",
        in_quotes(name_), reply.number(0).value_or(0),
        reply.rest.substr(std::min(sizeof(double), reply.rest.size())), rules_.version,
        limits_in_words(rules_.limits, rules_.average, host_.options().minute,
                        host_.options().day));
    fail_waiting(Refused::kMismatch, mismatch_);
    if (is_kept_) {
      // Whatever was sent on this connection before has been answered.
      for (auto& [ignored, settling] : settling_) settling.is_sent = false;
      send_unsent();
    } else {
      fail_settling(Released::kUnreachable);
    }
    return host_.on_enrolled(*this, bad_argument(mismatch_));
  }
  const auto totals = reply.totals();
  if (!is(reply, PoolCode::kDone) || !totals || !reply.number(PoolReply::kTotals + 1)) {
    const std::string message = "unreachable: Redis answers a registration with nonsense";
    fail_waiting(Refused::kUnreachable, message);
    fail_settling(Released::kUnreachable);
    return host_.on_enrolled(*this, Error{ErrorCode::kUnavailable, message});
  }
  take_registration(reply, *totals);
  if (is_stale_) {
    phase_ = Phase::kOut;
    return enrol();
  }
  host_.on_enrolled(*this, Done{});
  send_unsent();
  for (AskedRef& asked : std::exchange(waiting_, {})) ask(std::move(asked));
}

void PoolModel::take_registration(const PoolReply& reply, const PoolTotals& totals) {
  const auto kind = static_cast<Kind>(reply.more);
  const std::int64_t number = reply.number(PoolReply::kTotals).value_or(0);
  registration_ = fmt::format("{}", number);
  marker_ = totals.marker;
  phase_ = Phase::kIn;
  take_totals(totals);
  if (kind == Kind::kResumed) {
    settle_until(static_cast<std::uint64_t>(reply.number(PoolReply::kTotals + 1).value_or(0)));
  } else if (kind == Kind::kLost) {
    change_us_ = totals.now_us;
    settle_until(enrolled_until_);
  } else {
    fence_since_ = static_cast<std::uint64_t>(number);
    outstanding_ = 0;
    // The books begin to count at the last number there was.
    for (auto& [ignored, settling] : std::exchange(settling_, {})) {
      settling.is_fenced = settling.is_granted;
      settling_.emplace(++last_number_, std::move(settling));
    }
  }
  // Whatever was sent on this connection before has been answered.
  for (auto& [ignored, settling] : settling_) settling.is_sent = false;
  // The books may count acquires whose answers never came.
  if (kind == Kind::kResumed) send_heartbeat(true);
}

void PoolModel::settle_until(std::uint64_t number) {
  std::vector<Settling> settled;
  while (!settling_.empty() && settling_.begin()->first <= number) {
    settled.push_back(std::move(settling_.extract(settling_.begin()).mapped()));
  }
  for (Settling& settling : settled) {
    own_.settle(settling.grant, settling.used, settling.is_granted);
    answer(settling, settling.is_fenced ? Released::kFenced : Released::kSettled);
  }
}

void PoolModel::heartbeat() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kIn) return enrol();
  send_heartbeat(false);
  send_unsent();
}

void PoolModel::look_later() {
  if (is_looking_ || phase_ == Phase::kClosed) return;
  is_looking_ = true;
  look_.start(host_.options().announce_every, [this] {
    is_looking_ = false;
    if (phase_ == Phase::kIn) send_heartbeat(false);
  });
}

void PoolModel::send_heartbeat(bool states_in_flight) {
  const PoolCoordinatorOptions& options = host_.options();
  const std::string numbers =
      packed(marker_, us_of(options.instance_timeout), us_of(options.minute), us_of(options.day),
             states_in_flight ? live_count() : -1);
  const std::array<std::string_view, 2> keys = {keys_.books, keys_.leases};
  const std::array<std::string_view, 3> arguments = {keys_.channel, registration_, numbers};
  host_.client().call(pool_scripts().heartbeat, keys, arguments, [this](const Answer& answer) {
    if (!answer.ok() || phase_ != Phase::kIn) return;
    const PoolReply reply = read_reply(answer.reply());
    if (is(reply, PoolCode::kLost) || is(reply, PoolCode::kNotRegistered)) return come_back();
    if (const auto totals = reply.totals()) take_totals(*totals);
  });
}

void PoolModel::on_down() {
  if (phase_ == Phase::kIn) phase_ = Phase::kOut;
  is_kept_ = false;
}

void PoolModel::come_back() {
  is_kept_ = false;
  if (phase_ == Phase::kIn) phase_ = Phase::kOut;
  if (phase_ == Phase::kOut) enrol();
}

void PoolModel::fail_waiting(Refused reason, const std::string& message) {
  for (const AskedRef& asked : std::exchange(waiting_, {})) {
    refuse(*asked, reason, message, reason == Refused::kUnreachable ? host_.now() : kForever);
  }
}

void PoolModel::fail_settling(Released result) {
  std::vector<ReleaseCallback> callbacks;
  for (auto& [number, settling] : settling_) {
    if (settling.released) callbacks.push_back(std::exchange(settling.released, nullptr));
  }
  for (const ReleaseCallback& released : callbacks) released(host_.now(), result);
}

void PoolModel::unregister(std::function<void(Status)> done) {
  // What was released before goes before.
  send_unsent();
  send_batch();
  if (phase_ != Phase::kIn) {
    return done(
        Error{ErrorCode::kUnavailable,
              fmt::format("model {}: not registered in Redis, or not known to be; if it is, "
                          "that ends with its lease",
                          in_quotes(name_))});
  }
  const std::array<std::string_view, 2> keys = {keys_.books, keys_.leases};
  const std::string numbers = packed(marker_);
  const std::array<std::string_view, 3> arguments = {keys_.channel, registration_, numbers};
  host_.client().call(pool_scripts().unregister, keys, arguments,
                      [done = std::move(done)](const Answer& answer) {
                        done(answer.ok() ? Status(Done{}) : Status(to_error(answer.failure())));
                      });
}

void PoolModel::close() {
  phase_ = Phase::kClosed;
  tell_.stop();
  look_.stop();
  send_batch();  // which is not sent any more
  fail_waiting(Refused::kStopped, "stopped: the coordinator is not running");
  fail_settling(Released::kStopped);
  settling_.clear();
}

}  // namespace weir::store::redis
