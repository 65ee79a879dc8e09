#include "weir/store/redis/shared/errors.h"

#include <fmt/format.h>

#include <optional>

#include "weir/base/in_quotes.h"

namespace weir::store::redis {
namespace {

// The word after `mark` in what a script has said.
std::optional<std::string_view> word_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + mark.size());
  return rest.substr(0, rest.find(' '));
}

}  // namespace

bool is_outage(FailureKind kind) {
  switch (kind) {
    case FailureKind::kScript:
    case FailureKind::kForeign:
    case FailureKind::kClock:
    case FailureKind::kTooMany:
    case FailureKind::kTopology:
      return false;
    default:
      return true;
  }
}

Error foreign_value(std::string_view key) {
  return {ErrorCode::kUnavailable,
          fmt::format("Redis: key {} holds a value that weir did not write, so nothing is "
                      "admitted; delete it, or write another 'redis: {{ name: ... }}'",
                      in_quotes(key))};
}

Error named(const Failure& failure) {
  if (const auto key = word_after(failure.message, "FOREIGN ")) return foreign_value(*key);
  if (const auto now = word_after(failure.message, "CLOCK ")) {
    return {ErrorCode::kUnavailable,
            fmt::format("Redis: its clock says {} us since 1970, more than a whole calendar window "
                        "from the clock here; set the clocks",
                        *now)};
  }
  if (failure.kind == FailureKind::kTopology) {
    return {ErrorCode::kUnavailable,
            fmt::format("{}; weir needs one Redis by itself, so nothing is admitted, whatever "
                        "'outage' says",
                        failure.message)};
  }
  return to_error(failure);
}

Error odd_reply(std::string_view what) {
  return {ErrorCode::kUnavailable,
          fmt::format("Redis: the answer to {} is not what the script of this version gives; run "
                      "the same version of weir everywhere",
                      what)};
}

}  // namespace weir::store::redis
