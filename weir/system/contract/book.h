// Book: joint reservations over all policies of an account, first come first served.
//
// A reservation names a start at which every policy has enough, and debits all of
// them there. A caller that comes later starts no earlier. So the service, which debits
// each request when it really starts, finds in every one of its buckets at least
// what the book has: a granted start is not refused. (The published rule debits at
// the ask, when another bucket may be full and about to lose its refill.)
//
//   now        S: last granted start
//    |----------|-----------|------------->        level at S, every policy
//                 base = max(now, S)
//                 start = base + the longest time until a policy has its cost
//
// The book keeps what is left as of an anchor, and the reservations since that may
// still change: committed with the actual cost, released, or expired. A change
// replays those after it, so that what comes back is exactly what the service has,
// and not what a bucket that was full in between has lost. Reservations that are
// final are folded into the anchor. A replay goes in runs (runs.h), of which an end
// changes two; while lowerings are not folded yet it costs as many steps as there are
// reservations since the oldest one outstanding.
//
// `jitter` is how late a worker may start. A start finds no more in a policy than its
// capacity less what refills in that time, whatever stands there; then starts that are
// late by up to `jitter`, in any order, still find enough. A cost above that, but not
// above the capacity, starts when so much has refilled since the last start: an account
// that nobody used for `jitter` after it was full grants it at once.
//
// Thread safety: none; an account locks it.

#pragma once

#include <bitset>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"
#include "weir/system/contract/policy.h"
#include "weir/system/contract/runs.h"

namespace weir::system::contract {

constexpr std::size_t kReservationsMax = 1'000'000;  // that one book remembers
constexpr std::size_t kEndsMax = 100'000;            // how the last ones ended, likewise
constexpr std::size_t kLoweringsMax = 1024;          // what refusals have taught, likewise
// The most that settling with more than was reserved may leave a policy to owe, in capacities.
constexpr int kOverageTimes = 10;
// A longer wait that no policy explains counts as this; and a refusal that names no policy
// takes no more from any than refills in it.
constexpr Duration kRetryAfterMax = std::chrono::hours{1};

// Costs of reservations that are final, all together since the book was made.
struct Totals {
  Wide requests_micro = 0;
  Wide processing_units_micro = 0;
  Instant at{};  // when they were, or earlier; 0: unknown

  constexpr Wide of(Resource resource) const noexcept {
    return resource == Resource::kRequests ? requests_micro : processing_units_micro;
  }
};

enum class Never : std::uint8_t {
  kNot,              // it fits sooner or later
  kExceedsCapacity,  // costs more than a policy holds when full
  kExhausted,        // a fixed quota has less than this left
};

constexpr std::string_view to_string(Never never) noexcept {
  switch (never) {
    case Never::kNot:
      return "";
    case Never::kExceedsCapacity:
      return "exceeds_capacity";
    case Never::kExhausted:
      return "exhausted";
  }
  return "unknown";
}

// When costs fit, and why not earlier.
struct Offer {
  Never never = Never::kNot;
  Instant start{};                       // kForever: never
  std::optional<std::size_t> binding{};  // the policy that is waited for longest, or never fits
};

// How one policy stands.
struct Standing {
  Wide level_fs = 0;
  Wide missing_fs = 0;     // of the cost that was asked about; 0 or less: it has that
  bool exceeds = false;    // it never has: more than its capacity
  bool exhausted = false;  // it never has: a fixed quota
};

class Book {
 public:
  using Policies = std::bitset<kPoliciesMax>;  // some of them, by place

  struct Reservation {
    Instant start{};
    Instant expires{};
    Costs costs{0, 0};
    engine::HoldState state = engine::HoldState::kActive;
    Policies counted{};  // by the service, in what it reported: not debited again
  };
  // A debit without a reservation: what a refusal has taught.
  struct Lowering {
    Instant at{};
    std::size_t policy = 0;
    Wide by_fs = 0;
  };
  // All of a book but how earlier reservations ended, for keeping it beyond the process.
  struct Saved {
    std::vector<Policy> policies{};
    std::vector<Wide> levels_fs{};  // of each policy, at
    Instant at{};
    Instant not_before{};
    std::uint64_t first_number = 1;  // of the reservations
    std::vector<Reservation> reservations{};
    std::vector<Lowering> lowerings{};  // any order
  };

  // Full at `now`. Requires at most kPoliciesMax policies and a jitter of 0 or more.
  Book(std::vector<Policy> policies, Duration jitter, Instant now);

  // As it was saved. Requires what a book has saved, moved in time as a whole at most.
  Book(Saved saved, Duration jitter);
  Saved saved() const;
  // Grows with everything that saved() would say, time apart.
  std::uint64_t changes() const noexcept { return changes_; }

  const std::vector<Policy>& policies() const noexcept { return policies_; }
  Duration jitter() const noexcept { return jitter_; }

  // Sets what is left of one policy; may be negative. Only before any reservation.
  void set_left(std::size_t policy, std::int64_t left_micro);

  // From now on; what is above the new bound is lost, as in a bucket that is full.
  void set_jitter(Duration jitter);

  // The first start from `from` on at which all policies have `costs`. Takes
  // nothing. Requires acceptable costs.
  Offer offer(const Costs& costs, Instant from) const;

  // Debits `costs` at `start`, which an offer gave, or later. Returns the number of
  // the reservation, from 1 on; until `expires` it may change. An error: there are
  // too many, and nothing was debited.
  Result<std::uint64_t> grant(const Costs& costs, Instant start, Instant expires);

  // Ends a reservation: with the costs that were really charged, or as if it had
  // never been. Only the first end of an active reservation changes anything; the
  // answer says how it stands.
  engine::HoldState commit(std::uint64_t number, const std::optional<Costs>& actual, Instant now);
  engine::HoldState release(std::uint64_t number, Instant now);
  // What a commit came to; nothing: it was none, or too long ago. More than was reserved is charged
  // as far as no policy of that resource owes more than kOverageTimes its capacity.
  std::optional<Costs> settled(std::uint64_t number) const;
  std::uint64_t clipped() const noexcept { return clipped_; }  // commits not charged in full
  // Lets reservations whose time has come be final, as they were granted: their
  // work may have been done. The oldest ones, which is cheap; or all of them.
  void expire(Instant now);
  void expire_all(Instant now);

  // A place: a reservation that nobody was told of yet, for costs that start at `from` or later. It
  // does not expire, is not saved, and its start changes with what changes before it. Returns the
  // number it goes by until it is taken over. An error: it never fits, or there is no room.
  Result<std::uint64_t> take_place(const Costs& costs, Instant from, Instant now);
  // Where the place is after settle_places(); nothing: there is none.
  struct Place {
    Instant start{};
    Costs costs{0, 0};
  };
  std::optional<Place> place(std::uint64_t id) const;
  // The same place, for other costs, or for another first instant. It may be gone then.
  void change_place(std::uint64_t id, const Costs& costs, Instant now);
  void start_place_from(std::uint64_t id, Instant from, Instant now);
  void leave_place(std::uint64_t id, Instant now);
  // The place is a reservation now, which may change until `expires`. Returns its number; nothing:
  // there is no such place.
  std::optional<std::uint64_t> take_over(std::uint64_t id, Instant expires);
  // Moves places back that start too early by now: where the service has said that there is less,
  // or where others cost more. Each stays where it is in the book; but if it must start later and
  // others that were granted come after it, it goes behind these, and so do all places after it. So
  // places stay in their order, and no granted start finds less. A place that never fits is gone.
  // Who asks for an offer asks for this first.
  void settle_places(Instant now);
  // The same; and this place moves up to the first start that those before it leave. The others
  // move up when they are asked for themselves, so that each starts when it says.
  void settle_place(std::uint64_t id, Instant now);
  bool is_place(std::uint64_t number) const { return places_.contains(number); }

  // Whether grant() can take one more.
  bool has_room() const noexcept { return entries_.size() < kReservationsMax; }
  // Where there is no room, lets the oldest one expire before its time, if it has started.
  void make_room(Instant now);

  // Those that may still change, from first_number() on.
  const std::deque<Reservation>& reservations() const noexcept { return entries_; }
  std::uint64_t first_number() const noexcept { return first_number_; }
  // The costs of an active reservation.
  std::optional<Costs> reserved(std::uint64_t number) const;
  // How a reservation stands; kGone: it expired, was too long ago, or never was.
  engine::HoldState state_of(std::uint64_t number) const;
  std::size_t outstanding() const noexcept { return outstanding_; }
  Costs outstanding_costs() const;  // saturates
  const Totals& finals() const noexcept { return finals_; }

  // The service reports what is left of each policy at `now`, rounded down; none for a
  // policy that it does not name. It was asked at `asked_at` or later:
  //
  //   had started by then, jitter included   it has counted them
  //   other outstanding reservations         it may not have: they are debited here
  //   final by then                          it has counted them
  //   final since then                       it may not have: the caller has debited them
  //                                          from `left_micro` already (finals())
  //
  // A report that names no policy changes nothing.
  //
  // A reservation that was counted gives nothing back when it ends with less: its service
  // may have refilled it long ago. The next report says so.
  void refresh(std::span<const std::optional<std::int64_t>> left_micro, Instant now,
               Instant asked_at = Instant{});

  // Other policies from `now` on. One that was there, of the same resource and
  // period, keeps what is used of it; a new one starts full. Reservations stay.
  void change(std::vector<Policy> policies, Instant now);

  // The service refused `costs` at `now`, and would have them `retry_after` later, a
  // time that it rounded up by less than `rounded_by`. Lowers the policy `violated`, or the
  // one that recovers soonest, so that the same costs wait as long here. Where none
  // explains so long a wait, nothing starts before it is over. Never raises anything.
  void lower(const Costs& costs, Duration retry_after, std::optional<std::size_t> violated,
             Instant now, Duration rounded_by = Duration{0});
  // Nothing starts before `wait` is over, or kRetryAfterMax.
  void hold_off(Duration wait, Instant now);

  // What each policy has at `now`, or at the last granted start if that is later.
  std::vector<Standing> standing(const Costs& costs, Instant now) const;
  // The last granted start that still counts.
  Instant last_start() const;
  // The first instant at which a service that has refused may be asked again.
  Instant not_before() const noexcept { return not_before_; }
  // The first instant from `from` on at which a reservation may start.
  Instant first_start(Instant from) const;

 private:
  using Entry = Reservation;
  using Levels = std::vector<Wide>;
  struct Wish {
    std::uint64_t id = 0;  // the first number that the place had
    Instant from{};
    std::uint64_t easings = 0;  // when it moved up last
  };

  Wide in_hand_fs(std::size_t policy) const;
  Wide begun_fs(std::size_t policy) const;
  std::vector<Standing> standing_of(const Levels& levels, const Costs& costs) const;
  static Offer offer_of(const std::vector<Standing>& rows, Instant base);
  Entry& entry_of(std::uint64_t number);
  Entry* find(std::uint64_t number, Instant now);
  // How a reservation that was folded has ended; kGone: it was too long ago, or never.
  engine::HoldState end_of(std::uint64_t number) const;
  void let_expire(Entry& entry, Instant now);
  void finish(Entry& entry, engine::HoldState state);
  // `actual`, or as much of what it is above `reserved` as may be charged.
  Costs within_overage(const Costs& actual, const Costs& reserved, Instant now);
  void advance(Levels& levels, Instant& at, Instant to) const;
  void apply(Levels& levels, const Entry& entry) const;
  // What an instant's refill does to a policy; and a reservation, or a run, after another run.
  LevelStep refill_step(std::size_t policy, Duration elapsed) const;
  void extend(Run& run, const Entry& entry) const;
  void extend(Run& run, const Run& next) const;
  // The place of the run of 64 with that number, and of 4096.
  std::size_t short_run_of(std::uint64_t number) const noexcept;
  std::size_t long_run_of(std::uint64_t number) const noexcept;
  const Run& short_run(std::size_t place) const;
  const Run& long_run(std::size_t place) const;
  // The run of the reservations up to that number, without it; from the anchor.
  void go_up_to(std::uint64_t number, Levels& levels, Instant& at) const;
  void go_through(const Run& run, Levels& levels, Instant& at) const;
  void mark_run(std::uint64_t number);
  void mark_runs();
  // Brings `levels` from the anchor to the last of what is booked up to `until`.
  void replay(Levels& levels, Instant& at, Instant until) const;
  void touch() noexcept {
    is_current_ = false;
    ++changes_;
    ++easings_;
  }
  // The levels at the last start before the reservation with that number, and what was learnt by
  // then; `lowering` is the first lowering after it.
  void go_before(std::uint64_t number, Levels& levels, Instant& at,
                 std::deque<Lowering>::const_iterator& lowering) const;
  void lower_up_to(Instant to, Levels& levels, Instant& at,
                   std::deque<Lowering>::const_iterator& lowering) const;
  // The last number of a reservation that counts and is no place; 0: none.
  std::uint64_t last_granted() const;
  Offer place_offer(const Entry& entry, const Wish& wish, Instant now, Levels levels, Instant at,
                    std::deque<Lowering>::const_iterator lowering) const;
  void cancel(std::uint64_t number);
  void forget_place(std::uint64_t number);
  const Levels& frontier() const;
  void fold();
  // The levels at `now`, without reservations that are outstanding and were not counted.
  Levels levels_without_outstanding(Instant now) const;
  void anchor_at(Instant now, Levels levels, const Policies& reported, Instant asked_at);

  std::vector<Policy> policies_;
  Duration jitter_;
  Levels anchor_;
  Instant anchor_at_;
  Instant not_before_{};  // no start earlier: refused with no policy to blame
  std::uint64_t first_number_ = 1;
  std::deque<Entry> entries_;  // by number; but for cancelled ones so by start
  // Of entries_, by number / 64 and number / 4096, from those of first_number_ on; made when they
  // are asked for.
  mutable std::deque<Run> short_runs_;
  mutable std::deque<Run> long_runs_;
  std::deque<engine::HoldState> ends_;                       // of the last numbers before the first
  boost::unordered_flat_map<std::uint64_t, Costs> settled_;  // of these and of entries_, by number
  std::deque<Lowering> lowerings_;
  std::size_t outstanding_ = 0;
  Totals finals_;
  std::uint64_t changes_ = 0;
  std::map<std::uint64_t, Wish> places_;                                   // by number
  boost::unordered_flat_map<std::uint64_t, std::uint64_t> place_numbers_;  // by id
  std::uint64_t easings_ = 0;      // of what a start may be earlier by
  std::uint64_t tightenings_ = 0;  // of what a start may have to be later by
  std::uint64_t settled_at_ = 0;   // tightenings_, when places were settled last
  std::uint64_t clipped_ = 0;

  // The state after everything booked; worked out when it is asked for.
  mutable bool is_current_ = false;
  mutable Levels frontier_;
  mutable Instant frontier_at_{};
};

}  // namespace weir::system::contract
