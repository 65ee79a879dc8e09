// A random ledger against a naive model of the published rules.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/seed.h"
#include "tests/system/compute/support.h"

namespace weir::system::compute {
namespace {

using boost::multiprecision::cpp_int;

// Everything as the specification says it, with numbers of any size and no index.
struct Model {
  struct Wallet {
    cpp_int amount = 0, old_total = 0;
    std::int64_t start = 0, end = 0, duration = 0;
    bool is_auto = false;
  };
  struct Worker {
    std::string name;
    std::int64_t from, until;
  };

  std::int64_t length, first, checkpoint = 0, mana = 10, max_portals = 3;
  cpp_int min_lock;
  std::map<std::string, Wallet> wallets;
  std::map<std::string, std::string> portals;  // to their wallet
  std::set<std::string> registered;            // wallets that ever did
  std::map<std::string, std::set<std::int64_t>> subsets;
  std::vector<Worker> workers;

  std::int64_t next(std::int64_t b) const {
    return b < first ? first : ((b - first) / length + 1) * length + first;
  }
  std::int64_t epoch(std::int64_t b) const {
    return b < first ? checkpoint : (b - first) / length + checkpoint + 1;
  }
  bool exists(const std::string& wallet) const {
    return wallets.contains(wallet) || registered.contains(wallet);
  }
  std::int64_t portals_of(const std::string& wallet) const {
    return std::count_if(portals.begin(), portals.end(),
                         [&](const auto& row) { return row.second == wallet; });
  }
  static std::int64_t boost(std::int64_t seconds) {
    const std::int64_t days = seconds / 86'400;
    if (days < 60) return 10'000;
    if (days < 180) return 10'000 + 2'000 * ((seconds - 30 * 86'400) / (30 * 86'400));
    return days < 360 ? 20'000 : days < 720 ? 25'000 : 30'000;
  }
  cpp_int total(const cpp_int& amount, std::int64_t duration) const {
    return amount * duration * mana * boost(duration * 12) /
           (cpp_int("1000000000000000000") * 10'000 * 1'000);
  }
  cpp_int units(const std::string& wallet, std::int64_t b) const {
    const auto found = wallets.find(wallet);
    if (found == wallets.end()) return 0;
    const Wallet& w = found->second;
    if (w.amount == 0 || w.end <= b) return 0;
    const cpp_int t = w.start > b ? w.old_total : total(w.amount, w.duration);
    return w.duration <= length ? t : t * length / w.duration;
  }
  std::vector<std::int64_t> active(std::int64_t b) const {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (workers[i].from <= b && b < workers[i].until) {
        ids.push_back(static_cast<std::int64_t>(i) + 1);
      }
    }
    return ids;
  }
  std::int64_t active_portals() const {
    std::int64_t count = 0;
    for (const auto& [portal, wallet] : portals) {
      const auto found = wallets.find(wallet);
      if (found != wallets.end() && found->second.amount > 0) count += 1;
    }
    return count;
  }

  Fault apply(std::int64_t b, const Operation& op);
};

Fault Model::apply(std::int64_t b, const Operation& op) {
  const auto known = wallets.find(op.wallet);
  Wallet w = known == wallets.end() ? Wallet{} : known->second;
  const cpp_int amount(parts_text(op.amount));
  switch (op.op) {
    case Op::kRegister: {
      if (portals.contains(op.portals[0])) return Fault::kPeerTaken;
      if (portals_of(op.wallet) >= max_portals) return Fault::kClusterFull;
      portals[op.portals[0]] = op.wallet;
      registered.insert(op.wallet);
      return Fault::kNone;
    }
    case Op::kUnregister:
      if (!portals.contains(op.portals[0])) return Fault::kNotRegistered;
      if (portals[op.portals[0]] != op.wallet) return Fault::kNotOperator;
      portals.erase(op.portals[0]);
      return Fault::kNone;
    case Op::kLock:
      if (amount < min_lock || amount == 0) return Fault::kBelowMin;
      if (op.value < length) return Fault::kLockTooShort;
      if (op.value * 12 > 93'312'000) return Fault::kLockTooLong;
      if (w.amount > 0) return Fault::kAlreadyLocked;
      w = {amount, 0, next(b), op.is_auto ? kNoEnd : next(b) + op.value, op.value, op.is_auto};
      break;
    case Op::kAdd:
      if (w.amount == 0) return Fault::kNoLock;
      if (w.start > b) return Fault::kNotStarted;
      w.old_total = total(w.amount, w.duration);
      w.amount += amount;
      w.start = next(b);
      w.end = w.is_auto ? kNoEnd : w.start + w.duration;
      break;
    case Op::kUnlock:
      if (w.end > b) return Fault::kLocked;
      if (w.amount == 0) return Fault::kNothing;
      w = {};
      break;
    case Op::kAutoOn:
      if (w.is_auto) return Fault::kAutoAlreadyOn;
      if (w.amount == 0) return Fault::kNoLock;
      w.is_auto = true;
      w.end = kNoEnd;
      break;
    case Op::kAutoOff: {
      if (!w.is_auto) return Fault::kAutoAlreadyOff;
      w.is_auto = false;
      const std::int64_t run = b > w.start ? b - w.start : 0;
      w.end = w.start + (run / w.duration + 1) * w.duration;
      break;
    }
    case Op::kEqual:
      if (!exists(op.wallet)) return Fault::kNoSuchWallet;
      subsets.erase(op.wallet);
      return Fault::kNone;
    case Op::kSupport:
      for (const std::int64_t id : op.workers) {
        if (id > static_cast<std::int64_t>(workers.size())) return Fault::kNoSuchWorker;
      }
      if (!exists(op.wallet)) return Fault::kNoSuchWallet;
      subsets[op.wallet].insert(op.workers.begin(), op.workers.end());
      return Fault::kNone;
    case Op::kJoin:
      for (const Worker& worker : workers) {
        if (worker.name == op.name && worker.until > b) return Fault::kWorkerTaken;
      }
      workers.push_back({op.name, next(b), kNoEnd});
      return Fault::kNone;
    case Op::kLeave:
      for (Worker& worker : workers) {
        if (worker.name != op.name || worker.from > b || worker.until <= b) continue;
        worker.until = next(b);
        return Fault::kNone;
      }
      return Fault::kNotActive;
    case Op::kSetEpochLength: {
      if (op.value <= 1) return Fault::kEpochTooShort;
      if (op.value >= 100'000) return Fault::kEpochTooLong;
      const std::int64_t number = epoch(b);
      first = next(b);
      checkpoint = number;
      length = op.value;
      return Fault::kNone;
    }
    case Op::kSetMana:
      mana = op.value;
      return Fault::kNone;
    case Op::kSetMinLock:
      min_lock = amount;
      return Fault::kNone;
    default:
      max_portals = op.value;
      return Fault::kNone;
  }
  wallets[op.wallet] = w;
  return Fault::kNone;
}

struct Dice {
  std::mt19937_64 random;

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  }
  std::string one_of(const char* name, std::int64_t n) { return name + std::to_string(below(n)); }

  Operation operation(std::int64_t length) {
    Operation op;
    op.op = static_cast<Op>(below(19));
    op.wallet = one_of("wallet-", 5);
    switch (op.op) {
      case Op::kRegister:
      case Op::kUnregister:
        op.portals = {one_of("portal-", 8)};
        break;
      case Op::kLock:
        op.value =
            below(12) == 0 ? 7'776'000 + below(2) : length - 1 + below(below(2) == 0 ? 9 : 900'000);
        op.is_auto = below(3) == 0;
        [[fallthrough]];
      case Op::kAdd:
        op.amount = static_cast<Amount>(below(1'000'000)) * 123'456'789'012'345'678u;
        break;
      case Op::kSupport:
      case Op::kUnsupport:
      case Op::kShares:
      case Op::kStrategy:
        op.op = Op::kSupport;
        for (std::int64_t i = below(3); i >= 0; --i) op.workers.push_back(below(6));
        break;
      case Op::kJoin:
      case Op::kLeave:
        op.name = one_of("worker-", 6);
        break;
      case Op::kSetEpochLength:
        op.value = below(6) == 0 ? (below(2) == 0 ? 1 : 100'000) : 2 + below(50);
        break;
      case Op::kSetMana:
      case Op::kSetBlockTime:
        op.op = Op::kSetMana;
        op.value = below(5'000);
        break;
      case Op::kSetMinLock:
        op.amount = static_cast<Amount>(below(5)) * kToken;
        break;
      case Op::kSetMaxPortals:
        op.value = 1 + below(4);
        break;
      default:
        break;
    }
    return op;
  }
};

std::vector<std::string> wallets() {
  return {"wallet-0", "wallet-1", "wallet-2", "wallet-3", "wallet-4"};
}

void compare_units(const Ledger& ledger, const Model& model, std::int64_t block) {
  for (const std::string& name : wallets()) {
    const Cluster* cluster = ledger.find(name);
    const std::int64_t units = cluster == nullptr ? 0 : ledger.epoch_units(*cluster, block);
    ASSERT_EQ(cpp_int(units), model.units(name, block)) << name;
    const std::int64_t portals = cluster == nullptr ? 0 : std::int64_t{cluster->portals};
    ASSERT_EQ(portals, model.portals_of(name)) << name;
  }
  ASSERT_EQ(static_cast<std::int64_t>(ledger.active_portals()), model.active_portals());
  ASSERT_EQ(epoch_number(ledger.clock(), block), model.epoch(block));
  ASSERT_EQ(next_epoch(ledger.clock(), block), model.next(block));
  ASSERT_EQ(ledger.active_workers(block), model.active(block));
}

// Of a wallet's units nothing is lost, and nobody has more than one unit more than another.
void compare_allocations(const Ledger& ledger, const Model& model, std::int64_t block) {
  std::map<std::string, std::vector<std::int64_t>> given;
  for (const std::int64_t worker : model.active(block)) {
    const Allocations found = ledger.allocations(worker, block);
    ASSERT_TRUE(found.broken.empty());
    for (const Allocation& row : found.rows) {
      const std::string& wallet = ledger.clusters()[row.cluster].wallet;
      const auto subset = model.subsets.find(wallet);
      ASSERT_TRUE(subset == model.subsets.end() || subset->second.contains(worker));
      given[wallet].push_back(row.units);
    }
  }
  for (const std::string& name : wallets()) {
    std::int64_t receivers = 0;
    for (const std::int64_t worker : model.active(block)) {
      const auto subset = model.subsets.find(name);
      receivers += subset == model.subsets.end() || subset->second.contains(worker) ? 1 : 0;
    }
    cpp_int sum = 0;
    for (const std::int64_t units : given[name]) sum += units;
    const cpp_int units = model.units(name, block);
    ASSERT_EQ(sum, receivers == 0 ? cpp_int(0) : units) << name;
    for (const std::int64_t share : given[name]) {
      ASSERT_LE(share, units / receivers + 1) << name;
      ASSERT_GE(share, units / receivers) << name;
    }
  }
}

TEST(LedgerModel, AgreesWithARandomLedgerAtEveryStep) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  Dice dice{std::mt19937_64(seed)};
  std::map<Fault, int> met;
  for (int round = 0; round < 60; ++round) {
    Parameters parameters;
    parameters.clock = {.first = dice.below(50), .length = 2 + dice.below(40)};
    parameters.min_lock = kToken;
    parameters.max_portals = 3;
    Ledger ledger = ledger_of(parameters);
    Model model{.length = parameters.clock.length,
                .first = parameters.clock.first,
                .min_lock = cpp_int(parts_text(kToken)),
                .wallets = {},
                .portals = {},
                .registered = {},
                .subsets = {},
                .workers = {}};
    std::int64_t block = 0;
    for (int step = 0; step < 150; ++step) {
      block += dice.below(4) == 0 ? dice.below(60) : dice.below(3);
      const Operation operation = dice.operation(model.length);
      SCOPED_TRACE(testing::Message() << "round " << round << " step " << step << " block " << block
                                      << " " << operation_text(operation));
      const Fault expected = model.apply(block, operation);
      ASSERT_EQ(ledger.apply(block, operation).fault, expected);
      met[expected] += 1;
      compare_units(ledger, model, block);
      compare_allocations(ledger, model, block);
      if (HasFatalFailure()) return;
    }
  }
  // Otherwise the dice would not show much.
  EXPECT_GE(met.size(), 16u);
}

}  // namespace
}  // namespace weir::system::compute
