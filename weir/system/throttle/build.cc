// Buckets are built with the published arithmetic: rates are cut to 32 bits where the network cuts
// them, and what it leaves out is left out, with the finding it names.

#include "weir/system/throttle/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "weir/base/assert.h"
#include "weir/base/integer.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/validate.h"

namespace weir::system::throttle {
namespace {

// A negative rate is what a whole number of operations wraps to; it is built as 0.
std::int64_t rate_of(const Group& group) noexcept {
  return std::max<std::int64_t>(0, group.rate());
}

// Cut to 32 bits, as published.
std::int32_t logical_of(std::int64_t common, const Group& group) noexcept {
  return static_cast<std::int32_t>(common / rate_of(group));
}

// The shortest burst that holds one of the dearest operation, rounded up.
std::int64_t least_burst_ms(const BucketDefinition& definition, std::int64_t common,
                            std::int64_t share) noexcept {
  std::int64_t dearest = std::numeric_limits<std::int64_t>::min();
  for (const Group& group : definition.groups) {
    dearest = std::max(dearest, units_of(logical_of(common, group)));
  }
  return static_cast<std::int64_t>(ceil_div(dearest, Wide{share} * 1'000'000));
}

// Two decimals, half up on the shortest text that reads back as the number.
std::string two_decimals(double value) {
  if (!std::isfinite(value)) return "Infinity";  // a need cut to 32 bits may have become 0
  std::array<char, 400> buffer;
  const auto [end, problem] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  WEIR_ASSERT(problem == std::errc{});
  std::string text(buffer.data(), end);
  std::size_t point = text.find('.');
  if (point == std::string::npos) {
    point = text.size();
    text += '.';
  }
  while (text.size() < point + 4) text += '0';
  bool up = text[point + 3] >= '5';
  text.resize(point + 3);
  for (std::size_t i = text.size(); up && i-- > 0;) {
    if (text[i] == '.') continue;
    up = text[i] == '9';
    text[i] = up ? '0' : static_cast<char>(text[i] + 1);
  }
  return up ? "1" + text : text;
}

std::string lines_of(const std::vector<BuiltBucket>& buckets, bool high_volume) {
  std::map<std::string, std::string> by_name;
  for (const BuiltBucket& built : buckets) {
    if (!built.is_live() || built.high_volume != high_volume) continue;
    for (const Need& need : built.needs) {
      const double rate = static_cast<double>(built.bucket->milli_ops()) / 1000.0 / need.logical;
      std::string& line = by_name[upper_snake(need.operation)];
      line +=
          fmt::format("{}{} tps ({})", line.empty() ? "" : ", ", two_decimals(rate), built.name);
    }
  }
  std::string lines;
  for (const auto& [name, rates] : by_name) {
    lines += fmt::format("  {}{}: min{{{}}}\n", name, high_volume ? " (high-volume)" : "", rates);
  }
  return lines;
}

}  // namespace

BuiltBucket build(const BucketDefinition& definition, std::int32_t nodes) {
  WEIR_ASSERT(nodes >= 1);
  BuiltBucket built;
  built.name = definition.name;
  built.high_volume = definition.high_volume;
  const auto refused = [&](Finding finding) {
    built.finding = finding;
    built.bucket.reset();
    built.needs.clear();
    return built;
  };
  if (definition.groups.empty()) return refused(Finding::kNoGroups);
  for (const Group& group : definition.groups) {
    if (rate_of(group) == 0) return refused(Finding::kZeroRate);
  }
  const std::optional<std::int64_t> common = common_multiple(definition, /*drop_negative=*/true);
  if (!common) return refused(Finding::kCapacityOverflow);

  const std::int64_t share = std::max<std::int64_t>(1, *common / nodes);
  built.burst_ms = std::max(std::max<std::int64_t>(0, definition.burst_ms()),
                            least_burst_ms(definition, *common, share));
  const std::optional<OperationBucket> bucket = OperationBucket::make(share, built.burst_ms);
  if (!bucket) return refused(Finding::kCapacityTooSmall);
  built.bucket = bucket;

  std::unordered_map<std::string_view, const Group*> groups;
  for (const Group& group : definition.groups) {
    const std::int32_t logical = logical_of(*common, group);
    const std::int64_t units = units_of(logical);
    if (units < 0 || units > bucket->capacity()) return refused(Finding::kCapacityTooSmall);
    for (const ListedOperation& operation : group.operations) {
      const auto [found, is_new] = groups.emplace(operation.name, &group);
      if (is_new) {
        built.needs.push_back({operation.name, logical});
      } else if (found->second != &group) {
        return refused(Finding::kRepeatedOperation);
      }
    }
  }
  return built;
}

std::vector<BuiltBucket> build(const Definitions& definitions, std::int32_t nodes) {
  std::vector<BuiltBucket> buckets;
  buckets.reserve(definitions.buckets.size());
  for (const BucketDefinition& definition : definitions.buckets) {
    buckets.push_back(build(definition, nodes));
  }
  return buckets;
}

std::string resolved_text(std::string_view type, std::int32_t nodes,
                          const std::vector<BuiltBucket>& buckets) {
  std::string text =
      fmt::format("Resolved {}_THROTTLE (after splitting capacity {} ways) - \n", type, nodes);
  text += lines_of(buckets, false);
  if (const std::string high_volume = lines_of(buckets, true); !high_volume.empty()) {
    text += "\nHigh-Volume Throttles:\n" + high_volume;
  }
  while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace weir::system::throttle
