// Refusal: a 429, as the service publishes it.
//
//   429 Too Many Requests
//   Retry-After: 3398
//   {"error":{"status":429,"reason":"Too Many
//   Requests","message":"...","code":"RATE_LIMIT_EXCEEDED"}}
//
// `Retry-After` is in milliseconds, as the service has it, or in seconds, as HTTP
// has it. It is rounded up, so that a client that obeys it has not come too early.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/contract/book.h"

namespace weir::system::contract {

enum class RefusalCode : std::uint8_t {
  kExceeded,         // waiting helps, unless a fixed quota is used up
  kExceedsCapacity,  // one request larger than a policy: waiting never helps
};

constexpr std::string_view to_string(RefusalCode code) noexcept {
  return code == RefusalCode::kExceeded ? "RATE_LIMIT_EXCEEDED"
                                        : "RATE_LIMIT_TOKEN_COUNT_EXCEEDS_CAPACITY";
}

enum class RetryAfterUnit : std::uint8_t { kMilliseconds, kSeconds };

constexpr Duration unit_of(RetryAfterUnit unit) noexcept {
  return unit == RetryAfterUnit::kMilliseconds ? Duration{std::chrono::milliseconds{1}}
                                               : Duration{std::chrono::seconds{1}};
}

struct Refusal {
  RefusalCode code = RefusalCode::kExceeded;
  std::vector<std::size_t> violated{};  // policies; of kExceedsCapacity those that are exceeded
  std::optional<std::size_t> worst{};   // the one that is waited for longest
  std::optional<Wide> wait_ns{};        // nothing: for ever
};

// What the policies say to a request that starts `behind` from now, after those
// before it; nothing if they all have enough and no reservation is before it.
std::optional<Refusal> refusal_of(std::span<const Standing> standing, Duration behind);

// The header's value, rounded up; nothing where waiting does not help.
std::optional<std::string> retry_after_text(const Refusal& refusal, RetryAfterUnit unit);

// The body. Names the policy that is waited for.
std::string refusal_body(const Refusal& refusal, std::span<const Policy> policies);

}  // namespace weir::system::contract
