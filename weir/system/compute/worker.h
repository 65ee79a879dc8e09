// Worker: admits queries of clusters at the rates that a ledger gave them.
//
// Each cluster has one bucket, shared by its portals: a token every epoch time / units, at
// fixed ticks, at most the burst, none to begin with. A query takes a whole token and a
// slot; when all slots run, it waits in the queue; when that is full, it is overloaded. At
// its end the slot goes to the next in the queue, and what it did not use of its token
// goes back.
//
//   Worker worker(settings);
//   worker.apply(allocations, now);
//   Admission said = worker.admit("portal-1", cost_micro, now);
//   Ending end = worker.finish(said.query, {}, later);   // end.started may run now
//
// With fair queueing one cluster has at most its part of the slots and of the queue, so
// that no single client can overload the worker, and those that wait take turns. Where the queue is
// full, a cluster with less of it than another takes the last place of the one with most: so room
// is shared max-min, however many clusters there are.
//
// Thread safety: none; callers share it as a Guarded<Worker>.

#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"
#include "weir/meter/ticker.h"
#include "weir/system/compute/admission.h"
#include "weir/system/compute/lanes.h"
#include "weir/system/compute/queries.h"
#include "weir/system/compute/turns.h"

namespace weir::system::compute {

// A bucket as it outlives the process.
struct KeptBucket {
  std::string cluster;
  std::int64_t tokens_micro = 0;
  Instant last_tick{};

  friend bool operator==(const KeptBucket&, const KeptBucket&) = default;
};

// What a cluster has done in the epoch that is in force here.
struct ClusterUse {
  std::int64_t used_micro = 0;  // tokens taken, less what came back of them
  std::uint64_t accepted = 0;
  std::uint64_t rate_limited = 0;
  std::uint64_t overloaded = 0;
  std::uint64_t displaced = 0;

  std::uint64_t refused() const noexcept { return rate_limited + overloaded + displaced; }
};

struct ClusterReading {
  std::string_view cluster;
  std::int64_t units = 0;
  std::int64_t interval_ns = 0;
  std::int64_t burst_micro = 0;
  std::int64_t tokens_micro = 0;
  Instant next_tick{};
  std::uint32_t running = 0;
  std::uint32_t queued = 0;
  ClusterUse use{};
};

struct WorkerTotals {
  std::uint64_t outcomes[4] = {};  // by QueryOutcome
  std::uint64_t expired = 0;       // queries that were not ended in time
  std::uint64_t displaced = 0;     // that gave their place in the queue to another cluster
  std::int64_t running = 0;
  std::int64_t queued = 0;
  std::size_t clusters = 0;  // with a bucket
  std::int64_t epoch = 0;
};

constexpr std::size_t kDisplacedKept = 1'000;

class Worker {
 public:
  // Requires settings that validate() let pass.
  explicit Worker(const WorkerSettings& settings);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Puts allocations in force, all at once. Clusters that go on keep their tokens and the
  // tick in progress; new ones begin empty. Returns the clusters whose rate cannot be
  // held, which have none.
  std::vector<std::string> apply(const AllocationSet& set, Instant now);
  // No cluster has units from now on, for this reason.
  void clear(Cause cause);
  bool has_allocations() const noexcept { return without_ == Cause::kUnknownPortal; }

  // Requires 0 <= cost_micro <= kMicro.
  Admission admit(std::string_view portal, std::int64_t cost_micro, Instant now);
  // admit() for a query that an engine's hold ends, so that it never expires here.
  Admission admit_held(std::string_view portal, Instant now);
  // Takes a token and no slot, for a query whose end the worker is not told. Returns whether
  // there was a token.
  bool take_token(std::string_view portal, Instant now);
  // Counts a query that was meant, and that peek() refuses.
  void count_refusal(std::string_view portal, Instant now);
  // admit() for nothing.
  Admission peek(std::string_view portal, Instant now);

  // Ends a query that runs; without a cost, the one it was admitted with. One that is still
  // queued stays as it is.
  Ending finish(QueryId query, std::optional<std::int64_t> cost_micro, Instant now);
  // Ends it, running or queued, as if it had never been: the whole token goes back.
  Ending cancel(QueryId query, Instant now);
  // Ends the queries whose time is over; nothing goes back.
  void expire(Instant now);

  // Displaced: it waited, and its place went to another cluster; its token is back. So is told of
  // the last kDisplacedKept.
  enum class QueryState : std::uint8_t { kGone, kQueued, kRunning, kDisplaced };
  QueryState state(QueryId query) const noexcept;
  // Which queue a portal's queries wait in: portals of one cluster share its number, and a
  // portal without units has one of its own.
  std::uint64_t queue_of(std::string_view portal) const noexcept;
  // Whether a slot is free for a query of this portal.
  bool could_start(std::string_view portal) const noexcept;

  // The id that a query is known by outside: a keyed word and its number, so that whoever has seen
  // ids cannot name another one.
  HoldId id_of(QueryId query) const noexcept;
  // 0: no query of this worker has the id.
  QueryId query_of(HoldId id) const noexcept;

  std::optional<ClusterReading> cluster_of(std::string_view portal, Instant now) const;
  std::vector<ClusterReading> clusters(Instant now) const;
  // Those that used most in this epoch, the most first, and by name where that is equal; none that
  // did nothing.
  std::vector<ClusterReading> busiest(std::size_t most, Instant now) const;
  WorkerTotals totals() const noexcept;
  const WorkerSettings& settings() const noexcept { return settings_; }

  // --- across restarts
  std::vector<KeptBucket> kept() const;
  // Before the first apply(): buckets that begin as they were.
  void restore(std::vector<KeptBucket> buckets);

 private:
  struct PrintHash {
    std::size_t operator()(engine::Print print) const noexcept { return print.low; }
  };
  template <typename Value>
  using ByPrint = boost::unordered_flat_map<engine::Print, Value, PrintHash>;

  // Of a cluster's name, looked at where it is.
  struct NameHash {
    using is_transparent = void;
    const Worker* worker;
    std::size_t operator()(std::string_view name) const noexcept {
      return worker->print_of(name).low;
    }
    std::size_t operator()(Place at) const noexcept { return (*this)(worker->name_at(at)); }
  };
  struct NameEqual {
    using is_transparent = void;
    const Worker* worker;
    bool operator()(Place a, Place b) const noexcept { return a == b; }
    bool operator()(std::string_view name, Place at) const noexcept {
      return name == worker->name_at(at);
    }
    bool operator()(Place at, std::string_view name) const noexcept { return (*this)(name, at); }
  };

  // A bucket, and a lane of the queue. Without a bucket, until its last query has ended.
  struct Cluster {
    std::string name;
    std::int64_t units = 0;
    std::int64_t interval_ns = 1;
    std::int64_t burst_micro = 0;
    meter::TickerState bucket{};
    std::uint32_t running = 0;
    std::uint32_t queued = 0;
    Place first = kNowhere;  // of its queue
    Place last = kNowhere;
    std::uint32_t generation = 0;  // of the bucket
    ClusterUse use{};
    bool has_bucket = false;
    bool is_listed = false;  // in the allocations being applied
  };

  enum class Room : std::uint8_t { kRuns, kQueues, kWorkerFull, kClusterFull };

  engine::Print print_of(std::string_view name) const noexcept;
  std::string_view name_at(Place cluster) const noexcept { return clusters_[cluster].name; }
  Place find(engine::Print portal) const noexcept;
  Place place_for(const std::string& cluster);
  meter::TickerShape shape_of(const Cluster& cluster) const noexcept;
  Room room(Place cluster) const noexcept;
  Place lane_of(Place cluster) const noexcept;
  // All but the taking; `at` becomes the cluster's place.
  Admission look(engine::Print portal, Place& at, Instant now);
  bool check_rate(Place at, Instant now, Admission& said);
  bool check_room(Place at, Admission& said) const;
  // A cluster whose last query may give its place to one of `at`; kNowhere: none.
  Place displaceable(Place at) const noexcept;
  void displace(Place cluster, Instant now);
  void count_queued(Place cluster, std::int64_t change);

  bool apply_row(const ClusterAllocation& row, Duration epoch_time, Instant now, Place& at);
  void begin_bucket(Cluster& cluster, Instant now);
  void drop_bucket(Place at);
  std::int64_t burst_micro(std::int64_t interval_ns) const noexcept;

  Admission admit_until(std::string_view portal, std::int64_t cost_micro, Instant now,
                        Instant expires);
  ClusterReading reading(const Cluster& cluster, Instant now) const;
  void count(Place at, QueryOutcome outcome);
  void start(Place query);
  void enqueue(Place query);
  void take_out(Place query);  // of the queue
  Ending end(Place query, std::int64_t back_micro, Instant now);
  QueryId start_next(Instant now);
  void forget(Place query);
  void give_back(const Query& query, std::int64_t back_micro, Instant now);

  // After a change of the lane or of its cluster: joins or leaves turns_ as invariant 3 has it.
  void update_turn(Place lane);

  const WorkerSettings settings_;
  const engine::Secret secret_;
  const std::uint64_t owner_;                // of the ids of queries; never shown
  Cause without_ = Cause::kNotYetAllocated;  // why a portal that is not found has nothing
  std::int64_t epoch_ = 0;
  std::uint32_t round_ = 0;  // goes on with each epoch, so that use of another is told apart
  ByPrint<Place> portals_;
  std::vector<Cluster> clusters_;
  boost::unordered_flat_set<Place, NameHash, NameEqual> names_{0, NameHash{this}, NameEqual{this}};
  std::vector<Place> free_clusters_;
  std::size_t bucket_count_ = 0;
  Queries queries_;  // places for as many as may run and wait
  std::int64_t running_ = 0;
  std::int64_t queued_ = 0;
  Turns turns_;  // of lanes that have a query which may start
  Lanes lanes_;  // with fair queueing
  std::deque<QueryId> displaced_;
  ByPrint<KeptBucket> kept_;
  WorkerTotals totals_;
};

}  // namespace weir::system::compute
