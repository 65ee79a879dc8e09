// Sampling: grants, reservations, and what environments and keys have left.

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "weir/base/hold_text.h"
#include "weir/engine/quantity.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/headers.h"
#include "weir/wire/http/sampling_json.h"
#include "weir/wire/http/sampling_routes.h"
#include "weir/wire/http/sampling_schemas.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

namespace sampling = system::sampling;
using sampling::Sampling;

// nullptr: there is none, and the problem is written.
std::shared_ptr<Sampling> sampling_of(Exchange& exchange) {
  std::shared_ptr<Sampling> found = exchange.in_force<SamplingPart>();
  if (found == nullptr) {
    exchange.fail(Problem::kNotFound,
                  "sampling: none is configured; write 'sampling: { environments: [...] }' in "
                  "weir.yaml, and start the server or POST /v1/reload");
  }
  return found;
}

void answer_end(Exchange& exchange, HoldId reservation, const Result<sampling::GivenBack>& back,
                std::string_view state) {
  if (!back) {
    exchange.fail(back.error());
    return;
  }
  if (back->was_other) {
    exchange.fail(Problem::kConflict,
                  fmt::format("reservation '{}': it has been ended with {} tasks created already, "
                              "so it cannot end otherwise; ask for a grant if there is more to do",
                              hold_text(reservation), back->created));
    return;
  }
  exchange.wait_for(back->record);
  if (back->units > 0) exchange.try_waiters();
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = fmt::format(R"({{"state":"{}","given_back":{}}})", state, back->units);
}

// Reads the key, if the query names one. True: `key` is it, or none. False: the problem is written.
bool read_key(Exchange& exchange, std::optional<sampling::Who>& key) {
  sampling::Who who;
  const struct {
    std::string_view name;
    std::string_view* into;
  } names[] = {
      {"hotkey", &who.hotkey}, {"revision", &who.revision}, {"environment", &who.environment}};
  bool is_named = exchange.query.has("uid");
  for (const auto& [name, into] : names) is_named = is_named || exchange.query.has(name);
  if (!is_named) return true;
  for (const auto& [name, into] : names) {
    const Result<std::string_view> value = exchange.query.one(name);
    if (!value) return exchange.fail(value.error());
    *into = *value;
  }
  if (exchange.query.has("uid")) {
    const Result<std::string_view> text = exchange.query.one("uid");
    if (!text) return exchange.fail(text.error());
    std::string_view digits = *text;
    const bool is_negative = digits.starts_with('-');
    if (is_negative) digits.remove_prefix(1);
    const Result<std::int64_t> id = engine::parse_count("query: uid", digits, 0, kTermMax);
    if (!id) return exchange.fail(id.error());
    who.id = is_negative ? -*id : *id;
  }
  key = who;
  return true;
}

// Whether the client may ask for this miner there. False: the problem is written.
bool reaches_miner(Exchange& exchange, const sampling::Who& who) {
  if (exchange.call.reach == nullptr) return true;
  const std::string uid = who.id ? std::to_string(*who.id) : "";
  const engine::Attribute others[] = {
      {engine::kUidIdentity, uid}, {"environment", who.environment}, {"revision", who.revision}};
  return exchange.reaches(engine::kHotkeyIdentity, who.hotkey, others);
}

void grant_tasks(Exchange& exchange) {
  const std::shared_ptr<Sampling> counters = sampling_of(exchange);
  if (counters == nullptr) return;
  Texts texts;
  const Result<GrantBody> asked = read_grant(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (!reaches_miner(exchange, asked->who)) return;
  const Result<sampling::Grant> said = asked->dry_run
                                           ? counters->peek(asked->who, asked->want, exchange.now)
                                           : counters->grant(asked->who, asked->want, exchange.now);
  if (!said) {
    exchange.fail(said.error());
    return;
  }
  exchange.wait_for(said->record);
  Decision decision;
  if (said->granted == 0 && said->wanted > 0) decision.verdict = Verdict::kDenied;
  decision.earliest = said->next_free;
  exchange.answer.status = status_of(decision.verdict);
  exchange.answer.content_type = kJsonType;
  append_grant(exchange.answer.body, *said, exchange.now);
  append_retry_after(exchange.answer.headers, decision, exchange.now);
}

// From 0 up to, and without, `below`. A word modulo `below`, at most 1,024 environments: uneven by
// less than one in 2^53.
std::uint64_t any_below(std::uint64_t below) {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return engine() % below;
}

void run_scheduling_pass(Exchange& exchange) {
  const std::shared_ptr<Sampling> counters = sampling_of(exchange);
  if (counters == nullptr) return;
  Texts texts;
  const Result<PassBody> asked = read_pass(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  for (const sampling::Work& work : asked->work) {
    const sampling::Miner& miner = asked->miner;
    if (!reaches_miner(exchange, {miner.hotkey, miner.revision, work.environment, miner.id}))
      return;
  }
  const Result<std::vector<sampling::Planned>> said =
      run_pass(*counters, asked->miner, {.slots = asked->slots, .work = asked->work}, any_below,
               exchange.now);
  if (!said) {
    exchange.fail(said.error());
    return;
  }
  for (const sampling::Planned& each : *said) exchange.wait_for(each.grant.record);
  exchange.answer.content_type = kJsonType;
  append_pass(exchange.answer.body, *said, exchange.now);
}

void show_refused(Exchange& exchange) {
  const std::shared_ptr<Sampling> counters = sampling_of(exchange);
  if (counters == nullptr) return;
  std::int64_t most = 20;
  if (exchange.query.has("most")) {
    const Result<std::string_view> text = exchange.query.one("most");
    const Result<std::int64_t> count =
        text ? engine::parse_count("query: most", *text, 1,
                                   static_cast<std::int64_t>(sampling::kRefusedKept))
             : Result<std::int64_t>(text.error());
    if (!count) {
      exchange.fail(count.error());
      return;
    }
    most = *count;
  }
  std::string& body = exchange.answer.body;
  body += R"({"refused":[)";
  for (const sampling::RefusedMiner& miner : counters->refused()) {
    if (most == 0) break;
    // An environment that is not configured any more is left out.
    const Result<sampling::Grant> said = counters->peek(
        {miner.hotkey, miner.revision, miner.environment, miner.id}, 0, exchange.now);
    if (!said) continue;
    if (body.back() != '[') body += ',';
    append_refused(body, miner, *said);
    most -= 1;
  }
  body += "]}";
  exchange.answer.content_type = kJsonType;
}

void commit_tasks(Exchange& exchange) {
  const std::shared_ptr<Sampling> counters = sampling_of(exchange);
  if (counters == nullptr) return;
  Texts texts;
  const Result<TaskReservationBody> asked = read_task_commit(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  answer_end(exchange, asked->reservation,
             counters->commit(asked->reservation, asked->created, exchange.now), "committed");
}

void release_tasks(Exchange& exchange) {
  const std::shared_ptr<Sampling> counters = sampling_of(exchange);
  if (counters == nullptr) return;
  Texts texts;
  const Result<TaskReservationBody> asked = read_task_release(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  answer_end(exchange, asked->reservation, counters->release(asked->reservation, exchange.now),
             "released");
}

void show_sampling(Exchange& exchange) {
  const std::shared_ptr<Sampling> counters = sampling_of(exchange);
  if (counters == nullptr) return;
  std::optional<sampling::Who> key;
  if (!read_key(exchange, key)) return;
  std::string body;
  append_sampling(body, counters->reading());
  if (key) {
    const Result<sampling::Grant> said = counters->peek(*key, 0, exchange.now);
    if (!said) {
      exchange.fail(said.error());
      return;
    }
    body += R"(,"key":)";
    append_grant(body, *said, exchange.now);
  }
  body += '}';
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = std::move(body);
}

constexpr std::array<QueryParameter, 4> kSamplingQuery = {{
    {"hotkey", false, false, "Of one key: whose tasks; with 'revision' and 'environment'."},
    {"revision", false, false, "Of one key: the model's revision."},
    {"environment", false, false, "Of one key: what is sampled."},
    {"uid", false, false, "Of one key: the miner's id, which may be exempt."},
}};

constexpr std::array<QueryParameter, 1> kRefusedQuery = {{
    {"most", false, false, "How many at most, up to 256. Default: 20."},
}};

constexpr std::array kSamplingRows = {
    checks_when_bound(
        Route{"POST", "/v1/sampling/grant", Role::kDecide, grant_tasks, "sampling_grant",
              "Grant up to so many tasks of an environment to a miner, and reserve them.",
              "GrantAsk", "Grant"}),
    checks_when_bound(
        Route{"POST", "/v1/sampling/pass", Role::kDecide, run_scheduling_pass, "sampling_pass",
              "Grant one miner tasks of many environments, by its slots and their shares.",
              "PassAsk", "Pass"}),
    answers_when_bound(
        Route{"POST", "/v1/sampling/commit", Role::kDecide, commit_tasks, "sampling_commit",
              "End a reservation: so many of its tasks exist, the others are given back.", "Commit",
              "ReservationEnd"}),
    answers_when_bound(Route{"POST", "/v1/sampling/release", Role::kDecide, release_tasks,
                             "sampling_release", "End a reservation and give all its tasks back.",
                             "Release", "ReservationEnd"}),
    with_names({"GET", "/v1/sampling", Role::kObserve, show_sampling, "sampling",
                "Show the allowances of all environments, and what one key has left.", "",
                "Sampling", kSamplingQuery}),
    with_names({"GET", "/v1/sampling/refused", Role::kObserve, show_refused, "sampling_refused",
                "Show who was refused most, and who has used up an allowance.", "", "RefusedMiners",
                kRefusedQuery}),
};

}  // namespace

SamplingRoutes sampling_routes(SamplingRoutes::InForce in_force) {
  return SamplingRoutes(kSamplingRows, std::move(in_force), kSamplingSchemas);
}

}  // namespace weir::wire::http
