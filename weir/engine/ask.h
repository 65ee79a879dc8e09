// Ask: one request for a decision, and how its answer comes back.
//
// Engine::ask() answers every ask exactly once. Most are answered on the stack, by
// Answers::now(), before the call returns. One that waits, or whose limits live in a
// store, is answered later: Answers::later() is told so, and what it returns is called
// once, from any thread, perhaps before ask() has returned.
//
//   asks ─► plan ─► memory ──────────────────► Answers::now(i, decision)
//                     ├─ full, and may wait ─► Answers::later(i, ticket) ─► late answer
//                     └─ kept in a store ────► Answers::later(i, ticket) ─► late answer
//
// A late answer can be given up by its ticket, whatever it waits for: Engine::give_up().
// If a store has admitted the ask by then, its hold is cancelled; without a hold, the
// charge stays.
//
// Thread safety: an Ask is a value. Answers are told by one call at a time; a late answer
// may come from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "weir/base/decision.h"
#include "weir/base/export.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/request.h"

namespace weir::engine {

// A view, as its request is: what it points to need only live until ask() returns.
struct Ask {
  Request request{};
  Duration hold{};           // keep a hold this long; 0: only if a limit counts slots
  std::string_view up_to{};  // a unit: grant as much of its cost as there is, at least 1
  // Accept a start up to this far in the future. An error where an enforced limit that it takes
  // something of cannot be booked: windows, slots, shared limits, and gates that do not say so.
  Duration book_within{};
  Instant wait_until{};  // an admission is of use until then; `now` or before: do not wait
  bool is_peek = false;  // say what would be decided; charge nothing

  // Whether nothing but the request is set.
  bool is_plain() const noexcept {
    return hold.count() == 0 && up_to.empty() && book_within.count() == 0 && wait_until.ns == 0 &&
           !is_peek;
  }
};

// The final answer to an ask: a decision (allowed, denied, never, overloaded), or an error.
using LateAnswer = std::function<void(const Result<Decision>&)>;

// Where the answers to several asks go. Each ask is told once, in their order: now() with its
// answer, or later().
class WEIR_EXPORT Answers {
 public:
  virtual ~Answers() = default;

  // The answer to the i-th ask. It is gone when this returns.
  virtual void now(std::size_t i, const Result<Decision>& answer) = 0;

  // The i-th ask is answered later, by what this returns, unless give_up(ticket) comes
  // first. Locks of the engine are held: an implementation must not call the engine.
  virtual LateAnswer later(std::size_t i, std::uint64_t ticket) = 0;
};

// How a hold stands.
enum class HoldState : std::uint8_t {
  kActive,
  kSettled,
  kCancelled,
  kGone,  // expired, or never existed
};

// As protocols and the command line write it.
constexpr std::string_view to_string(HoldState state) noexcept {
  switch (state) {
    case HoldState::kActive:
      return "active";
    case HoldState::kSettled:
      return "settled";
    case HoldState::kCancelled:
      return "cancelled";
    case HoldState::kGone:
      return "gone";
  }
  return "unknown";
}

// What a call that ends or renews a hold answers.
struct HoldAnswer {
  HoldState state = HoldState::kGone;
  std::uint64_t record = 0;  // as that of a Decision

  friend bool operator==(const HoldAnswer&, const HoldAnswer&) = default;
};

using HoldCallback = std::function<void(const Result<HoldAnswer>&)>;
using StatusCallback = std::function<void(const Status&)>;

// A bucket whose parameters came with the call.
struct AdHocAsk {
  std::string_view key;
  std::int64_t token_ns = 0;  // a token comes back every so often
  std::int64_t burst = 0;
  std::int64_t quantity = 0;
};

// Is told what was asked and what was decided (EngineOptions::sink).
//
// The engine tells it of every Engine::ask(), and of every bucket whose parameters came with
// the call, so that decisions can be recorded and replayed. decide() and peek() are not told.
// Without a sink that costs one comparison.
//
// Thread safety: called from any thread, often from several at once. Must not block.
class WEIR_EXPORT DecisionSink {
 public:
  virtual ~DecisionSink() = default;

  // An ask of `now` and its decision. An error decides nothing, so it is not told, and
  // neither is a peek. A request that waits in memory is told once, when it begins to:
  // its verdict is kQueued.
  virtual void record(const Ask& ask, Instant now, const Decision& decision) noexcept = 0;
  virtual void record_ad_hoc(const AdHocAsk& ask, Instant now, bool allowed) noexcept = 0;
};

}  // namespace weir::engine
