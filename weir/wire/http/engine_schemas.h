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
    Refusal{"Decision", 401, "Refused, where 'deny' is 401.", "Decision", "authorize"},
    Refusal{"Decision", 403, "Refused, where 'deny' is 403.", "Decision", "authorize"},
};

inline constexpr std::string_view kRetryAfterSummary =
    "Seconds until the same request may pass, rounded up.";

inline constexpr std::array kEngineHeaders = {
    AnswerHeader{"Decision", AnswerHeader::On::kRefusal, "Retry-After", kRetryAfterSummary,
                 "integer"},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "RateLimit-Policy",
                 "The limits that applied: quota, unit and window of each.", "string",
                 HeaderStyle::kIetf},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "RateLimit",
                 "What these limits have left, and in how many seconds there is more.", "string",
                 HeaderStyle::kIetf},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "X-RateLimit-Limit",
                 "The capacity of the tightest limit.", "integer", HeaderStyle::kXRateLimit},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "X-RateLimit-Remaining",
                 "What that limit has left.", "integer", HeaderStyle::kXRateLimit},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "X-RateLimit-Reset",
                 "Seconds until all of it is back.", "integer", HeaderStyle::kXRateLimit},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "X-RateLimit-Limit",
                 "The capacity of the tightest limit.", "integer", HeaderStyle::kXRateLimitEpoch},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "X-RateLimit-Remaining",
                 "What that limit has left.", "integer", HeaderStyle::kXRateLimitEpoch},
    AnswerHeader{"Decision", AnswerHeader::On::kEvery, "X-RateLimit-Reset",
                 "When all of it is back, in seconds since 1970.", "integer",
                 HeaderStyle::kXRateLimitEpoch},
    AnswerHeader{"text/event-stream", AnswerHeader::On::kEvery, "Cache-Control", "no-store"},
};

inline constexpr Schemas kEngineSchemas = {R"json(
"Duration":{"oneOf":[{"type":"string","pattern":"^([0-9]+(_[0-9]+)*(\\.[0-9]+(_[0-9]+)*)?(w|d|h|m|s|ms|us|ns))+$","examples":["500ms","1m30s","1.5s"]},{"type":"integer","minimum":0,"description":"milliseconds"}]},
"Costs":{"type":"object","additionalProperties":{"$ref":"#/components/schemas/Amount"},"examples":[{"tokens":1200}]},
"Attributes":{"type":"object","additionalProperties":{"type":"string","maxLength":512},"examples":[{"client":"acme"}]},
"Hold":{"type":"string","pattern":"^[0-9a-f]{16}-[1-9][0-9]*s?$"},
"Request":{"type":"object","additionalProperties":false,"properties":{"attributes":{"$ref":"#/components/schemas/Attributes"},"costs":{"$ref":"#/components/schemas/Costs"}}},
"Ask":{"type":"object","additionalProperties":false,"properties":{"attributes":{"$ref":"#/components/schemas/Attributes"},"costs":{"$ref":"#/components/schemas/Costs"},"hold":{"$ref":"#/components/schemas/Duration"},"wait":{"$ref":"#/components/schemas/Duration"},"up_to":{"type":"string"},"book_within":{"$ref":"#/components/schemas/Duration"}}},
"Batch":{"type":"object","additionalProperties":false,"required":["requests"],"properties":{"requests":{"type":"array","items":{"$ref":"#/components/schemas/Ask"}}}},
"Verdict":{"type":"string","enum":["allowed","denied","never","overloaded"]},
"Outcome":{"type":"object","required":["limit","verdict","remaining","capacity","cost","shadow"],"properties":{"limit":{"type":"string"},"verdict":{"$ref":"#/components/schemas/Verdict"},"remaining":{"type":"integer"},"capacity":{"type":"integer"},"cost":{"type":"integer"},"shadow":{"type":"boolean"}}},
"Decision":{"type":"object","required":["verdict","limit","shortfall","earliest","earliest_ns","retry_after_ms","hold","hold_expires","limits"],"properties":{"verdict":{"$ref":"#/components/schemas/Verdict"},"limit":{"type":["string","null"]},"shortfall":{"type":"integer"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"granted":{"type":"integer","description":"where 'up_to' was asked"},"hold":{"oneOf":[{"$ref":"#/components/schemas/Hold"},{"type":"null"}]},"hold_expires":{"type":["string","null"],"format":"date-time"},"limits":{"type":"array","items":{"$ref":"#/components/schemas/Outcome"}}}},
"Decisions":{"type":"object","required":["decisions"],"properties":{"decisions":{"type":"array","items":{"oneOf":[{"$ref":"#/components/schemas/Decision"},{"$ref":"#/components/schemas/Problem"}]}}}},
"Settlement":{"type":"object","additionalProperties":false,"required":["hold"],"properties":{"hold":{"$ref":"#/components/schemas/Hold"},"costs":{"$ref":"#/components/schemas/Costs"}}},
"Cancellation":{"type":"object","additionalProperties":false,"required":["hold"],"properties":{"hold":{"$ref":"#/components/schemas/Hold"}}},
"Renewal":{"type":"object","additionalProperties":false,"required":["hold","ttl"],"properties":{"hold":{"$ref":"#/components/schemas/Hold"},"ttl":{"$ref":"#/components/schemas/Duration"}}},
"KeyName":{"type":"object","additionalProperties":false,"required":["limit"],"properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}},"holds":{"type":"boolean"}}},
"Meter":{"oneOf":[{"type":"object","additionalProperties":false,"required":["kind","amount","period"],"properties":{"kind":{"type":"string","enum":["bucket"]},"amount":{"$ref":"#/components/schemas/Amount"},"period":{"$ref":"#/components/schemas/Duration"},"burst":{"$ref":"#/components/schemas/Amount"}}},{"type":"object","additionalProperties":false,"required":["kind","interval","burst"],"properties":{"kind":{"type":"string","enum":["ticker"]},"per_tick":{"$ref":"#/components/schemas/Amount"},"interval":{"$ref":"#/components/schemas/Duration"},"burst":{"$ref":"#/components/schemas/Amount"},"start":{"type":"string","enum":["full","empty"]}}},{"type":"object","additionalProperties":false,"required":["kind","limit","every"],"properties":{"kind":{"type":"string","enum":["window"]},"limit":{"$ref":"#/components/schemas/Amount"},"every":{"type":"string","pattern":"^([0-9]+(_[0-9]+)*(\\.[0-9]+(_[0-9]+)*)?(w|d|h|m|s|ms|us|ns))+$"}}},{"type":"object","additionalProperties":false,"required":["kind","limit","every"],"properties":{"kind":{"type":"string","enum":["calendar"]},"limit":{"$ref":"#/components/schemas/Amount"},"every":{"type":"string","enum":["day","week","month","year"]}}},{"type":"object","additionalProperties":false,"required":["kind","limit","window"],"properties":{"kind":{"type":"string","enum":["log"]},"limit":{"$ref":"#/components/schemas/Amount"},"window":{"$ref":"#/components/schemas/Duration"}}},{"type":"object","additionalProperties":false,"required":["kind","limit"],"properties":{"kind":{"type":"string","enum":["slots"]},"limit":{"$ref":"#/components/schemas/Amount"},"queue":{"type":"integer","minimum":0},"hold":{"$ref":"#/components/schemas/Duration"}}}],"examples":[{"kind":"bucket","amount":100,"period":"1s","burst":200}]},
"KeyState":{"type":"object","required":["limit","key","remaining","capacity","overridden","waiters"],"properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}},"remaining":{"type":"integer"},"capacity":{"type":"integer"},"overridden":{"type":"boolean"},"waiters":{"type":"integer"},"leased":{"type":"integer","description":"of a limit with a lease"}}},
"HeaviestKeys":{"type":"object","required":["limit","heaviest"],"properties":{"limit":{"type":"string"},"heaviest":{"type":"array","items":{"type":"object","required":["key","units"],"properties":{"key":{"type":"array","items":{"type":"string"}},"units":{"type":"integer"}}}}}},
"Meters":{"oneOf":[{"$ref":"#/components/schemas/KeyState"},{"$ref":"#/components/schemas/HeaviestKeys"}]},
"Condition":{"type":"object","required":["attribute","patterns"],"properties":{"attribute":{"type":"string"},"patterns":{"type":"array","items":{"type":"string"}}}},
"Rule":{"type":"object","required":["name","unit","per","when","exempt","weigh","parent","shadow","queue_max","meter"],"properties":{"name":{"type":"string"},"unit":{"type":"string"},"per":{"type":"array","items":{"type":"string"}},"when":{"type":"array","items":{"$ref":"#/components/schemas/Condition"}},"exempt":{"type":"array","items":{"type":"array","items":{"$ref":"#/components/schemas/Condition"}}},"weigh":{"oneOf":[{"type":"object","required":["attribute","table"],"properties":{"attribute":{"type":"string"},"table":{"type":"object","additionalProperties":{"type":"integer"}}}},{"type":"null"}]},"parent":{"type":["string","null"]},"shadow":{"type":"boolean"},"queue_max":{"type":"integer"},"shared":{"type":"object","required":["mode","outage"],"properties":{"mode":{"type":"string","enum":["strict","leased"]},"outage":{"type":"string","enum":["deny","allow","local"]},"lease":{"type":"object","required":["most","length"],"properties":{"most":{"type":"integer"},"length":{"type":"string"}}}}},"meter":{"oneOf":[{"$ref":"#/components/schemas/Meter"},{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","enum":["gate"]}}}]}}},
"Rules":{"type":"object","required":["limits","units","attributes"],"properties":{"limits":{"type":"array","items":{"$ref":"#/components/schemas/Rule"}},"units":{"type":"array","items":{"type":"object","required":["name","scale"],"properties":{"name":{"type":"string"},"scale":{"type":"string","enum":["whole","micro"]}}}},"attributes":{"type":"array","items":{"type":"string"}}}},
"Amount":{"oneOf":[{"type":"number","minimum":0},{"type":"string","examples":["0.64"]}]},
"State":{"type":"object","required":["state"],"properties":{"state":{"type":"string"},"holds":{"type":"integer"}}},
"Document":{"type":"object"},
"Problem":{"type":"object","required":["type","title","status","detail"],"properties":{"type":{"type":"string","examples":["urn:weir:bad-argument"]},"title":{"type":"string"},"status":{"type":"integer"},"detail":{"type":"string"}}}
)json",
                                           kEngineRefusals, kEngineHeaders};

}  // namespace weir::wire::http
