// `compute:`, and the limit of that name that its worker makes.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "weir/base/time.h"
#include "weir/config/draft.h"
#include "weir/engine/quantity.h"
#include "weir/system/compute/gate.h"

namespace weir::config {
namespace {

namespace compute = system::compute;
using compute::FeedSettings;
using compute::LedgerSettings;
using compute::WorkerSettings;

struct ComputeDraft {
  ComputeSettings compute{};
  bool names_ledger = false;
  bool names_worker = false;
  Place worker_place{};
};

// --- ledger

template <auto Member>
void tokens_at(const Entry& entry, Context& context, LedgerSettings& ledger) {
  if (!check_text(entry.value, entry.key, context)) return;
  const Result<compute::Amount> amount = compute::parse_tokens(entry.key, entry.value.text);
  if (amount) {
    ledger.parameters.*Member = *amount;
  } else {
    context.mistake(entry.value.place, amount.error().message);
  }
}

template <auto Member, std::int64_t kLeast, std::int64_t kMost>
void parameter_at(const Entry& entry, Context& context, LedgerSettings& ledger) {
  read_count(entry, context, kLeast, kMost, ledger.parameters.*Member);
}

bool read_seconds(std::string_view what, const TreeNode& value, std::string_view text,
                  Context& context, std::int64_t& out) {
  const Result<Duration> span = engine::parse_span(what, text);
  if (!span) {
    context.mistake(value.place, span.error().message);
    return false;
  }
  if (span->count() % kNsPerSecond != 0) {
    context.mistake(value.place,
                    fmt::format("{} is {}, but it must be whole seconds; write such as "
                                "'12s'",
                                what, in_quotes(text)));
    return false;
  }
  out = span->count() / kNsPerSecond;
  return true;
}

template <auto Member>
void seconds_at(const Entry& entry, Context& context, LedgerSettings& ledger) {
  if (!check_text(entry.value, entry.key, context)) return;
  read_seconds(entry.key, entry.value, entry.value.text, context, ledger.parameters.*Member);
}

void read_boost(const Entry& entry, Context& context, LedgerSettings& ledger) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ 0s: 10000, 60d: 12000 }", context)) return;
  std::vector<compute::BoostStep> steps;
  for (const Entry& step : entry.value.entries) {
    compute::BoostStep& row = steps.emplace_back();
    if (!read_seconds("boost", step.value, step.key, context, row.seconds)) return;
    read_count(step, context, 0, compute::kBoostMax, row.boost_bp);
  }
  ledger.parameters.boost = std::move(steps);
}

void read_epoch(const Entry& entry, Context& context, LedgerSettings& ledger) {
  read_count(entry, context, compute::kEpochLengthMin, compute::kEpochLengthMax,
             ledger.parameters.clock.length);
}

void read_first_epoch(const Entry& entry, Context& context, LedgerSettings& ledger) {
  read_count(entry, context, 0, compute::kBlockMax, ledger.parameters.clock.first);
}

void read_genesis_time(const Entry& entry, Context& context, LedgerSettings& ledger) {
  std::int64_t seconds = 0;
  read_count(entry, context, 0, kInstantNsMax / kNsPerSecond, seconds);
  ledger.genesis = Instant{seconds * kNsPerSecond};
}

constexpr std::string_view kBlockSources[] = {"time", "pushed"};
constexpr std::string_view kRemainders[] = {"rotate", "drop"};

void read_remainder(const Entry& entry, Context& context, LedgerSettings& ledger) {
  choice_at<&compute::Parameters::remainder, kRemainders>(entry, context, ledger.parameters);
}

void read_published_faults(const Entry& entry, Context& context, LedgerSettings& ledger) {
  read_flag(entry, context, ledger.parameters.published_faults);
}

using compute::Parameters;

constexpr Key<LedgerSettings> kLedgerKeys[] = {
    {"min_lock", tokens_at<&Parameters::min_lock>, "10000",
     "Tokens that must be locked at least. Default `10000`."},
    {"supply", tokens_at<&Parameters::supply>, "1337000000",
     "Tokens that there are: all locks together are at most as many. Default `1337000000`."},
    {"mana", parameter_at<&Parameters::mana, 0, compute::kManaMax>, "10",
     "Units per token and 1000 blocks before boost. Default `10`: a unit per epoch of 100 blocks."},
    {"block_time", seconds_at<&Parameters::block_time_s>, "12s",
     "Of one block, whole seconds. Default `12s`."},
    {"max_lock", seconds_at<&Parameters::max_lock_s>, "1080d",
     "The longest lock. Default `1080d`: three years of 360 days."},
    {"max_portals", parameter_at<&Parameters::max_portals, 1, compute::kPortalsMax>, "10",
     "Portals of one cluster. Default `10`."},
    {"min_stake", tokens_at<&Parameters::min_stake>, "1000000",
     "Tokens below which a pool is not active. Default `1000000`."},
    {"pool_capacity", tokens_at<&Parameters::pool_capacity>, "1000000",
     "Tokens of a pool's stake that count at most. Default `1000000`."},
    {"pool_mana", parameter_at<&Parameters::pool_mana_bp, 0, compute::kPoolManaMax>, "1000",
     "Basis points of a unit for a token of a pool, in each epoch at each worker. Default `1000`."},
    {"exit_rate", tokens_at<&Parameters::exit_rate>, "12",
     "Tokens that may leave a pool in a block. Default `12`."},
    {"boost", read_boost, "{ 0s: 10000, 60d: 12000 }",
     "Basis points by length of the lock, from `0s` on, rising. Default: the published table."},
    {"epoch", read_epoch, "100", "Blocks of one epoch, 2 to 99999. Default `100`."},
    {"first_epoch", read_first_epoch, "0", "The block at which epoch 1 begins. Default `0`."},
    {"blocks", choice_at<&LedgerSettings::blocks, kBlockSources>, "time",
     "Where blocks come from: `time`, or `pushed` to `/v1/compute/blocks`. Default `time`."},
    {"genesis", count_at<&LedgerSettings::genesis_block, 0, compute::kBlockMax>, "0",
     "The block that it is at `genesis_time`. Default `0`."},
    {"genesis_time", read_genesis_time, "1700000000",
     "In seconds since 1970. Default: when the ledger is first opened."},
    {"remainder", read_remainder, "rotate",
     "Units that a split leaves over: `rotate` them over the workers, or `drop` them as published. "
     "Default `rotate`."},
    {"published_faults", read_published_faults, "false",
     "Keeps faults of the published contract: extension without a lock, subsets counted by list "
     "lengths. Default `false`."},
};

void read_ledger(const Entry& entry, Context& context, ComputeDraft& draft) {
  draft.names_ledger = true;
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ min_lock: 10000 }", context)) return;
  Context inner{context.mistakes, "compute: ledger"};
  LedgerSettings& ledger = draft.compute.ledger.emplace();
  const std::size_t before = context.mistakes.count();
  read_map<LedgerSettings>(entry.value, kLedgerKeys, inner, ledger);
  if (context.mistakes.count() > before) return;
  if (const Status status = compute::validate(ledger.parameters); !status) {
    inner.mistake(entry.place, status.error().message);
  }
}

// --- worker

template <auto Member, std::int64_t kLeast, std::int64_t kMost>
void admission_at(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_count(entry, context, kLeast, kMost, worker.admission.*Member);
}
template <auto Member>
void admission_time_at(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_duration(entry, context, worker.admission.*Member);
}
template <auto Member, const auto& kWords>
void admission_choice_at(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  choice_at<Member, kWords>(entry, context, worker.admission);
}
template <auto Member>
void feed_time_at(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_duration(entry, context, worker.feed.*Member);
}
template <auto Member, const auto& kWords>
void feed_choice_at(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  choice_at<Member, kWords>(entry, context, worker.feed);
}

// One number is the burst of every cluster; with a window, it is the least. What it means
// for the most is said when all keys are read.
void read_burst(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_count(entry, context, 1, compute::kBurstMax, worker.admission.burst.least);
}
void read_burst_max(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_count(entry, context, 1, compute::kBurstMax, worker.admission.burst.most);
}
void read_burst_window(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_duration(entry, context, worker.admission.burst.window);
}

void read_url(const Entry& entry, Context& context, ComputeWorkerSettings& worker) {
  read_text(entry, context, worker.ledger);
  if (worker.ledger.starts_with("http://") || worker.ledger.starts_with("https://")) return;
  context.mistake(entry.value.place,
                  fmt::format("ledger is {}, but it must be the address of a weir that has the "
                              "ledger; write such as 'http://127.0.0.1:8080'",
                              in_quotes(worker.ledger)));
}

constexpr std::string_view kOrders[] = {"rate_first", "queue_first"};
constexpr std::string_view kQueueings[] = {"fair", "first_in"};
constexpr std::string_view kRefunds[] = {"reservation", "portal"};
constexpr std::string_view kFeedModes[] = {"epoch", "immediate"};
constexpr std::string_view kFeedOutages[] = {"deny", "keep"};

constexpr Key<ComputeWorkerSettings> kWorkerKeys[] = {
    {"name", text_at<&ComputeWorkerSettings::name>, "worker-1",
     "As which it has joined the ledger. Default `worker-1`."},
    {"ledger", read_url, "http://127.0.0.1:8080",
     "The weir that has the ledger. Left out: this one, or `file`."},
    {"token", text_at<&ComputeWorkerSettings::token>, "secret",
     "What that weir is shown; it needs the role `observe`."},
    {"file", text_at<&ComputeWorkerSettings::file>, "./allocations.json",
     "Allocations from a file instead, as `GET /v1/compute/allocations` answers them."},
    {"running", admission_at<&WorkerSettings::running, 1, compute::kRunningMax>, "32",
     "Queries that run at once. Default `32`."},
    {"queue", admission_at<&WorkerSettings::queue, 0, compute::kRunningMax>, "16",
     "Queries that wait. Default `16`."},
    {"cluster_running", admission_at<&WorkerSettings::cluster_running, 0, compute::kRunningMax>,
     "16", "The part of one cluster. Default: half of `running`, rounded up."},
    {"cluster_queue", admission_at<&WorkerSettings::cluster_queue, 0, compute::kRunningMax>, "8",
     "The part of one cluster. Default: half of `queue`, rounded up."},
    {"burst", read_burst, "3", "Tokens that a bucket holds; the least with a window. Default `3`."},
    {"burst_max", read_burst_max, "100", "The most with a window. Default: `burst`."},
    {"burst_window", read_burst_window, "1s",
     "The burst is what the rate gives in this time. Left out: `burst`, whatever the rate."},
    {"order", admission_choice_at<&WorkerSettings::order, kOrders>, "rate_first",
     "What is checked first: `rate_first`, or `queue_first`. Default `rate_first`."},
    {"queueing", admission_choice_at<&WorkerSettings::queueing, kQueueings>, "fair",
     "`fair`: clusters take turns, have their parts and share a full queue evenly; `first_in`: one "
     "queue, as published. "
     "Default `fair`."},
    {"refund", admission_choice_at<&WorkerSettings::refund, kRefunds>, "reservation",
     "Unused parts go to the bucket of the `reservation`, or to that of the `portal` by then, as "
     "published. Default `reservation`."},
    {"query_time", admission_time_at<&WorkerSettings::query_time>, "5m",
     "A query that is not ended is over after this time. Default `5m`."},
    {"overloaded_hint", admission_time_at<&WorkerSettings::overloaded_hint>, "1s",
     "When to come again where all is full. Default `1s`."},
    {"mode", feed_choice_at<&FeedSettings::mode, kFeedModes>, "epoch",
     "Allocations change once per `epoch`, as published, or `immediate`. Default `epoch`."},
    {"outage", feed_choice_at<&FeedSettings::outage, kFeedOutages>, "deny",
     "Allocations older than `max_age`: `deny`, or `keep` them as published. Default `deny`."},
    {"poll", feed_time_at<&FeedSettings::poll>, "30s",
     "How often the ledger is asked. Default `30s`."},
    {"max_age", feed_time_at<&FeedSettings::max_age>, "1h",
     "How long the last good allocations count. Default `1h`."},
    {"service_time", feed_time_at<&FeedSettings::service_time>, "100ms",
     "Of one query: rates that need more than `running` slots are warned of. Left out: no "
     "warning."},
};

void read_worker(const Entry& entry, Context& context, ComputeDraft& draft) {
  draft.names_worker = true;
  draft.worker_place = entry.place;
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ name: worker-1 }", context)) return;
  Context inner{context.mistakes, "compute: worker"};
  ComputeWorkerSettings& worker = draft.compute.worker.emplace();
  const std::size_t before = context.mistakes.count();
  read_map<ComputeWorkerSettings>(entry.value, kWorkerKeys, inner, worker);
  const auto has = [&](std::string_view key) {
    return std::any_of(entry.value.entries.begin(), entry.value.entries.end(),
                       [&](const Entry& inside) { return inside.key == key; });
  };
  if (!has("burst_max")) worker.admission.burst.most = worker.admission.burst.least;
  if (context.mistakes.count() > before) return;
  if (has("burst_max") != has("burst_window")) {
    inner.mistake(entry.place,
                  "burst_max and burst_window mean something only together; write both, or only "
                  "'burst'");
  }
  if (worker.name.empty() || worker.name.size() > compute::kNameBytesMax) {
    inner.mistake(entry.place, fmt::format("name has {} bytes, but it must have 1 to {}; write "
                                           "another",
                                           worker.name.size(), compute::kNameBytesMax));
  }
  // A ledger in the same process is looked at all the time.
  const bool is_polled = !worker.ledger.empty() || !worker.file.empty();
  if (is_polled && worker.feed.max_age < worker.feed.poll) {
    inner.mistake(entry.place,
                  fmt::format("max_age is {}, but allocations are fetched only every {}, and would "
                              "be too old in between; write a max_age of several polls",
                              engine::duration_text(worker.feed.max_age),
                              engine::duration_text(worker.feed.poll)));
  }
  if (const Status status = compute::validate(worker.admission); !status) {
    inner.mistake(entry.place, status.error().message);
  }
  if (!worker.ledger.empty() && !worker.file.empty()) {
    inner.mistake(entry.place, "ledger and file are both given; write one of the two");
  }
}

constexpr Key<ComputeDraft> kComputeKeys[] = {
    {"ledger", read_ledger, "map", "This weir has the ledger."},
    {"worker", read_worker, "map", "This weir admits queries, as the limit `compute`."},
};

// So that requests may carry what the gate reads.
void declare_compute(Place place, Context& context, engine::RuleSetSpec& spec) {
  const std::string portal(compute::kPortalAttribute);
  if (std::find(spec.attributes.begin(), spec.attributes.end(), portal) == spec.attributes.end()) {
    spec.attributes.push_back(portal);
  }
  declare_unit(compute::kComputeUnit, engine::UnitScale::kMicro, place, context, spec);
}

}  // namespace

void read_compute(const Entry& entry, Context& context, Draft& draft) {
  draft.compute_place.place = entry.place;
  ComputeSettings& compute = draft.config.compute.emplace();
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ worker: { name: worker-1 } }", context)) return;
  Context inner{context.mistakes, "compute"};
  const std::size_t before = context.mistakes.count();
  ComputeDraft section;
  read_map<ComputeDraft>(entry.value, kComputeKeys, inner, section);
  if (!section.names_ledger && !section.names_worker) {
    section.compute.ledger.emplace();
    section.compute.worker.emplace();
  }
  compute = std::move(section.compute);
  if (compute.worker) declare_compute(entry.place, inner, draft.config.limits_spec);
  if (context.mistakes.count() > before || !compute.worker) return;
  const ComputeWorkerSettings& worker = *compute.worker;
  if (!compute.ledger && worker.ledger.empty() && worker.file.empty()) {
    inner.mistake(section.worker_place,
                  "the worker has nowhere to get allocations from; write 'ledger: "
                  "http://127.0.0.1:8080' under 'worker', or 'ledger: {}' beside it");
    return;
  }
  draft.compute_place.is_broken = false;
}

void list_compute_keys(std::vector<KeyHelp>& out) {
  list_keys<ComputeDraft>("compute", kComputeKeys, out);
  list_keys<LedgerSettings>("compute: ledger", kLedgerKeys, out);
  list_keys<ComputeWorkerSettings>("compute: worker", kWorkerKeys, out);
}

void keep_compute(const Config& running, Draft& draft) {
  Config& next = draft.config;
  if (next.compute == running.compute) return;
  next.compute = running.compute;
  // The limit that the file's own section has made.
  std::vector<engine::LimitSpec>& limits = next.limits_spec.limits;
  const auto own = std::find_if(limits.begin(), limits.end(), [](const engine::LimitSpec& limit) {
    const auto* const gate = std::get_if<engine::GateRef>(&limit.meter);
    return gate != nullptr && gate->name == kComputeLimit;
  });
  if (own != limits.end()) {
    draft.limit_places.erase(draft.limit_places.begin() + (own - limits.begin()));
    limits.erase(own);
  }
  if (!running.compute || !running.compute->worker) return;
  // A file without the section declares nothing for it.
  Mistakes ignored;
  Context context{ignored, "compute"};
  declare_compute({}, context, next.limits_spec);
  add_own_limit(kComputeLimit, {draft.compute_place.place, false}, draft);
}

}  // namespace weir::config
