#include "weir/system/pool/job.h"

namespace weir::system::pool {

std::string_view to_string(JobRefused reason) noexcept {
  switch (reason) {
    case JobRefused::kExhausted:
      return "all_models_exhausted";
    case JobRefused::kRejected:
      return "all_models_rejected";
    case JobRefused::kNever:
      return "never";
    case JobRefused::kTypeSlots:
      return "no_type_slot";
    case JobRefused::kDelegations:
      return "too_many_delegations";
    case JobRefused::kUnavailable:
      return "unavailable";
    case JobRefused::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view to_string(JobState state) noexcept {
  switch (state) {
    case JobState::kWaitingForSlot:
      return "waiting_for_slot";
    case JobState::kWaitingForModel:
      return "waiting_for_model";
    case JobState::kWaitingForMemory:
      return "waiting_for_memory";
    case JobState::kAsking:
      return "asking";
    case JobState::kRunning:
      return "running";
  }
  return "unknown";
}

}  // namespace weir::system::pool
