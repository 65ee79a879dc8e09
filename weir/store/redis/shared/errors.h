// Shared errors: what is told when Redis does not decide.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <string_view>

#include "weir/base/result.h"
#include "weir/store/redis/link/failure.h"

namespace weir::store::redis {

// Whether Redis could not be asked. Otherwise it answered, and something is wrong with us or
// with what lies under our keys: that is no outage, and nothing is admitted.
bool is_outage(FailureKind kind);

// The error for a failure, by what a script of ours has said.
Error named(const Failure& failure);

// A value of another program lies under `key`.
Error foreign_value(std::string_view key);

// The answer to `what` has another form than our scripts give.
Error odd_reply(std::string_view what);

}  // namespace weir::store::redis
