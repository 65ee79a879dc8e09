// What a 429 says: policies that can never hold the cost come first, then the one that is waited
// for longest.

#include "weir/system/contract/refusal.h"

#include <fmt/format.h>

namespace weir::system::contract {

std::optional<Refusal> refusal_of(std::span<const Standing> standing, Duration behind) {
  Refusal refusal;
  for (std::size_t i = 0; i < standing.size(); ++i) {
    if (standing[i].exceeds) refusal.violated.push_back(i);
  }
  if (!refusal.violated.empty()) {
    refusal.code = RefusalCode::kExceedsCapacity;
    return refusal;
  }
  bool exhausted = false;
  for (std::size_t i = 0; i < standing.size(); ++i) {
    if (standing[i].missing_fs <= 0) continue;
    refusal.violated.push_back(i);
    exhausted |= standing[i].exhausted;
    const bool worse =
        !refusal.worst || standing[i].missing_fs > standing[*refusal.worst].missing_fs;
    if (worse) refusal.worst = i;
  }
  if (refusal.violated.empty() && behind.count() <= 0) return std::nullopt;
  const Wide missing_fs = refusal.worst ? standing[*refusal.worst].missing_fs : 0;
  if (!exhausted) refusal.wait_ns = behind.count() + wait_ns(missing_fs);
  return refusal;
}

std::optional<std::string> retry_after_text(const Refusal& refusal, RetryAfterUnit unit) {
  if (!refusal.wait_ns) return std::nullopt;
  return fmt::format("{}", ceil_div(*refusal.wait_ns, unit_of(unit).count()));
}

std::string refusal_body(const Refusal& refusal, std::span<const Policy> policies) {
  std::string message = "You have exceeded your rate limit";
  if (refusal.code == RefusalCode::kExceedsCapacity) {
    message = fmt::format("This request is larger than policy {} holds; make it smaller",
                          policy_id(policies[refusal.violated[0]]));
  } else if (refusal.worst && !refusal.wait_ns) {
    message = fmt::format("Policy {} is used up", policy_id(policies[*refusal.worst]));
  } else if (refusal.worst) {
    message += fmt::format(": policy {}", policy_id(policies[*refusal.worst]));
  }
  return fmt::format(
      R"({{"error":{{"status":429,"reason":"Too Many Requests","message":"{}","code":"{}"}}}})",
      message, to_string(refusal.code));
}

}  // namespace weir::system::contract
