// `sampling:`, and the limit of that name that it makes.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "weir/config/draft.h"
#include "weir/engine/print.h"
#include "weir/engine/quantity.h"
#include "weir/system/sampling/gate.h"
#include "weir/system/sampling/sampling.h"

namespace weir::config {
namespace {

namespace sampling = system::sampling;
using sampling::EnvironmentSpec;
using sampling::Exemptions;
using sampling::RulesSpec;

// A decimal of at most six places. Negative ones are read, for the rules to judge.
void read_decimal(const Entry& entry, Context& context, std::int64_t most_micro,
                  std::int64_t& micro) {
  if (!check_text(entry.value, entry.key, context)) return;
  std::string_view text = entry.value.text;
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const Result<std::int64_t> size =
      engine::parse_amount(entry.key, text, engine::UnitScale::kMicro);
  if (!size) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be a number of at most six decimal places; "
                                "write one such as 5",
                                entry.key, in_quotes(entry.value.text)));
  } else if (*size > most_micro) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be at most {}; write a smaller one",
                                entry.key, in_quotes(entry.value.text), most_micro / kMicro));
  } else {
    micro = is_negative ? -*size : *size;
  }
}

template <auto Member>
void parameter_at(const Entry& entry, Context& context, EnvironmentSpec& environment) {
  std::int64_t micro = 0;
  const std::size_t before = context.mistakes.count();
  read_decimal(entry, context, sampling::kParameterMicroMax, micro);
  if (context.mistakes.count() == before) environment.*Member = micro;
}

// The formula does not ask: a list that rests would be a hole.
void read_rotation_enabled(const Entry& entry, Context& context, EnvironmentSpec&) {
  bool ignored = false;
  read_flag(entry, context, ignored);
}

void read_weight(const Entry& entry, Context& context, EnvironmentSpec& environment) {
  read_decimal(entry, context, sampling::kParameterMicroMax, environment.weight_micro);
}

void read_parent(const Entry& entry, Context& context, EnvironmentSpec& environment) {
  if (!check_text(entry.value, entry.key, context)) return;
  sampling::ParentSpec parent;
  if (entry.value.text != "allowance") {
    const Result<std::int64_t> limit =
        engine::parse_count(entry.key, entry.value.text, 1, sampling::kAllowanceMax);
    if (!limit) {
      context.mistake(entry.value.place, limit.error().message + ", or 'allowance'");
      return;
    }
    parent.limit = *limit;
  }
  environment.parent = parent;
}

void read_burst(const Entry& entry, Context& context, EnvironmentSpec& environment) {
  read_count(entry, context, 1, sampling::kAllowanceMax, environment.burst.emplace());
}

constexpr Key<EnvironmentSpec> kEnvironmentKeys[] = {
    {"name", text_at<&EnvironmentSpec::name, EnvironmentSpec>, "LGC-v2", "Any text.", kRequired},
    {"rotation_count", parameter_at<&EnvironmentSpec::rotation_count_micro>, "5",
     "Ids that leave the list at each rotation. Needed, unless `mode` is `published`; `0`: none."},
    {"rotation_interval", parameter_at<&EnvironmentSpec::rotation_interval_micro>, "3600",
     "Seconds between two rotations. Needed if any id leaves."},
    {"sampling_count", parameter_at<&EnvironmentSpec::sampling_count_micro>, "200",
     "Ids in the list. Needed, unless `mode` is `published`; `0`: no floor."},
    {"rotation_enabled", read_rotation_enabled, "true",
     "May be written, and plays no part: a list that rests is limited all the same."},
    {"scheduling_weight", read_weight, "1",
     "Share of the slots in a scheduling pass. Default `1`."},
    {"parent", read_parent, "allowance",
     "Most tasks of a hotkey over all its revisions: a number, or the `allowance`. Left out: "
     "revisions are counted apart."},
    {"burst", read_burst, "2",
     "Most tasks of a key at once; the others follow evenly: any `window` × `burst` / allowance "
     "holds "
     "at most so many. Left out: all of the allowance at once."},
};

struct SamplingDraft {
  RulesSpec spec{};
  std::vector<Place> places{};  // of the environments
};

constexpr std::string_view kModes[] = {"strict", "published"};
constexpr std::string_view kArithmetics[] = {"exact", "double"};
constexpr std::string_view kGrantings[] = {"capped", "gate"};

void read_mode(const Entry& entry, Context& context, SamplingDraft& draft) {
  if (read_choice(entry, context, kModes) != 1) return;
  draft.spec.mode = sampling::Mode::kPublished;
  draft.spec.formula.arithmetic = sampling::Arithmetic::kDouble;
  draft.spec.granting = sampling::Granting::kGate;
  draft.spec.exempt = sampling::published_exemptions();
}

void read_arithmetic(const Entry& entry, Context& context, SamplingDraft& draft) {
  choice_at<&sampling::Formula::arithmetic, kArithmetics>(entry, context, draft.spec.formula);
}

void read_granting(const Entry& entry, Context& context, SamplingDraft& draft) {
  choice_at<&RulesSpec::granting, kGrantings>(entry, context, draft.spec);
}

void read_margin(const Entry& entry, Context& context, SamplingDraft& draft) {
  std::int64_t micro = 0;
  const std::size_t before = context.mistakes.count();
  read_decimal(entry, context, sampling::kMarginMicroMax, micro);
  if (context.mistakes.count() > before) return;
  if (micro < sampling::kMarginMicroMin) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be above 0, or a list that rotates would "
                                "be unlimited; write one such as 1.2",
                                entry.key, in_quotes(entry.value.text)));
    return;
  }
  draft.spec.formula.margin_micro = micro;
}

template <auto Member>
void seconds_at(const Entry& entry, Context& context, SamplingDraft& draft) {
  Duration span{};
  const std::size_t before = context.mistakes.count();
  read_duration(entry, context, span);
  if (context.mistakes.count() > before) return;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(span);
  if (whole != span || whole.count() < 1 || whole.count() > sampling::kSpanSecondsMax) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be whole seconds, at most 366 days; write "
                                "one such as '1h'",
                                entry.key, in_quotes(entry.value.text)));
    return;
  }
  draft.spec.formula.*Member = whole.count();
}

void read_ids(const Entry& entry, Context& context, Exemptions& exempt) {
  std::vector<std::string> texts;
  read_texts(entry, context, texts);
  exempt.ids.clear();
  for (const std::string& text : texts) {
    const Result<std::int64_t> id = engine::parse_count(entry.key, text, 0, kTermMax);
    if (id) {
      exempt.ids.push_back(*id);
    } else {
      context.mistake(entry.value.place, id.error().message);
    }
  }
}

void read_above(const Entry& entry, Context& context, Exemptions& exempt) {
  std::int64_t above = 0;
  const std::size_t before = context.mistakes.count();
  read_count(entry, context, 0, kTermMax, above);
  if (context.mistakes.count() == before) exempt.above = above;
}

constexpr Key<Exemptions> kExemptKeys[] = {
    {"ids", read_ids, "[0]", "Ids that are never limited."},
    {"above", read_above, "1000", "Ids larger than this are never limited."},
};

void read_exempt(const Entry& entry, Context& context, SamplingDraft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ ids: [0], above: 1000 }", context)) return;
  draft.spec.exempt = {};
  Context inner{context.mistakes, "sampling: exempt"};
  read_map<Exemptions>(entry.value, kExemptKeys, inner, draft.spec.exempt);
}

void read_environments(const Entry& entry, Context& context, SamplingDraft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kList, "[{ name: LGC-v2, ... }]", context)) return;
  for (const TreeNode& item : entry.value.items) {
    if (item.kind != TreeNode::Kind::kMap) {
      context.mistake(item.place,
                      fmt::format("an environment is {}, but it must be a map; write '{{ name: "
                                  "LGC-v2, rotation_count: 5, ... }}'",
                                  item.shown()));
      continue;
    }
    Context inner{context.mistakes, "sampling: environments"};
    EnvironmentSpec& environment = draft.spec.environments.emplace_back();
    draft.places.push_back(item.place);
    read_map<EnvironmentSpec>(item, kEnvironmentKeys, inner, environment);
  }
}

constexpr Key<SamplingDraft> kSamplingKeys[] = {
    {"mode", read_mode, "strict",
     "`strict`, or `published`: a missing id or parameter opens the door, and the three below "
     "are as published. Default `strict`."},
    {"arithmetic", read_arithmetic, "exact",
     "How the allowance is computed: `exact`, or in the published order of `double`s. Default "
     "`exact`."},
    {"grants", read_granting, "capped",
     "`capped` by what is left, or a `gate` that may overshoot. Default `capped`."},
    {"exempt", read_exempt, "{ ids: [0], above: 1000 }",
     "Ids that are never limited. Default: none."},
    {"margin", read_margin, "1.2", "How much faster than the list rotates. Default `1.2`."},
    {"horizon", seconds_at<&sampling::Formula::horizon_s>, "48h",
     "In which every list can be finished. Default `48h`."},
    {"window", seconds_at<&sampling::Formula::window_s>, "1h",
     "In which the allowance is counted. Default `1h`."},
    {"environments", read_environments, "list", "What is sampled, at most 1024.", kRequired},
};

// Each environment by itself first, so that a mistake has its place.
std::optional<sampling::Rules> make_rules(Place place, Context& context,
                                          const SamplingDraft& draft) {
  const std::size_t before = context.mistakes.count();
  for (std::size_t i = 0; i < draft.places.size(); ++i) {
    RulesSpec one = draft.spec;
    one.environments = {draft.spec.environments[i]};
    const Result<sampling::Rules> rules = sampling::make_rules(std::move(one));
    if (!rules) context.mistake(draft.places[i], rules.error().message);
  }
  if (context.mistakes.count() > before) return std::nullopt;
  Result<sampling::Rules> rules = sampling::make_rules(draft.spec);
  if (rules) return std::move(*rules);
  context.mistake(place, rules.error().message);
  return std::nullopt;
}

}  // namespace

void read_sampling(const Entry& entry, Context& context, Draft& draft) {
  draft.sampling_place.place = entry.place;
  std::vector<std::string>& known = draft.config.limits_spec.attributes;
  for (const std::string_view name : sampling::kGateAttributes) {
    if (std::find(known.begin(), known.end(), name) == known.end()) known.emplace_back(name);
  }
  SamplingSettings& settings = draft.config.sampling.emplace();
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ environments: [...] }", context)) return;
  Context inner{context.mistakes, "sampling"};
  const std::size_t before = context.mistakes.count();
  SamplingDraft section;
  read_map<SamplingDraft>(entry.value, kSamplingKeys, inner, section);
  if (context.mistakes.count() > before) return;
  std::optional<sampling::Rules> rules = make_rules(entry.place, inner, section);
  if (!rules) return;
  settings = {std::move(section.spec), std::move(rules)};
  draft.sampling_place.is_broken = false;
}

void list_sampling_keys(std::vector<KeyHelp>& out) {
  list_keys<SamplingDraft>("sampling", kSamplingKeys, out);
  list_keys<Exemptions>("sampling: exempt", kExemptKeys, out);
  list_keys<EnvironmentSpec>("sampling: environments", kEnvironmentKeys, out);
}

}  // namespace weir::config
