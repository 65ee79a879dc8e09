// Live job: a job from its submission until it has ended or was refused.
//
// Internal to the life of jobs (job_life.h) and the queues they wait in.

#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/job.h"
#include "weir/system/pool/model_limiter.h"
#include "weir/system/pool/type_meter.h"

namespace weir::system::pool {

struct LiveJob {
  JobId id = 0;  // ascending: also its place in a queue
  std::size_t type = 0;
  JobState state = JobState::kWaitingForSlot;
  JobCallback callback{};
  Instant submitted_at{};
  Instant patience_end = kForever;
  std::optional<Duration> hold{};
  bool has_slot = false;
  bool is_withdrawn = false;  // while the coordinator is asked

  // The wait at hand, or the run.
  std::size_t model = 0;
  Instant deadline = kForever;
  bool is_last_try = false;
  std::bitset<kModelsMax> tried{};
  std::uint64_t changes_seen = 0;  // of the model, when the coordinator was asked

  // What it holds.
  Reservation reservation{};
  TypeMark mark{};
  bool has_memory = false;
  Grant grant{};

  // Why it does not run, for a refusal.
  std::size_t nevers = 0;  // models whose limits it exceeds
  bool was_rejected = false;
  Dimension dimension = Dimension::kConcurrency;
  Instant retry_at = kForever;
  std::string why{};

  std::int64_t delegations = 0;
  std::vector<Attempt> attempts{};
};

}  // namespace weir::system::pool
