// Operation: one change of the ledger, as it is asked for, kept and replayed.
//
//   lock(wallet, amount, duration, auto)  add  unlock  auto_on  auto_off
//   register(wallet, portals)  unregister(wallet, portals)
//   equal, support, unsupport, shares, strategy: how a wallet's units are split
//   join(worker), leave(worker)
//   open_pool, stake, exit, withdraw: of a pool, which `name` names
//   set_epoch_length, set_mana, set_block_time, set_min_lock, set_max_portals
//
// One that repeats what happened elsewhere names that by an event, such as a transaction and a
// number in it, and by the block in which it happened. A ledger makes one event once.
//
// As text it is a JSON object with `op` and the members that the operation reads; that is
// what the history keeps.
//
// Thread safety: plain values.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/compute/epoch_clock.h"
#include "weir/system/compute/strategy.h"
#include "weir/system/compute/units.h"

namespace weir::system::compute {

constexpr std::size_t kNameBytesMax = 128;  // of a wallet, portal, worker or strategy
constexpr std::size_t kNamesPerOperationMax = 10'000;

enum class Op : std::uint8_t {
  kRegister,
  kUnregister,
  kLock,
  kAdd,
  kUnlock,
  kAutoOn,
  kAutoOff,
  kEqual,
  kSupport,
  kUnsupport,
  kShares,
  kStrategy,
  kJoin,
  kLeave,
  kSetEpochLength,
  kSetMana,
  kSetBlockTime,
  kSetMinLock,
  kSetMaxPortals,
  kOpenPool,
  kStake,
  kExit,
  kWithdraw,
  kSetMinStake,
  kSetExitRate,
};

struct Operation {
  Op op = Op::kLock;
  std::string wallet{};
  std::vector<std::string> portals{};  // register, unregister
  Amount amount = 0;       // lock, add, stake, exit, set_min_lock, set_min_stake, set_exit_rate
  std::int64_t value = 0;  // lock: duration; withdraw: the ticket; set_...: the value
  bool is_auto = false;    // lock
  std::vector<WorkerId> workers{};           // support, unsupport, shares
  std::vector<std::int64_t> basis_points{};  // shares
  std::string name{};            // join, leave: the worker; strategy: its name; of a pool
  std::string event{};           // empty: it has none
  std::optional<Block> block{};  // of the event; none: it is made at the block of now

  friend bool operator==(const Operation&, const Operation&) = default;
};

std::string_view to_string(Op op) noexcept;

std::string operation_text(const Operation& operation);
// Reads what operation_text() wrote, or a text like it. `where` names the text in an error.
Result<Operation> parse_operation(std::string_view where, std::string_view text);

}  // namespace weir::system::compute
