// Server metrics: the whole text of GET /metrics.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/clock.h"
#include "weir/engine/engine.h"
#include "weir/server/keeper.h"
#include "weir/server/loop.h"
#include "weir/server/readiness.h"
#include "weir/store/redis/shared/limits.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/sampling/sampling.h"
#include "weir/system/throttle/throttles.h"
#include "weir/wire/http/compute_parts.h"

namespace weir::server {

class HttpFront;
class Pool;

struct MetricSources {
  const engine::Engine& engine;
  const std::vector<std::unique_ptr<Loop>>& loops;
  const HttpFront& http;
  const Readiness& readiness;
  Clock& clock;
  const Keeper& keeper;
  std::shared_ptr<const system::throttle::Throttles> throttles{};  // nullptr: none
  std::shared_ptr<const system::sampling::Sampling> sampling{};    // nullptr: none
  std::shared_ptr<const system::contract::Accounts> accounts{};    // nullptr: none
  wire::http::ComputeParts compute{};
  std::optional<store::redis::SharedCounts> shared{};  // none: no limit can be shared
  std::vector<store::redis::LeaseCounts> leases{};
  Pool* pool = nullptr;       // nullptr: none
  std::uint64_t refused = 0;  // connections
  std::uint64_t reloads = 0;
  std::uint64_t failed_reloads = 0;
};

std::string server_metrics(const MetricSources& from);

}  // namespace weir::server
