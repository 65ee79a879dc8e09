// Decision: the answer to "may this start now, and if not, when?"
//
// A decision speaks for the whole request: `verdict` and `earliest` hold over
// all its limits together. outcomes() has one row for each limit that applied, in
// the order of the rule set. A request that no limit applies to is allowed.
//
//   if (decision.allowed()) start(decision.hold);
//   else retry_in(decision.binding()->limit, decision.retry_after(now));
//
// A refusal has taken nothing from any limit. `earliest` is then the first instant
// at which the request fits if no other request comes before.
//
// Thread safety: none needed. A decision is a value. The names it refers to live as
// long as the engine that decided.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/time.h"

namespace weir {

enum class Verdict : std::uint8_t {
  kAllowed,     // admitted, and the cost has been charged
  kDenied,      // over a limit now; the same request may pass at `earliest`
  kNever,       // costs more than a limit can ever hold; waiting will not help
  kOverloaded,  // wanted to wait, but the queue is full
  kQueued,      // waiting; the answer will come through the callback
};

// As protocols, metrics and the command line write it.
constexpr std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kAllowed:
      return "allowed";
    case Verdict::kDenied:
      return "denied";
    case Verdict::kNever:
      return "never";
    case Verdict::kOverloaded:
      return "overloaded";
    case Verdict::kQueued:
      return "queued";
  }
  return "unknown";
}

constexpr std::size_t kLimitsPerRequestMax = 16;  // limits that one request may touch

// What one limit said. After an admission `remaining` is what is left; after a
// refusal it is what there was, since nothing has been taken.
struct Outcome {
  std::string_view limit;
  Verdict verdict;         // of this limit alone
  bool shadow;             // counted and reported, never enforced
  bool overridden;         // the key has parameters of its own
  std::int64_t cost;       // what the request costs here, weight applied
  std::int64_t remaining;  // never negative
  std::int64_t capacity;   // the most this limit can hold
  Instant earliest;        // when this limit alone would admit the cost; kForever: unknown
};

// Names a hold: an admission that can still be settled, cancelled or renewed.
struct HoldId {
  std::uint64_t owner = 0;   // the engine that made it
  std::uint64_t number = 0;  // never reused by that engine; 0: no hold
  bool is_shared = false;    // a part of it is kept outside that engine, for any to end

  explicit operator bool() const noexcept { return number != 0; }
  friend bool operator==(HoldId, HoldId) = default;
};

struct Decision {
  // Leaves the outcomes beyond outcome_count unwritten: clearing sixteen of them
  // would cost more than most decisions.
  Decision() noexcept {}

  bool allowed() const noexcept { return verdict == Verdict::kAllowed; }

  // The limit that bound, or nullptr if none did.
  const Outcome* binding() const noexcept {
    if (binding_index < 0) return nullptr;
    return &outcome_rows[static_cast<std::uint8_t>(binding_index)];
  }
  std::span<const Outcome> outcomes() const noexcept {
    return std::span(outcome_rows).first(outcome_count);
  }
  // The outcome of the named limit, or nullptr if it did not apply.
  const Outcome* outcome(std::string_view limit) const noexcept {
    for (const Outcome& row : outcomes()) {
      if (row.limit == limit) return &row;
    }
    return nullptr;
  }
  // How long until `earliest`; 0 if that has come. More than a century: it is unknown.
  Duration retry_after(Instant now) const noexcept {
    return earliest <= now ? Duration{0} : earliest - now;
  }

  Verdict verdict = Verdict::kAllowed;
  std::int8_t binding_index = -1;  // into the outcomes
  std::uint8_t outcome_count = 0;
  std::int64_t shortfall = 0;  // units the binding limit lacked
  Instant earliest{};        // when the whole request fits, or starts if booked; kForever: unknown
  std::int64_t granted = 0;  // of an "up to n" request: how much was granted
  HoldId hold{};
  Instant hold_expires{};
  // A record of this number must be on disk before a client is told of this; 0: none need be.
  std::uint64_t record = 0;
  union {
    std::array<Outcome, kLimitsPerRequestMax> outcome_rows;
  };
};

}  // namespace weir
