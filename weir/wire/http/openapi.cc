#include "weir/wire/http/openapi.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "weir/wire/http/problem.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

// What bodies and answers look like. Names are those in the `body` and `answer` of a
// route.
constexpr std::string_view kSchemas = R"json({
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
"KeyName":{"type":"object","additionalProperties":false,"required":["limit"],"properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}}}},
"Meter":{"type":"object","required":["kind"],"properties":{"kind":{"type":"string","enum":["bucket","ticker","window","calendar","log","slots"]},"amount":{"type":"integer"},"period":{"$ref":"#/components/schemas/Duration"},"burst":{"type":"integer"},"per_tick":{"type":"integer"},"interval":{"$ref":"#/components/schemas/Duration"},"start":{"type":"string","enum":["full","empty"]},"limit":{"type":"integer"},"every":{"type":"string"},"window":{"$ref":"#/components/schemas/Duration"},"queue":{"type":"integer"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"Meters":{"type":"object","properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}},"remaining":{"type":"integer"},"capacity":{"type":"integer"},"overridden":{"type":"boolean"},"waiters":{"type":"integer"},"leased":{"type":"integer"},"heaviest":{"type":"array","items":{"type":"object","properties":{"key":{"type":"string"},"units":{"type":"integer"}}}}}},
"Rules":{"type":"object","properties":{"limits":{"type":"array","items":{"type":"object"}},"units":{"type":"array","items":{"type":"object"}},"attributes":{"type":"array","items":{"type":"string"}}}},
"Claim":{"type":"integer","minimum":1},
"Submission":{"type":"object","additionalProperties":false,"required":["operation"],"properties":{"operation":{"type":"string"},"role":{"type":"string","enum":["front_end","consensus"]},"at_ns":{"type":"integer"},"payer":{"type":"integer"},"count":{"type":"integer","minimum":1},"gas":{"type":"integer","minimum":0},"bytes":{"type":"integer","minimum":0},"nfts":{"type":"integer","minimum":0},"creations":{"type":"integer","minimum":0},"associations":{"type":"integer","minimum":0},"high_volume":{"type":"boolean"},"scheduled":{"type":"object","additionalProperties":false,"properties":{"operation":{"type":"string"},"uses_aliases":{"type":"boolean"},"creations":{"type":"integer","minimum":0}}},"scheduled_then":{"type":"integer","minimum":0},"dry_run":{"type":"boolean"}}},
"Submitted":{"type":"object","properties":{"status":{"type":"string","enum":["OK","BUSY","THROTTLED_AT_CONSENSUS","CONSENSUS_GAS_EXHAUSTED"]},"verdict":{"$ref":"#/components/schemas/Verdict"},"refused_by":{"type":["string","null"]},"shortfall":{"type":"integer"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"multiplier":{"type":"integer"},"claim":{"type":["integer","null"]}}},
"ClaimSettlement":{"type":"object","additionalProperties":false,"required":["claim"],"properties":{"claim":{"$ref":"#/components/schemas/Claim"},"gas":{"type":"integer","minimum":0},"duration":{"type":"integer","minimum":0}}},
"ClaimCancellation":{"type":"object","additionalProperties":false,"required":["claim"],"properties":{"claim":{"$ref":"#/components/schemas/Claim"}}},
"ThrottleBucket":{"type":"object","properties":{"name":{"type":"string"},"high_volume":{"type":"boolean"},"burst_ms":{"type":"integer"},"milli_ops":{"type":"integer"},"used":{"type":"integer"},"capacity":{"type":"integer"},"percent_used":{"type":"number"},"refusals":{"type":"integer"}}},
"ThrottleSet":{"type":"object","properties":{"buckets":{"type":"array","items":{"$ref":"#/components/schemas/ThrottleBucket"}},"dropped":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"high_volume":{"type":"boolean"},"finding":{"type":"string"}}}},"gas":{"$ref":"#/components/schemas/ThrottleBucket"},"bytes":{"oneOf":[{"$ref":"#/components/schemas/ThrottleBucket"},{"type":"null"}]},"duration":{"$ref":"#/components/schemas/ThrottleBucket"}}},
"Throttles":{"type":"object","properties":{"nodes":{"type":"integer"},"multipliers":{"type":"object","properties":{"generic":{"type":"integer"},"gas":{"type":"integer"}}},"front_end":{"$ref":"#/components/schemas/ThrottleSet"},"consensus":{"$ref":"#/components/schemas/ThrottleSet"}}},
"Restored":{"type":"object","properties":{"state":{"type":"string"},"restored":{"type":"integer"},"converted":{"type":"array","items":{"type":"string"}},"unknown":{"type":"array","items":{"type":"string"}},"missing":{"type":"array","items":{"type":"string"}}}},
"Amount":{"oneOf":[{"type":"number","minimum":0},{"type":"string","examples":["0.64"]}]},
"ContractCosts":{"type":"object","additionalProperties":false,"properties":{"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"}}},
"ContractAsk":{"type":"object","additionalProperties":false,"properties":{"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"},"deadline_ns":{"type":"integer","minimum":0},"max_delay":{"$ref":"#/components/schemas/Duration"},"hold":{"$ref":"#/components/schemas/Duration"}}},
"Debited":{"type":"object","properties":{"requests":{"type":"number"},"processing_units":{"type":"number"}}},
"Reserved":{"type":"object","properties":{"verdict":{"$ref":"#/components/schemas/Verdict"},"reason":{"type":["string","null"],"enum":["exceeds_capacity","exhausted",null]},"policy":{"type":["string","null"]},"start":{"type":["string","null"],"format":"date-time"},"start_ns":{"type":["integer","null"]},"delay_ns":{"type":["integer","null"]},"delay_ms":{"type":["integer","null"]},"reservation":{"type":["string","null"]},"expires":{"type":["string","null"],"format":"date-time"},"debited":{"$ref":"#/components/schemas/Debited"}}},
"ReservationCommit":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Hold"},"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"}}},
"ReservationRelease":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Hold"}}},
"Committed":{"type":"object","properties":{"state":{"type":"string"},"debited":{"$ref":"#/components/schemas/Debited"}}},
"Consumed":{"type":"object","properties":{"reservation":{"$ref":"#/components/schemas/Hold"},"debited":{"$ref":"#/components/schemas/Debited"}}},
"Refused":{"type":"object","properties":{"error":{"type":"object","properties":{"status":{"type":"integer"},"reason":{"type":"string"},"message":{"type":"string"},"code":{"type":"string","enum":["RATE_LIMIT_EXCEEDED","RATE_LIMIT_TOKEN_COUNT_EXCEEDS_CAPACITY"]}}}}},
"Feedback":{"type":"object","additionalProperties":false,"properties":{"reservation":{"$ref":"#/components/schemas/Hold"},"requests":{"$ref":"#/components/schemas/Amount"},"processing_units":{"$ref":"#/components/schemas/Amount"},"retry_after":{"oneOf":[{"type":"integer","minimum":0},{"type":"string","examples":["3398","3398ms"]}]},"policy":{"type":"string"}}},
"Tile":{"type":"object","additionalProperties":false,"properties":{"width":{"type":"integer","minimum":0},"height":{"type":"integer","minimum":0}}},
"Work":{"type":"object","additionalProperties":false,"properties":{"api":{"type":"string"},"tiles":{"type":"array","items":{"$ref":"#/components/schemas/Tile"}},"bands":{"type":"array","items":{"type":"string"}},"output":{"type":"string","enum":["int8","int16","float32","octet"]},"samples":{"type":"integer"},"orthorectify":{"type":"boolean"},"terrain_correct":{"type":"boolean"},"speckle_filter":{"type":"boolean"},"local_collections":{"type":"integer"},"remote_collections":{"type":"integer"},"area_km2":{"$ref":"#/components/schemas/Amount"},"months":{"$ref":"#/components/schemas/Amount"},"announced":{"type":"object","additionalProperties":false,"properties":{"evalscript_ms":{"type":"integer"},"delivered_mb":{"$ref":"#/components/schemas/Amount"},"egress_gb":{"$ref":"#/components/schemas/Amount"},"ordered_images":{"type":"integer"},"clipped_assets":{"type":"integer"},"other_tools":{"type":"integer"}}}}},
"ProcessingUnits":{"type":"object","properties":{"processing_units":{"type":"string","examples":["128/3"]},"debited":{"type":"number"}}},
"Account":{"type":"object","properties":{"account":{"type":"string"},"user_id":{"type":"string"},"role":{"type":"string","enum":["guard","service"]},"rule":{"type":"string","enum":["reservation","published"]},"jitter":{"type":"string"},"policies":{"type":"array","items":{"type":"object","properties":{"policy":{"type":"string"},"type":{"type":"string"},"capacity":{"type":"integer"},"period":{"type":"string"},"refill_ns":{"type":"integer"},"left":{"type":"number"},"full_in_ns":{"type":["integer","null"]}}}},"outstanding":{"type":"integer"},"outstanding_costs":{"$ref":"#/components/schemas/Debited"},"booked_until":{"type":["string","null"],"format":"date-time"},"refreshed_at":{"type":["string","null"],"format":"date-time"},"granted":{"type":"integer"},"refused":{"type":"integer"},"refusals_met":{"type":"integer"},"mark":{"type":"string"},"sync":{"type":["object","null"],"properties":{"contract_age":{"type":["string","null"]},"counts_age":{"type":["string","null"]},"fetches":{"type":"integer"},"failures":{"type":"integer"},"error":{"type":["string","null"]}}}}},
"Reservation":{"type":"integer","minimum":1},
"GrantAsk":{"type":"object","additionalProperties":false,"required":["hotkey","revision","environment","uid"],"properties":{"hotkey":{"type":"string","maxLength":512},"revision":{"type":"string","maxLength":512},"environment":{"type":"string","maxLength":512},"uid":{"type":"integer"},"want":{"type":"integer","minimum":0,"maximum":1000000},"dry_run":{"type":"boolean"}}},
"Grant":{"type":"object","properties":{"granted":{"type":"integer"},"wanted":{"type":"integer"},"reason":{"type":"string","enum":["limited","exempt","unlimited"]},"count":{"type":"integer"},"limit":{"type":["integer","null"]},"remaining":{"type":["integer","null"]},"parent":{"oneOf":[{"type":"object","properties":{"count":{"type":"integer"},"limit":{"type":"integer"}}},{"type":"null"}]},"next_free":{"type":"string","format":"date-time"},"next_free_ns":{"type":"integer"},"retry_after_ms":{"type":"integer"},"reservation":{"type":["integer","null"]}}},
"Commit":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Reservation"},"created":{"type":"integer","minimum":0}}},
"Release":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Reservation"}}},
"ReservationEnd":{"type":"object","properties":{"state":{"type":"string","enum":["committed","released"]},"given_back":{"type":"integer"}}},
"Sampling":{"type":"object","properties":{"mode":{"type":"string","enum":["strict","published"]},"grants":{"type":"string","enum":["capped","gate"]},"window_s":{"type":"integer"},"keys":{"type":"integer"},"reservations":{"type":"integer"},"environments":{"type":"array","items":{"type":"object","properties":{"environment":{"type":"string"},"rotation_count":{"type":"number"},"rotation_interval":{"type":"number"},"sampling_count":{"type":"number"},"limit":{"type":["integer","null"]},"parent_limit":{"type":["integer","null"]},"grants":{"type":"integer"},"granted":{"type":"integer"},"refused":{"type":"integer"}}}},"key":{"$ref":"#/components/schemas/Grant"}}},
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
"PoolAllocation":{"type":"object","properties":{"instanceId":{"type":"string"},"allocation":{"type":"object","properties":{"instanceCount":{"type":"integer"},"pools":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}},"dynamicLimits":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"integer"}}}}}}},
"State":{"type":"object","properties":{"state":{"type":"string"}}},
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
"Ending":{"type":"object","properties":{"state":{"type":"string"},"started":{"type":["integer","null"]},"tokens_micro":{"type":["integer","null"]}}},
"Document":{"type":"object"},
"Problem":{"type":"object","properties":{"type":{"type":"string"},"title":{"type":"string"},"status":{"type":"integer"},"detail":{"type":"string"}}}
})json";

void append_content(std::string& out, std::string_view type, std::string_view schema) {
  out += R"("content":{)";
  append_quoted(out, type);
  out += R"(:{"schema":{"$ref":"#/components/schemas/)";
  out += schema;
  out += R"("}}})";
}

void append_parameters(std::string& out, const Route& route) {
  out += R"("parameters":[)";
  if (const std::string_view name = parameter_of(route); !name.empty()) {
    out += R"({"in":"path","name":)";
    append_quoted(out, name);
    out += R"(,"required":true,"schema":{"type":"string"}})";
  }
  for (const QueryParameter& parameter : route.query) {
    if (out.back() != '[') out += ',';
    out += R"({"in":"query","name":)";
    append_quoted(out, parameter.name);
    out += R"(,"required":)";
    out += parameter.required ? "true" : "false";
    out += R"(,"description":)";
    append_quoted(out, parameter.summary);
    out += parameter.repeats ? R"(,"schema":{"type":"array","items":{"type":"string"}}})"
                             : R"(,"schema":{"type":"string"}})";
  }
  out += "],";
}

// A refusal has the schema of the decision, whatever its status.
void append_responses(std::string& out, const Route& route) {
  out += R"("responses":{"200":{"description":"The answer.")";
  if (!route.answer.empty()) {
    out += ',';
    append_content(out, "application/json", route.answer);
  }
  out += '}';
  if (route.answer == "Consumed") {
    out += R"(,"429":{"description":"Refused, as the service does.",)";
    append_content(out, "application/json", "Refused");
    out += '}';
  }
  const bool may_be_overloaded = route.answer == "Decision";
  const bool is_grant = route.answer == "Grant";
  if (may_be_overloaded || is_grant || route.answer == "Submitted" || route.answer == "Reserved") {
    for (const std::string_view refusal : {R"("429":{"description":"Denied.",)",
                                           R"("422":{"description":"Never: it costs too much.",)",
                                           R"("503":{"description":"Overloaded.",)"}) {
      if (refusal.starts_with(R"("503")") && !may_be_overloaded) continue;
      if (refusal.starts_with(R"("422")") && is_grant) continue;
      out += ',';
      out += refusal;
      append_content(out, "application/json", route.answer);
      out += '}';
    }
  }
  out += R"(,"default":{"description":"Why there is no answer.",)";
  append_content(out, kProblemType, "Problem");
  out += "}}";
}

void append_operation(std::string& out, const Route& route) {
  std::string method(route.method);
  std::transform(method.begin(), method.end(), method.begin(),
                 [](char c) { return static_cast<char>(c + 32); });
  append_quoted(out, method);
  out += R"(:{"operationId":)";
  append_quoted(out, route.name);
  out += R"(,"summary":)";
  append_quoted(out, route.summary);
  out += R"(,"x-weir-role":)";
  append_quoted(out, to_string(route.role));
  out += R"(,"security":)";
  out += route.role == Role::kNobody ? "[]," : R"([{"bearer":[]}],)";
  append_parameters(out, route);
  if (!route.body.empty()) {
    out += R"("requestBody":{"required":true,)";
    append_content(out, "application/json", route.body);
    out += "},";
  }
  append_responses(out, route);
  out += '}';
}

}  // namespace

std::string openapi_of(std::span<const Route* const> routes) {
  std::string out = R"({"openapi":"3.1.0","info":{"title":"Weir","version":"1",)"
                    R"("description":"May this piece of work start now, and if not, when?"},)"
                    R"("paths":{)";
  std::vector<std::string_view> done;
  for (const Route* const first : routes) {
    if (std::find(done.begin(), done.end(), first->path) != done.end()) continue;
    if (!done.empty()) out += ',';
    done.push_back(first->path);
    append_quoted(out, first->path);
    out += ":{";
    for (const Route* const route : routes) {
      if (route->path != first->path) continue;
      if (out.back() != '{') out += ',';
      append_operation(out, *route);
    }
    out += '}';
  }
  out += R"(},"components":{"securitySchemes":{"bearer":{"type":"http","scheme":"bearer"}},)";
  out += R"("schemas":)";
  out += kSchemas;
  out += "}}";
  return out;
}

}  // namespace weir::wire::http
