// How a model's part settles what was released, and what was used without a grant.

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool/model.h"
#include "weir/store/redis/pool/scripts.h"

namespace weir::store::redis {

using namespace system::pool;

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

void PoolModel::settle(Settling settling) {
  if (!settling.released) {
    settling.deadline = host_.now() + host_.options().timeout;
  }
  if (settling_.size() >= kReleasesKeptMax) {
    // Its estimate stays counted, its slot until the next registration.
    return answer(settling, Released::kUnreachable);
  }
  const std::uint64_t number = ++last_number_;
  settling_.emplace(number, std::move(settling));
  if (may_settle()) return send_settling(number);
  enrol();
}

void PoolModel::send_settling(std::uint64_t number) {
  settling_.at(number).is_sent = true;
  put({.number = number});
}

void PoolModel::send_unsent() {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, settling] : settling_) {
    if (settling.is_sent) continue;
    if (!settling.released) {
      settling.deadline = host_.now() + host_.options().timeout;
    }
    numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) {
    if (may_settle() && settling_.contains(number)) send_settling(number);
  }
}

void PoolModel::on_unsettled(std::uint64_t number, const Failure& failure) {
  const auto found = settling_.find(number);
  if (found == settling_.end() || phase_ == Phase::kClosed) return;
  answer(found->second, Released::kUnreachable);
  // What may be in the books is known when the late reply comes or with the next
  // registration. What is not gets a new number: a later one may be in already.
  if (failure.may_have_run) return;
  auto node = settling_.extract(number);
  if (node.empty()) return;
  node.key() = ++last_number_;
  node.mapped().is_sent = false;
  settling_.insert(std::move(node));
}

void PoolModel::on_released(std::uint64_t number, const PoolReply& reply, bool is_gone) {
  const auto found = settling_.find(number);
  if (found == settling_.end() || phase_ == Phase::kClosed) return;
  if (is_gone) {
    // It is sent again under the next registration.
    found->second.is_sent = false;
    return;
  }
  if (reply.code < 0) {
    return on_unsettled(number, {FailureKind::kProtocol, "a reply of the wrong form", true});
  }
  change_us_ = totals_.now_us;
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

void PoolModel::replay(const Amounts& used, Instant used_at, const StatusCallback& replayed) {
  if (phase_ == Phase::kClosed || settling_.size() >= kReleasesKeptMax) {
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

}  // namespace weir::store::redis
