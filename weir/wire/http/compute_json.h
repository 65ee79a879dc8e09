// Compute as JSON: what ledger and worker are asked, and what they answer.
//
// Thread safety: none needed. Nothing is shared.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/compute/feed.h"
#include "weir/system/compute/ledger_service.h"
#include "weir/system/compute/worker.h"
#include "weir/wire/http/json.h"

namespace weir::wire::http {

// The body of a route that changes the ledger. Which members a route reads is its own.
struct LedgerBody {
  system::compute::Operation operation{};
  std::string_view strategy{};   // of a split
  std::string_view parameter{};  // to set
  std::optional<std::int64_t> block{};
  std::optional<bool> is_auto{};
  bool has_amount = false;  // as tokens, or in parts
  bool has_value = false;   // also a duration
};
Result<LedgerBody> read_ledger_body(std::string_view body,
                                    std::span<const std::string_view> members, Texts& texts);

// The body of POST /v1/compute/queries. A view into the body.
struct QueryBody {
  std::string_view portal{};
  std::int64_t cost_micro = kMicro;
  bool dry_run = false;
};
Result<QueryBody> read_query(std::string_view body, Texts& texts);

struct QueryEndBody {
  HoldId query{};
  std::optional<std::int64_t> cost_micro{};
};
Result<QueryEndBody> read_query_end(std::string_view body, Texts& texts);
Result<QueryEndBody> read_query_cancellation(std::string_view body, Texts& texts);

void append_receipt(std::string& out, const system::compute::Operation& operation,
                    const system::compute::Receipt& receipt);
void append_fault(std::string& out, system::compute::Fault fault, std::string_view detail);
void append_wallet(std::string& out, const system::compute::LedgerView& view,
                   const system::compute::Cluster& cluster);
// `wallet`: whose stake is shown beside it, if there is one.
void append_pool(std::string& out, const system::compute::LedgerView& view,
                 const system::compute::Pool& pool, std::string_view wallet);
void append_epoch(std::string& out, const system::compute::LedgerView& view);
void append_history(std::string& out, std::span<const system::compute::HistoryRow> rows);

// What GET /v1/compute/allocations answers, and a worker reads.
struct AllocationsDocument {
  std::string worker{};
  system::compute::Block block = 0;
  system::compute::AllocationSet set{};
  // Why there are none: the worker is not active. One that is not known here is read as that.
  system::compute::Fault fault = system::compute::Fault::kNone;
  std::vector<system::compute::LeftOut> broken{};
};
void append_allocations(std::string& out, const AllocationsDocument& document);
// Refused where a cluster or a portal is there twice: which one counts would be a guess.
Result<AllocationsDocument> read_allocations(std::string_view text);

// `query`: the id of what was accepted, or of what started.
void append_admission(std::string& out, const system::compute::Admission& said, HoldId query);
unsigned status_of(system::compute::QueryOutcome outcome) noexcept;
void append_ending(std::string& out, std::string_view state, const system::compute::Ending& ending,
                   HoldId started);
void append_cluster(std::string& out, const system::compute::ClusterReading& row,
                    std::int64_t epoch);
void append_worker(std::string& out, const system::compute::WorkerTotals& totals,
                   const system::compute::FeedStatus& feed, Instant now);

}  // namespace weir::wire::http
