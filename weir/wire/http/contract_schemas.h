// What bodies and answers of contract's routes look like: reservations, consumptions and accounts.
//
// Internal to wire/http.

#pragma once

#include <array>

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

inline constexpr std::array kContractRefusals = {
    Refusal{"Reserved", 429, "Denied.", "Reserved"},
    Refusal{"Reserved", 422, "Never: it costs too much.", "Reserved"},
    Refusal{"Consumed", 429, "Refused, as the service does.", "Refused"},
};

inline constexpr std::string_view kAccountWaitSummary =
    "Until the same request may pass, in the unit that the account is set to.";

inline constexpr std::array kContractHeaders = {
    AnswerHeader{"Reserved", AnswerHeader::On::kRefusal, "Retry-After", kAccountWaitSummary,
                 "integer"},
    AnswerHeader{"Consumed", AnswerHeader::On::kRefusal, "Retry-After", kAccountWaitSummary,
                 "integer"},
    AnswerHeader{"Consumed", AnswerHeader::On::kSuccess, "X-ProcessingUnits-Spent",
                 "What was debited.", "number"},
};

inline constexpr Schemas kContractSchemas = {R"json(
"ContractCosts":{"type":"object","additionalProperties":false,"properties":{"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"}}},
"ContractAsk":{"type":"object","additionalProperties":false,"properties":{"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"},"deadline_ns":{"type":"integer","minimum":0},"max_delay":{"$ref":"#/components/schemas/Duration"},"hold":{"$ref":"#/components/schemas/Duration"},"who":{"type":"string","maxLength":128},"key":{"type":"string","maxLength":128}}},
"Debited":{"type":"object","required":["requests","processing_units"],"properties":{"requests":{"type":"number"},"processing_units":{"type":"number"}}},
"Reserved":{"type":"object","required":["verdict","reason","policy","start","start_ns","delay_ns","delay_ms","reservation","expires","debited"],"properties":{"verdict":{"$ref":"#/components/schemas/Verdict"},"reason":{"type":["string","null"],"enum":["exceeds_capacity","exhausted",null]},"policy":{"type":["string","null"]},"start":{"type":["string","null"],"format":"date-time"},"start_ns":{"type":["integer","null"]},"delay_ns":{"type":["integer","null"]},"delay_ms":{"type":["integer","null"]},"reservation":{"oneOf":[{"$ref":"#/components/schemas/Hold"},{"type":"null"}]},"expires":{"type":["string","null"],"format":"date-time"},"debited":{"$ref":"#/components/schemas/Debited"}}},
"ReservationCommit":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Hold"},"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"}}},
"ReservationRelease":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Hold"}}},
"Committed":{"type":"object","required":["state"],"properties":{"state":{"type":"string"},"debited":{"$ref":"#/components/schemas/Debited"}}},
"Consumed":{"type":"object","required":["reservation","debited"],"properties":{"reservation":{"oneOf":[{"$ref":"#/components/schemas/Hold"},{"type":"null"}]},"debited":{"$ref":"#/components/schemas/Debited"}}},
"Refused":{"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["status","reason","message","code"],"properties":{"status":{"type":"integer"},"reason":{"type":"string"},"message":{"type":"string"},"code":{"type":"string","enum":["RATE_LIMIT_EXCEEDED","RATE_LIMIT_TOKEN_COUNT_EXCEEDS_CAPACITY"]}}}}},
"Feedback":{"type":"object","additionalProperties":false,"properties":{"reservation":{"$ref":"#/components/schemas/Hold"},"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"},"retry_after":{"oneOf":[{"type":"integer","minimum":0},{"type":"string","examples":["3398","3398ms"]}]},"policy":{"type":"string"}}},
"Tile":{"type":"object","additionalProperties":false,"required":["width","height"],"properties":{"width":{"type":"integer","minimum":1},"height":{"type":"integer","minimum":1},"count":{"type":"integer","minimum":1}}},
"Work":{"type":"object","additionalProperties":false,"properties":{"api":{"type":"string"},"tiles":{"type":"array","items":{"$ref":"#/components/schemas/Tile"}},"bands":{"type":"array","items":{"type":"string"}},"output":{"type":"string","enum":["int8","int16","float32","octet"]},"samples":{"type":"integer"},"orthorectify":{"type":"boolean"},"terrain_correct":{"type":"boolean"},"speckle_filter":{"type":"boolean"},"local_collections":{"type":"integer"},"remote_collections":{"type":"integer"},"area_km2":{"$ref":"#/components/schemas/Amount"},"months":{"$ref":"#/components/schemas/Amount"},"announced":{"type":"object","additionalProperties":false,"properties":{"evalscript_ms":{"type":"integer"},"delivered_mb":{"$ref":"#/components/schemas/Amount"},"egress_gb":{"$ref":"#/components/schemas/Amount"},"ordered_images":{"type":"integer"},"clipped_assets":{"type":"integer"},"other_tools":{"type":"integer"}}}}},
"ProcessingUnits":{"type":"object","required":["processing_units","debited"],"properties":{"processing_units":{"type":"string","examples":["128/3"]},"debited":{"type":"number"}}},
"Reservations":{"type":"object","required":["reservations","next"],"properties":{"reservations":{"type":"array","items":{"type":"object","required":["reservation","who","start","start_ns","expires","costs"],"properties":{"reservation":{"$ref":"#/components/schemas/Hold"},"who":{"type":["string","null"]},"start":{"type":"string","format":"date-time"},"start_ns":{"type":"integer"},"expires":{"type":"string","format":"date-time"},"costs":{"$ref":"#/components/schemas/Debited"}}}},"next":{"type":["string","null"]}}},
"DocumentTaken":{"type":"object","required":["state"],"properties":{"state":{"type":"string"},"left_out":{"type":"array","items":{"type":"string"}}}},
"Account":{"type":"object","required":["account","user_id","role","rule","jitter","policies","outstanding","outstanding_costs","booked_until","refreshed_at","granted","refused","refusals_met","overages_clipped","mark","sync"],"properties":{"account":{"type":"string"},"user_id":{"type":"string"},"role":{"type":"string","enum":["guard","service"]},"rule":{"type":"string","enum":["reservation","published"]},"jitter":{"type":"string"},"policies":{"type":"array","items":{"type":"object","required":["policy","type","capacity","period","refill_ns","left","full_in_ns"],"properties":{"policy":{"type":"string"},"type":{"type":"string"},"capacity":{"type":"integer"},"period":{"type":"string"},"refill_ns":{"type":"integer"},"left":{"type":"number"},"full_in_ns":{"type":["integer","null"]}}}},"outstanding":{"type":"integer"},"outstanding_costs":{"$ref":"#/components/schemas/Debited"},"booked_until":{"type":["string","null"],"format":"date-time"},"refreshed_at":{"type":["string","null"],"format":"date-time"},"granted":{"type":"integer"},"refused":{"type":"integer"},"refusals_met":{"type":"integer"},"overages_clipped":{"type":"integer"},"mark":{"type":"string"},"sync":{"type":["object","null"],"required":["contract_age","counts_age","fetches","failures","left_out","error"],"properties":{"contract_age":{"type":["string","null"]},"counts_age":{"type":["string","null"]},"fetches":{"type":"integer"},"failures":{"type":"integer"},"left_out":{"type":"array","items":{"type":"string"}},"error":{"type":["string","null"]}}}}}
)json",
                                             kContractRefusals, kContractHeaders};

}  // namespace weir::wire::http
