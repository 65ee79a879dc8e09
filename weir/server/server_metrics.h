// Server metrics: the whole text of GET /metrics.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/clock.h"
#include "weir/engine/engine.h"
#include "weir/server/keeper.h"
#include "weir/server/loop.h"
#include "weir/server/readiness.h"
#include "weir/server/unread_replies.h"
#include "weir/store/redis/shared/limits.h"

namespace weir::server {

class HttpFront;
class Systems;

struct MetricSources {
  const engine::Engine& engine;
  const std::vector<std::unique_ptr<Loop>>& loops;
  const HttpFront& http;
  const Readiness& readiness;
  Clock& clock;
  const Keeper& keeper;
  const Systems& systems;
  std::optional<store::redis::SharedCounts> shared{};  // none: no limit can be shared
  std::vector<store::redis::LeaseCounts> leases{};
  std::uint64_t refused = 0;  // connections
  const UnreadReplies& unread;
  std::uint64_t reloads = 0;
  std::uint64_t failed_reloads = 0;
};

std::string server_metrics(const MetricSources& from);

}  // namespace weir::server
