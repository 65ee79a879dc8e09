// What bodies and answers of the engine's and the server's routes look like. The schemas of systems
// may refer to these.
//
// Internal to wire/http.

#pragma once

#include <array>

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// A refusal has the schema of the decision, whatever its status.
inline constexpr std::array kEngineRefusals = {
    Refusal{"Decision", 429, "Denied.", "Decision"},
    Refusal{"Decision", 422, "Never: it costs too much.", "Decision"},
    Refusal{"Decision", 503, "Overloaded.", "Decision"},
};

inline constexpr Schemas kEngineSchemas = {R"json(
"Duration":{"oneOf":[{"type":"string","pattern":"^([0-9]+(d|h|m|s|ms|us|ns))+$","examples":["500ms","1m30s"]},{"type":"integer","minimum":0,"description":"milliseconds"}]},
"Costs":{"type":"object","additionalProperties":{"$ref":"#/components/schemas/Amount"},"examples":[{"tokens":1200}]},
"Attributes":{"type":"object","additionalProperties":{"type":"string","maxLength":512},"examples":[{"client":"acme"}]},
"Hold":{"type":"string","pattern":"^[0-9a-f]{16}-[1-9][0-9]*$"},
"Request":{"type":"object","additionalProperties":false,"properties":{"attributes":{"$ref":"#/components/schemas/Attributes"},"costs":{"$ref":"#/components/schemas/Costs"}}},
"Ask":{"type":"object","additionalProperties":false,"properties":{"attributes":{"$ref":"#/components/schemas/Attributes"},"costs":{"$ref":"#/components/schemas/Costs"},"hold":{"$ref":"#/components/schemas/Duration"},"wait":{"$ref":"#/components/schemas/Duration"},"up_to":{"type":"string"},"book_within":{"$ref":"#/components/schemas/Duration"}}},
"Batch":{"type":"object","additionalProperties":false,"required":["requests"],"properties":{"requests":{"type":"array","items":{"$ref":"#/components/schemas/Ask"}}}},
"Verdict":{"type":"string","enum":["allowed","denied","never","overloaded"]},
"Outcome":{"type":"object","properties":{"limit":{"type":"string"},"verdict":{"$ref":"#/components/schemas/Verdict"},"remaining":{"type":"integer"},"capacity":{"type":"integer"},"cost":{"type":"integer"},"shadow":{"type":"boolean"}}},
"Decision":{"type":"object","properties":{"verdict":{"$ref":"#/components/schemas/Verdict"},"limit":{"type":["string","null"]},"shortfall":{"type":"integer"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"granted":{"type":"integer"},"hold":{"type":["string","null"]},"hold_expires":{"type":["string","null"],"format":"date-time"},"limits":{"type":"array","items":{"$ref":"#/components/schemas/Outcome"}}}},
"Decisions":{"type":"object","properties":{"decisions":{"type":"array","items":{"oneOf":[{"$ref":"#/components/schemas/Decision"},{"$ref":"#/components/schemas/Problem"}]}}}},
"Settlement":{"type":"object","additionalProperties":false,"required":["hold"],"properties":{"hold":{"$ref":"#/components/schemas/Hold"},"costs":{"$ref":"#/components/schemas/Costs"}}},
"Cancellation":{"type":"object","additionalProperties":false,"required":["hold"],"properties":{"hold":{"$ref":"#/components/schemas/Hold"}}},
"Renewal":{"type":"object","additionalProperties":false,"required":["hold","ttl"],"properties":{"hold":{"$ref":"#/components/schemas/Hold"},"ttl":{"$ref":"#/components/schemas/Duration"}}},
"KeyName":{"type":"object","additionalProperties":false,"required":["limit"],"properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}},"holds":{"type":"boolean"}}},
"Meter":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","enum":["bucket","ticker","window","calendar","log","slots"]},"amount":{"type":"integer"},"period":{"$ref":"#/components/schemas/Duration"},"burst":{"type":"integer"},"per_tick":{"type":"integer"},"interval":{"$ref":"#/components/schemas/Duration"},"start":{"type":"string","enum":["full","empty"]},"limit":{"type":"integer"},"every":{"type":"string"},"window":{"$ref":"#/components/schemas/Duration"},"queue":{"type":"integer"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"Meters":{"type":"object","properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}},"remaining":{"type":"integer"},"capacity":{"type":"integer"},"overridden":{"type":"boolean"},"waiters":{"type":"integer"},"leased":{"type":"integer"},"heaviest":{"type":"array","items":{"type":"object","properties":{"key":{"type":"array","items":{"type":"string"}},"units":{"type":"integer"}}}}}},
"Rules":{"type":"object","properties":{"limits":{"type":"array","items":{"type":"object"}},"units":{"type":"array","items":{"type":"object"}},"attributes":{"type":"array","items":{"type":"string"}}}},
"Amount":{"oneOf":[{"type":"number","minimum":0},{"type":"string","examples":["0.64"]}]},
"State":{"type":"object","properties":{"state":{"type":"string"},"holds":{"type":"integer"}}},
"Document":{"type":"object"},
"Problem":{"type":"object","properties":{"type":{"type":"string"},"title":{"type":"string"},"status":{"type":"integer"},"detail":{"type":"string"}}}
)json",
                                           kEngineRefusals};

}  // namespace weir::wire::http
