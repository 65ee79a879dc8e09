// What holds after every call:
//
//  1. block_ never goes back. Reading at an earlier block is reading at block_.
//  2. Only commit() changes the tables, and only by a plan that is ok and was made since the last
//     change. A plan that is refused changes nothing.
//  3. A portal's name is found if it is registered, and belongs to one cluster; its list has
//     exactly Cluster::portals of them. Rows that are free are in free_portals, with no name.
//  4. A cluster and a worker keep their places for good; of workers of one name the last to join
//     is found.
//  5. locked_ is the sum of all locks and at most the supply. active_portals_ counts the portals
//     of the clusters that have a lock.
//  6. staked_ is the sum of all stakes, each of which is above 0 and at least what is leaving of
//  it.
//     A cluster's pool_units are those of the pools it owns.

#include "weir/system/compute/ledger.h"

#include <algorithm>
#include <utility>

#include "weir/base/assert.h"
#include "weir/system/compute/ledger_tables.h"
#include "weir/system/compute/planning.h"

namespace weir::system::compute {

Result<Ledger> Ledger::create(Parameters parameters, NamedStrategies strategies) {
  if (Status status = validate(parameters); !status) return std::move(status).error();
  return Ledger(std::move(parameters), std::move(strategies));
}

Ledger::Ledger(Parameters parameters, NamedStrategies strategies)
    : parameters_(std::move(parameters)),
      strategies_(std::move(strategies)),
      tables_(std::make_unique<Tables>()) {}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;

Applied Ledger::apply_plan(Block block, const Operation& operation, Plan&& planned) {
  if (!planned.outcome.ok()) return std::move(planned.outcome);
  Applied outcome = planned.outcome;
  commit(block, operation, std::move(planned));
  return outcome;
}

Plan Ledger::plan(Block block, const Operation& operation) const {
  return plan_new(*this, block, operation);
}

Applied Ledger::apply(Block block, const Operation& operation) {
  return apply_plan(block, operation, plan(block, operation));
}

Applied Ledger::replay(Block block, const Operation& operation) {
  return apply_plan(block, operation, plan_made(*this, block, operation));
}

// --- changes

std::uint32_t Ledger::place_for(const std::string& wallet) {
  const std::optional<std::uint32_t> place = tables_->clusters.find(wallet);
  return place ? *place : tables_->clusters.add(Cluster{.wallet = wallet});
}

Cluster& Ledger::cluster_for(const std::string& wallet) {
  return tables_->clusters.rows[place_for(wallet)];
}

void Ledger::commit(Block block, const Operation& operation, Plan&& plan) {
  WEIR_ASSERT(plan.outcome.ok());
  block_ = block;
  if (plan.lock) {
    Cluster& cluster = cluster_for(operation.wallet);
    const bool was_active = cluster.lock.amount > 0;
    const bool is_active = plan.lock->amount > 0;
    if (is_active && !was_active) active_portals_ += cluster.portals;
    if (was_active && !is_active) active_portals_ -= cluster.portals;
    locked_ = locked_ - cluster.lock.amount + plan.lock->amount;
    cluster.lock = *plan.lock;
    return;
  }
  switch (operation.op) {
    case Op::kRegister:
      return add_portals(operation);
    case Op::kUnregister:
      return remove_portals(operation);
    case Op::kEqual:
    case Op::kSupport:
    case Op::kUnsupport:
    case Op::kShares:
    case Op::kStrategy:
      return set_split(operation);
    case Op::kJoin:
      tables_->workers.add({operation.name, plan.outcome.receipt.active, kNoEnd});
      return;
    case Op::kLeave:
      tables_->workers.rows[static_cast<std::size_t>(plan.outcome.receipt.worker - 1)].until =
          plan.outcome.receipt.active;
      return;
    case Op::kOpenPool:
    case Op::kStake:
    case Op::kExit:
    case Op::kWithdraw:
      return change_pool(block, operation);
    default:
      return change_setting(block, operation);
  }
}

void Ledger::change_pool(Block block, const Operation& operation) {
  if (operation.op == Op::kOpenPool) {
    const std::uint32_t owner = place_for(operation.wallet);
    tables_->clusters.rows[owner].pools += 1;
    const StakePoolShape shape{parameters_.min_stake, parameters_.pool_capacity,
                               parameters_.pool_mana_bp};
    tables_->pools.add(Pool{.name = operation.name,
                            .owner = owner,
                            .stake = StakePool(shape),
                            .exits = ExitQueue(block, parameters_.exit_rate)});
    return;
  }
  Pool& pool = tables_->pools.rows[*tables_->pools.find(operation.name)];
  const Amount before = pool.stake.units();
  const auto [found, is_new] = pool.stakes.try_emplace(operation.wallet);
  Stake& stake = found->second;
  if (is_new) stakes_ += 1;
  if (operation.op == Op::kStake) {
    pool.stake.stake(operation.amount);
    stake.amount += operation.amount;
    staked_ += operation.amount;
  } else if (operation.op == Op::kExit) {
    stake.tickets.push_back(static_cast<std::uint32_t>(pool.tickets.size()));
    stake.leaving += operation.amount;
    const Amount place = pool.exits.request(block, operation.amount, parameters_.exit_rate);
    pool.tickets.push_back({operation.wallet, operation.amount, place});
    tickets_ += 1;
  } else {
    ExitTicket& ticket = pool.tickets[static_cast<std::size_t>(operation.value)];
    ticket.is_withdrawn = true;
    std::erase(stake.tickets, static_cast<std::uint32_t>(operation.value));
    stake.amount -= ticket.amount;
    stake.leaving -= ticket.amount;
    staked_ -= ticket.amount;
    const bool was_there = pool.stake.unstake(ticket.amount);
    WEIR_ASSERT(was_there);
    if (stake.amount == 0) {
      pool.stakes.erase(found);
      stakes_ -= 1;
    }
  }
  // 10^30 parts at 10^4 units for a token are 10^16, and a wallet has at most a hundred pools.
  Cluster& owner = tables_->clusters.rows[pool.owner];
  owner.pool_units +=
      static_cast<std::int64_t>(pool.stake.units()) - static_cast<std::int64_t>(before);
}

void Ledger::add_portals(const Operation& operation) {
  const std::uint32_t owner = place_for(operation.wallet);
  Cluster& cluster = tables_->clusters.rows[owner];
  Rows<Portal>& rows = tables_->portals.rows;
  std::uint32_t last = cluster.first_portal;
  for (std::uint32_t i = 1; i < cluster.portals; ++i) last = rows[last].next;
  for (const std::string& name : operation.portals) {
    std::uint32_t place = 0;
    if (tables_->free_portals.empty()) {
      place = tables_->portals.add({name, owner, 0});
    } else {
      place = tables_->free_portals.back();
      tables_->free_portals.pop_back();
      tables_->portals.put(place, {name, owner, 0});
    }
    (cluster.portals == 0 ? cluster.first_portal : rows[last].next) = place;
    cluster.portals += 1;
    last = place;
  }
  if (cluster.lock.amount > 0) active_portals_ += operation.portals.size();
}

void Ledger::remove_portals(const Operation& operation) {
  Cluster& cluster = cluster_for(operation.wallet);
  for (const std::string& name : operation.portals) {
    const std::uint32_t place = *tables_->portals.find(name);
    Rows<Portal>& rows = tables_->portals.rows;
    std::uint32_t* link = &cluster.first_portal;
    while (*link != place) link = &rows[*link].next;
    *link = rows[place].next;
    cluster.portals -= 1;
    tables_->portals.forget(place);
    rows[place] = {};
    tables_->free_portals.push_back(place);
  }
  if (cluster.lock.amount > 0) active_portals_ -= operation.portals.size();
}

void Ledger::set_split(const Operation& operation) {
  Cluster& cluster = cluster_for(operation.wallet);
  if (operation.op == Op::kEqual) {
    cluster.split = nullptr;
    return;
  }
  // Whoever reads the former one goes on with it.
  const auto next_split = cluster.split == nullptr ? std::make_shared<Split>()
                                                   : std::make_shared<Split>(*cluster.split);
  cluster.split = next_split;
  Split& split = *next_split;
  switch (operation.op) {
    case Op::kSupport:
      if (!std::holds_alternative<Subset>(split)) split = Subset{};
      std::get<Subset>(split).support(operation.workers);
      return;
    case Op::kUnsupport:
      if (!std::holds_alternative<Subset>(split)) split = Subset{};
      std::get<Subset>(split).unsupport(operation.workers);
      return;
    case Op::kShares: {
      Shares shares;
      const auto next = static_cast<WorkerId>(workers().size()) + 1;
      const Fault fault = Shares::make(operation.workers, operation.basis_points, next, shares);
      WEIR_ASSERT(fault == Fault::kNone);
      split = std::move(shares);
      return;
    }
    default: {
      const auto named = std::find_if(strategies_.begin(), strategies_.end(),
                                      [&](const auto& row) { return row.first == operation.name; });
      split = CustomStrategy{operation.name, named == strategies_.end() ? nullptr : named->second};
    }
  }
}

void Ledger::change_setting(Block block, const Operation& operation) {
  switch (operation.op) {
    case Op::kSetEpochLength:
      parameters_.clock = with_length(parameters_.clock, block, operation.value);
      return;
    case Op::kSetMana:
      parameters_.mana = operation.value;
      return;
    case Op::kSetBlockTime:
      parameters_.block_time_s = operation.value;
      return;
    case Op::kSetMinLock:
      parameters_.min_lock = operation.amount;
      return;
    case Op::kSetMinStake:
      parameters_.min_stake = operation.amount;
      for (Pool& pool : tables_->pools.rows) pool.stake.set_least(operation.amount);
      return;
    case Op::kSetExitRate:
      parameters_.exit_rate = operation.amount;
      for (Pool& pool : tables_->pools.rows) pool.exits.set_rate(block, operation.amount);
      return;
    default:
      WEIR_ASSERT(operation.op == Op::kSetMaxPortals);
      parameters_.max_portals = operation.value;
  }
}

// --- reading

const Cluster* Ledger::find(std::string_view wallet) const noexcept {
  const std::optional<std::uint32_t> place = tables_->clusters.find(wallet);
  return place ? &tables_->clusters.rows[*place] : nullptr;
}

const Cluster* Ledger::cluster_of(std::string_view portal) const noexcept {
  const std::optional<std::uint32_t> place = tables_->portals.find(portal);
  return place ? &tables_->clusters.rows[tables_->portals.rows[*place].cluster] : nullptr;
}

const Rows<Cluster>& Ledger::clusters() const noexcept { return tables_->clusters.rows; }

std::vector<std::string_view> Ledger::portals(const Cluster& cluster) const {
  std::vector<std::string_view> names;
  names.reserve(cluster.portals);
  std::uint32_t place = cluster.first_portal;
  for (std::uint32_t i = 0; i < cluster.portals; ++i) {
    names.push_back(tables_->portals.rows[place].name);
    place = tables_->portals.rows[place].next;
  }
  return names;
}

std::size_t Ledger::portals_in_all() const noexcept {
  return tables_->portals.rows.size() - tables_->free_portals.size();
}

bool Ledger::knows_strategy(std::string_view name) const noexcept {
  return std::any_of(strategies_.begin(), strategies_.end(),
                     [&](const auto& row) { return row.first == name; });
}

const Pool* Ledger::find_pool(std::string_view pool) const noexcept {
  const std::optional<std::uint32_t> place = tables_->pools.find(pool);
  return place ? &tables_->pools.rows[*place] : nullptr;
}

const Rows<Pool>& Ledger::pools() const noexcept { return tables_->pools.rows; }

const Rows<WorkerRecord>& Ledger::workers() const noexcept { return tables_->workers.rows; }

Amount Ledger::total_units(Amount amount, std::int64_t duration) const noexcept {
  // The length was at most max_lock_s when it was locked, so at most kDurationMax blocks;
  // a longer block time may carry it beyond the table, never beyond 63 bits.
  const std::int64_t seconds = saturate(Wide{duration} * parameters_.block_time_s);
  return compute::total_units(amount, duration, parameters_.mana,
                              boost_bp(parameters_.boost, seconds));
}

std::int64_t Ledger::epoch_units(const Cluster& cluster, Block block) const noexcept {
  const Lock& lock = cluster.lock;
  const Block now = std::max(block, block_);
  if (lock.amount == 0 || lock.end <= now) return 0;
  const Amount total = lock.start > now ? lock.old_total : total_units(lock.amount, lock.duration);
  // validate() has made sure that it is below 2^62.
  return static_cast<std::int64_t>(
      compute::epoch_units(total, lock.duration, parameters_.clock.length));
}

std::optional<WorkerId> Ledger::worker_id(std::string_view name) const noexcept {
  const std::optional<std::uint32_t> place = tables_->workers.find(name);
  return place ? std::optional(WorkerId{*place} + 1) : std::nullopt;
}

bool Ledger::is_active(WorkerId worker, Block block) const noexcept {
  if (worker < 1 || worker > static_cast<WorkerId>(workers().size())) return false;
  const WorkerRecord& record = workers()[static_cast<std::size_t>(worker - 1)];
  const Block now = std::max(block, block_);
  return record.from <= now && now < record.until;
}

std::vector<WorkerId> Ledger::active_workers(Block block) const {
  std::vector<WorkerId> active;
  const auto count = static_cast<WorkerId>(workers().size());
  for (WorkerId worker = 1; worker <= count; ++worker) {
    if (is_active(worker, block)) active.push_back(worker);
  }
  return active;
}

Share share(const Split* split, const ShareOf& of, bool published_faults) {
  if (split == nullptr) return equal_share(of);
  if (const auto* subset = std::get_if<Subset>(split)) {
    return published_faults ? subset->published_share(of.units, of.worker) : subset->share(of);
  }
  if (const auto* shares = std::get_if<Shares>(split)) return shares->share(of);
  const auto& custom = std::get<CustomStrategy>(*split);
  if (custom.strategy == nullptr) return {0, Fault::kNoSuchStrategy};
  try {
    const Result<std::int64_t> units = custom.strategy->share(of);
    if (units && *units >= 0 && *units <= of.units) return {*units};
  } catch (...) {
    // Whatever it threw, the other clusters go on.
  }
  return {0, Fault::kStrategyFailed};
}

Allocations Ledger::allocations(WorkerId worker, Block block) const {
  Allocations result;
  result.epoch = epoch_number(clock(), std::max(block, block_));
  const std::vector<WorkerId> active = active_workers(block);
  if (active.empty()) {
    result.fault = Fault::kNoWorkers;
    return result;
  }
  if (!std::binary_search(active.begin(), active.end(), worker)) {
    result.fault = Fault::kNotActive;
    return result;
  }
  ShareOf of{0, worker, active, result.epoch, parameters_.remainder};
  const auto place = std::lower_bound(active.begin(), active.end(), worker) - active.begin();
  const auto count = static_cast<std::int64_t>(active.size());
  const RemainderTurns turns(count, result.epoch);
  std::uint32_t at = 0;
  for (const Cluster& cluster : clusters()) {
    const std::uint32_t i = at++;
    of.units = epoch_units(cluster, block);
    // Who has no portal has no use of a pool's units.
    const std::int64_t pooled = cluster.portals > 0 ? cluster.pool_units : 0;
    if (of.units == 0) {
      if (pooled > 0) result.rows.push_back({i, pooled});
      continue;
    }
    of.cluster = i;
    // Most clusters split equally: the worker's place is looked up once for all of them.
    const Share share =
        cluster.split == nullptr
            ? Share{equal_share(of.units, place, count, turns.first(i), of.remainder)}
            : compute::share(cluster.split.get(), of, parameters_.published_faults);
    if (share.fault != Fault::kNone) {
      result.broken.push_back({i, share.fault});
    } else if (share.units + pooled > 0) {
      result.rows.push_back({i, share.units + pooled});  // below 2^62 + 2^60
    }
  }
  return result;
}

}  // namespace weir::system::compute
