#include "weir/wire/http/exchange.h"

#include <utility>

#include "weir/engine/quantity.h"

namespace weir::wire::http {

Exchange::Finish Exchange::answer_later(std::function<bool(Instant)> give_up) {
  waits = true;
  answer.give_up = std::move(give_up);
  return finish_later();
}

Exchange::Finish Exchange::finish_later() const {
  return [&api = api, later = later, route = answer.route](const Write& write) {
    Answer late;
    late.route = route;
    const Call no_call{};
    Later no_later;
    Exchange exchange{api, no_call, api.host().now(), late, no_later};
    write(exchange);
    later(std::move(late));
  };
}

bool Exchange::read_query(std::string_view name, std::string_view& value) {
  if (!query.has(name)) return true;
  const Result<std::string_view> text = query.one(name);
  if (!text) return fail(text.error());
  value = *text;
  return true;
}

bool Exchange::read_query(std::string_view name, std::int64_t& value) {
  if (!query.has(name)) return true;
  std::string_view text;
  if (!read_query(name, text)) return false;
  const Result<std::int64_t> number =
      engine::parse_count(fmt::format("query: {}", name), text, 0, kTermMax);
  if (!number) return fail(number.error());
  value = *number;
  return true;
}

}  // namespace weir::wire::http
