// What holds after every call:
//
//  1. last_ is what was put in force last, whole and under the worker's lock. It is in force still
//     unless status_.is_stale.
//  2. status_.fetched is when the ledger was last heard, be it with nothing new. Only look() judges
//     its age.
//  3. A stale feed has cleared its worker, once. The next allocations that are heard go in at once,
//     whatever the mode.

#include "weir/system/compute/feed.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::compute {

AllocationSet allocation_set(const Ledger& ledger, const Allocations& allocations,
                             Duration epoch_time) {
  AllocationSet set{.epoch = allocations.epoch, .epoch_time = epoch_time};
  set.clusters.reserve(allocations.rows.size());
  for (const Allocation& row : allocations.rows) {
    const Cluster& cluster = ledger.clusters()[row.cluster];
    ClusterAllocation& out = set.clusters.emplace_back();
    out.cluster = cluster.wallet;
    out.units = row.units;
    for (const std::string_view portal : ledger.portals(cluster)) out.portals.emplace_back(portal);
  }
  return set;
}

void Feed::apply(AllocationSet set, Instant now, std::vector<LeftOut> broken) {
  {
    const std::scoped_lock lock(*worker_);
    for (std::string& cluster : worker_->locked().apply(set, now)) {
      broken.push_back({std::move(cluster), Fault::kOutOfRange});
    }
    status_.warning =
        settings_.service_time.count() == 0
            ? ""
            : oversubscription(set, settings_.service_time, worker_->locked().settings().running);
  }
  status_.broken = std::move(broken);
  if (status_.warning.empty() && !status_.broken.empty()) {
    const LeftOut& first = status_.broken.front();
    status_.warning = fmt::format(
        "{} clusters with units have nothing here, {} among them: {}; see 'broken' of "
        "/v1/compute/worker",
        status_.broken.size(), in_quotes(first.cluster), to_string(first.fault));
  }
  status_.epoch = set.epoch;
  status_.is_stale = false;
  last_ = std::move(set);
}

void Feed::note_heard(Instant now) {
  status_.trouble.clear();
  status_.fetched = now;
}

void Feed::heard_nothing_new(Instant now) {
  note_heard(now);
  if (!status_.is_stale) return;
  // Those whose rate cannot be held are found again.
  std::vector<LeftOut> broken = status_.broken;
  std::erase_if(broken, [](const LeftOut& row) { return row.fault == Fault::kOutOfRange; });
  apply(AllocationSet(last_), now, std::move(broken));
}

void Feed::heard(AllocationSet set, Instant now, std::string note, std::vector<LeftOut> broken) {
  note_heard(now);
  status_.fetches += 1;
  const bool is_next = !status_.epoch || status_.is_stale || set.epoch != *status_.epoch;
  if (is_next || (settings_.mode == FeedMode::kImmediate && set != last_)) {
    apply(std::move(set), now, std::move(broken));
    if (!note.empty()) status_.warning = std::move(note);
  }
}

void Feed::failed(std::string why, Instant now) {
  status_.failures += 1;
  status_.trouble = std::move(why);
  look(now);
}

void Feed::look(Instant now) {
  if (!status_.epoch || status_.is_stale || settings_.outage == FeedOutage::kKeep) return;
  if (now - status_.fetched <= settings_.max_age) return;
  status_.is_stale = true;
  const std::scoped_lock lock(*worker_);
  worker_->locked().clear(Cause::kStale);
}

void Feed::resume(AllocationSet set, Instant heard, Instant now) {
  status_.fetched = earlier_of(heard, now);
  apply(std::move(set), now, {});
  look(now);
}

}  // namespace weir::system::compute
