// What bodies and answers of sampling's routes look like: grants, reservations and allowances.
//
// Internal to wire/http.

#pragma once

#include <array>

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

inline constexpr std::array kSamplingRefusals = {
    Refusal{"Grant", 429, "Denied.", "Grant"},
};

inline constexpr std::array kSamplingHeaders = {
    AnswerHeader{"Grant", AnswerHeader::On::kRefusal, "Retry-After",
                 "Seconds until something is free, rounded up.", "integer"},
};

inline constexpr Schemas kSamplingSchemas = {R"json(
"TaskReservation":{"type":"string","pattern":"^[0-9a-f]{16}-[1-9][0-9]*$"},
"GrantAsk":{"type":"object","additionalProperties":false,"required":["hotkey","revision","environment"],"properties":{"hotkey":{"type":"string","maxLength":512},"revision":{"type":"string","maxLength":512},"environment":{"type":"string","maxLength":512},"uid":{"type":"integer","description":"may be missing in published mode only"},"want":{"type":"integer","minimum":0,"maximum":1000000},"dry_run":{"type":"boolean"}}},
"Grant":{"type":"object","required":["granted","wanted","reason","count","limit","remaining","parent","next_free","next_free_ns","retry_after_ms","reservation"],"properties":{"granted":{"type":"integer"},"wanted":{"type":"integer"},"reason":{"type":"string","enum":["limited","exempt","unlimited"]},"count":{"type":"integer"},"limit":{"type":["integer","null"]},"remaining":{"type":["integer","null"]},"parent":{"oneOf":[{"type":"object","required":["count","limit"],"properties":{"count":{"type":"integer"},"limit":{"type":"integer"}}},{"type":"null"}]},"next_free":{"type":"string","format":"date-time"},"next_free_ns":{"type":"integer"},"retry_after_ms":{"type":"integer"},"reservation":{"oneOf":[{"$ref":"#/components/schemas/TaskReservation"},{"type":"null"}]}}},
"PassAsk":{"type":"object","additionalProperties":false,"required":["hotkey","revision","slots"],"properties":{"hotkey":{"type":"string","maxLength":512},"revision":{"type":"string","maxLength":512},"uid":{"type":"integer","description":"may be missing in published mode only"},"slots":{"type":"integer","minimum":1,"maximum":1000},"work":{"type":"array","maxItems":1024,"items":{"type":"object","additionalProperties":false,"required":["environment"],"properties":{"environment":{"type":"string","maxLength":512},"active":{"type":"integer","minimum":0},"missing":{"type":"integer","minimum":0}}}}}},
"Pass":{"type":"object","required":["granted","environments"],"properties":{"granted":{"type":"integer"},"environments":{"type":"array","items":{"type":"object","required":["environment","grant"],"properties":{"environment":{"type":"string"},"grant":{"$ref":"#/components/schemas/Grant"}}}}}},
"RefusedMiners":{"type":"object","required":["refused"],"properties":{"refused":{"type":"array","items":{"type":"object","required":["hotkey","revision","environment","uid","refusals","beyond","tasks","last","count","limit","remaining","next_free"],"properties":{"hotkey":{"type":"string"},"revision":{"type":"string"},"environment":{"type":"string"},"uid":{"type":["integer","null"]},"refusals":{"type":"integer"},"beyond":{"type":"integer"},"tasks":{"type":"integer"},"last":{"type":"string","format":"date-time"},"count":{"type":"integer"},"limit":{"type":["integer","null"]},"remaining":{"type":["integer","null"]},"next_free":{"type":"string","format":"date-time"}}}}}},
"Commit":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/TaskReservation"},"created":{"type":"integer","minimum":0}}},
"Release":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/TaskReservation"}}},
"ReservationEnd":{"type":"object","required":["state","given_back"],"properties":{"state":{"type":"string","enum":["committed","released"]},"given_back":{"type":"integer"}}},
"Sampling":{"type":"object","required":["mode","grants","window_s","keys","reservations","environments"],"properties":{"mode":{"type":"string","enum":["strict","published"]},"grants":{"type":"string","enum":["capped","gate"]},"window_s":{"type":"integer"},"keys":{"type":"integer"},"reservations":{"type":"integer"},"environments":{"type":"array","items":{"type":"object","required":["environment","rotation_count","rotation_interval","sampling_count","limit","parent_limit","burst","grants","granted","refused"],"properties":{"environment":{"type":"string"},"rotation_count":{"type":"number"},"rotation_interval":{"type":"number"},"sampling_count":{"type":"number"},"limit":{"type":["integer","null"]},"parent_limit":{"type":["integer","null"]},"burst":{"type":["integer","null"]},"grants":{"type":"integer"},"granted":{"type":"integer"},"refused":{"type":"integer"}}}},"key":{"$ref":"#/components/schemas/Grant"}}}
)json",
                                             kSamplingRefusals, kSamplingHeaders};

}  // namespace weir::wire::http
