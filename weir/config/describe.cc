#include <fmt/format.h>

#include <algorithm>

#include "weir/config/config.h"
#include "weir/config/draft.h"
#include "weir/engine/quantity.h"

namespace weir::config {
namespace {

using engine::Condition;
using engine::LimitSpec;
using engine::UnitScale;

template <typename Words>
std::string joined(const Words& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

// The meter in words.
struct MeterWords {
  UnitScale scale;

  std::string amount(std::int64_t units) const { return engine::amount_text(units, scale); }

  std::string operator()(const engine::BucketSpec& spec) const {
    return fmt::format("bucket {} every {}, burst {}", amount(spec.amount),
                       engine::duration_text(spec.period),
                       amount(spec.burst == 0 ? spec.amount : spec.burst));
  }
  std::string operator()(const engine::TickerSpec& spec) const {
    const bool starts_full = spec.start == meter::TickerStart::kFull;
    return fmt::format("ticker {} at ticks of {}, burst {}, starts {}", amount(spec.per_tick),
                       engine::duration_text(spec.interval),
                       amount(spec.burst == 0 ? spec.per_tick : spec.burst),
                       starts_full ? "full" : "empty");
  }
  std::string operator()(const engine::WindowSpec& spec) const {
    return fmt::format("window {} every {}", amount(spec.limit), engine::duration_text(spec.every));
  }
  std::string operator()(const engine::CalendarSpec& spec) const {
    constexpr std::string_view kUnits[] = {"day", "week", "month", "year"};
    return fmt::format("window {} every calendar {}", amount(spec.limit),
                       kUnits[static_cast<std::size_t>(spec.every)]);
  }
  std::string operator()(const engine::LogSpec& spec) const {
    return fmt::format("log {} in any {}", amount(spec.limit), engine::duration_text(spec.window));
  }
  std::string operator()(const engine::SlotsSpec& spec) const {
    return fmt::format("slots {} at once, {} may wait, held {}", amount(spec.limit), spec.queue,
                       engine::duration_text(spec.hold));
  }
  std::string operator()(const engine::GateRef&) const { return "gate"; }
  std::string operator()(const std::shared_ptr<engine::Gate>&) const { return "gate"; }
};

// `operation is put or post and client is a-*`
std::string conditions(const std::vector<Condition>& all) {
  std::vector<std::string> parts;
  parts.reserve(all.size());
  for (const Condition& condition : all) {
    parts.push_back(
        fmt::format("{} is {}", condition.attribute, joined(condition.patterns, " or ")));
  }
  return joined(parts, " and ");
}

UnitScale scale_of(const engine::RuleSetSpec& spec, const std::string& unit) {
  const auto found = std::find_if(spec.units.begin(), spec.units.end(),
                                  [&](const engine::UnitSpec& u) { return u.name == unit; });
  return found == spec.units.end() ? UnitScale::kWhole : found->scale;
}

std::string limit_line(const LimitSpec& limit, UnitScale scale) {
  std::vector<std::string> parts = {std::visit(MeterWords{scale}, limit.meter)};
  parts.push_back(limit.per.empty() ? "one meter for all" : "per " + joined(limit.per, ", "));
  if (!limit.when.empty()) parts.push_back("when " + conditions(limit.when));
  if (!limit.weigh.attribute.empty()) {
    std::vector<std::string> weights;
    for (const auto& [value, weight] : limit.weigh.table) {
      weights.push_back(fmt::format("{} {}", value, weight));
    }
    parts.push_back(fmt::format("weigh {}: {}", limit.weigh.attribute, joined(weights, ", ")));
  }
  parts.push_back("unit " + limit.unit);
  for (const std::vector<Condition>& group : limit.exempt) {
    parts.push_back("exempt if " + conditions(group));
  }
  if (limit.shadow) parts.emplace_back("shadow");
  if (limit.shared) {
    parts.push_back(fmt::format("in Redis, outage {}",
                                kOutages[static_cast<std::size_t>(limit.shared->outage)]));
    if (limit.shared->lease) {
      const engine::LeaseSpec& lease = *limit.shared->lease;
      parts.push_back(
          fmt::format("leased for {}, at most {} to a server", engine::duration_text(lease.length),
                      lease.most == 0 ? "a tenth" : engine::amount_text(lease.most, scale)));
    }
  }
  if (limit.overage) {
    parts.push_back(fmt::format("may owe {}", engine::amount_text(*limit.overage, scale)));
  }
  if (!limit.parent.empty()) parts.push_back("parent " + limit.parent);
  if (limit.queue_max != LimitSpec{}.queue_max) {
    parts.push_back(fmt::format("{} may wait", limit.queue_max));
  }
  if (limit.keys > 0) parts.push_back(fmt::format("at most {} keys", limit.keys));
  return fmt::format("limit {}: {}\n", limit.name, joined(parts, "; "));
}

std::string throttles_line(const ThrottleSettings& throttles) {
  const system::throttle::NetworkSettings& settings = throttles.spec.settings;
  const std::string gas = settings.throttle_by_gas ? fmt::format("gas {} a second, {} at consensus",
                                                                 settings.front_end_gas_per_second,
                                                                 settings.consensus_gas_per_second)
                                                   : "gas not throttled";
  return fmt::format("throttles: {} with {} buckets, {} nodes; {}\n", throttles.file,
                     throttles.spec.definitions.buckets.size(), throttles.spec.nodes, gas);
}

std::string contract_line(const ContractSettings& contract) {
  namespace contracts = system::contract;
  const contracts::AccountOptions& options = contract.options;
  std::vector<std::string> policies;
  for (const contracts::Policy& policy : contract.policies) policies.push_back(policy_id(policy));
  std::vector<std::string> parts = {
      policies.empty() ? "no policies" : joined(policies, ", "),
      options.role == contracts::AccountRole::kService
          ? "service"
          : "guard, jitter " + engine::duration_text(options.jitter),
      options.rule == contracts::Rule::kPublished ? "published rule" : "joint reservation",
      "held " + engine::duration_text(options.hold)};
  if (options.max_delay) parts.push_back("at most " + engine::duration_text(*options.max_delay));
  parts.push_back(fmt::format("Retry-After in {}",
                              options.retry_after == contracts::RetryAfterUnit::kMilliseconds
                                  ? "milliseconds"
                                  : "seconds"));
  if (contract.sync) {
    parts.push_back(fmt::format("follows {} every {}", contract.sync->service.url,
                                engine::duration_text(contract.sync->refresh)));
  }
  return fmt::format("contract {} of user {}: {}\n", contract.name, contract.user_id,
                     joined(parts, "; "));
}

std::string compute_lines(const ComputeSettings& compute) {
  std::string text;
  if (compute.ledger) {
    const system::compute::Parameters& parameters = compute.ledger->parameters;
    text +=
        fmt::format("compute ledger: at least {} tokens, mana {}, epochs of {} blocks of {} s\n",
                    system::compute::tokens_text(parameters.min_lock), parameters.mana,
                    parameters.clock.length, parameters.block_time_s);
  }
  if (compute.worker) {
    const ComputeWorkerSettings& worker = *compute.worker;
    text += fmt::format("compute worker: {}, {} at once, {} may wait, allocations from {}\n",
                        worker.name, worker.admission.running, worker.admission.queue,
                        !worker.ledger.empty() ? worker.ledger
                        : !worker.file.empty() ? worker.file
                                               : "its own ledger");
  }
  return text;
}

std::string sampling_lines(const SamplingSettings& sampling) {
  const system::sampling::RulesSpec& spec = sampling.spec;
  std::string text =
      fmt::format("sampling: tasks of one key in any {}\n",
                  engine::duration_text(std::chrono::seconds{spec.formula.window_s}));
  for (const system::sampling::Environment& environment : sampling.rules->environments()) {
    text += fmt::format(
        "  {}: {}{}\n", environment.name,
        environment.allowed ? fmt::format("{}", *environment.allowed) : "unlimited",
        environment.parent ? fmt::format(", {} over all revisions", *environment.parent) : "");
  }
  return text;
}

std::string pool_lines(const PoolSettings& pools) {
  namespace pool = system::pool;
  const pool::PoolsSettings& settings = pools.settings;
  constexpr std::string_view kRules[] = {"strict", "published", "refund"};
  std::string text = fmt::format(
      "pools: {}, {} rule; held {}, at most {}\n",
      pools.redis
          ? fmt::format("shared over {} as {}", describe(pools.redis->address), pools.redis->prefix)
          : "in this process alone",
      kRules[static_cast<std::size_t>(settings.rule)], engine::duration_text(pools.hold.hold),
      engine::duration_text(pools.hold.hold_max));
  for (const pool::ModelSpec& model : settings.models) {
    std::vector<std::string> limits;
    for (const pool::Dimension rate : pool::kRates) {
      if (const auto& limit = model.limits.rates.of(rate)) {
        limits.push_back(fmt::format("{} {}", to_string(rate), *limit));
      }
    }
    if (model.limits.concurrent) {
      limits.push_back(
          fmt::format("{} {}", to_string(pool::Dimension::kConcurrency), *model.limits.concurrent));
    }
    text += fmt::format("  model {}: {}\n", model.name,
                        limits.empty() ? "unlimited" : joined(limits, ", "));
  }
  // Valid, as the file was read.
  const std::vector<double> ratios = pool::initial_ratios(settings.types).value();
  for (std::size_t i = 0; i < settings.types.size(); ++i) {
    const pool::JobType& type = settings.types[i];
    const pool::Amounts estimate = pool::estimate_of(settings, i);
    text += fmt::format("  job type {}: {:.4g} of each pool{}, about {} tokens and {} requests\n",
                        type.name, ratios[i], type.is_flexible ? "" : " (fixed)", estimate.tokens,
                        estimate.requests);
  }
  text += fmt::format("  escalation: {}\n", settings.escalation.empty()
                                                ? settings.models.front().name
                                                : joined(settings.escalation, ", "));
  return text;
}

std::string listeners(const std::vector<Address>& addresses) {
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const Address& address : addresses) {
    std::string text = address.text();
    if (address.mode != kUnixMode) text += fmt::format(" (mode {:04o}", address.mode);
    if (!address.group.empty()) text += fmt::format(", group {}", address.group);
    if (address.mode != kUnixMode) text += ")";
    texts.push_back(std::move(text));
  }
  return texts.empty() ? "none" : joined(texts, ", ");
}

std::string roles(const std::vector<AuthToken>& tokens) {
  constexpr std::string_view kRoles[] = {"observe", "decide", "admin"};
  std::vector<std::string> texts;
  for (const AuthToken& token : tokens) {
    std::string text(kRoles[static_cast<std::size_t>(token.role)]);
    if (token.consensus) text += " and consensus";
    if (token.reach.is_bound()) text += ", bound";
    if (!token.name.empty()) text += fmt::format(" ({})", token.name);
    texts.push_back(std::move(text));
  }
  return texts.empty() ? "none" : joined(texts, ", ");
}

constexpr std::string_view kBeyondKeys[] = {"refused", "makes room by eviction"};

template <typename Choice, std::size_t kCount>
std::string_view word_of(const std::string_view (&words)[kCount], Choice choice) {
  return words[static_cast<std::size_t>(choice)];
}

std::string names_line(const engine::RuleSetSpec& spec) {
  std::string text;
  if (!spec.units.empty()) {
    std::vector<std::string> units;
    for (const engine::UnitSpec& unit : spec.units) {
      units.push_back(fmt::format("{} ({})", unit.name, word_of(kScales, unit.scale)));
    }
    text += fmt::format("units: {}\n", joined(units, ", "));
  }
  if (!spec.attributes.empty()) {
    text += fmt::format("attributes: {}\n", joined(spec.attributes, ", "));
  }
  return text;
}

std::string bounds_line(const Bounds& bounds) {
  return fmt::format(
      "bounds: {} connections, {} bytes a request, {} of headers, {} of replies, {} of all "
      "replies, {} in a batch, {} waiting, {} streams; idle {}, slow {}; {} keys, {} of them for "
      "CL.THROTTLE, one more is {}; {} holds, {} log runs, {} overrides; held at most {}, waiting "
      "{}, booked {} ahead\n",
      bounds.connections, bounds.request_bytes, bounds.header_bytes, bounds.reply_bytes,
      bounds.reply_bytes_all, bounds.batch, bounds.waiting, bounds.streams,
      engine::duration_text(bounds.idle), engine::duration_text(bounds.slow), bounds.keys,
      bounds.cl_throttle_keys == 0 ? "a fair share" : fmt::format("{}", bounds.cl_throttle_keys),
      word_of(kBeyondKeys, bounds.when_full), bounds.holds, bounds.log_runs, bounds.overrides,
      engine::duration_text(bounds.hold), engine::duration_text(bounds.wait),
      engine::duration_text(bounds.book));
}

}  // namespace

std::string describe(const Config& config) {
  std::string text;
  for (const LimitSpec& limit : config.limits_spec.limits) {
    text += limit_line(limit, scale_of(config.limits_spec, limit.unit));
  }
  if (config.limits_spec.limits.empty()) text += "limits: none\n";
  if (config.limits_spec.unmatched != engine::Unmatched::kAllow) {
    text += fmt::format("unmatched: {}\n", word_of(kUnmatched, config.limits_spec.unmatched));
  }
  if (config.throttles) text += throttles_line(*config.throttles);
  for (const ContractSettings& contract : config.contracts) text += contract_line(contract);
  if (config.compute) text += compute_lines(*config.compute);
  if (config.sampling) text += sampling_lines(*config.sampling);
  if (config.redis) {
    const unsigned connections = config.redis->connections;
    text += fmt::format(
        "redis: {}, keys of {}, timeout {}, {}\n", store::redis::describe(config.redis->address),
        config.redis->name, engine::duration_text(config.redis->timeout),
        connections == 0
            ? "a connection for each thread"
            : fmt::format("{} connection{}", connections, connections == 1 ? "" : "s"));
  }
  if (config.pools) text += pool_lines(*config.pools);
  text += fmt::format("listen resp: {}\n", listeners(config.resp));
  text += fmt::format("listen http: {}\n", listeners(config.http));
  if (!config.visitors.origins.empty()) {
    text += fmt::format("http origins: {}\n", joined(config.visitors.origins, ", "));
  }
  if (!config.visitors.hosts.empty()) {
    text += fmt::format("http hosts: {}\n", joined(config.visitors.hosts, ", "));
  }
  text += config.state ? fmt::format("state: {}, flushed every {}\n", config.state->dir,
                                     engine::duration_text(config.state->flush))
                       : "state: memory only\n";
  text += fmt::format("auth: {}\n", roles(config.auth));
  text += names_line(config.limits_spec);
  text += fmt::format("headers: {}; rounding: {}; threads: {}\n",
                      word_of(kHeaderStyles, config.headers), word_of(kRoundings, config.rounding),
                      config.threads == 0 ? "one per core" : fmt::format("{}", config.threads));
  text += fmt::format("record: {}\n", config.record.empty() ? "none" : config.record);
  text += bounds_line(config.bounds);
  return text;
}

}  // namespace weir::config
