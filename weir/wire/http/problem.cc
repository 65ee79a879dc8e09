#include "weir/wire/http/problem.h"

#include <array>
#include <cstddef>

#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

constexpr std::array<ProblemRow, 15> kProblems = {{
    {Problem::kBadArgument, 400, "urn:weir:bad-argument", "Bad request"},
    {Problem::kUnauthenticated, 401, "urn:weir:unauthenticated", "Unauthorized"},
    {Problem::kForbidden, 403, "urn:weir:forbidden", "Forbidden"},
    {Problem::kNotFound, 404, "urn:weir:not-found", "Not found"},
    {Problem::kMethodNotAllowed, 405, "urn:weir:method-not-allowed", "Method not allowed"},
    {Problem::kTimeout, 408, "urn:weir:timeout", "Request timeout"},
    {Problem::kConflict, 409, "urn:weir:conflict", "Conflict"},
    {Problem::kTooLarge, 413, "urn:weir:too-large", "Content too large"},
    {Problem::kTargetTooLong, 414, "urn:weir:target-too-long", "URI too long"},
    {Problem::kUnsupportedType, 415, "urn:weir:unsupported-type", "Unsupported media type"},
    {Problem::kBadConfiguration, 422, "urn:weir:bad-configuration", "Unprocessable content"},
    {Problem::kHeaderTooLarge, 431, "urn:weir:header-too-large", "Request header fields too large"},
    {Problem::kExhausted, 503, "urn:weir:exhausted", "Service unavailable"},
    {Problem::kUnavailable, 503, "urn:weir:unavailable", "Service unavailable"},
    {Problem::kUnmatched, 400, "urn:weir:unmatched", "Bad request"},
}};

constexpr const ProblemRow& row_of(Problem problem) noexcept {
  return kProblems[static_cast<std::size_t>(problem)];
}

static_assert(row_of(Problem::kUnmatched).problem == Problem::kUnmatched);

}  // namespace

std::span<const ProblemRow> problems() noexcept { return kProblems; }

Problem problem_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kBadArgument:
      return Problem::kBadArgument;
    case ErrorCode::kNotFound:
      return Problem::kNotFound;
    case ErrorCode::kExhausted:
      return Problem::kExhausted;
    case ErrorCode::kUnavailable:
      return Problem::kUnavailable;
    case ErrorCode::kUnmatched:
      return Problem::kUnmatched;
    case ErrorCode::kForbidden:
      return Problem::kForbidden;
  }
  return Problem::kUnavailable;
}

unsigned status_of(Problem problem) noexcept { return row_of(problem).status; }

void append_problem(std::string& out, Problem problem, std::string_view detail) {
  const ProblemRow& row = row_of(problem);
  out += R"({"type":)";
  append_quoted(out, row.type);
  out += R"(,"title":)";
  append_quoted(out, row.title);
  out += R"(,"status":)";
  append_unsigned(out, row.status);
  out += R"(,"detail":)";
  append_quoted(out, detail);
  out += '}';
}

}  // namespace weir::wire::http
