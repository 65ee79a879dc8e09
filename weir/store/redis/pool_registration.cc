// How a model's part registers, stays registered, and ends.

#include <fmt/format.h>

#include <array>
#include <random>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool_model.h"
#include "weir/store/redis/pool_scripts.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

bool is(const Reply& reply, PoolCode expected) {
  return reply.at(0).integer() == static_cast<std::int64_t>(expected);
}

std::string text_of(std::int64_t number) { return fmt::format("{}", number); }
std::string text_of(const std::optional<std::int64_t>& number) {
  return number ? fmt::format("{}", *number) : std::string();
}

std::string new_marker() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
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
  for (const auto& [number, settling] : settling_) own.settle(settling.grant, settling.used);
  const PoolCoordinatorOptions& options = host_.options();
  const ModelLimits& limits = rules_.limits;
  const std::vector<std::string> words = {
      options.instance,
      text_of(us_of(options.instance_timeout)),
      version_text_,
      limits_in_words(limits, rules_.average, options.minute, options.day),
      minute_text_,
      day_text_,
      keys_.channel,
      registration_,
      marker_,
      new_marker(),
      fmt::format("{}", last_number_),
      text_of(outstanding_),
      text_of(totals_.epoch),
      text_of(totals_.count),
      text_of(own.minute_us),
      text_of(own.used.minute.tokens),
      text_of(own.used.minute.requests),
      text_of(own.day_us),
      text_of(own.used.day.tokens),
      text_of(own.used.day.requests),
      text_of(limits.rates.tokens_per_minute),
      text_of(limits.rates.requests_per_minute),
      text_of(limits.rates.tokens_per_day),
      text_of(limits.rates.requests_per_day),
      text_of(limits.concurrent)};
  const std::vector<std::string_view> arguments(words.begin(), words.end());
  const std::array<std::string_view, 2> keys = {keys_.books, keys_.leases};
  host_.client().call(pool_scripts().enrol, keys, arguments,
                      [this](const Answer& answer) { on_enrolled(answer); });
}

void PoolModel::change(const PoolRules& rules) {
  rules_ = rules;
  version_text_ = fmt::format("{}", rules.version);
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
    return host_.on_enrolled(*this, to_error(answer.failure()));
  }
  const Reply& reply = answer.reply();
  if (is(reply, PoolCode::kMismatch)) {
    if (is_stale_) return enrol();
    phase_ = Phase::kRefused;
    mismatch_ = fmt::format(
        "mismatch: model {}: the fleet has version {} with {}, but this instance has version {} "
        "with {}; give every instance the same, or a higher version with the new one",
        in_quotes(name_), reply.at(1).integer().value_or(0), reply.at(2).text().value_or("?"),
        rules_.version,
        limits_in_words(rules_.limits, rules_.average, host_.options().minute,
                        host_.options().day));
    fail_waiting(Refused::kMismatch, mismatch_);
    return host_.on_enrolled(*this, bad_argument(mismatch_));
  }
  const auto totals = read_totals(reply, 6);
  if (!is(reply, PoolCode::kDone) || !totals || !reply.at(5).text()) {
    const std::string message = "unreachable: Redis answers a registration with nonsense";
    fail_waiting(Refused::kUnreachable, message);
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

void PoolModel::take_registration(const Reply& reply, const PoolTotals& totals) {
  const auto kind = static_cast<Kind>(reply.at(1).integer().value_or(0));
  const std::int64_t number = reply.at(3).integer().value_or(0);
  registration_ = text_of(number);
  marker_ = *reply.at(5).text();
  phase_ = Phase::kIn;
  take_totals(totals);
  if (kind == Kind::kResumed) {
    settle_until(static_cast<std::uint64_t>(reply.at(2).integer().value_or(0)));
  } else if (kind == Kind::kLost) {
    settle_until(enrolled_until_);
  } else {
    fence_since_ = static_cast<std::uint64_t>(number);
    outstanding_ = 0;
  }
  for (auto& [ignored, settling] : settling_) {
    // Whatever was sent on this connection before has been answered.
    settling.is_sent = false;
    if (kind == Kind::kNew) settling.is_fenced = true;
  }
  // The books may count acquires whose answers never came.
  if (kind == Kind::kResumed) send_heartbeat(true);
}

void PoolModel::settle_until(std::uint64_t number) {
  std::vector<Settling> settled;
  while (!settling_.empty() && settling_.begin()->first <= number) {
    settled.push_back(std::move(settling_.extract(settling_.begin()).mapped()));
  }
  for (Settling& settling : settled) {
    own_.settle(settling.grant, settling.used);
    answer(settling, settling.is_fenced ? Released::kFenced : Released::kSettled);
  }
}

void PoolModel::heartbeat() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kIn) return enrol();
  send_heartbeat(false);
  send_unsent();
}

void PoolModel::send_heartbeat(bool states_in_flight) {
  const std::string lease = text_of(us_of(host_.options().instance_timeout));
  const std::string in_flight = states_in_flight ? text_of(live_count()) : std::string();
  const std::array<std::string_view, 2> keys = {keys_.books, keys_.leases};
  const std::array<std::string_view, 7> arguments = {
      registration_, marker_, lease, minute_text_, day_text_, keys_.channel, in_flight};
  host_.client().call(pool_scripts().heartbeat, keys, arguments, [this](const Answer& answer) {
    if (!answer.ok() || phase_ != Phase::kIn) return;
    const Reply& reply = answer.reply();
    if (is(reply, PoolCode::kLost) || is(reply, PoolCode::kNotRegistered)) return come_back();
    if (const auto totals = read_totals(reply, 2)) take_totals(*totals);
  });
}

void PoolModel::on_down() {
  if (phase_ == Phase::kIn) phase_ = Phase::kOut;
}

void PoolModel::come_back() {
  if (phase_ == Phase::kIn) phase_ = Phase::kOut;
  if (phase_ == Phase::kOut) enrol();
}

void PoolModel::fail_waiting(Refused reason, const std::string& message) {
  for (const AskedRef& asked : std::exchange(waiting_, {})) {
    refuse(*asked, reason, message, reason == Refused::kUnreachable ? host_.now() : kForever);
  }
  std::vector<ReleaseCallback> callbacks;
  for (auto& [number, settling] : settling_) {
    if (settling.released) callbacks.push_back(std::exchange(settling.released, nullptr));
  }
  const Released result = reason == Refused::kStopped ? Released::kStopped : Released::kUnreachable;
  for (const ReleaseCallback& released : callbacks) released(host_.now(), result);
}

void PoolModel::unregister(std::function<void(Status)> done) {
  if (phase_ != Phase::kIn) {
    return done(
        Error{ErrorCode::kUnavailable,
              fmt::format("model {}: not registered in Redis, or not known to be; if it is, "
                          "that ends with its lease",
                          in_quotes(name_))});
  }
  const std::array<std::string_view, 2> keys = {keys_.books, keys_.leases};
  const std::array<std::string_view, 5> arguments = {registration_, marker_, minute_text_,
                                                     day_text_, keys_.channel};
  host_.client().call(pool_scripts().unregister, keys, arguments,
                      [done = std::move(done)](const Answer& answer) {
                        done(answer.ok() ? Status(Done{}) : Status(to_error(answer.failure())));
                      });
}

void PoolModel::close() {
  phase_ = Phase::kClosed;
  tell_.stop();
  fail_waiting(Refused::kStopped, "stopped: the coordinator is not running");
  settling_.clear();
}

}  // namespace weir::store::redis
