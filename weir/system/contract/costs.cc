// Costs of all forms (text, JSON numbers, micro-units) pass the same bounds, and each error names
// which of the two costs it means.

#include "weir/system/contract/costs.h"

#include <fmt/format.h>

#include "weir/system/contract/fraction.h"

namespace weir::system::contract {
namespace {

constexpr std::string_view kRequestsCost = "the cost in requests";
constexpr std::string_view kUnitsCost = "the cost in processing units";

std::optional<Error> check_cost(std::string_view what, std::int64_t cost_micro) {
  if (is_acceptable(cost_micro)) return std::nullopt;
  return bad_argument(
      fmt::format("{} is {} millionths, but it must be between 0 and 2^62; write what is needed",
                  what, cost_micro));
}

Result<std::int64_t> micro_of_number(std::string_view what, double value) {
  const Result<Fraction> fraction = decimal_of(what, value);
  if (!fraction) return fraction.error();
  return micro_of(what, *fraction);
}

Result<Costs> both(const Result<std::int64_t>& requests_micro,
                   const Result<std::int64_t>& units_micro) {
  if (!requests_micro) return requests_micro.error();
  if (!units_micro) return units_micro.error();
  return Costs{*requests_micro, *units_micro};
}

}  // namespace

std::optional<Error> check_costs(const Costs& costs) {
  if (auto error = check_cost(kRequestsCost, costs.requests_micro)) return error;
  return check_cost(kUnitsCost, costs.processing_units_micro);
}

Error debt_too_large(const Policy& policy) {
  return {ErrorCode::kExhausted,
          fmt::format("policy {} owes more than can be counted; wait until it has refilled, or ask "
                      "for less",
                      policy_id(policy))};
}

Result<Costs> parse_costs(std::string_view requests, std::string_view processing_units) {
  return both(parse_micro(kRequestsCost, requests.empty() ? "1" : requests),
              parse_micro(kUnitsCost, processing_units.empty() ? "0" : processing_units));
}

Result<Costs> costs_of(double requests, double processing_units) {
  return both(micro_of_number(kRequestsCost, requests),
              micro_of_number(kUnitsCost, processing_units));
}

}  // namespace weir::system::contract
