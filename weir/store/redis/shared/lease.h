// Lease: units of one key of a shared limit that this server has drawn ahead.
//
// Drawn units are charged in Redis already, so this server may give them out without asking,
// until the lease ends. How many are worth holding follows demand: twice what was used in this
// half of its length, or in the one before, whichever is more. At half of that more is drawn; what
// was not used for a whole length goes back.
//
//   Lease lease({.most = 100, .length = 1s});
//   if (!lease.take(now, 1)) ... draw ...
//   lease.renew(sent_at, kForever);         // a draw sent at `sent_at` was answered
//   lease.add(10);                          // with ten more
//   const Tidied tidied = lease.tidy(now);  // now and then: what to give back
//
// A lease never holds more than `most`, and gives nothing out at or after its end. `now`, which is
// read once for requests that arrive together, is compared before each unit. So a process that was
// stopped meanwhile wakes up with none.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weir/base/time.h"
#include "weir/engine/rules.h"

namespace weir::store::redis {

class Lease {
 public:
  // Requires most >= 1 and a length of at least 2 ns.
  explicit Lease(const engine::LeaseSpec& terms) : terms_(terms) {}

  std::int64_t held(Instant now) const noexcept { return now < end_ ? held_ : 0; }
  Instant end() const noexcept { return end_; }

  // Takes all of `cost` or nothing. Requires cost >= 0.
  bool take(Instant now, std::int64_t cost) noexcept {
    if (cost > held(now)) return false;
    held_ -= cost;
    note_use(cost);
    return true;
  }

  // Units of a draw that went to a waiting request at once.
  void note_use(std::int64_t units) noexcept {
    // Neither exceeds 2^62; beyond `most` it makes no difference.
    used_ = std::min(terms_.most, used_ + units);
  }

  // What was used until now says nothing about what is worth holding.
  void forget_use() noexcept { used_ = used_before_ = 0; }

  // Puts back what was taken and not used, beside `reserved` units that may still be added.
  // Returns what does not fit, or is too late.
  std::int64_t put_back(Instant now, std::int64_t units, std::int64_t reserved) noexcept {
    return now < end_ ? add(units, reserved) : units;
  }

  // Redis has heard at `sent_at` or later what is held: all of it may be used for another length,
  // before `until`.
  void renew(Instant sent_at, Instant until) noexcept {
    end_ = std::min(sent_at + terms_.length, until);
  }
  // A draw has brought `units`. Returns what does not fit beside `reserved` others.
  std::int64_t add(std::int64_t units, std::int64_t reserved = 0) noexcept {
    const std::int64_t fits = std::min(units, room(reserved));
    held_ += fits;
    return units - fits;
  }

  // How many more may be held, though it may have ended, beside `reserved` others.
  std::int64_t room(std::int64_t reserved) const noexcept {
    return std::max<std::int64_t>(0, terms_.most - held_ - reserved);
  }
  // As many units as are worth holding.
  std::int64_t target() const noexcept {
    const std::int64_t used = std::max(used_, used_before_);
    return used > terms_.most / 2 ? terms_.most : 2 * used;
  }
  // Whether it is time to draw ahead of need.
  bool is_low(Instant now) const noexcept { return target() - held(now) > held(now); }

  // Gives up what is past its end. Returns how much that was.
  std::int64_t expire(Instant now) noexcept { return now < end_ ? 0 : empty(); }
  // Takes out everything.
  std::int64_t empty() noexcept { return std::exchange(held_, 0); }

  struct Tidied {
    std::int64_t expired = 0;  // units past their end
    std::int64_t surplus = 0;  // taken out, to be given back
    bool is_old = false;       // half of its length is over: ask Redis again
    bool is_idle = false;      // nothing is held, and no request came
  };
  Tidied tidy(Instant now) noexcept;

 private:
  engine::LeaseSpec terms_;
  std::int64_t held_ = 0;
  Instant end_{};                 // from then on nothing is held
  std::int64_t used_ = 0;         // in this half of a length
  std::int64_t used_before_ = 0;  // in the one before
  Instant half_{};                // when this half ends
};

}  // namespace weir::store::redis
