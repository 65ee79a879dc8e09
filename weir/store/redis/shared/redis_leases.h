// Redis leases: leases are drawn from Redis, and go back there.
//
// The LeaseSource (lease_source.h) of a server with shared limits: each draw and each return is a
// script, draw.lua or give_back.lua. Both first have Redis take back what servers held whose leases
// have ended.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "weir/engine/shared.h"
#include "weir/store/redis/shared/decisions.h"
#include "weir/store/redis/shared/lease_source.h"

namespace weir::store::redis {

class RedisLeases final : public LeaseSource {
 public:
  // `decisions` counts draws among what is asked.
  RedisLeases(const Fleet& fleet, Connections& connections, Epochs& epochs, Outages& outages,
              Decisions& decisions)
      : fleet_(fleet),
        connections_(connections),
        epochs_(epochs),
        outages_(outages),
        decisions_(decisions) {}

  void draw(const LeaseDraw& draw, DrawCallback callback) override;
  void give_back(const LeaseReturn& units, Instant now, ReturnCallback callback) override;
  // Has Redis take back what lapsed of this key, and nothing else. What is sent after it over the
  // same connection is heard after it.
  void take_back_lapsed(const engine::SharedItem& item,
                        const std::shared_ptr<const engine::RuleSet>& rules, Instant now);

 private:
  Result<Drawn> read(const Reply& reply, std::span<const std::int64_t> amounts,
                     std::string_view seen);

  const Fleet& fleet_;
  Connections& connections_;
  Epochs& epochs_;
  Outages& outages_;
  Decisions& decisions_;
};

}  // namespace weir::store::redis
