// Invariants:
// 1. Only a registered part asks (Phase::kIn). What is asked before waits for the registration; a
//    refused or closed part refuses.
// 2. One registration is under way at a time. What it states may be stale by its end, and then
//    another one follows; what an earlier one asked, Redis no longer heeds.
// 3. What an acquire has booked is either held, or among the releases, or counted in `own_` and
//    in `doubtful_` until Redis tells: by a late answer, or by a registration, before which nothing
//    is under way any more.
// 4. Each question is answered once, at its deadline at the latest, by the clock of the host.
// 5. A release waits in `releases_` until it is in the books, though its callback may have been
//    told that Redis was not reached.

#include "weir/store/redis/pool/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool/scripts.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

constexpr int kTriesMax = 3;  // of one acquire: registration gone, recovery due

// How a registration began.
enum class Kind : std::uint8_t {
  kNew = 0,      // nothing was known of this instance
  kResumed = 1,  // its registration was there and has been continued
  kLost = 2,     // the books were lost; what it remembers is in the new ones
};

bool is(std::int64_t code, PoolCode expected) {
  return code == static_cast<std::int64_t>(expected);
}

std::int64_t us_at(Instant at) { return at.ns / kNsPerUs; }

// Two stores do not have the same, and none has 0.
std::int64_t new_marker() {
  std::random_device random;
  return std::uniform_int_distribution<std::int64_t>(1, kExactMax)(random);
}

}  // namespace

PoolModel::PoolModel(PoolHost& host, std::string name, const PoolRules& rules)
    : host_(host),
      name_(std::move(name)),
      keys_(pool_keys(host.options().prefix, name_)),
      rules_(rules),
      tell_(host.loop()),
      look_(host.loop()) {}

Duration PoolModel::left_until(Instant deadline) const {
  return std::max(Duration{0}, deadline - host_.now());
}

void PoolModel::take_totals(const PoolTotals& totals) {
  const bool is_fleet = totals.epoch != totals_.epoch || totals.count != totals_.count;
  most_seen_ =
      totals.minute_us > totals_.minute_us ? totals.count : std::max(most_seen_, totals.count);
  totals_ = totals;
  ahead_us_ = totals.now_us - us_at(host_.now());
  own_.roll(totals.minute_us, totals.day_us);
  doubtful_.roll(totals.minute_us, totals.day_us);
  host_.on_totals(*this, is_fleet);
}

// --- Asking.

void PoolModel::acquire(const Amounts& estimate, AcquireCallback answered) {
  auto asked = std::make_shared<Acquire>();
  asked->estimate = estimate;
  asked->answered = std::move(answered);
  asked->deadline = host_.now() + host_.options().timeout;
  for (const Dimension rate : kRates) {
    const auto& limit = rules_.limits.rates.of(rate);
    if (!limit || estimate.of(rate) <= *limit) continue;
    return asked->answered(
        host_.now(),
        Refusal{Refused::kNever, rate, kForever,
                fmt::format("never: model {}: the estimate is {}, but {} is {}", in_quotes(name_),
                            estimate.of(rate), to_string(rate), *limit)});
  }
  ask(std::move(asked));
}

void PoolModel::adopt(const Amounts& estimate, Instant since, AcquireCallback answered) {
  auto asked = std::make_shared<Acquire>();
  asked->estimate = estimate;
  asked->answered = std::move(answered);
  asked->deadline = host_.now() + host_.options().timeout;
  asked->began = windows_at(since);
  ask(std::move(asked));
}

PoolModel::Windows PoolModel::windows_of(const Acquire& asked, const PoolTotals& totals) {
  return asked.began.value_or(Windows{totals.minute_us, totals.day_us});
}

PoolModel::Windows PoolModel::windows_at(Instant at) const {
  const std::int64_t at_us = us_at(at) + ahead_us_;
  return {at_us - at_us % us_of(host_.options().minute),
          at_us - at_us % us_of(host_.options().day)};
}

void PoolModel::ask(AcquireRef asked) {
  switch (phase_) {
    case Phase::kClosed:
      return refuse(*asked, Refused::kStopped, "stopped: the coordinator is not running");
    case Phase::kRefused:
      return refuse(*asked, Refused::kMismatch, mismatch_);
    case Phase::kOut:
    case Phase::kEnrolling:
      waiting_.push_back(std::move(asked));
      return enrol();
    case Phase::kIn:
      break;
  }
  ++asked->tries;
  put({.asked = std::move(asked)});
}

void PoolModel::put(Request request) {
  batch_.push_back(std::move(request));
  if (batch_.size() >= kBatchMax) return send_batch();
  if (batch_.size() == 1) host_.post([this] { send_batch(); });
}

void PoolModel::send_batch() {
  if (batch_.empty()) return;
  auto batch = std::make_shared<Batch>();
  for (Request& request : std::exchange(batch_, {})) {
    if (request.asked ? phase_ == Phase::kIn : may_settle()) {
      batch->push_back(std::move(request));
    } else if (request.asked) {
      // The registration went meanwhile.
      ask(std::move(request.asked));
    } else if (PoolRelease* const release = releases_.find(request.number)) {
      release->is_sent = false;
    }
  }
  if (batch->empty()) return;
  Instant deadline = kForever;
  for (const Request& request : *batch) {
    const PoolRelease* const release = releases_.find(request.number);
    if (request.asked) deadline = earlier_of(deadline, request.asked->deadline);
    if (release != nullptr) deadline = earlier_of(deadline, release->deadline);
  }
  const std::string numbers = pack(*batch);
  const std::array<std::string_view, 1> keys = {keys_.books};
  const std::array<std::string_view, 3> arguments = {registration_, keys_.channel, numbers};
  host_.client().call(
      pool_scripts().work, keys, arguments,
      [this, batch](const Answer& answer) { on_batch(*batch, answer, false); },
      {.timeout = left_until(deadline),
       .late = [this, batch](const Answer& answer) { on_batch(*batch, answer, true); }});
}

std::string PoolModel::pack(const Batch& batch) {
  const PoolCoordinatorOptions& options = host_.options();
  std::string text = packed(marker_, rules_.version, us_of(options.minute), us_of(options.day),
                            us_of(options.announce_every), batch.size());
  for (const Request& request : batch) {
    if (request.asked) {
      const auto& [tokens, requests] = request.asked->estimate;
      const std::optional<Windows>& began = request.asked->began;
      text.append(began ? packed(3, tokens, requests, began->minute_us, began->day_us)
                        : packed(0, tokens, requests));
      continue;
    }
    // A release that has been settled meanwhile has its number in the books.
    const PoolRelease* const found = releases_.find(request.number);
    const PoolRelease release = found == nullptr ? PoolRelease{} : *found;
    text.append(packed(release.is_granted ? 1 : 2,
                       release.used.tokens - release.grant.estimate.tokens,
                       release.used.requests - release.grant.estimate.requests,
                       found == nullptr ? 0 : request.number, us_at(release.grant.minute),
                       us_at(release.grant.day), release.is_fenced ? 1 : 0));
  }
  return text;
}

// A late answer settles releases all the same; what it granted is given back.
void PoolModel::on_batch(const Batch& batch, const Answer& answer, bool is_late) {
  if (phase_ == Phase::kClosed && is_late) return;
  const PoolReply reply = answer.ok() ? read_reply(answer.reply()) : PoolReply{};
  const auto totals = reply.totals();
  const bool is_gone = is(reply.code, PoolCode::kLost) || is(reply.code, PoolCode::kNotRegistered);
  if (is_gone) come_back();
  if (!answer.ok() || (!is_gone && (!is(reply.code, PoolCode::kDone) || !totals))) {
    const Failure nonsense{FailureKind::kProtocol, "a reply of the wrong form", true};
    const Failure& failure = answer.ok() ? nonsense : answer.failure();
    if (!is_late) turn_away(failure);
    for (const Request& request : batch) {
      if (request.asked && !is_late) on_unreachable(request.asked, failure);
      if (!request.asked) on_unsettled(request.number, failure);
    }
    return;
  }
  if (totals) {
    take_totals(*totals);
    const auto sum = [&](std::size_t place) {
      return reply.number(PoolReply::kTotals + place).value_or(0);
    };
    own_.add({sum(0), sum(1)}, {sum(2), sum(3)});
    if (reply.more == 1) tell_later();
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Request& request = batch[i];
    const PoolReply own = is_gone ? reply : reply.of_request(i);
    if (!request.asked) {
      on_released(request.number, own, is_gone);
    } else if (is_late) {
      on_late(*request.asked, own, totals.value_or(PoolTotals{}));
    } else if (is_gone) {
      on_gone(request.asked);
    } else {
      on_acquired(request.asked, own, *totals);
    }
  }
}

void PoolModel::on_gone(const AcquireRef& asked) {
  if (asked->tries < kTriesMax) return ask(asked);
  refuse(*asked, Refused::kNotRegistered,
         "not_registered: the instance was taken for dead and registers again", host_.now());
}

void PoolModel::on_acquired(const AcquireRef& asked, const PoolReply& reply,
                            const PoolTotals& totals) {
  const std::int64_t code = reply.code;
  if (is(code, PoolCode::kMismatch)) {
    // The fleet may have what this instance is about to have.
    come_back();
    if (asked->tries < kTriesMax) return ask(asked);
    return refuse(*asked, Refused::kMismatch,
                  fmt::format("mismatch: model {}: the fleet has other limits", in_quotes(name_)));
  }
  if (is(code, PoolCode::kRecovering)) {
    const std::int64_t left_us = std::max<std::int64_t>(0, totals.recover_at_us - totals.now_us);
    if (left_us == 0 && asked->tries < kTriesMax) {
      heartbeat();  // ends the recovery
      return ask(asked);
    }
    return refuse(*asked, Refused::kRecovering,
                  fmt::format("recovering: model {}: Redis lost its data, and the instances report "
                              "what they used",
                              in_quotes(name_)),
                  host_.now() + Duration{left_us * kNsPerUs});
  }
  if (is(code, PoolCode::kDone)) return on_granted(asked, totals);
  if ((!is(code, PoolCode::kExhausted) && !is(code, PoolCode::kBusy)) || reply.more < 0 ||
      reply.more > 4) {
    return on_unreachable(asked, {FailureKind::kProtocol, "a reply of the wrong form", true});
  }
  asked->answered(host_.now(), refusal_of(*asked, code, reply.more, totals));
}

void PoolModel::on_granted(const AcquireRef& asked, const PoolTotals& totals) {
  const Windows windows = windows_of(*asked, totals);
  own_.add(windows.minute_us == totals.minute_us ? asked->estimate : Amounts{},
           windows.day_us == totals.day_us ? asked->estimate : Amounts{});
  change_us_ = totals.now_us;
  Grant grant{.id = host_.next_grant(),
              .fence = fence_since_,
              .model = name_,
              .estimate = asked->estimate,
              .minute = instant_of_us(windows.minute_us),
              .day = instant_of_us(windows.day_us),
              .used = totals.used};
  held_.insert(grant.id);
  ++outstanding_;
  asked->answered(host_.now(), std::move(grant));
}

Refusal PoolModel::refusal_of(const Acquire& asked, std::int64_t code, std::int64_t bound,
                              const PoolTotals& totals) const {
  const auto dimension = static_cast<Dimension>(bound);
  const bool is_day =
      dimension == Dimension::kTokensPerDay || dimension == Dimension::kRequestsPerDay;
  const PoolCoordinatorOptions& options = host_.options();
  const std::int64_t end_us =
      is_day ? totals.day_us + us_of(options.day) : totals.minute_us + us_of(options.minute);
  const Instant retry_at =
      host_.now() + Duration{std::max<std::int64_t>(0, end_us - totals.now_us) * kNsPerUs};
  if (is(code, PoolCode::kBusy)) {
    return {Refused::kBusy, dimension, retry_at,
            fmt::format("busy: model {}: {} of {} jobs are in flight", in_quotes(name_),
                        totals.in_flight, rules_.limits.concurrent.value_or(0))};
  }
  const Amounts& used = is_day ? totals.used.day : totals.used.minute;
  return {Refused::kExhausted, dimension, retry_at,
          fmt::format("exhausted: model {}: {} of {} {} are used or reserved, and {} wanted",
                      in_quotes(name_), used.of(dimension),
                      rules_.limits.rates.of(dimension).value_or(0), to_string(dimension),
                      asked.estimate.of(dimension))};
}

void PoolModel::on_unreachable(const AcquireRef& asked, const Failure& failure) {
  if (phase_ == Phase::kClosed) {
    return refuse(*asked, Refused::kStopped, "stopped: the coordinator is not running");
  }
  // It counts until it is known not to.
  if (failure.may_have_run) {
    own_.add(asked->estimate, asked->estimate);
    doubtful_.add(asked->estimate, asked->estimate);
    asked->counted = Windows{own_.minute_us, own_.day_us};
    host_.on_doubt();
  }
  refuse(*asked, Refused::kUnreachable, fmt::format("unreachable: {}", failure.message),
         host_.now());
}

// Of what timed out and was counted as if it had been granted.
void PoolModel::on_late(const Acquire& asked, const PoolReply& reply, const PoolTotals& totals) {
  const Amounts& estimate = asked.estimate;
  if (asked.counted) {
    const Amounts back{-estimate.tokens, -estimate.requests};
    const Amounts minute = asked.counted->minute_us == own_.minute_us ? back : Amounts{};
    const Amounts day = asked.counted->day_us == own_.day_us ? back : Amounts{};
    doubtful_.add(minute, day);
    own_.add(minute, day);
    host_.on_doubt();
  }
  if (!is(reply.code, PoolCode::kDone)) return;
  const Windows windows = windows_of(asked, totals);
  own_.add(windows.minute_us == totals.minute_us ? estimate : Amounts{},
           windows.day_us == totals.day_us ? estimate : Amounts{});
  change_us_ = totals.now_us;
  settle({.grant = {.fence = fence_since_,
                    .model = name_,
                    .estimate = estimate,
                    .minute = instant_of_us(windows.minute_us),
                    .day = instant_of_us(windows.day_us)}});
}

void PoolModel::refuse(Acquire& asked, Refused reason, std::string message, Instant retry_at) {
  asked.answered(host_.now(),
                 Refusal{reason, Dimension::kConcurrency, retry_at, std::move(message)});
}

// --- Settling what was released, and what was used without a grant.

void PoolModel::release(const Grant& grant, const Amounts& used, ReleaseCallback released) {
  if (phase_ == Phase::kClosed) return released(host_.now(), Released::kStopped);
  if (held_.erase(grant.id) == 0) return released(host_.now(), Released::kNotHeld);
  const bool is_fenced = grant.fence < fence_since_;
  if (!is_fenced) --outstanding_;
  settle({.grant = grant,
          .used = used,
          .released = std::move(released),
          .deadline = host_.now() + host_.options().timeout,
          .is_fenced = is_fenced});
}

void PoolModel::settle(PoolRelease release) {
  if (!release.released) release.deadline = host_.now() + host_.options().timeout;
  if (releases_.is_full()) {
    // Its estimate stays counted, its slot until the next registration.
    return answer(release, Released::kUnreachable);
  }
  const std::uint64_t number = releases_.add(std::move(release));
  if (may_settle()) return send_release(number);
  enrol();
}

void PoolModel::send_release(std::uint64_t number) {
  releases_.find(number)->is_sent = true;
  put({.number = number});
}

void PoolModel::send_unsent() {
  const std::vector<std::uint64_t> numbers = releases_.unsent();
  for (const std::uint64_t number : numbers) {
    PoolRelease& release = *releases_.find(number);
    // One that was answered is in no hurry.
    if (!release.released) release.deadline = host_.now() + host_.options().timeout;
  }
  for (const std::uint64_t number : numbers) {
    if (may_settle() && releases_.find(number) != nullptr) send_release(number);
  }
}

void PoolModel::on_unsettled(std::uint64_t number, const Failure& failure) {
  PoolRelease* const release = releases_.find(number);
  if (release == nullptr || phase_ == Phase::kClosed) return;
  answer(*release, Released::kUnreachable);
  // What may be in the books is known when the late reply comes or with the next registration.
  if (!failure.may_have_run) releases_.renumber(number);
}

void PoolModel::on_released(std::uint64_t number, const PoolReply& reply, bool is_gone) {
  PoolRelease* const release = releases_.find(number);
  if (release == nullptr || phase_ == Phase::kClosed) return;
  if (is_gone) {
    // It is sent again under the next registration.
    release->is_sent = false;
    return;
  }
  if (reply.code < 0) {
    return on_unsettled(number, {FailureKind::kProtocol, "a reply of the wrong form", true});
  }
  change_us_ = totals_.now_us;
  PoolRelease settled = releases_.take(number);
  answer(settled, settled.is_fenced ? Released::kFenced : Released::kSettled);
}

void PoolModel::answer(PoolRelease& release, Released result) {
  if (release.released) std::exchange(release.released, nullptr)(host_.now(), result);
}

// The last instance that released before the next announcement is due makes it then.
void PoolModel::tell_later() {
  if (is_telling_) return;
  is_telling_ = true;
  tell_.start(host_.options().announce_every, [this] {
    is_telling_ = false;
    const std::array<std::string_view, 1> keys = {keys_.books};
    const std::array<std::string_view, 1> arguments = {keys_.channel};
    host_.client().call(pool_scripts().tell, keys, arguments, [](const Answer&) {});
  });
}

void PoolModel::replay(const Amounts& used, Instant used_at, const StatusCallback& replayed) {
  if (phase_ == Phase::kClosed || releases_.is_full()) {
    return replayed(host_.now(), Error{ErrorCode::kUnavailable,
                                       fmt::format("model {}: what was used cannot be kept for "
                                                   "Redis: stopped, or there is too much of it",
                                                   in_quotes(name_))});
  }
  const Windows windows = windows_at(used_at);
  settle({.grant = {.model = name_,
                    .minute = instant_of_us(windows.minute_us),
                    .day = instant_of_us(windows.day_us)},
          .used = used,
          .is_granted = false});
  replayed(host_.now(), Done{});
}

// --- Registering, staying registered, ending.

void PoolModel::enrol() {
  if (phase_ == Phase::kEnrolling || phase_ == Phase::kClosed) return;
  phase_ = Phase::kEnrolling;
  is_stale_ = false;
  enrolled_until_ = releases_.last_number();
  OwnUsage own = own_;
  own.subtract(doubtful_);
  OwnUsage seen{totals_.minute_us, totals_.day_us, totals_.used};
  releases_.for_each([&](const PoolRelease& release) {
    own.settle(release.grant, release.used, release.is_granted);
    seen.settle(release.grant, release.used, release.is_granted);
  });
  const PoolCoordinatorOptions& options = host_.options();
  const ModelLimits& limits = rules_.limits;
  const auto limit = [](const std::optional<std::int64_t>& value) {
    return value.value_or(kNoLimit);
  };
  const std::string numbers = packed(
      us_of(options.instance_timeout), rules_.version, us_of(options.minute), us_of(options.day),
      marker_, new_marker(), releases_.last_number(), outstanding_, totals_.epoch, most_seen_,
      own.minute_us, own.used.minute.tokens, own.used.minute.requests, own.day_us,
      own.used.day.tokens, own.used.day.requests, limit(limits.rates.tokens_per_minute),
      limit(limits.rates.requests_per_minute), limit(limits.rates.tokens_per_day),
      limit(limits.rates.requests_per_day), limit(limits.concurrent), options.trusts_empty ? 1 : 0,
      change_us_, seen.minute_us, seen.used.minute.tokens, seen.used.minute.requests, seen.day_us,
      seen.used.day.tokens, seen.used.day.requests);
  const std::string words = limits_in_words(limits, rules_.average, options.minute, options.day);
  const std::array<std::string_view, 3> keys = {keys_.books, keys_.leases, keys_.left};
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
    if (answer.failure().kind == FailureKind::kTopology && registration_.empty()) {
      // It never was the Redis of a fleet: not for a policy to make good.
      fail_waiting(Refused::kMismatch, fmt::format("mismatch: {}", message));
      fail_releases(Released::kUnreachable);
      return host_.on_enrolled(*this, bad_argument(message));
    }
    fail_waiting(Refused::kUnreachable, fmt::format("unreachable: {}", message));
    fail_releases(Released::kUnreachable);
    return host_.on_enrolled(*this, to_error(answer.failure()));
  }
  const PoolReply reply = read_reply(answer.reply());
  if (is(reply.code, PoolCode::kMismatch)) {
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
      // All that was sent on this connection before has been answered.
      releases_.forget_sent();
      send_unsent();
    } else {
      fail_releases(Released::kUnreachable);
    }
    return host_.on_enrolled(*this, bad_argument(mismatch_));
  }
  const auto totals = reply.totals();
  if (!is(reply.code, PoolCode::kDone) || !totals || !reply.number(PoolReply::kTotals + 1)) {
    const std::string message = "unreachable: Redis answers a registration with nonsense";
    fail_waiting(Refused::kUnreachable, message);
    fail_releases(Released::kUnreachable);
    return host_.on_enrolled(*this, Error{ErrorCode::kUnavailable, message});
  }
  take_registration(reply, *totals);
  if (is_stale_) {
    phase_ = Phase::kOut;
    return enrol();
  }
  host_.on_enrolled(*this, Done{});
  send_unsent();
  for (AcquireRef& asked : std::exchange(waiting_, {})) ask(std::move(asked));
}

void PoolModel::take_registration(const PoolReply& reply, const PoolTotals& totals) {
  const auto kind = static_cast<Kind>(reply.more);
  const std::int64_t number = reply.number(PoolReply::kTotals).value_or(0);
  registration_ = fmt::format("{}", number);
  marker_ = totals.marker;
  phase_ = Phase::kIn;
  take_totals(totals);
  if (kind == Kind::kLost) {
    change_us_ = totals.now_us;
    settle_until(enrolled_until_);
  } else {
    settle_until(static_cast<std::uint64_t>(reply.number(PoolReply::kTotals + 1).value_or(0)));
  }
  if (kind == Kind::kNew) {
    fence_since_ = static_cast<std::uint64_t>(number);
    outstanding_ = 0;
    releases_.fence();
  }
  own_.subtract(std::exchange(doubtful_, OwnUsage{own_.minute_us, own_.day_us}));
  host_.on_doubt();
  if (kind != Kind::kLost) correct_charge(reply);
  // All that was sent on this connection before has been answered.
  releases_.forget_sent();
  // The books may count acquires whose answers never came.
  if (kind == Kind::kResumed) send_heartbeat(true);
}

// Gives back what the books have charged this instance in their windows and it knows nothing of:
// acquires whose answers never came, and which nobody waits for any more. As a use without a grant,
// of less than nothing, which has a number as a release has, so that it counts once.
void PoolModel::correct_charge(const PoolReply& reply) {
  const auto number = [&](std::size_t place) {
    return std::max<std::int64_t>(0, reply.number(PoolReply::kTotals + 2 + place).value_or(0));
  };
  const auto correct = [&](std::size_t place, std::int64_t window_us, Amounts& own,
                           Instant Grant::*window) {
    if (number(place) != window_us) return;
    const Amounts more{std::max<std::int64_t>(0, number(place + 1) - own.tokens),
                       std::max<std::int64_t>(0, number(place + 2) - own.requests)};
    if (more == Amounts{} || releases_.is_full()) return;
    // Until it is counted it is own, as the books have it.
    own.tokens += more.tokens;
    own.requests += more.requests;
    PoolRelease back{
        .grant = {.model = name_}, .used = {-more.tokens, -more.requests}, .is_granted = false};
    back.grant.*window = instant_of_us(window_us);
    releases_.add(std::move(back));  // sent in its turn, after those before it
  };
  correct(0, own_.minute_us, own_.used.minute, &Grant::minute);
  correct(3, own_.day_us, own_.used.day, &Grant::day);
}

void PoolModel::settle_until(std::uint64_t number) {
  for (PoolRelease& release : releases_.take_until(number)) {
    own_.settle(release.grant, release.used, release.is_granted);
    answer(release, release.is_fenced ? Released::kFenced : Released::kSettled);
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
             states_in_flight ? outstanding_ + releases_.live_count() : -1);
  const std::array<std::string_view, 3> keys = {keys_.books, keys_.leases, keys_.left};
  const std::array<std::string_view, 4> arguments = {keys_.channel, registration_, numbers,
                                                     host_.alive_channel()};
  host_.client().call(pool_scripts().heartbeat, keys, arguments, [this](const Answer& answer) {
    if (phase_ != Phase::kIn) return;
    if (!answer.ok()) return turn_away(answer.failure());
    const PoolReply reply = read_reply(answer.reply());
    if (is(reply.code, PoolCode::kLost) || is(reply.code, PoolCode::kNotRegistered))
      return come_back();
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

void PoolModel::turn_away(const Failure& failure) {
  if (phase_ != Phase::kIn) return;
  if (failure.kind != FailureKind::kTopology && failure.kind != FailureKind::kRefusedUser) return;
  on_down();
  host_.on_enrolled(*this, Error{ErrorCode::kUnavailable, failure.message});
}

void PoolModel::fail_waiting(Refused reason, const std::string& message) {
  for (const AcquireRef& asked : std::exchange(waiting_, {})) {
    refuse(*asked, reason, message, reason == Refused::kUnreachable ? host_.now() : kForever);
  }
}

void PoolModel::fail_releases(Released result) {
  for (const ReleaseCallback& released : releases_.take_callbacks()) released(host_.now(), result);
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
  const std::array<std::string_view, 3> keys = {keys_.books, keys_.leases, keys_.left};
  const std::string numbers =
      packed(marker_, us_of(host_.options().instance_timeout), us_of(host_.options().day));
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
  fail_releases(Released::kStopped);
  releases_.clear();
}

}  // namespace weir::store::redis
