#include "weir/wire/http/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "weir/wire/http/problem.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

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

void append_responses(std::string& out, const Route& route, const Schemas& schemas) {
  out += R"("responses":{"200":{"description":"The answer.")";
  if (!route.answer.empty()) {
    out += ',';
    append_content(out, "application/json", route.answer);
  }
  out += '}';
  for (const Refusal& refusal : schemas.refusals) {
    if (refusal.answer != route.answer) continue;
    fmt::format_to(std::back_inserter(out), R"(,"{}":{{"description":)", refusal.status);
    append_quoted(out, refusal.description);
    out += ',';
    append_content(out, "application/json", refusal.schema);
    out += '}';
  }
  out += R"(,"default":{"description":"Why there is no answer.",)";
  append_content(out, kProblemType, "Problem");
  out += "}}";
}

void append_operation(std::string& out, const Route& route, const Schemas& schemas) {
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
  append_responses(out, route, schemas);
  out += '}';
}

}  // namespace

std::string openapi_of(std::span<const RouteTable* const> tables) {
  struct Row {
    const Route& route;
    const Schemas& schemas;
  };
  std::vector<Row> rows;
  for (const RouteTable* const table : tables) {
    for (const Route& route : table->rows()) rows.push_back({route, table->schemas()});
  }
  std::string out = R"({"openapi":"3.1.0","info":{"title":"Weir","version":"1",)"
                    R"("description":"May this piece of work start now, and if not, when?"},)"
                    R"("paths":{)";
  std::vector<std::string_view> done;
  for (const Row& first : rows) {
    const std::string_view path = first.route.path;
    if (std::find(done.begin(), done.end(), path) != done.end()) continue;
    if (!done.empty()) out += ',';
    done.push_back(path);
    append_quoted(out, path);
    out += ":{";
    for (const Row& row : rows) {
      if (row.route.path != path) continue;
      if (out.back() != '{') out += ',';
      append_operation(out, row.route, row.schemas);
    }
    out += '}';
  }
  out += R"(},"components":{"securitySchemes":{"bearer":{"type":"http","scheme":"bearer"}},)";
  out += R"("schemas":{)";
  for (const RouteTable* const table : tables) {
    if (table->schemas().json.empty()) continue;
    if (out.back() != '{') out += ',';
    out += table->schemas().json;
  }
  out += "}}}";
  return out;
}

}  // namespace weir::wire::http
