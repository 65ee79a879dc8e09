// Commands that decide, and those about holds and keys.

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"
#include "weir/base/recycled.h"
#include "weir/base/time.h"
#include "weir/engine/owned_request.h"
#include "weir/engine/quantity.h"
#include "weir/engine/shared.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp::internal {
namespace {

constexpr std::size_t kAnswersAtOnce = 16;
constexpr std::int64_t kHeaviestMax = 100;  // keys in one reply
constexpr std::int64_t kHeaviestUsual = 10;

std::string_view code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadArgument:
      return "BADARG";
    case ErrorCode::kNotFound:
      return "NOTFOUND";
    case ErrorCode::kExhausted:
      return "EXHAUSTED";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
  }
  return "ERR";
}

// All of a decision up to what remains of its limits.
void write_beginning(const Decision& decision, Instant now, bool with_grant, Reply& reply) {
  reply.begin_map(with_grant ? 7 : 6);
  reply.write_bulk("verdict");
  reply.write_bulk(to_string(decision.verdict));
  reply.write_bulk("limit");
  if (const Outcome* binding = decision.binding()) {
    reply.write_bulk(binding->limit);
  } else {
    reply.write_null();
  }
  reply.write_bulk("shortfall");
  reply.write_integer(decision.shortfall);
  reply.write_bulk("retry_after_ms");
  reply.write_integer(ms_until(decision.earliest, now));
  if (with_grant) {
    reply.write_bulk("granted");
    reply.write_integer(decision.granted);
  }
  reply.write_bulk("hold");
  if (decision.hold) {
    reply.write_bulk(hold_text(decision.hold));
  } else {
    reply.write_null();
  }
  reply.write_bulk("remaining");
}

// The beginning that most decisions have: allowed now, without a hold.
std::string_view plain_beginning(int version) {
  const auto write = [](int in_version) {
    std::string text;
    Reply reply(text);
    reply.set_version(in_version);
    write_beginning(Decision{}, Instant{}, false, reply);
    return text;
  };
  static const std::string of_2 = write(2);
  static const std::string of_3 = write(3);
  return version == 2 ? of_2 : of_3;
}

void write_answer(const Result<Decision>& answer, Instant now, bool with_grant, Reply& reply) {
  if (answer) {
    write_decision(*answer, now, with_grant, reply);
  } else {
    write_error(answer.error(), reply);
  }
}

// Asks limits that are kept elsewhere, and replies when they have answered.
void ask_elsewhere(Run& run, const engine::Request& request, const engine::AcquireOptions& options,
                   Duration wait) {
  const Service& service = run.session.service();
  engine::WaitCallback callback =
      [deliver = run.session.deliver(), place = run.session.defer(run.reply),
       with_grant = !options.up_to.empty()](const Result<Decision>& answer) {
        const auto kept =
            std::allocate_shared<const Result<Decision>>(Recycled<Result<Decision>>(), answer);
        deliver(
            place,
            [kept, with_grant](Instant now, Reply& reply) {
              write_answer(*kept, now, with_grant, reply);
            },
            answer ? answer->hold : HoldId{});
      };
  if (service.sink != nullptr) {
    callback = [sink = service.sink, now = run.now, options, wait,
                owned = std::make_shared<engine::OwnedRequest>(request),
                callback = std::move(callback)](const Result<Decision>& answer) {
      sink->record({&owned->view(), 1}, {options.hold, wait, {}, options.up_to}, now, {&answer, 1});
      callback(answer);
    };
  }
  service.engine->ask(request, options, run.now, run.now + wait, std::move(callback));
}

bool is_elsewhere(const Result<Decision>& answer) {
  return answer && answer->verdict == Verdict::kElsewhere;
}

// Decides the asks of `scratch.group` together, a few at a time: answers are large, and
// are written out while they are still near.
void flush_group(Run& run) {
  const Service& service = run.session.service();
  Scratch& scratch = run.scratch;
  scratch.requests.clear();
  for (const Ask& ask : scratch.group) scratch.requests.push_back(scratch.asks.request(ask));
  scratch.group.clear();
  while (scratch.answers.size() < kAnswersAtOnce) scratch.answers.emplace_back(std::in_place);
  for (std::span<const engine::Request> left = scratch.requests; !left.empty();) {
    const std::size_t count = std::min(left.size(), kAnswersAtOnce);
    const std::span answers(scratch.answers.data(), count);
    service.engine->decide(left.first(count), run.now, answers);
    if (service.sink != nullptr) service.sink->record(left.first(count), {}, run.now, answers);
    for (std::size_t i = 0; i < count; ++i) {
      if (is_elsewhere(answers[i])) [[unlikely]] {
        ask_elsewhere(run, left[i], {}, {});
      } else {
        write_answer(answers[i], run.now, false, run.reply);
      }
    }
    left = left.subspan(count);
  }
}

void record(const Run& run, const engine::Request& request, const Ask& ask,
            const Result<Decision>& answer) {
  engine::DecisionSink* const sink = run.session.service().sink;
  if (sink == nullptr) return;
  sink->record({&request, 1},
               {ask.options.hold, ask.wait, ask.options.book_within, ask.options.up_to}, run.now,
               {&answer, 1});
}

// An ask with options, by itself.
void run_ask(Run& run, const Ask& ask) {
  engine::Engine& engine = *run.session.service().engine;
  const engine::Request request = run.scratch.asks.request(ask);
  if (ask.wait.count() == 0) {
    const Result<Decision> answer = engine.acquire(request, ask.options, run.now);
    if (is_elsewhere(answer)) return ask_elsewhere(run, request, ask.options, {});
    record(run, request, ask, answer);
    return write_answer(answer, run.now, !ask.options.up_to.empty(), run.reply);
  }
  if (!ask.options.up_to.empty() || ask.options.book_within.count() != 0) {
    return run.reply.write_error(
        "BADARG WAIT is given with UPTO or BOOK, but it waits for the whole cost to fit now; leave "
        "one of them out");
  }
  const Result<Decision> answer = run.session.wait(
      request, {.deadline = run.now + ask.wait, .hold = ask.options.hold}, run.now);
  if (is_elsewhere(answer)) return ask_elsewhere(run, request, ask.options, ask.wait);
  record(run, request, ask, answer);
  if (!run.session.is_waiting()) write_answer(answer, run.now, false, run.reply);
}

void write_hold_state(const Result<engine::HoldState>& state, Reply& reply) {
  if (!state) return write_error(state.error(), reply);
  reply.write_simple(to_string(*state));
}

void write_status(const Status& status, Reply& reply) {
  if (!status) return write_error(status.error(), reply);
  reply.write_simple("OK");
}

void write_inspection(const Result<engine::Inspection>& found, Reply& reply) {
  if (!found) return write_error(found.error(), reply);
  reply.begin_map(found->leased ? 5 : 4);
  reply.write_bulk("remaining");
  reply.write_integer(found->remaining);
  reply.write_bulk("capacity");
  reply.write_integer(found->capacity);
  reply.write_bulk("overridden");
  reply.write_boolean(found->overridden);
  reply.write_bulk("waiters");
  reply.write_integer(static_cast<std::int64_t>(found->waiters));
  if (!found->leased) return;
  reply.write_bulk("leased");
  reply.write_integer(*found->leased);
}

// Replies with the state of a shared hold once the store has told it.
engine::HoldCallback reply_later(Run& run) {
  return [deliver = run.session.deliver(),
          place = run.session.defer(run.reply)](const Result<engine::HoldState>& state) {
    deliver(place, [state](Instant, Reply& reply) { write_hold_state(state, reply); }, {});
  };
}

// The hold named by the first argument, or nothing after writing an error.
std::optional<HoldId> hold_argument(Run& run) {
  const std::optional<HoldId> hold = read_hold(run.arguments(0)[0]);
  if (!hold) {
    run.reply.write_error(fmt::format(
        "BADARG '{}' is not a hold, which looks like 00c0ffee00c0ffee-42; write the one a decision "
        "named",
        run.arguments(0)[0].substr(0, kHoldTextBytesMax)));
  }
  return hold;
}

}  // namespace

std::int64_t ms_until(Instant at, Instant now) {
  if (at == kForever) return -1;
  if (at <= now) return 0;
  const std::int64_t ns = (at - now).count();
  return ns / kNsPerMs + (ns % kNsPerMs != 0 ? 1 : 0);
}

void write_error(const Error& error, Reply& reply) {
  // Errors of the words themselves already have their code.
  if (error.message.starts_with("BADARG ")) return reply.write_error(error.message);
  reply.write_error(fmt::format("{} {}", code_of(error.code), error.message));
}

void write_decision(const Decision& decision, Instant now, bool with_grant, Reply& reply) {
  if (decision.allowed() && !decision.hold && !with_grant && decision.earliest <= now) [[likely]] {
    reply.write_replies(plain_beginning(reply.version()));
  } else {
    write_beginning(decision, now, with_grant, reply);
  }
  reply.begin_map(decision.outcomes().size());
  for (const Outcome& outcome : decision.outcomes()) {
    reply.write_entry(outcome.limit, outcome.remaining);
  }
}

std::size_t run_acquire(Run& run) {
  Scratch& scratch = run.scratch;
  scratch.asks.clear();
  scratch.group.clear();
  const std::shared_ptr<const engine::RuleSet> rules = run.session.service().engine->rules();
  for (std::size_t i = 0; i < run.group.size(); ++i) {
    const Result<Ask> ask = scratch.asks.read(run.arguments(i), *rules);
    if (ask && ask->is_plain) {
      scratch.group.push_back(*ask);
      continue;
    }
    flush_group(run);
    if (!ask) {
      write_error(ask.error(), run.reply);
      continue;
    }
    run_ask(run, *ask);
    if (run.session.is_waiting()) return i + 1;
  }
  flush_group(run);
  return run.group.size();
}

std::size_t run_peek(Run& run) {
  run.scratch.asks.clear();
  const Result<Ask> ask =
      run.scratch.asks.read(run.arguments(0), *run.session.service().engine->rules());
  if (!ask) {
    write_error(ask.error(), run.reply);
  } else if (!ask->is_plain) {
    run.reply.write_error("BADARG WEIR.PEEK takes attributes and COST only; leave the rest out");
  } else {
    engine::Engine& engine = *run.session.service().engine;
    const engine::Request request = run.scratch.asks.request(*ask);
    const Result<Decision> answer = engine.peek(request, run.now);
    if (!is_elsewhere(answer)) {
      write_answer(answer, run.now, false, run.reply);
      return 1;
    }
    engine.ask_peek(
        request, run.now,
        [deliver = run.session.deliver(),
         place = run.session.defer(run.reply)](const Result<Decision>& said) {
          deliver(place,
                  [said](Instant now, Reply& reply) { write_answer(said, now, false, reply); }, {});
        });
  }
  return 1;
}

std::size_t run_throttle(Run& run) {
  const Service& service = run.session.service();
  Scratch& scratch = run.scratch;
  scratch.throttles.clear();
  scratch.keys.clear();
  for (std::size_t i = 0; i < run.group.size(); ++i) {
    scratch.throttles.push_back(read_throttle(run.arguments(i)));
    const Result<ThrottleCall>& call = scratch.throttles.back();
    scratch.keys.push_back(call ? service.engine->ad_hoc_key(call->key) : engine::AdHocKey{});
  }
  for (std::size_t i = 0; i < run.group.size(); ++i) {
    const Result<ThrottleCall>& call = scratch.throttles[i];
    if (!call) {
      run.reply.write_error(call.error().message);
      continue;
    }
    const Result<engine::AdHocStep> taken =
        service.engine->take_ad_hoc(scratch.keys[i], call->shape, call->quantity, run.now);
    if (!taken) {
      write_error(taken.error(), run.reply);
      continue;
    }
    if (service.sink != nullptr) {
      service.sink->record_ad_hoc({call->key, call->shape.den, call->shape.burst, call->quantity},
                                  run.now, taken->step.allowed());
    }
    run.reply.write_integers(reply_of(*call, taken->step, taken->at, service.rounding).integers());
  }
  return run.group.size();
}

std::size_t run_settle(Run& run) {
  const std::optional<HoldId> hold = hold_argument(run);
  if (!hold) return 1;
  engine::Engine& engine = *run.session.service().engine;
  const std::shared_ptr<const engine::RuleSet> rules = engine.rules();
  std::vector<engine::Cost> actual;
  for (const std::string_view word : run.arguments(0).subspan(1)) {
    const Result<engine::Cost> cost = AskPool::read_cost(word, *rules);
    if (!cost) {
      write_error(cost.error(), run.reply);
      return 1;
    }
    actual.push_back(*cost);
  }
  if (hold->is_shared) {
    engine.ask_settle(*hold, actual, run.now, reply_later(run));
  } else {
    write_hold_state(engine.settle(*hold, actual, run.now), run.reply);
  }
  return 1;
}

std::size_t run_cancel(Run& run) {
  engine::Engine& engine = *run.session.service().engine;
  const std::optional<HoldId> hold = hold_argument(run);
  if (hold && hold->is_shared) {
    engine.ask_cancel(*hold, run.now, reply_later(run));
  } else if (hold) {
    write_hold_state(engine.cancel(*hold, run.now), run.reply);
  }
  return 1;
}

std::size_t run_renew(Run& run) {
  const std::optional<HoldId> hold = hold_argument(run);
  if (!hold) return 1;
  const Result<Duration> ttl = engine::parse_duration("the duration", run.arguments(0)[1]);
  if (!ttl) {
    write_error(ttl.error(), run.reply);
  } else if (hold->is_shared) {
    run.session.service().engine->ask_renew(*hold, *ttl, run.now, reply_later(run));
  } else {
    write_hold_state(run.session.service().engine->renew(*hold, *ttl, run.now), run.reply);
  }
  return 1;
}

std::size_t run_inspect(Run& run) {
  engine::Engine& engine = *run.session.service().engine;
  const Words arguments = run.arguments(0);
  const auto key = read_key(arguments, *engine.rules());
  if (!key) {
    write_error(key.error(), run.reply);
    return 1;
  }
  if (!engine.rules()->is_shared(arguments[0])) {
    write_inspection(engine.inspect(arguments[0], *key, run.now), run.reply);
    return 1;
  }
  engine.ask_inspect(
      arguments[0], *key, run.now,
      [deliver = run.session.deliver(),
       place = run.session.defer(run.reply)](const Result<engine::Inspection>& found) {
        deliver(place, [found](Instant, Reply& reply) { write_inspection(found, reply); }, {});
      });
  return 1;
}

std::size_t run_heaviest(Run& run) {
  const Words arguments = run.arguments(0);
  engine::Engine& engine = *run.session.service().engine;
  Result<std::int64_t> count = kHeaviestUsual;
  if (arguments.size() > 1) {
    count = engine::parse_count("the number of keys", arguments[1], 1, kHeaviestMax);
  }
  if (!count) {
    write_error(count.error(), run.reply);
  } else if (engine.rules()->find(arguments[0]) == nullptr) {
    write_error(
        {ErrorCode::kNotFound, fmt::format("limit {}: there is no such limit; correct the name",
                                           in_quotes(arguments[0]))},
        run.reply);
  } else {
    const std::vector<engine::HeavyKey> keys =
        engine.heaviest(arguments[0], static_cast<std::size_t>(*count));
    run.reply.begin_map(keys.size());
    for (const engine::HeavyKey& heavy : keys) {
      run.reply.write_bulk(heavy.key);
      run.reply.write_integer(heavy.units);
    }
  }
  return 1;
}

std::size_t run_reset(Run& run) {
  engine::Engine& engine = *run.session.service().engine;
  const Words arguments = run.arguments(0);
  const auto key = read_key(arguments, *engine.rules());
  if (!key) {
    write_error(key.error(), run.reply);
  } else if (engine.rules()->is_shared(arguments[0])) {
    engine.ask_reset(
        arguments[0], *key, run.now,
        [deliver = run.session.deliver(),
         place = run.session.defer(run.reply)](const Status& status) {
          deliver(place, [status](Instant, Reply& reply) { write_status(status, reply); }, {});
        });
  } else {
    write_status(engine.reset(arguments[0], *key, run.now), run.reply);
  }
  return 1;
}

std::size_t run_reload(Run& run) {
  write_status(run.session.service().host->reload(), run.reply);
  return 1;
}

}  // namespace weir::wire::resp::internal
