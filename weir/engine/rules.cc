#include "weir/engine/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weir/engine/quantity.h"
#include "weir/engine/rule_set.h"

namespace weir::engine {

std::string Names::joined() const {
  std::string all;
  for (const std::string& name : texts_) {
    if (!all.empty()) all += ", ";
    all += name;
  }
  return all.empty() ? "none" : all;
}

const Rule* RuleSet::find(std::string_view name) const noexcept {
  for (const Rule& rule : rules_) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

bool has_wildcard(std::string_view pattern) noexcept {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last `*` met ...
  std::size_t resume = 0;                     // ... and where its match ends so far
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

std::string used_already(std::string_view limit) {
  return fmt::format("its gate is already used by limit '{}'; give each limit a gate of its own",
                     limit);
}

}  // namespace

// Collects mistakes instead of stopping at the first.
class Compiler {
 public:
  explicit Compiler(const RuleSetSpec& spec) : spec_(spec) {}

  Result<UnboundRules> run() {
    set_->unmatched_ = spec_.unmatched;
    declare_units();
    for (const std::string& name : spec_.attributes) attribute("attributes", name);
    if (spec_.limits.size() > kLimitsMax) {
      mistake("limits", fmt::format("there are {}, but at most {} are allowed; merge some, or run "
                                    "several engines",
                                    spec_.limits.size(), kLimitsMax));
      return finish();
    }
    for (const LimitSpec& limit : spec_.limits) add(limit);
    link_parents();
    return finish();
  }

 private:
  void mistake(const std::string& where, const std::string& what) {
    if (!mistakes_.empty()) mistakes_ += '\n';
    mistakes_ += where + ": " + what;
  }

  bool check_name(const std::string& where, std::string_view kind, const std::string& name) {
    if (!name.empty() && name.size() <= kNameBytesMax) return true;
    mistake(where, fmt::format("the {} name is {} bytes long, but it must have 1 to {}; write a "
                               "short name",
                               kind, name.size(), kNameBytesMax));
    return false;
  }

  void declare_units() {
    set_->units_.add(std::string(kRequests));
    set_->scales_.push_back(UnitScale::kWhole);
    for (const UnitSpec& unit : spec_.units) {
      if (!check_name("units", "unit", unit.name)) continue;
      if (set_->units_.find(unit.name) < set_->units_.size()) {
        mistake("units", fmt::format("unit '{}' is declared twice; write it once{}", unit.name,
                                     unit.name == kRequests ? ", or not at all" : ""));
      } else if (set_->units_.size() == kUnitsMax) {
        mistake("units", fmt::format("there are more than {} units; write fewer", kUnitsMax));
        return;
      } else {
        set_->units_.add(unit.name);
        set_->scales_.push_back(unit.scale);
      }
    }
  }

  // The attribute's place, declared on first use.
  std::size_t attribute(const std::string& where, const std::string& name) {
    if (!check_name(where, "attribute", name)) return 0;
    Names& known = set_->attributes_;
    const std::size_t place = known.find(name);
    if (place < known.size()) return place;
    if (known.size() == kAttributesMax) {
      mistake(where, fmt::format("attribute '{}' is one more than the {} a rule set may use; reuse "
                                 "an attribute",
                                 name, kAttributesMax));
      return 0;
    }
    known.add(name);
    return place;
  }

  Matcher matcher(const std::string& where, const Condition& condition) {
    Matcher result{.attribute = attribute(where, condition.attribute)};
    if (condition.patterns.empty() || condition.patterns.size() > kPatternsMax) {
      mistake(where, fmt::format("attribute '{}' is compared with {} patterns, but it needs 1 to "
                                 "{}; write at least one value",
                                 condition.attribute, condition.patterns.size(), kPatternsMax));
    }
    for (const std::string& pattern : condition.patterns) {
      if (has_wildcard(pattern)) {
        result.globs.push_back(pattern);
      } else {
        result.exact.emplace(pattern, 1);
      }
    }
    return result;
  }

  Matcher weights(const std::string& where, const Weights& spec) {
    Matcher result{.attribute = attribute(where, spec.attribute)};
    if (spec.table.size() > kPatternsMax) {
      mistake(where, fmt::format("the weight table has {} values, but at most {} are allowed; "
                                 "write fewer",
                                 spec.table.size(), kPatternsMax));
    }
    for (const auto& [value, weight] : spec.table) {
      if (weight < 0 || weight > kWeightMax) {
        mistake(where, fmt::format("the weight of '{}' is {}, but it must be between 0 and 2^32; "
                                   "write a whole number",
                                   value, weight));
      }
      if (!result.exact.emplace(value, weight).second) {
        mistake(where, fmt::format("the weight of '{}' is given twice; write it once", value));
      }
    }
    return result;
  }

  void add(const LimitSpec& spec) {
    const std::string where = fmt::format("limit '{}'", spec.name);
    Rule rule{.name = spec.name};
    check_name(where, "limit", spec.name);
    if (set_->find(spec.name) != nullptr) {
      mistake(where, "the name is used twice; write another name");
    }
    for (const Condition& condition : spec.when) rule.when.push_back(matcher(where, condition));
    for (const std::vector<Condition>& group : spec.exempt) {
      if (group.empty()) mistake(where, "an exemption has no condition; write at least one");
      std::vector<Matcher>& matchers = rule.exempt.emplace_back();
      for (const Condition& condition : group) matchers.push_back(matcher(where, condition));
    }
    for (const std::string& name : spec.per) {
      const std::size_t place = attribute(where, name);
      if (std::find(rule.per.begin(), rule.per.end(), place) != rule.per.end()) {
        mistake(where, fmt::format("attribute '{}' is twice in its key; write it once", name));
      }
      rule.per.push_back(place);
    }
    if (spec.per.size() > kKeyAttributesMax) {
      mistake(where,
              fmt::format("its key has {} attributes, but at most {} are allowed; write fewer",
                          spec.per.size(), kKeyAttributesMax));
    }
    if (!spec.weigh.attribute.empty()) {
      rule.weigh.push_back(weights(where, spec.weigh));
    } else if (!spec.weigh.table.empty()) {
      mistake(where, "the weight table has no attribute; write whose values it weighs");
    }
    for (const Matcher& m : rule.when) rule.attributes |= std::uint64_t{1} << m.attribute;
    for (const std::size_t place : rule.per) rule.attributes |= std::uint64_t{1} << place;

    rule.unit = set_->units_.find(spec.unit);
    if (rule.unit == set_->units_.size()) {
      mistake(where, fmt::format("unit '{}' is unknown, but it must be one of {}; declare it under "
                                 "units",
                                 spec.unit, set_->units_.joined()));
    }
    if (spec.queue_max < 0) {
      mistake(where, fmt::format("queue_max is {}, but it must be 0 or more; write how many may "
                                 "wait",
                                 spec.queue_max));
    }
    if (spec.overage && (*spec.overage < 0 || *spec.overage > kTermMax)) {
      mistake(where, fmt::format("overage is {}, but it must be between 0 and 2^62; write the most "
                                 "that it may owe",
                                 *spec.overage));
    }
    rule.overage = spec.overage;
    check_keys(where, spec);
    rule.keys = spec.keys;
    rule.shadow = spec.shadow;
    rule.shared = spec.shared;
    rule.is_simple =
        spec.when.empty() && spec.exempt.empty() && rule.weigh.empty() && spec.parent.empty();
    rule.queue_max = spec.queue_max;
    add_meter(where, spec, rule);
    set_->rules_.push_back(std::move(rule));
  }

  void check_keys(const std::string& where, const LimitSpec& spec) {
    if (spec.keys == 0) return;
    if (spec.keys < 0) {
      mistake(where, fmt::format("keys is {}, but it must be 0 or more; write how many keys it may "
                                 "have",
                                 spec.keys));
    } else if (spec.shared) {
      mistake(where, "its keys are where it is shared; leave out 'keys'");
    } else if (spec.per.empty()) {
      mistake(where, "it has no 'per', so it has one key; leave out 'keys'");
    }
  }

  void add_meter(const std::string& where, const LimitSpec& spec, Rule& rule) {
    const auto* gate = std::get_if<std::shared_ptr<Gate>>(&spec.meter);
    const auto* named = std::get_if<GateRef>(&spec.meter);
    if (gate != nullptr || named != nullptr) {
      if (gate != nullptr) rule.gate = *gate;
      if (rule.gate != nullptr) {
        for (const std::string_view name : rule.gate->concerned_by()) {
          rule.any_of |= std::uint64_t{1} << attribute(where, std::string(name));
        }
      }
      if (named != nullptr) rule.gate_name = named->name;
      const bool is_missing = rule.gate == nullptr && rule.gate_name.empty();
      if (spec.shared)
        mistake(where, "a gate cannot be shared; leave out 'store', or write a meter");
      if (is_missing) mistake(where, "the gate is missing; give one, or a meter");
      if (spec.overage) mistake(where, "a gate bounds by itself what it owes; leave out 'overage'");
      for (const Rule& other : set_->rules_) {
        if (!is_missing && other.gate == rule.gate && other.gate_name == rule.gate_name) {
          mistake(where, used_already(other.name));
        }
      }
      if (!rule.per.empty()) {
        mistake(where, "a gate has no key; leave out 'per', and tell keys apart inside the gate");
      }
      return;
    }
    Result<MeterShape> shape = make_shape(spec.meter);
    if (!shape) {
      mistake(where, shape.error().message);
      return;
    }
    rule.shape = *shape;
    if (rule.shared && rule.shared->lease) check_lease(where, rule);
    if (const auto* slots = std::get_if<meter::SlotsShape>(&rule.shape)) {
      rule.queue_max = slots->queue;
      if (spec.overage) mistake(where, "slots never owe anything; leave out 'overage'");
    }
  }

  void check_lease(const std::string& where, Rule& rule) {
    LeaseSpec& lease = *rule.shared->lease;
    if (is_slots(rule.shape)) {
      mistake(where,
              "slots cannot be leased, because the end of the work gives them back, at any "
              "server; leave out 'lease'");
      return;
    }
    const std::int64_t limit = capacity(rule.shape);
    if (lease.most < 0 || lease.most > limit) {
      mistake(where,
              fmt::format("lease: most is {}, but it must lie between 1 and {}, which is all "
                          "the limit has; write how much one server may hold",
                          lease.most, limit));
    }
    if (lease.length < kLeaseLengthLeast || lease.length > kLeaseLengthMost) {
      mistake(where, fmt::format(
                         "lease: length is {}, but it must lie between {} and {}; write a duration "
                         "such as '1s'",
                         duration_text(lease.length), duration_text(kLeaseLengthLeast),
                         duration_text(kLeaseLengthMost)));
    }
    if (lease.most == 0) lease.most = std::max<std::int64_t>(1, limit / 10);
  }

  void link_parents() {
    for (std::size_t i = 0; i < spec_.limits.size() && i < set_->rules_.size(); ++i) {
      const std::string& parent = spec_.limits[i].parent;
      if (parent.empty()) continue;
      const Rule* found = set_->find(parent);
      const std::string where = fmt::format("limit '{}'", spec_.limits[i].name);
      if (found == nullptr) {
        mistake(where,
                fmt::format("its parent '{}' is not a limit; write the name of one", parent));
        continue;
      }
      set_->rules_[i].parent = found - set_->rules_.data();
    }
    for (const Rule& rule : set_->rules_) check_ancestors(rule);
  }

  // An ancestor must exist only once on the way up, and be keyed by attributes
  // that the child's requests are sure to carry.
  void check_ancestors(const Rule& rule) {
    const std::string where = fmt::format("limit '{}'", rule.name);
    std::set<std::ptrdiff_t> seen;
    for (std::ptrdiff_t up = rule.parent; up >= 0;) {
      const Rule& ancestor = set_->rules_[static_cast<std::size_t>(up)];
      if (&ancestor == &rule || !seen.insert(up).second) {
        mistake(where, fmt::format("it is its own ancestor through '{}'; break the circle",
                                   ancestor.name));
        return;
      }
      for (const std::size_t place : ancestor.per) {
        if ((rule.attributes >> place & 1) == 0) {
          mistake(where,
                  fmt::format("its parent '{}' has a key for each '{}', which this limit does "
                              "not read; add '{}' to its 'per'",
                              ancestor.name, set_->attributes_[place], set_->attributes_[place]));
        }
      }
      if (ancestor.unit != rule.unit) {
        mistake(where, fmt::format("it does not count the same unit as its parent '{}'; write the "
                                   "same unit for both",
                                   ancestor.name));
      }
      up = ancestor.parent;
    }
  }

  Result<UnboundRules> finish() {
    if (!mistakes_.empty()) return bad_argument(mistakes_);
    return UnboundRules(std::move(set_));
  }

  const RuleSetSpec& spec_;
  std::shared_ptr<RuleSet> set_ = std::make_shared<RuleSet>();
  std::string mistakes_;
};

Result<std::shared_ptr<const RuleSet>> UnboundRules::bind(const Gates& gates) const noexcept {
  const auto names_gate = [](const Rule& rule) { return !rule.gate_name.empty(); };
  if (std::none_of(rules_->rules_.begin(), rules_->rules_.end(), names_gate)) return rules_;
  auto bound = std::make_shared<RuleSet>(*rules_);
  std::map<const Gate*, std::string_view> users;
  std::string mistakes;
  const auto mistake = [&](const Rule& rule, const std::string& what) {
    mistakes += fmt::format("{}limit '{}': {}", mistakes.empty() ? "" : "\n", rule.name, what);
  };
  for (Rule& rule : bound->rules_) {
    if (names_gate(rule)) {
      const auto found = gates.find(rule.gate_name);
      if (found != gates.end()) rule.gate = found->second;
      if (rule.gate == nullptr) {
        mistake(rule, fmt::format("its gate '{}' is not there; give one of that name, or a meter",
                                  rule.gate_name));
      } else {
        for (const std::string_view name : rule.gate->concerned_by()) {
          const std::size_t place = bound->attributes_.find(name);
          if (place < bound->attributes_.size()) {
            rule.any_of |= std::uint64_t{1} << place;
          } else {
            mistake(rule,
                    fmt::format("its gate reads the attribute '{}', which is unknown; declare "
                                "it under attributes",
                                name));
          }
        }
      }
    }
    if (rule.gate == nullptr) continue;
    const auto [user, is_first] = users.emplace(rule.gate.get(), rule.name);
    if (!is_first) mistake(rule, used_already(user->second));
  }
  if (!mistakes.empty()) return bad_argument(mistakes);
  return std::shared_ptr<const RuleSet>(std::move(bound));
}

Result<UnboundRules> compile_unbound(const RuleSetSpec& spec) noexcept {
  return Compiler(spec).run();
}

Result<std::shared_ptr<const RuleSet>> compile(const RuleSetSpec& spec,
                                               const Gates& gates) noexcept {
  const Result<UnboundRules> rules = compile_unbound(spec);
  return rules ? rules->bind(gates) : rules.error();
}

}  // namespace weir::engine
