// Outages: whether Redis is asked, and what is decided while it is not.
//
// Every question tells how it ended. After a few failures in a row the breaker opens: then no
// request waits for the timeout any more, and each limit's outage policy decides. A probe now and
// then, and the heartbeat, find out when Redis is back.
//
//   if (!outages.may_ask(now)) return outages.decide(items, keys, now, is_peek, outages.why());
//   ... ask ...
//   if (answer.ok()) outages.note_success();
//   else if (outages.note_failure(answer.failure())) ... decide() ... else an error, named()
//
// Thread safety: every function may be called from any thread. The callback is called by one
// thread at a time, in the order of the turns.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/engine/shared.h"
#include "weir/store/redis/link/breaker.h"
#include "weir/store/redis/link/failure.h"
#include "weir/store/redis/shared/stand_in.h"

namespace weir::store::redis {

// Whether the item refuses the request: a shadow never does.
inline bool refuses(const engine::SharedItem& item, const engine::SharedOutcome& outcome) {
  return !item.rule->shadow && !outcome.check.allowed();
}

class Outages {
 public:
  // Told why each time Redis goes out of reach; empty each time it is back.
  using Turned = std::function<void(std::string_view why)>;

  // `misplaced`: likewise, when what answers is not one Redis by itself, and when it is again.
  Outages(const BreakerShape& shape, Clock& clock, Turned turned, Turned misplaced);

  bool may_ask(Instant now) { return breaker_.may_ask(now); }
  bool is_open() const noexcept { return breaker_.is_open(); }
  // Why a call that no policy stands in for is not asked; nothing: it is.
  std::optional<Error> refusal(Instant now);

  void note_success();
  // Whether the failure is one of an outage. Otherwise Redis has answered, and nothing is admitted.
  bool note_failure(const Failure& failure);
  // The error for a failure that no policy stands in for. Notes it.
  Error failed(const Failure& failure);
  // Redis was heard of, though it has not answered in time: the next request is the probe.
  void note_sign_of_life() { breaker_.heard_of(clock_.now()); }
  // Failures are counted where a decision or a draw asked.
  void count(FailureKind kind) {
    failed_by_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  }

  // Why Redis is not asked; empty: it is.
  std::string trouble() const;
  // The same in words that are never empty.
  std::string why() const;

  // By each limit's policy; an error if one of them says so, with `why`. `rules` have the items.
  Result<engine::SharedAnswer> decide(const engine::RuleSet& rules,
                                      std::span<const engine::SharedItem> items,
                                      std::span<const std::string> keys, Instant now, bool is_peek,
                                      const std::string& why);

  // How many servers share what is left, as last heard.
  void set_servers(std::uint64_t count) { servers_.store(count, std::memory_order_relaxed); }
  std::uint64_t servers() const noexcept { return servers_.load(std::memory_order_relaxed); }

  std::uint64_t by_policy() const noexcept { return by_policy_.load(std::memory_order_relaxed); }
  std::uint64_t turns() const noexcept { return turns_.load(std::memory_order_relaxed); }
  std::uint64_t failed_by(std::size_t kind) const {
    return failed_by_[kind].load(std::memory_order_relaxed);
  }

 private:
  void note_misplaced(const Failure& failure);
  void close();

  Clock& clock_;
  const Turned turned_;
  const Turned misplaced_;
  std::mutex turn_lock_;  // while the breaker may turn
  Breaker breaker_;
  std::atomic<bool> is_misplaced_{false};  // set and cleared under turn_lock_
  StandIn stand_in_;
  mutable std::mutex lock_;
  std::string trouble_;  // guarded by lock_; of the last failure
  std::atomic<std::uint64_t> servers_{1}, by_policy_{0}, turns_{0};
  std::array<std::atomic<std::uint64_t>, kFailureKinds> failed_by_{};
};

}  // namespace weir::store::redis
