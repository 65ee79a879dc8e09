// Meters in words: the kinds, which parameters each has, and how they are written.
//
//   {"kind":"bucket","amount":1,"period":"10ms","burst":200}
//
// What GET /v1/limits shows of a meter can be sent back as an override. Rates are
// shown in lowest terms, because that is how a bucket keeps them: 100 in a second
// is 1 in 10ms.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/engine/meter.h"
#include "weir/meter/calendar.h"

namespace weir::wire::http {

struct MeterKind {
  std::string_view name;
  std::array<std::string_view, 4> parameters;  // unused ones are empty
  std::array<std::string_view, 3> optional;
  std::string_view example;

  bool takes(std::string_view parameter) const noexcept;
  bool may_lack(std::string_view parameter) const noexcept;
};

std::span<const MeterKind> meter_kinds() noexcept;
const MeterKind* find_meter_kind(std::string_view name) noexcept;
std::string meter_kind_names();  // `bucket, ticker, …`

std::optional<meter::CalendarUnit> read_calendar_unit(std::string_view word) noexcept;

// Appends the JSON object.
void append_meter(std::string& out, const engine::MeterShape& shape);

}  // namespace weir::wire::http
