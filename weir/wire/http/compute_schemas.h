// What bodies and answers of compute's routes look like: locks, portals, workers, epochs and
// queries.
//
// Internal to wire/http.

#pragma once

#include <array>

#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// The ledger refuses with the name of the fault.
constexpr Refusal ledger_refusal(std::string_view answer) {
  return {answer, 409, "Refused: nothing has changed.", "LedgerFault"};
}

inline constexpr std::array kComputeRefusals = {
    ledger_refusal("Locked"),
    ledger_refusal("Unlocked"),
    ledger_refusal("PortalsChanged"),
    ledger_refusal("SplitChosen"),
    ledger_refusal("WorkerJoined"),
    ledger_refusal("WorkerLeft"),
    ledger_refusal("PoolOpened"),
    ledger_refusal("Staked"),
    ledger_refusal("Exiting"),
    ledger_refusal("Withdrawn"),
    Refusal{"Pool", 404, "The pool is not known.", "LedgerFault"},
    ledger_refusal("ParameterSet"),
    ledger_refusal("BlockPushed"),
    Refusal{"Allocations", 304, "Nothing has changed.", ""},
    Refusal{"Wallet", 404, "The wallet is not known.", "LedgerFault"},
    Refusal{"Admission", 429, "Rate limited.", "Admission"},
    Refusal{"Admission", 403, "The portal has no units at this worker.", "Admission"},
    Refusal{"Admission", 503, "Overloaded.", "Admission"},
};

inline constexpr std::array kComputeHeaders = {
    AnswerHeader{"Allocations", AnswerHeader::On::kEvery, "ETag",
                 "Of allocations of now: send it as If-None-Match, and get 304 until they change."},
    AnswerHeader{"Admission", AnswerHeader::On::kRefusal, "Retry-After",
                 "Seconds until the same query may pass, rounded up.", "integer"},
};

inline constexpr Schemas kComputeSchemas = {R"json(
"Tokens":{"type":"string","pattern":"^[0-9]+(\\.[0-9]{1,18})?$","examples":["10000"]},
"Parts":{"type":"string","pattern":"^[0-9]+$","description":"10^-18 tokens"},
"Name":{"type":"string","minLength":1,"maxLength":128},
"Lock":{"type":"object","additionalProperties":false,"required":["wallet","duration"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"duration":{"type":"integer","minimum":0,"description":"blocks"},"auto":{"type":"boolean"}}},
"Addition":{"type":"object","additionalProperties":false,"required":["wallet"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"WalletName":{"type":"object","additionalProperties":false,"required":["wallet"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"}}},
"Extension":{"type":"object","additionalProperties":false,"required":["wallet","auto"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"auto":{"type":"boolean"}}},
"Portals":{"type":"object","additionalProperties":false,"required":["wallet","portals"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"portals":{"type":"array","items":{"$ref":"#/components/schemas/Name"}}}},
"Split":{"type":"object","additionalProperties":false,"required":["wallet","strategy"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"strategy":{"type":"string","examples":["equal","support","unsupport","shares"]},"workers":{"type":"array","items":{"type":"integer"}},"basis_points":{"type":"array","items":{"type":"integer","minimum":0,"maximum":10000}}}},
"PoolName":{"type":"object","additionalProperties":false,"required":["wallet","pool"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"pool":{"$ref":"#/components/schemas/Name"}}},
"PoolStake":{"type":"object","additionalProperties":false,"required":["wallet","pool"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"pool":{"$ref":"#/components/schemas/Name"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"PoolTicket":{"type":"object","additionalProperties":false,"required":["wallet","pool","ticket"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"wallet":{"$ref":"#/components/schemas/Name"},"pool":{"$ref":"#/components/schemas/Name"},"ticket":{"type":"integer","minimum":0}}},
"PoolOpened":{"type":"object","required":["state"],"properties":{"state":{"type":"string","enum":["done"]}}},
"Staked":{"type":"object","required":["state"],"properties":{"state":{"type":"string","enum":["done"]}}},
"Exiting":{"type":"object","required":["state","tokens","amount","ticket","place"],"properties":{"state":{"type":"string","enum":["done"]},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"ticket":{"type":"integer"},"place":{"$ref":"#/components/schemas/Parts"}}},
"Withdrawn":{"type":"object","required":["state","tokens","amount"],"properties":{"state":{"type":"string","enum":["done"]},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"Pool":{"type":"object","required":["pool","owner","active","tokens","amount","units","stakes","min_stake","exit_rate","requested","processed","stake"],"properties":{"pool":{"type":"string"},"owner":{"type":"string"},"active":{"type":"boolean"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"units":{"type":"integer"},"stakes":{"type":"integer"},"min_stake":{"$ref":"#/components/schemas/Tokens"},"exit_rate":{"$ref":"#/components/schemas/Tokens"},"requested":{"$ref":"#/components/schemas/Parts"},"processed":{"$ref":"#/components/schemas/Parts"},"stake":{"type":["object","null"],"required":["wallet","tokens","amount","leaving","tickets"],"properties":{"wallet":{"type":"string"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"leaving":{"$ref":"#/components/schemas/Tokens"},"tickets":{"type":"array","items":{"type":"object","required":["ticket","tokens","amount","place","ready","wait_blocks"],"properties":{"ticket":{"type":"integer"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"place":{"$ref":"#/components/schemas/Parts"},"ready":{"type":"boolean"},"wait_blocks":{"type":["integer","null"]}}}}}}}},
"WorkerName":{"type":"object","additionalProperties":false,"required":["worker"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"worker":{"$ref":"#/components/schemas/Name"}}},
"Parameter":{"type":"object","additionalProperties":false,"required":["parameter"],"properties":{"event":{"$ref":"#/components/schemas/Name"},"block":{"type":"integer","minimum":0},"parameter":{"type":"string","enum":["epoch_length","mana","block_time","min_lock","max_portals","min_stake","exit_rate"]},"value":{"type":"integer"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"BlockNumber":{"type":"object","additionalProperties":false,"required":["block"],"properties":{"block":{"type":"integer","minimum":0}}},
"Locked":{"type":"object","required":["state","tokens","amount","start","end","total_units"],"properties":{"state":{"type":"string","enum":["done"]},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"start":{"type":"integer"},"end":{"type":["integer","null"]},"total_units":{"type":"string"}}},
"Unlocked":{"type":"object","required":["state","tokens","amount"],"properties":{"state":{"type":"string","enum":["done"]},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"}}},
"PortalsChanged":{"type":"object","required":["state","portals"],"properties":{"state":{"type":"string","enum":["done"]},"portals":{"type":"integer"}}},
"SplitChosen":{"type":"object","required":["state"],"properties":{"state":{"type":"string","enum":["done"]}}},
"WorkerJoined":{"type":"object","required":["state","worker","active_from"],"properties":{"state":{"type":"string","enum":["done"]},"worker":{"type":"integer"},"active_from":{"type":"integer"}}},
"WorkerLeft":{"type":"object","required":["state","worker","active_until"],"properties":{"state":{"type":"string","enum":["done"]},"worker":{"type":"integer"},"active_until":{"type":"integer"}}},
"ParameterSet":{"type":"object","required":["state"],"properties":{"state":{"type":"string","enum":["done"]},"epoch":{"type":"integer"},"next_epoch":{"type":"integer"}}},
"BlockPushed":{"type":"object","required":["state"],"properties":{"state":{"type":"string","enum":["pushed"]}}},
"LedgerFault":{"type":"object","required":["fault","detail"],"properties":{"fault":{"type":"string","examples":["BELOW_MIN"]},"detail":{"type":"string"}}},
"Wallet":{"type":"object","required":["wallet","tokens","amount","start","end","duration","auto","units","pool_units","strategy","portals"],"properties":{"wallet":{"type":"string"},"tokens":{"$ref":"#/components/schemas/Tokens"},"amount":{"$ref":"#/components/schemas/Parts"},"start":{"type":"integer"},"end":{"type":["integer","null"]},"duration":{"type":"integer"},"auto":{"type":"boolean"},"units":{"type":"integer"},"pool_units":{"type":"integer"},"strategy":{"type":"string"},"portals":{"type":"array","items":{"type":"string"}}}},
"Clusters":{"type":"object","required":["clusters","next"],"properties":{"clusters":{"type":"array","items":{"$ref":"#/components/schemas/Wallet"}},"next":{"type":["integer","null"]}}},
"Workers":{"type":"object","required":["workers"],"properties":{"workers":{"type":"array","items":{"type":"object","required":["id","worker","active","active_from","active_until"],"properties":{"id":{"type":"integer"},"worker":{"type":"string"},"active":{"type":"boolean"},"active_from":{"type":"integer"},"active_until":{"type":["integer","null"]}}}}}},
"Epoch":{"type":"object","required":["block","epoch","start","next_epoch","length","epoch_time_ns","wallets","workers","active_workers","active_portals","locked","mana","block_time_s","min_lock","max_portals"],"properties":{"block":{"type":"integer"},"epoch":{"type":"integer"},"start":{"type":"integer"},"next_epoch":{"type":"integer"},"length":{"type":"integer"},"epoch_time_ns":{"type":"integer"},"wallets":{"type":"integer"},"workers":{"type":"integer"},"active_workers":{"type":"integer"},"active_portals":{"type":"integer"},"locked":{"$ref":"#/components/schemas/Tokens"},"mana":{"type":"integer"},"block_time_s":{"type":"integer"},"min_lock":{"$ref":"#/components/schemas/Tokens"},"max_portals":{"type":"integer"}}},
"Allocations":{"type":"object","required":["worker","block","epoch","epoch_time_ns","clusters","fault","broken"],"properties":{"worker":{"type":"string"},"block":{"type":"integer"},"epoch":{"type":"integer"},"epoch_time_ns":{"type":"integer"},"clusters":{"type":"array","items":{"type":"object","required":["cluster","units","portals"],"properties":{"cluster":{"type":"string"},"units":{"type":"integer"},"portals":{"type":"array","items":{"type":"string"}}}}},"fault":{"type":"string"},"broken":{"type":"array","items":{"type":"object","required":["cluster","fault"],"properties":{"cluster":{"type":"string"},"fault":{"type":"string"}}}}}},
"History":{"type":"object","required":["history"],"properties":{"history":{"type":"array","items":{"type":"object","required":["number","at","block","by","operation"],"properties":{"number":{"type":"integer"},"at":{"type":"string","format":"date-time"},"block":{"type":"integer"},"by":{"type":"string"},"operation":{"type":"object"}}}}}},
"Range":{"type":"array","items":{"type":"integer","minimum":0},"minItems":2,"maxItems":2},
"Query":{"type":"object","additionalProperties":false,"required":["portal"],"properties":{"portal":{"type":"string"},"blocks":{"$ref":"#/components/schemas/Range"},"chunk":{"$ref":"#/components/schemas/Range"},"cost":{"type":"string","examples":["0.25"]},"dry_run":{"type":"boolean"}}},
"Admission":{"type":"object","required":["outcome","cause","query","state","retry_after_ms","tokens_micro"],"properties":{"outcome":{"type":"string","enum":["accepted","rate_limited","no_allocation","overloaded"]},"cause":{"type":["string","null"]},"query":{"type":["string","null"],"pattern":"^[0-9a-f]{16}-[1-9][0-9]*$"},"state":{"type":["string","null"]},"retry_after_ms":{"type":["integer","null"]},"tokens_micro":{"type":["integer","null"]}}},
"QueryEnd":{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"string","examples":["00000000000004d2-48"]},"cost":{"type":"string","examples":["0.25"]}}},
"QueryCancellation":{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"string","examples":["00000000000004d2-48"]}}},
"Ending":{"type":"object","required":["state","started","tokens_micro"],"properties":{"state":{"type":"string"},"started":{"type":["string","null"],"pattern":"^[0-9a-f]{16}-[1-9][0-9]*$"},"tokens_micro":{"type":["integer","null"]}}},
"WorkerState":{"oneOf":[{"type":"object","required":["cluster","units","interval_ns","burst_micro","tokens_micro","next_token","running","queued","epoch","used_micro","accepted","rate_limited","overloaded","displaced"],"properties":{"cluster":{"type":"string"},"units":{"type":"integer"},"interval_ns":{"type":"integer"},"burst_micro":{"type":"integer"},"tokens_micro":{"type":"integer"},"next_token":{"type":["string","null"],"format":"date-time"},"running":{"type":"integer"},"queued":{"type":"integer"},"epoch":{"type":"integer"},"used_micro":{"type":"integer"},"accepted":{"type":"integer"},"rate_limited":{"type":"integer"},"overloaded":{"type":"integer"},"displaced":{"type":"integer"}}},{"type":"object","required":["epoch","age_ms","stale","clusters","running","queued","accepted","rate_limited","no_allocation","overloaded","expired","displaced","fetches","failures","trouble","warning","broken"],"properties":{"epoch":{"type":["integer","null"]},"age_ms":{"type":"integer"},"stale":{"type":"boolean"},"clusters":{"type":"integer"},"running":{"type":"integer"},"queued":{"type":"integer"},"accepted":{"type":"integer"},"rate_limited":{"type":"integer"},"no_allocation":{"type":"integer"},"overloaded":{"type":"integer"},"expired":{"type":"integer"},"displaced":{"type":"integer"},"fetches":{"type":"integer"},"failures":{"type":"integer"},"trouble":{"type":"string"},"warning":{"type":"string"},"broken":{"type":"array","items":{"type":"object","required":["cluster","fault"],"properties":{"cluster":{"type":"string"},"fault":{"type":"string"}}}}}}]},
"QueryState":{"type":"object","required":["state"],"properties":{"state":{"type":"string","enum":["queued","running","displaced","gone"]}}}
)json",
                                            kComputeRefusals, kComputeHeaders};

}  // namespace weir::wire::http
