// Leases: every lease that one server holds.
//
// A request takes from the lease of its key at once, if there is enough. Otherwise it waits for
// a draw: at most one is under way for each key, and those who wait are served in the order in
// which they came. What Redis said last is remembered: until more can be there, requests are
// refused without asking it, with the instant at which Redis alone will have all of the cost.
//
//   Leases leases(source, prefix);
//   if (!leases.take_now(items, now, outcomes)) {
//     leases.take(item, rules, now, [](const LeaseSaid& said) { ... });   // maybe later
//   }                                                          // then spend() or put_back()
//   leases.tick(now);   // every kLeaseTick
//
// Thread safety: every function may be called from any thread. Callbacks run without a lock.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weir/engine/shared.h"
#include "weir/store/redis/shared/lease.h"
#include "weir/store/redis/shared/lease_source.h"

namespace weir::store::redis {

constexpr Duration kLeaseTick = std::chrono::milliseconds{50};
// How long Redis waits for a word of a server before it takes a lease back. Longer than the server
// gives units out, though its clock may run slower by a twentieth (time.md); and long enough for a
// server that looks at its leases each tick to have said what it used.
constexpr Duration record_length(const engine::LeaseSpec& lease) {
  return lease.length + std::max<Duration>(lease.length / 16, 2 * kLeaseTick);
}

constexpr std::size_t kLeaseShards = 64;
constexpr std::size_t kLeasesMax = 65'536;  // keys; the one longest unused in a shard makes room
constexpr std::size_t kLeaseWaitersMax = 65'536;  // requests that wait for draws

// What a limit said to a request that took from a lease.
struct LeaseSaid {
  engine::SharedOutcome outcome{};       // if allowed, the units have been taken
  std::int64_t stamp_us = 0;             // of these units
  std::optional<DrawFailure> failure{};  // nothing was drawn, and there is no outcome
};
using LeaseCallback = std::function<void(const LeaseSaid&)>;

// Since the server was started; of one limit, all keys together.
struct LeaseCounts {
  std::string limit;
  std::int64_t held = 0;  // now
  std::uint64_t drawn = 0;
  std::uint64_t returned = 0;  // as the source has heard
  std::uint64_t expired = 0;   // past the end of their lease
};

class Leases {
 public:
  // `prefix` is that of the keys in Redis.
  Leases(LeaseSource& source, std::string prefix);
  ~Leases();

  // True: every item has been taken, or the outcome says which one is refused. False: nothing has
  // changed; take() them.
  bool take_now(std::span<const engine::LeasedItem> items, Instant now,
                std::span<engine::SharedOutcome> outcomes);
  // Takes one item, or says why not, maybe after a draw.
  void take(const engine::SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
            Instant now, LeaseCallback callback);
  // What take() has given is used.
  void spend(engine::Print print, std::int64_t units);
  // Puts back what take() has given and the request did not use. Units of a window that is over are
  // given up.
  void put_back(engine::Print print, LeaseUnits units, Instant now);

  std::int64_t held(engine::Print print, Instant now);
  // What is held and what Redis had left when last asked.
  std::int64_t left(engine::Print print, Instant now);
  // Gives everything back that is held for a key, or about to be. `then` is called when the return
  // has been sent: what it sends over the same connection is heard after it.
  void surrender(engine::Print print, Instant now, std::function<void()> then);
  // Takes everything out that is held for a key. put_back() undoes it; start_anew() lets it go
  // for good, with all that was heard of the key.
  LeaseUnits withdraw(engine::Print print);
  void start_anew(engine::Print print, std::int64_t units);
  // At the end: gives everything back, and from now on what a draw under way brings too.
  void end(Instant now);

  // Draws ahead, gives back what is not wanted, forgets idle keys.
  void tick(Instant now);

  std::vector<LeaseCounts> counts(Instant now);

  // The number of the next message about what is held.
  std::uint64_t next_word() noexcept { return words_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  struct Entry;
  struct Shard;
  struct Sums;
  struct Need;  // of a draw
  struct Work;  // to be done without a lock
  enum class Took : std::uint8_t { kTaken, kRefused, kMissing };

  // Puts units back into a lease, of which so many are known to be out.
  void put_back(engine::Print print, LeaseUnits units, std::int64_t out, Instant now);
  Shard& shard_of(engine::Print print) noexcept;
  // The stamp is set if units are taken.
  Took take_one(const engine::LeasedItem& item, Instant now, engine::SharedOutcome& outcome,
                std::int64_t& stamp_us, Work& work);
  Entry* entry_for(Shard& shard, const engine::SharedItem& item,
                   const std::shared_ptr<const engine::RuleSet>& rules, Instant now, Work& work);
  // Goes on under the rule that is next. Requires that no message is under way.
  void change_over(Entry& entry, Instant now, Work& work);
  bool make_room(Shard& shard, Instant now, Work& work);
  void start_draw(Entry& entry, Instant now, Work& work);
  // Sends the next message about a key, if there is one to send and none is under way.
  void talk(Entry& entry, Instant now, Work& work);
  void finish_return(engine::Print print, const LeaseReturn& sent, Instant sent_at,
                     Delivery delivery);
  void finish_draw(engine::Print print, const Need& need,
                   const std::variant<Drawn, DrawFailure>& answer);
  void on_late(engine::Print print, const Need& need, const Drawn& drawn);
  void serve(Entry& entry, const Drawn& drawn, const Need& need, Work& work);
  void run(Work& work, Instant now);
  Sums& sums_of(const std::string& limit);

  LeaseSource& source_;
  const std::string prefix_;
  std::vector<Shard> shards_;
  std::atomic<bool> is_ending_{false};
  std::atomic<std::size_t> waiters_{0};
  std::atomic<std::uint64_t> words_{0};
  std::mutex sums_lock_;
  std::map<std::string, std::unique_ptr<Sums>, std::less<>> sums_;
};

}  // namespace weir::store::redis
