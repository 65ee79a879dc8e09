// One function for each operation, in the order of Op. Each reads the ledger, makes the published
// checks in their order, and says what would be, or which fault comes first.

#include "weir/system/compute/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "weir/base/in_quotes.h"
#include "weir/base/utf8.h"

namespace weir::system::compute {
namespace {

Plan refused(Fault fault, std::string detail) {
  Plan plan;
  plan.outcome.fault = fault;
  plan.outcome.detail = std::move(detail);
  return plan;
}

bool is_of_pool(Op op) noexcept { return op >= Op::kOpenPool && op <= Op::kWithdraw; }

bool has_wallet(Op op) noexcept { return op < Op::kJoin || is_of_pool(op); }

Fault check_name(std::string_view what, std::string_view name, std::string& detail) {
  // The history is JSON: such a name could be written there, and never be read again.
  if (const std::size_t bad = find_not_utf8(name); bad != std::string_view::npos) {
    detail = fmt::format(
        "{} is not UTF-8 from byte {} on, but it must be text; write a peer id "
        "as text, such as in base58",
        what, bad);
    return Fault::kNameNotUtf8;
  }
  if (name.size() <= kNameBytesMax) return Fault::kNone;
  detail = fmt::format("{} {} has {} bytes, but it must have at most {}; use a shorter name", what,
                       in_quotes(name), name.size(), kNameBytesMax);
  return Fault::kNameTooLong;
}

// Of every text and list that an operation carries.
Fault check_bounds(const Operation& operation, std::string& detail) {
  if (has_wallet(operation.op) && operation.wallet.empty()) {
    detail = "the wallet has no name; name the wallet that asks";
    return Fault::kNoSuchWallet;
  }
  if (Fault fault = check_name("wallet", operation.wallet, detail); fault != Fault::kNone) {
    return fault;
  }
  for (const std::string& portal : operation.portals) {
    if (Fault fault = check_name("portal", portal, detail); fault != Fault::kNone) return fault;
  }
  if (Fault fault = check_name("event", operation.event, detail); fault != Fault::kNone) {
    return fault;
  }
  const std::size_t most =
      std::max({operation.portals.size(), operation.workers.size(), operation.basis_points.size()});
  if (most > kNamesPerOperationMax) {
    detail = fmt::format("a list has {} entries, but it must have at most {}; send several", most,
                         kNamesPerOperationMax);
    return Fault::kTooMany;
  }
  return check_name("name", operation.name, detail);
}

void describe(const Lock& lock, Receipt& receipt) {
  receipt.amount = lock.amount;
  receipt.start = lock.start;
  receipt.end = lock.end;
}
Fault check_block(const Ledger& ledger, Block block, std::string& detail) {
  if (block < ledger.block()) {
    detail = fmt::format("block is {}, but the ledger is at block {}; blocks never go back", block,
                         ledger.block());
    return Fault::kBlockWentBack;
  }
  if (block > kBlockMax) {
    detail = fmt::format("block is {}, but it must be at most 2^61 - 1; check the clock", block);
    return Fault::kBlockTooFar;
  }
  return Fault::kNone;
}

// --- clusters

Plan plan_register(const Ledger& ledger, const Operation& operation) {
  const Cluster* cluster = ledger.find(operation.wallet);
  std::size_t portals = cluster == nullptr ? 0 : cluster->portals;
  std::set<std::string_view> seen;
  for (const std::string& name : operation.portals) {
    if (name.empty()) {
      return refused(Fault::kEmptyPeer, "a portal has no name; give the peer id of the portal");
    }
    if (ledger.cluster_of(name) != nullptr || !seen.insert(name).second) {
      return refused(
          Fault::kPeerTaken,
          fmt::format("portal {} is registered already; unregister it first", in_quotes(name)));
    }
    if (portals >= static_cast<std::size_t>(ledger.parameters().max_portals)) {
      return refused(Fault::kClusterFull,
                     fmt::format("the cluster of wallet {} has {} portals, which is the most; "
                                 "unregister one first",
                                 in_quotes(operation.wallet), portals));
    }
    portals += 1;
  }
  if (operation.portals.empty()) {
    return refused(Fault::kEmptyPeer, "no portal is named; give the peer id of the portal");
  }
  const std::size_t registered = ledger.portals_in_all();
  if (registered + operation.portals.size() > kPortalsInAllMax) {
    return refused(Fault::kTooMany, fmt::format("{} portals are registered, and {} are the most; "
                                                "unregister some first",
                                                registered, kPortalsInAllMax));
  }
  Plan plan;
  plan.outcome.receipt.portals = static_cast<std::int64_t>(portals);
  return plan;
}

Plan plan_unregister(const Ledger& ledger, const Operation& operation) {
  std::set<std::string_view> seen;
  for (const std::string& name : operation.portals) {
    const Cluster* cluster = ledger.cluster_of(name);
    if (cluster == nullptr || !seen.insert(name).second) {
      return refused(Fault::kNotRegistered,
                     fmt::format("portal {} is not registered; name one that is", in_quotes(name)));
    }
    if (cluster->wallet != operation.wallet) {
      return refused(Fault::kNotOperator,
                     fmt::format("portal {} belongs to wallet {}; ask as that wallet",
                                 in_quotes(name), in_quotes(cluster->wallet)));
    }
  }
  if (operation.portals.empty()) {
    return refused(Fault::kNotRegistered, "no portal is named; give the peer id of the portal");
  }
  Plan plan;
  plan.outcome.receipt.portals =
      static_cast<std::int64_t>(ledger.find(operation.wallet)->portals - operation.portals.size());
  return plan;
}

// --- locks

Plan plan_lock(const Ledger& ledger, Block block, const Operation& operation) {
  const std::int64_t duration = operation.value;
  if (operation.amount < ledger.parameters().min_lock || operation.amount == 0) {
    return refused(Fault::kBelowMin, fmt::format("amount is {} tokens, but at least {} must be "
                                                 "locked; lock more",
                                                 tokens_text(operation.amount),
                                                 tokens_text(ledger.parameters().min_lock)));
  }
  if (duration < ledger.clock().length) {
    return refused(
        Fault::kLockTooShort,
        fmt::format("duration is {} blocks, but it must be at least an epoch of {}; lock "
                    "for longer",
                    duration, ledger.clock().length));
  }
  if (Wide{duration} * ledger.parameters().block_time_s > ledger.parameters().max_lock_s) {
    return refused(
        Fault::kLockTooLong,
        fmt::format("duration is {} blocks of {} s, but it must be at most {} s; lock "
                    "for less",
                    duration, ledger.parameters().block_time_s, ledger.parameters().max_lock_s));
  }
  const Cluster* cluster = ledger.find(operation.wallet);
  if (cluster != nullptr && cluster->lock.amount > 0) {
    return refused(Fault::kAlreadyLocked,
                   fmt::format("wallet {} has {} tokens locked; add to them, or unlock them first",
                               in_quotes(operation.wallet), tokens_text(cluster->lock.amount)));
  }
  if (operation.amount > ledger.parameters().supply - ledger.locked() - ledger.staked()) {
    return refused(
        Fault::kBeyondSupply,
        fmt::format("amount is {} tokens, but of {} {} are locked or staked already; lock "
                    "less",
                    tokens_text(operation.amount), tokens_text(ledger.parameters().supply),
                    tokens_text(ledger.locked() + ledger.staked())));
  }
  Plan plan;
  const Block start = next_epoch(ledger.clock(), block);
  plan.lock =
      Lock{operation.amount, 0, start, operation.is_auto ? kNoEnd : start + duration, duration,
           operation.is_auto};
  describe(*plan.lock, plan.outcome.receipt);
  plan.outcome.receipt.total_units = ledger.total_units(operation.amount, duration);
  return plan;
}

Plan plan_add(const Ledger& ledger, Block block, const Operation& operation) {
  const Cluster* cluster = ledger.find(operation.wallet);
  if (cluster == nullptr || cluster->lock.amount == 0) {
    return refused(Fault::kNoLock, fmt::format("wallet {} has nothing locked; lock first",
                                               in_quotes(operation.wallet)));
  }
  const Lock& old = cluster->lock;
  if (old.start > block) {
    return refused(Fault::kNotStarted,
                   fmt::format("the lock starts at block {}, and this is block {}; add then",
                               old.start, block));
  }
  if (operation.amount > ledger.parameters().supply - ledger.locked() - ledger.staked()) {
    return refused(
        Fault::kBeyondSupply,
        fmt::format("amount is {} tokens, but of {} {} are locked or staked already; add "
                    "less",
                    tokens_text(operation.amount), tokens_text(ledger.parameters().supply),
                    tokens_text(ledger.locked() + ledger.staked())));
  }
  Plan plan;
  const Block start = next_epoch(ledger.clock(), block);
  plan.lock = Lock{old.amount + operation.amount,
                   ledger.total_units(old.amount, old.duration),
                   start,
                   old.is_auto ? kNoEnd : start + old.duration,
                   old.duration,
                   old.is_auto};
  describe(*plan.lock, plan.outcome.receipt);
  plan.outcome.receipt.total_units = ledger.total_units(operation.amount, old.duration);
  return plan;
}

Plan plan_unlock(const Ledger& ledger, Block block, const Operation& operation) {
  const Cluster* cluster = ledger.find(operation.wallet);
  const Lock lock = cluster == nullptr ? Lock{} : cluster->lock;
  if (lock.end > block) {
    return refused(Fault::kLocked,
                   lock.end == kNoEnd
                       ? std::string("the lock extends itself; turn that off and wait for its end")
                       : fmt::format("the lock ends at block {}, and this is block {}; unlock then",
                                     lock.end, block));
  }
  if (lock.amount == 0) {
    return refused(Fault::kNothing, fmt::format("wallet {} has nothing locked; there is nothing "
                                                "to give back",
                                                in_quotes(operation.wallet)));
  }
  Plan plan;
  plan.lock = Lock{};
  plan.outcome.receipt.amount = lock.amount;
  return plan;
}

Plan plan_auto(const Ledger& ledger, Block block, const Operation& operation) {
  const Cluster* cluster = ledger.find(operation.wallet);
  Lock lock = cluster == nullptr ? Lock{} : cluster->lock;
  const bool on = operation.op == Op::kAutoOn;
  if (lock.is_auto == on) {
    return refused(on ? Fault::kAutoAlreadyOn : Fault::kAutoAlreadyOff,
                   fmt::format("the lock of wallet {} {} extend itself; nothing has to be done",
                               in_quotes(operation.wallet), on ? "does" : "does not"));
  }
  if (lock.amount == 0 && !ledger.parameters().published_faults) {
    return refused(Fault::kNoLock, fmt::format("wallet {} has nothing locked; lock first",
                                               in_quotes(operation.wallet)));
  }
  if (!on && lock.duration == 0) {
    return refused(Fault::kDivByZero,
                   fmt::format("wallet {} extends a lock that it does not have; lock first",
                               in_quotes(operation.wallet)));
  }
  lock.is_auto = on;
  // Off: at the end of the period that is running.
  lock.end = on ? kNoEnd
                : lock.start +
                      (std::max<Block>(0, block - lock.start) / lock.duration + 1) * lock.duration;
  Plan plan;
  plan.lock = lock;
  describe(lock, plan.outcome.receipt);
  return plan;
}

// --- strategies

Plan plan_split(const Ledger& ledger, const Operation& operation) {
  const auto next = static_cast<WorkerId>(ledger.workers().size()) + 1;
  if (operation.op == Op::kShares) {
    Shares ignored;
    const Fault fault = Shares::make(operation.workers, operation.basis_points, next, ignored);
    if (fault == Fault::kOver100Percent) {
      // At most kNamesPerOperationMax of them, below 2^63 each.
      Wide sum = 0;
      for (const std::int64_t points : operation.basis_points) sum += points;
      return refused(fault,
                     fmt::format("shares of {} workers come to {} basis points, but they may come "
                                 "to {}, with none below 0; write less",
                                 operation.workers.size(), sum, kBasisPoints));
    }
    if (fault != Fault::kNone) {
      return refused(fault, fmt::format("shares of {} workers have {} basis points; name workers "
                                        "below id {} with as many shares, at most {} in all",
                                        operation.workers.size(), operation.basis_points.size(),
                                        next, kBasisPoints));
    }
  }
  if (operation.op == Op::kSupport || operation.op == Op::kUnsupport) {
    for (const WorkerId worker : operation.workers) {
      if (worker >= 0 && worker < next) continue;
      return refused(
          Fault::kNoSuchWorker,
          fmt::format("worker {} does not exist; name workers below id {}", worker, next));
    }
  }
  return {};
}

// --- workers

Plan plan_join(const Ledger& ledger, Block block, const Operation& operation) {
  if (operation.name.empty()) {
    return refused(Fault::kEmptyPeer, "the worker has no name; give its peer id");
  }
  const std::optional<WorkerId> known = ledger.worker_id(operation.name);
  if (known && ledger.workers()[static_cast<std::size_t>(*known - 1)].until > block) {
    return refused(Fault::kWorkerTaken,
                   fmt::format("worker {} has joined already, as {}; it may join again when it has "
                               "left",
                               in_quotes(operation.name), *known));
  }
  if (ledger.workers().size() >= kWorkersMax) {
    return refused(Fault::kTooMany, fmt::format("{} workers have joined, which is the most; begin "
                                                "another ledger",
                                                kWorkersMax));
  }
  Plan plan;
  plan.outcome.receipt.worker = static_cast<WorkerId>(ledger.workers().size()) + 1;
  plan.outcome.receipt.active = next_epoch(ledger.clock(), block);
  return plan;
}

Plan plan_leave(const Ledger& ledger, Block block, const Operation& operation) {
  const std::optional<WorkerId> worker = ledger.worker_id(operation.name);
  if (!worker || !ledger.is_active(*worker, block)) {
    return refused(Fault::kNotActive, fmt::format("worker {} is not active; only one that is can "
                                                  "leave",
                                                  in_quotes(operation.name)));
  }
  Plan plan;
  plan.outcome.receipt.worker = *worker;
  plan.outcome.receipt.active = next_epoch(ledger.clock(), block);
  return plan;
}

// --- pools

Plan plan_open_pool(const Ledger& ledger, const Operation& operation) {
  if (operation.name.empty()) {
    return refused(Fault::kNoSuchPool, "the pool has no name; give it one");
  }
  if (ledger.find_pool(operation.name) != nullptr) {
    return refused(Fault::kPoolTaken, fmt::format("there is a pool {} already; choose another name",
                                                  in_quotes(operation.name)));
  }
  const Cluster* cluster = ledger.find(operation.wallet);
  const std::size_t owned = cluster == nullptr ? 0 : cluster->pools;
  if (owned >= kPoolsOfOwnerMax || ledger.pools().size() >= kPoolsMax) {
    return refused(Fault::kTooMany,
                   fmt::format("wallet {} has {} pools of at most {}, and there are {} of at most "
                               "{}; use one of them",
                               in_quotes(operation.wallet), owned, kPoolsOfOwnerMax,
                               ledger.pools().size(), kPoolsMax));
  }
  return {};
}

Plan plan_stake(const Ledger& ledger, const Pool& pool, const Operation& operation) {
  if (operation.amount == 0) {
    return refused(Fault::kNothing, "nothing is staked; give an amount above 0");
  }
  const Amount taken = ledger.locked() + ledger.staked();
  if (operation.amount > ledger.parameters().supply - taken) {
    return refused(Fault::kBeyondSupply,
                   fmt::format("amount is {} tokens, but of {} {} are locked or staked already; "
                               "stake less",
                               tokens_text(operation.amount),
                               tokens_text(ledger.parameters().supply), tokens_text(taken)));
  }
  if (ledger.stakes() >= kStakesMax && !pool.stakes.contains(operation.wallet)) {
    return refused(Fault::kTooMany,
                   fmt::format("there are {} stakes, which is the most; add to one", kStakesMax));
  }
  return {};
}

Plan plan_exit(const Ledger& ledger, Block block, const Pool& pool, const Operation& operation) {
  const auto found = pool.stakes.find(operation.wallet);
  const Stake stake = found == pool.stakes.end() ? Stake{} : found->second;
  if (operation.amount == 0) {
    return refused(Fault::kNothing, "nothing leaves; give an amount above 0");
  }
  if (operation.amount > stake.amount - stake.leaving) {
    return refused(Fault::kInsufficient,
                   fmt::format("amount is {} tokens, but wallet {} has {} in pool {} that are not "
                               "leaving yet; ask for less",
                               tokens_text(operation.amount), in_quotes(operation.wallet),
                               tokens_text(stake.amount - stake.leaving), in_quotes(pool.name)));
  }
  if (stake.tickets.size() >= kTicketsOfStakeMax) {
    return refused(
        Fault::kTooMany,
        fmt::format("wallet {} has {} tickets in pool {}, which is the most; withdraw "
                    "one first",
                    in_quotes(operation.wallet), stake.tickets.size(), in_quotes(pool.name)));
  }
  if (ledger.tickets() >= kTicketsMax) {
    return refused(Fault::kTooMany,
                   fmt::format("there were {} tickets, which is the most that a ledger ever gives "
                               "out; nothing can leave any more but by those: begin another ledger",
                               ledger.tickets()));
  }
  if (pool.exits.requested() > kBeltMax - operation.amount) {
    return refused(
        Fault::kTooMany,
        fmt::format("{} tokens have asked to leave pool {} so far, and {} more may ever; "
                    "ask for no more than that",
                    tokens_text(pool.exits.requested()), in_quotes(pool.name),
                    tokens_text(kBeltMax - pool.exits.requested())));
  }
  Plan plan;
  plan.outcome.receipt.amount = operation.amount;
  plan.outcome.receipt.ticket = static_cast<std::int64_t>(pool.tickets.size());
  ExitQueue after = pool.exits;
  plan.outcome.receipt.place =
      after.request(block, operation.amount, ledger.parameters().exit_rate);
  return plan;
}

Plan plan_withdraw(Block block, const Pool& pool, const Operation& operation) {
  if (operation.value < 0 || operation.value >= static_cast<std::int64_t>(pool.tickets.size())) {
    return refused(Fault::kNoSuchTicket,
                   fmt::format("pool {} has no ticket {}; give the 'ticket' of an exit",
                               in_quotes(pool.name), operation.value));
  }
  const ExitTicket& ticket = pool.tickets[static_cast<std::size_t>(operation.value)];
  if (ticket.wallet != operation.wallet) {
    return refused(Fault::kNotOperator,
                   fmt::format("ticket {} belongs to wallet {}; ask as that wallet",
                               operation.value, in_quotes(ticket.wallet)));
  }
  if (ticket.is_withdrawn) {
    return refused(Fault::kNothing, fmt::format("ticket {} was withdrawn already; nothing is left",
                                                operation.value));
  }
  const std::optional<std::int64_t> wait = pool.exits.wait_seconds(block, ticket.place);
  if (wait != 0) {
    return refused(
        Fault::kNotReady,
        wait ? fmt::format("the place of ticket {} is reached in {} blocks; withdraw then",
                           operation.value, *wait)
             : fmt::format("the place of ticket {} is never reached, since nothing may "
                           "leave; set 'exit_rate' above 0",
                           operation.value));
  }
  Plan plan;
  plan.outcome.receipt.amount = ticket.amount;
  return plan;
}

Plan plan_pool(const Ledger& ledger, Block block, const Operation& operation) {
  if (operation.op == Op::kOpenPool) return plan_open_pool(ledger, operation);
  const Pool* pool = ledger.find_pool(operation.name);
  if (pool == nullptr) {
    return refused(Fault::kNoSuchPool, fmt::format("there is no pool {}; name one that there is",
                                                   in_quotes(operation.name)));
  }
  if (operation.op == Op::kStake) return plan_stake(ledger, *pool, operation);
  if (operation.op == Op::kExit) return plan_exit(ledger, block, *pool, operation);
  return plan_withdraw(block, *pool, operation);
}

// --- settings

Plan plan_setting(const Ledger& ledger, Block block, const Operation& operation) {
  Parameters changed = ledger.parameters();
  switch (operation.op) {
    case Op::kSetEpochLength: {
      if (operation.value < kEpochLengthMin || operation.value > kEpochLengthMax) {
        return refused(
            operation.value < kEpochLengthMin ? Fault::kEpochTooShort : Fault::kEpochTooLong,
            fmt::format("length is {} blocks, but it must be {} to {}; set one between",
                        operation.value, kEpochLengthMin, kEpochLengthMax));
      }
      Plan plan;
      const EpochClock next = with_length(ledger.clock(), block, operation.value);
      plan.outcome.receipt.epoch = epoch_number(next, block);
      plan.outcome.receipt.next_epoch = next_epoch(next, block);
      return plan;
    }
    case Op::kSetMana:
      changed.mana = operation.value;
      break;
    case Op::kSetBlockTime:
      changed.block_time_s = operation.value;
      break;
    case Op::kSetMinLock:
      changed.min_lock = operation.amount;
      break;
    case Op::kSetMinStake:
      changed.min_stake = operation.amount;
      break;
    case Op::kSetExitRate:
      changed.exit_rate = operation.amount;
      break;
    default:
      changed.max_portals = operation.value;
  }
  if (const Status status = validate(changed); !status) {
    return refused(Fault::kOutOfRange, status.error().message);
  }
  return {};
}

// --- what only a new operation is asked

Fault check_new_split(const Ledger& ledger, const Operation& operation, std::string& detail) {
  const Cluster* cluster = ledger.find(operation.wallet);
  if (cluster == nullptr) {
    detail = fmt::format("wallet {} has never locked or registered anything; name one that has",
                         in_quotes(operation.wallet));
    return Fault::kNoSuchWallet;
  }
  const bool names_workers =
      operation.op == Op::kSupport || operation.op == Op::kUnsupport || operation.op == Op::kShares;
  if (names_workers && operation.workers.empty()) {
    detail = "no worker is named; name at least one by its id";
    return Fault::kNoSuchWorker;
  }
  if (operation.op == Op::kUnsupport) {
    const Subset none;
    const Subset* subset =
        cluster->split == nullptr ? nullptr : std::get_if<Subset>(cluster->split.get());
    if (!(subset == nullptr ? none : *subset).can_unsupport(operation.workers)) {
      detail = fmt::format(
          "{} workers are taken out, which is more than were put in; take out "
          "fewer",
          operation.workers.size());
      return Fault::kUnderflow;
    }
  }
  if (operation.op == Op::kStrategy && !ledger.knows_strategy(operation.name)) {
    detail =
        fmt::format("strategy {} is not known here; name one that is", in_quotes(operation.name));
    return Fault::kNoSuchStrategy;
  }
  return Fault::kNone;
}

Fault check_new(const Ledger& ledger, const Operation& operation, std::string& detail) {
  switch (operation.op) {
    case Op::kEqual:
    case Op::kSupport:
    case Op::kUnsupport:
    case Op::kShares:
    case Op::kStrategy:
      return check_new_split(ledger, operation, detail);
    case Op::kSetMaxPortals:
      if (operation.value >= 1 || ledger.parameters().published_faults) return Fault::kNone;
      detail = fmt::format("max_portals is {}, but it must be at least 1; set one that is",
                           operation.value);
      return Fault::kOutOfRange;
    default:
      return Fault::kNone;
  }
}

// --- all of it

Plan plan_known(const Ledger& ledger, Block block, const Operation& operation) {
  switch (operation.op) {
    case Op::kRegister:
      return plan_register(ledger, operation);
    case Op::kUnregister:
      return plan_unregister(ledger, operation);
    case Op::kLock:
      return plan_lock(ledger, block, operation);
    case Op::kAdd:
      return plan_add(ledger, block, operation);
    case Op::kUnlock:
      return plan_unlock(ledger, block, operation);
    case Op::kAutoOn:
    case Op::kAutoOff:
      return plan_auto(ledger, block, operation);
    case Op::kEqual:
    case Op::kSupport:
    case Op::kUnsupport:
    case Op::kShares:
    case Op::kStrategy:
      return plan_split(ledger, operation);
    case Op::kJoin:
      return plan_join(ledger, block, operation);
    case Op::kLeave:
      return plan_leave(ledger, block, operation);
    case Op::kOpenPool:
    case Op::kStake:
    case Op::kExit:
    case Op::kWithdraw:
      return plan_pool(ledger, block, operation);
    default:
      return plan_setting(ledger, block, operation);
  }
}

}  // namespace

Plan plan_made(const Ledger& ledger, Block block, const Operation& operation) {
  std::string detail;
  if (Fault fault = check_block(ledger, block, detail); fault != Fault::kNone) {
    return refused(fault, std::move(detail));
  }
  if (Fault fault = check_bounds(operation, detail); fault != Fault::kNone) {
    return refused(fault, std::move(detail));
  }
  if (has_wallet(operation.op) && ledger.clusters().size() >= kWalletsMax &&
      ledger.find(operation.wallet) == nullptr) {
    return refused(Fault::kTooMany, fmt::format("there are {} wallets, which is the most; use one "
                                                "of them",
                                                kWalletsMax));
  }
  return plan_known(ledger, block, operation);
}

Plan plan_new(const Ledger& ledger, Block block, const Operation& operation) {
  Plan plan = plan_made(ledger, block, operation);
  if (!plan.outcome.ok()) return plan;
  std::string detail;
  const Fault fault = check_new(ledger, operation, detail);
  return fault == Fault::kNone ? std::move(plan) : refused(fault, std::move(detail));
}

}  // namespace weir::system::compute
