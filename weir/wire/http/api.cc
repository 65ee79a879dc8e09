#include "weir/wire/http/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/openapi.h"
#include "weir/wire/http/problem.h"
#include "weir/wire/http/query.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/text.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

constexpr std::size_t kShownPathBytesMax = 128;  // of a client's text in a message

std::string shown(std::string_view text) { return std::string(text.substr(0, kShownPathBytesMax)); }

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  return std::equal(content_type.begin(), content_type.end(), kJson.begin(), kJson.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

// The route for the call, or nullptr with the problem already written.
const Route* find_route(Exchange& exchange, std::string_view path) {
  const Call& call = exchange.call;
  const bool is_head = call.method == "HEAD";
  const std::string_view method = is_head ? "GET" : call.method;
  std::string allow;
  std::size_t place = 0;
  for (const RouteTable* const table : exchange.api.tables()) {
    for (const Route& route : table->rows()) {
      if (!matches(route, path, exchange.raw_parameter)) {
        ++place;
      } else if (route.method == method && (!is_head || route.takes_head)) {
        exchange.answer.route = place;
        exchange.table = table;
        return &route;
      } else {
        ++place;
        allow += allow.empty() ? "" : ", ";
        allow += route.method == "GET" && route.takes_head ? "GET, HEAD" : route.method;
      }
    }
  }
  if (allow.empty()) {
    exchange.fail(Problem::kNotFound,
                  fmt::format("path '{}': there is no such route; GET /openapi.json lists them",
                              shown(path)));
    return nullptr;
  }
  exchange.fail(Problem::kMethodNotAllowed, fmt::format("method '{}': {} does not take it; use {}",
                                                        shown(call.method), shown(path), allow));
  exchange.answer.headers = fmt::format("Allow: {}\r\n", allow);
  return nullptr;
}

bool check_role(Exchange& exchange, const Route& route) {
  const Role role = exchange.call.role;
  if (role >= route.role) return true;
  if (role == Role::kNobody) {
    exchange.fail(
        Problem::kUnauthenticated,
        fmt::format("{} {} needs the role '{}', and the request has no token that is known here; "
                    "send 'Authorization: Bearer …' with a token that has it",
                    route.method, route.path, to_string(route.role)));
    exchange.answer.headers = "WWW-Authenticate: Bearer realm=\"weir\"\r\n";
  } else {
    exchange.fail(Problem::kForbidden,
                  fmt::format("{} {} needs the role '{}', but the token has '{}'; use one that has "
                              "it",
                              route.method, route.path, to_string(route.role), to_string(role)));
  }
  return false;
}

bool check_reach(Exchange& exchange, const Route& route) {
  if (exchange.call.reach == nullptr || route.when_bound != WhenBound::kRefuses) return true;
  return exchange.fail(
      Problem::kForbidden,
      fmt::format("{} {} is not for a token that is bound by 'only' or to names of a system; use "
                  "one that is not",
                  route.method, route.path));
}

bool check_visit(Exchange& exchange) {
  const Visit& visit = exchange.call.visit;
  if (is_ordinary(visit)) return true;
  const std::string why = exchange.api.objection_to(visit);
  return why.empty() || exchange.fail(Problem::kForbidden, why);
}

// The header that no form, image or script of a page can send unasked.
bool is_deliberate(const Call& call) {
  return std::any_of(call.fields.begin(), call.fields.end(),
                     [](const Field& field) { return is_same_word(field.name, kRequestField); });
}

bool check_content(Exchange& exchange, const Route& route) {
  const Call& call = exchange.call;
  if (call.body.size() > kBodyBytesMax) {
    exchange.fail(Problem::kTooLarge,
                  fmt::format("body: it is {} bytes long, but at most {} are read; write less",
                              call.body.size(), kBodyBytesMax));
    return false;
  }
  if (route.method == "GET" || is_json(call.content_type)) return true;
  if (call.content_type.empty() || route.body.empty()) {
    return is_deliberate(call) ||
           exchange.fail(
               Problem::kUnsupportedType,
               fmt::format(
                   "content-type is {}, but {} {} must come as JSON or with 'Weir-Request', as no "
                   "page can send it unasked; write 'Content-Type: application/json' (curl "
                   "--json), or 'Weir-Request: 1' (curl -H)",
                   call.content_type.empty() ? "missing" : in_quotes(call.content_type),
                   route.method, route.path));
  }
  return exchange.fail(Problem::kUnsupportedType,
                       fmt::format("content-type is {}, but this route reads JSON; write "
                                   "'Content-Type: application/json' (curl --json)",
                                   in_quotes(call.content_type)));
}

// Path parameter and query, decoded.
bool read_target(Exchange& exchange, const Route& route, std::string_view query) {
  if (!exchange.raw_parameter.empty()) {
    Result<std::string> decoded = percent_decoded(fmt::format("path: '{}'", parameter_of(route)),
                                                  exchange.raw_parameter, Plus::kIsPlus);
    if (!decoded) return exchange.fail(decoded.error());
    exchange.parameter = std::move(*decoded);
  }
  if (query.empty()) return true;
  Result<Query> read = Query::read(query, route.query_names());
  if (!read) return exchange.fail(read.error());
  exchange.query = std::move(*read);
  return true;
}

void dispatch(Exchange& exchange) {
  const Call& call = exchange.call;
  if (!check_visit(exchange)) return;
  if (call.target.size() > kTargetBytesMax) {
    exchange.fail(Problem::kTargetTooLong,
                  fmt::format("target: it is {} bytes long, but at most {} are read; write less",
                              call.target.size(), kTargetBytesMax));
    return;
  }
  const Target target = split_target(call.target);
  const Route* route = find_route(exchange, target.path);
  if (route == nullptr || !check_role(exchange, *route) || !check_reach(exchange, *route) ||
      !check_content(exchange, *route) || !read_target(exchange, *route, target.query)) {
    return;
  }
  route->handle(exchange);
}

std::vector<const RouteTable*> with_engine(std::vector<const RouteTable*> systems) {
  systems.insert(systems.begin(), &engine_routes());
  return systems;
}

std::vector<const Route*> rows_of(const std::vector<const RouteTable*>& tables) {
  std::vector<const Route*> routes;
  for (const RouteTable* const table : tables) {
    for (const Route& route : table->rows()) routes.push_back(&route);
  }
  return routes;
}

}  // namespace

Api::Api(engine::Engine& engine, Host& host, HttpSettings settings,
         std::vector<const RouteTable*> systems)
    : engine_(engine),
      host_(host),
      settings_(std::move(settings)),
      tables_(with_engine(std::move(systems))),
      routes_(rows_of(tables_)),
      visitors_(std::in_place, settings_.visitors) {}

void Api::admit(Visitors visitors) noexcept {
  const std::scoped_lock lock(visitors_);
  visitors_.locked() = std::move(visitors);
}

std::string Api::objection_to(const Visit& visit) const {
  const std::scoped_lock lock(visitors_);
  return objection(visitors_.locked(), visit);
}

const std::string& Api::openapi() {
  std::call_once(describes_, [this] { openapi_ = openapi_of(tables_, settings_.headers); });
  return openapi_;
}

bool Api::handle(const Call& call, Instant now, Answer& answer, Later later) noexcept {
  answer.status = 200;
  answer.content_type = {};
  answer.headers.clear();
  answer.body.clear();
  answer.is_stream = false;
  answer.route = routes_.size();
  answer.give_up = nullptr;
  answer.discard = nullptr;
  answer.record = 0;
  Exchange exchange{*this, call, now, answer, later};
  dispatch(exchange);
  if (call.method == "HEAD") {
    answer.body.clear();
    answer.is_stream = false;
  }
  return !exchange.waits;
}

std::string Api::event(Instant now) noexcept {
  std::string out = "event: state\ndata: ";
  append_state(out, engine_, now);
  out += "\n\n";
  return out;
}

void Api::answer_decision(const Decision& decision, bool up_to, Instant now,
                          Answer& answer) noexcept {
  answer.status = status_of(decision.verdict);
  answer.content_type = kJsonType;
  append_decision(answer.body, decision, up_to ? Granted::kAsked : Granted::kNotAsked, now);
  if (settings_.headers == HeaderStyle::kNone) {
    append_retry_after(answer.headers, decision, now);
  } else {
    append_headers(answer.headers, settings_.headers, *policies(), decision, now);
  }
}

std::shared_ptr<const Policies> Api::policies() {
  std::shared_ptr<const engine::RuleSet> rules = engine_.rules();
  const std::scoped_lock lock(policies_lock_);
  if (policies_ == nullptr || &policies_->rules() != rules.get()) {
    policies_ = std::make_shared<Policies>(std::move(rules));
  }
  return policies_;
}

}  // namespace weir::wire::http
