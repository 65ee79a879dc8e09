// The report builds the buckets as a throttle set would, and reads off them what one node admits.

#include "weir/system/throttle/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "weir/base/integer.h"
#include "weir/engine/quantity.h"
#include "weir/system/throttle/operations.h"

namespace weir::system::throttle {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

void add(const BuiltBucket& built,
         std::map<std::pair<std::string, bool>, ReportedOperation>& operations) {
  for (const Need& need : built.needs) {
    // A need cut to 32 bits may have become 0: then the bucket binds nothing.
    const bool binds = need.logical > 0;
    const std::int64_t rate =  // rounded down
        binds ? saturate(Wide{built.bucket->milli_ops()} * 1000 / need.logical) : kMax;
    const std::int64_t at_once = binds ? built.bucket->capacity() / units_of(need.logical) : kMax;
    const auto [found, is_new] = operations.try_emplace(
        std::pair(need.operation, built.high_volume),
        ReportedOperation{need.operation, built.high_volume, rate, at_once, built.name});
    ReportedOperation& operation = found->second;
    operation.at_once = std::min(operation.at_once, at_once);
    if (is_new || rate >= operation.micro_ops) continue;
    operation.micro_ops = rate;
    operation.bucket = built.name;
  }
}

}  // namespace

Report report(const Definitions& definitions, std::int32_t nodes) {
  Report result;
  result.nodes = nodes;
  std::map<std::pair<std::string, bool>, ReportedOperation> operations;
  std::set<std::string> listed, live;
  const std::vector<BuiltBucket> buckets = build(definitions, nodes);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const BuiltBucket& built = buckets[i];
    const BucketDefinition& written = definitions.buckets[i];
    ReportedBucket row{built.name, built.high_volume, built.finding, 0, written.burst_ms(), 0, 0};
    if (built.is_live()) {
      row.burst_ms = built.burst_ms;
      row.capacity = built.bucket->capacity();
      row.milli_ops = built.bucket->milli_ops();
      add(built, operations);
    }
    result.buckets.push_back(std::move(row));
    for (const Need& need : built.needs) live.insert(need.operation);
    for (const Group& group : written.groups) {
      for (const ListedOperation& operation : group.operations) listed.insert(operation.name);
    }
  }
  for (auto& [name, operation] : operations) result.operations.push_back(std::move(operation));
  std::set_difference(listed.begin(), listed.end(), live.begin(), live.end(),
                      std::back_inserter(result.refused));
  for (const std::string_view expected : expected_operations()) {
    if (!listed.contains(std::string(expected))) result.unlisted.emplace_back(expected);
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
    text += fmt::format("{:<32} {:>18} {:>14}  {}\n", name,
                        engine::amount_text(operation.micro_ops, engine::UnitScale::kMicro),
                        operation.at_once, operation.bucket);
  }
  text += fmt::format("\nalways refused, their buckets dropped: {}\n", joined(report.refused));
  text += fmt::format("always refused, of the network, not listed: {}\n", joined(report.unlisted));
  return text;
}

}  // namespace weir::system::throttle
