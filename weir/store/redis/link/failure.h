// Failure: why Redis gave no answer, in kinds that are handled differently.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/base/result.h"

namespace weir::store::redis {

enum class FailureKind : std::uint8_t {
  kTimedOut,      // no reply in time
  kDisconnected,  // no connection, or it broke before the reply
  kTooMany,       // a stated bound of this process is reached
  kNoScript,      // NOSCRIPT, even after the script was loaded
  kLoading,       // LOADING: it reads its data from the disk
  kBusy,          // BUSY: another script has been running for too long
  kOutOfMemory,   // OOM: maxmemory is reached
  kRefusedUser,   // NOAUTH, WRONGPASS, NOPERM
  kTopology,      // a replica, a sentinel or a node of a cluster: not one Redis by itself
  kScript,        // a script of ours failed
  kForeign,       // FOREIGN: a script of ours met a value that weir did not write
  kClock,         // CLOCK: its clock is too far from ours
  kProtocol,      // bytes that are no reply, or a reply of the wrong form
  kVersion,       // a Redis before 7
  kServer,        // any other error reply
};

constexpr std::size_t kFailureKinds = static_cast<std::size_t>(FailureKind::kServer) + 1;

// The word for metrics and logs: "timed-out", "no-script", ...
std::string_view name(FailureKind kind);

struct Failure {
  FailureKind kind = FailureKind::kServer;
  std::string message{};  // where, what was found, what to do
  // False only if it is certain that Redis did not and will not execute the request.
  bool may_have_run = false;
};

// The kind of an error reply, by its first word.
FailureKind kind_of_error(std::string_view text);

// For callers that need no kinds.
Error to_error(const Failure& failure);

}  // namespace weir::store::redis
