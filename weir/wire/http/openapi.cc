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

constexpr std::string_view kJson = "application/json";

// "application/json":{"schema":…}. `what`: a schema; or the type, of a text.
void append_media(std::string& out, std::string_view what, std::string_view type = kJson) {
  const bool is_text = what.find('/') != std::string_view::npos;
  append_quoted(out, is_text ? what : type);
  if (is_text) {
    out += R"(:{"schema":{"type":"string"}})";
  } else {
    fmt::format_to(std::back_inserter(out), R"(:{{"schema":{{"$ref":"#/components/schemas/{}"}}}})",
                   what);
  }
}

void append_problem_media(std::string& out) { append_media(out, "Problem", kProblemType); }

void append_header(std::string& out, std::string_view name, std::string_view type,
                   std::string_view summary) {
  if (out.back() != '{') out += ',';
  append_quoted(out, name);
  out += R"(:{"description":)";
  append_quoted(out, summary);
  out += R"(,"schema":{"type":)";
  append_quoted(out, type);
  out += "}}";
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

// What the answers of a route can have, as its table tells it.
struct Answers {
  const Route& route;
  const Schemas& schemas;
  HeaderStyle style;

  bool has(const AnswerHeader& header, unsigned status) const noexcept {
    using On = AnswerHeader::On;
    return header.answer == route.answer && header.style.value_or(style) == style &&
           (header.on == On::kEvery || (header.on == On::kSuccess) == (status == 200));
  }
  bool has(const Refusal& refusal) const noexcept {
    return refusal.answer == route.answer && (refusal.route.empty() || refusal.route == route.name);
  }
};

void append_challenge(std::string& out) {
  append_header(out, "WWW-Authenticate", "string", "How to say who asks; of a problem only.");
}

// "headers":{…},
void append_headers_of(std::string& out, const Answers& answers, unsigned status) {
  out += R"("headers":{)";
  for (const AnswerHeader& header : answers.schemas.headers) {
    if (answers.has(header, status)) append_header(out, header.name, header.type, header.summary);
  }
  if (status == 401) append_challenge(out);
  out += "},";
}

// A refusal has a status that a problem may have as well.
void append_refusal(std::string& out, const Answers& answers, const Refusal& refusal) {
  fmt::format_to(std::back_inserter(out), R"(,"{}":{{"description":)", refusal.status);
  append_quoted(out, refusal.description);
  out += ',';
  append_headers_of(out, answers, refusal.status);
  out += R"("content":{)";
  if (!refusal.schema.empty()) {
    append_media(out, refusal.schema);
    out += ',';
    append_problem_media(out);
  }
  out += "}}";
}

void append_responses(std::string& out, const Answers& answers) {
  out += R"("responses":{"200":{"description":"The answer.",)";
  append_headers_of(out, answers, 200);
  out += R"("content":{)";
  if (!answers.route.answer.empty()) append_media(out, answers.route.answer);
  out += "}}";
  for (const Refusal& refusal : answers.schemas.refusals) {
    if (answers.has(refusal)) append_refusal(out, answers, refusal);
  }
  out += R"(,"default":{"description":"Why there is no answer.","headers":{)";
  append_challenge(out);
  out += R"(},"content":{)";
  append_problem_media(out);
  out += "}}}";
}

void append_operation(std::string& out, const Answers& answers) {
  const Route& route = answers.route;
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
    out += R"("requestBody":{"required":true,"content":{)";
    append_media(out, route.body);
    out += "}},";
  }
  append_responses(out, answers);
  out += '}';
}

}  // namespace

std::string openapi_of(std::span<const RouteTable* const> tables, HeaderStyle style) {
  std::vector<Answers> rows;
  for (const RouteTable* const table : tables) {
    for (const Route& route : table->rows()) rows.push_back({route, table->schemas(), style});
  }
  std::string out = R"({"openapi":"3.1.0","info":{"title":"Weir","version":")" WEIR_VERSION
                    R"(","description":"May this piece of work start now, and if not, when?"},)"
                    R"("servers":[{"url":"/"}],"paths":{)";
  std::vector<std::string_view> done;
  for (const Answers& first : rows) {
    const std::string_view path = first.route.path;
    if (std::find(done.begin(), done.end(), path) != done.end()) continue;
    if (!done.empty()) out += ',';
    done.push_back(path);
    append_quoted(out, path);
    out += ":{";
    for (const Answers& row : rows) {
      if (row.route.path != path) continue;
      if (out.back() != '{') out += ',';
      append_operation(out, row);
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
