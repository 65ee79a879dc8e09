// The splits, each a function of one worker's place among the others: so a worker's share is found
// without working out those of all.

#include "weir/system/compute/strategy.h"

#include <algorithm>

#include "weir/base/integer.h"
#include "weir/system/compute/units.h"

namespace weir::system::compute {
namespace {

std::int64_t place_of(std::span<const WorkerId> ascending, WorkerId worker) noexcept {
  const auto found = std::lower_bound(ascending.begin(), ascending.end(), worker);
  return found != ascending.end() && *found == worker ? found - ascending.begin() : -1;
}

std::int64_t part(std::int64_t units, std::int64_t basis_points) noexcept {
  return static_cast<std::int64_t>(Wide{units} * basis_points / kBasisPoints);
}

std::int64_t turn_of(const ShareOf& of, std::int64_t count) noexcept {
  return RemainderTurns(count, of.epoch).first(of.cluster);
}

}  // namespace

Share equal_share(const ShareOf& of) noexcept {
  if (of.active.empty()) return {0, Fault::kNoWorkers};
  const auto count = static_cast<std::int64_t>(of.active.size());
  if (of.remainder == Remainder::kDrop) return {of.units / count};
  const std::int64_t place = place_of(of.active, of.worker);
  if (place < 0) return {};
  return {equal_share(of.units, place, count, turn_of(of, count), of.remainder)};
}

void Subset::support(std::span<const WorkerId> workers) {
  for (const WorkerId worker : workers) {
    const auto place = std::lower_bound(members_.begin(), members_.end(), worker);
    if (place == members_.end() || *place != worker) members_.insert(place, worker);
  }
  listed_ += static_cast<std::int64_t>(workers.size());
}

void Subset::unsupport(std::span<const WorkerId> workers) {
  for (const WorkerId worker : workers) {
    const auto place = std::lower_bound(members_.begin(), members_.end(), worker);
    if (place != members_.end() && *place == worker) members_.erase(place);
  }
  listed_ -= static_cast<std::int64_t>(workers.size());
}

bool Subset::has(WorkerId worker) const noexcept { return place_of(members_, worker) >= 0; }

Share Subset::share(const ShareOf& of) const noexcept {
  if (!has(of.worker)) return {};
  if (of.remainder == Remainder::kDrop) {
    return {of.units / static_cast<std::int64_t>(members_.size())};
  }
  std::int64_t count = 0;
  std::int64_t place = -1;
  for (const WorkerId member : members_) {
    if (place_of(of.active, member) < 0) continue;
    if (member == of.worker) place = count;
    count += 1;
  }
  if (place < 0) return {};
  return {equal_share(of.units, place, count, turn_of(of, count), of.remainder)};
}

Share Subset::published_share(std::int64_t units, WorkerId worker) const noexcept {
  if (!has(worker)) return {};
  if (listed_ == 0) return {0, Fault::kDivByZero};
  return {units / listed_};
}

Fault Shares::make(std::span<const WorkerId> workers, std::span<const std::int64_t> basis_points,
                   WorkerId next_worker, Shares& out) {
  if (workers.size() != basis_points.size()) return Fault::kLengthMismatch;
  std::map<WorkerId, std::int64_t> rows;
  std::int64_t sum = 0;
  for (const WorkerId worker : workers) {
    if (worker < 0 || worker >= next_worker) return Fault::kNoSuchWorker;
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const std::int64_t points = basis_points[i];
    if (points < 0 || points > kBasisPoints || sum + points > kBasisPoints) {
      return Fault::kOver100Percent;
    }
    sum += points;
    rows[workers[i]] += points;
  }
  out.rows_.assign(rows.begin(), rows.end());
  return Fault::kNone;
}

std::int64_t Shares::unallocated_bp() const noexcept {
  std::int64_t left = kBasisPoints;
  for (const auto& [worker, points] : rows_) left -= points;
  return left;
}

std::int64_t Shares::floor_of(std::int64_t units, WorkerId worker) const noexcept {
  const auto row = std::lower_bound(rows_.begin(), rows_.end(), std::pair(worker, std::int64_t{0}));
  return row != rows_.end() && row->first == worker ? part(units, row->second) : 0;
}

std::int64_t Shares::left_over(std::int64_t units) const noexcept {
  std::int64_t given = 0;
  for (const auto& [worker, points] : rows_) given += part(units, points);
  return part(units, kBasisPoints - unallocated_bp()) - given;
}

Share Shares::share(const ShareOf& of) const noexcept {
  const std::int64_t mine = floor_of(of.units, of.worker);
  if (of.remainder == Remainder::kDrop) return {mine};
  std::int64_t place = -1;
  std::int64_t count = 0;  // of rows with points whose worker is active
  for (const auto& [worker, points] : rows_) {
    if (points == 0) continue;
    if (place_of(of.active, worker) < 0) continue;
    if (worker == of.worker) place = count;
    count += 1;
  }
  if (place < 0) return {mine};
  return {mine + equal_share(left_over(of.units), place, count, turn_of(of, count), of.remainder)};
}

}  // namespace weir::system::compute
