#include "weir/system/sampling/refused.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

namespace weir::system::sampling {

void Refused::note(engine::Print key, std::string_view hotkey, std::string_view revision,
                   std::string_view environment, std::optional<std::int64_t> id, std::int64_t tasks,
                   Instant now) noexcept {
  try {
    auto place =
        static_cast<std::size_t>(std::find(keys_.begin(), keys_.end(), key) - keys_.begin());
    if (place == keys_.size()) {
      RefusedMiner miner{.hotkey = std::string(hotkey),
                         .revision = std::string(revision),
                         .environment = std::string(environment),
                         .id = id};
      if (keys_.size() < kRefusedKept) {
        keys_.reserve(kRefusedKept);
        miners_.push_back(std::move(miner));
        keys_.push_back(key);
      } else {
        const auto least = std::min_element(
            miners_.begin(), miners_.end(),
            [](const RefusedMiner& a, const RefusedMiner& b) { return a.refusals < b.refusals; });
        // One that was refused nothing takes no place from one that was.
        if (tasks == 0 && least->refusals > 0) return;
        miner.refusals = miner.beyond = least->refusals;
        place = static_cast<std::size_t>(least - miners_.begin());
        *least = std::move(miner);
        keys_[place] = key;
      }
    }
    RefusedMiner& miner = miners_[place];
    miner.id = id;
    miner.last = now;
    miner.refusals += tasks > 0 ? 1 : 0;
    miner.tasks += static_cast<std::uint64_t>(tasks);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Refused::forget(Instant before) noexcept {
  for (std::size_t i = 0; i < keys_.size();) {
    if (miners_[i].last > before) {
      ++i;
      continue;
    }
    std::swap(miners_[i], miners_.back());
    std::swap(keys_[i], keys_.back());
    miners_.pop_back();
    keys_.pop_back();
  }
}

std::vector<RefusedMiner> Refused::most() const {
  std::vector<RefusedMiner> all = miners_;
  std::sort(all.begin(), all.end(), [](const RefusedMiner& a, const RefusedMiner& b) {
    return std::tuple(b.refusals, b.tasks, std::string_view(a.hotkey), std::string_view(a.revision),
                      std::string_view(a.environment)) <
           std::tuple(a.refusals, a.tasks, std::string_view(b.hotkey), std::string_view(b.revision),
                      std::string_view(b.environment));
  });
  return all;
}

}  // namespace weir::system::sampling
