// Decisions: asks Redis whether requests pass, each in one round trip.
//
// A request that meets buckets only takes a short script; those that a loop asks in one turn leave
// together, in one call. All others take the script that knows every meter and holds. What Redis
// does not answer is decided by the outage policies.
//
//   request ─► buckets only? ─yes─► has the thread a desk? ─yes─► gathered until the loop's turn
//   ends
//                  │no                    │no                               │
//                  ▼                      ▼                                 ▼
//             decide.lua            one_bucket.lua                   one_bucket.lua, buckets.lua
//                  ▲                      │   another epoch, or something foreign   │
//                  └──────────────────────┴─────────────────────────────────────────┘
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "weir/engine/shared.h"
#include "weir/store/redis/shared/connections.h"
#include "weir/store/redis/shared/doubtful.h"
#include "weir/store/redis/shared/epochs.h"
#include "weir/store/redis/shared/fleet.h"
#include "weir/store/redis/shared/holds.h"
#include "weir/store/redis/shared/outages.h"

namespace weir::store::redis {

class Decisions {
 public:
  // `holds` gives back the hold of an answer that came too late; `doubtful` remembers those of
  // which it is not known whether they were made.
  Decisions(const Fleet& fleet, Connections& connections, Epochs& epochs, Outages& outages,
            SharedHolds& holds, DoubtfulHolds& doubtful)
      : fleet_(fleet),
        connections_(connections),
        epochs_(epochs),
        outages_(outages),
        holds_(holds),
        doubtful_(doubtful) {}

  // As SharedStore has it, in Redis for every item.
  void decide(const engine::SharedAsk& ask, engine::SharedCallback callback);
  // Sends what has been gathered at this thread's desk.
  void send_gathered(Desk& desk);

  // Questions, draws of leases included: sent, and answered in time.
  void count_asked() { asked_.fetch_add(1, std::memory_order_relaxed); }
  void count_answered() { answered_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t asked() const noexcept { return asked_.load(std::memory_order_relaxed); }
  std::uint64_t answered() const noexcept { return answered_.load(std::memory_order_relaxed); }

 private:
  struct Question;
  using QuestionRef = std::shared_ptr<Question>;
  friend struct Gathered;

  void gather(Desk& desk, QuestionRef asked);
  // Requests for buckets, on their way together.
  void ask_buckets(Client& client, std::vector<QuestionRef> all);
  void ask_one_bucket(Client& client, const QuestionRef& asked, const Epoch& known);
  void on_buckets(Client& client, std::span<const QuestionRef> all, const Answer& answer);
  // Any request, alone.
  void ask_all(Client& client, const QuestionRef& asked);
  void on_decided(Question& asked, const Answer& answer);
  // The answer to a request that had timed out.
  void on_late(const Question& asked, const Answer& answer);
  Result<engine::SharedAnswer> read(const Question& asked, const Reply& reply);
  // Whether the buckets of these have refilled since data was last lost, so that one without a
  // key is full; also false as long as that is not known.
  bool have_refilled(std::span<const QuestionRef> all, const EpochRef& known) const;

  const Fleet& fleet_;
  Connections& connections_;
  Epochs& epochs_;
  Outages& outages_;
  SharedHolds& holds_;
  DoubtfulHolds& doubtful_;
  std::atomic<std::uint64_t> asked_{0}, answered_{0};
};

}  // namespace weir::store::redis
