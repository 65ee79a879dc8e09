// The history of a ledger as its file has it: rows of any text at any block, replayed in order.
//
// A line is a row: a byte that says how many blocks later it was, and an operation. Whatever the
// rows say, what can be replayed keeps within the supply, and replaying what was taken gives the
// same ledger again.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/input.h"
#include "weir/system/compute/ledger.h"

namespace {

using namespace weir::system::compute;
using weir::fuzz::check;

struct Row {
  Block block;
  Operation operation;
};

Ledger empty_ledger() {
  auto ledger = Ledger::create({.max_lock_s = 360 * kDaySeconds, .published_faults = false});
  check(ledger.ok());
  return std::move(*ledger);
}

void check_sums(const Ledger& ledger, Block block) {
  check(ledger.locked() + ledger.staked() <= ledger.parameters().supply);
  Amount staked = 0;
  for (const Pool& pool : ledger.pools()) {
    Amount in_pool = 0;
    for (const auto& [wallet, stake] : pool.stakes) {
      check(stake.amount > 0 && stake.leaving <= stake.amount);
      in_pool += stake.amount;
    }
    check(pool.stake.staked() == in_pool);
    staked += in_pool;
  }
  check(staked == ledger.staked());
  Amount locked = 0;
  std::size_t portals = 0;
  for (const Cluster& cluster : ledger.clusters()) {
    locked += cluster.lock.amount;
    portals += cluster.portals;
    check(ledger.epoch_units(cluster, block) >= 0);
    check(ledger.portals(cluster).size() == cluster.portals);
  }
  check(locked == ledger.locked() && portals == ledger.portals_in_all());
  check(ledger.active_portals() <= portals);
  // No more is handed out to the workers than a cluster has.
  std::vector<weir::Wide> given(ledger.clusters().size());
  for (const WorkerId worker : ledger.active_workers(block)) {
    for (const Allocation& row : ledger.allocations(worker, block).rows) {
      check(row.units > 0);
      given[row.cluster] += row.units;
    }
  }
  const auto workers = static_cast<std::int64_t>(ledger.active_workers(block).size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    // Of pools each worker has all.
    const Cluster& cluster = ledger.clusters()[i];
    check(given[i] <=
          ledger.epoch_units(cluster, block) + weir::Wide{cluster.pool_units} * workers);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kRowsMax = 64;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  Ledger ledger = empty_ledger();
  std::vector<Row> taken;
  Block block = 0;
  for (std::size_t i = 0; i < kRowsMax && !rest.empty(); ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : line.size());
    if (line.empty()) continue;
    // Blocks never go back, and reach far.
    const auto step = static_cast<unsigned char>(line[0]);
    block += step < 200 ? step % 32 : Block{step} << 20;
    const auto operation = parse_operation("row", line.substr(1));
    if (!operation) {
      check(operation.error().message.starts_with("row: "));
      continue;
    }
    const Applied applied = ledger.replay(block, *operation);
    check(applied.ok() == applied.detail.empty());
    if (applied.ok()) taken.push_back({block, *operation});
  }
  check_sums(ledger, block);
  Ledger again = empty_ledger();
  for (const Row& row : taken) check(again.replay(row.block, row.operation).ok());
  check(again.locked() == ledger.locked() && again.block() == ledger.block());
  check(again.clusters().size() == ledger.clusters().size());
  for (std::size_t i = 0; i < again.clusters().size(); ++i) {
    check(again.clusters()[i].lock == ledger.clusters()[i].lock);
  }
  return 0;
}
