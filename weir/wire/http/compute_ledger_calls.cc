// The ledger: what changes it, and what shows it.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/compute_routes.h"
#include "weir/wire/http/compute_schemas.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace compute = system::compute;
using compute::LedgerService;
using compute::LedgerView;
using compute::Op;

// nullptr: there is none here, and the problem is written.
std::shared_ptr<LedgerService> ledger_of(Exchange& exchange) {
  std::shared_ptr<LedgerService> ledger = exchange.in_force<ComputePart>().ledger;
  if (ledger == nullptr) {
    exchange.fail(Problem::kNotFound,
                  "compute: this weir has no ledger; write 'compute: { ledger: {} }' in weir.yaml "
                  "and restart, or ask the one that has");
  }
  return ledger;
}

void answer_fault(Exchange& exchange, compute::Fault fault, std::string_view detail) {
  exchange.answer.status = 409;
  exchange.answer.content_type = kJsonType;
  append_fault(exchange.answer.body, fault, detail);
}

void apply(Exchange& exchange, LedgerService& ledger, const compute::Operation& operation) {
  const std::string name = exchange.api.host().name_of(exchange.call.token);
  const Result<compute::Applied> applied =
      ledger.apply(operation, name.empty() ? to_string(exchange.call.role) : std::string_view(name),
                   exchange.now);
  if (!applied) {
    exchange.fail(applied.error());
  } else if (!applied->ok()) {
    answer_fault(exchange, applied->fault, applied->detail);
  } else {
    exchange.answer.content_type = kJsonType;
    append_receipt(exchange.answer.body, operation, applied->receipt);
  }
}

// Reads a body of these members, lets `complete` make the operation of it, and applies that.
// Every one may name an event, and its block.
template <std::size_t kCount, typename Complete>
void change(Exchange& exchange, const std::array<std::string_view, kCount>& members,
            Complete complete) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  Texts texts;
  std::array<std::string_view, kCount + 2> all{"event", "block"};
  std::copy(members.begin(), members.end(), all.begin() + 2);
  Result<LedgerBody> body = read_ledger_body(exchange.call.body, all, texts);
  if (!body) {
    exchange.fail(body.error());
    return;
  }
  body->operation.block = body->block;
  if (const Status status = complete(*body); !status) {
    exchange.fail(status.error());
    return;
  }
  apply(exchange, *ledger, body->operation);
}

Status demand(bool is_there, std::string_view member, std::string_view example) {
  if (is_there) return Done{};
  return bad_argument(fmt::format("body: the member '{}' is missing; write {}", member, example));
}

// What an operation cannot do without. Left out, it would count as 0, which means something
// else: an addition of nothing renews the whole lock.
Status demand_members(const LedgerBody& body) {
  const Op op = body.operation.op;
  Status status = Done{};
  if (op == Op::kLock || op == Op::kAdd || op == Op::kStake || op == Op::kExit) {
    status = demand(body.has_amount, "tokens", "\"tokens\":\"10000\", or \"amount\" in 10^-18");
  }
  if (status && op == Op::kLock) {
    status = demand(body.has_value, "duration", "\"duration\":18000, in blocks");
  }
  if (status && op == Op::kWithdraw) {
    status = demand(body.has_value, "ticket", "the \"ticket\" of an exit");
  }
  return status;
}

template <std::size_t kCount>
void change_as(Exchange& exchange, Op op, const std::array<std::string_view, kCount>& members) {
  change(exchange, members, [&](LedgerBody& body) -> Status {
    body.operation.op = op;
    if (Status status = demand_members(body); !status) return status;
    body.operation.is_auto = body.is_auto.value_or(false);
    return Done{};
  });
}

}  // namespace

void lock_tokens(Exchange& exchange) {
  change_as(exchange, Op::kLock,
            std::array<std::string_view, 5>{"wallet", "tokens", "amount", "duration", "auto"});
}

void add_tokens(Exchange& exchange) {
  change_as(exchange, Op::kAdd, std::array<std::string_view, 3>{"wallet", "tokens", "amount"});
}

void unlock_tokens(Exchange& exchange) {
  change_as(exchange, Op::kUnlock, std::array<std::string_view, 1>{"wallet"});
}

void extend_lock(Exchange& exchange) {
  change(exchange, std::array<std::string_view, 2>{"wallet", "auto"},
         [](LedgerBody& body) -> Status {
           if (!body.is_auto) {
             return bad_argument(
                 "body: the member 'auto' is missing; write \"auto\":true or \"auto\":false");
           }
           body.operation.op = *body.is_auto ? Op::kAutoOn : Op::kAutoOff;
           return Done{};
         });
}

void register_portals(Exchange& exchange) {
  change_as(exchange, Op::kRegister, std::array<std::string_view, 2>{"wallet", "portals"});
}

void unregister_portals(Exchange& exchange) {
  change_as(exchange, Op::kUnregister, std::array<std::string_view, 2>{"wallet", "portals"});
}

void split_units(Exchange& exchange) {
  change(exchange, std::array<std::string_view, 4>{"wallet", "strategy", "workers", "basis_points"},
         [](LedgerBody& body) -> Status {
           compute::Operation& operation = body.operation;
           if (body.strategy.empty()) {
             return bad_argument(
                 "body: the member 'strategy' is missing; write 'equal', 'support', 'unsupport', "
                 "'shares' or the name of one");
           }
           operation.op = body.strategy == "equal"       ? Op::kEqual
                          : body.strategy == "support"   ? Op::kSupport
                          : body.strategy == "unsupport" ? Op::kUnsupport
                          : body.strategy == "shares"    ? Op::kShares
                                                         : Op::kStrategy;
           if (operation.op == Op::kStrategy) operation.name = body.strategy;
           return Done{};
         });
}

void join_worker(Exchange& exchange) {
  change_as(exchange, Op::kJoin, std::array<std::string_view, 1>{"worker"});
}

void leave_worker(Exchange& exchange) {
  change_as(exchange, Op::kLeave, std::array<std::string_view, 1>{"worker"});
}

void open_pool(Exchange& exchange) {
  change_as(exchange, Op::kOpenPool, std::array<std::string_view, 2>{"wallet", "pool"});
}

void stake_tokens(Exchange& exchange) {
  change_as(exchange, Op::kStake,
            std::array<std::string_view, 4>{"wallet", "pool", "tokens", "amount"});
}

void exit_pool(Exchange& exchange) {
  change_as(exchange, Op::kExit,
            std::array<std::string_view, 4>{"wallet", "pool", "tokens", "amount"});
}

void withdraw_stake(Exchange& exchange) {
  change_as(exchange, Op::kWithdraw, std::array<std::string_view, 3>{"wallet", "pool", "ticket"});
}

void set_parameter(Exchange& exchange) {
  change(
      exchange, std::array<std::string_view, 4>{"parameter", "value", "tokens", "amount"},
      [](LedgerBody& body) -> Status {
        constexpr std::pair<std::string_view, Op> kParameters[] = {
            {"epoch_length", Op::kSetEpochLength}, {"mana", Op::kSetMana},
            {"block_time", Op::kSetBlockTime},     {"min_lock", Op::kSetMinLock},
            {"max_portals", Op::kSetMaxPortals},   {"min_stake", Op::kSetMinStake},
            {"exit_rate", Op::kSetExitRate},
        };
        for (const auto& [name, op] : kParameters) {
          if (name != body.parameter) continue;
          body.operation.op = op;
          const bool is_amount =
              op == Op::kSetMinLock || op == Op::kSetMinStake || op == Op::kSetExitRate;
          if (is_amount ? body.has_value : body.has_amount) {
            return bad_argument(fmt::format("body: '{}' has no member '{}'; write {}", name,
                                            is_amount ? "value" : "tokens",
                                            is_amount ? "\"tokens\":\"10000\"" : "\"value\":10"));
          }
          return is_amount ? demand(body.has_amount, "tokens", "\"tokens\":\"10000\"")
                           : demand(body.has_value, "value", "\"value\":10");
        }
        return bad_argument(
            "body: the member 'parameter' is missing or unknown; write 'epoch_length', 'mana', "
            "'block_time', 'max_portals', or with 'tokens' 'min_lock', 'min_stake', 'exit_rate'");
      });
}

namespace {

std::string push_trouble(compute::Fault fault, compute::Block block) {
  switch (fault) {
    case compute::Fault::kBlocksFollowTime:
      return fmt::format(
          "block {} cannot be pushed: blocks follow from time here; write 'blocks: pushed' under "
          "'compute: ledger' to push them",
          block);
    case compute::Fault::kBlockTooFar:
      return fmt::format(
          "block {} cannot be pushed: it is more than {} blocks after the last one, or beyond "
          "2^61 - 1; check the number",
          block, compute::kPushAheadMax);
    default:
      return fmt::format("block {} cannot be pushed: blocks never go back; push a later one",
                         block);
  }
}

void push_block(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  Texts texts;
  const Result<LedgerBody> body =
      read_ledger_body(exchange.call.body, std::array<std::string_view, 1>{"block"}, texts);
  if (!body || !body->block) {
    exchange.fail(body ? bad_argument("body: the member 'block' is missing; write \"block\":123")
                       : body.error());
    return;
  }
  const Result<compute::Fault> fault = ledger->push_block(*body->block, exchange.now);
  if (!fault) {
    exchange.fail(fault.error());
  } else if (*fault != compute::Fault::kNone) {
    answer_fault(exchange, *fault, push_trouble(*fault, *body->block));
  } else {
    exchange.answer_state("pushed");
  }
}

void show_wallet(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  const Result<std::string_view> wallet = exchange.query.one("wallet");
  if (!wallet) {
    exchange.fail(wallet.error());
    return;
  }
  ledger->read(exchange.now, [&](const LedgerView& view) {
    const compute::Cluster* cluster = view.ledger.find(*wallet);
    if (cluster == nullptr) {
      exchange.answer.status = 404;
      exchange.answer.content_type = kJsonType;
      append_fault(exchange.answer.body, compute::Fault::kNoSuchWallet,
                   "the wallet has never locked or registered anything; name one that has");
      return;
    }
    exchange.answer.content_type = kJsonType;
    append_wallet(exchange.answer.body, view, *cluster);
  });
}

void show_pool(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  const Result<std::string_view> name = exchange.query.one("pool");
  if (!name) {
    exchange.fail(name.error());
    return;
  }
  std::string_view wallet;
  if (!exchange.read_query("wallet", wallet)) return;
  ledger->read(exchange.now, [&](const LedgerView& view) {
    const compute::Pool* pool = view.ledger.find_pool(*name);
    exchange.answer.content_type = kJsonType;
    if (pool == nullptr) {
      exchange.answer.status = 404;
      append_fault(exchange.answer.body, compute::Fault::kNoSuchPool,
                   "there is no pool of this name; name one that there is");
      return;
    }
    append_pool(exchange.answer.body, view, *pool, wallet);
  });
}

void show_clusters(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  std::int64_t after = 0;
  if (!exchange.read_query("after", after)) return;
  ledger->read(exchange.now, [&](const LedgerView& view) {
    std::string& out = exchange.answer.body;
    exchange.answer.content_type = kJsonType;
    const auto& rows = view.ledger.clusters();
    const std::size_t begin = std::min(static_cast<std::size_t>(after), rows.size());
    const std::size_t end = std::min(begin + compute::kHistoryRowsMax, rows.size());
    out += R"({"clusters":[)";
    for (std::size_t i = begin; i < end; ++i) {
      if (i > begin) out += ',';
      append_wallet(out, view, rows[i]);
    }
    out += R"(],"next":)";
    out += end < rows.size() ? std::to_string(end) : "null";
    out += '}';
  });
}

void show_workers(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  ledger->read(exchange.now, [&](const LedgerView& view) {
    std::string& out = exchange.answer.body;
    exchange.answer.content_type = kJsonType;
    out += R"({"workers":[)";
    std::int64_t id = 0;
    for (const compute::WorkerRecord& row : view.ledger.workers()) {
      id += 1;
      if (id > 1) out += ',';
      out += fmt::format(R"({{"id":{},"worker":)", id);
      append_quoted(out, row.name);
      out += fmt::format(R"(,"active":{},"active_from":{},"active_until":{}}})",
                         view.ledger.is_active(id, view.block), row.from,
                         row.until == compute::kNoEnd ? "null" : std::to_string(row.until));
    }
    out += "]}";
  });
}

void show_epoch(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  exchange.answer.content_type = kJsonType;
  ledger->read(exchange.now,
               [&](const LedgerView& view) { append_epoch(exchange.answer.body, view); });
}

void show_allocations(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  const Result<std::string_view> worker = exchange.query.one("worker");
  if (!worker) {
    exchange.fail(worker.error());
    return;
  }
  std::int64_t epoch = -1;
  std::int64_t after_epoch = -1;
  if (!exchange.read_query("epoch", epoch)) return;
  if (!exchange.read_query("after_epoch", after_epoch)) return;
  if (epoch < 0) {
    AllocationDesk::Said said = exchange.in_force<ComputePart>().desk->ask(
        *worker, exchange.call.if_none_match, after_epoch, exchange.now);
    if (!said.tag.empty()) exchange.answer.headers = fmt::format("ETag: {}\r\n", said.tag);
    if (said.is_known) {
      exchange.answer.status = 304;
      return;
    }
    exchange.answer.content_type = kJsonType;
    exchange.answer.body = std::move(said.body);
    return;
  }
  const auto show = [&](const compute::Ledger& of, compute::Block block, Duration epoch_time) {
    const compute::Allocations found = of.allocations(of.worker_id(*worker).value_or(0), block);
    AllocationsDocument document{
        .worker = std::string(*worker), .block = block, .fault = found.fault};
    document.set = allocation_set(of, found, epoch_time);
    for (const compute::BrokenCluster& row : found.broken) {
      document.broken.push_back({of.clusters()[row.cluster].wallet, row.fault});
    }
    exchange.answer.content_type = kJsonType;
    append_allocations(exchange.answer.body, document);
  };
  const auto past = ledger->ledger_of_epoch(epoch, exchange.now);
  if (!past) {
    exchange.fail(past.error());
  } else if (!*past) {
    exchange.fail(Problem::kNotFound,
                  fmt::format("epoch {} has not begun; ask for one that has", epoch));
  } else {
    show((*past)->ledger, (*past)->block, (*past)->epoch_time);
  }
}

void show_history(Exchange& exchange) {
  const std::shared_ptr<LedgerService> ledger = ledger_of(exchange);
  if (ledger == nullptr) return;
  compute::HistoryChoice choice;
  if (!exchange.read_query("after", choice.after)) return;
  if (!exchange.read_query("wallet", choice.wallet)) return;
  const auto rows = ledger->history(choice);
  if (!rows) {
    exchange.fail(rows.error());
    return;
  }
  exchange.answer.content_type = kJsonType;
  append_history(exchange.answer.body, *rows);
}

constexpr std::array<QueryParameter, 1> kWalletQuery = {{
    {"wallet", true, false, "The name of the wallet."},
}};

constexpr std::array<QueryParameter, 2> kPoolQuery = {{
    {"pool", true, false, "The name of the pool."},
    {"wallet", false, false, "Show the stake of this wallet too, and its tickets."},
}};

constexpr std::array<QueryParameter, 1> kClustersQuery = {{
    {"after", false, false, "Leave out so many; 'next' of an answer tells."},
}};

constexpr std::array<QueryParameter, 3> kAllocationsQuery = {{
    {"worker", true, false, "The name of the worker."},
    {"after_epoch", false, false, "The epoch whose allocations the worker has: 304 until another."},
    {"epoch", false, false, "As they were at the first block of this epoch. Default: now."},
}};

constexpr std::array<QueryParameter, 2> kHistoryQuery = {{
    {"after", false, false, "Only operations with greater numbers."},
    {"wallet", false, false, "Only operations of this wallet."},
}};

constexpr std::array<QueryParameter, 1> kQueryQuery = {{
    {"query", true, false, "The id of a query that was accepted."},
}};

constexpr std::array<QueryParameter, 1> kWorkerQuery = {{
    {"portal", false, false, "Show the cluster of this portal instead of the worker."},
}};

constexpr std::array kComputeRows = {
    Route{"POST", "/v1/compute/locks", Role::kAdmin, lock_tokens, "compute_lock",
          "Lock tokens of a wallet from the next epoch on.", "Lock", "Locked"},
    Route{"POST", "/v1/compute/locks/add", Role::kAdmin, add_tokens, "compute_add",
          "Add to a lock, which then lasts its whole length again.", "Addition", "Locked"},
    Route{"POST", "/v1/compute/locks/unlock", Role::kAdmin, unlock_tokens, "compute_unlock",
          "Give back what is locked, once the lock has ended.", "WalletName", "Unlocked"},
    Route{"POST", "/v1/compute/locks/auto", Role::kAdmin, extend_lock, "compute_auto",
          "Let a lock extend itself, or no longer.", "Extension", "Locked"},
    Route{"POST", "/v1/compute/portals", Role::kAdmin, register_portals, "compute_register",
          "Register portals of a wallet's cluster, all or none.", "Portals", "PortalsChanged"},
    Route{"POST", "/v1/compute/portals/unregister", Role::kAdmin, unregister_portals,
          "compute_unregister", "Take portals out of a wallet's cluster, all or none.", "Portals",
          "PortalsChanged"},
    Route{"POST", "/v1/compute/clusters/split", Role::kAdmin, split_units, "compute_split",
          "Choose how a wallet's units are split over the workers.", "Split", "SplitChosen"},
    Route{"POST", "/v1/compute/workers", Role::kAdmin, join_worker, "compute_join",
          "Let a worker join from the next epoch on.", "WorkerName", "WorkerJoined"},
    Route{"POST", "/v1/compute/workers/leave", Role::kAdmin, leave_worker, "compute_leave",
          "Let a worker leave at the next epoch.", "WorkerName", "WorkerLeft"},
    Route{"POST", "/v1/compute/pools", Role::kAdmin, open_pool, "compute_pool_open",
          "Open a pool, whose units go to the cluster of its owner.", "PoolName", "PoolOpened"},
    Route{"POST", "/v1/compute/pools/stake", Role::kAdmin, stake_tokens, "compute_stake",
          "Stake tokens of a wallet in a pool.", "PoolStake", "Staked"},
    Route{"POST", "/v1/compute/pools/exit", Role::kAdmin, exit_pool, "compute_exit",
          "Give a stake a place on the pool's belt.", "PoolStake", "Exiting"},
    Route{"POST", "/v1/compute/pools/withdraw", Role::kAdmin, withdraw_stake, "compute_withdraw",
          "Give a stake back whose place is reached.", "PoolTicket", "Withdrawn"},
    Route{"PUT", "/v1/compute/parameters", Role::kAdmin, set_parameter, "compute_parameter",
          "Change a parameter of the ledger.", "Parameter", "ParameterSet"},
    Route{"POST", "/v1/compute/blocks", Role::kAdmin, push_block, "compute_block",
          "Say which block it is, where blocks are pushed.", "BlockNumber", "BlockPushed"},
    with_names({"GET", "/v1/compute/wallets", Role::kObserve, show_wallet, "compute_wallet",
                "Show a wallet's lock, units, strategy and portals.", "", "Wallet", kWalletQuery}),
    with_names({"GET", "/v1/compute/pools", Role::kObserve, show_pool, "compute_pool",
                "Show a pool, its belt, and a wallet's stake in it.", "", "Pool", kPoolQuery}),
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
    checks_when_bound(Route{"POST", "/v1/compute/queries", Role::kDecide, admit_query,
                            "compute_query",
                            "Ask a worker to admit a query of a portal, or only whether it would.",
                            "Query", "Admission"}),
    answers_when_bound(Route{
        "POST", "/v1/compute/queries/complete", Role::kDecide, complete_query, "compute_complete",
        "End a query; what it did not use of its token is given back.", "QueryEnd", "Ending"}),
    answers_when_bound(Route{
        "POST", "/v1/compute/queries/cancel", Role::kDecide, cancel_query, "compute_cancel",
        "End a query, running or queued, and give its token back.", "QueryCancellation", "Ending"}),
    answers_when_bound(
        with_names({"GET", "/v1/compute/queries", Role::kObserve, show_query, "compute_query_state",
                    "Tell whether a query is queued, running, displaced or gone.", "", "QueryState",
                    kQueryQuery})),
    checks_when_bound(
        with_names({"GET", "/v1/compute/worker", Role::kObserve, show_worker, "compute_worker",
                    "Show a worker's counts and allocations, or the bucket of a portal's cluster.",
                    "", "WorkerState", kWorkerQuery})),
};

}  // namespace

ComputeRoutes compute_routes(ComputeRoutes::InForce in_force) {
  return ComputeRoutes(kComputeRows, std::move(in_force), kComputeSchemas);
}

}  // namespace weir::wire::http
