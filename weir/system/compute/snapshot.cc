// What holds:
//
//  1. A snapshot is of one version of the ledger, and of the blocks in which nothing begins or ends
//     by itself: every share of it is what Ledger::allocations() says at any of those blocks.
//  2. The ledger's lock is held for a page of clusters at a time. If the ledger changes in between,
//     what was read is thrown away; the third time it is read in one go, so that it ends.
//  3. A snapshot that says what the last one said has its number. Where blocks are pushed each push
//     measures the epoch anew: so its time is that of the first snapshot of the epoch.

#include "weir/system/compute/snapshot.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

namespace weir::system::compute {
namespace {

constexpr int kPagedTries = 2;

// The place of a worker among those that have a part; -1: it has none.
std::int64_t place_among(const std::vector<std::uint32_t>& members, WorkerId worker) noexcept {
  const auto found =
      std::lower_bound(members.begin(), members.end(), static_cast<std::uint32_t>(worker));
  return found != members.end() && *found == worker ? found - members.begin() : -1;
}

}  // namespace

void Snapshot::add_row(const LedgerView& view, const Cluster& cluster, std::uint32_t place) {
  for (const Block edge : {cluster.lock.start, cluster.lock.end}) {
    if (edge > from_) until_ = std::min(until_, edge);
  }
  const std::int64_t units = view.ledger.epoch_units(cluster, from_);
  const std::int64_t pooled = cluster.portals > 0 ? cluster.pool_units : 0;
  if (units == 0 && pooled == 0) return;
  SnapshotRow& row = rows_.emplace_back();
  row.cluster = cluster.wallet;
  row.units = units;
  row.pooled = pooled;
  row.place = place;
  row.split = cluster.split;
  row.portals.reserve(cluster.portals);
  for (const std::string_view portal : view.ledger.portals(cluster))
    row.portals.emplace_back(portal);
}

// Whoever is asked for a share has its members already in order.
void Snapshot::make_ready() {
  std::vector<bool> is_active;
  if (!active_.empty()) is_active.resize(static_cast<std::size_t>(active_.back()) + 1);
  for (const WorkerId worker : active_) is_active[static_cast<std::size_t>(worker)] = true;
  const auto add = [&](SnapshotRow& row, WorkerId worker) {
    if (worker < 0 || static_cast<std::size_t>(worker) >= is_active.size()) return;
    if (!is_active[static_cast<std::size_t>(worker)]) return;
    row.members.push_back(static_cast<std::uint32_t>(worker));  // below kWorkersMax
  };
  for (SnapshotRow& row : rows_) {
    if (row.split == nullptr || remainder_ == Remainder::kDrop) continue;
    if (const auto* subset = std::get_if<Subset>(row.split.get());
        subset != nullptr && !published_faults_) {
      row.members.reserve(subset->members().size());
      for (const WorkerId worker : subset->members()) add(row, worker);
    } else if (const auto* shares = std::get_if<Shares>(row.split.get())) {
      row.members.reserve(shares->rows().size());
      for (const auto& [worker, points] : shares->rows()) {
        if (points > 0) add(row, worker);
      }
      row.lost = shares->left_over(row.units);
    }
  }
}

bool Snapshot::says_the_same(const Snapshot& other) const noexcept {
  const auto is_same = [](const SnapshotRow& a, const SnapshotRow& b) {
    return a.place == b.place && a.units == b.units && a.pooled == b.pooled && a.split == b.split &&
           a.cluster == b.cluster && a.portals == b.portals;
  };
  return epoch_ == other.epoch_ && active_ == other.active_ &&
         std::equal(rows_.begin(), rows_.end(), other.rows_.begin(), other.rows_.end(), is_same);
}

Share Snapshot::share_of(const SnapshotRow& row, ShareOf of) const {
  of.units = row.units;
  of.cluster = row.place;
  const bool is_ready = remainder_ == Remainder::kRotate;
  const auto equal = [&](std::int64_t units, std::int64_t place) {
    const auto count = static_cast<std::int64_t>(row.members.size());
    return equal_share(units, place, count, RemainderTurns(count, epoch_).first(row.place),
                       remainder_);
  };
  if (is_ready && !published_faults_ && std::holds_alternative<Subset>(*row.split)) {
    const std::int64_t place = place_among(row.members, of.worker);
    return {place < 0 ? 0 : equal(row.units, place)};
  }
  if (const auto* shares = std::get_if<Shares>(row.split.get()); is_ready && shares != nullptr) {
    const std::int64_t place = place_among(row.members, of.worker);
    return {place < 0 ? 0 : shares->floor_of(row.units, of.worker) + equal(row.lost, place)};
  }
  return share(row.split.get(), of, published_faults_);
}

Allocations Snapshot::allocations(WorkerId worker) const {
  Allocations result;
  result.epoch = epoch_;
  if (active_.empty()) {
    result.fault = Fault::kNoWorkers;
    return result;
  }
  const auto found = std::lower_bound(active_.begin(), active_.end(), worker);
  if (found == active_.end() || *found != worker) {
    result.fault = Fault::kNotActive;
    return result;
  }
  const ShareOf of{0, worker, active_, epoch_, remainder_};
  const std::int64_t place = found - active_.begin();
  const auto count = static_cast<std::int64_t>(active_.size());
  const RemainderTurns turns(count, epoch_);
  result.rows.reserve(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const SnapshotRow& row = rows_[i];
    const auto at = static_cast<std::uint32_t>(i);
    const Share share =
        row.units == 0 ? Share{}
        : row.split == nullptr
            ? Share{equal_share(row.units, place, count, turns.first(row.place), remainder_)}
            : share_of(row, of);
    if (share.fault != Fault::kNone) {
      result.broken.push_back({at, share.fault});
    } else if (share.units + row.pooled > 0) {
      result.rows.push_back({at, share.units + row.pooled});
    }
  }
  return result;
}

bool SnapshotDesk::read_pages(Snapshot& into, Instant now, std::size_t page) const {
  std::size_t next = 0;
  for (bool is_first = true;; is_first = false) {
    bool is_same = true;
    bool is_done = false;
    ledger_->read(now, [&](const LedgerView& view) {
      if (is_first) {
        const Parameters& parameters = view.ledger.parameters();
        into.version_ = view.version;
        into.from_ = view.block;
        into.epoch_ = epoch_number(view.ledger.clock(), view.block);
        into.epoch_time_ = view.epoch_time;
        into.until_ = next_epoch(view.ledger.clock(), view.block);
        into.remainder_ = parameters.remainder;
        into.published_faults_ = parameters.published_faults;
        into.active_ = view.ledger.active_workers(view.block);
        for (const WorkerRecord& worker : view.ledger.workers()) {
          for (const Block edge : {worker.from, worker.until}) {
            if (edge > view.block) into.until_ = std::min(into.until_, edge);
          }
        }
      }
      is_same = view.version == into.version_;
      if (!is_same) return;
      const Rows<Cluster>& clusters = view.ledger.clusters();
      const std::size_t end = next + std::min(page, clusters.size() - next);
      for (; next < end; ++next) {
        into.add_row(view, clusters[next], static_cast<std::uint32_t>(next));
      }
      is_done = next == clusters.size();
    });
    if (!is_same) return false;
    if (is_done) return true;
  }
}

std::shared_ptr<const Snapshot> SnapshotDesk::take(Instant now) {
  const std::shared_ptr<Snapshot> taken(new Snapshot);
  for (int tries = 0;; ++tries) {
    *taken = Snapshot();
    const std::size_t page =
        tries < kPagedTries ? kSnapshotPage : std::numeric_limits<std::size_t>::max();
    if (read_pages(*taken, now, page)) break;
  }
  taken->make_ready();
  const std::scoped_lock lock(lock_);
  taken_ += 1;
  if (last_ != nullptr && last_->epoch_ == taken->epoch_) taken->epoch_time_ = last_->epoch_time_;
  taken->number_ = last_ == nullptr               ? 1
                   : taken->says_the_same(*last_) ? last_->number_
                                                  : last_->number_ + 1;
  last_ = taken;
  return taken;
}

SnapshotDesk::Said SnapshotDesk::at(Instant now, std::string_view worker, std::int64_t known) {
  Said said;
  const auto look = [&] {
    std::shared_ptr<const Snapshot> last;
    {
      const std::scoped_lock lock(lock_);
      last = last_;
    }
    bool is_enough = false;
    ledger_->read(now, [&](const LedgerView& view) {
      said.epoch = epoch_number(view.ledger.clock(), view.block);
      said.block = view.block;
      said.worker = view.ledger.worker_id(worker).value_or(0);
      is_enough = said.epoch == known || (last != nullptr && last->is_of(view));
    });
    if (is_enough && said.epoch != known) said.snapshot = std::move(last);
    return is_enough;
  };
  if (look()) return said;
  const std::scoped_lock taking(taking_);
  // Maybe somebody has read it meanwhile.
  if (look()) return said;
  said.snapshot = take(now);
  said.epoch = said.snapshot->epoch();
  return said;
}

std::uint64_t SnapshotDesk::taken() const {
  const std::scoped_lock lock(lock_);
  return taken_;
}

}  // namespace weir::system::compute
