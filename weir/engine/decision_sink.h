// DecisionSink: is told what was asked and what was decided.
//
// Protocols tell it of each batch they have decided, so that decisions can be recorded
// and replayed. No sink costs one comparison a batch.
//
// Thread safety: called from any thread, often from several at once. Must not block.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/request.h"

namespace weir::engine {

// What was asked for beside the costs; zero and empty where it was not.
struct AskedOptions {
  Duration hold{};
  Duration wait{};
  Duration book_within{};
  std::string_view up_to{};
};

// A bucket whose parameters came with the call.
struct AdHocAsked {
  std::string_view key;
  std::int64_t token_ns = 0;  // a token comes back every so often
  std::int64_t burst = 0;
  std::int64_t quantity = 0;
};

class DecisionSink {
 public:
  virtual ~DecisionSink() = default;

  // As many answers as requests. An answer that is an error decided nothing. A request
  // that waits is told once, when it begins to: its verdict is kQueued.
  virtual void record(std::span<const Request> requests, const AskedOptions& options, Instant now,
                      std::span<const Result<Decision>> answers) noexcept = 0;
  virtual void record_ad_hoc(const AdHocAsked& asked, Instant now, bool allowed) noexcept = 0;
};

}  // namespace weir::engine
