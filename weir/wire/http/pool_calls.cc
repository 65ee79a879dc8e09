// Pools: a place at a model, its end, and what there is of both.

#include <array>
#include <utility>

#include "weir/system/pool/allocation_message.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/headers.h"
#include "weir/wire/http/pool_json.h"
#include "weir/wire/http/pool_routes.h"
#include "weir/wire/http/pool_schemas.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

namespace pool = system::pool;
using pool::HeldJobs;

// nullptr: there are none, and the problem is written.
HeldJobs* pools_of(Exchange& exchange) {
  HeldJobs* const found = exchange.in_force<PoolPart>();
  if (found == nullptr) {
    exchange.fail(Problem::kNotFound,
                  "pools: none are configured; write 'pools: { models: [...], job_types: [...] }' "
                  "in weir.yaml, and start the server again");
  }
  return found;
}

void write_problem(Answer& answer, Problem problem, std::string_view detail) {
  answer.status = status_of(problem);
  answer.content_type = kProblemType;
  append_problem(answer.body, problem, detail);
}

void write_refusal(HeldJobs& jobs, const pool::JobRefusal& refusal, Instant now, Answer& answer) {
  Decision decision;
  switch (refusal.reason) {
    case pool::JobRefused::kUnavailable:
    case pool::JobRefused::kStopped:
      return write_problem(answer, Problem::kUnavailable, refusal.message);
    case pool::JobRefused::kNever:
    case pool::JobRefused::kDelegations:
      decision.verdict = Verdict::kNever;
      break;
    case pool::JobRefused::kExhausted:
    case pool::JobRefused::kRejected:
    case pool::JobRefused::kTypeSlots:
      decision.verdict = Verdict::kDenied;
      break;
  }
  decision.earliest = refusal.retry_at;
  answer.status = status_of(decision.verdict);
  answer.content_type = kJsonType;
  append_job_refusal(answer.body, refusal, now);
  if (decision.verdict == Verdict::kDenied) {
    append_retry_after(answer.headers, decision, now);
    append_model_headers(answer.headers, left_of(refusal, jobs.pools().reading(now)), now);
  }
}

void write_answer(HeldJobs& jobs, const pool::JobAnswer& said, Instant now, Answer& answer) {
  if (const auto* held = std::get_if<pool::HeldStart>(&said)) {
    answer.content_type = kJsonType;
    append_job_start(answer.body, *held, now);
    append_model_headers(answer.headers, left_of(held->start), now);
  } else {
    write_refusal(jobs, std::get<pool::JobRefusal>(said), now, answer);
  }
}

// Runs `begin`, which asks for a place, and answers now or later.
template <typename Begin>
void answer_turn(Exchange& exchange, HeldJobs& jobs, Begin begin) {
  const Result<pool::JobTurn> turn =
      begin([&jobs, finish = exchange.finish_later()](Instant now, const pool::JobAnswer& said) {
        finish([&](Exchange& late) {
          write_answer(jobs, said, now, late.answer);
          const auto* const held = std::get_if<pool::HeldStart>(&said);
          if (held == nullptr) return;
          late.answer.discard = [&jobs, id = held->id](Instant then) { jobs.discard(id, then); };
        });
      });
  if (!turn) {
    exchange.fail(turn.error());
  } else if (turn->answer) {
    write_answer(jobs, *turn->answer, exchange.now, exchange.answer);
  } else {
    exchange.answer_later(
        [&jobs, ticket = turn->ticket](Instant now) { return jobs.give_up(ticket, now); });
  }
}

void acquire_job(Exchange& exchange) {
  HeldJobs* const jobs = pools_of(exchange);
  if (jobs == nullptr) return;
  Texts texts;
  const Result<pool::JobAsk> ask = read_job_ask(exchange.call.body, texts);
  if (!ask) {
    exchange.fail(ask.error());
    return;
  }
  if (!exchange.reaches(engine::kJobTypeIdentity, ask->type)) return;
  answer_turn(exchange, *jobs, [&](pool::JobAnswered answered) {
    return jobs->acquire(*ask, exchange.now, std::move(answered));
  });
}

void release_job(Exchange& exchange) {
  HeldJobs* const jobs = pools_of(exchange);
  if (jobs == nullptr) return;
  Texts texts;
  const Result<JobRelease> release = read_job_release(exchange.call.body, texts);
  if (!release) {
    exchange.fail(release.error());
    return;
  }
  const Instant now = exchange.now;
  if (release->delegate.value_or(false)) {
    answer_turn(exchange, *jobs, [&](pool::JobAnswered answered) {
      return jobs->delegate(release->job, *release->used, now, std::move(answered));
    });
    return;
  }
  const bool is_rejected = release->delegate.has_value();
  const Result<pool::Settlement> settlement =
      release->failed ? jobs->fail(release->job, release->used, now)
      : is_rejected   ? jobs->reject(release->job, *release->used, now)
                      : jobs->finish(release->job, *release->used, now);
  if (!settlement) {
    exchange.fail(settlement.error());
    return;
  }
  exchange.answer.content_type = kJsonType;
  append_settlement(exchange.answer.body,
                    release->failed ? "failed"
                    : is_rejected   ? "rejected"
                                    : "settled",
                    *settlement);
}

void renew_job(Exchange& exchange) {
  HeldJobs* const jobs = pools_of(exchange);
  if (jobs == nullptr) return;
  Texts texts;
  const Result<JobRenewal> renewal = read_job_renewal(exchange.call.body, texts);
  if (!renewal) {
    exchange.fail(renewal.error());
    return;
  }
  const Result<Instant> expires_at = jobs->renew(renewal->job, renewal->hold, exchange.now);
  if (!expires_at) {
    exchange.fail(expires_at.error());
    return;
  }
  exchange.answer.content_type = kJsonType;
  append_renewal(exchange.answer.body, renewal->job, *expires_at, exchange.now);
}

void show_pools(Exchange& exchange) {
  HeldJobs* const jobs = pools_of(exchange);
  if (jobs == nullptr) return;
  jobs->pools().report(exchange.now,
                       [jobs, finish = exchange.answer_later()](
                           Instant now, const Result<pool::CoordinatorReport>& fleet) {
                         finish([&](Exchange& late) {
                           late.answer.content_type = kJsonType;
                           append_pools(late.answer.body, *jobs, fleet, now);
                         });
                       });
}

void show_allocation(Exchange& exchange) {
  HeldJobs* const jobs = pools_of(exchange);
  if (jobs == nullptr) return;
  jobs->pools().report(
      exchange.now, [jobs, finish = exchange.answer_later()](
                        Instant now, const Result<pool::CoordinatorReport>& fleet) {
        finish([&](Exchange& late) {
          const pool::Allocation allocation = jobs->pools().reading(now).allocation;
          if (allocation.instance_count > 0) {
            late.answer.content_type = kJsonType;
            late.answer.body = allocation_message(fleet ? fleet->instance : "", allocation);
          } else {
            write_problem(late.answer, Problem::kUnavailable,
                          "allocation: there is none yet, since the coordinator has not answered; "
                          "ask again");
          }
        });
      });
}

constexpr std::array kPoolRows = {
    checks_when_bound(
        Route{"POST", "/v1/pool/acquire", Role::kDecide, acquire_job, "pool_acquire",
              "Ask for a place of a job at the first model that has one, and wait for it.",
              "JobAsk", "JobGrant"}),
    answers_when_bound(Route{"POST", "/v1/pool/release", Role::kDecide, release_job, "pool_release",
                             "End a job with what it used, or let it go on to the next model.",
                             "JobRelease", "JobEnd"}),
    answers_when_bound(Route{"POST", "/v1/pool/renew", Role::kDecide, renew_job, "pool_renew",
                             "Let a job run longer, counted from now.", "JobRenewal",
                             "JobRenewed"}),
    Route{"GET", "/v1/pool", Role::kObserve, show_pools, "pool",
          "Show pools, shares, windows, who runs and who waits, here and in the fleet.", "",
          "Pools"},
    Route{"GET", "/v1/pool/allocation", Role::kObserve, show_allocation, "pool_allocation",
          "Show what this instance may use, as the published message does.", "", "PoolAllocation"},
};

}  // namespace

PoolRoutes pool_routes(PoolRoutes::InForce in_force) {
  return PoolRoutes(kPoolRows, std::move(in_force), kPoolSchemas);
}

}  // namespace weir::wire::http
