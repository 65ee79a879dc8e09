// Sampling as JSON: what it is asked, and what it answers.
//
// Thread safety: none needed. Nothing is shared.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/sampling/sampling.h"
#include "weir/wire/http/json.h"

namespace weir::wire::http {

// The body of POST /v1/sampling/grant. Views into the body.
struct GrantBody {
  system::sampling::Who who{};
  std::int64_t want = 1;
  bool dry_run = false;
};
Result<GrantBody> read_grant(std::string_view body, Texts& texts);

struct TaskReservationBody {
  HoldId reservation{};
  std::optional<std::int64_t> created{};
};
Result<TaskReservationBody> read_task_commit(std::string_view body, Texts& texts);
Result<TaskReservationBody> read_task_release(std::string_view body, Texts& texts);

void append_grant(std::string& out, const system::sampling::Grant& grant, Instant now);
// Without the last bracket, so that a key can follow.
void append_sampling(std::string& out, const system::sampling::Reading& reading);

}  // namespace weir::wire::http
