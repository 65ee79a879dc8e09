// Settle, cancel and renew: what becomes of a hold.
//
// The first call changes something; repeated, it is told the same again. One that
// comes too late for what it wants is a conflict, and a hold that is gone is not
// found.

#include "weir/base/hold_text.h"
#include "weir/engine/shared.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {
namespace {

using engine::HoldState;

void answer_hold(Exchange& exchange, HoldId hold, HoldState wanted, HoldState state) {
  if (state == wanted) {
    exchange.answer_state(to_string(state));
  } else if (state == HoldState::kGone) {
    exchange.fail(Problem::kNotFound,
                  fmt::format("hold '{}': it has expired, or this server never made it; acquire "
                              "again",
                              hold_text(hold)));
  } else {
    exchange.fail(Problem::kConflict,
                  fmt::format("hold '{}': it has been {} already, so it cannot become {}; acquire "
                              "again if there is more to do",
                              hold_text(hold), to_string(state), to_string(wanted)));
  }
}

// Answers about a shared hold once the store has told how it stands.
engine::HoldCallback answer_later(Exchange& exchange, HoldId hold, HoldState wanted) {
  exchange.waits = true;
  return [&api = exchange.api, later = exchange.later, route = exchange.answer.route, hold,
          wanted](const Result<HoldState>& state) {
    Answer answer;
    answer.route = route;
    const Call no_call{};
    Later no_later;
    Exchange late{api, no_call, {}, answer, no_later};
    if (state) {
      answer_hold(late, hold, wanted, *state);
    } else {
      late.fail(state.error());
    }
    later(std::move(answer));
  };
}

}  // namespace

void settle(Exchange& exchange) {
  Texts texts;
  const Result<Settlement> asked =
      read_settlement(exchange.call.body, texts, Scales(exchange.api.engine()));
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (asked->hold.is_shared) {
    return exchange.api.engine().ask_settle(
        asked->hold, asked->costs, exchange.now,
        answer_later(exchange, asked->hold, HoldState::kSettled));
  }
  const Result<HoldState> state =
      exchange.api.engine().settle(asked->hold, asked->costs, exchange.now);
  if (!state) {
    exchange.fail(state.error());
    return;
  }
  answer_hold(exchange, asked->hold, HoldState::kSettled, *state);
}

void cancel(Exchange& exchange) {
  Texts texts;
  const Result<HoldId> hold = read_cancellation(exchange.call.body, texts);
  if (!hold) {
    exchange.fail(hold.error());
    return;
  }
  if (hold->is_shared) {
    return exchange.api.engine().ask_cancel(*hold, exchange.now,
                                            answer_later(exchange, *hold, HoldState::kCancelled));
  }
  answer_hold(exchange, *hold, HoldState::kCancelled,
              exchange.api.engine().cancel(*hold, exchange.now));
}

void renew(Exchange& exchange) {
  Texts texts;
  const Result<Renewal> asked = read_renewal(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  if (asked->hold.is_shared) {
    return exchange.api.engine().ask_renew(asked->hold, asked->ttl, exchange.now,
                                           answer_later(exchange, asked->hold, HoldState::kActive));
  }
  const Result<HoldState> state =
      exchange.api.engine().renew(asked->hold, asked->ttl, exchange.now);
  if (!state) {
    exchange.fail(state.error());
    return;
  }
  answer_hold(exchange, asked->hold, HoldState::kActive, *state);
}

}  // namespace weir::wire::http
