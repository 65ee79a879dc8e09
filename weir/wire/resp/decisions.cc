// Commands that decide, and those about holds and keys.

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/hold_text.h"
#include "weir/base/in_quotes.h"
#include "weir/base/recycled.h"
#include "weir/base/time.h"
#include "weir/base/told.h"
#include "weir/engine/ad_hoc.h"
#include "weir/engine/engine.h"
#include "weir/engine/quantity.h"
#include "weir/engine/rule_set.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp::internal {
namespace {

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
    case ErrorCode::kUnmatched:
      return "UNMATCHED";
    case ErrorCode::kForbidden:
      return "NOPERM";
  }
  return "ERR";
}

// All of a decision up to what remains of its limits.
void write_beginning(const Decision& decision, Instant now, bool with_grant, ReplyWriter& reply) {
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
    ReplyWriter reply(text);
    reply.set_version(in_version);
    write_beginning(Decision{}, Instant{}, false, reply);
    return text;
  };
  static const std::string of_2 = write(2);
  static const std::string of_3 = write(3);
  return version == 2 ? of_2 : of_3;
}

void write_answer(const Result<Decision>& answer, Instant now, bool with_grant,
                  ReplyWriter& reply) {
  if (answer) {
    reply.wait_for(answer->record);
    write_decision(*answer, now, with_grant, reply);
  } else {
    write_error(answer.error(), reply);
  }
}

// Writes the answers to a batch, or owes them.
class Replies final : public engine::Answers {
 public:
  Replies(Run& run, std::span<const engine::Ask> asks) : run_(run), asks_(asks) {}

  void now(std::size_t i, const Result<Decision>& answer) override {
    write_answer(answer, run_.now, has_grant(i), run_.reply);
  }

  engine::LateAnswer later(std::size_t i, std::uint64_t ticket) override {
    engine::Engine* const engine = run_.session.service().engine;
    const std::size_t place = run_.session.next_place();
    run_.session.owe(run_.reply,
                     [engine, ticket](Instant now) { return engine->give_up(ticket, now); });
    return [engine, place, deliver = run_.session.deliver(),
            with_grant = has_grant(i)](const Result<Decision>& answer) {
      const auto kept =
          std::allocate_shared<const Result<Decision>>(Recycled<Result<Decision>>(), answer);
      LateReply late{[kept, with_grant](Instant now, ReplyWriter& reply) {
        write_answer(*kept, now, with_grant, reply);
      }};
      if (answer && answer->hold) {
        late.discard = [engine, kept](Instant now) { engine->cancel((*kept)->hold, now); };
      }
      deliver(place, std::move(late));
    };
  }

 private:
  bool has_grant(std::size_t i) const noexcept { return !asks_[i].up_to.empty(); }

  Run& run_;
  std::span<const engine::Ask> asks_;
};

// Decides the asks that were read, together.
void flush_asks(Run& run) {
  Replies replies(run, run.scratch.asks);
  run.session.service().engine->ask(run.scratch.asks, run.now, replies);
  run.scratch.asks.clear();
}

// Writes the answer to a call of the engine, or owes it. `call` is given the callback.
template <typename Answer, typename Call>
void reply_to(Run& run, const Call& call, void (*write)(const Answer&, ReplyWriter&)) {
  const auto told = Told<Answer>::make();
  call(told->callback());
  const auto answer = told->answer_or([&] {
    const std::size_t place = run.session.next_place();
    run.session.owe(run.reply);
    return [place, deliver = run.session.deliver(), write](const Answer& late) {
      deliver(place, {[late, write](Instant, ReplyWriter& reply) { write(late, reply); }});
    };
  });
  if (answer) write(*answer, run.reply);
}

void write_hold_answer(const Result<engine::HoldAnswer>& answer, ReplyWriter& reply) {
  if (!answer) return write_error(answer.error(), reply);
  reply.wait_for(answer->record);
  reply.write_simple(to_string(answer->state));
}

void write_status(const Status& status, ReplyWriter& reply) {
  if (!status) return write_error(status.error(), reply);
  reply.write_simple("OK");
}

void write_ended_holds(const Result<engine::EndedHolds>& ended, ReplyWriter& reply) {
  if (!ended) return write_error(ended.error(), reply);
  reply.wait_for(ended->record);
  reply.write_integer(static_cast<std::int64_t>(ended->count));
}

void write_inspection(const Result<engine::Inspection>& found, ReplyWriter& reply) {
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

void write_error(const Error& error, ReplyWriter& reply) {
  // Errors of the words themselves already have their code.
  if (error.message.starts_with("BADARG ")) return reply.write_error(error.message);
  reply.write_error(fmt::format("{} {}", code_of(error.code), error.message));
}

void write_decision(const Decision& decision, Instant now, bool with_grant, ReplyWriter& reply) {
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

// Attributes and costs have an equals sign, and every other option has one value.
bool acquire_may_wait(Words arguments) {
  const auto skip_pairs = [&] {
    while (!arguments.empty() && arguments[0].find('=') != std::string_view::npos) {
      arguments = arguments.subspan(1);
    }
  };
  for (skip_pairs(); !arguments.empty(); skip_pairs()) {
    if (is_word(arguments[0], "WAIT")) return true;
    arguments = arguments.subspan(std::min<std::size_t>(arguments.size(), 2));
  }
  return false;
}

std::size_t run_acquire(Run& run) {
  Scratch& scratch = run.scratch;
  std::size_t words = 0;
  for (const Scratch::Item& item : run.group) words += item.word_count;
  scratch.pool.begin(words);
  scratch.asks.clear();
  const std::shared_ptr<const engine::RuleSet> rules = run.session.service().engine->rules();
  for (std::size_t i = 0; i < run.group.size(); ++i) {
    const Result<engine::Ask> ask = scratch.pool.read(run.arguments(i), *rules, run.now);
    if (!ask) {
      flush_asks(run);
      write_error(ask.error(), run.reply);
      continue;
    }
    if (run.session.reach() != nullptr) [[unlikely]] {
      if (const Status may = run.session.reach()->covers(ask->request); !may) {
        flush_asks(run);
        write_error(may.error(), run.reply);
        continue;
      }
    }
    const bool waits = ask->wait_until > run.now;
    if (waits && (!ask->up_to.empty() || ask->book_within.count() != 0)) {
      flush_asks(run);
      run.reply.write_error(
          "BADARG WAIT is given with UPTO or BOOK, but it waits for the whole cost to fit now; "
          "leave one of them out");
      continue;
    }
    scratch.asks.push_back(*ask);
    if (!waits) continue;
    flush_asks(run);
    if (run.session.is_waiting()) return i + 1;
  }
  flush_asks(run);
  return run.group.size();
}

std::size_t run_peek(Run& run) {
  Scratch& scratch = run.scratch;
  const Words words = run.arguments(0);
  scratch.pool.begin(words.size());
  Result<engine::Ask> ask =
      scratch.pool.read(words, *run.session.service().engine->rules(), run.now);
  if (!ask) {
    write_error(ask.error(), run.reply);
  } else if (!ask->is_plain()) {
    run.reply.write_error("BADARG WEIR.PEEK takes attributes and COST only; leave the rest out");
  } else if (run.reaches(ask->request)) {
    ask->is_peek = true;
    scratch.asks.assign(1, *ask);
    flush_asks(run);
  }
  return 1;
}

std::size_t run_throttle(Run& run) {
  const Service& service = run.session.service();
  Scratch& scratch = run.scratch;
  engine::AdHoc buckets(*service.engine);
  scratch.throttles.clear();
  scratch.keys.clear();
  for (std::size_t i = 0; i < run.group.size(); ++i) {
    scratch.throttles.push_back(read_throttle(run.arguments(i)));
    const Result<ThrottleCall>& call = scratch.throttles.back();
    scratch.keys.push_back(call ? buckets.key(call->key) : engine::AdHocKey{});
  }
  for (std::size_t i = 0; i < run.group.size(); ++i) {
    const Result<ThrottleCall>& call = scratch.throttles[i];
    if (!call) {
      run.reply.write_error(call.error().message);
      continue;
    }
    if (!run.reaches(engine::kThrottleKeyIdentity, call->key)) continue;
    const Result<engine::AdHocStep> taken =
        buckets.take(scratch.keys[i], call->shape, call->quantity, run.now);
    if (!taken) {
      write_error(taken.error(), run.reply);
      continue;
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
  reply_to(
      run,
      [&](engine::HoldCallback told) { engine.settle(*hold, actual, run.now, std::move(told)); },
      write_hold_answer);
  return 1;
}

std::size_t run_cancel(Run& run) {
  engine::Engine& engine = *run.session.service().engine;
  const std::optional<HoldId> hold = hold_argument(run);
  if (!hold) return 1;
  reply_to(
      run, [&](engine::HoldCallback told) { engine.cancel(*hold, run.now, std::move(told)); },
      write_hold_answer);
  return 1;
}

std::size_t run_renew(Run& run) {
  const std::optional<HoldId> hold = hold_argument(run);
  if (!hold) return 1;
  const Result<Duration> ttl = engine::parse_duration("the duration", run.arguments(0)[1]);
  if (!ttl) {
    write_error(ttl.error(), run.reply);
  } else {
    engine::Engine& engine = *run.session.service().engine;
    reply_to(
        run,
        [&](engine::HoldCallback told) { engine.renew(*hold, *ttl, run.now, std::move(told)); },
        write_hold_answer);
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
  if (!run.reaches(*engine.rules(), arguments[0], *key)) return 1;
  reply_to(
      run,
      [&](engine::InspectCallback told) {
        engine.inspect(arguments[0], *key, run.now, std::move(told));
      },
      write_inspection);
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
  Words arguments = run.arguments(0);
  // A part of a key has `=` in it.
  const bool and_holds = arguments.size() > 1 && is_word(arguments.back(), "HOLDS");
  if (and_holds) arguments = arguments.first(arguments.size() - 1);
  const auto key = read_key(arguments, *engine.rules());
  if (!key) {
    write_error(key.error(), run.reply);
  } else if (and_holds) {
    reply_to(
        run,
        [&](engine::EndedHoldsCallback told) {
          engine::end_holds(engine, arguments[0], *key, run.now, std::move(told));
        },
        write_ended_holds);
  } else {
    reply_to(
        run,
        [&](engine::StatusCallback told) {
          engine.reset(arguments[0], *key, run.now, std::move(told));
        },
        write_status);
  }
  return 1;
}

// What follows in a transaction would be run with the old rules.
bool reload_may_wait(Words) { return true; }

std::size_t run_reload(Run& run) {
  reply_to(
      run,
      [&](engine::StatusCallback told) {
        run.session.service().host->reload_later(std::move(told));
      },
      write_status);
  return 1;
}

}  // namespace weir::wire::resp::internal
