// `pools: models` and `pools: job_types`.

#include "weir/config/pool_draft.h"

namespace weir::config {
namespace {

namespace pool = system::pool;
using pool::JobType;
using pool::ModelSpec;

constexpr double kPriceMax = 1'000'000;

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
     "10000",
     "Estimate of what one job uses, booked before it runs. Left out or `0`: nothing is booked, "
     "and "
     "only a window that is full refuses."},
    {"requests",
     [](const Entry& entry, Context& context, JobType& type) {
       read_limit(entry, context, 0, pool::kAmountMax, type.requests);
     },
     "1", "The same of requests. Left out: 1."},
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

}  // namespace

std::span<const Key<ModelSpec>> model_keys() { return kModelKeys; }
std::span<const Key<JobType>> job_type_keys() { return kTypeKeys; }

void list_pool_model_keys(std::vector<KeyHelp>& out) {
  list_keys<ModelSpec>("pools: models", kModelKeys, out);
  list_keys<pool::Pricing>("pools: models: pricing", kPricingKeys, out);
  list_keys<JobType>("pools: job_types", kTypeKeys, out);
}

}  // namespace weir::config
