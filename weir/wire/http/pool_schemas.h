// What bodies and answers of pool's routes look like: jobs, windows and pools.
//
// Internal to wire/http.

#pragma once

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

inline constexpr Schemas kPoolSchemas = {R"json(
"JobAsk":{"type":"object","additionalProperties":false,"required":["type"],"properties":{"type":{"type":"string"},"wait":{"$ref":"#/components/schemas/Duration"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"PoolCounter":{"type":"object","properties":{"limit":{"type":["integer","null"]},"used":{"type":"integer"},"remaining":{"type":["integer","null"]}}},
"PoolWindow":{"type":"object","properties":{"begins":{"type":"string","format":"date-time"},"ends":{"type":"string","format":"date-time"},"tokens":{"$ref":"#/components/schemas/PoolCounter"},"requests":{"$ref":"#/components/schemas/PoolCounter"}}},
"PoolWindows":{"type":"object","properties":{"minute":{"$ref":"#/components/schemas/PoolWindow"},"day":{"$ref":"#/components/schemas/PoolWindow"}}},
"JobGrant":{"type":"object","properties":{"verdict":{"type":"string","enum":["allowed"]},"job":{"$ref":"#/components/schemas/Hold"},"model":{"type":"string"},"attempt":{"type":"integer"},"estimate":{"type":"object","properties":{"tokens":{"type":"integer"},"requests":{"type":"integer"}}},"waited_ms":{"type":"integer"},"windows":{"$ref":"#/components/schemas/PoolWindows"},"expires":{"type":"string","format":"date-time"},"expires_in_ms":{"type":"integer"}}},
"JobRefusal":{"type":"object","description":"of a refusal, which has status 429 or 422","properties":{"verdict":{"type":"string","enum":["denied","never"]},"reason":{"type":"string","enum":["all_models_exhausted","all_models_rejected","never","no_type_slot","too_many_delegations"]},"model":{"type":["string","null"]},"dimension":{"type":"string"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"message":{"type":"string"}}},
"JobStart":{"oneOf":[{"$ref":"#/components/schemas/JobGrant"},{"$ref":"#/components/schemas/JobRefusal"}]},
"JobRelease":{"type":"object","additionalProperties":false,"required":["job"],"properties":{"job":{"$ref":"#/components/schemas/Hold"},"requests":{"type":"integer","minimum":0},"input_tokens":{"type":"integer","minimum":0},"output_tokens":{"type":"integer","minimum":0},"cached_tokens":{"type":"integer","minimum":0},"failed":{"type":"boolean"},"delegate":{"type":"boolean"}}},
"JobRenewal":{"type":"object","additionalProperties":false,"required":["job"],"properties":{"job":{"$ref":"#/components/schemas/Hold"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"JobRenewed":{"type":"object","properties":{"state":{"type":"string","enum":["active"]},"job":{"$ref":"#/components/schemas/Hold"},"expires":{"type":"string","format":"date-time"},"expires_in_ms":{"type":"integer"}}},
"JobSettlement":{"type":"object","properties":{"state":{"type":"string","enum":["settled","failed","rejected"]},"cost":{"type":"number"},"overage":{"type":"object","properties":{"tokens":{"type":"integer"},"requests":{"type":"integer"}}},"attempts":{"type":"array","items":{"type":"object","properties":{"model":{"type":"string"},"requests":{"type":"integer"},"input_tokens":{"type":"integer"},"output_tokens":{"type":"integer"},"cached_tokens":{"type":"integer"},"cost":{"type":"number"}}}}}},
"JobEnd":{"oneOf":[{"$ref":"#/components/schemas/JobSettlement"},{"$ref":"#/components/schemas/JobGrant"},{"$ref":"#/components/schemas/JobRefusal"}]},
"Pools":{"type":"object","properties":{"rule":{"type":"string","enum":["strict","published","refund"]},"reachable":{"type":"boolean"},"epoch":{"type":"integer"},"instance_count":{"type":"integer"},"capacity":{"type":"integer"},"available_slots":{"type":"integer"},"jobs":{"type":"integer"},"waiting":{"type":"integer"},"running":{"type":"integer"},"expired":{"type":"integer"},"submitted":{"type":"integer"},"refused":{"type":"integer"},"withdrawn":{"type":"integer"},"adjustments":{"type":"integer"},"last_adjusted":{"type":["string","null"],"format":"date-time"},"memory":{"type":["object","null"]},"models":{"type":"array","items":{"type":"object"}},"job_types":{"type":"array","items":{"type":"object"}},"fleet":{"type":"object"}}},
"PoolAllocation":{"type":"object","properties":{"instanceId":{"type":"string"},"allocation":{"type":"object","properties":{"instanceCount":{"type":"integer"},"pools":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}},"dynamicLimits":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}}}}}}
)json"};

}  // namespace weir::wire::http
