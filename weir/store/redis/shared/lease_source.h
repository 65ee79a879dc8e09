// Lease source: where leases are drawn from, and go back to.
//
// What Leases (leases.h) asks of Redis, as an interface, so that it can be tried without one.
// The source keeps a record of what each server said last that it holds. A lease ends
// a little later by the clock of the source than by that of the server. If the server has not been
// heard by then, those units go back: a server that crashed keeps nothing from the others for
// longer.
//
// Thread safety: called from any thread, and calls back from any, maybe before it returns.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/rule_set.h"
#include "weir/store/redis/shared/meter.h"

namespace weir::store::redis {

// Units that were charged together.
struct LeaseUnits {
  std::int64_t units = 0;
  std::int64_t stamp_us = 0;  // under which they were charged; a window's is since when it counts
};

struct Drawn;

struct LeaseDraw {
  std::shared_ptr<const engine::RuleSet> rules;  // of the limit
  const engine::Rule* rule = nullptr;
  std::string key;                        // in Redis
  std::span<const std::int64_t> amounts;  // the largest first; the first that fits is charged
  std::int64_t cost = 0;                  // which a log is to tell about, if none fits
  std::vector<LeaseUnits> kept{};         // held beside, when those who wait have been served
  std::int64_t awaited = 0;               // of what is drawn, by those who wait
  std::string epoch{};                    // which data those were drawn from
  std::uint64_t word = 0;                 // which message this is: later ones know better
  Instant until{};                        // of the source: from then on it has taken `kept` back
  Instant now{};
  // For an answer that comes when the draw counts as failed already.
  std::function<void(const Drawn&)> late{};
};

struct Drawn {
  bool is_refused = false;  // not even the smallest amount was there
  std::int64_t units = 0;
  Instant now{};              // of the source, a whole microsecond
  Instant here{};             // of this process, when it was heard
  SharedState state{};        // of the meter, afterwards
  std::int64_t stamp_us = 0;  // under which they were charged
  std::string epoch{};        // which data they were drawn from
};

struct DrawFailure {
  bool is_outage = false;  // the outage policy decides
  Error error;
  bool may_have_run = false;  // or may yet; false: the source never hears of it
};

using DrawCallback = std::function<void(const std::variant<Drawn, DrawFailure>&)>;

// Units that go back, or only a word of what is held. Nothing happens from `until` on, in the time
// of the source: it has taken back everything by then, or will.
struct LeaseReturn {
  std::shared_ptr<const engine::RuleSet> rules;
  const engine::Rule* rule = nullptr;
  std::string key;
  std::vector<LeaseUnits> units{};
  std::string epoch{};             // which data all of them were drawn from
  std::vector<LeaseUnits> kept{};  // still held
  std::uint64_t word = 0;
  Instant until{};
};

// What became of a message.
enum class Delivery : std::uint8_t {
  kHeard,
  kUnsure,  // no answer: the source may have heard it, or may do so yet
  kUnsent,  // the source never hears of it
};

using ReturnCallback = std::function<void(Delivery)>;

class LeaseSource {
 public:
  virtual ~LeaseSource() = default;

  // `draw` is read before this returns.
  virtual void draw(const LeaseDraw& draw, DrawCallback callback) = 0;
  virtual void give_back(const LeaseReturn& units, Instant now, ReturnCallback callback) = 0;
};

}  // namespace weir::store::redis
