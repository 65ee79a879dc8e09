// Queries of a worker: slots, the queue, and whose turn it is.

#include <algorithm>
#include <utility>

#include "weir/base/assert.h"
#include "weir/system/compute/worker.h"

namespace weir::system::compute {

// An id tells its place: ids of one place differ by the number of places.
Worker::Place Worker::add_query(engine::Print portal, Place cluster, std::int64_t cost_micro) {
  const std::int64_t places = settings_.running + settings_.queue;
  Place at = free_query_;
  if (at == kNowhere) {
    at = static_cast<Place>(queries_.size());
    WEIR_ASSERT(at < places);
    queries_.emplace_back();
  } else {
    free_query_ = queries_[at].next;
  }
  last_serial_ += 1;
  queries_[at] = Query{};
  queries_[at].id = last_serial_ * places + at;
  queries_[at].portal = portal;
  queries_[at].cost_micro = cost_micro;
  queries_[at].cluster = cluster;
  queries_[at].generation = clusters_[cluster].generation;
  return at;
}

Worker::Query* Worker::query_of(QueryId id) noexcept {
  const std::int64_t places = settings_.running + settings_.queue;
  if (id < places) return nullptr;
  const auto at = static_cast<std::size_t>(id % places);
  return at < queries_.size() && queries_[at].id == id ? &queries_[at] : nullptr;
}

Worker::QueryState Worker::state(QueryId query) const noexcept {
  const Query* found = const_cast<Worker*>(this)->query_of(query);
  if (found == nullptr) return QueryState::kGone;
  return found->is_queued ? QueryState::kQueued : QueryState::kRunning;
}

// --- slots and queue

void Worker::start(Place query) {
  Query& started = queries_[query];
  started.is_queued = false;
  running_ += 1;
  clusters_[started.cluster].running += 1;
  update_ring(lane_of(started.cluster));
}

void Worker::enqueue(Place query) {
  Query& waiting = queries_[query];
  Cluster& lane = clusters_[lane_of(waiting.cluster)];
  waiting.is_queued = true;
  (lane.last == kNowhere ? lane.first : queries_[lane.last].next) = query;
  lane.last = query;
  queued_ += 1;
  clusters_[waiting.cluster].queued += 1;
  update_ring(lane_of(waiting.cluster));
}

void Worker::take_out(Place query) {
  Query& taken = queries_[query];
  Cluster& lane = clusters_[lane_of(taken.cluster)];
  Place before = kNowhere;
  for (Place at = lane.first; at != query; at = queries_[at].next) before = at;
  (before == kNowhere ? lane.first : queries_[before].next) = taken.next;
  if (lane.last == query) lane.last = before;
  taken.next = kNowhere;
  queued_ -= 1;
  clusters_[taken.cluster].queued -= 1;
  update_ring(lane_of(taken.cluster));
}

// --- turns

void Worker::update_ring(Place at) {
  const Cluster& lane = clusters_[at];
  const bool may_start = lane.first != kNowhere && (settings_.queueing == Queueing::kFirstIn ||
                                                    lane.running < settings_.cluster_running);
  const bool is_in = lane.turn_after != kNowhere;
  if (may_start && !is_in) join_ring(at);
  if (!may_start && is_in) leave_ring(at);
}

// At the end: everybody who waits has a turn before.
void Worker::join_ring(Place at) {
  Cluster& lane = clusters_[at];
  if (turn_ == kNowhere) {
    lane.turn_before = lane.turn_after = turn_ = at;
    return;
  }
  const Place last = clusters_[turn_].turn_before;
  lane.turn_before = last;
  lane.turn_after = turn_;
  clusters_[last].turn_after = at;
  clusters_[turn_].turn_before = at;
}

void Worker::leave_ring(Place at) {
  Cluster& lane = clusters_[at];
  if (lane.turn_after == at) {
    turn_ = kNowhere;
  } else {
    clusters_[lane.turn_before].turn_after = lane.turn_after;
    clusters_[lane.turn_after].turn_before = lane.turn_before;
    if (turn_ == at) turn_ = lane.turn_after;
  }
  lane.turn_before = lane.turn_after = kNowhere;
}

QueryId Worker::start_next(Instant now) {
  if (turn_ == kNowhere || running_ >= settings_.running) return 0;
  const Place lane = turn_;
  turn_ = clusters_[lane].turn_after;
  const Place query = clusters_[lane].first;
  take_out(query);
  start(query);
  if (queries_[query].expires != kForever) {
    expect_no_end(query);
    expect_end(query, now + settings_.query_time);
  }
  return queries_[query].id;
}

// --- ends

void Worker::expect_end(Place query, Instant at) {
  Query& expected = queries_[query];
  expected.expires = at;
  if (at == kForever) return;
  expected.older = newest_;
  (newest_ == kNowhere ? oldest_ : queries_[newest_].newer) = query;
  newest_ = query;
}

void Worker::expect_no_end(Place query) {
  Query& expected = queries_[query];
  if (expected.expires == kForever) return;
  (expected.older == kNowhere ? oldest_ : queries_[expected.older].newer) = expected.newer;
  (expected.newer == kNowhere ? newest_ : queries_[expected.newer].older) = expected.older;
  expected.older = expected.newer = kNowhere;
}

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
}

void Worker::forget(Place query) {
  expect_no_end(query);
  const Place cluster = queries_[query].cluster;
  queries_[query] = Query{};
  queries_[query].next = free_query_;
  free_query_ = query;
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
    update_ring(lane_of(cluster));
  }
  forget(query);
  ending.started = start_next(now);
  return ending;
}

Ending Worker::finish(QueryId id, std::optional<std::int64_t> cost_micro, Instant now) {
  expire(now);
  Query* query = query_of(id);
  if (query == nullptr) return {};
  if (query->is_queued) return {.known = true, .was_queued = true};
  const std::int64_t cost =
      std::clamp<std::int64_t>(cost_micro.value_or(query->cost_micro), 0, kMicro);
  return end(static_cast<Place>(query - queries_.data()), kMicro - cost, now);
}

Ending Worker::cancel(QueryId id, Instant now) {
  expire(now);
  Query* query = query_of(id);
  if (query == nullptr) return {};
  return end(static_cast<Place>(query - queries_.data()), kMicro, now);
}

void Worker::expire(Instant now) {
  while (oldest_ != kNowhere && queries_[oldest_].expires <= now) {
    totals_.expired += 1;
    end(oldest_, 0, now);
  }
}

}  // namespace weir::system::compute
