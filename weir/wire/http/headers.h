// Headers: what a decision says about its limits, for clients that read no body.
//
// Three families, of which the server's settings choose one:
//
//   kIetf            RateLimit-Policy: "per-client";q=200;w=2
//                    RateLimit: "per-client";r=0;t=1
//   kXRateLimit      X-RateLimit-Limit: 200, -Remaining: 0, -Reset: 2   (seconds from now)
//   kXRateLimitEpoch the same with Reset in seconds since the Unix epoch
//
// and `Retry-After` with a refusal that knows when it ends. Seconds are rounded up:
// a client that comes back then is not refused for the same reason. Where no instant is
// known, none is written. Limits in shadow are left out; they bind no request.
//
// `w` is the length of a window, and of a bucket or ticker the time from empty to
// full. `t` is when a limit that refused admits the same cost; after an admission,
// when at the latest there is more. `Reset` is when at the latest all is back.
//
// Thread safety: Policies is immutable; the functions are pure.

#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/engine/rule_set.h"

namespace weir::wire::http {

enum class HeaderStyle : std::uint8_t { kIetf, kXRateLimit, kXRateLimitEpoch, kNone };

// The limits of one rule set by name.
class Policies {
 public:
  explicit Policies(std::shared_ptr<const engine::RuleSet> rules);

  // nullptr: the rules have changed since the decision.
  const engine::Rule* find(std::string_view limit) const noexcept;
  const engine::RuleSet& rules() const noexcept { return *rules_; }

 private:
  std::shared_ptr<const engine::RuleSet> rules_;
  boost::unordered_flat_map<std::string_view, const engine::Rule*> by_name_;
};

constexpr std::int64_t kHeaderIntegerMax = 999'999'999'999'999;  // RFC 9651: 15 digits

// Whole seconds from `now` until `at`, rounded up; 0 if it is not in the future.
std::int64_t seconds_until(Instant at, Instant now) noexcept;

// A structured-field string: `"` and `\` escaped; other bytes than 0x20..0x7e, which
// it cannot hold, as %XX.
void append_field_string(std::string& out, std::string_view text);

// Appends complete lines, each ending with CR LF.
void append_headers(std::string& out, HeaderStyle style, const Policies& policies,
                    const Decision& decision, Instant now);

// `Retry-After`, at least 1, with a denial or an overload whose end is known.
void append_retry_after(std::string& out, const Decision& decision, Instant now);

}  // namespace weir::wire::http
