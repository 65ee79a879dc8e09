// Job: what is asked for, what is answered, and what comes of it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/pool/cost.h"
#include "weir/system/pool/limits.h"
#include "weir/system/pool/model_limiter.h"

namespace weir::system::pool {

using JobId = std::uint64_t;  // never 0, never used again

struct JobRequest {
  std::string_view type{};
  // The longest wait over everything; models that remain then get one try each. Nothing: as
  // long as the type waits for each of its models.
  std::optional<Duration> patience{};
};

// The job may run on this model now.
struct Start {
  JobId job = 0;
  std::string model{};
  Amounts estimate{};  // what was reserved
  // The windows it is booked in, and what the model has used of them in all instances.
  Instant minute{};
  Instant day{};
  Usage used{};
  ModelLimits limits{};
  Duration waited{};
  std::int64_t attempt = 1;  // grows with every delegation
};

enum class JobRefused : std::uint8_t {
  kExhausted,    // no model had room in time
  kRejected,     // the coordinator refused every model
  kNever,        // the estimate is larger than every model's limits
  kTypeSlots,    // no slot of the job type became free in time
  kDelegations,  // delegated as often as is allowed
  kUnavailable,  // the coordinator could not be asked, or has other limits
  kStopped,
};
// `all_models_exhausted`, ...: stable, the first word of the message.
std::string_view to_string(JobRefused reason) noexcept;

struct JobRefusal {
  JobId job = 0;
  JobRefused reason = JobRefused::kStopped;
  std::string model{};  // the last one that was tried
  Dimension dimension = Dimension::kConcurrency;
  Instant retry_at = kForever;  // the earliest at which a model may have room; kForever: unknown
  std::string message{};
};

using JobOutcome = std::variant<Start, JobRefusal>;
using JobCallback = std::function<void(Instant now, const JobOutcome& outcome)>;

// One run on one model.
struct Attempt {
  std::string model{};
  Used used{};
  double cost = 0;
};

// What a job came to.
struct Settlement {
  std::vector<Attempt> attempts{};  // those that were delegated first
  double total_cost = 0;
  Overage overage{};  // of the last one
};

enum class JobState : std::uint8_t {
  kWaitingForSlot,    // of its type
  kWaitingForModel,   // in the model's queue
  kWaitingForMemory,  // published: with everything else in hand
  kAsking,            // the coordinator
  kRunning,
};
std::string_view to_string(JobState state) noexcept;

}  // namespace weir::system::pool
