#include "weir/system/compute/feed.h"

#include <mutex>
#include <utility>

namespace weir::system::compute {

void Feed::apply(AllocationSet set, Instant now) {
  {
    const std::scoped_lock lock(*worker_);
    status_.broken = worker_->locked().apply(set, now);
    status_.warning =
        settings_.service_time.count() == 0
            ? ""
            : oversubscription(set, settings_.service_time, worker_->locked().settings().running);
  }
  status_.epoch = set.epoch;
  status_.is_stale = false;
  last_ = std::move(set);
}

void Feed::heard_nothing_new(Instant now) {
  status_.trouble.clear();
  status_.fetched = now;
}

void Feed::heard(AllocationSet set, Instant now, std::string note) {
  heard_nothing_new(now);
  status_.fetches += 1;
  const bool is_next = !status_.epoch || status_.is_stale || set.epoch > *status_.epoch;
  if (is_next || (settings_.mode == FeedMode::kImmediate && set != last_)) {
    apply(std::move(set), now);
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
  apply(std::move(set), now);
  look(now);
}

}  // namespace weir::system::compute
