// Problem: why there is no answer, as `application/problem+json` (RFC 9457).
//
//   {"type":"urn:weir:bad-argument","title":"Bad request","status":400,
//    "detail":"body:1:17: attributes.client is a list, but it must be a text; ..."}
//
// A refusal is not a problem but a decision; see write.h. The type is stable and may
// be matched on, the detail is for people: where, what was found, what was
// expected, what to write.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/result.h"

namespace weir::wire::http {

enum class Problem : std::uint8_t {
  kBadArgument,
  kUnauthenticated,
  kForbidden,
  kNotFound,
  kMethodNotAllowed,
  kTimeout,
  kConflict,
  kTooLarge,
  kTargetTooLong,
  kUnsupportedType,
  kBadConfiguration,
  kHeaderTooLarge,
  kExhausted,
  kUnavailable,
  kUnmatched,
};

// What is always said about one kind of problem.
struct ProblemRow {
  Problem problem;
  unsigned status;
  std::string_view type;
  std::string_view title;
};

// Every problem, in the order of the enumeration.
std::span<const ProblemRow> problems() noexcept;

constexpr std::string_view kProblemType = "application/problem+json";

Problem problem_of(ErrorCode code) noexcept;
unsigned status_of(Problem problem) noexcept;

// Appends the JSON object.
void append_problem(std::string& out, Problem problem, std::string_view detail);

}  // namespace weir::wire::http
