// What the throttle tests share: definitions, sets and instants.

#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>

#include "weir/base/time.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {

using namespace std::chrono_literals;

constexpr Instant kStart{1'800'000'000'000'000'000};

inline std::ostream& operator<<(std::ostream& out, Finding finding) {
  return out << to_string(finding);
}
inline std::ostream& operator<<(std::ostream& out, Anomaly anomaly) {
  return out << to_string(anomaly);
}

inline Moment after(Duration span) { return moment_of(kStart + span); }

inline Definitions definitions_of(std::string_view text, Reader reader = Reader::kStrict) {
  auto read = read_definitions(text, "throttles.json", reader);
  EXPECT_TRUE(read.ok()) << (read ? "" : read.error().message);
  return read ? std::move(*read) : Definitions{};
}

// Two buckets: `a` 10 a second and `b` 2 a second in the first, `b` and `c` in the second.
inline constexpr std::string_view kTwoBuckets = R"({"buckets": [
  {"name": "first", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10, "operations": ["a"]}, {"opsPerSec": 2, "operations": ["b"]}]},
  {"name": "second", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 1, "operations": ["b", "c"]}]}]})";

inline ThrottleSet consensus_of(std::string_view text, NetworkSettings settings = {}) {
  return ThrottleSet(definitions_of(text),
                     {.role = SetRole::kConsensus, .clamp_clock = false, .settings = settings});
}

inline Transaction named(const ThrottleSet& set, std::string_view operation) {
  Transaction transaction;
  transaction.operation = set.operations().find(operation);
  return transaction;
}

inline bool decide(ThrottleSet& set, std::string_view operation, Moment now) {
  const Answered<Admission> said = set.decide(named(set, operation), now);
  EXPECT_TRUE(said.ok()) << to_string(said.anomaly());
  return said.ok() && said->allowed;
}

// How many of `tries` pass at one instant.
inline int admitted(ThrottleSet& set, std::string_view operation, Moment now, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += decide(set, operation, now) ? 1 : 0;
  return count;
}

inline std::string example() {
  std::ifstream file(WEIR_EXAMPLES "/throttles.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace weir::system::throttle
