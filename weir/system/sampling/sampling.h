// Sampling: a scheduler may not hand out tasks faster than the list rotates.
//
// The scheduler says for which miner it wants how many tasks, and is granted up to what is
// left of the environment's allowance, at once or not at all for each unit:
//
//   auto sampling = Sampling::create(*rules, {});
//   auto grant = sampling->grant({.hotkey = "5F3s", .revision = "r1",
//                                 .environment = "LGC-v2", .id = 7}, 20, now);
//   grant->granted;     // 6, with an allowance of 6 an hour
//   grant->next_free;   // in an hour
//   sampling->commit(grant->reservation, /*created=*/4, now);   // two are given back
//
// What is counted, and which promises hold, stands in counters.h: these are the counters of
// a process, for all its callers. A gate and a pass hold the lock over several calls and use
// locked(), which has more; the functions here take the lock themselves.
//
// Thread safety: every function may be called from any number of threads, without the lock.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "weir/base/guarded.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/sampling/counters.h"

namespace weir::system::sampling {

class Sampling : public Guarded<Counters> {
 public:
  static std::shared_ptr<Sampling> create(Rules rules, const Options& options) {
    return std::shared_ptr<Sampling>(new Sampling(std::move(rules), options));
  }

  Result<Grant> grant(const Who& who, std::int64_t want, Instant now, Keep keep = Keep::kReserved) {
    const std::scoped_lock lock(*this);
    return locked().grant(who, want, now, keep);
  }
  Result<Grant> peek(const Who& who, std::int64_t want, Instant now) const {
    const std::scoped_lock lock(*this);
    return locked().peek(who, want, now);
  }
  Result<GivenBack> commit(HoldId reservation, std::optional<std::int64_t> created, Instant now) {
    const std::scoped_lock lock(*this);
    return locked().commit(reservation, created, now);
  }
  Result<GivenBack> release(HoldId reservation, Instant now) {
    const std::scoped_lock lock(*this);
    return locked().release(reservation, now);
  }

  void set_rules(Rules rules) {
    const std::scoped_lock lock(*this);
    locked().set_rules(std::move(rules));
  }
  void set_secret(const engine::Secret& secret) {
    const std::scoped_lock lock(*this);
    locked().set_secret(secret);
  }
  Status restore(const Record& record, Instant now) {
    const std::scoped_lock lock(*this);
    return locked().restore(record, now);
  }
  void set_journal(Journal* journal) {
    const std::scoped_lock lock(*this);
    locked().set_journal(journal);
  }
  void sweep(Instant now) {
    const std::scoped_lock lock(*this);
    locked().sweep(now);
  }
  std::vector<RefusedMiner> refused() const {
    const std::scoped_lock lock(*this);
    return locked().refused();
  }
  Reading reading() const {
    const std::scoped_lock lock(*this);
    return locked().reading();
  }

 private:
  Sampling(Rules rules, const Options& options)
      : Guarded(std::in_place, std::move(rules), options) {}
};

}  // namespace weir::system::sampling
