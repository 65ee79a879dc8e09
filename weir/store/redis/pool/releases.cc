// Invariants:
// 1. Numbers ascend and none is given twice, so the one that Redis counted last says of each
//    whether it is in the books.
// 2. A release leaves when it is known to be in the books, and not before.
// 3. Its callback is called at most once: it is taken out to be called.

#include "weir/store/redis/pool/releases.h"

#include <utility>

#include "weir/base/assert.h"

namespace weir::store::redis {

std::uint64_t PoolReleases::add(PoolRelease release) {
  WEIR_ASSERT(!is_full());
  kept_.emplace(++last_number_, std::move(release));
  return last_number_;
}

PoolRelease* PoolReleases::find(std::uint64_t number) noexcept {
  const auto found = kept_.find(number);
  return found == kept_.end() ? nullptr : &found->second;
}

PoolRelease PoolReleases::take(std::uint64_t number) {
  const auto found = kept_.find(number);
  WEIR_ASSERT(found != kept_.end());
  PoolRelease taken = std::move(found->second);
  kept_.erase(found);
  return taken;
}

std::vector<PoolRelease> PoolReleases::take_until(std::uint64_t number) {
  std::vector<PoolRelease> taken;
  while (!kept_.empty() && kept_.begin()->first <= number) {
    taken.push_back(std::move(kept_.extract(kept_.begin()).mapped()));
  }
  return taken;
}

void PoolReleases::renumber(std::uint64_t number) {
  auto node = kept_.extract(number);
  if (node.empty()) return;
  node.key() = ++last_number_;
  node.mapped().is_sent = false;
  kept_.insert(std::move(node));
}

void PoolReleases::fence() {
  for (auto& [ignored, release] : std::exchange(kept_, {})) {
    release.is_fenced = release.is_granted;
    kept_.emplace(++last_number_, std::move(release));
  }
}

void PoolReleases::forget_sent() noexcept {
  for (auto& [ignored, release] : kept_) release.is_sent = false;
}

std::vector<std::uint64_t> PoolReleases::unsent() const {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, release] : kept_) {
    if (!release.is_sent) numbers.push_back(number);
  }
  return numbers;
}

std::vector<system::pool::ReleaseCallback> PoolReleases::take_callbacks() {
  std::vector<system::pool::ReleaseCallback> callbacks;
  for (auto& [ignored, release] : kept_) {
    if (release.released) callbacks.push_back(std::exchange(release.released, nullptr));
  }
  return callbacks;
}

std::int64_t PoolReleases::live_count() const noexcept {
  std::int64_t count = 0;
  for (const auto& [ignored, release] : kept_) {
    count += release.is_granted && !release.is_fenced ? 1 : 0;
  }
  return count;
}

}  // namespace weir::store::redis
