// What the ledger is asked, and what it answers.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/compute_json_parts.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace compute = system::compute;
using compute::Op;

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
    {"pool",
     [](Reader& in, LedgerBody& into) { return read_owned(in, "pool", into.operation.name); }},
    {"ticket",
     [](Reader& in, LedgerBody& into) {
       into.has_value = true;
       return read_natural(in, "ticket", into.operation.value);
     }},
    {"event",
     [](Reader& in, LedgerBody& into) {
       if (!read_owned(in, "event", into.operation.event)) return false;
       return !into.operation.event.empty() ||
              in.wrong("event", "empty", "the id of what happened", "such as \"0x5f3a-2\"");
     }},
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

std::string_view split_name(const compute::Cluster& cluster) {
  if (cluster.split == nullptr) return "equal";
  if (std::holds_alternative<compute::Subset>(*cluster.split)) return "subset";
  if (std::holds_alternative<compute::Shares>(*cluster.split)) return "shares";
  return std::get<compute::CustomStrategy>(*cluster.split).name;
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
    case Op::kWithdraw:
      out += ',';
      append_amount(out, receipt.amount);
      break;
    case Op::kExit:
      out += ',';
      append_amount(out, receipt.amount);
      fmt::format_to(std::back_inserter(out), R"(,"ticket":{},"place":"{}")", receipt.ticket,
                     compute::parts_text(receipt.place));
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
  fmt::format_to(std::back_inserter(out),
                 R"(,"duration":{},"auto":{},"units":{},"pool_units":{},"strategy":)",
                 cluster.lock.duration, cluster.lock.is_auto,
                 view.ledger.epoch_units(cluster, view.block), cluster.pool_units);
  append_quoted(out, split_name(cluster));
  out += R"(,"portals":)";
  append_list(out, view.ledger.portals(cluster),
              [&](std::string_view portal) { append_quoted(out, portal); });
  out += '}';
}

void append_pool(std::string& out, const compute::LedgerView& view, const compute::Pool& pool,
                 std::string_view wallet) {
  out += R"({"pool":)";
  append_quoted(out, pool.name);
  out += R"(,"owner":)";
  append_quoted(out, view.ledger.clusters()[pool.owner].wallet);
  fmt::format_to(std::back_inserter(out), R"(,"active":{},)", pool.stake.is_active());
  append_amount(out, pool.stake.staked());
  fmt::format_to(std::back_inserter(out),
                 R"(,"units":{},"stakes":{},"min_stake":"{}","exit_rate":"{}","requested":"{}",)"
                 R"("processed":"{}","stake":)",
                 compute::parts_text(pool.stake.units()), pool.stakes.size(),
                 compute::tokens_text(view.ledger.parameters().min_stake),
                 compute::tokens_text(view.ledger.parameters().exit_rate),
                 compute::parts_text(pool.exits.requested()),
                 compute::parts_text(pool.exits.processed(view.block)));
  const auto found = pool.stakes.find(wallet);
  if (found == pool.stakes.end()) {
    out += "null}";
    return;
  }
  out += R"({"wallet":)";
  append_quoted(out, found->first);
  out += ',';
  append_amount(out, found->second.amount);
  fmt::format_to(std::back_inserter(out), R"(,"leaving":"{}","tickets":)",
                 compute::tokens_text(found->second.leaving));
  append_list(out, found->second.tickets, [&](std::uint32_t number) {
    const compute::ExitTicket& ticket = pool.tickets[number];
    const std::optional<std::int64_t> wait = pool.exits.wait_seconds(view.block, ticket.place);
    fmt::format_to(std::back_inserter(out), R"({{"ticket":{},)", number);
    append_amount(out, ticket.amount);
    fmt::format_to(std::back_inserter(out), R"(,"place":"{}","ready":{},"wait_blocks":)",
                   compute::parts_text(ticket.place), wait == 0);
    append_optional(out, wait);
    out += '}';
  });
  out += "}}";
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

}  // namespace weir::wire::http
