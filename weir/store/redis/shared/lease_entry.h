// Lease entry: the lease of one key with all that belongs to it.
//
// Internal to Leases.

#pragma once

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weir/store/redis/shared/leases.h"

namespace weir::store::redis {

struct Leases::Sums {
  std::atomic<std::uint64_t> drawn{0};
  std::atomic<std::uint64_t> returned{0};
  std::atomic<std::uint64_t> expired{0};
};

// What a draw was sent for.
struct Leases::Need {
  std::shared_ptr<const engine::RuleSet> rules;  // of the rule
  const engine::Rule* rule = nullptr;
  Instant sent_at{};
  std::int64_t cost = 0;     // of the first of those who wait
  std::int64_t wanted = 0;   // the largest amount
  std::int64_t awaited = 0;  // of it, by those who wait
  std::int64_t ahead = 0;    // of it, to be held
  std::size_t waiters = 0;   // who waited
};

// Answers to give and messages to send once the lock is released.
struct Leases::Work {
  struct Answer {
    LeaseCallback callback;
    LeaseSaid said;
  };
  struct Draw {
    engine::Print print;
    Need need;
    LeaseDraw draw;
    boost::container::small_vector<std::int64_t, 12> amounts;
  };
  struct Return {
    engine::Print print;
    LeaseReturn units;
  };
  std::vector<Return> returns;
  std::vector<std::function<void()>> followers;  // after the returns
  std::vector<Draw> draws;
  std::vector<Answer> answers;
};

struct Leases::Entry {
  struct Waiter {
    std::int64_t cost = 0;
    LeaseCallback callback;
  };
  // What Redis said last.
  struct Heard {
    bool is_known = false;
    bool is_refused = false;
    Instant now{};   // of Redis
    Instant here{};  // of this process
    SharedState state{};
    std::int64_t cost = 0;  // a log has told about
    std::int64_t left = 0;
  };
  // The limit as it is to be.
  struct Next {
    const engine::Rule* rule = nullptr;
    std::shared_ptr<const engine::RuleSet> rules;
    std::string key;
  };
  // Those used are the oldest.
  struct Batch {
    LeaseUnits drawn;
    std::string epoch;
  };

  Entry(engine::Print printed, const engine::Rule& its_rule,
        std::shared_ptr<const engine::RuleSet> its_rules, std::string its_key, Sums& its_sums,
        Leases& its_leases)
      : print(printed),
        rule(&its_rule),
        rules(std::move(its_rules)),
        key(std::move(its_key)),
        lease(*its_rule.shared->lease),
        sums(&its_sums),
        leases(&its_leases) {}

  const engine::LeaseSpec& terms() const { return *rule->shared->lease; }
  bool is_window() const { return std::holds_alternative<meter::WindowShape>(rule->shape); }
  // Why `cost` is refused without asking, with `held` units here; nothing: Redis may have it.
  std::optional<engine::SharedOutcome> refusal(Instant now, std::int64_t cost,
                                               std::int64_t held) const;
  engine::SharedOutcome allowed(Instant now, std::int64_t cost, std::int64_t held_before) const;
  // With `held` units here and what Redis had left when last asked.
  std::int64_t left(std::int64_t held) const;
  // The time of Redis at `now`, or a little earlier, in whole microseconds.
  Instant then(Instant now) const;
  Instant here(Instant of_redis) const;
  // When Redis takes back what it thinks is held, in its time.
  Instant lapses_at() const { return heard.now + record_length(terms()); }

  // Notes units that were drawn from `of`.
  void add_batch(LeaseUnits units, const std::string& of);
  // The newest `units` of those drawn, as far as they are of the newest data.
  std::vector<LeaseUnits> newest(std::int64_t units) const;
  // Says what is held, and gives back what is to go back. Requires that no message is under way.
  void say(Instant now, Work& work);
  // The same at the end of the entry.
  void leave(Instant now, Work& work);
  // What say() has said was never sent: it is to go back as before.
  void unsay(const LeaseReturn& unsent);
  // What Redis has said to a draw for a request of `cost`. If it was later than lapses_at(),
  // it has taken back all that was held.
  void hear(const Drawn& drawn, std::int64_t cost);
  // Redis has taken back what was held: it may be used no more, and a return would come too late.
  void lapse();
  // Units beside those held that may be given out yet, here or by Redis.
  std::int64_t reserved() const { return out + under_way + back + returning + unsure; }
  bool is_awaited() const { return !waiters.empty() || !followers.empty(); }
  // Whether to draw ahead of need.
  bool is_low(Instant now) const {
    return now >= quiet_until && lease.is_low(now) && lease.held(now) + reserved() < terms().most;
  }
  // So many that were out of the lease are used, or on their way back into it.
  void settle_out(std::int64_t units) { out = std::max<std::int64_t>(0, out - units); }
  // A message of so many units was not answered: Redis may hear it yet.
  void doubt(std::int64_t units, Instant now);
  void give_up(std::int64_t units);

  engine::Print print;
  const engine::Rule* rule;
  std::shared_ptr<const engine::RuleSet> rules;
  std::string key;  // in Redis
  Lease lease;
  Sums* sums;
  Leases* leases;
  std::optional<Next> next;  // a change of the limit that waits for the message under way
  Heard heard;
  std::int64_t stamp_us = 0;  // of the newest draw; a window's is since when it counts
  std::string epoch;          // and its data
  std::deque<Batch> batches;
  std::deque<Waiter> waiters;
  std::vector<std::function<void()>> followers;  // of the return of all that is held
  // One message is under way at a time, so that Redis hears of this key in order.
  bool is_talking = false;
  std::uint64_t word = 0;      // its number
  bool must_say = false;       // what is held: Redis may have heard something older since
  std::int64_t out = 0;        // taken by requests that are not decided yet
  std::int64_t under_way = 0;  // units of a draw that no request waits for
  std::int64_t back = 0;       // out of the lease, to be given back
  std::int64_t returning = 0;  // the same, in the message under way
  std::int64_t unsure = 0;     // to be held or returned, in messages without an answer
  Instant unsure_until{};      // from then on it is counted no more
  std::int64_t said = 0;       // to be held, in the message under way
  std::int64_t told = 0;       // what Redis thinks is held, or more, but for what is unsure
  Instant quiet_until{};       // nothing is drawn ahead before
  Instant touched{};
};

struct Leases::Shard {
  struct PrintHash {
    std::size_t operator()(engine::Print print) const noexcept {
      return static_cast<std::size_t>(print.low ^ print.high);
    }
  };

  std::mutex lock;
  std::unordered_map<engine::Print, Entry, PrintHash> entries;
};

}  // namespace weir::store::redis
