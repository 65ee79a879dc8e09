// What one node admits is read off the buckets that a throttle set says it would take.

#include "weir/system/throttle/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "weir/base/in_quotes.h"
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

ThrottleSet front_end_of(const Definitions& definitions, std::int32_t nodes,
                         const NetworkSettings& settings) {
  return ThrottleSet(
      definitions,
      {.role = SetRole::kFrontEnd, .nodes = nodes, .knows_queries = true, .settings = settings});
}

std::string shown(std::string_view name, bool high_volume) {
  return std::string(name) + (high_volume ? " (high-volume)" : "");
}

std::string rate_text(std::int64_t micro_ops) {
  if (micro_ops == kMax) return "any";
  return engine::amount_text(micro_ops, engine::UnitScale::kMicro);
}
std::string at_once_text(std::int64_t at_once) {
  return at_once == kMax ? "any" : fmt::format("{}", at_once);
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

// --- two reports

namespace {

using Operations2 = std::map<std::pair<std::string, bool>, const ReportedOperation*>;

Operations2 by_name(const Report& report) {
  Operations2 all;
  for (const ReportedOperation& operation : report.operations) {
    all.emplace(std::pair(operation.name, operation.high_volume), &operation);
  }
  return all;
}

// Of several buckets with one name each is compared with that of the same place among them.
std::map<std::pair<std::string, int>, const ReportedBucket*> buckets_by_name(const Report& report) {
  std::map<std::pair<std::string, int>, const ReportedBucket*> all;
  for (const ReportedBucket& bucket : report.buckets) {
    const std::string name = shown(bucket.name, bucket.high_volume);
    int place = 0;
    while (!all.emplace(std::pair(name, place), &bucket).second) place += 1;
  }
  return all;
}

std::string bucket_text(const ReportedBucket* bucket) {
  if (bucket == nullptr) return "none";
  if (!is_success(bucket->finding)) {
    return fmt::format("dropped: {}", to_string(bucket->finding));
  }
  return fmt::format("{} ms, {} units, leaks {}", bucket->burst_ms, bucket->capacity,
                     bucket->milli_ops);
}

}  // namespace

std::string difference_text(const Report& before, const Report& after) {
  std::string text = fmt::format("{} node{}\n\n{:<24} {:<44} then\n", after.nodes,
                                 after.nodes == 1 ? "" : "s", "bucket", "now");
  const auto old_buckets = buckets_by_name(before);
  const auto new_buckets = buckets_by_name(after);
  std::set<std::pair<std::string, int>> bucket_names;
  for (const auto& [name, bucket] : old_buckets) bucket_names.insert(name);
  for (const auto& [name, bucket] : new_buckets) bucket_names.insert(name);
  const auto find = [](const auto& all, const auto& name) {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second;
  };
  int same = 0;
  for (const auto& name : bucket_names) {
    const std::string now = bucket_text(find(old_buckets, name));
    const std::string then = bucket_text(find(new_buckets, name));
    if (now == then) {
      same += 1;
    } else {
      text += fmt::format("{:<24} {:<44} {}\n", name.first, now, then);
    }
  }
  text += fmt::format("the same: {} of {}\n\n{:<32} {:>14} {:>14} {:>12} {:>12}  bound by\n", same,
                      bucket_names.size(), "operation, alone, per node", "per second", "then",
                      "at once", "then");
  const Operations2 old_operations = by_name(before);
  const Operations2 new_operations = by_name(after);
  std::set<std::pair<std::string, bool>> names;
  for (const auto& [name, operation] : old_operations) names.insert(name);
  for (const auto& [name, operation] : new_operations) names.insert(name);
  same = 0;
  for (const auto& name : names) {
    const ReportedOperation* const now = find(old_operations, name);
    const ReportedOperation* const then = find(new_operations, name);
    if (now != nullptr && then != nullptr && now->micro_ops == then->micro_ops &&
        now->at_once == then->at_once) {
      same += 1;
      continue;
    }
    const auto rate = [](const ReportedOperation* of) {
      return of == nullptr ? "refused" : rate_text(of->micro_ops);
    };
    const auto at_once = [](const ReportedOperation* of) {
      return of == nullptr ? "0" : at_once_text(of->at_once);
    };
    text += fmt::format("{:<32} {:>14} {:>14} {:>12} {:>12}  {}\n", shown(name.first, name.second),
                        rate(now), rate(then), at_once(now), at_once(then),
                        then == nullptr        ? "-"
                        : then->bucket.empty() ? "no bucket"
                                               : then->bucket);
  }
  text += fmt::format("the same: {} of {}\n", same, names.size());
  return text;
}

// --- mixes

Result<std::vector<MixPart>> parse_mix(std::string_view text) {
  std::vector<MixPart> parts;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    is_last = comma == std::string_view::npos;
    text = is_last ? std::string_view() : text.substr(comma + 1);
    const std::size_t sign = item.find('=');
    if (sign == std::string_view::npos || sign == 0) {
      return bad_argument(fmt::format(
          "mix: {} is not an operation and its rate; write such as 'CryptoTransfer=5000' or "
          "'CryptoTransfer=50%'",
          in_quotes(item)));
    }
    MixPart part{.operation = std::string(item.substr(0, sign))};
    std::string_view amount = item.substr(sign + 1);
    constexpr std::string_view kHigh = "/high";
    if (part.operation.ends_with(kHigh)) {
      part.high_volume = true;
      part.operation.resize(part.operation.size() - kHigh.size());
    }
    part.is_percentage = amount.ends_with('%');
    if (part.is_percentage) amount.remove_suffix(1);
    const Result<std::int64_t> micro =
        engine::parse_amount("mix", amount, engine::UnitScale::kMicro);
    if (!micro) return micro.error();
    part.micro = *micro;
    for (const MixPart& other : parts) {
      if (other.operation != part.operation || other.high_volume != part.high_volume) continue;
      return bad_argument(
          fmt::format("mix: {} is there twice; write it once", in_quotes(part.operation)));
    }
    if (parts.size() == kMixMax) {
      return bad_argument(fmt::format("mix: it has more than {} operations; write fewer", kMixMax));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

MixReport report_mix(const Definitions& definitions, std::int32_t nodes,
                     const std::vector<MixPart>& mix, const NetworkSettings& settings) {
  MixReport result{.nodes = nodes, .scale_micro = kMax};
  const ThrottleSet set = front_end_of(definitions, nodes, settings);
  // Millionths of a logical operation per second. At most kMixMax products of 63 and 31 bits, so
  // each sum has 101.
  std::vector<Wide> filled(set.buckets().size(), 0);
  for (MixPart part : mix) {
    const auto taken = set.taken_by(asked(set, part.operation, part.high_volume));
    if (!taken) {
      result.fits = false;
      result.scale_micro = 0;
      result.refused.push_back(shown(part.operation, part.high_volume));
      continue;
    }
    if (part.is_percentage) {
      const ReportedOperation may = alone(set, part.operation, part.high_volume, *taken);
      // Rounded down, so that percentages that make up a hundred fit. What no bucket binds has no
      // rate of which it could be a part.
      const Wide share = Wide{may.micro_ops} * part.micro / (Wide{100} * kMicro);
      part.micro = may.bucket.empty() ? 0 : saturate(share);
      part.is_percentage = false;
    }
    for (const Requirement& requirement : *taken) {
      Wide& total = filled[requirement.bucket];
      total += Wide{part.micro} * requirement.logical;
    }
    result.parts.push_back(std::move(part));
  }
  for (std::size_t i = 0; i < filled.size(); ++i) {
    if (filled[i] == 0) continue;
    const LiveBucket& live = set.buckets()[i];
    // A leak is below 2^63 thousandths, so its products fit in 128 bits. A sum has up to 101, and
    // 27 more for its percentage would be too many: it is cut first, where it is huge all the same.
    const Wide leak = Wide{live.bucket.milli_ops()} * 1000;
    const Wide most = Wide{1} << 99;
    const Wide sum = std::min(filled[i], most);
    result.fits = result.fits && sum <= leak;
    result.buckets.push_back(
        {live.name, live.high_volume, saturate(ceil_div(sum * 100'000'000, leak))});
    result.scale_micro = std::min(result.scale_micro, saturate(leak * kMicro / sum));
  }
  return result;
}

std::string to_text(const MixReport& report) {
  std::string text = fmt::format("{} node{}\n\n{:<32} {:>18}\n", report.nodes,
                                 report.nodes == 1 ? "" : "s", "operation, per node", "per second");
  for (const MixPart& part : report.parts) {
    text += fmt::format("{:<32} {:>18}\n", shown(part.operation, part.high_volume),
                        rate_text(part.micro));
  }
  text += fmt::format("\n{:<32} {:>18}\n", "bucket", "percent of leak");
  for (const MixedBucket& bucket : report.buckets) {
    text += fmt::format("{:<32} {:>18}\n", shown(bucket.name, bucket.high_volume),
                        rate_text(bucket.percent_micro));
  }
  if (!report.refused.empty()) {
    text += fmt::format("\nalways refused: {}\n", joined(report.refused));
  }
  text += fmt::format("\nfits: {}; {} times this mix is the most\n", report.fits ? "yes" : "no",
                      rate_text(report.scale_micro));
  return text;
}

}  // namespace weir::system::throttle
