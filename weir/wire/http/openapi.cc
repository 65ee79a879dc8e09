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
"Costs":{"type":"object","additionalProperties":{"type":"integer","minimum":0},"examples":[{"tokens":1200}]},
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
"Meters":{"type":"object","properties":{"limit":{"type":"string"},"key":{"type":"array","items":{"type":"string"}},"remaining":{"type":"integer"},"capacity":{"type":"integer"},"overridden":{"type":"boolean"},"waiters":{"type":"integer"},"heaviest":{"type":"array","items":{"type":"object","properties":{"key":{"type":"string"},"units":{"type":"integer"}}}}}},
"Rules":{"type":"object","properties":{"limits":{"type":"array","items":{"type":"object"}},"units":{"type":"array","items":{"type":"object"}},"attributes":{"type":"array","items":{"type":"string"}}}},
"Claim":{"type":"integer","minimum":1},
"Submission":{"type":"object","additionalProperties":false,"required":["operation"],"properties":{"operation":{"type":"string"},"role":{"type":"string","enum":["front_end","consensus"]},"at_ns":{"type":"integer"},"payer":{"type":"integer"},"count":{"type":"integer","minimum":1},"gas":{"type":"integer","minimum":0},"bytes":{"type":"integer","minimum":0},"nfts":{"type":"integer","minimum":0},"creations":{"type":"integer","minimum":0},"associations":{"type":"integer","minimum":0},"high_volume":{"type":"boolean"},"scheduled":{"type":"object","additionalProperties":false,"properties":{"operation":{"type":"string"},"uses_aliases":{"type":"boolean"},"creations":{"type":"integer","minimum":0}}},"scheduled_then":{"type":"integer","minimum":0},"dry_run":{"type":"boolean"}}},
"Submitted":{"type":"object","properties":{"status":{"type":"string","enum":["OK","BUSY","THROTTLED_AT_CONSENSUS","CONSENSUS_GAS_EXHAUSTED"]},"verdict":{"$ref":"#/components/schemas/Verdict"},"refused_by":{"type":["string","null"]},"shortfall":{"type":"integer"},"earliest":{"type":["string","null"],"format":"date-time"},"earliest_ns":{"type":["integer","null"]},"retry_after_ms":{"type":["integer","null"]},"multiplier":{"type":"integer"},"claim":{"type":["integer","null"]}}},
"ClaimSettlement":{"type":"object","additionalProperties":false,"required":["claim"],"properties":{"claim":{"$ref":"#/components/schemas/Claim"},"gas":{"type":"integer","minimum":0}}},
"ClaimCancellation":{"type":"object","additionalProperties":false,"required":["claim"],"properties":{"claim":{"$ref":"#/components/schemas/Claim"}}},
"ThrottleBucket":{"type":"object","properties":{"name":{"type":"string"},"high_volume":{"type":"boolean"},"burst_ms":{"type":"integer"},"milli_ops":{"type":"integer"},"used":{"type":"integer"},"capacity":{"type":"integer"},"percent_used":{"type":"number"}}},
"ThrottleSet":{"type":"object","properties":{"buckets":{"type":"array","items":{"$ref":"#/components/schemas/ThrottleBucket"}},"dropped":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"high_volume":{"type":"boolean"},"finding":{"type":"string"}}}},"gas":{"$ref":"#/components/schemas/ThrottleBucket"},"bytes":{"oneOf":[{"$ref":"#/components/schemas/ThrottleBucket"},{"type":"null"}]},"duration":{"$ref":"#/components/schemas/ThrottleBucket"}}},
"Throttles":{"type":"object","properties":{"nodes":{"type":"integer"},"multipliers":{"type":"object","properties":{"generic":{"type":"integer"},"gas":{"type":"integer"}}},"front_end":{"$ref":"#/components/schemas/ThrottleSet"},"consensus":{"$ref":"#/components/schemas/ThrottleSet"}}},
"Restored":{"type":"object","properties":{"state":{"type":"string"},"restored":{"type":"integer"},"converted":{"type":"array","items":{"type":"string"}},"unknown":{"type":"array","items":{"type":"string"}},"missing":{"type":"array","items":{"type":"string"}}}},
"Reservation":{"type":"integer","minimum":1},
"GrantAsk":{"type":"object","additionalProperties":false,"required":["hotkey","revision","environment","uid"],"properties":{"hotkey":{"type":"string","maxLength":512},"revision":{"type":"string","maxLength":512},"environment":{"type":"string","maxLength":512},"uid":{"type":"integer"},"want":{"type":"integer","minimum":0,"maximum":1000000},"dry_run":{"type":"boolean"}}},
"Grant":{"type":"object","properties":{"granted":{"type":"integer"},"wanted":{"type":"integer"},"reason":{"type":"string","enum":["limited","exempt","unlimited"]},"count":{"type":"integer"},"limit":{"type":["integer","null"]},"remaining":{"type":["integer","null"]},"parent":{"oneOf":[{"type":"object","properties":{"count":{"type":"integer"},"limit":{"type":"integer"}}},{"type":"null"}]},"next_free":{"type":"string","format":"date-time"},"next_free_ns":{"type":"integer"},"retry_after_ms":{"type":"integer"},"reservation":{"type":["integer","null"]}}},
"Commit":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Reservation"},"created":{"type":"integer","minimum":0}}},
"Release":{"type":"object","additionalProperties":false,"required":["reservation"],"properties":{"reservation":{"$ref":"#/components/schemas/Reservation"}}},
"ReservationEnd":{"type":"object","properties":{"state":{"type":"string","enum":["committed","released"]},"given_back":{"type":"integer"}}},
"Sampling":{"type":"object","properties":{"mode":{"type":"string","enum":["strict","published"]},"grants":{"type":"string","enum":["capped","gate"]},"window_s":{"type":"integer"},"keys":{"type":"integer"},"reservations":{"type":"integer"},"environments":{"type":"array","items":{"type":"object","properties":{"environment":{"type":"string"},"rotation_count":{"type":"number"},"rotation_interval":{"type":"number"},"sampling_count":{"type":"number"},"limit":{"type":["integer","null"]},"parent_limit":{"type":["integer","null"]},"grants":{"type":"integer"},"granted":{"type":"integer"},"refused":{"type":"integer"}}}},"key":{"$ref":"#/components/schemas/Grant"}}},
"State":{"type":"object","properties":{"state":{"type":"string"}}},
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
  if (route.path.ends_with("{limit}")) {
    out += R"({"name":"limit","in":"path","required":true,"schema":{"type":"string"}})";
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
  const bool may_be_overloaded = route.answer == "Decision";
  const bool is_grant = route.answer == "Grant";
  if (may_be_overloaded || is_grant || route.answer == "Submitted") {
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

std::string make_openapi() {
  std::string out = R"({"openapi":"3.1.0","info":{"title":"Weir","version":"1",)"
                    R"("description":"May this piece of work start now, and if not, when?"},)"
                    R"("paths":{)";
  std::vector<std::string_view> done;
  for (const Route& first : routes()) {
    if (std::find(done.begin(), done.end(), first.path) != done.end()) continue;
    if (!done.empty()) out += ',';
    done.push_back(first.path);
    append_quoted(out, first.path);
    out += ":{";
    for (const Route& route : routes()) {
      if (route.path != first.path) continue;
      if (out.back() != '{') out += ',';
      append_operation(out, route);
    }
    out += '}';
  }
  out += R"(},"components":{"securitySchemes":{"bearer":{"type":"http","scheme":"bearer"}},)";
  out += R"("schemas":)";
  out += kSchemas;
  out += "}}";
  return out;
}

}  // namespace

const std::string& openapi() {
  static const std::string text = make_openapi();
  return text;
}

}  // namespace weir::wire::http
