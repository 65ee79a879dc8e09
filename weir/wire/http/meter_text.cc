#include "weir/wire/http/meter_text.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

constexpr std::array<MeterKind, 6> kMeterKinds = {{
    {"bucket",
     {"amount", "period", "burst"},
     {"burst"},
     R"({"kind":"bucket","amount":100,"period":"1s","burst":200})"},
    {"ticker",
     {"per_tick", "interval", "burst", "start"},
     {"per_tick", "start"},
     R"({"kind":"ticker","per_tick":1,"interval":"1s","burst":5})"},
    {"window", {"limit", "every"}, {}, R"({"kind":"window","limit":100,"every":"1m"})"},
    {"calendar", {"limit", "every"}, {}, R"({"kind":"calendar","limit":100,"every":"day"})"},
    {"log", {"limit", "window"}, {}, R"({"kind":"log","limit":100,"window":"1m"})"},
    {"slots",
     {"limit", "queue", "hold"},
     {"queue", "hold"},
     R"({"kind":"slots","limit":10,"queue":100,"hold":"1m"})"},
}};

constexpr std::array<std::pair<std::string_view, meter::CalendarUnit>, 4> kCalendarUnits = {
    {{"day", meter::CalendarUnit::kDay},
     {"week", meter::CalendarUnit::kWeek},
     {"month", meter::CalendarUnit::kMonth},
     {"year", meter::CalendarUnit::kYear}}};

std::string_view calendar_word(meter::CalendarUnit unit) {
  for (const auto& [word, known] : kCalendarUnits) {
    if (known == unit) return word;
  }
  return "unknown";
}

// Writes one object, member by member.
class ObjectText {
 public:
  ObjectText(std::string& out, std::string_view kind) : out_(out) {
    out_ += R"({"kind":")";
    out_ += kind;
    out_ += '"';
  }
  ~ObjectText() { out_ += '}'; }
  ObjectText(const ObjectText&) = delete;
  ObjectText& operator=(const ObjectText&) = delete;

  void count(std::string_view name, std::int64_t value) {
    member(name);
    append_int(out_, value);
  }
  void span(std::string_view name, std::int64_t value_ns) {
    member(name);
    append_duration(out_, Duration{value_ns});
  }
  void word(std::string_view name, std::string_view value) {
    member(name);
    append_quoted(out_, value);
  }

 private:
  void member(std::string_view name) {
    out_ += ",\"";
    out_ += name;
    out_ += "\":";
  }

  std::string& out_;
};

void append_shape(std::string& out, const meter::BucketShape& shape) {
  ObjectText object(out, "bucket");
  object.count("amount", shape.num);
  object.span("period", shape.den);
  object.count("burst", shape.burst);
}

void append_shape(std::string& out, const meter::TickerShape& shape) {
  ObjectText object(out, "ticker");
  object.count("per_tick", shape.per_tick);
  object.span("interval", shape.interval_ns);
  object.count("burst", shape.burst);
  object.word("start", shape.start == meter::TickerStart::kFull ? "full" : "empty");
}

void append_shape(std::string& out, const meter::WindowShape& shape) {
  const bool is_calendar = shape.length_ns == 0;
  ObjectText object(out, is_calendar ? "calendar" : "window");
  object.count("limit", shape.limit);
  if (is_calendar) {
    object.word("every", calendar_word(shape.unit));
  } else {
    object.span("every", shape.length_ns);
  }
}

void append_shape(std::string& out, const meter::LogShape& shape) {
  ObjectText object(out, "log");
  object.count("limit", shape.limit);
  object.span("window", shape.window_ns);
}

void append_shape(std::string& out, const meter::SlotsShape& shape) {
  ObjectText object(out, "slots");
  object.count("limit", shape.limit);
  object.count("queue", shape.queue);
  object.span("hold", shape.hold_ns);
}

}  // namespace

bool MeterKind::takes(std::string_view parameter) const noexcept {
  return std::find(parameters.begin(), parameters.end(), parameter) != parameters.end();
}

bool MeterKind::may_lack(std::string_view parameter) const noexcept {
  return std::find(optional.begin(), optional.end(), parameter) != optional.end();
}

std::span<const MeterKind> meter_kinds() noexcept { return kMeterKinds; }

const MeterKind* find_meter_kind(std::string_view name) noexcept {
  for (const MeterKind& kind : kMeterKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::string meter_kind_names() {
  std::string names;
  for (const MeterKind& kind : kMeterKinds) {
    if (!names.empty()) names += ", ";
    names += kind.name;
  }
  return names;
}

std::optional<meter::CalendarUnit> read_calendar_unit(std::string_view word) noexcept {
  for (const auto& [known, unit] : kCalendarUnits) {
    if (known == word) return unit;
  }
  return std::nullopt;
}

void append_meter(std::string& out, const engine::MeterShape& shape) {
  std::visit([&](const auto& one) { append_shape(out, one); }, shape);
}

}  // namespace weir::wire::http
