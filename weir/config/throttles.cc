// `throttles:`, and the limit of that name that it makes.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "weir/config/draft.h"
#include "weir/engine/quantity.h"
#include "weir/system/throttle/gate.h"
#include "weir/system/throttle/validate.h"

namespace weir::config {
namespace {

using system::throttle::NetworkSettings;
using system::throttle::ThrottlesSpec;

constexpr std::int64_t kAmountMax = std::int64_t{1} << 62;

struct ThrottlesDraft {
  ThrottleSettings throttles{};
  Place file_place{};
  std::string_view front_end_gas{};  // the key that set it; empty: none did
  std::string_view consensus_gas{};
  bool says_by_gas = false;

  ThrottlesSpec& spec() noexcept { return throttles.spec; }
};

void read_definitions_file(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  draft.file_place = entry.value.place;
  read_text(entry, context, draft.throttles.file);
}

void read_nodes(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  std::int64_t nodes = 1;
  read_count(entry, context, 1, std::numeric_limits<std::int32_t>::max(), nodes);
  draft.spec().nodes = static_cast<std::int32_t>(nodes);
}

// A gas limit has two names, of which a file uses one.
template <auto Limit, auto SetBy>
void gas_at(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  if (!(draft.*SetBy).empty()) {
    context.mistake(entry.place, fmt::format("'{}' and '{}' are two names of one limit; write one",
                                             draft.*SetBy, entry.key));
    return;
  }
  draft.*SetBy = entry.key;
  read_count(entry, context, 0, kAmountMax, draft.spec().settings.*Limit);
}
constexpr auto kReadFrontEndGas =
    gas_at<&NetworkSettings::front_end_gas_per_second, &ThrottlesDraft::front_end_gas>;
constexpr auto kReadConsensusGas =
    gas_at<&NetworkSettings::consensus_gas_per_second, &ThrottlesDraft::consensus_gas>;

void read_by_gas(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  draft.says_by_gas = true;
  read_flag(entry, context, draft.spec().settings.throttle_by_gas);
}

void read_exempt_payers(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  read_count(entry, context, 0, kAmountMax, draft.spec().settings.exempt_payer_max);
}

void read_excess_bytes(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  read_count(entry, context, 0, kAmountMax, draft.spec().settings.jumbo_bytes_per_second);
}

void read_by_duration(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  read_flag(entry, context, draft.spec().settings.throttle_by_duration);
}

template <auto Member>
void duration_at(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  read_count(entry, context, 0, kAmountMax, draft.spec().settings.*Member);
}

void read_local_calls(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  constexpr std::string_view kWays[] = {"buckets", "gas"};
  const std::ptrdiff_t place = read_choice(entry, context, kWays);
  if (place >= 0) draft.spec().settings.local_calls_by_buckets = place == 0;
}

void read_ahead(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  std::optional<Duration>& ahead = draft.spec().ahead;
  if (entry.value.text == "off") {
    ahead.reset();
  } else {
    read_span(entry, context, ahead.emplace());
  }
}

// --- congestion

void read_tiers(const Entry& entry, Context& context, ThrottlesSpec& spec) {
  if (!check_text(entry.value, entry.key, context)) return;
  Result<std::vector<system::throttle::Tier>> tiers =
      system::throttle::parse_tiers(entry.value.text);
  if (tiers) {
    spec.tiers = std::move(*tiers);
  } else {
    context.mistake(entry.value.place, tiers.error().message);
  }
}

void read_period(const Entry& entry, Context& context, ThrottlesSpec& spec) {
  if (!check_text(entry.value, entry.key, context)) return;
  const Result<Duration> period = engine::parse_span(entry.key, entry.value.text);
  if (!period) {
    context.mistake(entry.value.place, period.error().message);
    return;
  }
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(*period);
  if (whole != *period) {
    context.mistake(entry.value.place,
                    fmt::format("{} is {}, but it must be whole seconds; write such as '60s'",
                                entry.key, in_quotes(entry.value.text)));
    return;
  }
  spec.congestion_period_s = whole.count();
}

constexpr Key<ThrottlesSpec> kCongestionKeys[] = {
    {"tiers", read_tiers, "\"90,10x,95,25x,99,100x\"",
     "Percentages of use and the multipliers that they set off, both rising. Shown: the default."},
    {"period", read_period, "60s",
     "How long a tier must have been on to count; whole seconds. Default `60s`."},
};

void read_congestion(const Entry& entry, Context& context, ThrottlesDraft& draft) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ period: 60s }", context)) return;
  Context inner{context.mistakes, "throttles: congestion"};
  read_map<ThrottlesSpec>(entry.value, kCongestionKeys, inner, draft.spec());
}

constexpr Key<ThrottlesDraft> kThrottleKeys[] = {
    {"file", read_definitions_file, "./throttles.json",
     "The definitions ([throttle.md](throttle.md)); relative to the working directory.", kRequired},
    {"nodes", read_nodes, "31",
     "Size of the network, by which the front end divides. Default `1`."},
    {"front_end_gas", kReadFrontEndGas, "15000000",
     "Gas per second at the front end, not divided. Default `15000000`."},
    {"consensus_gas", kReadConsensusGas, "15000000",
     "Gas per second at consensus. Default `15000000`."},
    {"contracts.frontendThrottleMaxGasLimit", kReadFrontEndGas, "15000000",
     "The network's name of `front_end_gas`."},
    {"contracts.consensusThrottleMaxGasLimit", kReadConsensusGas, "15000000",
     "The network's name of `consensus_gas`."},
    {"by_gas", read_by_gas, "true",
     "Whether contract calls are throttled by gas too. Default: whether a gas limit is written."},
    {"by_duration", read_by_duration, "true",
     "Whether contracts wait at consensus until the work of those before has leaked. Default "
     "`true`."},
    {"duration_capacity", duration_at<&NetworkSettings::duration_capacity>, "500000000",
     "Units of that work before they wait. Default `500000000`."},
    {"duration_per_second", duration_at<&NetworkSettings::duration_per_second>, "500000000",
     "Units that leak in a second. Default `500000000`."},
    {"local_calls", read_local_calls, "buckets",
     "What limits ContractCallLocal at the front end: the `buckets` that list it, and gas; or "
     "`gas` "
     "alone, as the network's code has it. Default `buckets`."},
    {"excess_bytes", read_excess_bytes, "133120",
     "Bytes per second that large transactions may have beyond 6,144 each. Default `133120`."},
    {"exempt_payers", read_exempt_payers, "100",
     "Accounts from 1 to this one are never throttled; 0: none are exempt. Default `100`."},
    {"ahead", read_ahead, "10s",
     "How far after the server's clock an instant of consensus may be; `off`: any is taken, for "
     "replays. Default `10s`."},
    {"congestion", read_congestion, "map", "When fees are multiplied."},
};

// So that requests may carry what the gate reads, and limits may count its units.
void declare_throttles(Place place, Context& context, engine::RuleSetSpec& spec) {
  for (const std::string_view name : system::throttle::kGateAttributes) {
    if (std::find(spec.attributes.begin(), spec.attributes.end(), name) == spec.attributes.end()) {
      spec.attributes.emplace_back(name);
    }
  }
  for (const std::string_view name : system::throttle::kGateUnits) {
    declare_unit(name, engine::UnitScale::kWhole, place, context, spec);
  }
}

// The definitions are in `draft` afterwards, or a mistake is reported.
bool read_definitions(const ReadFile& read_file, Context& context, ThrottlesDraft& draft) {
  ThrottleSettings& throttles = draft.throttles;
  if (!read_file) {
    context.mistake(draft.file_place,
                    fmt::format("file {} is not read here, because no files are; load the "
                                "configuration from a file",
                                in_quotes(throttles.file)));
    return false;
  }
  Result<std::string> text = read_file(throttles.file);
  if (!text) {
    context.mistake(draft.file_place, text.error().message);
    return false;
  }
  Result<system::throttle::Definitions> definitions =
      system::throttle::load_definitions(*text, throttles.file, throttles.spec.nodes);
  if (!definitions) {
    context.mistakes.add_elsewhere(draft.file_place, definitions.error().message);
    return false;
  }
  throttles.spec.definitions = std::move(*definitions);
  return true;
}

}  // namespace

void read_throttles(const Entry& entry, Context& context, Draft& draft) {
  draft.throttles_place.place = entry.place;
  Context inner{context.mistakes, "throttles"};
  declare_throttles(entry.place, inner, draft.config.limits_spec);
  ThrottleSettings& throttles = draft.config.throttles.emplace();
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ file: ./throttles.json, nodes: 31 }", context)) {
    return;
  }
  const std::size_t before = context.mistakes.count();
  const auto made =
      std::make_unique<ThrottlesDraft>();  // too large for g++ 12 to follow on the stack
  ThrottlesDraft& section = *made;
  read_map<ThrottlesDraft>(entry.value, kThrottleKeys, inner, section);
  if (context.mistakes.count() > before) return;
  if (!section.says_by_gas) {
    section.spec().settings.throttle_by_gas =
        !section.front_end_gas.empty() || !section.consensus_gas.empty();
  }
  if (!read_definitions(draft.read_file, inner, section)) return;
  throttles = std::move(section.throttles);
  const Status status = system::throttle::check(throttles.spec);
  if (!status) return inner.mistake(entry.place, status.error().message);
  draft.throttles_place.is_broken = false;
}

void list_throttle_keys(std::vector<KeyHelp>& out) {
  list_keys<ThrottlesDraft>("throttles", kThrottleKeys, out);
  list_keys<ThrottlesSpec>("throttles: congestion", kCongestionKeys, out);
}

}  // namespace weir::config
