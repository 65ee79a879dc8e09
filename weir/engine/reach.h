// Reach: what a client may name whose token is bound.
//
//   auth: [ { token: ..., role: decide, only: { client: [acme-*] }, portals: [p-7] } ]
//
// A token without bounds reaches everything that its role allows. A bound one reaches what its
// bounds cover, and nothing else:
//
// 1. A request names every attribute of `only`, and each value matches one of its patterns.
// 2. An identity of a system, such as a portal, is one that the bounds name: in the system's own
//    calls, and in a request that has it as an attribute. What else such a call says matches
//    `only`, where that names it.
// 3. A request names something that the token is bound to; so a token with portals alone does not
//    reach limits that have nothing to do with portals.
//
// Thread safety: none needed. A Reach is a value.

#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/role.h"
#include "weir/engine/request.h"
#include "weir/engine/rule_set.h"
#include "weir/engine/rules.h"

namespace weir::engine {

// What systems know clients by. As an attribute of a request each has the same name.
constexpr std::string_view kPortalIdentity = "portal";
constexpr std::string_view kHotkeyIdentity = "hotkey";
constexpr std::string_view kUidIdentity = "uid";  // of a hotkey: it may be exempt
constexpr std::string_view kAccountIdentity = "account";
constexpr std::string_view kJobTypeIdentity = "job_type";
constexpr std::string_view kPayerIdentity = "payer";
constexpr std::string_view kThrottleKeyIdentity = "key";  // of CL.THROTTLE

struct Reach {
  std::vector<Condition> only{};        // attributes that each request must name
  std::vector<Condition> identities{};  // of systems

  bool is_bound() const noexcept { return !only.empty() || !identities.empty(); }

  // Whether a decision about this request may be asked for; the error says why not.
  Status covers(const Request& request) const;
  // Whether what a key of a limit has left may be looked at. A limit that there is not, or a key of
  // another length, is covered: there is nothing to see.
  Status covers(const RuleSet& rules, std::string_view limit,
                std::span<const std::string_view> key) const;
  // Whether a system may be asked about this one. `others`: what else the call says of it.
  Status covers(std::string_view identity, std::string_view value,
                std::span<const Attribute> others = {}) const;

  friend bool operator==(const Reach&, const Reach&) = default;

 private:
  // Whether a bound has this name; an error if it does not have the value. What gates know a client
  // by is an error where no bound has the name.
  Result<bool> is_bound_to(std::string_view name, std::string_view value) const;
};

// What a client may do. No reach: its token is not bound.
struct Standing {
  Role role = Role::kNobody;
  std::shared_ptr<const Reach> reach{};
};

// Of two clients; none: it is not bound.
inline bool is_same(const std::shared_ptr<const Reach>& a, const std::shared_ptr<const Reach>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

}  // namespace weir::engine
