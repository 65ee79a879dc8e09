// The parameters of a meter, as an override is written.
//
// The kind may come after the parameters it gives a meaning to, so all of them are
// read first and sorted out afterwards.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "weir/engine/quantity.h"
#include "weir/wire/http/meter_text.h"
#include "weir/wire/http/read.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

using engine::MeterSpec;

struct Parameters {
  std::string_view kind{};
  std::string_view every{};  // a duration, or a unit of the calendar
  std::string_view start{};
  std::optional<std::int64_t> amount{}, burst{}, per_tick{}, limit{}, queue{};
  std::optional<Duration> period{}, interval{}, window{}, hold{};
  engine::UnitScale scale = engine::UnitScale::kWhole;
};

// In the limit's unit.
template <std::optional<std::int64_t> Parameters::*kField>
bool read_units(Reader& in, std::string_view name, Parameters& into) {
  return read_amount(in, name, into.scale, (into.*kField).emplace());
}

template <std::optional<std::int64_t> Parameters::*kField>
bool read_count(Reader& in, std::string_view name, Parameters& into) {
  return in.integer(name, (into.*kField).emplace());
}

template <std::optional<Duration> Parameters::*kField>
bool read_span(Reader& in, std::string_view name, Parameters& into) {
  return in.duration(name, (into.*kField).emplace());
}

constexpr Member<Parameters> kMembers[] = {
    {"kind", [](Reader& in, Parameters& into) { return in.text("kind", into.kind); }},
    {"amount",
     [](Reader& in, Parameters& into) {
       return read_units<&Parameters::amount>(in, "amount", into);
     }},
    {"period", [](Reader& in,
                  Parameters& into) { return read_span<&Parameters::period>(in, "period", into); }},
    {"burst", [](Reader& in,
                 Parameters& into) { return read_units<&Parameters::burst>(in, "burst", into); }},
    {"per_tick",
     [](Reader& in, Parameters& into) {
       return read_units<&Parameters::per_tick>(in, "per_tick", into);
     }},
    {"interval",
     [](Reader& in, Parameters& into) {
       return read_span<&Parameters::interval>(in, "interval", into);
     }},
    {"start", [](Reader& in, Parameters& into) { return in.text("start", into.start); }},
    {"limit", [](Reader& in,
                 Parameters& into) { return read_units<&Parameters::limit>(in, "limit", into); }},
    {"every", [](Reader& in, Parameters& into) { return in.text("every", into.every); }},
    {"window", [](Reader& in,
                  Parameters& into) { return read_span<&Parameters::window>(in, "window", into); }},
    {"queue", [](Reader& in,
                 Parameters& into) { return read_count<&Parameters::queue>(in, "queue", into); }},
    {"hold",
     [](Reader& in, Parameters& into) { return read_span<&Parameters::hold>(in, "hold", into); }},
};

bool is_given(const Parameters& given, std::string_view name) {
  if (name == "amount") return given.amount.has_value();
  if (name == "period") return given.period.has_value();
  if (name == "burst") return given.burst.has_value();
  if (name == "per_tick") return given.per_tick.has_value();
  if (name == "interval") return given.interval.has_value();
  if (name == "start") return !given.start.empty();
  if (name == "limit") return given.limit.has_value();
  if (name == "every") return !given.every.empty();
  if (name == "window") return given.window.has_value();
  if (name == "queue") return given.queue.has_value();
  return given.hold.has_value();
}

Status check_parameters(const MeterKind& kind, const Parameters& given) {
  for (const Member<Parameters>& member : kMembers) {
    if (member.name == "kind") continue;
    const bool takes = kind.takes(member.name);
    if (is_given(given, member.name) && !takes) {
      return bad_argument(
          fmt::format("body: a {} has no '{}'; write {}", kind.name, member.name, kind.example));
    }
    if (!is_given(given, member.name) && takes && !kind.may_lack(member.name)) {
      return bad_argument(fmt::format("body: a {} needs '{}', which is missing; write {}",
                                      kind.name, member.name, kind.example));
    }
  }
  return Done{};
}

Error bad_word(std::string_view what, std::string_view word, std::string_view known) {
  return bad_argument(fmt::format("body: {} is '{}', but it must be {}; write one of these", what,
                                  word.substr(0, 64), known));
}

Result<MeterSpec> ticker_of(const Parameters& given) {
  meter::TickerStart start = meter::TickerStart::kFull;
  if (given.start == "empty") {
    start = meter::TickerStart::kEmpty;
  } else if (!given.start.empty() && given.start != "full") {
    return bad_word("start", given.start, "full or empty");
  }
  return MeterSpec{
      engine::TickerSpec{given.per_tick.value_or(1), *given.interval, *given.burst, start}};
}

Result<MeterSpec> window_of(const Parameters& given) {
  const Result<Duration> every = engine::parse_span("every", given.every);
  if (!every) return bad_word("every", given.every, "a duration such as 1m or 500ms");
  return MeterSpec{engine::WindowSpec{*given.limit, *every}};
}

Result<MeterSpec> calendar_of(const Parameters& given) {
  const std::optional<meter::CalendarUnit> unit = read_calendar_unit(given.every);
  if (!unit) return bad_word("every", given.every, "day, week, month or year");
  return MeterSpec{engine::CalendarSpec{*given.limit, *unit}};
}

// The kind stands around the parameters: {"bucket":{…}}.
bool is_around(const MeterKind& kind, std::string_view body) {
  const std::string name = fmt::format("\"{}\"", kind.name);
  const std::size_t at = body.find(name);
  if (at == std::string_view::npos) return false;
  const std::size_t value = body.find_first_not_of(" \t\r\n:", at + name.size());
  return value != std::string_view::npos && body[value] == '{';
}

bool takes_all(const MeterKind& kind, const Parameters& given) {
  return std::all_of(std::begin(kMembers), std::end(kMembers), [&](const auto& member) {
    return member.name == "kind" || !is_given(given, member.name) || kind.takes(member.name);
  });
}

// A body whose kind was not read: it is missing or, as weir.yaml has it, around the parameters.
Error without_kind(std::string_view body, const Parameters& given, const Error& error) {
  const std::span<const MeterKind> kinds = meter_kinds();
  auto meant = std::find_if(kinds.begin(), kinds.end(),
                            [&](const MeterKind& kind) { return is_around(kind, body); });
  if (meant == kinds.end()) {
    meant = std::find_if(kinds.begin(), kinds.end(),
                         [&](const MeterKind& kind) { return takes_all(kind, given); });
  }
  const MeterKind& shown = meant == kinds.end() ? kinds.front() : *meant;
  return bad_argument(fmt::format("{}; a meter has its 'kind' beside its parameters: write {}",
                                  error.message, shown.example));
}

Result<MeterSpec> spec_of(const Parameters& given) {
  if (given.kind == "bucket") {
    return MeterSpec{engine::BucketSpec{*given.amount, *given.period, given.burst.value_or(0)}};
  }
  if (given.kind == "ticker") return ticker_of(given);
  if (given.kind == "window") return window_of(given);
  if (given.kind == "calendar") return calendar_of(given);
  if (given.kind == "log") return MeterSpec{engine::LogSpec{*given.limit, *given.window}};
  return MeterSpec{engine::SlotsSpec{*given.limit, given.queue.value_or(0),
                                     given.hold.value_or(engine::SlotsSpec{}.hold)}};
}

}  // namespace

Result<MeterSpec> read_meter(std::string_view body, Texts& texts, engine::UnitScale scale) {
  if (Status status = check_body(body); !status) return std::move(status).error();
  Parameters given;
  given.scale = scale;
  Reader in(body, texts);
  if (!in.object<Parameters>("the body", kMembers, given) || !in.end()) {
    return given.kind.empty() ? without_kind(body, given, in.error()) : in.error();
  }
  if (given.kind.empty()) {
    return without_kind(body, given, bad_argument("body: the member 'kind' is missing"));
  }
  const MeterKind* kind = find_meter_kind(given.kind);
  if (kind == nullptr) return bad_word("kind", given.kind, meter_kind_names());
  if (Status status = check_parameters(*kind, given); !status) return std::move(status).error();
  return spec_of(given);
}

}  // namespace weir::wire::http
