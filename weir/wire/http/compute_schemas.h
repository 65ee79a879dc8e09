// What bodies and answers of compute's routes look like: locks, portals, workers, epochs and
// queries.
//
// Internal to wire/http.

#pragma once

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

inline constexpr Schemas kComputeSchemas = {R"json(
"Tokens":{"type":"string","pattern":"^[0-9]+(\\.[0-9]{1,18})?$","examples":["10000"]},
"Parts":{"type":"string","pattern":"^[0-9]+$","description":"10^-18 tokens"},
"Name":{"type":"string","minLength":1,"maxLength":128},
"Lock":{"type":"object","additionalProperties":false,"required":["wallet","duration"],"properties":{"wallet":{"$ref":"#/components/schemas/Name"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"duration":{"type":"integer","minimum":0,"description":"blocks"},"auto":{"type":"boolean"}}},
"Addition":{"type":"object","additionalProperties":false,"required":["wallet"],"properties":{"wallet":{"$ref":"#/components/schemas/Name"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"WalletName":{"type":"object","additionalProperties":false,"required":["wallet"],"properties":{"wallet":{"$ref":"#/components/schemas/Name"}}},
"Extension":{"type":"object","additionalProperties":false,"required":["wallet","auto"],"properties":{"wallet":{"$ref":"#/components/schemas/Name"},"auto":{"type":"boolean"}}},
"Portals":{"type":"object","additionalProperties":false,"required":["wallet","portals"],"properties":{"wallet":{"$ref":"#/components/schemas/Name"},"portals":{"type":"array","items":{"$ref":"#/components/schemas/Name"}}}},
"Split":{"type":"object","additionalProperties":false,"required":["wallet","strategy"],"properties":{"wallet":{"$ref":"#/components/schemas/Name"},"strategy":{"type":"string","examples":["equal","support","unsupport","shares"]},"workers":{"type":"array","items":{"type":"integer"}},"basis_points":{"type":"array","items":{"type":"integer","minimum":0,"maximum":10000}}}},
"WorkerName":{"type":"object","additionalProperties":false,"required":["worker"],"properties":{"worker":{"$ref":"#/components/schemas/Name"}}},
"Parameter":{"type":"object","additionalProperties":false,"required":["parameter"],"properties":{"parameter":{"type":"string","enum":["epoch_length","mana","block_time","min_lock","max_portals"]},"value":{"type":"integer"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"BlockNumber":{"type":"object","additionalProperties":false,"required":["block"],"properties":{"block":{"type":"integer","minimum":0}}},
"Receipt":{"type":"object","properties":{"state":{"type":"string"},"fault":{"type":"string","description":"of a refusal, which has status 409: its name, such as BELOW_MIN"},"detail":{"type":"string"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"start":{"type":"integer"},"end":{"type":["integer","null"]},"total_units":{"type":"string"},"portals":{"type":"integer"},"worker":{"type":"integer"},"active_from":{"type":"integer"},"active_until":{"type":"integer"},"epoch":{"type":"integer"},"next_epoch":{"type":"integer"}}},
"Wallet":{"type":"object","properties":{"wallet":{"type":"string"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"start":{"type":"integer"},"end":{"type":["integer","null"]},"duration":{"type":"integer"},"auto":{"type":"boolean"},"units":{"type":"integer"},"strategy":{"type":"string"},"portals":{"type":"array","items":{"type":"string"}}}},
"Clusters":{"type":"object","properties":{"clusters":{"type":"array","items":{"$ref":"#/components/schemas/Wallet"}},"next":{"type":["integer","null"]}}},
"Workers":{"type":"object","properties":{"workers":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"worker":{"type":"string"},"active":{"type":"boolean"},"active_from":{"type":"integer"},"active_until":{"type":["integer","null"]}}}}}},
"Epoch":{"type":"object","properties":{"block":{"type":"integer"},"epoch":{"type":"integer"},"start":{"type":"integer"},"next_epoch":{"type":"integer"},"length":{"type":"integer"},"epoch_time_ns":{"type":"integer"}}},
"Allocations":{"type":"object","properties":{"worker":{"type":"string"},"block":{"type":"integer"},"epoch":{"type":"integer"},"epoch_time_ns":{"type":"integer"},"clusters":{"type":"array","items":{"type":"object","properties":{"cluster":{"type":"string"},"units":{"type":"integer"},"portals":{"type":"array","items":{"type":"string"}}}}},"fault":{"type":"string"},"broken":{"type":"array","items":{"type":"object","properties":{"cluster":{"type":"string"},"fault":{"type":"string"}}}}}},
"History":{"type":"object","properties":{"history":{"type":"array","items":{"type":"object","properties":{"number":{"type":"integer"},"at":{"type":"string","format":"date-time"},"block":{"type":"integer"},"by":{"type":"string"},"operation":{"type":"object"}}}}}},
"Range":{"type":"array","items":{"type":"integer","minimum":0},"minItems":2,"maxItems":2},
"Query":{"type":"object","additionalProperties":false,"required":["portal"],"properties":{"portal":{"type":"string"},"blocks":{"$ref":"#/components/schemas/Range"},"chunk":{"$ref":"#/components/schemas/Range"},"cost":{"type":"string","examples":["0.25"]},"dry_run":{"type":"boolean"}}},
"Admission":{"type":"object","properties":{"outcome":{"type":"string","enum":["accepted","rate_limited","no_allocation","overloaded"]},"cause":{"type":["string","null"]},"query":{"type":["integer","null"]},"state":{"type":["string","null"]},"retry_after_ms":{"type":["integer","null"]},"tokens_micro":{"type":["integer","null"]}}},
"QueryEnd":{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"integer"},"cost":{"type":"string","examples":["0.25"]}}},
"QueryCancellation":{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"integer"}}},
"Ending":{"type":"object","properties":{"state":{"type":"string"},"started":{"type":["integer","null"]},"tokens_micro":{"type":["integer","null"]}}}
)json"};

}  // namespace weir::wire::http
