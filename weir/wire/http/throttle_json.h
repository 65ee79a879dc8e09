// Throttles as JSON: what they are asked, and what they answer.
//
// Thread safety: none needed. Nothing is shared.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/throttle/throttles.h"
#include "weir/wire/http/json.h"

namespace weir::wire::http {

// The body of POST /v1/throttle/submit. Views into the body.
struct SubmissionBody {
  system::throttle::SetRole role = system::throttle::SetRole::kFrontEnd;
  std::optional<std::int64_t> at_ns{};  // of consensus, always; else never
  system::throttle::Submission submission{};
  bool dry_run = false;
};
Result<SubmissionBody> read_submission(std::string_view body, Texts& texts);

// The body of POST /v1/throttle/batch.
struct SubmissionBatch {
  std::vector<SubmissionBody> submissions{};
  bool is_too_long = false;  // more than `most`; the rest was not read
};
Result<SubmissionBatch> read_submissions(std::string_view body, std::size_t most, Texts& texts);

struct ClaimBody {
  HoldId claim{};
  std::optional<std::int64_t> gas{};
  std::optional<std::int64_t> duration{};
};
Result<ClaimBody> read_claim_settlement(std::string_view body, Texts& texts);
Result<ClaimBody> read_claim_cancellation(std::string_view body, Texts& texts);

// `front_end` or `consensus`; nothing for another word.
std::optional<system::throttle::SetRole> throttle_role_of(std::string_view word) noexcept;

void append_submitted(std::string& out, const system::throttle::Submitted& said, Instant at);
void append_reading(std::string& out, const system::throttle::Reading& reading);
void append_restored(std::string& out, const system::throttle::RestoreReport& report);

}  // namespace weir::wire::http
