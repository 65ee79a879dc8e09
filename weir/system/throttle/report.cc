// What one node admits is read off the buckets that a throttle set says it would take.

#include "weir/system/throttle/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "weir/base/integer.h"
#include "weir/engine/quantity.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

Transaction asked(const ThrottleSet& set, std::string_view name, bool high_volume) {
  Transaction transaction;
  transaction.operation = set.operations().find(name);
  transaction.high_volume = high_volume;
  transaction.scheduled = ScheduledTransaction{};
  // Only such a transfer may use buckets of the high-volume family.
  const bool is_transfer = transaction.operation == operation::kCryptoTransfer;
  transaction.creations = high_volume && is_transfer ? 1 : 0;
  return transaction;
}

// Requires that all of `taken` were built, so that no product of units overflows.
ReportedOperation alone(const ThrottleSet& set, std::string name, bool high_volume,
                        const std::vector<Requirement>& taken) {
  ReportedOperation result{std::move(name), high_volume, kMax, kMax, {}};
  for (const Requirement& requirement : taken) {
    const LiveBucket& live = set.buckets()[requirement.bucket];
    result.at_once =
        std::min(result.at_once, live.bucket.capacity() / units_of(requirement.logical));
    const std::int64_t rate =  // rounded down
        saturate(Wide{live.bucket.milli_ops()} * 1000 / requirement.logical);
    if (!result.bucket.empty() && rate >= result.micro_ops) continue;
    result.micro_ops = rate;
    result.bucket = live.name;
  }
  return result;
}

bool is_of_high_volume(const ThrottleSet& set, const std::vector<Requirement>& taken) {
  return !taken.empty() && set.buckets()[taken.front().bucket].high_volume;
}

}  // namespace

Report report(const Definitions& definitions, std::int32_t nodes, const NetworkSettings& settings) {
  Report result;
  result.nodes = nodes;
  std::set<std::string> listed;
  const std::vector<BuiltBucket> buckets = build(definitions, nodes);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const BuiltBucket& built = buckets[i];
    const BucketDefinition& written = definitions.buckets[i];
    ReportedBucket row{built.name, built.high_volume, built.finding, 0, written.burst_ms(), 0, 0};
    if (built.is_live()) {
      row.burst_ms = built.burst_ms;
      row.capacity = built.bucket->capacity();
      row.milli_ops = built.bucket->milli_ops();
    }
    result.buckets.push_back(std::move(row));
    for (const Group& group : written.groups) {
      for (const ListedOperation& operation : group.operations) listed.insert(operation.name);
    }
  }
  const ThrottleSet set(
      definitions,
      {.role = SetRole::kFrontEnd, .nodes = nodes, .knows_queries = true, .settings = settings});
  for (const std::string& name : listed) {
    const auto plain = set.taken_by(asked(set, name, false));
    const auto high_volume = set.taken_by(asked(set, name, true));
    const bool has_both = high_volume && is_of_high_volume(set, *high_volume);
    if (plain) result.operations.push_back(alone(set, name, false, *plain));
    if (has_both) result.operations.push_back(alone(set, name, true, *high_volume));
    if (plain) continue;
    (has_both ? result.only_high_volume : result.refused).push_back(name);
  }
  for (const std::string_view expected : expected_operations()) {
    if (listed.contains(std::string(expected))) continue;
    if (set.taken_by(asked(set, expected, false))) continue;
    result.unlisted.emplace_back(expected);
  }
  std::sort(result.unlisted.begin(), result.unlisted.end());
  return result;
}

std::string to_text(const Report& report) {
  std::string text = fmt::format("{} node{}\n\n{:<24} {:>14} {:>14} {:>22} {:>18}\n", report.nodes,
                                 report.nodes == 1 ? "" : "s", "bucket", "burst ms", "written",
                                 "capacity", "leaks milli-ops/s");
  for (const ReportedBucket& bucket : report.buckets) {
    const std::string name = bucket.name + (bucket.high_volume ? " (high-volume)" : "");
    if (!is_success(bucket.finding)) {
      text += fmt::format("{:<24} dropped: {}\n", name, to_string(bucket.finding));
      continue;
    }
    text += fmt::format("{:<24} {:>14} {:>14} {:>22} {:>18}\n", name, bucket.burst_ms,
                        bucket.written_burst_ms, bucket.capacity, bucket.milli_ops);
  }
  text += fmt::format("\n{:<32} {:>18} {:>14}  {}\n", "operation, alone, per node", "per second",
                      "at once", "bound by");
  for (const ReportedOperation& operation : report.operations) {
    const std::string name = operation.name + (operation.high_volume ? " (high-volume)" : "");
    if (operation.bucket.empty()) {
      text += fmt::format("{:<32} {:>18} {:>14}  no bucket\n", name, "any", "any");
      continue;
    }
    text += fmt::format("{:<32} {:>18} {:>14}  {}\n", name,
                        engine::amount_text(operation.micro_ops, engine::UnitScale::kMicro),
                        operation.at_once, operation.bucket);
  }
  text += fmt::format("\nalways refused, their buckets dropped or of the other family: {}\n",
                      joined(report.refused));
  text += fmt::format("refused unless they are high-volume: {}\n", joined(report.only_high_volume));
  text += fmt::format("always refused, of the network, not listed: {}\n", joined(report.unlisted));
  return text;
}

}  // namespace weir::system::throttle
