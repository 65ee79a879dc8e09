// What the server itself is asked: reload, metrics, health, events, description.

#include <utility>

#include "weir/wire/http/exchange.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

void reload(Exchange& exchange) {
  exchange.answer_call<Status>(
      [&](engine::StatusCallback told) { exchange.api.host().reload_later(std::move(told)); },
      [](Exchange& answered, const Status& status) {
        if (status) {
          answered.answer_state("reloaded");
        } else if (status.error().code == ErrorCode::kBadArgument) {
          // The request was good; what the configuration says is not.
          answered.fail(Problem::kBadConfiguration, status.error().message);
        } else {
          answered.fail(status.error());
        }
      });
}

void show_metrics(Exchange& exchange) {
  exchange.answer.content_type = "text/plain; version=0.0.4";
  exchange.answer.body = exchange.api.host().metrics();
}

void show_health(Exchange& exchange) {
  exchange.answer.content_type = kPlainType;
  exchange.answer.body = "ok\n";
}

void show_readiness(Exchange& exchange) {
  std::string why;
  const bool may_look = exchange.call.role >= Role::kObserve;
  if (!exchange.api.host().ready(why, may_look)) {
    if (!may_look) why += "; a token with the role observe is told more";
    exchange.fail(Problem::kUnavailable, why);
    return;
  }
  exchange.answer.content_type = kPlainType;
  exchange.answer.body = "ready\n";
  if (!why.empty()) exchange.answer.body += why + "\n";
}

void stream_events(Exchange& exchange) {
  exchange.answer.content_type = "text/event-stream";
  exchange.answer.headers = "Cache-Control: no-store\r\n";
  exchange.answer.is_stream = true;
}

void show_openapi(Exchange& exchange) {
  exchange.answer.content_type = kJsonType;
  exchange.answer.body = exchange.api.openapi();
}

}  // namespace weir::wire::http
