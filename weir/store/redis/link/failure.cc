#include "weir/store/redis/link/failure.h"

#include <array>
#include <utility>

namespace weir::store::redis {
namespace {

using enum FailureKind;

constexpr std::array<std::pair<std::string_view, FailureKind>, 17> kWords = {{
    {"NOSCRIPT", kNoScript},
    {"LOADING", kLoading},
    {"BUSY", kBusy},
    {"OOM", kOutOfMemory},
    {"NOAUTH", kRefusedUser},
    {"WRONGPASS", kRefusedUser},
    {"NOPERM", kRefusedUser},
    {"READONLY", kTopology},
    {"MASTERDOWN", kTopology},
    {"MOVED", kTopology},
    {"ASK", kTopology},
    {"TRYAGAIN", kTopology},
    {"CLUSTERDOWN", kTopology},
    {"CROSSSLOT", kTopology},
    // A command in a script met a key of another type: another program's value.
    {"WRONGTYPE", kScript},
    {"FOREIGN", kForeign},
    {"CLOCK", kClock},
}};

}  // namespace

std::string_view name(FailureKind kind) {
  switch (kind) {
    case kTimedOut:
      return "timed-out";
    case kDisconnected:
      return "disconnected";
    case kTooMany:
      return "too-many";
    case kNoScript:
      return "no-script";
    case kLoading:
      return "loading";
    case kBusy:
      return "busy";
    case kOutOfMemory:
      return "out-of-memory";
    case kRefusedUser:
      return "refused-user";
    case kTopology:
      return "topology";
    case kScript:
      return "script";
    case kForeign:
      return "foreign-value";
    case kClock:
      return "clock";
    case kProtocol:
      return "protocol";
    case kVersion:
      return "version";
    case kServer:
      break;
  }
  return "server";
}

FailureKind kind_of_error(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(' '));
  for (const auto& [known, kind] : kWords) {
    if (word == known) return kind;
  }
  // Redis 7 names the line: "ERR user_script:3: ... script: <sha>, on @user_script:3."
  return text.find("user_script") != std::string_view::npos ? kScript : kServer;
}

Error to_error(const Failure& failure) {
  const ErrorCode code = failure.kind == kTooMany ? ErrorCode::kExhausted : ErrorCode::kUnavailable;
  return Error{code, failure.message};
}

}  // namespace weir::store::redis
