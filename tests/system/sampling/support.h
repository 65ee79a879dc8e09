// What the sampling tests share: environments, counters and instants.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/sampling/sampling.h"

namespace weir::system::sampling {

using namespace std::chrono_literals;

constexpr Instant kStart{1'800'000'000'000'000'000};

inline std::ostream& operator<<(std::ostream& out, Reason reason) {
  return out << to_string(reason);
}

inline EnvironmentSpec rotating(std::string name, std::int64_t count, std::int64_t interval_s,
                                std::int64_t sampling_count) {
  return {.name = std::move(name),
          .rotation_count_micro = count * kMicro,
          .rotation_interval_micro = interval_s * kMicro,
          .sampling_count_micro = sampling_count * kMicro};
}

// Six an hour.
inline EnvironmentSpec six_an_hour(std::string name = "E") {
  return rotating(std::move(name), 5, 3600, 200);
}

inline RulesSpec spec_of(std::vector<EnvironmentSpec> environments) {
  return {.environments = std::move(environments), .exempt = published_exemptions()};
}

inline Rules rules_of(RulesSpec spec) {
  Result<Rules> rules = make_rules(std::move(spec));
  EXPECT_TRUE(rules.ok()) << (rules ? "" : rules.error().message);
  return std::move(*rules);
}

inline std::shared_ptr<Sampling> sampling_of(RulesSpec spec, Options options = {}) {
  options.secret = {1, 2, 3, 4};
  return Sampling::create(rules_of(std::move(spec)), options);
}

inline Who miner(std::string_view environment = "E", std::string_view revision = "r1") {
  return {.hotkey = "5F3s", .revision = revision, .environment = environment, .id = 7};
}

inline Grant granted(Sampling& sampling, const Who& who, std::int64_t want, Instant now) {
  Result<Grant> grant = sampling.grant(who, want, now);
  EXPECT_TRUE(grant.ok()) << (grant ? "" : grant.error().message);
  return grant ? *grant : Grant{};
}

// Keeps what it is given, at once.
class MemoryJournal : public Journal {
 public:
  Status ready() const override {
    if (trouble.empty()) return Done{};
    return Error{ErrorCode::kUnavailable, trouble};
  }
  Ticket append(const Record& record) override {
    records.push_back(record);
    return records.size();
  }
  void when_written(Ticket, std::function<void(const Status&)> told) override { told(Done{}); }

  std::vector<Record> records;
  std::string trouble;
};

}  // namespace weir::system::sampling
