// What bodies and answers of pool's routes look like: jobs, windows and pools.
//
// Internal to wire/http.

#pragma once

#include <array>

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

inline constexpr std::array kPoolRefusals = {
    Refusal{"JobGrant", 429, "Denied.", "JobRefusal"},
    Refusal{"JobGrant", 422, "Never: no model can take it.", "JobRefusal"},
    Refusal{"JobEnd", 429, "The next model has no place.", "JobRefusal"},
    Refusal{"JobEnd", 422, "Never: the job has gone on too often.", "JobRefusal"},
};

inline constexpr std::string_view kModelLimitSummary =
    "The limit of the model's window that has the least left.";
inline constexpr std::string_view kModelLeftSummary = "What is left of it.";
inline constexpr std::string_view kModelResetSummary = "When that window ends, such as 6m0s.";

inline constexpr std::array kPoolHeaders = {
    AnswerHeader{"JobGrant", AnswerHeader::On::kRefusal, "Retry-After",
                 "Seconds until the same request may pass, rounded up.", "integer"},
    AnswerHeader{"JobGrant", AnswerHeader::On::kEvery, "x-ratelimit-limit-requests",
                 kModelLimitSummary, "integer"},
    AnswerHeader{"JobGrant", AnswerHeader::On::kEvery, "x-ratelimit-remaining-requests",
                 kModelLeftSummary, "integer"},
    AnswerHeader{"JobGrant", AnswerHeader::On::kEvery, "x-ratelimit-reset-requests",
                 kModelResetSummary},
    AnswerHeader{"JobGrant", AnswerHeader::On::kEvery, "x-ratelimit-limit-tokens",
                 kModelLimitSummary, "integer"},
    AnswerHeader{"JobGrant", AnswerHeader::On::kEvery, "x-ratelimit-remaining-tokens",
                 kModelLeftSummary, "integer"},
    AnswerHeader{"JobGrant", AnswerHeader::On::kEvery, "x-ratelimit-reset-tokens",
                 kModelResetSummary},
    AnswerHeader{"JobEnd", AnswerHeader::On::kRefusal, "Retry-After",
                 "Seconds until the same request may pass, rounded up.", "integer"},
    AnswerHeader{"JobEnd", AnswerHeader::On::kEvery, "x-ratelimit-limit-requests",
                 kModelLimitSummary, "integer"},
    AnswerHeader{"JobEnd", AnswerHeader::On::kEvery, "x-ratelimit-remaining-requests",
                 kModelLeftSummary, "integer"},
    AnswerHeader{"JobEnd", AnswerHeader::On::kEvery, "x-ratelimit-reset-requests",
                 kModelResetSummary},
    AnswerHeader{"JobEnd", AnswerHeader::On::kEvery, "x-ratelimit-limit-tokens", kModelLimitSummary,
                 "integer"},
    AnswerHeader{"JobEnd", AnswerHeader::On::kEvery, "x-ratelimit-remaining-tokens",
                 kModelLeftSummary, "integer"},
    AnswerHeader{"JobEnd", AnswerHeader::On::kEvery, "x-ratelimit-reset-tokens",
                 kModelResetSummary},
};

inline constexpr Schemas kPoolSchemas = {R"json(
"JobAsk":{"type":"object","additionalProperties":false,"required":["type"],"properties":{"type":{"type":"string"},"wait":{"$ref":"#/components/schemas/Duration"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"PoolCounter":{"type":"object","required":["limit","used","remaining"],"properties":{"limit":{"type":["integer","null"]},"used":{"type":"integer"},"remaining":{"type":["integer","null"]}}},
"PoolWindow":{"type":"object","required":["begins","ends","tokens","requests"],"properties":{"begins":{"type":"string","format":"date-time"},"ends":{"type":"string","format":"date-time"},"tokens":{"$ref":"#/components/schemas/PoolCounter"},"requests":{"$ref":"#/components/schemas/PoolCounter"}}},
"PoolWindows":{"type":"object","required":["minute","day"],"properties":{"minute":{"$ref":"#/components/schemas/PoolWindow"},"day":{"$ref":"#/components/schemas/PoolWindow"}}},
"JobGrant":{"type":"object","required":["verdict","job","model","attempt","estimate","waited_ms","windows","expires","expires_in_ms"],"properties":{"verdict":{"type":"string","enum":["allowed"]},"job":{"$ref":"#/components/schemas/Hold"},"model":{"type":"string"},"attempt":{"type":"integer"},"estimate":{"type":"object","required":["tokens","requests"],"properties":{"tokens":{"type":"integer"},"requests":{"type":"integer"}}},"waited_ms":{"type":"integer"},"windows":{"$ref":"#/components/schemas/PoolWindows"},"expires":{"type":"string","format":"date-time"},"expires_in_ms":{"type":"integer"}}},
"JobRefusal":{"type":"object","required":["verdict","reason","model","dimension","earliest","earliest_ns","retry_after_ms","message"],"properties":{"verdict":{"type":"string","enum":["denied","never"]},"reason":{"type":"string","enum":["all_models_exhausted","all_models_rejected","never","no_type_slot","too_many_delegations"]},"model":{"type":["string","null"]},"dimension":{"type":"string"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"message":{"type":"string"}}},
"JobRelease":{"type":"object","additionalProperties":false,"required":["job"],"properties":{"job":{"$ref":"#/components/schemas/Hold"},"requests":{"type":"integer","minimum":0},"input_tokens":{"type":"integer","minimum":0},"output_tokens":{"type":"integer","minimum":0},"cached_tokens":{"type":"integer","minimum":0},"failed":{"type":"boolean"},"delegate":{"type":"boolean"}}},
"JobRenewal":{"type":"object","additionalProperties":false,"required":["job"],"properties":{"job":{"$ref":"#/components/schemas/Hold"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"JobRenewed":{"type":"object","required":["state","job","expires","expires_in_ms"],"properties":{"state":{"type":"string","enum":["active"]},"job":{"$ref":"#/components/schemas/Hold"},"expires":{"type":"string","format":"date-time"},"expires_in_ms":{"type":"integer"}}},
"JobSettlement":{"type":"object","required":["state","cost","overage","attempts"],"properties":{"state":{"type":"string","enum":["settled","failed","rejected"]},"cost":{"type":"number"},"overage":{"type":"object","required":["tokens","requests"],"properties":{"tokens":{"type":"integer"},"requests":{"type":"integer"}}},"attempts":{"type":"array","items":{"type":"object","required":["model","requests","input_tokens","output_tokens","cached_tokens","cost"],"properties":{"model":{"type":"string"},"requests":{"type":"integer"},"input_tokens":{"type":"integer"},"output_tokens":{"type":"integer"},"cached_tokens":{"type":"integer"},"cost":{"type":"number"}}}}}},
"JobEnd":{"oneOf":[{"$ref":"#/components/schemas/JobSettlement"},{"$ref":"#/components/schemas/JobGrant"}]},
"PoolModel":{"type":"object","required":["model","pool","in_flight","waiting","rates","job_types","started","finished","failed","expired","delegated","refused","tokens","requests","cost"],"properties":{"model":{"type":"string"},"pool":{"oneOf":[{"type":"object","required":["total_slots","left","whole"],"properties":{"total_slots":{"type":"integer"},"left":{"type":"object","additionalProperties":{"type":"integer"}},"whole":{"type":"object","additionalProperties":{"type":"integer"}}}},{"type":"null"}]},"in_flight":{"type":"integer"},"waiting":{"type":"integer"},"rates":{"type":"object","additionalProperties":{"type":"object","required":["count","limit","resets_at"],"properties":{"count":{"type":"integer"},"limit":{"type":"integer"},"resets_at":{"type":"string","format":"date-time"}}}},"job_types":{"type":"array","items":{"type":"object","required":["type","slots","used","dimension","in_flight","waiting"],"properties":{"type":{"type":"string"},"slots":{"type":"integer"},"used":{"type":"integer"},"dimension":{"type":"string"},"in_flight":{"type":"integer"},"waiting":{"type":"integer"}}}},"started":{"type":"integer"},"finished":{"type":"integer"},"failed":{"type":"integer"},"expired":{"type":"integer"},"delegated":{"type":"integer"},"refused":{"type":"integer"},"tokens":{"type":"integer"},"requests":{"type":"integer"},"cost":{"type":"number"}}},
"PoolJobType":{"type":"object","required":["type","ratio","initial_ratio","flexible","slots","in_flight","waiting"],"properties":{"type":{"type":"string"},"ratio":{"type":"number"},"initial_ratio":{"type":"number"},"flexible":{"type":"boolean"},"slots":{"type":"integer"},"in_flight":{"type":"integer"},"waiting":{"type":"integer"}}},
"PoolFleet":{"oneOf":[{"type":"object","required":["error"],"properties":{"error":{"type":"string"}}},{"type":"object","required":["kind","instance","reachable","epoch","instance_count","instances","models"],"properties":{"kind":{"type":"string"},"instance":{"type":"string"},"reachable":{"type":"boolean"},"epoch":{"type":"integer"},"instance_count":{"type":"integer"},"instances":{"type":"array","items":{"type":"object","required":["instance","last_heard","in_flight","own"],"properties":{"instance":{"type":"string"},"last_heard":{"type":"string","format":"date-time"},"in_flight":{"type":"integer"},"own":{"type":"boolean"}}}},"models":{"type":"array","items":{"type":"object","required":["model","in_flight","concurrent","windows"],"properties":{"model":{"type":"string"},"in_flight":{"type":"integer"},"concurrent":{"type":["integer","null"]},"windows":{"$ref":"#/components/schemas/PoolWindows"}}}}}}]},
"Pools":{"type":"object","required":["rule","reachable","epoch","instance_count","capacity","available_slots","jobs","waiting","running","expired","submitted","refused","withdrawn","adjustments","last_adjusted","memory","models","job_types","fleet"],"properties":{"rule":{"type":"string","enum":["strict","published","refund"]},"reachable":{"type":"boolean"},"epoch":{"type":"integer"},"instance_count":{"type":"integer"},"capacity":{"type":"integer"},"available_slots":{"type":"integer"},"jobs":{"type":"integer"},"waiting":{"type":"integer"},"running":{"type":"integer"},"expired":{"type":"integer"},"submitted":{"type":"integer"},"refused":{"type":"integer"},"withdrawn":{"type":"integer"},"adjustments":{"type":"integer"},"last_adjusted":{"type":["string","null"],"format":"date-time"},"memory":{"oneOf":[{"type":"object","required":["active_kb","max_kb","available_kb"],"properties":{"active_kb":{"type":"integer"},"max_kb":{"type":"integer"},"available_kb":{"type":"integer"}}},{"type":"null"}]},"models":{"type":"array","items":{"$ref":"#/components/schemas/PoolModel"}},"job_types":{"type":"array","items":{"$ref":"#/components/schemas/PoolJobType"}},"fleet":{"$ref":"#/components/schemas/PoolFleet"}}},
"PoolAllocation":{"type":"object","required":["instanceId","allocation"],"properties":{"instanceId":{"type":"string"},"allocation":{"type":"object","required":["instanceCount","pools","dynamicLimits"],"properties":{"instanceCount":{"type":"integer"},"pools":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}},"dynamicLimits":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}}}}}}
)json",
                                         kPoolRefusals, kPoolHeaders};

}  // namespace weir::wire::http
