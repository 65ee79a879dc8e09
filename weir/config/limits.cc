#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weir/config/draft.h"
#include "weir/engine/quantity.h"
#include "weir/engine/request.h"

namespace weir::config {
namespace {

using engine::Condition;
using engine::LimitSpec;
using engine::UnitSpec;

struct LimitDraft {
  const Draft& draft;
  LimitSpec spec{};
  std::string_view meter{};  // its key, once there is one
  bool is_broken = false;    // by a mistake that is reported elsewhere
};

void read_name(const Entry& entry, Context& context, LimitDraft& limit) {
  read_text(entry, context, limit.spec.name);
}

// Settles how the amounts after it are read.
void read_unit(const Entry& entry, Context& context, LimitDraft& limit) {
  std::vector<std::string_view> words = {engine::kRequests};
  const std::vector<UnitSpec>& units = limit.draft.config.limits_spec.units;
  for (const UnitSpec& unit : units) words.push_back(unit.name);
  const std::ptrdiff_t place = read_choice(entry, context, words);
  if (place < 0) return;
  limit.spec.unit = words[static_cast<std::size_t>(place)];
  if (place > 0) context.scale = units[static_cast<std::size_t>(place - 1)].scale;
}

}  // namespace

std::vector<Condition> read_conditions(const TreeNode& map, Context& context) {
  std::vector<Condition> conditions;
  check_names(map, context);
  for (const Entry& entry : map.entries) {
    Condition& condition = conditions.emplace_back();
    condition.attribute = entry.key;
    read_texts(entry, context, condition.patterns);
  }
  return conditions;
}

namespace {

void read_when(const Entry& entry, Context& context, LimitDraft& limit) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ operation: [put, post] }", context)) return;
  limit.spec.when = read_conditions(entry.value, context);
}

void read_exempt(const Entry& entry, Context& context, LimitDraft& limit) {
  constexpr std::string_view kForm = "[ { client: internal-* } ]";
  if (!check_kind(entry, TreeNode::Kind::kList, kForm, context)) return;
  for (const TreeNode& item : entry.value.items) {
    if (item.kind != TreeNode::Kind::kMap || item.entries.empty()) {
      context.mistake(
          item.place,
          fmt::format("an exemption is {}, but it must be a map of "
                      "conditions; write 'exempt: {}'",
                      item.kind == TreeNode::Kind::kMap ? "an empty map" : item.shown(), kForm));
      continue;
    }
    limit.spec.exempt.push_back(read_conditions(item, context));
  }
}

void read_weigh(const Entry& entry, Context& context, LimitDraft& limit) {
  constexpr std::string_view kForm = "{ operation: { put: 1, post: 5 } }";
  if (!check_kind(entry, TreeNode::Kind::kMap, kForm, context)) return;
  if (entry.value.entries.size() != 1) {
    context.mistake(entry.value.place,
                    fmt::format("weigh names {} attributes, but it must name one; write 'weigh: "
                                "{}'",
                                entry.value.entries.size(), kForm));
    return;
  }
  const Entry& attribute = entry.value.entries.front();
  if (!check_names(entry.value, context)) return;
  if (!check_kind(attribute, TreeNode::Kind::kMap, "{ put: 1, post: 5 }", context)) return;
  check_names(attribute.value, context);
  limit.spec.weigh.attribute = attribute.key;
  for (const Entry& weight : attribute.value.entries) {
    std::int64_t value = 1;
    read_count(weight, context, 0, engine::kWeightMax, value);
    limit.spec.weigh.table.emplace_back(weight.key, value);
  }
}

bool is_first_meter(const Entry& entry, Context& context, LimitDraft& limit) {
  if (!limit.meter.empty()) {
    context.mistake(entry.place, fmt::format("it has a '{}' and a '{}', but it must have one "
                                             "meter; write two limits",
                                             limit.meter, entry.key));
    return false;
  }
  limit.meter = entry.key;
  return true;
}

template <auto Read>
void meter_by(const Entry& entry, Context& context, LimitDraft& limit) {
  if (is_first_meter(entry, context, limit)) Read(entry, context, limit.spec);
}

// With a hold no longer than the server keeps one.
void read_bounded_slots(const Entry& entry, Context& context, LimitDraft& limit) {
  if (!is_first_meter(entry, context, limit)) return;
  read_slots(entry, context, limit.spec);
  const auto* slots = std::get_if<engine::SlotsSpec>(&limit.spec.meter);
  const Duration most = limit.draft.config.bounds.hold;
  if (slots == nullptr || slots->hold <= most) return;
  const Entry* const hold = entry.value.find("hold");
  context.mistake(hold != nullptr ? hold->value.place : entry.value.place,
                  fmt::format("hold is '{}', but bounds.hold allows at most '{}'; write a shorter "
                              "one, or raise bounds.hold",
                              engine::duration_text(slots->hold), engine::duration_text(most)));
}

void read_contract(const Entry& entry, Context& context, LimitDraft& limit) {
  if (!is_first_meter(entry, context, limit)) return;
  if (limit.spec.unit != engine::kRequests) {
    context.mistake(entry.place,
                    fmt::format("a contract counts requests and processing_units by itself, but "
                                "unit is '{}'; leave out 'unit'",
                                limit.spec.unit));
  }
  if (const auto gate = read_contract_gate(entry, context, limit.draft)) {
    limit.spec.meter = *gate;
  } else {
    limit.is_broken = true;
  }
}

// The member of the specification that a row fills.
template <auto Read>
void in_spec(const Entry& entry, Context& context, LimitDraft& limit) {
  Read(entry, context, limit.spec);
}

void read_overage(const Entry& entry, Context& context, LimitDraft& limit) {
  const std::size_t before = context.mistakes.count();
  std::int64_t overage = 0;
  read_amount(entry, context, overage);
  if (context.mistakes.count() == before) limit.spec.overage = overage;
}

void read_queue(const Entry& entry, Context& context, LimitDraft& limit) {
  read_count(entry, context, 0, kQueueMax, limit.spec.queue_max);
  if (limit.meter == "slots") {
    context.mistake(entry.place, "slots have a queue of their own; write 'queue' inside 'slots'");
  }
}

// All of them must fit.
void read_keys(const Entry& entry, Context& context, LimitDraft& limit) {
  const Bounds& bounds = limit.draft.config.bounds;
  std::int64_t others = static_cast<std::int64_t>(bounds.cl_throttle_keys);
  for (const LimitSpec& other : limit.draft.config.limits_spec.limits) others += other.keys;
  const auto all = static_cast<std::int64_t>(bounds.keys);
  read_count(entry, context, 1, all, limit.spec.keys);
  if (limit.spec.keys <= all - others) return;
  context.mistake(entry.value.place,
                  fmt::format("keys is {}, but those before it leave {} of the {} of bounds; write "
                              "less, or raise 'keys' in 'bounds'",
                              limit.spec.keys, all - others, all));
  limit.spec.keys = 0;
}

constexpr Key<LimitDraft> kLimitKeys[] = {
    {"name", read_name, "per-client", "Unique, at most 128 bytes.", kRequired},
    {"when", read_when, "{ operation: [put, post] }",
     "Applies only if each attribute matches a pattern (`*`, `?`). Left out: always."},
    {"per", in_spec<texts_at<&LimitSpec::per, LimitSpec>>, "[client]",
     "Attributes that form the key, at most 8. Left out: one meter for all."},
    {"unit", read_unit, "tokens", "What it counts. Default `requests`."},
    {"weigh", read_weigh, "{ operation: { put: 1, post: 5 } }",
     "Multiplies the cost by the weight of an attribute's value, 0 to 2^32; others weigh 1."},
    {"bucket", meter_by<read_bucket>, "map", "Meter: refills evenly, bounded burst."},
    {"window", meter_by<read_window>, "map", "Meter: so much in each fixed window."},
    {"log", meter_by<read_log>, "map", "Meter: so much in any window, wherever it begins."},
    {"ticker", meter_by<read_ticker>, "map", "Meter: refills at ticks."},
    {"slots", read_bounded_slots, "map", "Meter: so much at once."},
    {"contract", read_contract, "acme",
     "Instead of a meter: all policies of this account under `contracts`; no `per`, no `unit`."},
    {"overage", read_overage, "5000",
     "The most that settling with higher actual costs may leave it to owe; what is more is counted "
     "and logged, but not charged. Default: ten times what the meter can hold."},
    {"exempt", read_exempt, "[ { client: internal-* } ]",
     "Groups of conditions; a request that meets all of a group is not limited."},
    {"shadow", in_spec<flag_at<&LimitSpec::shadow, LimitSpec>>, "true",
     "Counted and reported, never enforced. Default `false`."},
    {"parent", in_spec<text_at<&LimitSpec::parent, LimitSpec>>, "writes",
     "A limit that is drawn on too: same unit, keyed by attributes of this one."},
    {"queue", read_queue, "1024",
     "Requests that may wait here (slots have a queue of their own). Default `1024`."},
    {"keys", read_keys, "1000000",
     "Keys that it may have at once, about, of those in `bounds`. Default: a fair share of what "
     "the others leave."},
    {"store", in_spec<read_store>, "redis",
     "`memory`, or `redis`: one limit for all servers, which needs `redis` at the top level. "
     "Default `memory`."},
    {"outage", in_spec<read_outage>, "deny",
     "While Redis cannot be asked: `deny`, `allow`, or `local`, its share of the limit. Default "
     "`deny`."},
    {"lease", in_spec<read_lease>, "map",
     "Each server draws units ahead and decides by itself as long as they last; a map, which may "
     "be empty. Left out: Redis is asked each time."},
};

void read_limit(const TreeNode& item, Context& context, LimitDraft& limit) {
  if (item.kind != TreeNode::Kind::kMap) {
    context.mistake(item.place, fmt::format("it is {}, but it must be a map; write '{{ name: a, "
                                            "bucket: {{ rate: 100/s }} }}'",
                                            item.shown()));
    return;
  }
  read_map<LimitDraft>(item, kLimitKeys, context, limit);
  if (limit.meter.empty()) {
    context.mistake(item.place, "it has no meter; write one such as 'bucket: { rate: 100/s }'");
  }
}

}  // namespace

void read_limits(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kList, "[ { name: a, bucket: { rate: 100/s } } ]",
                  context)) {
    return;
  }
  const std::vector<TreeNode>& items = entry.value.items;
  if (items.size() > engine::kLimitsMax) {
    context.mistake(items[engine::kLimitsMax].place,
                    fmt::format("there are {} limits, but at most {} are allowed; merge some, or "
                                "run several servers",
                                items.size(), engine::kLimitsMax));
    return;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Context inner{context.mistakes, named_item("limit", items[i], i + 1)};
    LimitDraft limit{draft};
    const std::size_t before = context.mistakes.count();
    read_limit(items[i], inner, limit);
    if (limit.spec.name.empty()) continue;  // reported
    if (!names.insert(limit.spec.name).second) {
      inner.mistake(items[i].find("name")->value.place,
                    "the name is used twice; write another name");
      continue;
    }
    draft.limit_places.push_back(
        {items[i].place, limit.is_broken || context.mistakes.count() > before});
    draft.config.limits_spec.limits.push_back(std::move(limit.spec));
  }
}

void add_own_limit(std::string_view name, const SectionPlace& section, Draft& draft) {
  draft.limit_places.push_back({section.place, section.is_broken});
  draft.config.limits_spec.limits.push_back(
      {.name = std::string(name), .meter = engine::GateRef{std::string(name)}});
}

void list_limit_keys(std::vector<KeyHelp>& out) {
  list_keys<LimitDraft>("limits", kLimitKeys, out);
}

}  // namespace weir::config
