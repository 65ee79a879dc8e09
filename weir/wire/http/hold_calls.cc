// Settle, cancel and renew: what becomes of a hold.
//
// The first call changes something; repeated, it is told the same again. One that
// comes too late for what it wants is a conflict, and a hold that is gone is not
// found.

#include <utility>

#include "weir/base/hold_text.h"
#include "weir/engine/ask.h"
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

// Answers about a hold once `call`, which is given the callback, has told how it stands.
template <typename Call>
void answer_hold_call(Exchange& exchange, HoldId hold, HoldState wanted, const Call& call) {
  exchange.answer_call<Result<engine::HoldAnswer>>(
      call, [hold, wanted](Exchange& to, const Result<engine::HoldAnswer>& answer) {
        if (!answer) {
          to.fail(answer.error());
          return;
        }
        to.wait_for(answer->record);
        answer_hold(to, hold, wanted, answer->state);
      });
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
  answer_hold_call(exchange, asked->hold, HoldState::kSettled, [&](engine::HoldCallback told) {
    exchange.api.engine().settle(asked->hold, asked->costs, exchange.now, std::move(told));
  });
}

void cancel(Exchange& exchange) {
  Texts texts;
  const Result<HoldId> hold = read_cancellation(exchange.call.body, texts);
  if (!hold) {
    exchange.fail(hold.error());
    return;
  }
  answer_hold_call(exchange, *hold, HoldState::kCancelled, [&](engine::HoldCallback told) {
    exchange.api.engine().cancel(*hold, exchange.now, std::move(told));
  });
}

void renew(Exchange& exchange) {
  Texts texts;
  const Result<Renewal> asked = read_renewal(exchange.call.body, texts);
  if (!asked) {
    exchange.fail(asked.error());
    return;
  }
  answer_hold_call(exchange, asked->hold, HoldState::kActive, [&](engine::HoldCallback told) {
    exchange.api.engine().renew(asked->hold, asked->ttl, exchange.now, std::move(told));
  });
}

}  // namespace weir::wire::http
