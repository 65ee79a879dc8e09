#include "weir/engine/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/engine/rule_set.h"

namespace weir::engine {
namespace {

// The identities that gates read from a request.
constexpr std::array kRequestIdentities = {kPortalIdentity, kHotkeyIdentity, kPayerIdentity};

Error forbidden(std::string message) { return {ErrorCode::kForbidden, std::move(message)}; }

bool is_in(const Condition& bound, std::string_view value) {
  return std::any_of(bound.patterns.begin(), bound.patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, value); });
}

const Condition* find_in(const std::vector<Condition>& bounds, std::string_view name) noexcept {
  const auto found = std::find_if(bounds.begin(), bounds.end(),
                                  [&](const Condition& bound) { return bound.attribute == name; });
  return found == bounds.end() ? nullptr : &*found;
}

Status outside(std::string_view name, std::string_view value) {
  return forbidden(fmt::format(
      "{} is {}, which this token is not for; use the token that is, or have its bounds "
      "changed under 'auth'",
      name, in_quotes(value)));
}

}  // namespace

const Condition* Reach::bound_of(std::string_view name) const noexcept {
  const Condition* const attribute = find_in(only, name);
  return attribute != nullptr ? attribute : find_in(identities, name);
}

Status Reach::covers(const Request& request) const {
  if (!is_bound()) return Done{};
  for (const Condition& bound : only) {
    const auto value = request.attribute(bound.attribute);
    if (!value) {
      return forbidden(
          fmt::format("attribute {} is missing, but this token is bound to some of its values; "
                      "name it",
                      bound.attribute));
    }
    if (!is_in(bound, *value)) return outside("attribute " + bound.attribute, *value);
  }
  bool is_named = !only.empty();
  for (const std::string_view identity : kRequestIdentities) {
    const auto value = request.attribute(identity);
    if (!value) continue;
    if (Status status = covers(identity, *value); !status) return status;
    is_named = true;
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
    const std::string_view name = rules.attributes()[rule->per[i]];
    const Condition* const bound = bound_of(name);
    if (bound == nullptr) continue;
    if (!is_in(*bound, key[i])) return outside(fmt::format("attribute {}", name), key[i]);
    is_named = true;
  }
  if (is_named) return Done{};
  return forbidden(
      "the key names nothing that this token is bound to; use a token that is not bound");
}

Status Reach::covers(std::string_view identity, std::string_view value) const {
  if (!is_bound()) return Done{};
  const Condition* const bound = bound_of(identity);
  if (bound != nullptr && is_in(*bound, value)) return Done{};
  return outside(identity, value);
}

}  // namespace weir::engine
