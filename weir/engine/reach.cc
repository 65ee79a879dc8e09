#include "weir/engine/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/engine/rule_set.h"

namespace weir::engine {
namespace {

// The identities that gates read from a request. What else is known of a miner hangs on its uid.
constexpr std::array kGateIdentities = {kPortalIdentity, kHotkeyIdentity, kUidIdentity,
                                        kPayerIdentity};

Error forbidden(std::string message) { return {ErrorCode::kForbidden, std::move(message)}; }

Error outside(std::string_view name, std::string_view value) {
  return forbidden(
      fmt::format("{} is {}, which this token is not for; use the token that is, or have its "
                  "bounds changed under 'auth'",
                  name, in_quotes(value)));
}

bool is_in(const Condition& bound, std::string_view value) {
  return std::any_of(bound.patterns.begin(), bound.patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, value); });
}

}  // namespace

Result<bool> Reach::is_bound_to(std::string_view name, std::string_view value) const {
  bool is_named = false;
  for (const std::vector<Condition>* const bounds : {&only, &identities}) {
    for (const Condition& bound : *bounds) {
      if (bound.attribute != name) continue;
      if (!is_in(bound, value)) return outside(name, value);
      is_named = true;
    }
  }
  const auto& gates = kGateIdentities;
  if (!is_named && std::find(gates.begin(), gates.end(), name) != gates.end()) {
    return outside(name, value);
  }
  return is_named;
}

Status Reach::covers(const Request& request) const {
  if (!is_bound()) return Done{};
  for (const Condition& bound : only) {
    if (request.attribute(bound.attribute)) continue;
    return forbidden(fmt::format(
        "{} is missing, but this token is bound to some of its values; name it", bound.attribute));
  }
  bool is_named = false;
  for (const Attribute& attribute : request.attributes) {
    const Result<bool> named = is_bound_to(attribute.name, attribute.value);
    if (!named) return named.error();
    is_named = is_named || *named;
  }
  // Without it some are exempt.
  if (request.attribute(kHotkeyIdentity) && !request.attribute(kUidIdentity)) {
    return outside(kUidIdentity, "");
  }
  if (is_named) return Done{};
  return forbidden(
      "the request names nothing that this token is bound to; name it, or use a token with "
      "'only'");
}

Status Reach::covers(const RuleSet& rules, std::string_view limit,
                     std::span<const std::string_view> key) const {
  const Rule* const rule = rules.find(limit);
  if (!is_bound() || rule == nullptr || rule->per.size() != key.size()) return Done{};
  bool is_named = false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const Result<bool> named = is_bound_to(rules.attributes()[rule->per[i]], key[i]);
    if (!named) return named.error();
    is_named = is_named || *named;
  }
  if (is_named) return Done{};
  return forbidden(
      "the key names nothing that this token is bound to; use a token that is not bound");
}

Status Reach::covers(std::string_view identity, std::string_view value,
                     std::span<const Attribute> others) const {
  if (!is_bound()) return Done{};
  const Result<bool> named = is_bound_to(identity, value);
  if (!named) return named.error();
  if (!*named) return outside(identity, value);
  for (const Attribute& other : others) {
    if (const Result<bool> said = is_bound_to(other.name, other.value); !said) return said.error();
  }
  return Done{};
}

}  // namespace weir::engine
