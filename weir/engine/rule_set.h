// Rule set: what compile() makes of limits, as the rest of Weir reads it.
//
// Rules name attributes and units by their place, and meters by their shape. The engine decides
// by it; protocols and stores read from it what a limit is.
//
// A limit may name its gate (GateRef). A configuration file is read before there are gates, so
// compiling has two steps, of which compile() does both:
//
//   RuleSetSpec --compile_unbound()--> UnboundRules --bind(gates)--> RuleSet
//
// Thread safety: immutable.

#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/integer.h"
#include "weir/engine/gate.h"
#include "weir/engine/meter.h"
#include "weir/engine/rules.h"

namespace weir::engine {

// The names of one kind that a rule set knows, each with a place.
class Names {
 public:
  // Place of `name`, or size() if it is not there.
  std::size_t find(std::string_view name) const noexcept {
    std::size_t place = 0;
    while (place < texts_.size() && texts_[place] != name) ++place;
    return place;
  }

  void add(std::string name) { texts_.push_back(std::move(name)); }

  std::size_t size() const noexcept { return texts_.size(); }
  const std::string& operator[](std::size_t place) const noexcept { return texts_[place]; }
  std::string joined() const;  // `client, operation`, or `none`

 private:
  std::vector<std::string> texts_;
};

// Lets a map of strings be asked with a view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
using TextMap = boost::unordered_flat_map<std::string, std::int64_t, TextHash, std::equal_to<>>;

// Of a pattern `*` stands for any characters and `?` for exactly one. Matching is linear in time
// but for the stars, and never recursive.
bool has_wildcard(std::string_view pattern) noexcept;
bool matches(std::string_view pattern, std::string_view text) noexcept;

// A condition with the attribute's place instead of its name.
struct Matcher {
  std::size_t attribute = 0;
  std::vector<std::string> globs{};
  TextMap exact{};  // values, with a weight each
};

// A limit that was checked. It has a shape, or a gate.
struct Rule {
  std::string name;
  MeterShape shape{};
  std::shared_ptr<Gate> gate{};  // instead of the shape
  std::string gate_name{};       // as the limit names it; empty: it has a shape, or its gate
  std::uint64_t attributes = 0;  // bits of the attributes that must be present
  std::uint64_t any_of = 0;      // bits of those of which one must be; 0: none need be
  std::size_t unit = 0;
  std::vector<std::size_t> per{};
  std::vector<Matcher> when{};
  std::vector<std::vector<Matcher>> exempt{};
  std::vector<Matcher> weigh{};  // none or one; exact values only
  std::ptrdiff_t parent = -1;    // place of the limit it draws on, or -1
  std::int64_t queue_max = 0;
  std::optional<std::int64_t> overage{};  // as in its LimitSpec
  std::int64_t keys = 0;                  // that it may have in the table; 0: a fair share
  bool shadow = false;
  bool is_simple = false;  // no condition, exemption, weight or parent
  std::optional<SharedSpec> shared{};
};

constexpr std::int64_t kOverageCapacities = 10;  // that a limit may owe which does not say

// The most that settling may leave a meter of `rule` to owe, which has `shape` now.
inline std::int64_t overage_of(const Rule& rule, const MeterShape& shape) noexcept {
  return rule.overage.value_or(static_cast<std::int64_t>(
      std::min(Wide{kOverageCapacities} * capacity(shape), Wide{kTermMax})));
}

// All limits together, in the order in which they were written.
class RuleSet {
 public:
  const std::vector<Rule>& rules() const noexcept { return rules_; }
  const Names& attributes() const noexcept { return attributes_; }
  const Names& units() const noexcept { return units_; }
  UnitScale scale(std::size_t unit) const noexcept { return scales_[unit]; }
  Unmatched unmatched() const noexcept { return unmatched_; }

  // The named limit, or nullptr.
  const Rule* find(std::string_view name) const noexcept;
  // Whether the named limit is kept outside this process.
  bool is_shared(std::string_view name) const noexcept {
    const Rule* const rule = find(name);
    return rule != nullptr && rule->shared.has_value();
  }

 private:
  friend class Compiler;
  friend class UnboundRules;

  std::vector<Rule> rules_;
  Names attributes_;
  Names units_;
  std::vector<UnitScale> scales_;
  Unmatched unmatched_ = Unmatched::kAllow;
};

// Rules that were checked, and whose gates are names still. An engine does not take them.
class UnboundRules {
 public:
  UnboundRules() : rules_(std::make_shared<const RuleSet>()) {}

  // For looking: a rule that names its gate has none yet.
  const RuleSet* operator->() const noexcept { return rules_.get(); }

  // The rules with their gates. An error names each limit whose gate is not in `gates`.
  Result<std::shared_ptr<const RuleSet>> bind(const Gates& gates) const noexcept;

 private:
  friend class Compiler;
  explicit UnboundRules(std::shared_ptr<const RuleSet> rules) : rules_(std::move(rules)) {}

  std::shared_ptr<const RuleSet> rules_;
};

// Checks the limits. An error names all mistakes, a line each.
Result<UnboundRules> compile_unbound(const RuleSetSpec& spec) noexcept;

}  // namespace weir::engine
