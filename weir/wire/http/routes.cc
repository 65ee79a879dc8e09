#include "weir/wire/http/routes.h"

#include "weir/wire/http/engine_schemas.h"

namespace weir::wire::http {
namespace {

constexpr std::array<QueryParameter, 3> kMeterQuery = {{
    {"limit", true, false, "The name of the limit."},
    {"key", false, true, "The values of the limit's key, in the order of its 'per'."},
    {"heaviest", false, false, "Instead of one key: show so many of the heaviest."},
}};

constexpr std::array<QueryParameter, 1> kKeyQuery = {{
    {"key", false, true, "The values of the limit's key, in the order of its 'per'."},
}};

constexpr std::array<QueryParameter, 1> kAuthorizeQuery = {{
    {"deny", false, false, "The status of a refusal instead of the usual one: 401 or 403."},
}};

constexpr std::array kRows = {
    checks_when_bound(
        Route{"POST", "/v1/acquire", Role::kDecide, acquire, "acquire",
              "Decide and charge, all limits or none; optionally hold, wait, book or take less.",
              "Ask", "Decision"}),
    checks_when_bound(Route{"POST", "/v1/batch", Role::kDecide, batch, "batch",
                            "Decide many requests in order, in one go.", "Batch", "Decisions"}),
    checks_when_bound(Route{"POST", "/v1/peek", Role::kObserve, peek, "peek",
                            "Tell what a request would be answered, charging nothing.", "Request",
                            "Decision"}),
    checks_when_bound(
        with_names({"GET", "/v1/authorize", Role::kDecide, authorize, "authorize",
                    "Decide and charge as acquire does, for a proxy: attributes and costs come in "
                    "headers.",
                    "", "Decision", kAuthorizeQuery, false})),
    answers_when_bound(Route{"POST", "/v1/settle", Role::kDecide, settle, "settle",
                             "End a hold with the actual costs.", "Settlement", "State"}),
    answers_when_bound(Route{"POST", "/v1/cancel", Role::kDecide, cancel, "cancel",
                             "End a hold and give back what it was charged.", "Cancellation",
                             "State"}),
    answers_when_bound(Route{"POST", "/v1/renew", Role::kDecide, renew, "renew",
                             "Let a hold last longer, counted from now.", "Renewal", "State"}),
    Route{"GET", "/v1/limits", Role::kObserve, show_limits, "limits", "Show the rules in force.",
          "", "Rules"},
    checks_when_bound(with_names({"GET", "/v1/meters", Role::kObserve, show_meters, "meters",
                                  "Show what one key has left, or the heaviest keys of a limit.",
                                  "", "Meters", kMeterQuery})),
    Route{"POST", "/v1/reset", Role::kAdmin, reset, "reset", "Forget what one key has used.",
          "KeyName", "State"},
    with_names({"PUT", "/v1/overrides/{limit}", Role::kAdmin, set_override, "set_override",
                "Give one key parameters of its own.", "Meter", "State", kKeyQuery}),
    with_names({"DELETE", "/v1/overrides/{limit}", Role::kAdmin, clear_override, "clear_override",
                "Take one key's own parameters away.", "", "State", kKeyQuery}),
    Route{"POST", "/v1/reload", Role::kAdmin, reload, "reload",
          "Read the configuration again and put it in force.", "", "State"},
    Route{"GET", "/v1/events", Role::kObserve, stream_events, "events",
          "Stream the state of the engine as server-sent events.", "", "text/event-stream"},
    Route{"GET", "/metrics", Role::kObserve, show_metrics, "metrics",
          "Show the metrics in the text format of Prometheus.", "", "text/plain"},
    answers_when_bound(Route{"GET", "/healthz", Role::kNobody, show_health, "healthz",
                             "Tell that the server runs.", "", "text/plain"}),
    answers_when_bound(Route{"GET", "/readyz", Role::kNobody, show_readiness, "readyz",
                             "Tell whether requests should be sent here.", "", "text/plain"}),
    answers_when_bound(Route{"GET", "/openapi.json", Role::kObserve, show_openapi, "openapi",
                             "Describe these routes as an OpenAPI 3.1 document.", "", "Document"}),
};

}  // namespace

const RouteTable& engine_routes() noexcept {
  static const RouteTable table(kRows, kEngineSchemas);
  return table;
}

std::string_view parameter_of(const Route& route) noexcept {
  const std::size_t open = route.path.find('{');
  if (open == std::string_view::npos) return {};
  return route.path.substr(open + 1, route.path.find('}') - open - 1);
}

bool matches(const Route& route, std::string_view path, std::string_view& parameter) noexcept {
  parameter = {};
  const std::size_t open = route.path.find('{');
  if (open == std::string_view::npos) return route.path == path;
  const std::string_view before = route.path.substr(0, open);
  const std::string_view after = route.path.substr(route.path.find('}') + 1);
  const bool is_longer = path.size() > before.size() + after.size();
  if (!is_longer || !path.starts_with(before) || !path.ends_with(after)) return false;
  const std::string_view between =
      path.substr(before.size(), path.size() - before.size() - after.size());
  if (between.find('/') != std::string_view::npos) return false;
  parameter = between;
  return true;
}

}  // namespace weir::wire::http
