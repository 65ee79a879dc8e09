// Snapshot: what every cluster has at every worker, at one moment of a ledger, worked out once.
//
// A fleet asks for its allocations all at once, when an epoch begins. The ledger is read for all of
// them together, a page at a time, so that nobody waits for it long; what takes time is done
// after that, outside its lock. A worker's share is then a matter of looking it up:
//
//   SnapshotDesk desk(ledger);
//   std::shared_ptr<const Snapshot> all = desk.at(now);    // the same one until something changes
//   all->allocations(worker)                               // as Ledger::allocations() has them
//
// Thread safety: a snapshot is immutable. Of a desk every function may be called from any
// thread; one reads the ledger, and the others wait for what it has read.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/compute/ledger.h"
#include "weir/system/compute/ledger_service.h"

namespace weir::system::compute {

constexpr std::size_t kSnapshotPage = 256;  // clusters that are read under one lock

// A cluster that has units in this epoch.
struct SnapshotRow {
  std::string cluster;
  std::vector<std::string> portals;
  std::int64_t units = 0;
  std::int64_t pooled = 0;               // of pools, at every worker alike
  std::uint32_t place = 0;               // in the ledger
  std::shared_ptr<const Split> split{};  // nullptr: equal
  // Of a subset or of shares whose remainder rotates: the active workers that have a part,
  // ascending, and the units that lie over.
  std::vector<std::uint32_t> members{};
  std::int64_t lost = 0;
};

class Snapshot {
 public:
  std::int64_t epoch() const noexcept { return epoch_; }
  // As measured when the desk first said this epoch, and the same to its end.
  Duration epoch_time() const noexcept { return epoch_time_; }
  const std::vector<SnapshotRow>& rows() const noexcept { return rows_; }
  // Another number for what is not the same as what the desk said before.
  std::uint64_t number() const noexcept { return number_; }
  // Of rows() instead of the ledger's clusters.
  Allocations allocations(WorkerId worker) const;

 private:
  friend class SnapshotDesk;

  Snapshot() = default;
  bool is_of(const LedgerView& view) const noexcept {
    return view.version == version_ && from_ <= view.block && view.block < until_;
  }
  bool says_the_same(const Snapshot& other) const noexcept;
  void add_row(const LedgerView& view, const Cluster& cluster, std::uint32_t place);
  void make_ready();
  Share share_of(const SnapshotRow& row, ShareOf of) const;

  std::int64_t epoch_ = 0;
  Duration epoch_time_{};
  std::int64_t version_ = -1;
  Block from_ = 0;
  Block until_ = 0;  // the first at which something is over, or begins
  std::uint64_t number_ = 0;
  Remainder remainder_ = Remainder::kRotate;
  bool published_faults_ = false;
  std::vector<WorkerId> active_;
  std::vector<SnapshotRow> rows_;
};

class SnapshotDesk {
 public:
  explicit SnapshotDesk(std::shared_ptr<LedgerService> ledger) : ledger_(std::move(ledger)) {}

  // What holds now, and where the worker stands in it.
  struct Said {
    std::shared_ptr<const Snapshot> snapshot{};  // nullptr: of an epoch that was not wanted
    std::int64_t epoch = 0;
    Block block = 0;
    WorkerId worker = 0;  // 0: nobody of this name ever joined
  };
  // Without a snapshot if it is epoch `known` still.
  Said at(Instant now, std::string_view worker, std::int64_t known = -1);

  // How often the ledger was read.
  std::uint64_t taken() const;

 private:
  std::shared_ptr<const Snapshot> take(Instant now);
  // False: the ledger is another one than when it was begun.
  bool read_pages(Snapshot& into, Instant now, std::size_t page) const;

  const std::shared_ptr<LedgerService> ledger_;
  std::mutex taking_;  // by whoever reads the ledger
  mutable std::mutex lock_;
  std::shared_ptr<const Snapshot> last_;
  std::uint64_t taken_ = 0;
};

}  // namespace weir::system::compute
