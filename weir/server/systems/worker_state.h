// Worker state: what a worker has, in a file that outlives the process.
//
//   {"heard_ns":1800000000000000000,"buckets":[{"cluster":"acme","tokens_micro":1500000,...}]}
//   {"worker":"","block":0,"epoch":7,...}       as GET /v1/compute/allocations answers
//
// Two lines, written whole under another name, synced and renamed.
//
// Thread safety: functions of values.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/compute/worker.h"

namespace weir::server {

constexpr std::string_view kWorkerStateName = "worker.state";

struct WorkerState {
  Instant heard{};  // when the allocations were
  std::vector<system::compute::KeptBucket> buckets{};
  system::compute::AllocationSet allocations{};
};

std::string worker_state_text(const WorkerState& state);
Result<WorkerState> parse_worker_state(std::string_view text);

// None: there is no such file.
Result<std::optional<WorkerState>> read_worker_state(const std::filesystem::path& file);
Status write_worker_state(const std::filesystem::path& file, std::string_view text);

}  // namespace weir::server
