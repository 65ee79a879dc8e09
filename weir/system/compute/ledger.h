// Ledger: wallets, locks, clusters, portals and workers, in memory and pure.
//
// Tokens that a wallet locks become units of its cluster from the next epoch on, and are
// split over the workers by its strategy. Every operation comes with the block at which it
// is made; blocks never go back.
//
//   auto ledger = Ledger::create({});
//   ledger->apply(1, {.op = Op::kJoin, .name = "worker-1"});
//   ledger->apply(1, {.op = Op::kRegister, .wallet = "acme", .portals = {"portal-1"}});
//   ledger->apply(1, {.op = Op::kLock, .wallet = "acme", .amount = 10'000 * kToken,
//                     .value = 18'000});
//   ledger->allocations(1, 100)            // worker 1 at block 100: 10,000 units for acme
//
// plan() says what an operation would do and changes nothing; commit() does what was
// planned, so that a store can write in between. apply() is both.
//
// Thread safety: none; callers share it behind a lock.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/compute/epoch_clock.h"
#include "weir/system/compute/fault.h"
#include "weir/system/compute/operation.h"
#include "weir/system/compute/parameters.h"
#include "weir/system/compute/pools.h"
#include "weir/system/compute/strategy.h"
#include "weir/system/compute/units.h"

namespace weir::system::compute {

constexpr std::size_t kWalletsMax = 10'000'000;
constexpr std::size_t kPortalsInAllMax = 100'000'000;
constexpr std::size_t kWorkersMax = 1'000'000;

struct Lock {
  Amount amount = 0;     // 0: there is none
  Amount old_total = 0;  // units of the whole lock before the last addition
  Block start = 0;
  Block end = 0;  // first block without; kNoEnd while it extends itself
  std::int64_t duration = 0;
  bool is_auto = false;

  friend constexpr bool operator==(const Lock&, const Lock&) = default;
};

struct CustomStrategy {
  std::string name;
  std::shared_ptr<const Strategy> strategy;  // nullptr: this process does not have it
};
using Split = std::variant<std::monostate, Subset, Shares, CustomStrategy>;  // none: equal
// nullptr: equal. With published faults a subset counts as the published contract does.
Share share(const Split* split, const ShareOf& of, bool published_faults);

struct Cluster {
  std::string wallet;
  Lock lock{};
  std::uint32_t portals = 0;             // how many; Ledger::portals() names them
  std::uint32_t pools = 0;               // that it owns
  std::int64_t pool_units = 0;           // of those that are active, at every worker alike
  std::uint32_t first_portal = 0;        // the ledger's own
  std::shared_ptr<const Split> split{};  // nullptr: equal; replaced whole, never changed
};

// Active from `from` to before `until`. Its id is its place, from 1.
struct WorkerRecord {
  std::string name;
  Block from = 0;
  Block until = kNoEnd;
};

// What an operation did; members that it does not concern are as here.
struct Receipt {
  Amount amount = 0;  // lock: locked in all; unlock: given back
  Block start = 0;    // lock
  Block end = 0;
  Amount total_units = 0;    // of the amount just given, over the whole lock
  std::int64_t portals = 0;  // that the cluster has now
  std::int64_t epoch = 0;    // set_epoch_length
  Block next_epoch = 0;
  WorkerId worker = 0;      // join, leave
  std::int64_t ticket = 0;  // exit
  Amount place = 0;         // exit: on the pool's belt
  Block active = 0;         // from when, or until when
};

struct Applied {
  Fault fault = Fault::kNone;
  std::string detail{};  // of a fault: what was found, what was expected, what to do
  Receipt receipt{};

  bool ok() const noexcept { return fault == Fault::kNone; }
};

// An operation that was found to be possible, and what it comes to.
struct Plan {
  Applied outcome{};
  std::optional<Lock> lock{};  // the wallet's, afterwards
};

// Units of one cluster at one worker.
struct Allocation {
  std::uint32_t cluster = 0;
  std::int64_t units = 0;
};

struct BrokenCluster {
  std::uint32_t cluster = 0;
  Fault fault = Fault::kNone;
};

struct Allocations {
  std::int64_t epoch = 0;
  Fault fault = Fault::kNone;           // kNoWorkers, kNotActive: no cluster has units
  std::vector<Allocation> rows{};       // of clusters that have units
  std::vector<BrokenCluster> broken{};  // whose strategy failed; the others go on
};

// Rows of the ledger, by place.
template <typename Row>
using Rows = std::deque<Row>;

using NamedStrategies = std::vector<std::pair<std::string, std::shared_ptr<const Strategy>>>;

class Ledger {
 public:
  static Result<Ledger> create(Parameters parameters, NamedStrategies strategies = {});
  ~Ledger();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;

  Plan plan(Block block, const Operation& operation) const;
  // Requires a plan of the same operation, made since the last change, that is ok.
  void commit(Block block, const Operation& operation, Plan&& plan);
  Applied apply(Block block, const Operation& operation);
  // apply() for an operation that was made before, perhaps by a process with other
  // strategies, or by an older weir that let more pass.
  Applied replay(Block block, const Operation& operation);

  // --- reading; blocks before the last operation's count as that one
  const Parameters& parameters() const noexcept { return parameters_; }
  const EpochClock& clock() const noexcept { return parameters_.clock; }
  Block block() const noexcept { return block_; }  // of the last operation
  const Cluster* find(std::string_view wallet) const noexcept;
  // The cluster that a portal belongs to, or nullptr.
  const Cluster* cluster_of(std::string_view portal) const noexcept;
  const Rows<Cluster>& clusters() const noexcept;
  // Of a cluster, in the order in which they were registered.
  std::vector<std::string_view> portals(const Cluster& cluster) const;
  std::size_t portals_in_all() const noexcept;
  // Portals of clusters that have a lock, also one that is over.
  std::size_t active_portals() const noexcept { return active_portals_; }
  Amount locked() const noexcept { return locked_; }
  // In all pools, what is leaving included.
  Amount staked() const noexcept { return staked_; }
  const Pool* find_pool(std::string_view pool) const noexcept;
  const Rows<Pool>& pools() const noexcept;
  std::size_t stakes() const noexcept { return stakes_; }
  std::size_t tickets() const noexcept { return tickets_; }
  // Units of a cluster in the epoch of `block`: 0 before its lock starts and from its end on.
  std::int64_t epoch_units(const Cluster& cluster, Block block) const noexcept;
  bool knows_strategy(std::string_view name) const noexcept;
  // Of a lock that lasts `duration` blocks, over its whole length.
  Amount total_units(Amount amount, std::int64_t duration) const noexcept;

  std::optional<WorkerId> worker_id(std::string_view name) const noexcept;
  const Rows<WorkerRecord>& workers() const noexcept;
  bool is_active(WorkerId worker, Block block) const noexcept;
  std::vector<WorkerId> active_workers(Block block) const;  // ascending

  // What each cluster has at one worker.
  Allocations allocations(WorkerId worker, Block block) const;

 private:
  Ledger(Parameters parameters, NamedStrategies strategies);

  Applied apply_plan(Block block, const Operation& operation, Plan&& plan);

  std::uint32_t place_for(const std::string& wallet);
  Cluster& cluster_for(const std::string& wallet);
  void add_portals(const Operation& operation);
  void remove_portals(const Operation& operation);
  void set_split(const Operation& operation);
  void change_setting(Block block, const Operation& operation);
  void change_pool(Block block, const Operation& operation);

  struct Tables;

  Parameters parameters_;
  NamedStrategies strategies_;
  Block block_ = 0;
  Amount locked_ = 0;
  std::size_t active_portals_ = 0;
  Amount staked_ = 0;
  std::size_t stakes_ = 0;
  std::size_t tickets_ = 0;
  std::unique_ptr<Tables> tables_;  // whose indexes point at them
};

}  // namespace weir::system::compute
