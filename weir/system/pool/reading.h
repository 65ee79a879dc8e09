// Reading: what an instance shows of its pools.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/pool/limits.h"
#include "weir/system/pool/memory.h"
#include "weir/system/pool/model_limiter.h"
#include "weir/system/pool/type_meter.h"

namespace weir::system::pool {

// Since the instance began.
struct ModelTally {
  std::uint64_t started = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t expired = 0;
  std::uint64_t delegated = 0;
  std::uint64_t refused = 0;  // by the coordinator
  std::uint64_t tokens = 0;   // used
  std::uint64_t requests = 0;
  double cost = 0;
};
struct JobTally {
  std::uint64_t submitted = 0;
  std::uint64_t refused = 0;
  std::uint64_t withdrawn = 0;
  std::uint64_t adjustments = 0;
};

// One job type on one model.
struct TypeOnModelReading {
  std::int64_t slots = 0;  // of the dimension that binds
  std::int64_t used = 0;
  Dimension dimension = Dimension::kConcurrency;
  std::int64_t in_flight = 0;
  std::int64_t waiting = 0;
};

struct ModelReading {
  std::string name{};
  std::optional<Pool> pool{};                   // nothing: no allocation yet
  std::array<RateReading, kRateCount> rates{};  // of this instance, in the order of kRates
  std::int64_t in_flight = 0;
  std::int64_t waiting = 0;
  std::vector<TypeOnModelReading> types{};  // in the order of the job types
  ModelTally tally{};
};

struct TypeReading {
  std::string name{};
  double ratio = 0;
  double initial_ratio = 0;
  bool is_flexible = true;
  std::int64_t slots = 0;
  std::int64_t in_flight = 0;  // by the published rules those that wait for a model included
  std::int64_t waiting = 0;    // for a model; by the published rules for a slot
};

struct Reading {
  CountRule rule = CountRule::kStrict;
  bool is_reachable = false;
  Allocation allocation{};
  std::int64_t capacity = 0;         // that the job types share
  std::int64_t available_slots = 0;  // as advertised
  std::optional<MemoryReading> memory{};
  Instant last_adjusted{};  // 0: never
  std::vector<ModelReading> models{};
  std::vector<TypeReading> types{};
  std::size_t jobs = 0;     // waiting or running
  std::size_t waiting = 0;  // for a slot or a model
  JobTally tally{};
};

}  // namespace weir::system::pool
