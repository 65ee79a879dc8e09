#include "weir/system/pool/coordinator.h"

#include <fmt/format.h>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {

std::string_view to_string(Refused reason) noexcept {
  switch (reason) {
    case Refused::kExhausted:
      return "exhausted";
    case Refused::kBusy:
      return "busy";
    case Refused::kNever:
      return "never";
    case Refused::kNotRegistered:
      return "not_registered";
    case Refused::kRecovering:
      return "recovering";
    case Refused::kUnreachable:
      return "unreachable";
    case Refused::kMismatch:
      return "mismatch";
    case Refused::kUnknownModel:
      return "unknown_model";
    case Refused::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view to_string(Released result) noexcept {
  switch (result) {
    case Released::kSettled:
      return "settled";
    case Released::kFenced:
      return "fenced";
    case Released::kNotHeld:
      return "not_held";
    case Released::kUnreachable:
      return "unreachable";
    case Released::kStopped:
      return "stopped";
  }
  return "unknown";
}

Status validate_registration(const Registration& registration) {
  if (registration.limits.empty() || registration.limits.size() > kModelsMax) {
    return bad_argument(fmt::format("there are {} models, but there must be 1 to {}",
                                    registration.limits.size(), kModelsMax));
  }
  for (const auto& [model, limits] : registration.limits) {
    if (Status valid = validate_model(model, limits); !valid) return valid;
  }
  return validate_amounts("the average estimate", registration.average);
}

Status same_limits(const Registration& fleet, const Registration& own) {
  const auto refuse = [&](std::string_view what) {
    return bad_argument(fmt::format(
        "{} differs from what the fleet has at version {}; give every instance the same, or a "
        "higher version with the new one",
        what, fleet.version));
  };
  for (const auto& [model, limits] : own.limits) {
    const auto found = fleet.limits.find(model);
    if (found == fleet.limits.end() || found->second != limits) {
      return refuse(fmt::format("model {}", in_quotes(model)));
    }
  }
  for (const auto& [model, limits] : fleet.limits) {
    if (!own.limits.contains(model)) return refuse(fmt::format("model {}", in_quotes(model)));
  }
  if (fleet.average != own.average) return refuse("the average estimate");
  return Done{};
}

}  // namespace weir::system::pool
