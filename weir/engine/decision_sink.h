// DecisionSink: is told what was asked and what was decided.
//
// The engine tells it of every Engine::ask(), and of every bucket whose parameters came with
// the call, so that decisions can be recorded and replayed. decide() and peek() are not told.
// Without a sink that costs one comparison.
//
// Thread safety: called from any thread, often from several at once. Must not block.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"

namespace weir::engine {

// A bucket whose parameters came with the call.
struct AdHocAsk {
  std::string_view key;
  std::int64_t token_ns = 0;  // a token comes back every so often
  std::int64_t burst = 0;
  std::int64_t quantity = 0;
};

class DecisionSink {
 public:
  virtual ~DecisionSink() = default;

  // An ask of `now` and its decision. An error decides nothing, so it is not told, and
  // neither is a peek. A request that waits in memory is told once, when it begins to:
  // its verdict is kQueued.
  virtual void record(const Ask& ask, Instant now, const Decision& decision) noexcept = 0;
  virtual void record_ad_hoc(const AdHocAsk& ask, Instant now, bool allowed) noexcept = 0;
};

}  // namespace weir::engine
