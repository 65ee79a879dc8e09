// Fault: why the ledger did not do what it was asked, by name.
//
// The names are the published ones, and stable: `BELOW_MIN`. A fault changes nothing.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::system::compute {

enum class Fault : std::uint8_t {
  kNone,
  // Published.
  kEmptyPeer,
  kPeerTaken,
  kClusterFull,
  kNotRegistered,
  kNotOperator,
  kBelowMin,
  kLockTooShort,
  kLockTooLong,
  kAlreadyLocked,
  kNoLock,
  kNotStarted,
  kLocked,
  kNothing,
  kAutoAlreadyOn,
  kAutoAlreadyOff,
  kEpochTooShort,
  kEpochTooLong,
  kDivByZero,
  kNoWorkers,
  kNotActive,
  kUnderflow,
  kLengthMismatch,
  kNoSuchWorker,
  kOver100Percent,
  // Weir's own.
  kBeyondSupply,
  kBlockWentBack,
  kBlockTooFar,
  kBlocksFollowTime,
  kNoSuchWallet,
  kNoSuchStrategy,
  kStrategyFailed,
  kWorkerTaken,
  kNameTooLong,
  kNameNotUtf8,
  kOutOfRange,
  kTooMany,
  kEventTaken,
  kNoSuchPool,
  kPoolTaken,
  kInsufficient,
  kNoSuchTicket,
  kNotReady,
};

constexpr std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::kNone:
      return "NONE";
    case Fault::kEmptyPeer:
      return "EMPTY_PEER";
    case Fault::kPeerTaken:
      return "PEER_TAKEN";
    case Fault::kClusterFull:
      return "CLUSTER_FULL";
    case Fault::kNotRegistered:
      return "NOT_REGISTERED";
    case Fault::kNotOperator:
      return "NOT_OPERATOR";
    case Fault::kBelowMin:
      return "BELOW_MIN";
    case Fault::kLockTooShort:
      return "LOCK_TOO_SHORT";
    case Fault::kLockTooLong:
      return "LOCK_TOO_LONG";
    case Fault::kAlreadyLocked:
      return "ALREADY_LOCKED";
    case Fault::kNoLock:
      return "NO_LOCK";
    case Fault::kNotStarted:
      return "NOT_STARTED";
    case Fault::kLocked:
      return "LOCKED";
    case Fault::kNothing:
      return "NOTHING";
    case Fault::kAutoAlreadyOn:
      return "AUTO_ALREADY_ON";
    case Fault::kAutoAlreadyOff:
      return "AUTO_ALREADY_OFF";
    case Fault::kEpochTooShort:
      return "EPOCH_TOO_SHORT";
    case Fault::kEpochTooLong:
      return "EPOCH_TOO_LONG";
    case Fault::kDivByZero:
      return "DIV_BY_ZERO";
    case Fault::kNoWorkers:
      return "NO_WORKERS";
    case Fault::kNotActive:
      return "NOT_ACTIVE";
    case Fault::kUnderflow:
      return "UNDERFLOW";
    case Fault::kLengthMismatch:
      return "LENGTH_MISMATCH";
    case Fault::kNoSuchWorker:
      return "NO_SUCH_WORKER";
    case Fault::kOver100Percent:
      return "OVER_100_PERCENT";
    case Fault::kBeyondSupply:
      return "BEYOND_SUPPLY";
    case Fault::kBlockWentBack:
      return "BLOCK_WENT_BACK";
    case Fault::kBlockTooFar:
      return "BLOCK_TOO_FAR";
    case Fault::kBlocksFollowTime:
      return "BLOCKS_FOLLOW_TIME";
    case Fault::kNoSuchWallet:
      return "NO_SUCH_WALLET";
    case Fault::kNoSuchStrategy:
      return "NO_SUCH_STRATEGY";
    case Fault::kStrategyFailed:
      return "STRATEGY_FAILED";
    case Fault::kWorkerTaken:
      return "WORKER_TAKEN";
    case Fault::kNameTooLong:
      return "NAME_TOO_LONG";
    case Fault::kNameNotUtf8:
      return "NAME_NOT_UTF8";
    case Fault::kOutOfRange:
      return "OUT_OF_RANGE";
    case Fault::kTooMany:
      return "TOO_MANY";
    case Fault::kEventTaken:
      return "EVENT_TAKEN";
    case Fault::kNoSuchPool:
      return "NO_SUCH_POOL";
    case Fault::kPoolTaken:
      return "POOL_TAKEN";
    case Fault::kInsufficient:
      return "INSUFFICIENT";
    case Fault::kNoSuchTicket:
      return "NO_SUCH_TICKET";
    case Fault::kNotReady:
      return "NOT_READY";
  }
  return "UNKNOWN";
}

// The fault of this name; none: it is not known here.
constexpr std::optional<Fault> fault_of(std::string_view name) noexcept {
  for (int i = 0; i <= static_cast<int>(Fault::kNotReady); ++i) {
    if (to_string(static_cast<Fault>(i)) == name) return static_cast<Fault>(i);
  }
  return std::nullopt;
}

}  // namespace weir::system::compute
