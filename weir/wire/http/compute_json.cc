#include "weir/wire/http/compute_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/system/compute/query_cost.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace compute = system::compute;
using compute::Op;

constexpr std::size_t kBrokenShownMax = 1'000;  // of the clusters that a worker leaves out

// --- reading

bool read_owned(Reader& in, const What& what, std::string& value) {
  std::string_view text;
  if (!in.text(what, text)) return false;
  value = text;
  return true;
}

bool read_natural(Reader& in, const What& what, std::int64_t& value) {
  if (!in.integer(what, value)) return false;
  if (value >= 0) return true;
  return in.wrong(what, fmt::format("{}", value), "0 or more", "such a number");
}

bool read_numbers(Reader& in, std::string_view what, std::vector<std::int64_t>& values) {
  return in.list(what, [&] {
    if (values.size() > compute::kNamesPerOperationMax) return in.fail("the list is too long");
    return read_natural(in, what, values.emplace_back());
  });
}

bool read_portals(Reader& in, LedgerBody& into) {
  return in.list("portals", [&] {
    std::vector<std::string>& portals = into.operation.portals;
    if (portals.size() > compute::kNamesPerOperationMax) return in.fail("the list is too long");
    return read_owned(in, "portals", portals.emplace_back());
  });
}

bool read_tokens(Reader& in, LedgerBody& into) {
  std::string_view text;
  if (!in.text("tokens", text)) return false;
  const Result<compute::Amount> amount = compute::parse_tokens("tokens", text);
  if (!amount) return in.fail(amount.error().message);
  if (into.has_amount) return in.fail("'tokens' and 'amount' are both given; write one of the two");
  into.operation.amount = *amount;
  into.has_amount = true;
  return true;
}

bool read_amount(Reader& in, LedgerBody& into) {
  std::string_view text;
  if (!in.text("amount", text)) return false;
  const Result<compute::Amount> amount = compute::parse_parts("amount", text);
  if (!amount) return in.fail(amount.error().message);
  if (into.has_amount) return in.fail("'tokens' and 'amount' are both given; write one of the two");
  into.operation.amount = *amount;
  into.has_amount = true;
  return true;
}

constexpr Member<LedgerBody> kLedgerMembers[] = {
    {"wallet",
     [](Reader& in, LedgerBody& into) { return read_owned(in, "wallet", into.operation.wallet); }},
    {"portals", read_portals},
    {"tokens", read_tokens},
    {"amount", read_amount},
    {"duration",
     [](Reader& in, LedgerBody& into) {
       into.has_value = true;
       return read_natural(in, "duration", into.operation.value);
     }},
    {"auto", [](Reader& in, LedgerBody& into) { return in.flag("auto", into.is_auto.emplace()); }},
    {"strategy", [](Reader& in, LedgerBody& into) { return in.text("strategy", into.strategy); }},
    {"workers",
     [](Reader& in, LedgerBody& into) {
       return read_numbers(in, "workers", into.operation.workers);
     }},
    {"basis_points",
     [](Reader& in, LedgerBody& into) {
       return read_numbers(in, "basis_points", into.operation.basis_points);
     }},
    {"worker",
     [](Reader& in, LedgerBody& into) { return read_owned(in, "worker", into.operation.name); }},
    {"parameter",
     [](Reader& in, LedgerBody& into) { return in.text("parameter", into.parameter); }},
    {"value",
     [](Reader& in, LedgerBody& into) {
       into.has_value = true;
       return read_natural(in, "value", into.operation.value);
     }},
    {"block",
     [](Reader& in, LedgerBody& into) { return read_natural(in, "block", into.block.emplace()); }},
};

// A query while it is read: the cost follows from the ranges once all is known.
struct QueryDraft {
  QueryBody query{};
  std::optional<compute::BlockRange> wanted{};
  std::optional<compute::BlockRange> chunk{};
  bool has_cost = false;
};

bool read_range(Reader& in, std::string_view what, std::optional<compute::BlockRange>& range) {
  std::vector<std::int64_t> ends;
  const bool ok = in.list(what, [&] {
    if (ends.size() == 2)
      return in.fail(fmt::format("{} has more than two blocks; write [0,100]", what));
    return read_natural(in, what, ends.emplace_back());
  });
  if (!ok) return false;
  if (ends.size() != 2 || ends[1] < ends[0]) {
    return in.wrong(what, "something else", "a first and a last block", "such as [0,100]");
  }
  range = {ends[0], ends[1]};
  return true;
}

bool read_cost(Reader& in, std::int64_t& cost_micro) {
  std::string_view text;
  if (!in.text("cost", text)) return false;
  const Result<std::int64_t> cost = engine::parse_amount("cost", text, engine::UnitScale::kMicro);
  if (!cost) return in.fail(cost.error().message);
  if (*cost > kMicro) return in.wrong("cost", text, "at most 1", "\"0.25\"");
  cost_micro = *cost;
  return true;
}

constexpr Member<QueryDraft> kQueryMembers[] = {
    {"portal", [](Reader& in, QueryDraft& into) { return in.text("portal", into.query.portal); }},
    {"blocks", [](Reader& in, QueryDraft& into) { return read_range(in, "blocks", into.wanted); }},
    {"chunk", [](Reader& in, QueryDraft& into) { return read_range(in, "chunk", into.chunk); }},
    {"cost",
     [](Reader& in, QueryDraft& into) {
       into.has_cost = true;
       return read_cost(in, into.query.cost_micro);
     }},
    {"dry_run",
     [](Reader& in, QueryDraft& into) { return in.flag("dry_run", into.query.dry_run); }},
};

// The first is all that a cancellation has.
constexpr Member<QueryEndBody> kQueryEndMembers[] = {
    {"query", [](Reader& in, QueryEndBody& into) { return read_natural(in, "query", into.query); }},
    {"cost",
     [](Reader& in, QueryEndBody& into) { return read_cost(in, into.cost_micro.emplace()); }},
};

Result<QueryEndBody> read_end(std::string_view body, std::span<const Member<QueryEndBody>> members,
                              Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  QueryEndBody into;
  Reader in(body, texts);
  if (!in.object("the body", members, into) || !in.end()) return in.error();
  if (into.query == 0) {
    return bad_argument(
        "body: the member 'query' is missing or 0; write the 'query' of one that was accepted, "
        "such "
        "as \"query\":48");
  }
  return into;
}

// --- writing

void append_optional(std::string& out, std::optional<std::int64_t> value) {
  if (value) {
    append_int(out, *value);
  } else {
    out += "null";
  }
}

void append_block(std::string& out, compute::Block block) {
  append_optional(out, block == compute::kNoEnd ? std::nullopt : std::optional(block));
}

void append_amount(std::string& out, compute::Amount amount) {
  fmt::format_to(std::back_inserter(out), R"("tokens":"{}","amount":"{}")",
                 compute::tokens_text(amount), compute::parts_text(amount));
}

void append_lock(std::string& out, compute::Amount amount, compute::Block start,
                 compute::Block end) {
  append_amount(out, amount);
  out += R"(,"start":)";
  append_int(out, start);
  out += R"(,"end":)";
  append_block(out, end);
}

template <typename Rows, typename Each>
void append_list(std::string& out, const Rows& rows, Each each) {
  out += '[';
  bool first = true;
  for (const auto& row : rows) {
    if (!std::exchange(first, false)) out += ',';
    each(row);
  }
  out += ']';
}

std::string_view split_name(const compute::Cluster& cluster) {
  if (cluster.split == nullptr) return "equal";
  if (std::holds_alternative<compute::Subset>(*cluster.split)) return "subset";
  if (std::holds_alternative<compute::Shares>(*cluster.split)) return "shares";
  return std::get<compute::CustomStrategy>(*cluster.split).name;
}

void append_left_out(std::string& out, const compute::LeftOut& row) {
  out += R"({"cluster":)";
  append_quoted(out, row.cluster);
  out += R"(,"fault":")";
  out += to_string(row.fault);
  out += R"("})";
}

}  // namespace

Result<LedgerBody> read_ledger_body(std::string_view body,
                                    std::span<const std::string_view> members, Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  std::vector<Member<LedgerBody>> known;
  for (const Member<LedgerBody>& member : kLedgerMembers) {
    if (std::find(members.begin(), members.end(), member.name) != members.end()) {
      known.push_back(member);
    }
  }
  LedgerBody into;
  Reader in(body, texts);
  if (!in.object<LedgerBody>("the body", known, into) || !in.end()) return in.error();
  return into;
}

Result<QueryBody> read_query(std::string_view body, Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  QueryDraft into;
  Reader in(body, texts);
  if (!in.object<QueryDraft>("the body", kQueryMembers, into) || !in.end()) return in.error();
  if (into.query.portal.empty()) {
    return bad_argument(
        "body: the member 'portal' is missing or empty; write \"portal\":\"portal-1\"");
  }
  if (into.wanted.has_value() != into.chunk.has_value() || (into.has_cost && into.chunk)) {
    return bad_argument(
        "body: a cost is told by 'blocks' and 'chunk' together, or by 'cost'; write such as "
        "\"blocks\":[0,30],\"chunk\":[0,100], or \"cost\":\"0.3\"");
  }
  if (into.chunk) into.query.cost_micro = compute::query_cost_micro(*into.wanted, *into.chunk);
  return into.query;
}

Result<QueryEndBody> read_query_end(std::string_view body, Texts& texts) {
  return read_end(body, kQueryEndMembers, texts);
}

Result<QueryEndBody> read_query_cancellation(std::string_view body, Texts& texts) {
  return read_end(body, std::span(kQueryEndMembers).first(1), texts);
}

void append_receipt(std::string& out, const compute::Operation& operation,
                    const compute::Receipt& receipt) {
  out += R"({"state":"done")";
  switch (operation.op) {
    case Op::kLock:
    case Op::kAdd:
    case Op::kAutoOn:
    case Op::kAutoOff:
      out += ',';
      append_lock(out, receipt.amount, receipt.start, receipt.end);
      fmt::format_to(std::back_inserter(out), R"(,"total_units":"{}")",
                     compute::parts_text(receipt.total_units));
      break;
    case Op::kUnlock:
      out += ',';
      append_amount(out, receipt.amount);
      break;
    case Op::kRegister:
    case Op::kUnregister:
      fmt::format_to(std::back_inserter(out), R"(,"portals":{})", receipt.portals);
      break;
    case Op::kJoin:
    case Op::kLeave:
      fmt::format_to(std::back_inserter(out), R"(,"worker":{},"{}":{})", receipt.worker,
                     operation.op == Op::kJoin ? "active_from" : "active_until", receipt.active);
      break;
    case Op::kSetEpochLength:
      fmt::format_to(std::back_inserter(out), R"(,"epoch":{},"next_epoch":{})", receipt.epoch,
                     receipt.next_epoch);
      break;
    default:
      break;
  }
  out += '}';
}

void append_fault(std::string& out, compute::Fault fault, std::string_view detail) {
  out += R"({"fault":")";
  out += to_string(fault);
  out += R"(","detail":)";
  append_quoted(out, detail);
  out += '}';
}

void append_wallet(std::string& out, const compute::LedgerView& view,
                   const compute::Cluster& cluster) {
  out += R"({"wallet":)";
  append_quoted(out, cluster.wallet);
  out += ',';
  append_lock(out, cluster.lock.amount, cluster.lock.start, cluster.lock.end);
  fmt::format_to(std::back_inserter(out), R"(,"duration":{},"auto":{},"units":{},"strategy":)",
                 cluster.lock.duration, cluster.lock.is_auto,
                 view.ledger.epoch_units(cluster, view.block));
  append_quoted(out, split_name(cluster));
  out += R"(,"portals":)";
  append_list(out, view.ledger.portals(cluster),
              [&](std::string_view portal) { append_quoted(out, portal); });
  out += '}';
}

void append_epoch(std::string& out, const compute::LedgerView& view) {
  const compute::EpochClock& clock = view.ledger.clock();
  const compute::Parameters& parameters = view.ledger.parameters();
  fmt::format_to(
      std::back_inserter(out),
      R"({{"block":{},"epoch":{},"start":{},"next_epoch":{},"length":{},"epoch_time_ns":{},)"
      R"("wallets":{},"workers":{},"active_workers":{},"active_portals":{},"locked":"{}",)"
      R"("mana":{},"block_time_s":{},"min_lock":"{}","max_portals":{}}})",
      view.block, epoch_number(clock, view.block), epoch_start(clock, view.block),
      next_epoch(clock, view.block), clock.length, view.epoch_time.count(),
      view.ledger.clusters().size(), view.ledger.workers().size(),
      view.ledger.active_workers(view.block).size(), view.ledger.active_portals(),
      compute::tokens_text(view.ledger.locked()), parameters.mana, parameters.block_time_s,
      compute::tokens_text(parameters.min_lock), parameters.max_portals);
}

void append_history(std::string& out, std::span<const compute::HistoryRow> rows) {
  out += R"({"history":)";
  append_list(out, rows, [&](const compute::HistoryRow& row) {
    fmt::format_to(std::back_inserter(out), R"({{"number":{},"at":)", row.number);
    append_instant(out, row.at);
    out += R"(,"block":)";
    append_int(out, row.block);
    out += R"(,"by":)";
    append_quoted(out, row.by);
    out += R"(,"operation":)";
    out += row.operation;  // which is JSON
    out += '}';
  });
  out += '}';
}

// --- allocations

void append_allocations(std::string& out, const AllocationsDocument& document) {
  out += R"({"worker":)";
  append_quoted(out, document.worker);
  fmt::format_to(std::back_inserter(out),
                 R"(,"block":{},"epoch":{},"epoch_time_ns":{},"clusters":)", document.block,
                 document.set.epoch, document.set.epoch_time.count());
  append_list(out, document.set.clusters, [&](const compute::ClusterAllocation& row) {
    out += R"({"cluster":)";
    append_quoted(out, row.cluster);
    out += R"(,"units":)";
    append_int(out, row.units);
    out += R"(,"portals":)";
    append_list(out, row.portals, [&](const std::string& portal) { append_quoted(out, portal); });
    out += '}';
  });
  out += R"(,"fault":)";
  append_quoted(out, document.fault == compute::Fault::kNone ? "" : to_string(document.fault));
  out += R"(,"broken":)";
  append_list(out, document.broken,
              [&](const compute::LeftOut& row) { append_left_out(out, row); });
  out += '}';
}

namespace {

constexpr Member<compute::ClusterAllocation> kAllocationMembers[] = {
    {"cluster",
     [](Reader& in, compute::ClusterAllocation& into) {
       return read_owned(in, "cluster", into.cluster);
     }},
    {"units",
     [](Reader& in, compute::ClusterAllocation& into) {
       return read_natural(in, "units", into.units);
     }},
    {"portals",
     [](Reader& in, compute::ClusterAllocation& into) {
       return in.list("portals",
                      [&] { return read_owned(in, "portals", into.portals.emplace_back()); });
     }},
};

// A fault that only a newer weir knows counts as `otherwise`; an empty one as none.
bool read_fault(Reader& in, compute::Fault otherwise, compute::Fault& fault) {
  std::string_view name;
  if (!in.text("fault", name)) return false;
  if (!name.empty()) fault = compute::fault_of(name).value_or(otherwise);
  return true;
}

constexpr Member<compute::LeftOut> kBrokenMembers[] = {
    {"cluster",
     [](Reader& in, compute::LeftOut& into) { return read_owned(in, "cluster", into.cluster); }},
    {"fault",
     [](Reader& in, compute::LeftOut& into) {
       return read_fault(in, compute::Fault::kStrategyFailed, into.fault);
     }},
};

constexpr Member<AllocationsDocument> kDocumentMembers[] = {
    {"worker",
     [](Reader& in, AllocationsDocument& into) { return read_owned(in, "worker", into.worker); }},
    {"block",
     [](Reader& in, AllocationsDocument& into) { return read_natural(in, "block", into.block); }},
    {"epoch", [](Reader& in,
                 AllocationsDocument& into) { return read_natural(in, "epoch", into.set.epoch); }},
    {"epoch_time_ns",
     [](Reader& in, AllocationsDocument& into) {
       std::int64_t time_ns = 0;
       if (!read_natural(in, "epoch_time_ns", time_ns)) return false;
       into.set.epoch_time = Duration{time_ns};
       return true;
     }},
    {"clusters",
     [](Reader& in, AllocationsDocument& into) {
       return in.list("clusters", [&] {
         return in.object<compute::ClusterAllocation>("a cluster", kAllocationMembers,
                                                      into.set.clusters.emplace_back());
       });
     }},
    {"fault",
     [](Reader& in, AllocationsDocument& into) {
       return read_fault(in, compute::Fault::kNotActive, into.fault);
     }},
    {"broken",
     [](Reader& in, AllocationsDocument& into) {
       return in.list("broken", [&] {
         return in.object<compute::LeftOut>("a broken cluster", kBrokenMembers,
                                            into.broken.emplace_back());
       });
     }},
};

Status check_unique(const compute::AllocationSet& set) {
  std::unordered_set<std::string_view> clusters;
  std::unordered_set<std::string_view> portals;
  const auto twice = [](std::string_view what, std::string_view name) {
    return bad_argument(
        fmt::format("the allocations: {} {} is there twice; write it once", what, in_quotes(name)));
  };
  for (const compute::ClusterAllocation& row : set.clusters) {
    if (!clusters.insert(row.cluster).second) return twice("cluster", row.cluster);
    for (const std::string& portal : row.portals) {
      if (!portals.insert(portal).second) return twice("portal", portal);
    }
  }
  return Done{};
}

}  // namespace

Result<AllocationsDocument> read_allocations(std::string_view text) {
  AllocationsDocument into;
  Texts texts;
  Reader in(text, texts);
  if (!in.object<AllocationsDocument>("the allocations", kDocumentMembers, into) || !in.end()) {
    return in.error();
  }
  if (into.set.epoch_time.count() == 0 || into.set.epoch_time.count() > kTermMax) {
    return bad_argument(
        "the allocations: 'epoch_time_ns' is missing or out of range; write how long an epoch "
        "lasts, from 1 ns to 2^62 ns");
  }
  if (Status status = check_unique(into.set); !status) return std::move(status).error();
  return into;
}

// --- a worker's answers

unsigned status_of(compute::QueryOutcome outcome) noexcept {
  switch (outcome) {
    case compute::QueryOutcome::kAccepted:
      return 200;
    case compute::QueryOutcome::kRateLimited:
      return 429;
    case compute::QueryOutcome::kNoAllocation:
      return 403;
    case compute::QueryOutcome::kOverloaded:
      return 503;
  }
  return 500;
}

void append_admission(std::string& out, const compute::Admission& said) {
  out += R"({"outcome":")";
  out += to_string(said.outcome);
  out += R"(","cause":)";
  if (said.cause == compute::Cause::kNone) {
    out += "null";
  } else {
    append_quoted(out, to_string(said.cause));
  }
  out += R"(,"query":)";
  append_optional(out, said.query == 0 ? std::nullopt : std::optional(said.query));
  out += R"(,"state":)";
  out += said.outcome != compute::QueryOutcome::kAccepted ? "null"
         : said.is_queued                                 ? R"("queued")"
                                                          : R"("running")";
  out += R"(,"retry_after_ms":)";
  // Rounded up: whoever comes again by it is not too early.
  append_optional(
      out, said.retry_after
               ? std::optional(saturate(ceil_div(Wide{said.retry_after->count()}, 1'000'000)))
               : std::nullopt);
  out += R"(,"tokens_micro":)";
  append_optional(out, said.tokens_micro);
  out += '}';
}

void append_ending(std::string& out, std::string_view state, const compute::Ending& ending) {
  out += R"({"state":)";
  append_quoted(out, state);
  out += R"(,"started":)";
  append_optional(out, ending.started == 0 ? std::nullopt : std::optional(ending.started));
  out += R"(,"tokens_micro":)";
  append_optional(out, ending.tokens_micro);
  out += '}';
}

void append_cluster(std::string& out, const compute::ClusterReading& row) {
  out += R"({"cluster":)";
  append_quoted(out, row.cluster);
  fmt::format_to(std::back_inserter(out),
                 R"(,"units":{},"interval_ns":{},"burst_micro":{},"tokens_micro":{},"next_token":)",
                 row.units, row.interval_ns, row.burst_micro, row.tokens_micro);
  append_instant(out, row.next_tick);
  fmt::format_to(std::back_inserter(out), R"(,"running":{},"queued":{}}})", row.running,
                 row.queued);
}

void append_worker(std::string& out, const compute::WorkerTotals& totals,
                   const compute::FeedStatus& feed, Instant now) {
  const auto outcome = [&](compute::QueryOutcome which) {
    return totals.outcomes[static_cast<std::size_t>(which)];
  };
  out += R"({"epoch":)";
  append_optional(out, feed.epoch);
  fmt::format_to(
      std::back_inserter(out),
      R"(,"age_ms":{},"stale":{},"clusters":{},"running":{},"queued":{},)"
      R"("accepted":{},"rate_limited":{},"no_allocation":{},"overloaded":{},)"
      R"("expired":{},"fetches":{},"failures":{},"trouble":)",
      feed.epoch ? std::max<std::int64_t>(0, (now - feed.fetched).count() / 1'000'000) : 0,
      feed.is_stale, totals.clusters, totals.running, totals.queued,
      outcome(compute::QueryOutcome::kAccepted), outcome(compute::QueryOutcome::kRateLimited),
      outcome(compute::QueryOutcome::kNoAllocation), outcome(compute::QueryOutcome::kOverloaded),
      totals.expired, feed.fetches, feed.failures);
  append_quoted(out, feed.trouble);
  out += R"(,"warning":)";
  append_quoted(out, feed.warning);
  out += R"(,"broken":)";
  append_list(out, std::span(feed.broken).first(std::min(feed.broken.size(), kBrokenShownMax)),
              [&](const compute::LeftOut& row) { append_left_out(out, row); });
  out += '}';
}

}  // namespace weir::wire::http
