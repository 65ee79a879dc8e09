#include "weir/store/redis/pool_model.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool_scripts.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

constexpr int kTriesMax = 3;  // of one acquire: registration gone, recovery due

std::int64_t code_of(const Reply& reply) { return reply.at(0).integer().value_or(-1); }
bool is(std::int64_t code, PoolCode expected) {
  return code == static_cast<std::int64_t>(expected);
}

std::string text_of(std::int64_t number) { return fmt::format("{}", number); }
std::int64_t us_at(Instant at) { return at.ns / kNsPerUs; }

}  // namespace

PoolModel::PoolModel(PoolHost& host, std::string name, const PoolRules& rules)
    : host_(host),
      name_(std::move(name)),
      keys_(pool_keys(host.options().prefix, name_)),
      rules_(rules),
      minute_text_(text_of(us_of(host.options().minute))),
      day_text_(text_of(us_of(host.options().day))),
      version_text_(fmt::format("{}", rules.version)),
      tell_(host.loop()) {}

Duration PoolModel::left_until(SteadyInstant deadline) const {
  return std::max(Duration{0}, Duration{deadline - std::chrono::steady_clock::now()});
}

std::int64_t PoolModel::live_count() const {
  std::int64_t count = outstanding_;
  for (const auto& [number, settling] : settling_) count += settling.is_fenced ? 0 : 1;
  return count;
}

void PoolModel::take_totals(const PoolTotals& totals) {
  const bool is_fleet = totals.epoch != totals_.epoch || totals.count != totals_.count;
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
  asked->deadline = std::chrono::steady_clock::now() + host_.options().timeout;
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
  const std::string tokens = text_of(asked->estimate.tokens);
  const std::string requests = text_of(asked->estimate.requests);
  const std::array<std::string_view, 1> keys = {keys_.books};
  const std::array<std::string_view, 7> arguments = {
      registration_, marker_, version_text_, minute_text_, day_text_, tokens, requests};
  host_.client().call(pool_scripts().acquire, keys, arguments,
                      [this, asked](const Answer& answer) { on_acquired(asked, answer); },
                      {.timeout = left_until(asked->deadline),
                       .late = [this, estimate = asked->estimate](const Answer& answer) {
                         on_late(estimate, answer);
                       }});
}

void PoolModel::on_acquired(const AskedRef& asked, const Answer& answer) {
  if (!answer.ok()) return on_unreachable(asked, answer.failure());
  const Reply& reply = answer.reply();
  const std::int64_t code = code_of(reply);
  if (is(code, PoolCode::kLost) || is(code, PoolCode::kNotRegistered)) {
    come_back();
    if (asked->tries >= kTriesMax) {
      return refuse(*asked, Refused::kNotRegistered,
                    "not_registered: the instance was taken for dead and registers again",
                    host_.now());
    }
    return ask(asked);
  }
  if (is(code, PoolCode::kMismatch)) {
    // The fleet may have what this instance is about to have.
    if (phase_ == Phase::kIn) come_back();
    if (asked->tries < kTriesMax) return ask(asked);
    return refuse(*asked, Refused::kMismatch,
                  fmt::format("mismatch: model {}: the fleet has other limits", in_quotes(name_)));
  }
  if (is(code, PoolCode::kRecovering)) {
    const std::int64_t now_us = reply.at(1).integer().value_or(0);
    const std::int64_t until_us = reply.at(2).integer().value_or(0);
    if (until_us <= now_us && asked->tries < kTriesMax) {
      heartbeat();  // ends the recovery
      return ask(asked);
    }
    return refuse(*asked, Refused::kRecovering,
                  fmt::format("recovering: model {}: Redis lost its data, and the instances report "
                              "what they used",
                              in_quotes(name_)),
                  host_.now() + Duration{std::max<std::int64_t>(0, until_us - now_us) * kNsPerUs});
  }
  const auto totals = read_totals(reply, 2);
  const auto bound = reply.at(1).integer();
  const bool is_answer =
      is(code, PoolCode::kDone) || is(code, PoolCode::kExhausted) || is(code, PoolCode::kBusy);
  if (!totals || !bound || *bound < 0 || *bound > 4 || !is_answer) {
    return on_unreachable(asked, {FailureKind::kProtocol, "a reply of the wrong form", true});
  }
  take_totals(*totals);
  if (is(code, PoolCode::kDone)) return on_granted(asked, *totals);
  asked->answered(host_.now(), refusal_of(*asked, code, *bound, *totals));
}

void PoolModel::on_granted(const AskedRef& asked, const PoolTotals& totals) {
  own_.add(asked->estimate, asked->estimate);
  Grant grant{.id = host_.next_grant(),
              .fence = fence_since_,
              .model = name_,
              .estimate = asked->estimate,
              .minute = instant_of_us(totals.minute_us),
              .day = instant_of_us(totals.day_us),
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
  // It counts until it is known not to.
  if (failure.may_have_run) own_.add(asked->estimate, asked->estimate);
  refuse(*asked, Refused::kUnreachable, fmt::format("unreachable: {}", failure.message),
         host_.now());
}

void PoolModel::on_late(const Amounts& estimate, const Answer& answer) {
  if (phase_ == Phase::kClosed) return;
  const auto totals = read_totals(answer.reply(), 2);
  if (!is(code_of(answer.reply()), PoolCode::kDone) || !totals) {
    own_.add({-estimate.tokens, -estimate.requests}, {-estimate.tokens, -estimate.requests});
    return;
  }
  take_totals(*totals);
  settle({.grant = {.fence = fence_since_,
                    .model = name_,
                    .estimate = estimate,
                    .minute = instant_of_us(totals->minute_us),
                    .day = instant_of_us(totals->day_us)}});
}

void PoolModel::refuse(Asked& asked, Refused reason, std::string message, Instant retry_at) {
  asked.answered(host_.now(),
                 Refusal{reason, Dimension::kConcurrency, retry_at, std::move(message)});
}

// --- Settling.

void PoolModel::release(const Grant& grant, const Amounts& used, ReleaseCallback released) {
  if (phase_ == Phase::kClosed) return released(host_.now(), Released::kStopped);
  if (held_.erase(grant.id) == 0) return released(host_.now(), Released::kNotHeld);
  const bool is_fenced = grant.fence < fence_since_;
  if (!is_fenced) --outstanding_;
  settle({.grant = grant,
          .used = used,
          .released = std::move(released),
          .deadline = std::chrono::steady_clock::now() + host_.options().timeout,
          .is_fenced = is_fenced});
}

void PoolModel::settle(Settling settling) {
  if (!settling.released) {
    settling.deadline = std::chrono::steady_clock::now() + host_.options().timeout;
  }
  if (settling_.size() >= kReleasesKeptMax) {
    // Its estimate stays counted, its slot until the next registration.
    return answer(settling, Released::kUnreachable);
  }
  const std::uint64_t number = ++last_number_;
  settling_.emplace(number, std::move(settling));
  if (phase_ == Phase::kIn) return send_settling(number);
  enrol();
}

void PoolModel::send_settling(std::uint64_t number) {
  Settling& settling = settling_.at(number);
  settling.is_sent = true;
  const std::array<std::string, 8> numbers = {fmt::format("{}", number),
                                              text_of(settling.grant.estimate.tokens),
                                              text_of(settling.grant.estimate.requests),
                                              text_of(settling.used.tokens),
                                              text_of(settling.used.requests),
                                              text_of(us_at(settling.grant.minute)),
                                              text_of(us_at(settling.grant.day)),
                                              text_of(us_of(host_.options().announce_every))};
  const std::array<std::string_view, 1> keys = {keys_.books};
  const std::array<std::string_view, 14> arguments = {
      settling.is_fenced ? std::string_view("-") : registration_,
      marker_,
      numbers[0],
      minute_text_,
      day_text_,
      numbers[1],
      numbers[2],
      numbers[3],
      numbers[4],
      numbers[5],
      numbers[6],
      keys_.channel,
      numbers[7],
      settling.is_fenced ? "fenced" : ""};
  const auto done = [this, number](const Answer& answer) { on_released(number, answer); };
  host_.client().call(pool_scripts().release, keys, arguments, done,
                      {.timeout = left_until(settling.deadline), .late = done});
}

void PoolModel::send_unsent() {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, settling] : settling_) {
    if (settling.is_sent) continue;
    if (!settling.released) {
      settling.deadline = std::chrono::steady_clock::now() + host_.options().timeout;
    }
    numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) {
    if (phase_ == Phase::kIn && settling_.contains(number)) send_settling(number);
  }
}

void PoolModel::on_released(std::uint64_t number, const Answer& reply_or_failure) {
  const auto found = settling_.find(number);
  if (found == settling_.end() || phase_ == Phase::kClosed) return;
  if (!reply_or_failure.ok()) {
    answer(found->second, Released::kUnreachable);
    // What may be in the books is known when the late reply comes or with the next
    // registration. What is not gets a new number: a later one may be in already.
    if (reply_or_failure.failure().may_have_run) return;
    auto node = settling_.extract(number);
    if (node.empty()) return;
    node.key() = ++last_number_;
    node.mapped().is_sent = false;
    settling_.insert(std::move(node));
    return;
  }
  const Reply& reply = reply_or_failure.reply();
  const std::int64_t code = code_of(reply);
  const auto totals = read_totals(reply, 2);
  if (is(code, PoolCode::kLost) || (is(code, PoolCode::kNotRegistered) && !totals)) {
    found->second.is_sent = false;
    return come_back();
  }
  if (totals) {
    take_totals(*totals);
    own_.add({reply.at(12).integer().value_or(0), reply.at(13).integer().value_or(0)},
             {reply.at(14).integer().value_or(0), reply.at(15).integer().value_or(0)});
    if (reply.at(1).integer() == 1) tell_later();
  }
  Settling settled = std::move(settling_.extract(found).mapped());
  answer(settled, settled.is_fenced ? Released::kFenced : Released::kSettled);
}

void PoolModel::answer(Settling& settling, Released result) {
  if (settling.released) std::exchange(settling.released, nullptr)(host_.now(), result);
}

// Whoever released last before the next announcement is due makes it then.
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

void PoolModel::replay(const Amounts& used, Instant used_at, StatusCallback replayed) {
  if (phase_ != Phase::kIn) {
    return replayed(host_.now(),
                    Error{ErrorCode::kUnavailable, "the instance is not registered in Redis"});
  }
  const std::int64_t at_us = us_at(used_at) + ahead_us_;
  const PoolCoordinatorOptions& options = host_.options();
  const std::array<std::string, 4> numbers = {text_of(used.tokens), text_of(used.requests),
                                              text_of(at_us - at_us % us_of(options.minute)),
                                              text_of(at_us - at_us % us_of(options.day))};
  const std::array<std::string_view, 1> keys = {keys_.books};
  const std::array<std::string_view, 7> arguments = {
      marker_, minute_text_, day_text_, numbers[0], numbers[1], numbers[2], numbers[3]};
  const auto done = [this, used, replayed = std::move(replayed)](const Answer& answer) {
    if (!answer.ok()) return replayed(host_.now(), to_error(answer.failure()));
    if (!is(code_of(answer.reply()), PoolCode::kDone)) {
      return replayed(host_.now(), Error{ErrorCode::kUnavailable, "Redis has lost its data"});
    }
    own_.add(used, used);
    replayed(host_.now(), Done{});
  };
  host_.client().call(pool_scripts().replay, keys, arguments, done);
}

}  // namespace weir::store::redis
