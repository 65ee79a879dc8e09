#include "weir/store/redis/pool/model.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool/scripts.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

constexpr int kTriesMax = 3;  // of one acquire: registration gone, recovery due

bool is(std::int64_t code, PoolCode expected) {
  return code == static_cast<std::int64_t>(expected);
}

std::int64_t us_at(Instant at) { return at.ns / kNsPerUs; }

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

std::int64_t PoolModel::live_count() const {
  std::int64_t count = outstanding_;
  for (const auto& [number, settling] : settling_) {
    count += settling.is_granted && !settling.is_fenced ? 1 : 0;
  }
  return count;
}

void PoolModel::take_totals(const PoolTotals& totals) {
  const bool is_fleet = totals.epoch != totals_.epoch || totals.count != totals_.count;
  most_seen_ =
      totals.minute_us > totals_.minute_us ? totals.count : std::max(most_seen_, totals.count);
  totals_ = totals;
  ahead_us_ = totals.now_us - us_at(host_.now());
  own_.roll(totals.minute_us, totals.day_us);
  host_.on_totals(*this, is_fleet);
}

// --- Asking.

void PoolModel::acquire(const Amounts& estimate, AcquireCallback answered) {
  auto asked = std::make_shared<Asked>();
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
  auto asked = std::make_shared<Asked>();
  asked->estimate = estimate;
  asked->answered = std::move(answered);
  asked->deadline = host_.now() + host_.options().timeout;
  asked->began = windows_at(since);
  ask(std::move(asked));
}

PoolModel::Windows PoolModel::windows_of(const Asked& asked, const PoolTotals& totals) {
  return asked.began.value_or(Windows{totals.minute_us, totals.day_us});
}

PoolModel::Windows PoolModel::windows_at(Instant at) const {
  const std::int64_t at_us = us_at(at) + ahead_us_;
  return {at_us - at_us % us_of(host_.options().minute),
          at_us - at_us % us_of(host_.options().day)};
}

void PoolModel::ask(AskedRef asked) {
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
    } else if (const auto found = settling_.find(request.number); found != settling_.end()) {
      found->second.is_sent = false;
    }
  }
  if (batch->empty()) return;
  Instant deadline = kForever;
  for (const Request& request : *batch) {
    const auto found = settling_.find(request.number);
    if (request.asked) deadline = std::min(deadline, request.asked->deadline);
    if (found != settling_.end()) deadline = std::min(deadline, found->second.deadline);
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

std::string PoolModel::pack(const Batch& batch) const {
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
    const auto found = settling_.find(request.number);
    const Settling settling = found == settling_.end() ? Settling{} : found->second;
    text.append(packed(settling.is_granted ? 1 : 2,
                       settling.used.tokens - settling.grant.estimate.tokens,
                       settling.used.requests - settling.grant.estimate.requests,
                       found == settling_.end() ? 0 : request.number, us_at(settling.grant.minute),
                       us_at(settling.grant.day), settling.is_fenced ? 1 : 0));
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

void PoolModel::on_gone(const AskedRef& asked) {
  if (asked->tries < kTriesMax) return ask(asked);
  refuse(*asked, Refused::kNotRegistered,
         "not_registered: the instance was taken for dead and registers again", host_.now());
}

void PoolModel::on_acquired(const AskedRef& asked, const PoolReply& reply,
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

void PoolModel::on_granted(const AskedRef& asked, const PoolTotals& totals) {
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

Refusal PoolModel::refusal_of(const Asked& asked, std::int64_t code, std::int64_t bound,
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

void PoolModel::on_unreachable(const AskedRef& asked, const Failure& failure) {
  if (phase_ == Phase::kClosed) {
    return refuse(*asked, Refused::kStopped, "stopped: the coordinator is not running");
  }
  // It counts until it is known not to.
  if (failure.may_have_run) {
    own_.add(asked->estimate, asked->estimate);
    asked->counted = Windows{own_.minute_us, own_.day_us};
  }
  refuse(*asked, Refused::kUnreachable, fmt::format("unreachable: {}", failure.message),
         host_.now());
}

// Of what timed out and was counted as if it had been granted.
void PoolModel::on_late(const Asked& asked, const PoolReply& reply, const PoolTotals& totals) {
  const Amounts& estimate = asked.estimate;
  if (!is(reply.code, PoolCode::kDone)) {
    if (!asked.counted) return;
    const Amounts back{-estimate.tokens, -estimate.requests};
    own_.add(asked.counted->minute_us == own_.minute_us ? back : Amounts{},
             asked.counted->day_us == own_.day_us ? back : Amounts{});
    return;
  }
  const Windows windows = windows_of(asked, totals);
  change_us_ = totals.now_us;
  settle({.grant = {.fence = fence_since_,
                    .model = name_,
                    .estimate = estimate,
                    .minute = instant_of_us(windows.minute_us),
                    .day = instant_of_us(windows.day_us)}});
}

void PoolModel::refuse(Asked& asked, Refused reason, std::string message, Instant retry_at) {
  asked.answered(host_.now(),
                 Refusal{reason, Dimension::kConcurrency, retry_at, std::move(message)});
}

}  // namespace weir::store::redis
