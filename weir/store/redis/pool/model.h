// Pool model: one instance's part in the books of one model.
//
// Registers, asks, settles. Registration comes in turns: each connection, and each time the
// registration turns out to be gone, it registers anew and gets a higher number, and Redis
// no longer heeds what was asked under an earlier one. So all that a broken connection left
// unanswered is either in the books by then, or never will be. The reply says which releases
// are, by the number of the last; the others are sent again.
//
//   release 7, 8, 9 sent; connection lost; registers: "last was 8"; sends 9 again
//
// What an acquire booked whose answer is late is given back when the answer comes. If it never
// comes, the next registration settles it: its slot is not among those that it states, and the
// books tell what this instance was charged in each window, of which it gives back what it knows
// nothing of.
//
// Internal to this folder.
//
// Thread safety: none. Everything happens on the thread of its loop, callbacks too.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "weir/base/clock.h"
#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/pool/books.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/store/redis/pool/releases.h"
#include "weir/system/pool/coordinator.h"

namespace weir::store::redis {

class PoolModel;

// What the models of a coordinator share.
class PoolHost {
 public:
  virtual ~PoolHost() = default;

  virtual Loop& loop() = 0;
  virtual Instant now() = 0;
  virtual Client& client() = 0;
  virtual const PoolCoordinatorOptions& options() const = 0;
  virtual std::uint64_t next_grant() = 0;
  // Runs on the loop, after what runs now; never after the host is gone.
  virtual void post(std::function<void()> work) = 0;

  // It is registered, or was refused, or Redis could not be asked.
  virtual void on_enrolled(PoolModel& model, const Status& status) = 0;
  // Where this instance listens, as long as it does.
  virtual std::string_view alive_channel() = 0;
  // What is doubtful is more or less.
  virtual void on_doubt() = 0;
  // Its totals are newer. `is_fleet`: who shares them has changed, too.
  virtual void on_totals(PoolModel& model, bool is_fleet) = 0;
};

constexpr std::size_t kBatchMax = 64;  // requests that travel together

struct PoolRules {
  system::pool::ModelLimits limits{};
  system::pool::Amounts average{};
  std::uint64_t version = 0;
};

class PoolModel {
 public:
  using Amounts = system::pool::Amounts;
  using Grant = system::pool::Grant;

  PoolModel(PoolHost& host, std::string name, const PoolRules& rules);

  // Booked perhaps, and not known: in the current day, until Redis tells.
  const Amounts& doubtful() const noexcept { return doubtful_.used.day; }
  const std::string& name() const noexcept { return name_; }
  const PoolKeys& keys() const noexcept { return keys_; }
  const PoolRules& rules() const noexcept { return rules_; }
  const PoolTotals& totals() const noexcept { return totals_; }
  std::int64_t marker() const noexcept { return marker_; }
  bool is_in() const noexcept { return phase_ == Phase::kIn; }

  // Registers, unless that is under way. on_enrolled() is called when it has ended.
  void enrol();
  // New rules; registers with them.
  void change(const PoolRules& rules);
  // The connection is lost: the registration has to be stated again.
  void on_down();
  void heartbeat();
  // An instance joined or left: looks once for all that do so together.
  void look_later();
  // Something was freed for which a job was refused.
  void tell_later();

  void acquire(const Amounts& estimate, system::pool::AcquireCallback answered);
  void release(const Grant& grant, const Amounts& used, system::pool::ReleaseCallback released);
  // Of a job that runs already.
  void adopt(const Amounts& estimate, Instant since, system::pool::AcquireCallback answered);
  // Kept and numbered as releases are, so that it is counted once.
  void replay(const Amounts& used, Instant used_at, const system::pool::StatusCallback& replayed);
  void unregister(std::function<void(Status)> done);
  // Answers what waits here with kStopped.
  void close();

 private:
  enum class Phase : std::uint8_t { kOut, kEnrolling, kIn, kRefused, kClosed };

  // By the Redis server's clock, their begins.
  struct Windows {
    std::int64_t minute_us = 0;
    std::int64_t day_us = 0;
  };

  struct Acquire {
    Amounts estimate{};
    system::pool::AcquireCallback answered{};
    Instant deadline{};
    int tries = 0;
    std::optional<Windows> began{};    // it runs already, since then: nothing is refused
    std::optional<Windows> counted{};  // it timed out: where this instance counts it
  };
  using AcquireRef = std::shared_ptr<Acquire>;

  // What is asked together travels together: an acquire, or the number of a release.
  struct Request {
    AcquireRef asked{};
    std::uint64_t number = 0;
  };
  using Batch = std::vector<Request>;

  void put(Request request);
  void send_batch();
  std::string pack(const Batch& batch);
  void on_batch(const Batch& batch, const Answer& answer, bool is_late);
  Duration left_until(Instant deadline) const;
  void ask(AcquireRef asked);
  void on_acquired(const AcquireRef& asked, const PoolReply& reply, const PoolTotals& totals);
  void on_gone(const AcquireRef& asked);
  void on_granted(const AcquireRef& asked, const PoolTotals& totals);
  // In which windows an acquire is booked.
  static Windows windows_of(const Acquire& asked, const PoolTotals& totals);
  Windows windows_at(Instant at) const;
  void on_unreachable(const AcquireRef& asked, const Failure& failure);
  void on_late(const Acquire& asked, const PoolReply& reply, const PoolTotals& totals);
  system::pool::Refusal refusal_of(const Acquire& asked, std::int64_t code, std::int64_t bound,
                                   const PoolTotals& totals) const;
  void refuse(Acquire& asked, system::pool::Refused reason, std::string message,
              Instant retry_at = kForever);

  void settle(PoolRelease release);
  void send_release(std::uint64_t number);
  void send_unsent();
  void on_released(std::uint64_t number, const PoolReply& reply, bool is_gone);
  void on_unsettled(std::uint64_t number, const Failure& failure);
  void answer(PoolRelease& release, system::pool::Released result);

  void on_enrolled(const Answer& answer);
  void take_registration(const PoolReply& reply, const PoolTotals& totals);
  void correct_charge(const PoolReply& reply);
  void settle_until(std::uint64_t number);
  void send_heartbeat(bool states_in_flight);
  void take_totals(const PoolTotals& totals);
  void come_back();  // the registration is gone
  // Redis says that it is not, or not any more, one to be asked: an outage until it registers.
  void turn_away(const Failure& failure);
  void fail_waiting(system::pool::Refused reason, const std::string& message);
  void fail_releases(system::pool::Released result);
  bool may_settle() const noexcept {
    return phase_ == Phase::kIn || (phase_ == Phase::kRefused && is_kept_);
  }

  PoolHost& host_;
  const std::string name_;
  const PoolKeys keys_;
  PoolRules rules_;

  Phase phase_ = Phase::kOut;
  bool is_stale_ = false;             // what is being registered is no longer what should be
  std::string mismatch_;              // while refused: why
  bool is_kept_ = false;              // while refused: it is registered all the same
  std::int64_t marker_ = 0;           // of the books registered in; 0: none yet
  std::string registration_;          // empty: never registered
  std::uint64_t fence_since_ = 0;     // grants of earlier registrations are fenced
  std::uint64_t enrolled_until_ = 0;  // releases that the registration under way has counted
  PoolTotals totals_{};
  std::int64_t most_seen_ = 0;  // instances at once, in the current minute
  std::int64_t ahead_us_ = 0;   // the Redis server's clock, of the process's
  std::int64_t change_us_ = 0;  // the last change of this instance's that the books have
  OwnUsage own_{};
  OwnUsage doubtful_{};  // the part of own_ of which it is not known whether it is booked

  std::unordered_set<std::uint64_t> held_;  // grants, by id
  std::int64_t outstanding_ = 0;            // held, and not fenced
  PoolReleases releases_;
  std::deque<AcquireRef> waiting_;  // for the registration
  Batch batch_;                     // to be sent when the loop comes round
  Timer tell_;
  bool is_telling_ = false;
  Timer look_;
  bool is_looking_ = false;
};

}  // namespace weir::store::redis
