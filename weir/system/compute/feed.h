// Feed: which allocations a worker has in force, and for how long.
//
// A fetcher reads allocations from a ledger, over HTTP, from a file or in the same process,
// and tells the feed. The feed puts them in force at its worker, whole: as published once in
// an epoch, with what the first fetch of the epoch said; in immediate mode whenever they
// have changed. An earlier epoch counts too: it is that of another ledger, or of one that
// was begun anew.
//
// While nothing can be fetched, the last good allocations stay in force. Once they are older
// than `max_age` the outage policy decides: they go on (`keep`, as published), or no cluster
// has units (`deny`).
//
// Thread safety: none; the fetcher owns it. It locks the worker when it applies.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/compute/fault.h"
#include "weir/system/compute/gate.h"
#include "weir/system/compute/ledger.h"

namespace weir::system::compute {

enum class FeedMode : std::uint8_t { kEpoch, kImmediate };
enum class FeedOutage : std::uint8_t { kDeny, kKeep };

struct FeedSettings {
  FeedMode mode = FeedMode::kEpoch;
  FeedOutage outage = FeedOutage::kDeny;
  Duration poll = std::chrono::seconds{30};
  Duration max_age = std::chrono::hours{1};
  Duration service_time{0};  // of one query, to warn of too much; 0: not known

  friend bool operator==(const FeedSettings&, const FeedSettings&) = default;
};

// A cluster that has nothing at this worker though it has units.
struct LeftOut {
  std::string cluster;
  Fault fault = Fault::kNone;  // kOutOfRange: its rate cannot be held

  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

struct FeedStatus {
  std::optional<std::int64_t> epoch{};  // in force
  Instant fetched{};                    // when the ledger was last heard
  std::uint64_t fetches = 0;
  std::uint64_t failures = 0;
  std::string trouble{};          // of the last fetch; empty: none
  std::string warning{};          // of what is in force: more than the worker can serve, or nothing
  bool is_stale = false;          // no cluster has units, because the last fetch is too old
  std::vector<LeftOut> broken{};  // by the ledger, or here
};

// What a worker hears of a ledger in the same process: the rows of allocations() with their
// names.
AllocationSet allocation_set(const Ledger& ledger, const Allocations& allocations,
                             Duration epoch_time);

class Feed {
 public:
  Feed(std::shared_ptr<SharedWorker> worker, const FeedSettings& settings)
      : worker_(std::move(worker)), settings_(settings) {}

  // What a ledger says now. `note`: why it says so little. `broken`: whom it left out.
  void heard(AllocationSet set, Instant now, std::string note = {},
             std::vector<LeftOut> broken = {});
  // It was asked, and says what it said. That goes in again where it had become too old.
  void heard_nothing_new(Instant now);
  // It could not be asked.
  void failed(std::string why, Instant now);
  // Looks at the age of what is in force.
  void look(Instant now);

  // What was in force before this process, and when it was heard.
  void resume(AllocationSet set, Instant heard, Instant now);

  const FeedStatus& status() const noexcept { return status_; }
  const FeedSettings& settings() const noexcept { return settings_; }
  const AllocationSet& last() const noexcept { return last_; }  // that was applied

 private:
  void note_heard(Instant now);
  void apply(AllocationSet set, Instant now, std::vector<LeftOut> broken);

  std::shared_ptr<SharedWorker> worker_;
  FeedSettings settings_;
  FeedStatus status_;
  AllocationSet last_;
};

}  // namespace weir::system::compute
