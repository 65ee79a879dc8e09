// Sampling as JSON: what it is asked, and what it answers.
//
// Thread safety: none needed. Nothing is shared.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/sampling/published/pass.h"
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

// The body of POST /v1/sampling/pass. Views into the body.
constexpr std::int64_t kPassSlotsMax = 1'000;

struct PassBody {
  system::sampling::Miner miner{};
  std::int64_t slots = 0;
  std::vector<system::sampling::Work> work{};
};
Result<PassBody> read_pass(std::string_view body, Texts& texts);

void append_pass(std::string& out, std::span<const system::sampling::Planned> planned, Instant now);

// `said`: what that key has at present.
void append_refused(std::string& out, const system::sampling::RefusedMiner& miner,
                    const system::sampling::Grant& said);

void append_grant(std::string& out, const system::sampling::Grant& grant, Instant now);
// Without the last bracket, so that a key can follow.
void append_sampling(std::string& out, const system::sampling::Reading& reading);

}  // namespace weir::wire::http
