// Commands about transactions of the network.
//
//   WEIR.THROTTLE.SUBMIT operation=ContractCall gas=50000 operation=CryptoTransfer count=20
//   WEIR.THROTTLE.SETTLE 00c0ffee00c0ffee-42 gas=21000
//   WEIR.THROTTLE.CANCEL 00c0ffee00c0ffee-42

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/wire/resp/throttle_commands.h"

namespace weir::wire::resp {
namespace {

using namespace internal;

namespace throttle = system::throttle;
using throttle::Throttles;

// nullptr: there are none, and the error is written.
ThrottlePart throttles_of(Run& run) {
  ThrottlePart found = run.in_force<ThrottlePart>();
  if (found == nullptr) {
    run.reply.write_error(
        "NOTFOUND no throttles are configured; write 'throttles: { file: ./throttles.json, nodes: "
        "31 }' in weir.yaml, and send WEIR.RELOAD");
  }
  return found;
}

struct SubmissionWords {
  throttle::SetRole role = throttle::SetRole::kFrontEnd;
  std::optional<std::int64_t> at_ns{};
  throttle::Submission submission{};
  bool dry_run = false;
};

// A member that is a number: where it goes, and its bounds.
struct NumberWord {
  std::string_view name;
  void (*set)(SubmissionWords& into, std::int64_t value);
  std::int64_t least = 0;
  std::int64_t most = kTermMax;
};

constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

template <auto Field>
void set_field(SubmissionWords& into, std::int64_t value) {
  auto& field = into.submission.transaction.*Field;
  field = static_cast<std::remove_reference_t<decltype(field)>>(value);
}

constexpr NumberWord kNumberWords[] = {
    {"at_ns", [](SubmissionWords& into, std::int64_t value) { into.at_ns = value; }},
    {"payer",
     [](SubmissionWords& into, std::int64_t value) { into.submission.transaction.payer = value; }},
    {"count", set_field<&throttle::Transaction::count>, 1, kMost32},
    {"gas", set_field<&throttle::Transaction::gas>},
    {"bytes", set_field<&throttle::Transaction::bytes>},
    {"nfts", set_field<&throttle::Transaction::nfts>, 0, kMost32},
    {"creations", set_field<&throttle::Transaction::creations>, 0, kMost32},
    {"associations", set_field<&throttle::Transaction::associations>, 0, kMost32},
    {"scheduled_then", set_field<&throttle::Transaction::scheduled_then>},
};

Result<bool> read_flag(std::string_view name, std::string_view value) {
  if (value == "true" || value == "false") return value == "true";
  return bad_argument(
      fmt::format("BADARG {} is {}, but it must be true or false; write one of the "
                  "two",
                  name, in_quotes(value)));
}

// One `name=value` behind `operation=`.
Status read_member(SubmissionWords& into, std::string_view name, std::string_view value) {
  for (const NumberWord& word : kNumberWords) {
    if (word.name != name) continue;
    const Result<std::int64_t> number = engine::parse_count(name, value, word.least, word.most);
    if (!number) return number.error();
    word.set(into, *number);
    return Done{};
  }
  if (name == "scheduled") {
    into.submission.transaction.scheduled.emplace();
    into.submission.scheduled_operation = value;
    return Done{};
  }
  if (name == "role") {
    if (value != "front_end" && value != "consensus") {
      return bad_argument(fmt::format(
          "BADARG role is {}, but it must be front_end or consensus; write one of the two",
          in_quotes(value)));
    }
    into.role = value == "consensus" ? throttle::SetRole::kConsensus : throttle::SetRole::kFrontEnd;
    return Done{};
  }
  if (name == "high_volume" || name == "dry_run") {
    const Result<bool> flag = read_flag(name, value);
    if (!flag) return flag.error();
    (name == "dry_run" ? into.dry_run : into.submission.transaction.high_volume) = *flag;
    return Done{};
  }
  return bad_argument(fmt::format(
      "BADARG {} is not known; write operation, role, at_ns, payer, count, gas, bytes, nfts, "
      "creations, associations, high_volume, scheduled, scheduled_then or dry_run, '=' and a value",
      in_quotes(name)));
}

Status check_role(const SubmissionWords& words) {
  const bool is_consensus = words.role == throttle::SetRole::kConsensus;
  if (is_consensus == words.at_ns.has_value()) return Done{};
  return bad_argument(
      is_consensus
          ? "BADARG role=consensus is without at_ns; write the consensus instant in nanoseconds "
            "since 1970"
          : "BADARG at_ns is given, but the front end goes by the server's clock; leave it out, or "
            "write role=consensus");
}

// Each begins with its operation.
Result<std::vector<SubmissionWords>> read_submissions(Words words) {
  std::vector<SubmissionWords> all;
  for (const std::string_view word : words) {
    const std::size_t sign = word.find('=');
    const std::string_view name = word.substr(0, sign);
    if (sign == std::string_view::npos || (all.empty() && name != "operation")) {
      return bad_argument(
          fmt::format("BADARG {} does not begin a transaction; write such as "
                      "operation=ContractCall, and behind it gas=50000",
                      in_quotes(word)));
    }
    const std::string_view value = word.substr(sign + 1);
    if (name != "operation") {
      if (Status status = read_member(all.back(), name, value); !status) {
        return std::move(status).error();
      }
      continue;
    }
    if (value.empty()) {
      return bad_argument("BADARG operation is empty; write such as operation=ContractCall");
    }
    if (all.size() == kSubmissionsMax) {
      return bad_argument(fmt::format(
          "BADARG there are more than {} transactions; send several commands", kSubmissionsMax));
    }
    all.emplace_back().submission.operation = value;
  }
  for (const SubmissionWords& each : all) {
    if (Status status = check_role(each); !status) return std::move(status).error();
  }
  return all;
}

void write_submitted(const throttle::Submitted& said, Instant at, ReplyWriter& reply) {
  reply.begin_map(7);
  reply.write_bulk("status");
  reply.write_bulk(said.status);
  reply.write_bulk("verdict");
  reply.write_bulk(to_string(verdict_of(said)));
  reply.write_bulk("refused_by");
  if (said.admission.allowed) {
    reply.write_null();
  } else {
    reply.write_bulk(refused_by(said));
  }
  reply.write_entry("shortfall", said.admission.missing);
  reply.write_entry("retry_after_ms", ms_until(earliest_of(said, at), at));
  reply.write_entry("multiplier", said.multiplier);
  reply.write_bulk("claim");
  if (said.claim) {
    reply.write_bulk(hold_text(said.claim));
  } else {
    reply.write_null();
  }
}

constexpr std::string_view kConsensusIsForAdmin =
    "NOPERM consensus is decided here for administrators only; submit by POST /v1/throttle/batch "
    "with a token that has 'consensus: true', or leave out role=consensus";

std::size_t run_throttle_submit(Run& run) {
  const ThrottlePart throttles = throttles_of(run);
  if (throttles == nullptr) return 1;
  const Result<std::vector<SubmissionWords>> asked = read_submissions(run.arguments(0));
  if (!asked) {
    write_error(asked.error(), run.reply);
    return 1;
  }
  for (const SubmissionWords& each : *asked) {
    const auto& payer = each.submission.transaction.payer;
    const engine::Attribute others[] = {
        {"operation", each.submission.operation},
        {"high_volume", each.submission.transaction.high_volume ? "true" : "false"}};
    if (!run.reaches(engine::kPayerIdentity, payer ? std::to_string(*payer) : std::string(),
                     others)) {
      return 1;
    }
    if (each.role != throttle::SetRole::kConsensus) continue;
    if (run.session.role() != Role::kAdmin) {
      run.reply.write_error(kConsensusIsForAdmin);
      return 1;
    }
    if (Status status = throttles->check_instant(Instant{*each.at_ns}, run.now); !status) {
      write_error(status.error(), run.reply);
      return 1;
    }
  }
  run.reply.begin_array(asked->size());
  for (const SubmissionWords& each : *asked) {
    const Instant at = each.at_ns ? Instant{*each.at_ns} : run.now;
    const Result<throttle::Submitted> said =
        each.dry_run ? throttles->peek(each.role, each.submission, at)
                     : throttles->submit(each.role, each.submission, at);
    if (said) {
      write_submitted(*said, at, run.reply);
    } else {
      write_error(said.error(), run.reply);
    }
  }
  return 1;
}

// Nothing: it is none, or not this client's to end, and the error is written.
std::optional<HoldId> claim_of(Run& run, const Throttles& throttles, std::string_view word) {
  const std::optional<HoldId> claim = read_hold(word);
  if (!claim) {
    run.reply.write_error(fmt::format(
        "BADARG '{}' is not a claim, which looks like 00c0ffee00c0ffee-42; write the one that "
        "WEIR.THROTTLE.SUBMIT named",
        word.substr(0, kHoldTextBytesMax)));
    return std::nullopt;
  }
  if (throttles.role_of(*claim) == throttle::SetRole::kConsensus &&
      run.session.role() != Role::kAdmin) {
    run.reply.write_error(kConsensusIsForAdmin);
    return std::nullopt;
  }
  return claim;
}

void write_claim_end(Run& run, HoldId claim, throttle::ClaimEnd end, std::string_view state) {
  if (end == throttle::ClaimEnd::kUnknown) {
    run.reply.write_error(
        fmt::format("NOTFOUND claim {}: it has ended, or is too old, or was never made here; "
                    "submit again if there is more to do",
                    hold_text(claim)));
    return;
  }
  if (end == throttle::ClaimEnd::kRoom) run.session.service().engine->try_waiters(run.now);
  run.reply.begin_map(1);
  run.reply.write_bulk("state");
  run.reply.write_bulk(state);
}

std::size_t run_throttle_settle(Run& run) {
  const ThrottlePart throttles = throttles_of(run);
  if (throttles == nullptr) return 1;
  const Words words = run.arguments(0);
  const std::optional<HoldId> claim = claim_of(run, *throttles, words[0]);
  if (!claim) return 1;
  // Without a figure, all that was claimed counts as used.
  throttle::Used used{.gas = std::numeric_limits<std::int64_t>::max()};
  for (const std::string_view word : words.subspan(1)) {
    const std::size_t sign = word.find('=');
    const std::string_view name = word.substr(0, sign);
    if (sign == std::string_view::npos || (name != "gas" && name != "duration")) {
      run.reply.write_error(fmt::format(
          "BADARG {} is not known; write gas or duration, '=' and what was used", in_quotes(word)));
      return 1;
    }
    const Result<std::int64_t> number =
        engine::parse_count(name, word.substr(sign + 1), 0, kTermMax);
    if (!number) {
      write_error(number.error(), run.reply);
      return 1;
    }
    if (name == "gas") {
      used.gas = *number;
    } else {
      used.duration = *number;
    }
  }
  const Result<throttle::ClaimEnd> end = throttles->settle(*claim, used);
  if (!end) {
    write_error(end.error(), run.reply);
    return 1;
  }
  write_claim_end(run, *claim, *end, "settled");
  return 1;
}

std::size_t run_throttle_cancel(Run& run) {
  const ThrottlePart throttles = throttles_of(run);
  if (throttles == nullptr) return 1;
  const std::optional<HoldId> claim = claim_of(run, *throttles, run.arguments(0)[0]);
  if (claim) write_claim_end(run, *claim, throttles->cancel(*claim), "cancelled");
  return 1;
}

constexpr std::array kThrottleCommands = {
    Command{.name = "WEIR.THROTTLE.SUBMIT",
            .words_min = 2,
            .words_max = -1,
            .role = Role::kDecide,
            .takes_groups = false,
            .run = run_throttle_submit,
            .usage = "operation=name [member=value ...] [operation=name ...]",
            .summary = "Decide transactions as the network does, in their order, and claim what "
                       "they take.",
            .when_bound = WhenBound::kChecks},
    Command{.name = "WEIR.THROTTLE.SETTLE",
            .words_min = 2,
            .words_max = 4,
            .role = Role::kDecide,
            .takes_groups = false,
            .run = run_throttle_settle,
            .usage = "claim [gas=n] [duration=n]",
            .summary = "End a claim with the gas that was used; the rest is given back.",
            .when_bound = WhenBound::kAnswers},
    Command{.name = "WEIR.THROTTLE.CANCEL",
            .words_min = 2,
            .words_max = 2,
            .role = Role::kDecide,
            .takes_groups = false,
            .run = run_throttle_cancel,
            .usage = "claim",
            .summary = "End a claim and give everything back.",
            .when_bound = WhenBound::kAnswers},
};

}  // namespace

ThrottleCommandTable throttle_commands(ThrottleCommandTable::InForce in_force) {
  return ThrottleCommandTable(kThrottleCommands, std::move(in_force));
}

}  // namespace weir::wire::resp
