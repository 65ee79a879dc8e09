#include "weir/wire/http/routes.h"

namespace weir::wire::http {
namespace {

constexpr std::string_view kParameter = "{limit}";

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

constexpr std::array<QueryParameter, 2> kSnapshotQuery = {{
    {"role", false, false, "Whose buckets: 'consensus', or 'front_end'. Default: consensus."},
    {"form", false, false,
     "'named', or 'positional' as the network has it, of consensus only. Default: named."},
}};

constexpr std::array<QueryParameter, 4> kSamplingQuery = {{
    {"hotkey", false, false, "Of one key: whose tasks; with 'revision' and 'environment'."},
    {"revision", false, false, "Of one key: the model's revision."},
    {"environment", false, false, "Of one key: what is sampled."},
    {"uid", false, false, "Of one key: the miner's id, which may be exempt."},
}};

constexpr Route with_names(Route route) {
  for (std::size_t i = 0; i < route.query.size(); ++i) route.names[i] = route.query[i].name;
  return route;
}

// The hot one comes first.
constexpr std::array kRoutes = {
    Route{"POST", "/v1/acquire", Role::kDecide, acquire, "acquire",
          "Decide and charge, all limits or none; optionally hold, wait, book or take less.", "Ask",
          "Decision"},
    Route{"POST", "/v1/batch", Role::kDecide, batch, "batch",
          "Decide many requests in order, in one go.", "Batch", "Decisions"},
    Route{"POST", "/v1/peek", Role::kObserve, peek, "peek",
          "Tell what a request would be answered, charging nothing.", "Request", "Decision"},
    with_names({"GET", "/v1/authorize", Role::kDecide, authorize, "authorize",
                "Decide and charge as acquire does, for a proxy: attributes and costs come in "
                "headers.",
                "", "Decision", kAuthorizeQuery}),
    Route{"POST", "/v1/settle", Role::kDecide, settle, "settle",
          "End a hold with the actual costs.", "Settlement", "State"},
    Route{"POST", "/v1/cancel", Role::kDecide, cancel, "cancel",
          "End a hold and give everything back.", "Cancellation", "State"},
    Route{"POST", "/v1/renew", Role::kDecide, renew, "renew",
          "Let a hold last longer, counted from now.", "Renewal", "State"},
    Route{"GET", "/v1/limits", Role::kObserve, show_limits, "limits", "Show the rules in force.",
          "", "Rules"},
    with_names({"GET", "/v1/meters", Role::kObserve, show_meters, "meters",
                "Show what one key has left, or the heaviest keys of a limit.", "", "Meters",
                kMeterQuery}),
    Route{"POST", "/v1/reset", Role::kAdmin, reset, "reset", "Forget what one key has used.",
          "KeyName", "State"},
    with_names({"PUT", "/v1/overrides/{limit}", Role::kAdmin, set_override, "set_override",
                "Give one key parameters of its own.", "Meter", "State", kKeyQuery}),
    with_names({"DELETE", "/v1/overrides/{limit}", Role::kAdmin, clear_override, "clear_override",
                "Take one key's own parameters away.", "", "State", kKeyQuery}),
    Route{"POST", "/v1/throttle/submit", Role::kDecide, submit_transaction, "throttle_submit",
          "Decide one transaction as the network does, and claim what it takes.", "Submission",
          "Submitted"},
    Route{"POST", "/v1/throttle/settle", Role::kDecide, settle_claim, "throttle_settle",
          "End a claim with the gas that was used; the rest is given back.", "ClaimSettlement",
          "State"},
    Route{"POST", "/v1/throttle/cancel", Role::kDecide, cancel_claim, "throttle_cancel",
          "End a claim and give everything back.", "ClaimCancellation", "State"},
    Route{"GET", "/v1/throttle", Role::kObserve, show_throttles, "throttle",
          "Show the levels of the throttles and the congestion multipliers.", "", "Throttles"},
    with_names({"GET", "/v1/throttle/snapshot", Role::kObserve, show_snapshot, "throttle_snapshot",
                "Save the levels and clocks of the throttles.", "", "Document", kSnapshotQuery}),
    with_names({"PUT", "/v1/throttle/snapshot", Role::kAdmin, restore_snapshot, "throttle_restore",
                "Bring back levels and clocks that were saved.", "Document", "Restored",
                kSnapshotQuery}),
    Route{"PUT", "/v1/throttle/definitions", Role::kAdmin, set_definitions, "throttle_definitions",
          "Replace the definitions of the throttles, all of them or none.", "Document", "State"},
    Route{"POST", "/v1/sampling/grant", Role::kDecide, grant_tasks, "sampling_grant",
          "Grant up to so many tasks of an environment to a miner, and reserve them.", "GrantAsk",
          "Grant"},
    Route{"POST", "/v1/sampling/commit", Role::kDecide, commit_tasks, "sampling_commit",
          "End a reservation: so many of its tasks exist, the others are given back.", "Commit",
          "ReservationEnd"},
    Route{"POST", "/v1/sampling/release", Role::kDecide, release_tasks, "sampling_release",
          "End a reservation and give all its tasks back.", "Release", "ReservationEnd"},
    with_names({"GET", "/v1/sampling", Role::kObserve, show_sampling, "sampling",
                "Show the allowances of all environments, and what one key has left.", "",
                "Sampling", kSamplingQuery}),
    Route{"POST", "/v1/reload", Role::kAdmin, reload, "reload",
          "Read the configuration again and put it in force.", "", "State"},
    Route{"GET", "/v1/events", Role::kObserve, stream_events, "events",
          "Stream the state of the engine as server-sent events."},
    Route{"GET", "/metrics", Role::kObserve, show_metrics, "metrics",
          "Show the metrics in the text format of Prometheus."},
    Route{"GET", "/healthz", Role::kNobody, show_health, "healthz", "Tell that the server runs."},
    Route{"GET", "/readyz", Role::kNobody, show_readiness, "readyz",
          "Tell whether requests should be sent here."},
    Route{"GET", "/openapi.json", Role::kNobody, show_openapi, "openapi",
          "Describe these routes as an OpenAPI 3.1 document.", "", "Document"},
};

}  // namespace

std::span<const Route> routes() noexcept { return kRoutes; }

bool matches(const Route& route, std::string_view path, std::string_view& parameter) noexcept {
  if (!route.path.ends_with(kParameter)) return route.path == path;
  const std::string_view fixed = route.path.substr(0, route.path.size() - kParameter.size());
  if (!path.starts_with(fixed)) return false;
  const std::string_view rest = path.substr(fixed.size());
  if (rest.empty() || rest.find('/') != std::string_view::npos) return false;
  parameter = rest;
  return true;
}

}  // namespace weir::wire::http
