// Shared holds: the part of a hold that Redis keeps, ended or renewed by any server.
//
// Beside the meters lies a record of what a hold was charged where (keys.h). A server that ends a
// hold reads the record and works out, by its own rules, what goes back to each limit. One script
// gives it back and marks the hold as ended: once, by however many servers and how often it is
// asked.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <functional>
#include <memory>
#include <span>

#include "weir/engine/shared.h"
#include "weir/store/redis/shared/connections.h"
#include "weir/store/redis/shared/epochs.h"
#include "weir/store/redis/shared/fleet.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/outages.h"

namespace weir::store::redis {

class SharedHolds {
 public:
  SharedHolds(const Fleet& fleet, Connections& connections, Epochs& epochs, Outages& outages)
      : fleet_(fleet), connections_(connections), epochs_(epochs), outages_(outages) {}

  // As SharedStore has it.
  void end(HoldId hold, engine::HoldState as, std::span<const engine::Cost> actual,
           std::shared_ptr<const engine::RuleSet> rules, Instant now,
           engine::SharedEndCallback callback);
  void renew(HoldId hold, Duration ttl, engine::HoldStateCallback callback);
  void of_slots(const engine::SharedItem& item, std::size_t most, engine::HoldsCallback callback);

 private:
  struct Ending;

  // What was charged; a record of a hold that is gone, if there is none.
  void read(HoldId hold, std::function<void(Result<HoldRecord>)> next);
  void give_back(const std::shared_ptr<Ending>& ending, const HoldRecord& record);

  const Fleet& fleet_;
  Connections& connections_;
  Epochs& epochs_;
  Outages& outages_;
};

}  // namespace weir::store::redis
