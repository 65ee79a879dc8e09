// Costs that cannot be meant, by name.
//
// Costs are checked before anything is looked at, so that a mistake debits nothing.
//
// Thread safety: every function is pure.

#pragma once

#include <optional>
#include <string_view>

#include "weir/base/result.h"
#include "weir/system/contract/policy.h"
#include "weir/system/contract/resource.h"

namespace weir::system::contract {

// Nothing, or what is wrong: negative, or above 2^62 micro-units.
std::optional<Error> check_costs(const Costs& costs);

Error debt_too_large(const Policy& policy);

// Costs as a caller writes them. Decimals, rounded up to whole micro-units: an
// empty text stands for 1 request, or 0 processing units.
Result<Costs> parse_costs(std::string_view requests, std::string_view processing_units);
// Costs as JSON numbers have them, exactly as those are written.
Result<Costs> costs_of(double requests, double processing_units);

}  // namespace weir::system::contract
