// Each check is a function of one bucket; a pass runs one over all buckets. Their order decides
// which finding is the answer, so it is the network's.

#include "weir/system/throttle/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "weir/base/in_quotes.h"
#include "weir/system/throttle/build.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/read.h"

namespace weir::system::throttle {
namespace {

// Remainders keep the sign of the dividend, as in the published code. Requires b != 0.
std::int64_t common_divisor(std::int64_t a, std::int64_t b) noexcept {
  while (a != 0) {
    const std::int64_t rest = a == -1 ? 0 : b % a;
    b = a;
    a = rest;
  }
  return b;
}

Validation refusal(const Definitions& definitions, const BucketDefinition& bucket, Place at,
                   Finding finding, std::string_view what) {
  return {finding, fmt::format("{}:{}:{}: {}: bucket {}: {}", definitions.file, at.line, at.column,
                               to_string(finding), in_quotes(bucket.name), what)};
}

using Pass = Validation (*)(const Definitions&, const BucketDefinition&);

Validation has_groups(const Definitions& definitions, const BucketDefinition& bucket) {
  if (!bucket.groups.empty()) return {};
  return refusal(definitions, bucket, bucket.at, Finding::kNoGroups,
                 "it has no groups; write \"throttleGroups\": [{...}]");
}

Validation has_rates(const Definitions& definitions, const BucketDefinition& bucket) {
  for (const Group& group : bucket.groups) {
    if (group.rate() != 0) continue;
    return refusal(definitions, bucket, group.at, Finding::kZeroRate,
                   "a group has a rate of 0; write opsPerSec or milliOpsPerSec");
  }
  return {};
}

Validation lists_operations_once(const Definitions& definitions, const BucketDefinition& bucket) {
  std::unordered_map<std::string_view, const Group*> groups;
  for (const Group& group : bucket.groups) {
    for (const ListedOperation& operation : group.operations) {
      const auto [found, is_new] = groups.emplace(operation.name, &group);
      if (is_new || found->second == &group) continue;
      return refusal(definitions, bucket, operation.at, Finding::kRepeatedOperation,
                     fmt::format("operation {} is in two groups; leave it in one of them",
                                 in_quotes(operation.name)));
    }
  }
  return {};
}

Validation has_common_rate(const Definitions& definitions, const BucketDefinition& bucket) {
  const std::optional<std::int64_t> common = common_multiple(bucket);
  std::int64_t ignored = 0;
  if (common && !__builtin_mul_overflow(*common, std::int64_t{1'000'000'000}, &ignored) &&
      !would_overflow(*common * 1'000'000, bucket.burst_ms())) {
    return {};
  }
  return refusal(definitions, bucket, bucket.at, Finding::kRatesOverflow,
                 "the least common multiple of its rates, times its burst, is too large; write "
                 "rates with common factors, or a shorter burst");
}

Validation lists_something(const Definitions& definitions, const BucketDefinition& bucket) {
  for (const Group& group : bucket.groups) {
    if (!group.operations.empty()) continue;
    return refusal(definitions, bucket, group.at, Finding::kNoOperations,
                   "a group lists no operations; write \"operations\": [\"...\"], or delete it");
  }
  return {};
}

Validation repeats_nothing(const Definitions& definitions, const BucketDefinition& bucket) {
  for (const Group& group : bucket.groups) {
    std::unordered_set<std::string_view> names;
    for (const ListedOperation& operation : group.operations) {
      if (names.insert(operation.name).second) continue;
      return refusal(definitions, bucket, operation.at, Finding::kRepeatedOperation,
                     fmt::format("operation {} is there twice in one group; delete one",
                                 in_quotes(operation.name)));
    }
  }
  return {};
}

Validation in_passes(const Definitions& definitions, std::initializer_list<Pass> passes) {
  for (const Pass pass : passes) {
    for (const BucketDefinition& bucket : definitions.buckets) {
      Validation found = pass(definitions, bucket);
      if (!found.accepted()) return found;
    }
  }
  return {};
}

std::unordered_set<std::string_view> names_in(const Definitions& definitions) {
  std::unordered_set<std::string_view> names;
  for (const BucketDefinition& bucket : definitions.buckets) {
    for (const Group& group : bucket.groups) {
      for (const ListedOperation& operation : group.operations) names.insert(operation.name);
    }
  }
  return names;
}

}  // namespace

std::optional<std::int64_t> common_multiple(const BucketDefinition& bucket,
                                            bool drop_negative) noexcept {
  const auto rate = [&](const Group& group) {
    return drop_negative ? std::max<std::int64_t>(0, group.rate()) : group.rate();
  };
  std::int64_t common = rate(bucket.groups.front());
  for (std::size_t i = 1; i < bucket.groups.size(); ++i) {
    const std::int64_t next = rate(bucket.groups[i]);
    if (would_overflow(common, next)) return std::nullopt;
    const std::int64_t divisor = common_divisor(std::min(common, next), std::max(common, next));
    const std::int64_t product = wrapping_product(common, next);
    // A negative rate makes the product wrap; its quotient by -1 is taken in the same way.
    common = divisor == -1 ? wrapping_product(product, -1) : product / divisor;
  }
  return common;
}

Validation validate(const Definitions& definitions) {
  Validation found =
      in_passes(definitions, {has_groups, has_rates, lists_operations_once, has_common_rate});
  if (!found.accepted()) return found;
  const std::unordered_set<std::string_view> names = names_in(definitions);
  for (const std::string_view expected : expected_operations()) {
    if (!names.contains(expected)) return {Finding::kMissingExpectedOperation, {}};
  }
  return found;
}

Validation validate_strictly(const Definitions& definitions, std::int32_t nodes) {
  Validation published = validate(definitions);
  if (!published.accepted()) return published;
  Validation strict = in_passes(definitions, {lists_something, repeats_nothing});
  if (!strict.accepted()) return strict;
  if (const std::size_t names = names_in(definitions).size(); names > kOperationNamesMax) {
    return {Finding::kTooManyOperations,
            fmt::format("{}:1:1: {}: there are {} different operations, but at most {} are kept; "
                        "write fewer",
                        definitions.file, to_string(Finding::kTooManyOperations), names,
                        kOperationNamesMax)};
  }
  for (const BucketDefinition& bucket : definitions.buckets) {
    const BuiltBucket built = build(bucket, nodes);
    if (is_success(built.finding)) continue;
    return refusal(
        definitions, bucket, bucket.at, built.finding,
        fmt::format("it cannot be built for a network of {} nodes; write a longer burst, "
                    "higher rates, or rates with common factors",
                    nodes));
  }
  return published;
}

Result<Definitions> load_definitions(std::string_view text, std::string_view file,
                                     std::int32_t nodes) {
  Result<Definitions> read = read_definitions(text, file);
  if (!read) return read;
  Validation validation = validate_strictly(*read, nodes);
  if (!validation.accepted()) return bad_argument(std::move(validation.message));
  return read;
}

}  // namespace weir::system::throttle
