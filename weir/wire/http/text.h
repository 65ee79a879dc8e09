// Text: how strings, numbers, instants and durations are written in JSON.
//
// Everything is appended to a string the caller keeps, so a connection that reuses
// its buffers allocates nothing. Whatever the bytes, what is written is valid JSON:
// control characters are escaped, and bytes that are not UTF-8 become U+FFFD.
//
// A duration is written as a sum of whole units, largest first: `1m30s`, `500ms`.
// weir/engine/quantity.h reads it back.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/base/utf8.h"

namespace weir::wire::http {

// Equal but for the case of ASCII letters.
bool is_same_word(std::string_view a, std::string_view b) noexcept;

void append_int(std::string& out, std::int64_t value);
void append_unsigned(std::string& out, std::uint64_t value);
// null: there is none.
void append_optional(std::string& out, std::optional<std::int64_t> value);

// In quotes; null: there is none.
void append_id(std::string& out, HoldId id);

// In quotes, escaped.
void append_quoted(std::string& out, std::string_view text);

// "2027-01-15T08:00:00.333333334Z" with quotes and always nine digits; null for kForever.
void append_instant(std::string& out, Instant at);
// The same as nanoseconds since the epoch; null for kForever.
void append_instant_ns(std::string& out, Instant at);

// In quotes: "1m30s". Requires span >= 0.
void append_duration(std::string& out, Duration span);

// A list: `each(element)` appends one element; commas come in between.
template <typename List, typename Each>
void append_list(std::string& out, const List& list, Each each) {
  out += '[';
  bool first = true;
  for (const auto& element : list) {
    if (!std::exchange(first, false)) out += ',';
    each(element);
  }
  out += ']';
}

}  // namespace weir::wire::http
