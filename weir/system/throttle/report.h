// What-if report: what definitions would mean for a network of N nodes.
//
// What an operation may do is asked of a throttle set such as a front end has, so that the report
// and a live front end agree.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/throttle/build.h"
#include "weir/system/throttle/definitions.h"
#include "weir/system/throttle/transaction.h"

namespace weir::system::throttle {

struct ReportedBucket {
  std::string name;
  bool high_volume = false;
  Finding finding = Finding::kSuccess;  // otherwise it would be dropped
  std::int64_t burst_ms = 0;            // in effect
  std::int64_t written_burst_ms = 0;
  std::int64_t capacity = 0;   // units: 10^12 for a logical operation
  std::int64_t milli_ops = 0;  // logical ones, leaked a second
};

// What one node admits of an operation that comes alone, as many as there is gas for.
struct ReportedOperation {
  std::string name;
  bool high_volume = false;    // asked for so; a CryptoTransfer then creates an account
  std::int64_t micro_ops = 0;  // millionths of an operation per second, rounded down; kMax: any
  std::int64_t at_once = 0;    // in a burst after a long rest; kMax: any
  std::string bucket{};        // that binds the rate; empty: none does
};

struct Report {
  std::int32_t nodes = 1;
  std::vector<ReportedBucket> buckets{};
  std::vector<ReportedOperation> operations{};  // by name
  // Listed, but only in buckets that would be dropped, or that are of the high-volume family, which
  // the operation may not use.
  std::vector<std::string> refused{};
  std::vector<std::string> only_high_volume{};  // refused unless asked for as high-volume
  std::vector<std::string> unlisted{};          // operations of the network that no bucket lists
};

// Requires nodes >= 1.
Report report(const Definitions& definitions, std::int32_t nodes,
              const NetworkSettings& settings = {});

// As a table for people.
std::string to_text(const Report& report);

// What differs between two reports of one network size, as a table for people.
std::string difference_text(const Report& before, const Report& after);

// --- several operations at once

constexpr std::size_t kMixMax = 64;  // different operations

struct MixPart {
  std::string operation;
  bool high_volume = false;
  std::int64_t micro = 0;      // millionths of an operation per second
  bool is_percentage = false;  // `micro` is millionths of a percent of what it may do alone
};

// `CryptoTransfer=50%,ContractCall=6.5`: percentages of what each may do alone, or operations per
// second of one node. `CryptoCreate/high=2` asks for the high-volume family.
Result<std::vector<MixPart>> parse_mix(std::string_view text);

struct MixedBucket {
  std::string name;
  bool high_volume = false;
  std::int64_t percent_micro = 0;  // of its leak that the mix takes, rounded up
};

struct MixReport {
  std::int32_t nodes = 1;
  std::vector<MixPart> parts{};        // as operations per second
  std::vector<MixedBucket> buckets{};  // that the mix fills
  std::vector<std::string> refused{};  // operations of the mix that are refused whatever the rate
  bool fits = true;                    // one node admits it for ever
  // Millionths of the mix that one node admits for ever, rounded down; kMax: any.
  std::int64_t scale_micro = 0;
};

// Requires nodes >= 1.
MixReport report_mix(const Definitions& definitions, std::int32_t nodes,
                     const std::vector<MixPart>& mix, const NetworkSettings& settings = {});
std::string to_text(const MixReport& report);

}  // namespace weir::system::throttle
