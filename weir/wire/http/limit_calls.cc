// Limits, meters, reset and overrides: looking at keys, and changing them.

#include <charconv>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weir/engine/engine.h"
#include "weir/wire/http/exchange.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/text.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

constexpr std::size_t kHeaviestMax = 1000;

void answer_status(Exchange& exchange, const Status& status, std::string_view state) {
  if (status) {
    exchange.answer_state(state);
  } else {
    exchange.fail(status.error());
  }
}

void show_heaviest(Exchange& exchange, std::string_view limit) {
  const Result<std::string_view> text = exchange.query.one("heaviest");
  if (!text) {
    exchange.fail(text.error());
    return;
  }
  std::size_t count = 0;
  const char* const end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, count);
  if (read.ec != std::errc{} || read.ptr != end || count < 1 || count > kHeaviestMax) {
    exchange.fail(
        Problem::kBadArgument,
        fmt::format("query: heaviest is '{}', but it must be a number from 1 to {}; write "
                    "heaviest=10",
                    *text, kHeaviestMax));
    return;
  }
  if (exchange.api.engine().rules()->find(limit) == nullptr) {
    exchange.fail(
        Problem::kNotFound,
        fmt::format("limit '{}': there is no such limit; GET /v1/limits shows them", limit));
    return;
  }
  std::string& out = exchange.answer.body;
  exchange.answer.content_type = kJsonType;
  out += R"({"limit":)";
  append_quoted(out, limit);
  out += R"(,"heaviest":)";
  append_heaviest(out, exchange.api.engine().heaviest(limit, count));
  out += '}';
}

void append_inspection(std::string& out, std::string_view limit, std::span<const std::string> key,
                       const engine::Inspection& found) {
  out += R"({"limit":)";
  append_quoted(out, limit);
  out += R"(,"key":[)";
  for (const std::string& value : key) {
    if (out.back() != '[') out += ',';
    append_quoted(out, value);
  }
  out += R"(],"remaining":)";
  append_int(out, found.remaining);
  out += R"(,"capacity":)";
  append_int(out, found.capacity);
  out += R"(,"overridden":)";
  out += found.overridden ? "true" : "false";
  out += R"(,"waiters":)";
  append_unsigned(out, found.waiters);
  if (found.leased) {
    out += R"(,"leased":)";
    append_int(out, *found.leased);
  }
  out += '}';
}

void answer_inspection(Exchange& exchange, std::string_view limit, std::span<const std::string> key,
                       const Result<engine::Inspection>& found) {
  if (!found) {
    exchange.fail(found.error());
    return;
  }
  exchange.answer.content_type = kJsonType;
  append_inspection(exchange.answer.body, limit, key, *found);
}

}  // namespace

void show_limits(Exchange& exchange) {
  exchange.answer.content_type = kJsonType;
  append_rules(exchange.answer.body, *exchange.api.engine().rules());
}

void show_meters(Exchange& exchange) {
  const Result<std::string_view> limit = exchange.query.one("limit");
  if (!limit) {
    exchange.fail(limit.error());
    return;
  }
  if (exchange.query.has("heaviest")) {
    if (exchange.query.has("key")) {
      exchange.fail(Problem::kBadArgument,
                    "query: 'key' and 'heaviest' are both given; write one or the other");
    } else if (exchange.call.reach != nullptr) {
      exchange.fail(Problem::kForbidden,
                    "query: 'heaviest' shows the keys of others, and this token is bound; name one "
                    "'key', or use a token that is not bound");
    } else {
      show_heaviest(exchange, *limit);
    }
    return;
  }
  const std::vector<std::string_view> key = exchange.query.all("key");
  if (!exchange.reaches(*exchange.api.engine().rules(), *limit, key)) return;
  exchange.answer_call<Result<engine::Inspection>>(
      [&](engine::InspectCallback told) {
        exchange.api.engine().inspect(*limit, key, exchange.now, std::move(told));
      },
      [name = std::string(*limit), values = std::vector<std::string>(key.begin(), key.end())](
          Exchange& to, const Result<engine::Inspection>& found) {
        answer_inspection(to, name, values, found);
      });
}

void reset(Exchange& exchange) {
  Texts texts;
  const Result<KeyName> name = read_key_name(exchange.call.body, texts);
  if (!name) {
    exchange.fail(name.error());
    return;
  }
  if (name->and_holds) {
    exchange.answer_call<Result<engine::EndedHolds>>(
        [&](engine::EndedHoldsCallback told) {
          engine::end_holds(exchange.api.engine(), name->limit, name->key, exchange.now,
                            std::move(told));
        },
        [](Exchange& to, const Result<engine::EndedHolds>& ended) {
          if (!ended) {
            to.fail(ended.error());
            return;
          }
          to.wait_for(ended->record);
          to.answer.content_type = kJsonType;
          to.answer.body = fmt::format(R"({{"state":"reset","holds":{}}})", ended->count);
        });
    return;
  }
  exchange.answer_call<Status>(
      [&](engine::StatusCallback told) {
        exchange.api.engine().reset(name->limit, name->key, exchange.now, std::move(told));
      },
      [](Exchange& to, const Status& status) { answer_status(to, status, "reset"); });
}

void set_override(Exchange& exchange) {
  Texts texts;
  const Result<engine::MeterSpec> meter = read_meter(
      exchange.call.body, texts, Scales(exchange.api.engine()).of_limit(exchange.parameter));
  if (!meter) {
    exchange.fail(meter.error());
    return;
  }
  answer_status(exchange,
                exchange.api.engine().set_override(exchange.parameter, exchange.query.all("key"),
                                                   *meter, exchange.now),
                "overridden");
}

void clear_override(Exchange& exchange) {
  answer_status(exchange,
                exchange.api.engine().set_override(exchange.parameter, exchange.query.all("key"),
                                                   std::nullopt, exchange.now),
                "cleared");
}

}  // namespace weir::wire::http
