// Counters: what each miner was granted in the window, and what is left of its allowances.
//
// A key is a tuple (hotkey, revision, environment), kept as a print. It is limited by the
// environment's allowance; where the environment has a limit over all revisions, the parent
// (hotkey, environment) is limited too. A request is granted up to what both have left:
//
//   Counters counters(*rules, {});
//   auto grant = counters.grant({.hotkey = "5F3s", .revision = "r1",
//                                .environment = "LGC-v2", .id = 7}, 20, now);
//   counters.commit(grant->reservation, /*created=*/4, now);   // the others are given back
//
// Any window of the formula's length, (t - window, t], holds at most the allowance of what
// was granted and not given back. A grant counts from the moment it is made, whether it is
// committed or not; only what is released, or not created, is given back.
//
// Rules change as a whole and the counters stay. With a journal, grants survive the process:
// see journal.h. Time that goes back counts as standing still. Restored grants of a clock
// that was ahead count from now.
//
// Thread safety: none; callers share them as Sampling, which is Guarded<Counters>.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/keyed_word.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"
#include "weir/system/sampling/journal.h"
#include "weir/system/sampling/logs.h"
#include "weir/system/sampling/refused.h"
#include "weir/system/sampling/reservations.h"
#include "weir/system/sampling/rules.h"

namespace weir::system::sampling {

constexpr std::int64_t kWantMax = 1'000'000;        // tasks of one grant
constexpr std::size_t kReservationsKept = 262'144;  // beyond it the oldest is final

struct Who {
  std::string_view hotkey{};
  std::string_view revision{};
  std::string_view environment{};
  std::optional<std::int64_t> id{};  // of the miner, for exemptions
};

enum class Reason : std::uint8_t {
  kLimited,    // by the environment's allowance, or over all revisions
  kExempt,     // the id is
  kUnlimited,  // the environment is
};
std::string_view to_string(Reason reason) noexcept;

struct Grant {
  Reason reason = Reason::kLimited;
  std::int64_t wanted = 0;
  std::int64_t granted = 0;
  std::int64_t count = 0;                   // in the window, these included
  std::optional<std::int64_t> limit{};      // none: exempt, or only the parent is limited
  std::optional<std::int64_t> remaining{};  // of the limit and the parent's, whichever has less
  std::int64_t parent_count = 0;            // over all revisions, where that is limited
  std::optional<std::int64_t> parent_limit{};
  Instant next_free{};   // the first instant at which one more could be granted
  HoldId reservation{};  // to commit or release; none: nothing was granted
  Ticket record = 0;     // that must be written before the grant is told; 0: none
};

// What the end of a reservation gave back.
struct GivenBack {
  std::int64_t units = 0;
  Ticket record = 0;  // as that of a Grant
  // It had been ended before, with another number of tasks, and nothing has changed: `created`.
  bool was_other = false;
  std::int64_t created = 0;

  friend bool operator==(const GivenBack& given, std::int64_t expected) {
    return given.units == expected;
  }
};

struct EnvironmentReading {
  std::string name;
  Rotation rotation{};
  std::optional<std::int64_t> limit{};
  std::optional<std::int64_t> parent_limit{};
  std::optional<std::int64_t> burst{};
  std::uint64_t grants = 0;   // that gave something, since the process began
  std::uint64_t granted = 0;  // tasks
  std::uint64_t refused = 0;  // tasks that were wanted and not granted
};

struct Reading {
  std::vector<EnvironmentReading> environments{};  // in the order of the configuration
  Formula formula{};
  Mode mode = Mode::kStrict;
  Granting granting = Granting::kCapped;
  std::size_t keys = 0;
  std::size_t bytes = 0;
  std::size_t reservations = 0;
};

struct Options {
  engine::Secret secret{};
  std::size_t keys_max = 10'000'000;
  std::size_t reservations_max = kReservationsKept;
  Journal* journal = nullptr;  // must outlive it; nullptr: memory only
};

// Whether a grant can be given back.
enum class Keep : bool { kFinal, kReserved };

class Counters {
 public:
  Counters(Rules rules, const Options& options);
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  Result<Grant> grant(const Who& who, std::int64_t want, Instant now, Keep keep = Keep::kReserved);
  // What a grant of `want` would say, an error too. Changes nothing.
  Result<Grant> peek(const Who& who, std::int64_t want, Instant now) const;
  // How many are left, whether or not something can be granted at present; 0 for a miner that
  // cannot be granted anything.
  std::int64_t left(const Who& who, Instant now) const;
  // Whether all of `cost` would be granted at `at`, which may be an instant to come, and if
  // not, from when on. A miner that cannot be granted anything is told never.
  meter::Check check(const Who& who, std::int64_t cost, Instant at) const;

  // The work began: `created` of the granted tasks exist, all of them if nothing is said, and
  // the others are given back. Says how many were. Said again it answers the same again, and
  // changes nothing; an error if the reservation has left the window, or is too old.
  Result<GivenBack> commit(HoldId reservation, std::optional<std::int64_t> created, Instant now);
  // It did not: everything is given back, as if none was created.
  Result<GivenBack> release(HoldId reservation, Instant now);

  // --- For the gate, which cannot be told of an error:
  // Takes all of `cost`, which check() has just let pass, for a miner that wanted so many.
  // check() has asked whether records can be written, so take() does not: the journal tries
  // a record that fails again, and tells those that wait for it. Without memory the process
  // ends. Returns the reservation, or 0.
  std::uint64_t take(const Who& who, std::int64_t cost, std::int64_t wanted, Instant now,
                     Keep keep) noexcept;
  // check() has let none of them pass, and that was meant.
  void refuse(const Who& who, std::int64_t wanted, Instant now) noexcept;
  // The work is over. `created` may be more than was taken: those count from now on. Of a
  // reservation that has ended nothing changes.
  // Returns the record that tells of it; 0: nothing was given back, or there is no journal.
  Ticket settle(std::uint64_t reservation, std::int64_t created, Instant now) noexcept;
  // The record that tells of the last change.
  Ticket last_record() const noexcept { return record_; }

  // The counters stay.
  void set_rules(Rules rules);

  // --- Before the first grant:
  // The secret of the prints, if it is not the one it was made with.
  void set_secret(const engine::Secret& secret);
  // Brings back a record of a journal; all of them in their order.
  Status restore(const Record& record, Instant now);
  // From now on grants are written there.
  void set_journal(Journal* journal);

  // Drops keys with nothing left in the window, some at a time.
  void sweep(Instant now);

  Reading reading() const;
  // Of the last window: who was refused most, and who has used up what it may have.
  std::vector<RefusedMiner> refused() const { return refused_.most(); }

  const Rules& rules() const noexcept { return rules_; }

 private:
  // One key in the middle of being decided. The scratch rings hold its runs.
  struct Seat {
    std::size_t place = 0;  // of its environment
    Reason reason = Reason::kLimited;
    engine::Print key{};
    engine::Print parent{};  // zeros: none
    meter::LogState log{};
    meter::LogState parent_log{};
  };
  struct Tally {
    std::uint64_t grants = 0;
    std::uint64_t granted = 0;
    std::uint64_t refused = 0;
  };

  const Environment& environment(const Seat& seat) const noexcept {
    return rules_.environments()[seat.place];
  }
  Result<Seat> seat_of(const Who& who) const;
  std::int64_t left_over(const Seat& seat, Instant now) const noexcept;
  std::int64_t room(const Seat& seat, Instant now) const noexcept;
  Grant described(const Seat& seat, Instant now) const noexcept;
  // Whether something can be granted at all.
  Status ready(const Seat& seat) const;
  void add(Seat& seat, std::int64_t units, Instant now) const noexcept;
  std::uint64_t charge(Seat& seat, std::int64_t units, Instant now, Keep keep);
  // Who was refused something, or has nothing left, is noted by name.
  void note(const Seat& seat, const Who& who, std::int64_t granted, std::int64_t wanted) noexcept;
  void tally(std::size_t place, std::int64_t granted, std::int64_t wanted) noexcept;
  void move_on(Instant now) noexcept;

  HoldId id_of(std::uint64_t number) const noexcept {
    return {keyed_word(id_key_, number), number};
  }
  Result<GivenBack> end(HoldId reservation, std::optional<std::int64_t> created, Instant now);
  void remember(std::uint64_t number, std::int64_t units, std::int64_t created);
  std::int64_t finish(Record record, std::int64_t created);
  void write(const Record& record);
  // Whether there was room for the key.
  bool count(const Record& record);
  bool count(engine::Print key, Instant at, std::int64_t units);
  void look_at_limits() noexcept;

  static constexpr std::size_t kSweptPerGrant = 4;  // more than a grant can add
  static constexpr std::size_t kSweptAtOnce = 4096;
  static constexpr std::size_t kKeysPerGrant = 2;  // a key and its parent
  static Error no_memory();
  Error full() const;

  Ticket record_ = 0;  // the last that was queued
  Rules rules_;
  Options options_;
  engine::Print key_seed_{};
  engine::Print parent_seed_{};
  WordKey id_key_{};  // of reservations
  Logs logs_;
  std::int64_t largest_limit_ = 1;
  Instant last_{};  // time never goes back
  Reservations reservations_;
  Refused refused_;
  std::vector<Tally> tallies_;  // in the order of the environments
  mutable std::array<meter::LogRun, meter::kRunsMax> ring_{};
  mutable std::array<meter::LogRun, meter::kRunsMax> parent_ring_{};
};

}  // namespace weir::system::sampling
