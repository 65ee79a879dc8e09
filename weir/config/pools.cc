// `pools:`.

#include <algorithm>

#include "weir/config/pool_draft.h"

namespace weir::config {
namespace {

namespace pool = system::pool;
namespace redis = store::redis;
using pool::JobType;
using pool::ModelSpec;
using pool::RatioSettings;

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

constexpr Key<PoolRedisSettings> kPoolRedisKeys[] = {
    {"prefix", text_at<&PoolRedisSettings::prefix, PoolRedisSettings>, "weir",
     "Of every key; instances with the same one share their limits. Default `weir`."},
    {"instance", text_at<&PoolRedisSettings::instance, PoolRedisSettings>, "worker-1",
     "Name of this instance, unlike any other's. Left out: one is made up."},
    {"timeout", duration_at<&PoolRedisSettings::timeout, PoolRedisSettings>, "500ms",
     "The longest that Redis is waited for. Default `500ms`."},
    {"heartbeat", duration_at<&PoolRedisSettings::heartbeat, PoolRedisSettings>, "1s",
     "How often the instance says that it lives; in a fleet of more than 200, less often. Default "
     "`1s`."},
    {"instance_timeout", duration_at<&PoolRedisSettings::instance_timeout, PoolRedisSettings>,
     "15s",
     "An instance silent for this long is taken for dead, and its share goes to the others; one "
     "whose connections are closed, after 2 s. At least twice `heartbeat`. Default `15s`."},
    {"announce", choice_at<&PoolRedisSettings::announce, kAnnouncements, PoolRedisSettings>,
     "brief",
     "What the channel carries: `brief`, that something changed, or `full`, the allocation of "
     "each instance as well. Default `brief`."},
    {"outage", choice_at<&PoolRedisSettings::outage, kOutages, PoolRedisSettings>, "deny",
     "While Redis cannot be asked: `deny` every job, `allow` what this instance alone may have, or "
     "`local`, its last known share. Default `deny`."},
};

void read_models(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.models = &entry;
  read_named_list<ModelSpec>(entry, context, "model", "{ name: gpt-5, tokens_per_minute: 500000 }",
                             pool::kModelsMax, model_keys(), draft.pools.settings.models,
                             draft.model_places);
}

void read_types(const Entry& entry, Context& context, PoolDraft& draft) {
  draft.types = &entry;
  read_named_list<JobType>(entry, context, "job type", "{ name: summary, tokens: 10000 }",
                           pool::kJobTypesMax, job_type_keys(), draft.pools.settings.types,
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

void read_pool_redis(const Entry& entry, Context& context, PoolDraft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ heartbeat: 5s }", context)) return;
  Context inner{context.mistakes, "pools: redis"};
  PoolRedisSettings unused;
  PoolRedisSettings& settings = draft.pools.redis ? *draft.pools.redis : unused;
  const std::size_t before = context.mistakes.count();
  read_map<PoolRedisSettings>(entry.value, kPoolRedisKeys, inner, settings);
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
       choice_at<&pool::PoolsSettings::rule, kRules>(entry, context, draft.pools.settings);
     },
     "strict",
     "`strict`: every dimension counts all the time; `published`: as the source document has it; "
     "`refund`: as its newest code has it. Default `strict`."},
    {"delegations",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       count_at<&pool::PoolsSettings::delegations_max, 0, pool::kDelegationsMax>(
           entry, context, draft.pools.settings);
     },
     "8", "How often one job may go on to another model. Default `8`."},
    {"pacing",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       zero_or_span_at<&pool::PoolsSettings::pacing>(entry, context, draft.pools.settings);
     },
     "5s",
     "Over which those who waited for a window are spread when it turns, at most `1m`. Default "
     "`0s`: all at once."},
    {"jobs",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       count_at<&pool::PoolsSettings::jobs_max, 1, pool::kJobsMax>(entry, context,
                                                                   draft.pools.settings);
     },
     "100000", "Jobs that wait or run. Default `100000`."},
    {"hold", hold_at<&pool::HoldSettings::hold>, "10m",
     "A job that is not released in this time ends by itself, as one that failed. Default `10m`."},
    {"hold_max", hold_at<&pool::HoldSettings::hold_max>, "1h",
     "The longest hold that a client may ask for. Default `1h`."},
    {"version",
     [](const Entry& entry, Context& context, PoolDraft& draft) {
       count_at<&pool::PoolsSettings::version, 0, pool::kLimitMax>(entry, context,
                                                                   draft.pools.settings);
     },
     "0",
     "Of limits and estimates, for instances that share them: a higher one replaces those of the "
     "fleet, the same with others is refused. Default `0`."},
    {"coordinator", read_coordinator, "local",
     "Where instances share the limits: `local`, this process alone, or the address of a Redis, "
     "such as `redis://localhost:6379`. Default `local`."},
    {"redis", read_pool_redis, "map", "How the instances share them there."},
};

}  // namespace

redis::PoolCoordinatorOptions pool_coordinator_options(const PoolRedisSettings& settings) {
  redis::PoolCoordinatorOptions options;
  options.address = settings.address;
  options.prefix = settings.prefix;
  options.instance = settings.instance;
  options.timeout = settings.timeout;
  // A caller that waits for a slow answer gets it: the connection is not broken meanwhile.
  options.connect_timeout = std::max(options.connect_timeout, settings.timeout);
  options.silence = std::max(options.silence, settings.timeout);
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
  if (context.mistakes.count() == before) check_pools(entry.place, inner, section);
  if (context.mistakes.count() == before) draft.config.pools = std::move(section.pools);
}

void list_pool_keys(std::vector<KeyHelp>& out) {
  list_keys<PoolDraft>("pools", kPoolKeys, out);
  list_pool_model_keys(out);
  list_keys<RatioSettings>("pools: ratios", kRatioKeys, out);
  list_keys<pool::MemorySettings>("pools: memory", kMemoryKeys, out);
  list_keys<PoolRedisSettings>("pools: redis", kPoolRedisKeys, out);
}

}  // namespace weir::config
