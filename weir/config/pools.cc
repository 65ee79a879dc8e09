// `pools:`.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "weir/config/draft.h"

namespace weir::config {
namespace {

namespace pool = system::pool;
namespace redis = store::redis;
using pool::JobType;
using pool::ModelSpec;
using pool::RatioSettings;

constexpr double kPriceMax = 1'000'000;

// Ratios and prices are doubles, as in the published rules.
void read_number(const Entry& entry, Context& context, double most, std::string_view example,
                 double& out) {
  if (!check_text(entry.value, entry.key, context)) return;
  const std::string& text = entry.value.text;
  double number = 0;
  const auto read =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || !std::isfinite(number) ||
      text.starts_with('-') || number > most) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be a number from 0 to {}; write one such as "
                                "{}",
                                entry.key, in_quotes(text), most, example));
    return;
  }
  out = number;
}

template <auto Member, typename Target>
void part_at(const Entry& entry, Context& context, Target& target) {
  read_number(entry, context, 1, "0.25", target.*Member);
}

// A number that may be left out.
void read_limit(const Entry& entry, Context& context, std::int64_t least, std::int64_t most,
                std::optional<std::int64_t>& out) {
  std::int64_t number = 0;
  const std::size_t before = context.mistakes.count();
  read_count(entry, context, least, most, number);
  if (context.mistakes.count() == before) out = number;
}

// A list of maps, each with a name of its own. `shown` names the elements in mistakes.
template <typename Target>
void read_named_list(const Entry& entry, Context& context, std::string_view shown,
                     std::string_view form, std::size_t most, std::span<const Key<Target>> keys,
                     std::vector<Target>& out, std::vector<Place>& places) {
  if (!check_kind(entry, TreeNode::Kind::kList, fmt::format("[{}]", form), context)) return;
  const std::vector<TreeNode>& items = entry.value.items;
  if (items.empty() || items.size() > most) {
    context.mistake(entry.value.place,
                    fmt::format("{} has {} elements, but it must have 1 to {}; write '[{}]'",
                                entry.key, items.size(), most, form));
    return;
  }
  for (const TreeNode& item : items) {
    Context inner{context.mistakes, fmt::format("pools: {}", entry.key)};
    if (item.kind != TreeNode::Kind::kMap) {
      inner.mistake(item.place, fmt::format("a {} is {}, but it must be a map; write '{}'", shown,
                                            item.shown(), form));
      continue;
    }
    if (const Entry* name = item.find("name"); name != nullptr && !name->value.text.empty()) {
      inner.where = fmt::format("pools: {} {}", shown, in_quotes(name->value.text));
    }
    Target target{};
    read_map<Target>(item, keys, inner, target);
    const auto is_same = [&](const Target& other) { return other.name == target.name; };
    if (!target.name.empty() && std::ranges::any_of(out, is_same)) {
      inner.mistake(item.place, "its name is used before; write another one");
    }
    out.push_back(std::move(target));
    places.push_back(item.place);
  }
}

// --- models

constexpr Key<pool::Pricing> kPricingKeys[] = {
    {"input",
     [](const Entry& entry, Context& context, pool::Pricing& pricing) {
       read_number(entry, context, kPriceMax, "1.25", pricing.input);
     },
     "1.25", "US dollars for a million input tokens. Default `0`."},
    {"cached",
     [](const Entry& entry, Context& context, pool::Pricing& pricing) {
       read_number(entry, context, kPriceMax, "0.125", pricing.cached);
     },
     "0.125", "The same of cached ones."},
    {"output",
     [](const Entry& entry, Context& context, pool::Pricing& pricing) {
       read_number(entry, context, kPriceMax, "10", pricing.output);
     },
     "10", "The same of output."},
};

void read_pricing(const Entry& entry, Context& context, ModelSpec& model) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ input: 1.25, output: 10 }", context)) return;
  Context inner{context.mistakes, fmt::format("{}: pricing", context.where)};
  read_map<pool::Pricing>(entry.value, kPricingKeys, inner, model.pricing);
}

template <auto Rate>
void rate_at(const Entry& entry, Context& context, ModelSpec& model) {
  read_limit(entry, context, 1, pool::kLimitMax, model.limits.rates.*Rate);
}

void read_name(const Entry& entry, Context& context, std::string& name) {
  read_text(entry, context, name);
  if (name.size() > pool::kNameBytesMax) {
    context.mistake(entry.value.place,
                    fmt::format("name has {} bytes, but it must have 1 to {}; write a shorter one",
                                name.size(), pool::kNameBytesMax));
  }
}

constexpr Key<ModelSpec> kModelKeys[] = {
    {"name",
     [](const Entry& entry, Context& context, ModelSpec& model) {
       read_name(entry, context, model.name);
     },
     "gpt-5", "Any text of at most 256 bytes.", kRequired},
    {"tokens_per_minute", rate_at<&pool::Rates::tokens_per_minute>, "500000",
     "Of all instances together. Left out: not limited; so are the next four."},
    {"requests_per_minute", rate_at<&pool::Rates::requests_per_minute>, "500",
     "Windows are whole minutes and days of UTC."},
    {"tokens_per_day", rate_at<&pool::Rates::tokens_per_day>, "50000000", "Likewise."},
    {"requests_per_day", rate_at<&pool::Rates::requests_per_day>, "100000", "Likewise."},
    {"concurrent",
     [](const Entry& entry, Context& context, ModelSpec& model) {
       read_limit(entry, context, 1, pool::kLimitMax, model.limits.concurrent);
     },
     "50", "Jobs that run at once."},
    {"pricing", read_pricing, "map", "What its tokens cost. Left out: nothing."},
    {"min_capacity",
     [](const Entry& entry, Context& context, ModelSpec& model) {
       read_count(entry, context, 0, pool::kLimitMax, model.bounds.least);
     },
     "0", "The fewest slots it is advertised with. Default `0`."},
    {"max_capacity",
     [](const Entry& entry, Context& context, ModelSpec& model) {
       read_limit(entry, context, 0, pool::kLimitMax, model.bounds.most);
     },
     "100", "The most slots it is advertised with. Left out: as many as there are."},
};

// --- job types

void read_max_wait(const Entry& entry, Context& context, JobType& type) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ gpt-5: 5s }", context)) return;
  Context inner{context.mistakes, fmt::format("{}: max_wait", context.where)};
  if (!check_names(entry.value, inner)) return;
  for (const Entry& wait : entry.value.entries) {
    Duration span{-1};
    read_span(wait, inner, span);
    if (span > pool::kWaitMax) {
      inner.mistake(wait.value.place, fmt::format("{} is {}, but it must be at most 7d; write a "
                                                  "shorter wait",
                                                  wait.key, in_quotes(wait.value.text)));
    } else if (span >= Duration{0}) {
      type.max_wait[wait.key] = span;
    }
  }
}

constexpr Key<JobType> kTypeKeys[] = {
    {"name",
     [](const Entry& entry, Context& context, JobType& type) {
       read_name(entry, context, type.name);
     },
     "summary", "Any text of at most 256 bytes.", kRequired},
    {"tokens",
     [](const Entry& entry, Context& context, JobType& type) {
       read_limit(entry, context, 0, pool::kAmountMax, type.tokens);
     },
     "10000", "Estimate of what one job uses, booked before it runs. `0`: does not constrain."},
    {"requests",
     [](const Entry& entry, Context& context, JobType& type) {
       read_limit(entry, context, 0, pool::kAmountMax, type.requests);
     },
     "1", "The same of requests."},
    {"memory_kb", count_at<&JobType::memory_kb, 0, pool::kMemoryKbMax, JobType>, "2048",
     "The same of this instance's memory; see `memory`. Default `0`: not counted."},
    {"ratio",
     [](const Entry& entry, Context& context, JobType& type) {
       double ratio = 0;
       const std::size_t before = context.mistakes.count();
       read_number(entry, context, 1, "0.25", ratio);
       if (context.mistakes.count() == before) type.ratio = ratio;
     },
     "0.3", "Share of each pool to begin with. Left out: an equal part of what the others leave."},
    {"flexible", flag_at<&JobType::is_flexible, JobType>, "true",
     "Whether the share follows the load. Default `true`."},
    {"max_wait", read_max_wait, "{ gpt-5: 5s }",
     "How long a job waits for each model before it goes on to the next. Models left out: until "
     "5 s into the next minute."},
};

// --- ratios, memory, redis

constexpr Key<RatioSettings> kRatioKeys[] = {
    {"high_load", part_at<&RatioSettings::high_load, RatioSettings>, "0.7",
     "Above it a job type receives. Default `0.7`."},
    {"low_load", part_at<&RatioSettings::low_load, RatioSettings>, "0.3",
     "Below it a job type gives. Default `0.3`."},
    {"max_adjustment", part_at<&RatioSettings::max_adjustment, RatioSettings>, "0.2",
     "The most that one type gives at a time. Default `0.2`."},
    {"min_ratio", part_at<&RatioSettings::min_ratio, RatioSettings>, "0.01",
     "What a type keeps. Default `0.01`."},
    {"interval", zero_or_span_at<&RatioSettings::interval, RatioSettings>, "5s",
     "How often shares are adjusted. `0s`: not by time. Default `5s`."},
    {"releases", count_at<&RatioSettings::releases_per_adjustment, 0, 1'000'000, RatioSettings>,
     "10", "Adjusted after so many jobs, too. `0`: not by jobs. Default `10`."},
    {"min_capacity", count_at<&RatioSettings::min_capacity, 0, 1'000'000, RatioSettings>, "1",
     "Slots that every type has. Default `1`."},
};

constexpr Key<pool::MemorySettings> kMemoryKeys[] = {
    {"free_ratio", part_at<&pool::MemorySettings::free_ratio, pool::MemorySettings>, "0.8",
     "Part of the base that jobs may take. Default `0.8`."},
    {"max_kb",
     [](const Entry& entry, Context& context, pool::MemorySettings& memory) {
       read_limit(entry, context, 1, pool::kMemoryKbMax, memory.max_kb);
     },
     "1048576", "The base. Left out: what is free of the control group, or of the machine."},
    {"interval", duration_at<&pool::MemorySettings::interval, pool::MemorySettings>, "1s",
     "How often free memory is looked at. Default `1s`."},
};

constexpr std::string_view kAnnouncements[] = {"brief", "full"};
constexpr std::string_view kOutages[] = {"deny", "allow", "local"};

constexpr Key<PoolRedisSettings> kRedisKeys[] = {
    {"prefix", text_at<&PoolRedisSettings::prefix, PoolRedisSettings>, "weir",
     "Of every key; instances with the same one share their limits. Default `weir`."},
    {"instance", text_at<&PoolRedisSettings::instance, PoolRedisSettings>, "worker-1",
     "Name of this instance, unlike any other's. Left out: one is made up."},
    {"timeout", duration_at<&PoolRedisSettings::timeout, PoolRedisSettings>, "500ms",
     "The longest that Redis is waited for. Default `500ms`."},
    {"heartbeat", duration_at<&PoolRedisSettings::heartbeat, PoolRedisSettings>, "5s",
     "How often the instance says that it lives. Default `5s`."},
    {"instance_timeout", duration_at<&PoolRedisSettings::instance_timeout, PoolRedisSettings>,
     "15s",
     "An instance silent for this long is taken for dead, and its share goes to the others; at "
     "least twice `heartbeat`. Default `15s`."},
    {"announce", choice_at<&PoolRedisSettings::announce, kAnnouncements, PoolRedisSettings>,
     "brief",
     "What the channel carries: `brief`, that something changed, or `full`, the allocation of "
     "each instance as well. Default `brief`."},
    {"outage", choice_at<&PoolRedisSettings::outage, kOutages, PoolRedisSettings>, "deny",
     "While Redis cannot be asked: `deny` every job, `allow` what this instance alone may have, or "
     "`local`, its last known share. Default `deny`."},
};

// --- the section

struct PoolDraft {
  PoolSettings pools{};
  std::vector<Place> model_places{};
  std::vector<Place> type_places{};
  const Entry* models = nullptr;
  const Entry* escalation = nullptr;
  const Entry* types = nullptr;
  const Entry* ratios = nullptr;
  const Entry* memory = nullptr;
  const Entry* hold = nullptr;
};

void read_models(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.models = &entry;
  read_named_list<ModelSpec>(entry, context, "model", "{ name: gpt-5, tokens_per_minute: 500000 }",
                             pool::kModelsMax, kModelKeys, draft.pools.settings.models,
                             draft.model_places);
}

void read_types(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.types = &entry;
  read_named_list<JobType>(entry, context, "job type", "{ name: summary, tokens: 10000 }",
                           pool::kJobTypesMax, kTypeKeys, draft.pools.settings.types,
                           draft.type_places);
}

void read_escalation(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.escalation = &entry;
  read_texts(entry, context, draft.pools.settings.escalation);
}

void read_ratios(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.ratios = &entry;
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ interval: 5s }", context)) return;
  Context inner{context.mistakes, "pools: ratios"};
  read_map<RatioSettings>(entry.value, kRatioKeys, inner, draft.pools.settings.ratios);
}

void read_memory(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.memory = &entry;
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ free_ratio: 0.8 }", context)) return;
  Context inner{context.mistakes, "pools: memory"};
  pool::MemorySettings& memory = draft.pools.settings.memory.emplace();
  read_map<pool::MemorySettings>(entry.value, kMemoryKeys, inner, memory);
  memory.probe = pool::free_memory_kb;
}

void read_coordinator(const Entry& entry, Context& context, PoolDraft& draft) {
  std::string text;
  read_text(entry, context, text);
  if (text.empty() || text == "local") return;
  Result<redis::Address> address = redis::parse_address(text);
  if (address) {
    draft.pools.redis.emplace().address = std::move(*address);
  } else {
    context.mistake(entry.value.place,
                    fmt::format("{} {}; or write 'local'", entry.key, address.error().message));
  }
}

void read_redis(const Entry& entry, Context& context, PoolDraft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ heartbeat: 5s }", context)) return;
  Context inner{context.mistakes, "pools: redis"};
  PoolRedisSettings unused;
  PoolRedisSettings& settings = draft.pools.redis ? *draft.pools.redis : unused;
  const std::size_t before = context.mistakes.count();
  read_map<PoolRedisSettings>(entry.value, kRedisKeys, inner, settings);
  if (context.mistakes.count() > before) return;
  if (!draft.pools.redis) {
    context.mistake(entry.place,
                    "redis is there, but the coordinator is 'local'; write 'coordinator: "
                    "redis://localhost:6379', or leave redis out");
  } else if (const Status valid = redis::validate_options(pool_coordinator_options(settings));
             !valid) {
    context.mistake(entry.place, valid.error().message);
  }
}

constexpr std::string_view kRules[] = {"strict", "published", "refund"};

template <auto Member>
void hold_at(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.hold = &entry;
  read_duration(entry, context, draft.pools.hold.*Member);
}

constexpr Key<PoolDraft> kPoolKeys[] = {
    {"models", read_models, "[{ name: gpt-5, tokens_per_minute: 500000 }]",
     "The models, at most 256.", kRequired},
    {"escalation", read_escalation, "[gpt-5, gpt-5-mini]",
     "Which model to try first, second, ...; may be left out if there is only one. Others are "
     "never chosen."},
    {"job_types", read_types, "[{ name: summary, tokens: 10000, requests: 1 }]",
     "The kinds of work, at most 256.", kRequired},
    {"ratios", read_ratios, "map", "How the shares of job types follow their load."},
    {"memory", read_memory, "map",
     "Memory that jobs of a type may take together. Left out: not counted."},
    {"rule",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       choice_at<&pool::Settings::rule, kRules>(entry, context, draft.pools.settings);
     },
     "strict",
     "`strict`: every dimension counts all the time; `published`: as the source document has it; "
     "`refund`: as its newest code has it. Default `strict`."},
    {"delegations",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       count_at<&pool::Settings::delegations_max, 0, pool::kDelegationsMax>(entry, context,
                                                                            draft.pools.settings);
     },
     "8", "How often one job may go on to another model. Default `8`."},
    {"pacing",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       zero_or_span_at<&pool::Settings::pacing>(entry, context, draft.pools.settings);
     },
     "5s",
     "Over which those who waited for a window are spread when it turns, at most `1m`. Default "
     "`0s`: all at once."},
    {"jobs",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       count_at<&pool::Settings::jobs_max, 1, pool::kJobsMax>(entry, context, draft.pools.settings);
     },
     "100000", "Jobs that wait or run. Default `100000`."},
    {"hold", hold_at<&pool::HoldSettings::hold>, "10m",
     "A job that nobody ends in this time ends by itself, as one that failed. Default `10m`."},
    {"hold_max", hold_at<&pool::HoldSettings::hold_max>, "1h",
     "The longest hold that a client may ask for. Default `1h`."},
    {"version",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       count_at<&pool::Settings::version, 0, pool::kLimitMax>(entry, context, draft.pools.settings);
     },
     "0",
     "Of limits and estimates, for instances that share them: a higher one replaces those of the "
     "fleet, the same with others is refused. Default `0`."},
    {"coordinator", read_coordinator, "local",
     "Where instances share the limits: `local`, this process alone, or the address of a Redis, "
     "such as `redis://localhost:6379`. Default `local`."},
    {"redis", read_redis, "map", "How the instances share them there."},
};

Place place_of(const Entry* entry, Place otherwise) {
  return entry == nullptr ? otherwise : entry->place;
}

// What shows only in the whole. Each part has been read without a mistake.
void check_whole(Place place, Context& context, const PoolDraft& draft) {
  const pool::Settings& settings = draft.pools.settings;
  const std::size_t before = context.mistakes.count();
  const auto check = [&](Place at, const Status& status) {
    if (!status) context.mistake(at, status.error().message);
  };
  const auto has_model = [&](std::string_view name) {
    return std::ranges::find(settings.models, name, &ModelSpec::name) != settings.models.end();
  };
  std::vector<std::string_view> names;
  for (const ModelSpec& model : settings.models) names.emplace_back(model.name);
  const auto unknown = [&](std::string_view name) {
    const std::string_view meant = nearest(name, names);
    return fmt::format("there is no model {}; write '{}'", in_quotes(name),
                       meant.empty() ? names.front() : meant);
  };
  if (draft.escalation == nullptr && settings.models.size() > 1) {
    context.mistake(draft.models->place,
                    fmt::format("there are {} models, but no escalation says which to try first; "
                                "write 'escalation: [{}]'",
                                names.size(), fmt::join(names, ", ")));
  }
  for (std::size_t i = 0; i < settings.escalation.size(); ++i) {
    const std::string& name = settings.escalation[i];
    const Place at = draft.escalation->value.kind == TreeNode::Kind::kList
                         ? draft.escalation->value.items[i].place
                         : draft.escalation->value.place;
    if (!has_model(name)) context.mistake(at, fmt::format("escalation: {}", unknown(name)));
  }
  for (std::size_t i = 0; i < settings.models.size(); ++i) {
    const pool::CapacityBounds& bounds = settings.models[i].bounds;
    if (bounds.most && *bounds.most < bounds.least) {
      context.mistake(draft.model_places[i],
                      fmt::format("model {}: max_capacity is {}, but min_capacity is {}; write a "
                                  "larger one",
                                  in_quotes(settings.models[i].name), *bounds.most, bounds.least));
    }
  }
  for (std::size_t i = 0; i < settings.types.size(); ++i) {
    check(draft.type_places[i], validate_job_type(settings.types[i]));
    for (const auto& [model, wait] : settings.types[i].max_wait) {
      if (has_model(model)) continue;
      context.mistake(draft.type_places[i],
                      fmt::format("job type {}: max_wait: {}", in_quotes(settings.types[i].name),
                                  unknown(model)));
    }
  }
  const Result<std::vector<double>> ratios = initial_ratios(settings.types);
  if (!ratios) context.mistake(place_of(draft.types, place), ratios.error().message);
  check(place_of(draft.ratios, place), validate_ratio_settings(settings.ratios));
  if (settings.memory) {
    check(place_of(draft.memory, place), validate_memory_settings(*settings.memory));
  }
  check(place_of(draft.hold, place), validate_hold_settings(draft.pools.hold));
  // Whatever is left has no place of its own.
  if (context.mistakes.count() == before) check(place, validate_settings(settings));
}

}  // namespace

redis::PoolCoordinatorOptions pool_coordinator_options(const PoolRedisSettings& settings) {
  redis::PoolCoordinatorOptions options;
  options.address = settings.address;
  options.prefix = settings.prefix;
  options.instance = settings.instance;
  options.timeout = settings.timeout;
  options.heartbeat = settings.heartbeat;
  options.instance_timeout = settings.instance_timeout;
  options.announce = settings.announce;
  return options;
}

void read_pools(const Entry& entry, Context& context, Draft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ models: [...], job_types: [...] }", context)) {
    return;
  }
  Context inner{context.mistakes, "pools"};
  const std::size_t before = context.mistakes.count();
  PoolDraft section;
  read_map<PoolDraft>(entry.value, kPoolKeys, inner, section);
  if (context.mistakes.count() == before) check_whole(entry.place, inner, section);
  if (context.mistakes.count() == before) draft.config.pools = std::move(section.pools);
}

void list_pool_keys(std::vector<KeyHelp>& out) {
  list_keys<PoolDraft>("pools", kPoolKeys, out);
  list_keys<ModelSpec>("pools: models", kModelKeys, out);
  list_keys<pool::Pricing>("pools: models: pricing", kPricingKeys, out);
  list_keys<JobType>("pools: job_types", kTypeKeys, out);
  list_keys<RatioSettings>("pools: ratios", kRatioKeys, out);
  list_keys<pool::MemorySettings>("pools: memory", kMemoryKeys, out);
  list_keys<PoolRedisSettings>("pools: redis", kRedisKeys, out);
}

bool operator==(const PoolSettings& a, const PoolSettings& b) {
  const pool::Settings& x = a.settings;
  const pool::Settings& y = b.settings;
  const auto memory_of = [](const pool::Settings& settings) {
    const pool::MemorySettings memory = settings.memory.value_or(pool::MemorySettings{});
    return std::tuple(settings.memory.has_value(), memory.free_ratio, memory.max_kb,
                      memory.interval);
  };
  return x.models == y.models && x.escalation == y.escalation && x.types == y.types &&
         x.ratios == y.ratios && memory_of(x) == memory_of(y) && x.rule == y.rule &&
         x.delegations_max == y.delegations_max && x.pacing == y.pacing &&
         x.jobs_max == y.jobs_max && x.version == y.version && a.hold == b.hold &&
         a.redis == b.redis;
}

}  // namespace weir::config
