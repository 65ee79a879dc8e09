#include "weir/wire/http/routes.h"

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

constexpr std::array<QueryParameter, 1> kUserQuery = {{
    {"userId", true, false, "Whose contracts: 'eq:' and the id."},
}};

constexpr std::array<QueryParameter, 1> kMarkQuery = {{
    {"mark", false, false, "What the account showed before the service was asked."},
}};

constexpr std::array<QueryParameter, 1> kWalletQuery = {{
    {"wallet", true, false, "The name of the wallet."},
}};

constexpr std::array<QueryParameter, 1> kClustersQuery = {{
    {"after", false, false, "Leave out so many; 'next' of an answer tells."},
}};

constexpr std::array<QueryParameter, 2> kAllocationsQuery = {{
    {"worker", true, false, "The name of the worker."},
    {"epoch", false, false, "As they were at the first block of this epoch. Default: now."},
}};

constexpr std::array<QueryParameter, 2> kHistoryQuery = {{
    {"after", false, false, "Only operations with greater numbers."},
    {"wallet", false, false, "Only operations of this wallet."},
}};

constexpr std::array<QueryParameter, 1> kQueryQuery = {{
    {"query", true, false, "The number of a query that was accepted."},
}};

constexpr std::array<QueryParameter, 1> kWorkerQuery = {{
    {"portal", false, false, "Show the cluster of this portal instead of the worker."},
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
    Route{"POST", "/v1/pool/acquire", Role::kDecide, acquire_job, "pool_acquire",
          "Ask for a place of a job at the first model that has one, and wait for it.", "JobAsk",
          "JobStart"},
    Route{"POST", "/v1/pool/release", Role::kDecide, release_job, "pool_release",
          "End a job with what it used, or let it go on to the next model.", "JobRelease",
          "JobEnd"},
    Route{"POST", "/v1/pool/renew", Role::kDecide, renew_job, "pool_renew",
          "Let a job run longer, counted from now.", "JobRenewal", "JobRenewed"},
    Route{"GET", "/v1/pool", Role::kObserve, show_pools, "pool",
          "Show pools, shares, windows, who runs and who waits, here and in the fleet.", "",
          "Pools"},
    Route{"GET", "/v1/pool/allocation", Role::kObserve, show_allocation, "pool_allocation",
          "Show what this instance may use, as the published message does.", "", "PoolAllocation"},
    Route{"POST", "/v1/contract/{account}/reserve", Role::kDecide, contract_reserve,
          "contract_reserve", "Tell when to start, and debit all policies there, or none.",
          "ContractAsk", "Reserved"},
    Route{"POST", "/v1/contract/{account}/commit", Role::kDecide, contract_commit,
          "contract_commit", "End a reservation with the costs that were charged.",
          "ReservationCommit", "Committed"},
    Route{"POST", "/v1/contract/{account}/release", Role::kDecide, contract_release,
          "contract_release", "End a reservation as if it had never been.", "ReservationRelease",
          "State"},
    Route{"POST", "/v1/contract/{account}/consume", Role::kDecide, contract_consume,
          "contract_consume", "Debit all policies now, or refuse with 429 as the service does.",
          "ContractCosts", "Consumed"},
    Route{"POST", "/v1/contract/{account}/feedback", Role::kDecide, contract_feedback,
          "contract_feedback", "Report a 429 that was met, so that the values here follow.",
          "Feedback", "State"},
    Route{"POST", "/v1/contract/processing-units", Role::kObserve, work_out_processing_units,
          "contract_processing_units", "Work out what a request to the service costs.", "Work",
          "ProcessingUnits"},
    Route{"GET", "/v1/contract/{account}", Role::kObserve, show_account, "contract",
          "Show the policies of an account, what is left of them and what is outstanding.", "",
          "Account"},
    Route{"PUT", "/v1/contract/{account}/contract", Role::kAdmin, set_contract, "contract_set",
          "Take the policies of a published list of contracts.", "Document", "State"},
    with_names({"PUT", "/v1/contract/{account}/counts", Role::kAdmin, set_token_counts,
                "contract_counts", "Take what the service reports as left.", "Document", "State",
                kMarkQuery}),
    with_names({"GET", "/aux/ratelimit/contract", Role::kObserve, show_contracts,
                "published_contracts", "Show a user's contracts as the service publishes them.", "",
                "Document", kUserQuery}),
    Route{"GET", "/aux/ratelimit/statistics/tokenCounts/{userId}", Role::kObserve,
          show_token_counts, "published_token_counts",
          "Show what a user's policies have left as the service publishes it.", "", "Document"},
    Route{"POST", "/v1/compute/locks", Role::kAdmin, lock_tokens, "compute_lock",
          "Lock tokens of a wallet from the next epoch on.", "Lock", "Receipt"},
    Route{"POST", "/v1/compute/locks/add", Role::kAdmin, add_tokens, "compute_add",
          "Add to a lock, which then lasts its whole length again.", "Addition", "Receipt"},
    Route{"POST", "/v1/compute/locks/unlock", Role::kAdmin, unlock_tokens, "compute_unlock",
          "Give back what is locked, once the lock has ended.", "WalletName", "Receipt"},
    Route{"POST", "/v1/compute/locks/auto", Role::kAdmin, extend_lock, "compute_auto",
          "Let a lock extend itself, or no longer.", "Extension", "Receipt"},
    Route{"POST", "/v1/compute/portals", Role::kAdmin, register_portals, "compute_register",
          "Register portals of a wallet's cluster, all or none.", "Portals", "Receipt"},
    Route{"POST", "/v1/compute/portals/unregister", Role::kAdmin, unregister_portals,
          "compute_unregister", "Take portals out of a wallet's cluster, all or none.", "Portals",
          "Receipt"},
    Route{"POST", "/v1/compute/clusters/split", Role::kAdmin, split_units, "compute_split",
          "Choose how a wallet's units are split over the workers.", "Split", "Receipt"},
    Route{"POST", "/v1/compute/workers", Role::kAdmin, join_worker, "compute_join",
          "Let a worker join from the next epoch on.", "WorkerName", "Receipt"},
    Route{"POST", "/v1/compute/workers/leave", Role::kAdmin, leave_worker, "compute_leave",
          "Let a worker leave at the next epoch.", "WorkerName", "Receipt"},
    Route{"PUT", "/v1/compute/parameters", Role::kAdmin, set_parameter, "compute_parameter",
          "Change a parameter of the ledger.", "Parameter", "Receipt"},
    Route{"POST", "/v1/compute/blocks", Role::kAdmin, push_block, "compute_block",
          "Say which block it is, where blocks are pushed.", "BlockNumber", "State"},
    with_names({"GET", "/v1/compute/wallets", Role::kObserve, show_wallet, "compute_wallet",
                "Show a wallet's lock, units, strategy and portals.", "", "Wallet", kWalletQuery}),
    with_names({"GET", "/v1/compute/clusters", Role::kObserve, show_clusters, "compute_clusters",
                "Show every wallet, a thousand at a time.", "", "Clusters", kClustersQuery}),
    Route{"GET", "/v1/compute/workers", Role::kObserve, show_workers, "compute_workers",
          "Show the workers of the ledger.", "", "Workers"},
    Route{"GET", "/v1/compute/epochs", Role::kObserve, show_epoch, "compute_epoch",
          "Show the block, the epoch and the parameters in force.", "", "Epoch"},
    with_names({"GET", "/v1/compute/allocations", Role::kObserve, show_allocations,
                "compute_allocations", "Show what each cluster has at one worker.", "",
                "Allocations", kAllocationsQuery}),
    with_names({"GET", "/v1/compute/history", Role::kObserve, show_history, "compute_history",
                "Show who changed what in the ledger, and when.", "", "History", kHistoryQuery}),
    Route{"POST", "/v1/compute/queries", Role::kDecide, admit_query, "compute_query",
          "Ask a worker to admit a query of a portal, or only whether it would.", "Query",
          "Admission"},
    Route{"POST", "/v1/compute/queries/complete", Role::kDecide, complete_query, "compute_complete",
          "End a query; what it did not use of its token is given back.", "QueryEnd", "Ending"},
    Route{"POST", "/v1/compute/queries/cancel", Role::kDecide, cancel_query, "compute_cancel",
          "End a query, running or queued, and give its token back.", "QueryCancellation",
          "Ending"},
    with_names({"GET", "/v1/compute/queries", Role::kObserve, show_query, "compute_query_state",
                "Tell whether a query is queued, running or gone.", "", "State", kQueryQuery}),
    with_names({"GET", "/v1/compute/worker", Role::kObserve, show_worker, "compute_worker",
                "Show a worker's counts and allocations, or the bucket of a portal's cluster.", "",
                "Document", kWorkerQuery}),
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
