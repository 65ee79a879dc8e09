// What holds after every call:
//
//  1. running_ and queued_ are the sums over the clusters, and neither is above its bound; with
//     fair queueing no cluster is above its part.
//  2. A query has taken a whole token. What goes back to a bucket goes back at its end, once, and
//     only to a bucket of the same generation (Refund::kPortal: to the portal's).
//  3. A query that waits stands in one lane: its cluster's, or with Queueing::kFirstIn in that of
//     place 0. A lane is in turns_ if its first query may start as soon as a slot is free.
//  4. No slot is free while a lane is in turns_: each end starts the next.
//  5. A query is refused for want of a place only if no cluster has more than one place more than
//     its own: what is displaced is the newest of the longest lane, with its token given back.
//  6. A portal leads to a cluster with a bucket. A cluster without one is kept until its last
//     query has ended, then its place is free.

#include "weir/system/compute/worker.h"

#include <algorithm>
#include <utility>

#include "weir/base/assert.h"
#include "weir/base/keyed_word.h"

namespace weir::system::compute {
namespace {

constexpr std::int64_t part_of(std::int64_t part, std::int64_t whole) noexcept {
  return part > 0 ? part : (whole + 1) / 2;
}

WorkerSettings with_parts(WorkerSettings settings) {
  settings.cluster_running = part_of(settings.cluster_running, settings.running);
  settings.cluster_queue = part_of(settings.cluster_queue, settings.queue);
  return settings;
}

// Where the numbers of queries begin: anywhere, so that a number of before a restart means no
// query afterwards. Below 2^40, which leaves 2^62 / 2^21 - 2^40 of them for the most places.
std::int64_t any_serial() { return static_cast<std::int64_t>(engine::random_secret()[0] >> 24); }

}  // namespace

Worker::Worker(const WorkerSettings& settings)
    : settings_(with_parts(settings)),
      secret_(engine::random_secret()),
      owner_(engine::random_secret()[0]),
      queries_(settings_.running + settings_.queue, any_serial()) {
  WEIR_ASSERT(validate(settings_).ok());
  // The lane of all clusters where they do not take turns; unused where they do.
  clusters_.emplace_back();
}

engine::Print Worker::print_of(std::string_view name) const noexcept {
  return engine::with_value(secret_, {}, name);
}

Place Worker::find(engine::Print portal) const noexcept {
  const auto found = portals_.find(portal);
  return found == portals_.end() ? kNowhere : found->second;
}

meter::TickerShape Worker::shape_of(const Cluster& cluster) const noexcept {
  return {cluster.interval_ns, kMicro, cluster.burst_micro, meter::TickerStart::kEmpty};
}

Place Worker::lane_of(Place cluster) const noexcept {
  return settings_.queueing == Queueing::kFair ? cluster : 0;
}

// --- admission

Worker::Room Worker::room(Place at) const noexcept {
  const bool is_fair = settings_.queueing == Queueing::kFair && at != kNowhere;
  const Cluster* cluster = is_fair ? &clusters_[at] : nullptr;
  // Those who wait and may start come first: there are none as long as a slot is free.
  const bool may_run = is_fair ? cluster->running < settings_.cluster_running : queued_ == 0;
  if (running_ < settings_.running && may_run) return Room::kRuns;
  const bool is_full = queued_ >= settings_.queue;
  if (is_full && displaceable(at) == kNowhere) return Room::kWorkerFull;
  if (is_fair && cluster->queued >= settings_.cluster_queue) return Room::kClusterFull;
  return Room::kQueues;
}

Place Worker::displaceable(Place at) const noexcept {
  if (settings_.queueing != Queueing::kFair || at == kNowhere) return kNowhere;
  const Place longest = lanes_.longest();
  if (longest == kNowhere || clusters_[longest].queued <= clusters_[at].queued + 1) return kNowhere;
  return longest;
}

// The newest: it has waited least.
void Worker::displace(Place cluster, Instant now) {
  const Place query = clusters_[cluster].last;
  totals_.displaced += 1;
  clusters_[cluster].use.displaced += 1;
  displaced_.push_back(queries_[query].id);
  if (displaced_.size() > kDisplacedKept) displaced_.pop_front();
  give_back(queries_[query], kMicro, now);
  take_out(query);
  forget(query);
}

void Worker::count_queued(Place at, std::int64_t change) {
  Cluster& cluster = clusters_[at];
  const std::uint32_t before = cluster.queued;
  queued_ += change;
  cluster.queued = static_cast<std::uint32_t>(before + change);
  if (settings_.queueing == Queueing::kFair) lanes_.change(at, before, cluster.queued);
}

bool Worker::check_room(Place at, Admission& said) const {
  const Room found = room(at);
  said.is_queued = found == Room::kQueues;
  if (found == Room::kRuns || found == Room::kQueues) return true;
  said.outcome = QueryOutcome::kOverloaded;
  said.cause = found == Room::kWorkerFull ? Cause::kWorkerFull : Cause::kClusterFull;
  said.retry_after = settings_.overloaded_hint;
  said.is_queued = false;
  return false;
}

bool Worker::check_rate(Place at, Instant now, Admission& said) {
  if (at == kNowhere) {
    said.outcome = QueryOutcome::kNoAllocation;
    said.cause = without_;
    return false;
  }
  Cluster& cluster = clusters_[at];
  cluster.bucket = meter::advance(shape_of(cluster), cluster.bucket, now);
  if (cluster.bucket.tokens >= kMicro) return true;
  said.outcome = QueryOutcome::kRateLimited;
  said.cause = Cause::kBucketEmpty;
  said.retry_after = cluster.bucket.last_tick + Duration{cluster.interval_ns} - now;
  return false;
}

Admission Worker::look(engine::Print portal, Place& at, Instant now) {
  expire(now);
  Admission said;
  at = find(portal);
  const bool passes = settings_.order == CheckOrder::kRateFirst
                          ? check_rate(at, now, said) && check_room(at, said)
                          : check_room(at, said) && check_rate(at, now, said);
  if (at != kNowhere) {
    said.tokens_micro = meter::level(shape_of(clusters_[at]), clusters_[at].bucket, now);
  }
  if (!passes) {
    said.is_queued = false;
    return said;
  }
  said.outcome = QueryOutcome::kAccepted;
  *said.tokens_micro -= kMicro;
  if (*said.tokens_micro < kMicro) {
    said.retry_after = meter::next_tick(shape_of(clusters_[at]), clusters_[at].bucket, now) - now;
  }
  return said;
}

Admission Worker::peek(std::string_view portal, Instant now) {
  Place ignored = kNowhere;
  return look(print_of(portal), ignored, now);
}

Admission Worker::admit(std::string_view portal, std::int64_t cost_micro, Instant now) {
  return admit_until(portal, cost_micro, now, now + settings_.query_time);
}

Admission Worker::admit_held(std::string_view portal, Instant now) {
  return admit_until(portal, kMicro, now, kForever);
}

Admission Worker::admit_until(std::string_view portal, std::int64_t cost_micro, Instant now,
                              Instant expires) {
  WEIR_ASSERT(cost_micro >= 0 && cost_micro <= kMicro);
  const engine::Print print = print_of(portal);
  Place at = kNowhere;
  Admission said = look(print, at, now);
  count(at, said.outcome);
  if (said.outcome != QueryOutcome::kAccepted) return said;
  clusters_[at].bucket.tokens -= kMicro;
  // A place is free, or is taken from the longest lane; that may be of a cluster without units.
  if (said.is_queued && queued_ >= settings_.queue) displace(displaceable(at), now);
  const Place query = queries_.add(print, cost_micro, at, clusters_[at].generation);
  queries_[query].round = round_;
  said.query = queries_[query].id;
  if (said.is_queued) {
    enqueue(query);
  } else {
    start(query);
  }
  queries_.expect_end(query, expires);
  return said;
}

bool Worker::take_token(std::string_view portal, Instant now) {
  const Place at = find(print_of(portal));
  Admission said;
  if (!check_rate(at, now, said)) return false;
  clusters_[at].bucket.tokens -= kMicro;
  count(at, QueryOutcome::kAccepted);
  return true;
}

void Worker::count_refusal(std::string_view portal, Instant now) {
  Place at = kNowhere;
  const Admission said = look(print_of(portal), at, now);
  // One that would have to queue has no slot: where there is no place in the queue for it,
  // that is overloaded.
  const QueryOutcome outcome =
      said.outcome == QueryOutcome::kAccepted ? QueryOutcome::kOverloaded : said.outcome;
  count(at, outcome);
}

void Worker::count(Place at, QueryOutcome outcome) {
  totals_.outcomes[static_cast<std::size_t>(outcome)] += 1;
  if (at == kNowhere) return;
  ClusterUse& use = clusters_[at].use;
  switch (outcome) {
    case QueryOutcome::kAccepted:
      use.accepted += 1;
      use.used_micro += kMicro;
      return;
    case QueryOutcome::kRateLimited:
      use.rate_limited += 1;
      return;
    case QueryOutcome::kOverloaded:
      use.overloaded += 1;
      return;
    case QueryOutcome::kNoAllocation:
      return;
  }
}

std::uint64_t Worker::queue_of(std::string_view portal) const noexcept {
  const engine::Print print = print_of(portal);
  const Place at = find(print);
  return at == kNowhere ? print.low : std::uint64_t{at} + 1;
}

bool Worker::could_start(std::string_view portal) const noexcept {
  return room(find(print_of(portal))) == Room::kRuns;
}

// --- slots and queue

void Worker::start(Place query) {
  Query& started = queries_[query];
  started.is_queued = false;
  running_ += 1;
  clusters_[started.cluster].running += 1;
  update_turn(lane_of(started.cluster));
}

void Worker::enqueue(Place query) {
  Query& waiting = queries_[query];
  Cluster& lane = clusters_[lane_of(waiting.cluster)];
  waiting.is_queued = true;
  waiting.before = lane.last;
  (lane.last == kNowhere ? lane.first : queries_[lane.last].next) = query;
  lane.last = query;
  count_queued(waiting.cluster, 1);
  update_turn(lane_of(waiting.cluster));
}

void Worker::take_out(Place query) {
  Query& taken = queries_[query];
  Cluster& lane = clusters_[lane_of(taken.cluster)];
  (taken.before == kNowhere ? lane.first : queries_[taken.before].next) = taken.next;
  (taken.next == kNowhere ? lane.last : queries_[taken.next].before) = taken.before;
  taken.next = taken.before = kNowhere;
  count_queued(taken.cluster, -1);
  update_turn(lane_of(taken.cluster));
}

void Worker::update_turn(Place at) {
  const Cluster& lane = clusters_[at];
  const bool may_start = lane.first != kNowhere && (settings_.queueing == Queueing::kFirstIn ||
                                                    lane.running < settings_.cluster_running);
  if (may_start == turns_.has(at)) return;
  if (may_start) {
    turns_.join(at);
  } else {
    turns_.leave(at);
  }
}

QueryId Worker::start_next(Instant now) {
  if (turns_.empty() || running_ >= settings_.running) return 0;
  const Place query = clusters_[turns_.take()].first;
  take_out(query);
  start(query);
  if (queries_[query].expires != kForever) {
    queries_.expect_no_end(query);
    queries_.expect_end(query, now + settings_.query_time);
  }
  return queries_[query].id;
}

// --- ends

void Worker::give_back(const Query& query, std::int64_t back_micro, Instant now) {
  if (back_micro <= 0) return;
  Place to = kNowhere;
  if (settings_.refund == Refund::kPortal) {
    to = find(query.portal);
  } else if (clusters_[query.cluster].generation == query.generation) {
    to = query.cluster;
  }
  if (to == kNowhere || !clusters_[to].has_bucket) return;
  Cluster& cluster = clusters_[to];
  cluster.bucket = meter::give_back(shape_of(cluster), cluster.bucket, now, back_micro);
  // Where it was taken in another epoch it was used in that one.
  if (to == query.cluster && query.round == round_) cluster.use.used_micro -= back_micro;
}

void Worker::forget(Place query) {
  const Place cluster = queries_[query].cluster;
  queries_.forget(query);
  if (!clusters_[cluster].has_bucket) drop_bucket(cluster);
}

Ending Worker::end(Place query, std::int64_t back_micro, Instant now) {
  Ending ending;
  ending.known = true;
  ending.was_queued = queries_[query].is_queued;
  give_back(queries_[query], back_micro, now);
  const Place portal_cluster = find(queries_[query].portal);
  if (portal_cluster != kNowhere) {
    const Cluster& cluster = clusters_[portal_cluster];
    ending.tokens_micro = meter::level(shape_of(cluster), cluster.bucket, now);
  }
  if (ending.was_queued) {
    take_out(query);
  } else {
    const Place cluster = queries_[query].cluster;
    running_ -= 1;
    clusters_[cluster].running -= 1;
    update_turn(lane_of(cluster));
  }
  forget(query);
  ending.started = start_next(now);
  return ending;
}

Ending Worker::finish(QueryId id, std::optional<std::int64_t> cost_micro, Instant now) {
  expire(now);
  const Place query = queries_.find(id);
  if (query == kNowhere) return {};
  if (queries_[query].is_queued) return {.known = true, .was_queued = true};
  const std::int64_t cost =
      std::clamp<std::int64_t>(cost_micro.value_or(queries_[query].cost_micro), 0, kMicro);
  return end(query, kMicro - cost, now);
}

Ending Worker::cancel(QueryId id, Instant now) {
  expire(now);
  const Place query = queries_.find(id);
  return query == kNowhere ? Ending{} : end(query, kMicro, now);
}

void Worker::expire(Instant now) {
  for (Place query; (query = queries_.expired(now)) != kNowhere;) {
    totals_.expired += 1;
    end(query, 0, now);
  }
}

// --- allocations

std::int64_t Worker::burst_micro(std::int64_t interval_ns) const noexcept {
  const BurstRule& rule = settings_.burst;
  const auto in_window = static_cast<std::int64_t>(ceil_div(rule.window.count(), interval_ns));
  return std::clamp(in_window, rule.least, rule.most) * kMicro;
}

void Worker::begin_bucket(Cluster& cluster, Instant now) {
  cluster.bucket = meter::empty_ticker(now);
  cluster.generation += 1;
  cluster.has_bucket = true;
  bucket_count_ += 1;
  const auto kept = kept_.find(print_of(cluster.name));
  if (kept == kept_.end()) return;
  // A clock that was ahead must not keep a bucket from ticking.
  cluster.bucket = {std::min(kept->second.tokens_micro, cluster.burst_micro),
                    earlier_of(kept->second.last_tick, now)};
  kept_.erase(kept);
}

Place Worker::place_for(const std::string& cluster) {
  if (const auto found = names_.find(std::string_view(cluster)); found != names_.end()) {
    return *found;
  }
  auto at = static_cast<Place>(clusters_.size());
  if (free_clusters_.empty()) {
    clusters_.emplace_back();
  } else {
    at = free_clusters_.back();
    free_clusters_.pop_back();
  }
  clusters_[at].name = cluster;
  names_.insert(at);
  return at;
}

bool Worker::apply_row(const ClusterAllocation& row, Duration epoch_time, Instant now, Place& at) {
  // More than one unit in a nanosecond is one in each.
  const std::int64_t interval_ns =
      std::max<std::int64_t>(1, meter::tick_interval_ns(epoch_time, row.units));
  const std::int64_t burst = burst_micro(interval_ns);
  if (!meter::make_ticker(kMicro, Duration{interval_ns}, burst, meter::TickerStart::kEmpty)) {
    return false;
  }
  at = place_for(row.cluster);
  Cluster& cluster = clusters_[at];
  const meter::TickerShape before = shape_of(cluster);
  cluster.units = row.units;
  cluster.interval_ns = interval_ns;
  cluster.burst_micro = burst;
  cluster.is_listed = true;
  if (cluster.has_bucket) {
    cluster.bucket = meter::reshape(before, shape_of(cluster), cluster.bucket, now);
  } else {
    begin_bucket(cluster, now);
  }
  return true;
}

void Worker::drop_bucket(Place at) {
  Cluster& cluster = clusters_[at];
  if (cluster.has_bucket) {
    cluster.has_bucket = false;
    cluster.units = 0;
    bucket_count_ -= 1;
  }
  if (at == 0 || cluster.name.empty() || cluster.running > 0 || cluster.queued > 0) return;
  names_.erase(at);
  const std::uint32_t generation = cluster.generation;
  cluster = {};
  cluster.generation = generation;
  free_clusters_.push_back(at);
}

std::vector<std::string> Worker::apply(const AllocationSet& set, Instant now) {
  std::vector<std::string> broken;
  expire(now);
  const bool is_next = set.epoch != epoch_;
  if (is_next) round_ += 1;
  for (Cluster& cluster : clusters_) {
    cluster.is_listed = false;
    if (is_next) cluster.use = {};
  }
  portals_.clear();
  portals_.reserve(set.clusters.size());
  // In one step, and no further than it has to be.
  clusters_.reserve(set.clusters.size() + 1);
  names_.reserve(set.clusters.size());
  for (const ClusterAllocation& row : set.clusters) {
    if (row.units <= 0) continue;
    Place at = kNowhere;
    if (row.cluster.empty() || !apply_row(row, set.epoch_time, now, at)) {
      broken.push_back(row.cluster);
      continue;
    }
    for (const std::string& portal : row.portals) portals_.try_emplace(print_of(portal), at);
  }
  for (Place at = 1; at < clusters_.size(); ++at) {
    if (!clusters_[at].is_listed) drop_bucket(at);
  }
  kept_.clear();
  epoch_ = set.epoch;
  without_ = Cause::kUnknownPortal;
  return broken;
}

void Worker::clear(Cause cause) {
  portals_.clear();
  for (Place at = 1; at < clusters_.size(); ++at) drop_bucket(at);
  without_ = cause;
}

// --- reading

std::optional<ClusterReading> Worker::cluster_of(std::string_view portal, Instant now) const {
  const Place at = find(print_of(portal));
  if (at == kNowhere) return std::nullopt;
  return reading(clusters_[at], now);
}

ClusterReading Worker::reading(const Cluster& cluster, Instant now) const {
  return {cluster.name,
          cluster.units,
          cluster.interval_ns,
          cluster.burst_micro,
          meter::level(shape_of(cluster), cluster.bucket, now),
          meter::next_tick(shape_of(cluster), cluster.bucket, now),
          cluster.running,
          cluster.queued,
          cluster.use};
}

std::vector<ClusterReading> Worker::clusters(Instant now) const {
  std::vector<ClusterReading> rows;
  for (const Cluster& cluster : clusters_) {
    if (!cluster.has_bucket) continue;
    rows.push_back(reading(cluster, now));
  }
  return rows;
}

std::vector<ClusterReading> Worker::busiest(std::size_t most, Instant now) const {
  std::vector<const Cluster*> found;
  for (const Cluster& cluster : clusters_) {
    if (!cluster.has_bucket) continue;
    if (cluster.use.used_micro > 0 || cluster.use.refused() > 0) found.push_back(&cluster);
  }
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(most, found.size()));
  std::partial_sort(found.begin(), end, found.end(), [](const Cluster* a, const Cluster* b) {
    if (a->use.used_micro != b->use.used_micro) return a->use.used_micro > b->use.used_micro;
    return a->name < b->name;
  });
  std::vector<ClusterReading> rows;
  for (auto each = found.begin(); each != end; ++each) rows.push_back(reading(**each, now));
  return rows;
}

WorkerTotals Worker::totals() const noexcept {
  WorkerTotals totals = totals_;
  totals.running = running_;
  totals.queued = queued_;
  totals.clusters = bucket_count_;
  totals.epoch = epoch_;
  return totals;
}

std::vector<KeptBucket> Worker::kept() const {
  std::vector<KeptBucket> buckets;
  for (const Cluster& cluster : clusters_) {
    if (!cluster.has_bucket) continue;
    buckets.push_back({cluster.name, cluster.bucket.tokens, cluster.bucket.last_tick});
  }
  // Those that have not come back yet.
  for (const auto& [print, bucket] : kept_) buckets.push_back(bucket);
  return buckets;
}

void Worker::restore(std::vector<KeptBucket> buckets) {
  for (KeptBucket& bucket : buckets) {
    const engine::Print print = print_of(bucket.cluster);
    kept_.insert_or_assign(print, std::move(bucket));
  }
}

HoldId Worker::id_of(QueryId query) const noexcept {
  const auto number = static_cast<std::uint64_t>(query);
  return {owned_word(owner_, number), number};
}

QueryId Worker::query_of(HoldId id) const noexcept {
  const bool is_ours = id.number <= static_cast<std::uint64_t>(kTermMax) && !id.is_shared &&
                       id.owner == owned_word(owner_, id.number);
  return is_ours ? static_cast<QueryId>(id.number) : 0;
}

Worker::QueryState Worker::state(QueryId query) const noexcept {
  const Place found = queries_.find(query);
  if (found == kNowhere) {
    const bool is_displaced =
        std::find(displaced_.begin(), displaced_.end(), query) != displaced_.end();
    return is_displaced ? QueryState::kDisplaced : QueryState::kGone;
  }
  return queries_[found].is_queued ? QueryState::kQueued : QueryState::kRunning;
}

}  // namespace weir::system::compute
