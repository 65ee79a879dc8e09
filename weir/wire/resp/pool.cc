// Commands about jobs of the pools.
//
//   WEIR.POOL.ACQUIRE summary WAIT 30s
//   WEIR.POOL.RENEW 00c0ffee00c0ffee-42 HOLD 10m
//   WEIR.POOL.RELEASE 00c0ffee00c0ffee-42 REQUESTS 1 INPUT 4100 OUTPUT 900

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"
#include "weir/engine/quantity.h"
#include "weir/wire/resp/pool_commands.h"

namespace weir::wire::resp {
namespace {

using namespace internal;

namespace pool = system::pool;

// nullptr: there are none, and the error is written.
pool::HeldJobs* pools_of(Run& run) {
  pool::HeldJobs* const found = run.in_force<PoolPart>();
  if (found == nullptr) {
    run.reply.write_error(
        "NOTFOUND no pools are configured; write 'pools: { models: [...], job_types: [...] }' in "
        "weir.yaml, and start the server again");
  }
  return found;
}

Result<pool::JobAsk> read_ask(Words words) {
  pool::JobAsk ask{.type = words[0]};
  for (Words left = words.subspan(1); !left.empty(); left = left.subspan(2)) {
    const bool is_wait = is_word(left[0], "WAIT");
    if (!is_wait && !is_word(left[0], "HOLD")) {
      return bad_argument(fmt::format("BADARG {} is no option; write WAIT or HOLD and a duration",
                                      in_quotes(left[0])));
    }
    std::optional<Duration>& into = is_wait ? ask.wait : ask.hold;
    if (left.size() < 2 || into) {
      return bad_argument(fmt::format("BADARG {} must be written once, with a duration such as 30s",
                                      is_wait ? "WAIT" : "HOLD"));
    }
    const Result<Duration> span = engine::parse_span(is_wait ? "WAIT" : "HOLD", left[1]);
    if (!span) return span.error();
    into = *span;
  }
  return ask;
}

enum class Ending : std::uint8_t { kSettled, kFailed, kRejected, kDelegated };

struct Release {
  std::optional<pool::Used> used{};
  Ending ending = Ending::kSettled;
};

// The number that a word is for; nullptr: none.
std::int64_t* count_for(std::string_view word, pool::Used& used) {
  if (is_word(word, "REQUESTS")) return &used.requests;
  if (is_word(word, "INPUT")) return &used.input_tokens;
  if (is_word(word, "OUTPUT")) return &used.output_tokens;
  if (is_word(word, "CACHED")) return &used.cached_tokens;
  return nullptr;
}

Result<Release> read_release(Words words) {
  Release release;
  // A client that leaves out the requests made one.
  pool::Used used{.requests = 1};
  while (!words.empty()) {
    if (std::int64_t* const count = count_for(words[0], used)) {
      if (words.size() < 2) {
        return bad_argument(
            fmt::format("BADARG {} is the last word; write a number behind it", words[0]));
      }
      const Result<std::int64_t> number =
          engine::parse_count(words[0], words[1], 0, pool::kAmountMax);
      if (!number) return number.error();
      *count = *number;
      release.used = used;
      words = words.subspan(2);
      continue;
    }
    Ending ending = Ending::kFailed;
    if (is_word(words[0], "REJECTED")) {
      ending = Ending::kRejected;
    } else if (is_word(words[0], "DELEGATE")) {
      ending = Ending::kDelegated;
    } else if (!is_word(words[0], "FAILED")) {
      return bad_argument(fmt::format(
          "BADARG {} is no option; write REQUESTS, INPUT, OUTPUT or CACHED and a number, or one of "
          "FAILED, REJECTED and DELEGATE",
          in_quotes(words[0])));
    }
    if (release.ending != Ending::kSettled) {
      return bad_argument("BADARG a job ends once; write one of FAILED, REJECTED and DELEGATE");
    }
    release.ending = ending;
    words = words.subspan(1);
  }
  if (!release.used && release.ending != Ending::kFailed) {
    return bad_argument(
        "BADARG it does not say what was used; write REQUESTS, INPUT, OUTPUT and CACHED with "
        "numbers, or FAILED");
  }
  return release;
}

void write_start(const pool::HeldStart& held, Instant now, ReplyWriter& reply) {
  const pool::Start& start = held.start;
  reply.begin_map(8);
  reply.write_bulk("verdict");
  reply.write_bulk("allowed");
  reply.write_bulk("job");
  reply.write_bulk(hold_text(held.id));
  reply.write_bulk("model");
  reply.write_bulk(start.model);
  reply.write_entry("attempt", start.attempt);
  reply.write_entry("expires_in_ms", ms_until(start.expires_at, now));
  reply.write_entry("minute", start.minute.ns / 1'000'000'000);
  reply.write_entry("day", start.day.ns / 1'000'000'000);
  reply.write_bulk("remaining");
  std::size_t limited = 0;
  for (const pool::Dimension rate : pool::kRates) limited += start.limits.rates.of(rate) ? 1 : 0;
  reply.begin_map(limited);
  for (const pool::Dimension rate : pool::kRates) {
    if (const std::optional<std::int64_t>& limit = start.limits.rates.of(rate)) {
      reply.write_entry(to_string(rate), std::max<std::int64_t>(0, *limit - start.used.of(rate)));
    }
  }
}

void write_refusal(const pool::JobRefusal& refusal, Instant now, ReplyWriter& reply) {
  const bool is_final = refusal.reason == pool::JobRefused::kNever ||
                        refusal.reason == pool::JobRefused::kDelegations;
  reply.begin_map(6);
  reply.write_bulk("verdict");
  reply.write_bulk(is_final ? "never" : "denied");
  reply.write_bulk("reason");
  reply.write_bulk(to_string(refusal.reason));
  reply.write_bulk("model");
  if (refusal.model.empty()) {
    reply.write_null();
  } else {
    reply.write_bulk(refusal.model);
  }
  reply.write_bulk("dimension");
  reply.write_bulk(to_string(refusal.dimension));
  reply.write_entry("retry_after_ms", is_final ? -1 : ms_until(refusal.retry_at, now));
  reply.write_bulk("message");
  reply.write_bulk(refusal.message);
}

// A start or a refusal as a map; the absence of an answer as an error.
void write_job_answer(const pool::JobAnswer& answer, Instant now, ReplyWriter& reply) {
  if (const auto* held = std::get_if<pool::HeldStart>(&answer)) {
    return write_start(*held, now, reply);
  }
  const auto& refusal = std::get<pool::JobRefusal>(answer);
  if (refusal.reason == pool::JobRefused::kUnavailable ||
      refusal.reason == pool::JobRefused::kStopped) {
    return write_error({ErrorCode::kUnavailable, refusal.message}, reply);
  }
  write_refusal(refusal, now, reply);
}

// Runs `begin`, which asks for a place, and writes the answer or owes it.
template <typename Begin>
void reply_turn(Run& run, pool::HeldJobs* jobs, const Begin& begin) {
  const Result<pool::JobTurn> turn =
      begin([jobs, place = run.session.next_place(), deliver = run.session.deliver()](
                Instant, const pool::JobAnswer& answer) {
        LateReply late{
            [answer](Instant now, ReplyWriter& reply) { write_job_answer(answer, now, reply); }};
        if (const auto* held = std::get_if<pool::HeldStart>(&answer)) {
          late.discard = [jobs, id = held->id](Instant now) { jobs->discard(id, now); };
        }
        deliver(place, std::move(late));
      });
  if (!turn) {
    write_error(turn.error(), run.reply);
  } else if (turn->answer) {
    write_job_answer(*turn->answer, run.now, run.reply);
  } else {
    run.session.owe(run.reply, [jobs, ticket = turn->ticket](Instant now) {
      return jobs->give_up(ticket, now);
    });
  }
}

// Nothing: it is none, and the error is written.
std::optional<HoldId> job_of(Run& run, std::string_view word) {
  const std::optional<HoldId> job = read_hold(word);
  if (!job) {
    run.reply.write_error(fmt::format(
        "BADARG '{}' is not a job, which looks like 00c0ffee00c0ffee-42; write the one that "
        "WEIR.POOL.ACQUIRE named",
        word.substr(0, kHoldTextBytesMax)));
  }
  return job;
}

Result<std::optional<Duration>> read_renewal(Words words) {
  if (words.empty()) return std::optional<Duration>();
  if (words.size() != 2 || !is_word(words[0], "HOLD")) {
    return bad_argument(
        fmt::format("BADARG {} is no option; write nothing, or HOLD and a duration such as 10m",
                    in_quotes(words[0])));
  }
  const Result<Duration> span = engine::parse_span("HOLD", words[1]);
  if (!span) return span.error();
  return std::optional(*span);
}

std::string_view word_of(Ending ending) {
  if (ending == Ending::kFailed) return "failed";
  return ending == Ending::kRejected ? "rejected" : "settled";
}

// Without WAIT it waits as its type does.
bool pool_acquire_may_wait(Words) { return true; }

// Handed on to the next model, a job waits there.
bool pool_release_may_wait(Words arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](std::string_view word) { return is_word(word, "DELEGATE"); });
}

std::size_t run_pool_acquire(Run& run) {
  pool::HeldJobs* const jobs = pools_of(run);
  if (jobs == nullptr) return 1;
  const Result<pool::JobAsk> ask = read_ask(run.arguments(0));
  if (!ask) {
    write_error(ask.error(), run.reply);
  } else if (run.reaches(engine::kJobTypeIdentity, ask->type)) {
    reply_turn(run, jobs, [&](pool::JobAnswered answered) {
      return jobs->acquire(*ask, run.now, std::move(answered));
    });
  }
  return 1;
}

std::size_t run_pool_release(Run& run) {
  pool::HeldJobs* const jobs = pools_of(run);
  if (jobs == nullptr) return 1;
  const Words words = run.arguments(0);
  const std::optional<HoldId> job = job_of(run, words[0]);
  if (!job) return 1;
  const Result<Release> release = read_release(words.subspan(1));
  if (!release) {
    write_error(release.error(), run.reply);
    return 1;
  }
  if (release->ending == Ending::kDelegated) {
    reply_turn(run, jobs, [&](pool::JobAnswered answered) {
      return jobs->delegate(*job, *release->used, run.now, std::move(answered));
    });
    return 1;
  }
  const Result<pool::Settlement> settlement =
      release->ending == Ending::kFailed     ? jobs->fail(*job, release->used, run.now)
      : release->ending == Ending::kRejected ? jobs->reject(*job, *release->used, run.now)
                                             : jobs->finish(*job, *release->used, run.now);
  if (!settlement) {
    write_error(settlement.error(), run.reply);
    return 1;
  }
  run.reply.begin_map(4);
  run.reply.write_bulk("state");
  run.reply.write_bulk(word_of(release->ending));
  run.reply.write_bulk("cost");
  run.reply.write_bulk(fmt::format("{}", settlement->total_cost));
  run.reply.write_entry("overage_tokens", settlement->overage.tokens);
  run.reply.write_entry("overage_requests", settlement->overage.requests);
  return 1;
}

std::size_t run_pool_renew(Run& run) {
  pool::HeldJobs* const jobs = pools_of(run);
  if (jobs == nullptr) return 1;
  const Words words = run.arguments(0);
  const std::optional<HoldId> job = job_of(run, words[0]);
  if (!job) return 1;
  const Result<std::optional<Duration>> hold = read_renewal(words.subspan(1));
  if (!hold) {
    write_error(hold.error(), run.reply);
    return 1;
  }
  const Result<Instant> expires_at = jobs->renew(*job, *hold, run.now);
  if (!expires_at) {
    write_error(expires_at.error(), run.reply);
    return 1;
  }
  run.reply.begin_map(2);
  run.reply.write_bulk("state");
  run.reply.write_bulk("active");
  run.reply.write_entry("expires_in_ms", ms_until(*expires_at, run.now));
  return 1;
}

constexpr std::array kPoolCommands = {
    checks_when_bound(Command{
        .name = "WEIR.POOL.ACQUIRE",
        .words_min = 2,
        .words_max = 6,
        .role = Role::kDecide,
        .takes_groups = false,
        .run = run_pool_acquire,
        .usage = "type [WAIT duration] [HOLD duration]",
        .summary = "Ask for a place of a job at the first model that has one, and wait for it.",
        .may_wait = pool_acquire_may_wait}),
    answers_when_bound(
        Command{.name = "WEIR.POOL.RELEASE",
                .words_min = 3,
                .words_max = -1,
                .role = Role::kDecide,
                .takes_groups = false,
                .run = run_pool_release,
                .usage = "job [REQUESTS n] [INPUT n] [OUTPUT n] [CACHED n] "
                         "[FAILED | REJECTED | DELEGATE]",
                .summary = "End a job with what it used, or let it go on to the next model.",
                .may_wait = pool_release_may_wait}),
    answers_when_bound(Command{.name = "WEIR.POOL.RENEW",
                               .words_min = 2,
                               .words_max = 4,
                               .role = Role::kDecide,
                               .takes_groups = false,
                               .run = run_pool_renew,
                               .usage = "job [HOLD duration]",
                               .summary = "Let a job run longer, counted from now."}),
};

}  // namespace

PoolCommandTable pool_commands(PoolCommandTable::InForce in_force) {
  return PoolCommandTable(kPoolCommands, std::move(in_force));
}

}  // namespace weir::wire::resp
