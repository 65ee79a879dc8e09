// Admission: the words of a worker's answers, and its settings.
//
// Thread safety: plain values.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"

namespace weir::system::compute {

// Above 0; never reused by the same worker, nor known to it after a restart. Clients are told the
// Worker::id_of() it.
using QueryId = std::int64_t;

enum class QueryOutcome : std::uint8_t { kAccepted, kRateLimited, kNoAllocation, kOverloaded };

constexpr std::string_view to_string(QueryOutcome outcome) noexcept {
  switch (outcome) {
    case QueryOutcome::kAccepted:
      return "accepted";
    case QueryOutcome::kRateLimited:
      return "rate_limited";
    case QueryOutcome::kNoAllocation:
      return "no_allocation";
    case QueryOutcome::kOverloaded:
      return "overloaded";
  }
  return "unknown";
}

enum class Cause : std::uint8_t {
  kNone,
  kBucketEmpty,
  kUnknownPortal,    // no cluster with units has it
  kNotYetAllocated,  // nothing has been heard from a ledger
  kStale,            // what was heard is too old to go on with
  kWorkerFull,       // running and queue
  kClusterFull,      // the cluster's part of them
};

constexpr std::string_view to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::kNone:
      return "none";
    case Cause::kBucketEmpty:
      return "bucket_empty";
    case Cause::kUnknownPortal:
      return "unknown_portal";
    case Cause::kNotYetAllocated:
      return "not_yet_allocated";
    case Cause::kStale:
      return "stale";
    case Cause::kWorkerFull:
      return "worker_full";
    case Cause::kClusterFull:
      return "cluster_full";
  }
  return "unknown";
}

// What is looked at first. Rate first: an empty bucket is rate_limited though the queue is
// full too, and a full queue costs no token. Queue first, as worker 2.14 has it: such a
// query is overloaded, also one from an unknown portal.
enum class CheckOrder : std::uint8_t { kRateFirst, kQueueFirst };

// Who starts next when a query ends. Fair: clusters take turns, and each has its own part of
// running and queue. First in: one queue for all, as published.
enum class Queueing : std::uint8_t { kFair, kFirstIn };

// Where the unused part of a unit goes. Reservation: to the bucket it was taken from, if
// that is still there. Portal: to the bucket that the portal has by then, as published.
enum class Refund : std::uint8_t { kReservation, kPortal };

// How many whole tokens a bucket holds: `least` where window is 0, else what the rate gives
// in the window, rounded up, between the two.
struct BurstRule {
  std::int64_t least = 3;
  std::int64_t most = 3;
  Duration window{0};

  friend constexpr bool operator==(const BurstRule&, const BurstRule&) = default;
};

constexpr std::int64_t kRunningMax = 1'000'000;
constexpr std::int64_t kBurstMax = 1'000'000;

struct WorkerSettings {
  std::int64_t running = 32;
  std::int64_t queue = 16;
  // The part of one cluster; 0: half, rounded up. Only where queueing is fair.
  std::int64_t cluster_running = 0;
  std::int64_t cluster_queue = 0;
  BurstRule burst{};
  CheckOrder order = CheckOrder::kRateFirst;
  Queueing queueing = Queueing::kFair;
  Refund refund = Refund::kReservation;
  Duration query_time = std::chrono::minutes{5};  // after it a query counts as ended
  Duration overloaded_hint = std::chrono::seconds{1};

  friend bool operator==(const WorkerSettings&, const WorkerSettings&) = default;
};

Status validate(const WorkerSettings& settings);

struct Admission {
  QueryOutcome outcome = QueryOutcome::kNoAllocation;
  Cause cause = Cause::kNone;
  // When to come again. Also of the query that took the last token; none: at any time, or
  // unknown.
  std::optional<Duration> retry_after{};
  QueryId query = 0;  // of an accepted one that was meant
  bool is_queued = false;
  std::optional<std::int64_t> tokens_micro{};  // left; none: there is no bucket
};

struct Ending {
  bool known = false;  // whether there was such a query, and it had not ended
  bool was_queued = false;
  QueryId started = 0;                         // of the queue, in its place; 0: none
  std::optional<std::int64_t> tokens_micro{};  // in the bucket that the portal has now
};

// What a ledger says that a worker has to serve.
struct ClusterAllocation {
  std::string cluster;
  std::vector<std::string> portals{};
  std::int64_t units = 0;

  friend bool operator==(const ClusterAllocation&, const ClusterAllocation&) = default;
};

struct AllocationSet {
  std::int64_t epoch = 0;
  Duration epoch_time{};  // how long an epoch lasts, as measured
  std::vector<ClusterAllocation> clusters{};

  friend bool operator==(const AllocationSet&, const AllocationSet&) = default;
};

// A warning if the queries that the rates let in would need more than `running` slots when
// each takes `service_time`: the sum of rate times service time, exactly. Empty: they fit.
std::string oversubscription(const AllocationSet& set, Duration service_time, std::int64_t running);

}  // namespace weir::system::compute
