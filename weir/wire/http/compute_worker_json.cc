// What a worker is asked, and what it answers.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weir/base/hold_text.h"
#include "weir/engine/quantity.h"
#include "weir/system/compute/query_cost.h"
#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/compute_json_parts.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

namespace compute = system::compute;

constexpr std::size_t kBrokenShownMax = 1'000;  // of the clusters that a worker leaves out

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

bool read_query_id(Reader& in, HoldId& query) {
  std::string_view text;
  if (!in.text("query", text)) return false;
  const std::optional<HoldId> read = read_hold(text);
  if (!read) {
    return in.wrong("query", fmt::format("'{}'", text.substr(0, 64)), "the id of a query",
                    "the 'query' of an answer, such as \"00000000000004d2-48\"");
  }
  query = *read;
  return true;
}

void append_query_id(std::string& out, bool is_there, HoldId query) {
  if (is_there) {
    append_quoted(out, hold_text(query));
  } else {
    out += "null";
  }
}

// The first is all that a cancellation has.
constexpr Member<QueryEndBody> kQueryEndMembers[] = {
    {"query", [](Reader& in, QueryEndBody& into) { return read_query_id(in, into.query); }},
    {"cost",
     [](Reader& in, QueryEndBody& into) { return read_cost(in, into.cost_micro.emplace()); }},
};

Result<QueryEndBody> read_end(std::string_view body, std::span<const Member<QueryEndBody>> members,
                              Texts& texts) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  QueryEndBody into;
  Reader in(body, texts);
  if (!in.object("the body", members, into) || !in.end()) return in.error();
  if (into.query.number == 0) {
    return bad_argument(
        "body: the member 'query' is missing; write the 'query' of one that was accepted, such as "
        "\"query\":\"00000000000004d2-48\"");
  }
  return into;
}

}  // namespace

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

void append_admission(std::string& out, const compute::Admission& said, HoldId query) {
  out += R"({"outcome":")";
  out += to_string(said.outcome);
  out += R"(","cause":)";
  if (said.cause == compute::Cause::kNone) {
    out += "null";
  } else {
    append_quoted(out, to_string(said.cause));
  }
  out += R"(,"query":)";
  append_query_id(out, said.query != 0, query);
  out += R"(,"state":)";
  out += said.outcome != compute::QueryOutcome::kAccepted ? "null"
         : said.is_queued                                 ? R"("queued")"
                                                          : R"("running")";
  out += R"(,"retry_after_ms":)";
  // Rounded up: a client that comes again by it is not too early.
  append_optional(
      out, said.retry_after
               ? std::optional(saturate(ceil_div(Wide{said.retry_after->count()}, 1'000'000)))
               : std::nullopt);
  out += R"(,"tokens_micro":)";
  append_optional(out, said.tokens_micro);
  out += '}';
}

void append_ending(std::string& out, std::string_view state, const compute::Ending& ending,
                   HoldId started) {
  out += R"({"state":)";
  append_quoted(out, state);
  out += R"(,"started":)";
  append_query_id(out, ending.started != 0, started);
  out += R"(,"tokens_micro":)";
  append_optional(out, ending.tokens_micro);
  out += '}';
}

void append_cluster(std::string& out, const compute::ClusterReading& row, std::int64_t epoch) {
  out += R"({"cluster":)";
  append_quoted(out, row.cluster);
  fmt::format_to(std::back_inserter(out),
                 R"(,"units":{},"interval_ns":{},"burst_micro":{},"tokens_micro":{},"next_token":)",
                 row.units, row.interval_ns, row.burst_micro, row.tokens_micro);
  append_instant(out, row.next_tick);
  fmt::format_to(std::back_inserter(out),
                 R"(,"running":{},"queued":{},"epoch":{},"used_micro":{},"accepted":{},)"
                 R"("rate_limited":{},"overloaded":{},"displaced":{}}})",
                 row.running, row.queued, epoch, row.use.used_micro, row.use.accepted,
                 row.use.rate_limited, row.use.overloaded, row.use.displaced);
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
      R"("expired":{},"displaced":{},"fetches":{},"failures":{},"trouble":)",
      feed.epoch ? std::max<std::int64_t>(0, (now - feed.fetched).count() / 1'000'000) : 0,
      feed.is_stale, totals.clusters, totals.running, totals.queued,
      outcome(compute::QueryOutcome::kAccepted), outcome(compute::QueryOutcome::kRateLimited),
      outcome(compute::QueryOutcome::kNoAllocation), outcome(compute::QueryOutcome::kOverloaded),
      totals.expired, totals.displaced, feed.fetches, feed.failures);
  append_quoted(out, feed.trouble);
  out += R"(,"warning":)";
  append_quoted(out, feed.warning);
  out += R"(,"broken":)";
  append_list(out, std::span(feed.broken).first(std::min(feed.broken.size(), kBrokenShownMax)),
              [&](const compute::LeftOut& row) { append_left_out(out, row); });
  out += '}';
}

}  // namespace weir::wire::http
