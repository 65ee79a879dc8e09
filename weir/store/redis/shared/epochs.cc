// Invariants:
// 1. An Epoch does not change; another one takes its place. So a question keeps the one it named,
//    and is known by it: two states of the data are never the same object while one is in use.
// 2. `fresh` is an id that no data has: it is drawn anew as soon as Redis has taken it.
// 3. The time heard is from an answer under the epoch that is known now. The clock of Redis may
//    have been set back between one loss and the next, so a time from before says nothing.

#include "weir/store/redis/shared/epochs.h"

#include <charconv>
#include <limits>

#include "weir/store/redis/shared/fleet.h"
#include "weir/store/redis/shared/keys.h"

namespace weir::store::redis {
namespace {

// When data was lost, as an epoch says it: its tail, all of it, is a number.
std::int64_t loss_in(std::string_view epoch) {
  if (epoch.size() < kEpochIdBytes + 2) return -1;
  std::int64_t at_us = 0;
  const char* const end = epoch.data() + epoch.size();
  const auto read = std::from_chars(epoch.data() + kEpochIdBytes + 1, end, at_us);
  return read.ec == std::errc{} && read.ptr == end ? at_us : -1;
}

}  // namespace

Epochs::Epochs() : known_(std::make_shared<const Epoch>(Epoch{.seen = {}, .fresh = random_id()})) {}

EpochRef Epochs::known() const {
  const std::scoped_lock lock(lock_);
  return known_;
}

void Epochs::learn(std::string_view epoch) {
  if (epoch.empty()) return;
  const std::scoped_lock lock(lock_);
  const std::string& seen = known_->seen;
  if (!seen.empty() && !epoch.starts_with(seen.substr(0, kEpochIdBytes))) {
    losses_.fetch_add(1, std::memory_order_relaxed);
  }
  if (epoch == seen) return;
  const bool is_taken = epoch.starts_with(known_->fresh);
  known_ = std::make_shared<const Epoch>(Epoch{.seen = std::string(epoch),
                                               .fresh = is_taken ? random_id() : known_->fresh,
                                               .lost_at_us = loss_in(epoch)});
  heard_at_us_ = 0;
}

void Epochs::hear_time(std::int64_t now_us, const EpochRef& known) {
  const std::scoped_lock lock(lock_);
  if (known == known_) heard_at_us_ = now_us;
}

std::optional<std::int64_t> Epochs::us_since_loss(const EpochRef& known) const {
  if (known->lost_at_us < 0) return std::nullopt;
  if (known->lost_at_us == 0) return std::numeric_limits<std::int64_t>::max();
  const std::scoped_lock lock(lock_);
  if (known != known_) return std::nullopt;
  // Of an epoch that has not been heard yet this is far below 0.
  return heard_at_us_ - known->lost_at_us;
}

}  // namespace weir::store::redis
