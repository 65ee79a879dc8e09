// Allocation message: an allocation as JSON, in the published form.
//
//   {"instanceId":"inst-1","allocation":{"instanceCount":2,"pools":{"gpt-4":{"totalSlots":50,
//    "tokensPerMinute":500000,...}},"dynamicLimits":{"gpt-4":{"tokensPerMinute":500000}}}}
//
// A dimension that is not limited is 0 in `pools` and missing in `dynamicLimits`.
//
// Thread safety: every function is pure.

#pragma once

#include <string>
#include <string_view>

#include "weir/system/pool/limits.h"

namespace weir::system::pool {

std::string allocation_json(const Allocation& allocation);
std::string allocation_message(std::string_view instance, const Allocation& allocation);

}  // namespace weir::system::pool
