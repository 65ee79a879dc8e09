// Sampling: a scheduler may not hand out tasks faster than the list rotates.
//
// The caller says for whom it wants how many tasks, and is granted up to what is left of
// the environment's allowance, at once or not at all for each unit:
//
//   auto sampling = Sampling::create(*rules, {});
//   auto grant = (*sampling)->grant({.hotkey = "5F3s", .revision = "r1",
//                                    .environment = "LGC-v2", .id = 7}, 20, now);
//   grant->granted;     // 6, with an allowance of 6 an hour
//   grant->next_free;   // in an hour
//   (*sampling)->commit(grant->reservation, /*created=*/4, now);   // two are given back
//
// Any window of the formula's length, (t - window, t], holds at most the allowance of what
// was granted and not given back. A grant counts from the moment it is made, whether it is
// committed or not; only what is released, or not created, is given back.
//
// Keys are tuples (hotkey, revision, environment), kept as prints. Rules change as a whole
// and the counters stay. With a journal, grants survive the process: see journal.h.
//
// Time that goes back counts as standing still. Restored grants of a clock that was ahead
// count from now.
//
// Thread safety: every function may be called from any number of threads.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"
#include "weir/system/sampling/journal.h"
#include "weir/system/sampling/logs.h"
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
  kLimited,    // by the environment's allowance
  kExempt,     // the id is
  kUnlimited,  // the environment is
};
std::string_view to_string(Reason reason) noexcept;

struct Grant {
  Reason reason = Reason::kLimited;
  std::int64_t wanted = 0;
  std::int64_t granted = 0;
  std::int64_t count = 0;                   // in the window, these included
  std::optional<std::int64_t> limit{};      // none: exempt or unlimited
  std::optional<std::int64_t> remaining{};  // of the limit and the parent's, whichever has less
  std::int64_t parent_count = 0;            // over all revisions, where that is limited
  std::optional<std::int64_t> parent_limit{};
  Instant next_free{};            // the first instant at which one more could be granted
  std::uint64_t reservation = 0;  // to commit or release; 0: nothing was granted
};

struct EnvironmentReading {
  std::string name;
  Rotation rotation{};
  std::optional<std::int64_t> limit{};
  std::optional<std::int64_t> parent_limit{};
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

class Sampling {
 public:
  static std::shared_ptr<Sampling> create(Rules rules, const Options& options);

  Result<Grant> grant(const Who& who, std::int64_t want, Instant now, Keep keep = Keep::kReserved);
  // What a grant of `want` would say. Changes nothing.
  Result<Grant> peek(const Who& who, std::int64_t want, Instant now) const;
  // Whether all of `cost` would be granted at `at`, which may be an instant to come, and if
  // not, from when on. Somebody who cannot be granted anything is told never.
  meter::Check check(const Who& who, std::int64_t cost, Instant at) const;

  // The work began: `created` of the granted tasks exist, all of them if nothing is said, and
  // the others are given back. Says how many were. An error if the reservation has ended.
  Result<std::int64_t> commit(std::uint64_t reservation, std::optional<std::int64_t> created,
                              Instant now);
  // It did not: everything is given back.
  Result<std::int64_t> release(std::uint64_t reservation, Instant now);

  // The counters stay.
  void set_rules(Rules rules);

  // --- Before the first grant:
  // The secret of the prints, if it is not the one it was made with.
  void set_secret(const engine::Secret& secret);
  // Brings back a record of a journal; all of them in their order.
  Status restore(const Record& record, Instant now);
  // From now on grants are written there.
  void set_journal(Journal* journal);

  // Drops keys that nobody would miss, some at a time.
  void sweep(Instant now);

  Reading reading() const;

  // For the gate and for passes: the lock may be taken again by the thread that has it, and
  // the rules are to be read with it only.
  void lock() const noexcept { lock_.lock(); }
  void unlock() const noexcept { lock_.unlock(); }
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

  Sampling(Rules rules, const Options& options);

  const Environment& environment(const Seat& seat) const noexcept {
    return rules_.environments()[seat.place];
  }
  Result<Seat> seat_of(const Who& who) const;
  std::int64_t room(const Seat& seat, Instant now) const noexcept;
  Grant described(const Seat& seat, Instant now) const noexcept;
  Result<std::uint64_t> charge(Seat& seat, std::int64_t units, Instant now, Keep keep);
  Result<std::int64_t> end(std::uint64_t reservation, std::optional<std::int64_t> created,
                           Instant now);
  void add_to(engine::Print key, Instant at, std::int64_t units);

  mutable std::recursive_mutex lock_;
  Rules rules_;
  Options options_;
  engine::Print key_seed_{};
  engine::Print parent_seed_{};
  Logs logs_;
  Instant last_{};  // time never goes back
  Reservations reservations_;
  std::vector<Tally> tallies_;  // in the order of the environments
  mutable std::array<meter::LogRun, meter::kRunsMax> ring_{};
  mutable std::array<meter::LogRun, meter::kRunsMax> parent_ring_{};
};

}  // namespace weir::system::sampling
