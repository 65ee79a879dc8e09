// Throttles: transactions as the network decides them, claims, levels, snapshots,
// definitions.

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "weir/base/hold_text.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/headers.h"
#include "weir/wire/http/text.h"
#include "weir/wire/http/throttle_json.h"
#include "weir/wire/http/throttle_routes.h"
#include "weir/wire/http/throttle_schemas.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

namespace throttle = system::throttle;
using throttle::Throttles;

// nullptr: there are none, and the problem is written.
std::shared_ptr<Throttles> throttles_of(Exchange& exchange) {
  std::shared_ptr<Throttles> throttles = exchange.in_force<ThrottlePart>();
  if (throttles == nullptr) {
    exchange.fail(Problem::kNotFound,
                  "throttles: none are configured; write 'throttles: { file: ./throttles.json, "
                  "nodes: 31 }' in weir.yaml, and start the server or POST /v1/reload");
  }
  return throttles;
}

Result<throttle::Submitted> decide(Throttles& throttles, const SubmissionBody& asked, Instant at) {
  return asked.dry_run ? throttles.peek(asked.role, asked.submission, at)
                       : throttles.submit(asked.role, asked.submission, at);
}

// Consensus is one sequence for the whole network: who may decide here may not therefore speak for
// it. False: the problem is written.
bool speaks_for_consensus(Exchange& exchange) {
  const Call& call = exchange.call;
  if (call.role == Role::kAdmin || exchange.api.host().speaks_for_consensus(call.token))
    return true;
  return exchange.fail(Problem::kForbidden,
                       "throttles: the token may not decide for consensus; give it 'consensus: "
                       "true' under 'auth', use one that has it, or leave out \"role\"");
}

// Of a claim that is not known here, anybody may hear so.
bool may_end_claim(Exchange& exchange, const Throttles& throttles, HoldId claim) {
  return throttles.role_of(claim) != throttle::SetRole::kConsensus ||
         speaks_for_consensus(exchange);
}

void answer_claim(Exchange& exchange, HoldId claim, throttle::ClaimEnd end,
                  std::string_view state) {
  if (end == throttle::ClaimEnd::kUnknown) {
    exchange.fail(Problem::kNotFound,
                  fmt::format("claim {}: it has ended, or is too old, or was never made here; "
                              "submit again if there is more to do",
                              hold_text(claim)));
    return;
  }
  if (end == throttle::ClaimEnd::kRoom) exchange.try_waiters();
  exchange.answer_state(state);
}

// The one value of a parameter, or what it is when it is left out.
Result<std::string_view> chosen(const Exchange& exchange, std::string_view name,
                                std::string_view otherwise) {
  return exchange.query.has(name) ? exchange.query.one(name) : Result<std::string_view>(otherwise);
}

struct SnapshotChoice {
  throttle::SetRole role = throttle::SetRole::kConsensus;
  bool is_positional = false;
};

Result<SnapshotChoice> snapshot_choice(const Exchange& exchange) {
  SnapshotChoice choice;
  const Result<std::string_view> role = chosen(exchange, "role", "consensus");
  if (!role) return role.error();
  const std::optional<throttle::SetRole> known = throttle_role_of(*role);
  if (!known) {
    return bad_argument(
        fmt::format("query: role is '{}', but it must be 'front_end' or 'consensus'; write one of "
                    "the two",
                    role->substr(0, 64)));
  }
  choice.role = *known;
  const Result<std::string_view> form = chosen(exchange, "form", "named");
  if (!form) return form.error();
  choice.is_positional = *form == "positional";
  if (!choice.is_positional && *form != "named") {
    return bad_argument(
        fmt::format("query: form is '{}', but it must be 'named' or 'positional'; write one of the "
                    "two",
                    form->substr(0, 64)));
  }
  if (choice.is_positional && choice.role != throttle::SetRole::kConsensus) {
    return bad_argument(
        "query: the network saves consensus only, so form=positional does not go with "
        "role=front_end; write form=named");
  }
  return choice;
}

// Whether the client may submit for this payer. False: the problem is written.
bool reaches_payer(Exchange& exchange, const SubmissionBody& asked) {
  if (exchange.call.reach == nullptr) return true;
  const auto& payer = asked.submission.transaction.payer;
  const engine::Attribute others[] = {
      {"operation", asked.submission.operation},
      {"high_volume", asked.submission.transaction.high_volume ? "true" : "false"}};
  return exchange.reaches(engine::kPayerIdentity, payer ? std::to_string(*payer) : std::string(),
                          others);
}

void submit_transaction(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  Texts texts;
  Result<SubmissionBody> asked = read_submission(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (asked->role == throttle::SetRole::kConsensus && !speaks_for_consensus(exchange)) return;
  if (!reaches_payer(exchange, *asked)) return;
  const Instant at = asked->at_ns ? Instant{*asked->at_ns} : exchange.now;
  if (asked->at_ns) {
    if (const Status status = throttles->check_instant(at, exchange.now); !status) {
      exchange.fail(status.error());
      return;
    }
  }
  const Result<throttle::Submitted> said = decide(*throttles, *asked, at);
  if (!said) {
    exchange.fail(said.error());
    return;
  }
  Decision decision;
  decision.verdict = verdict_of(*said);
  decision.earliest = earliest_of(*said, at);
  exchange.answer.status = status_of(decision.verdict);
  exchange.answer.content_type = kJsonType;
  append_submitted(exchange.answer.body, *said, at);
  append_retry_after(exchange.answer.headers, decision, at);
}

// All are looked at before the first is decided, and decided in their order, at one instant.
void submit_transactions(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  Texts texts;
  const std::size_t most = exchange.api.settings().batch_max;
  const Result<SubmissionBatch> asked = read_submissions(exchange.call.body, most, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (asked->is_too_long) {
    exchange.fail(
        Problem::kTooLarge,
        fmt::format("body: submissions has more than {} elements; send several batches", most));
    return;
  }
  bool is_allowed = false;
  for (const SubmissionBody& each : asked->submissions) {
    if (!reaches_payer(exchange, each)) return;
    if (each.role != throttle::SetRole::kConsensus) continue;
    if (!is_allowed && !speaks_for_consensus(exchange)) return;
    is_allowed = true;
    const Status status = throttles->check_instant(Instant{*each.at_ns}, exchange.now);
    if (!status) {
      exchange.fail(status.error());
      return;
    }
  }
  std::string& body = exchange.answer.body;
  body += R"({"results":)";
  append_list(body, asked->submissions, [&](const SubmissionBody& each) {
    const Instant at = each.at_ns ? Instant{*each.at_ns} : exchange.now;
    const Result<throttle::Submitted> said = decide(*throttles, each, at);
    if (said) {
      append_submitted(body, *said, at);
    } else {
      append_problem(body, problem_of(said.error().code), said.error().message);
    }
  });
  body += '}';
  exchange.answer.content_type = kJsonType;
}

void settle_claim(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  Texts texts;
  const Result<ClaimBody> asked = read_claim_settlement(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (!may_end_claim(exchange, *throttles, asked->claim)) return;
  // Without a figure, all that was claimed counts as used.
  const std::int64_t gas = asked->gas.value_or(std::numeric_limits<std::int64_t>::max());
  const Result<throttle::ClaimEnd> end =
      throttles->settle(asked->claim, {.gas = gas, .duration = asked->duration});
  if (!end) {
    exchange.fail(end.error());
    return;
  }
  answer_claim(exchange, asked->claim, *end, "settled");
}

void cancel_claim(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  Texts texts;
  const Result<ClaimBody> asked = read_claim_cancellation(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (!may_end_claim(exchange, *throttles, asked->claim)) return;
  answer_claim(exchange, asked->claim, throttles->cancel(asked->claim), "cancelled");
}

void show_throttles(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  exchange.answer.content_type = kJsonType;
  append_reading(exchange.answer.body, throttles->reading(exchange.now));
}

void show_snapshot(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  const Result<SnapshotChoice> choice = snapshot_choice(exchange);
  if (!choice) {
    exchange.fail(choice.error());
    return;
  }
  exchange.answer.content_type = kJsonType;
  exchange.answer.body =
      choice->is_positional ? throttles->positional_snapshot() : throttles->snapshot(choice->role);
}

void restore_snapshot(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  const Result<SnapshotChoice> choice = snapshot_choice(exchange);
  if (!choice) {
    exchange.fail(choice.error());
    return;
  }
  if (choice->is_positional) {
    if (const Status status = throttles->restore_positional(exchange.call.body, exchange.now);
        !status) {
      exchange.fail(status.error());
      return;
    }
    exchange.try_waiters();
    exchange.answer_state("restored");
    return;
  }
  const Result<throttle::RestoreReport> report =
      throttles->restore(choice->role, exchange.call.body, exchange.now);
  if (!report) {
    exchange.fail(report.error());
    return;
  }
  exchange.try_waiters();
  exchange.answer.content_type = kJsonType;
  append_restored(exchange.answer.body, *report);
}

void set_definitions(Exchange& exchange) {
  const std::shared_ptr<Throttles> throttles = throttles_of(exchange);
  if (throttles == nullptr) return;
  if (const Status status = throttles->set_definitions(exchange.call.body, "body"); !status) {
    exchange.fail(status.error());
    return;
  }
  exchange.try_waiters();
  exchange.answer_state("replaced");
}

constexpr std::array<QueryParameter, 2> kSnapshotQuery = {{
    {"role", false, false, "Whose buckets: 'consensus', or 'front_end'. Default: consensus."},
    {"form", false, false,
     "'named', or 'positional' as the network has it, of consensus only. Default: named."},
}};

constexpr std::array kThrottleRows = {
    checks_when_bound(Route{"POST", "/v1/throttle/submit", Role::kDecide, submit_transaction,
                            "throttle_submit",
                            "Decide one transaction as the network does, and claim what it takes.",
                            "Submission", "Submitted"}),
    checks_when_bound(Route{"POST", "/v1/throttle/batch", Role::kDecide, submit_transactions,
                            "throttle_batch",
                            "Decide many transactions in their order, each as if it came alone.",
                            "SubmissionBatch", "SubmittedBatch"}),
    answers_when_bound(Route{"POST", "/v1/throttle/settle", Role::kDecide, settle_claim,
                             "throttle_settle",
                             "End a claim with the gas that was used; the rest is given back.",
                             "ClaimSettlement", "State"}),
    answers_when_bound(Route{"POST", "/v1/throttle/cancel", Role::kDecide, cancel_claim,
                             "throttle_cancel", "End a claim and give everything back.",
                             "ClaimCancellation", "State"}),
    Route{"GET", "/v1/throttle", Role::kObserve, show_throttles, "throttle",
          "Show the levels of the throttles and the congestion multipliers.", "", "Throttles"},
    with_names({"GET", "/v1/throttle/snapshot", Role::kObserve, show_snapshot, "throttle_snapshot",
                "Save the levels and clocks of the throttles.", "", "Document", kSnapshotQuery}),
    with_names({"PUT", "/v1/throttle/snapshot", Role::kAdmin, restore_snapshot, "throttle_restore",
                "Bring back levels and clocks that were saved.", "Document", "Restored",
                kSnapshotQuery}),
    Route{"PUT", "/v1/throttle/definitions", Role::kAdmin, set_definitions, "throttle_definitions",
          "Replace the definitions of the throttles, all of them or none.", "Document", "State"},
};

}  // namespace

ThrottleRoutes throttle_routes(ThrottleRoutes::InForce in_force) {
  return ThrottleRoutes(kThrottleRows, std::move(in_force), kThrottleSchemas);
}

}  // namespace weir::wire::http
