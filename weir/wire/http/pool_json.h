// Pools as JSON: what they are asked, and what they answer.
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
#include "weir/system/pool/held_jobs.h"
#include "weir/wire/http/json.h"

namespace weir::wire::http {

// The body of POST /v1/pool/acquire. Views into the body.
Result<system::pool::JobAsk> read_job_ask(std::string_view body, Texts& texts);

// The body of POST /v1/pool/release.
struct JobRelease {
  HoldId job{};
  std::optional<system::pool::Used> used{};
  bool failed = false;
  std::optional<bool> delegate{};
};
Result<JobRelease> read_job_release(std::string_view body, Texts& texts);

// The body of POST /v1/pool/renew.
struct JobRenewal {
  HoldId job{};
  std::optional<Duration> hold{};
};
Result<JobRenewal> read_job_renewal(std::string_view body, Texts& texts);

void append_job_start(std::string& out, const system::pool::HeldStart& held, Instant now);
void append_renewal(std::string& out, HoldId job, Instant expires_at, Instant now);
void append_job_refusal(std::string& out, const system::pool::JobRefusal& refusal, Instant now);
// `state`: `settled`, `failed` or `rejected`.
void append_settlement(std::string& out, std::string_view state,
                       const system::pool::Settlement& settlement);

// `fleet`: what the coordinator says, or why it cannot.
void append_pools(std::string& out, system::pool::HeldJobs& jobs,
                  const Result<system::pool::CoordinatorReport>& fleet, Instant now);

// --- Headers as of OpenAI: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, of the
// window with the least left of each. Complete lines.
struct WindowLeft {
  std::int64_t limit = 0;
  std::int64_t left = 0;
  Instant ends{};
};
struct ModelLeft {
  std::optional<WindowLeft> requests{};  // nothing: not limited, or not known
  std::optional<WindowLeft> tokens{};
};
ModelLeft left_of(const system::pool::Start& start);
// As this instance knows it; of the dimension that bound nothing is left.
ModelLeft left_of(const system::pool::JobRefusal& refusal, const system::pool::Reading& reading);
void append_model_headers(std::string& out, const ModelLeft& left, Instant now);

// As Go writes it: `12ms`, `1s`, `8.64s`, `6m0s`, `1h2m3s`. Whole milliseconds, rounded up.
void append_go_duration(std::string& out, Duration span);

}  // namespace weir::wire::http
