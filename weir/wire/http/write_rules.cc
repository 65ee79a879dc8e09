// The rule set as JSON, in the words of the configuration.

#include <algorithm>
#include <vector>

#include "weir/engine/quantity.h"
#include "weir/wire/http/meter_text.h"
#include "weir/wire/http/text.h"
#include "weir/wire/http/write.h"

namespace weir::wire::http {
namespace {

using engine::Matcher;
using engine::Rule;
using engine::RuleSet;

// {"attribute":"client","patterns":["acme","b*"]}
void append_condition(std::string& out, const RuleSet& rules, const Matcher& matcher) {
  // The exact ones lie in a hash map; sorted, the same rules give the same text.
  std::vector<std::string_view> patterns(matcher.globs.begin(), matcher.globs.end());
  for (const auto& [value, weight] : matcher.exact) patterns.push_back(value);
  std::sort(patterns.begin(), patterns.end());
  out += R"({"attribute":)";
  append_quoted(out, rules.attributes()[matcher.attribute]);
  out += R"(,"patterns":)";
  append_list(out, patterns, [&](std::string_view pattern) { append_quoted(out, pattern); });
  out += '}';
}

void append_conditions(std::string& out, const RuleSet& rules, const std::vector<Matcher>& all) {
  append_list(out, all, [&](const Matcher& matcher) { append_condition(out, rules, matcher); });
}

// {"attribute":"operation","table":{"put":5}}
void append_weights(std::string& out, const RuleSet& rules, const Matcher& matcher) {
  std::vector<std::pair<std::string_view, std::int64_t>> table(matcher.exact.begin(),
                                                               matcher.exact.end());
  std::sort(table.begin(), table.end());
  out += R"({"attribute":)";
  append_quoted(out, rules.attributes()[matcher.attribute]);
  out += R"(,"table":{)";
  for (const auto& [value, weight] : table) {
    if (out.back() != '{') out += ',';
    append_quoted(out, value);
    out += ':';
    append_int(out, weight);
  }
  out += "}}";
}

void append_shared(std::string& out, const engine::SharedSpec& shared) {
  constexpr std::string_view kOutages[] = {"deny", "allow", "local"};
  out += R"(,"shared":{"mode":)";
  out += shared.lease ? R"("leased")" : R"("strict")";
  out += R"(,"outage":)";
  append_quoted(out, kOutages[static_cast<std::size_t>(shared.outage)]);
  if (shared.lease) {
    out += R"(,"lease":{"most":)";
    append_int(out, shared.lease->most);
    out += R"(,"length":)";
    append_quoted(out, engine::duration_text(shared.lease->length));
    out += '}';
  }
  out += '}';
}

void append_rule(std::string& out, const RuleSet& rules, const Rule& rule) {
  out += R"({"name":)";
  append_quoted(out, rule.name);
  out += R"(,"unit":)";
  append_quoted(out, rules.units()[rule.unit]);
  out += R"(,"per":)";
  append_list(out, rule.per,
              [&](std::size_t place) { append_quoted(out, rules.attributes()[place]); });
  out += R"(,"when":)";
  append_conditions(out, rules, rule.when);
  out += R"(,"exempt":)";
  append_list(out, rule.exempt,
              [&](const std::vector<Matcher>& group) { append_conditions(out, rules, group); });
  out += R"(,"weigh":)";
  if (rule.weigh.empty()) {
    out += "null";
  } else {
    append_weights(out, rules, rule.weigh[0]);
  }
  out += R"(,"parent":)";
  if (rule.parent < 0) {
    out += "null";
  } else {
    append_quoted(out, rules.rules()[static_cast<std::size_t>(rule.parent)].name);
  }
  out += R"(,"shadow":)";
  out += rule.shadow ? "true" : "false";
  out += R"(,"queue_max":)";
  append_int(out, rule.queue_max);
  if (rule.shared) append_shared(out, *rule.shared);
  out += R"(,"meter":)";
  if (rule.gate != nullptr) {
    out += R"({"kind":"gate"})";  // what it holds is its system's to tell, under its lock
  } else {
    append_meter(out, rule.shape);
  }
  out += '}';
}

}  // namespace

void append_rules(std::string& out, const RuleSet& rules) {
  out += R"({"limits":)";
  append_list(out, rules.rules(), [&](const Rule& rule) { append_rule(out, rules, rule); });
  out += R"(,"units":[)";
  for (std::size_t unit = 0; unit < rules.units().size(); ++unit) {
    if (unit > 0) out += ',';
    out += R"({"name":)";
    append_quoted(out, rules.units()[unit]);
    out += R"(,"scale":)";
    out += rules.scale(unit) == engine::UnitScale::kWhole ? R"("whole"})" : R"("micro"})";
  }
  out += R"(],"attributes":[)";
  for (std::size_t place = 0; place < rules.attributes().size(); ++place) {
    if (place > 0) out += ',';
    append_quoted(out, rules.attributes()[place]);
  }
  out += "]}";
}

}  // namespace weir::wire::http
