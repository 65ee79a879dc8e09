// What bodies and answers of throttle's routes look like: submissions, claims and levels.
//
// Internal to wire/http.

#pragma once

#include <array>

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

inline constexpr std::array kThrottleRefusals = {
    Refusal{"Submitted", 429, "Denied.", "Submitted"},
    Refusal{"Submitted", 422, "Never: it costs too much.", "Submitted"},
};

inline constexpr std::array kThrottleHeaders = {
    AnswerHeader{"Submitted", AnswerHeader::On::kRefusal, "Retry-After",
                 "Seconds until the same transaction may pass, rounded up.", "integer"},
};

inline constexpr Schemas kThrottleSchemas = {R"json(
"Claim":{"type":"string","pattern":"^[0-9a-f]{16}-[1-9][0-9]*$"},
"Submission":{"type":"object","additionalProperties":false,"required":["operation"],"properties":{"operation":{"type":"string"},"role":{"type":"string","enum":["front_end","consensus"]},"at_ns":{"type":"integer"},"payer":{"type":"integer"},"count":{"type":"integer","minimum":1},"gas":{"type":"integer","minimum":0},"bytes":{"type":"integer","minimum":0},"nfts":{"type":"integer","minimum":0},"creations":{"type":"integer","minimum":0},"associations":{"type":"integer","minimum":0},"high_volume":{"type":"boolean"},"scheduled":{"type":"object","additionalProperties":false,"properties":{"operation":{"type":"string"},"uses_aliases":{"type":"boolean"},"creations":{"type":"integer","minimum":0}}},"scheduled_then":{"type":"integer","minimum":0},"dry_run":{"type":"boolean"}}},
"Submitted":{"type":"object","required":["status","verdict","refused_by","shortfall","earliest","earliest_ns","retry_after_ms","multiplier","claim"],"properties":{"status":{"type":"string","enum":["OK","BUSY","THROTTLED_AT_CONSENSUS","CONSENSUS_GAS_EXHAUSTED"]},"verdict":{"$ref":"#/components/schemas/Verdict"},"refused_by":{"type":["string","null"]},"shortfall":{"type":"integer"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"multiplier":{"type":"integer"},"claim":{"oneOf":[{"$ref":"#/components/schemas/Claim"},{"type":"null"}]}}},
"SubmissionBatch":{"type":"object","additionalProperties":false,"required":["submissions"],"properties":{"submissions":{"type":"array","items":{"$ref":"#/components/schemas/Submission"}}}},
"SubmittedBatch":{"type":"object","required":["results"],"properties":{"results":{"type":"array","items":{"oneOf":[{"$ref":"#/components/schemas/Submitted"},{"$ref":"#/components/schemas/Problem"}]}}}},
"ClaimSettlement":{"type":"object","additionalProperties":false,"required":["claim"],"properties":{"claim":{"$ref":"#/components/schemas/Claim"},"gas":{"type":"integer","minimum":0},"duration":{"type":"integer","minimum":0}}},
"ClaimCancellation":{"type":"object","additionalProperties":false,"required":["claim"],"properties":{"claim":{"$ref":"#/components/schemas/Claim"}}},
"ThrottleBucket":{"type":"object","required":["name","high_volume","burst_ms","milli_ops","used","capacity","percent_used","refusals"],"properties":{"name":{"type":"string"},"high_volume":{"type":"boolean"},"burst_ms":{"type":"integer"},"milli_ops":{"type":"integer"},"used":{"type":"integer"},"capacity":{"type":"integer"},"percent_used":{"type":"number"},"refusals":{"type":"integer"}}},
"ThrottleSet":{"type":"object","required":["buckets","dropped","gas","bytes","duration","schedule_refusals","unlisted_refusals"],"properties":{"buckets":{"type":"array","items":{"$ref":"#/components/schemas/ThrottleBucket"}},"dropped":{"type":"array","items":{"type":"object","required":["name","high_volume","finding"],"properties":{"name":{"type":"string"},"high_volume":{"type":"boolean"},"finding":{"type":"string"}}}},"gas":{"$ref":"#/components/schemas/ThrottleBucket"},"bytes":{"oneOf":[{"$ref":"#/components/schemas/ThrottleBucket"},{"type":"null"}]},"duration":{"$ref":"#/components/schemas/ThrottleBucket"},"schedule_refusals":{"type":"integer"},"unlisted_refusals":{"type":"integer"}}},
"Throttles":{"type":"object","required":["nodes","multipliers","front_end","consensus"],"properties":{"nodes":{"type":"integer"},"multipliers":{"type":"object","required":["generic","gas"],"properties":{"generic":{"type":"integer"},"gas":{"type":"integer"}}},"front_end":{"$ref":"#/components/schemas/ThrottleSet"},"consensus":{"$ref":"#/components/schemas/ThrottleSet"}}},
"Restored":{"type":"object","required":["state"],"properties":{"state":{"type":"string"},"restored":{"type":"integer"},"converted":{"type":"array","items":{"type":"string"}},"unknown":{"type":"array","items":{"type":"string"}},"missing":{"type":"array","items":{"type":"string"}}}}
)json",
                                             kThrottleRefusals, kThrottleHeaders};

}  // namespace weir::wire::http
