// A worker: its queries, and what it shows of itself.

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weir/base/hold_text.h"
#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/compute_routes.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/headers.h"

namespace weir::wire::http {
namespace {

namespace compute = system::compute;

// nullptr: this is none, and the problem is written.
std::shared_ptr<compute::SharedWorker> worker_of(Exchange& exchange) {
  std::shared_ptr<compute::SharedWorker> worker = exchange.in_force<ComputePart>().worker;
  if (worker == nullptr) {
    exchange.fail(Problem::kNotFound,
                  "compute: this weir is no worker; write 'compute: { worker: { ... } }' in "
                  "weir.yaml and restart, or ask one that is");
  }
  return worker;
}

}  // namespace

void admit_query(Exchange& exchange) {
  const std::shared_ptr<compute::SharedWorker> worker = worker_of(exchange);
  if (worker == nullptr) return;
  Texts texts;
  const Result<QueryBody> body = read_query(exchange.call.body, texts);
  if (!body) {
    exchange.fail(body.error());
    return;
  }
  if (!exchange.reaches(engine::kPortalIdentity, body->portal)) return;
  compute::Admission said;
  HoldId query;
  {
    const std::scoped_lock lock(*worker);
    said = body->dry_run ? worker->locked().peek(body->portal, exchange.now)
                         : worker->locked().admit(body->portal, body->cost_micro, exchange.now);
    query = worker->locked().id_of(said.query);
  }
  exchange.answer.status = status_of(said.outcome);
  exchange.answer.content_type = kJsonType;
  append_admission(exchange.answer.body, said, query);
  if (said.outcome != compute::QueryOutcome::kAccepted && said.retry_after) {
    Decision decision;
    decision.verdict = Verdict::kDenied;
    decision.earliest = exchange.now + *said.retry_after;
    append_retry_after(exchange.answer.headers, decision, exchange.now);
  }
}

namespace {

// Which query starts next may be another portal's, and who knows its id may end it.
void hide_from_bound(const Exchange& exchange, compute::Ending& ending) {
  if (exchange.call.reach != nullptr) ending.started = 0;
}

void answer_ending(Exchange& exchange, HoldId query, std::string_view state,
                   const compute::Ending& ending, HoldId started) {
  if (!ending.known) {
    exchange.fail(
        Problem::kNotFound,
        fmt::format("query {}: it has ended, or was never accepted here; there is nothing "
                    "to do",
                    hold_text(query)));
    return;
  }
  exchange.answer.content_type = kJsonType;
  append_ending(exchange.answer.body, state, ending, started);
  // A slot or a token may be free for a request that waits at the limit.
  exchange.try_waiters();
}

}  // namespace

void complete_query(Exchange& exchange) {
  const std::shared_ptr<compute::SharedWorker> worker = worker_of(exchange);
  if (worker == nullptr) return;
  Texts texts;
  const Result<QueryEndBody> body = read_query_end(exchange.call.body, texts);
  if (!body) {
    exchange.fail(body.error());
    return;
  }
  compute::Ending ending;
  HoldId started;
  {
    const std::scoped_lock lock(*worker);
    compute::Worker& asked = worker->locked();
    ending = asked.finish(asked.query_of(body->query), body->cost_micro, exchange.now);
    started = asked.id_of(ending.started);
  }
  hide_from_bound(exchange, ending);
  if (ending.known && ending.was_queued) {
    exchange.fail(Problem::kConflict,
                  fmt::format("query {}: it is queued and has not started; cancel it, or wait",
                              hold_text(body->query)));
    return;
  }
  answer_ending(exchange, body->query, "completed", ending, started);
}

void cancel_query(Exchange& exchange) {
  const std::shared_ptr<compute::SharedWorker> worker = worker_of(exchange);
  if (worker == nullptr) return;
  Texts texts;
  const Result<QueryEndBody> body = read_query_cancellation(exchange.call.body, texts);
  if (!body) {
    exchange.fail(body.error());
    return;
  }
  compute::Ending ending;
  HoldId started;
  {
    const std::scoped_lock lock(*worker);
    compute::Worker& asked = worker->locked();
    ending = asked.cancel(asked.query_of(body->query), exchange.now);
    started = asked.id_of(ending.started);
  }
  hide_from_bound(exchange, ending);
  answer_ending(exchange, body->query, "cancelled", ending, started);
}

void show_query(Exchange& exchange) {
  const std::shared_ptr<compute::SharedWorker> worker = worker_of(exchange);
  if (worker == nullptr) return;
  const Result<std::string_view> named = exchange.query.one("query");
  if (!named) {
    exchange.fail(named.error());
    return;
  }
  const std::optional<HoldId> id = read_hold(*named);
  if (!id) {
    exchange.fail(bad_argument(fmt::format(
        "query: 'query' is '{}', but it must be the id of a query; write the 'query' of an answer, "
        "such as 00000000000004d2-48",
        named->substr(0, 64))));
    return;
  }
  std::string_view state = "gone";
  {
    const std::scoped_lock lock(*worker);
    worker->locked().expire(exchange.now);
    compute::Worker& asked = worker->locked();
    const compute::Worker::QueryState found = asked.state(asked.query_of(*id));
    if (found == compute::Worker::QueryState::kQueued) state = "queued";
    if (found == compute::Worker::QueryState::kRunning) state = "running";
    if (found == compute::Worker::QueryState::kDisplaced) state = "displaced";
  }
  exchange.answer_state(state);
}

void show_worker(Exchange& exchange) {
  const ComputePart part = exchange.in_force<ComputePart>();
  const std::shared_ptr<compute::SharedWorker> worker = worker_of(exchange);
  if (worker == nullptr) return;
  std::string_view portal;
  if (!exchange.read_query("portal", portal)) return;
  if (!exchange.reaches(engine::kPortalIdentity, portal)) return;
  std::string& out = exchange.answer.body;
  const std::scoped_lock lock(*worker);
  if (portal.empty()) {
    exchange.answer.content_type = kJsonType;
    append_worker(out, worker->locked().totals(), part.feed, exchange.now);
    return;
  }
  const auto cluster = worker->locked().cluster_of(portal, exchange.now);
  if (!cluster) {
    exchange.fail(
        Problem::kNotFound,
        fmt::format("portal '{}': no cluster with units has it; register it, and wait for "
                    "the next epoch",
                    portal.substr(0, 64)));
    return;
  }
  exchange.answer.content_type = kJsonType;
  append_cluster(out, *cluster, worker->locked().totals().epoch);
}

}  // namespace weir::wire::http
