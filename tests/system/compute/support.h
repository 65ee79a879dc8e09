// What the tests of compute share.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "weir/system/compute/ledger.h"
#include "weir/system/compute/worker.h"

namespace weir::system::compute {

using namespace std::chrono_literals;

constexpr Instant kStart{1'700'000'000'000'000'000};

// Lengths as in the source document, a day of 12 s blocks being 7200.
constexpr std::int64_t kDayBlocks = 7'200;

inline Ledger ledger_of(const Parameters& parameters = {}) {
  Result<Ledger> ledger = Ledger::create(parameters);
  EXPECT_TRUE(ledger.ok());
  return std::move(*ledger);
}

inline Operation lock_of(const std::string& wallet, std::int64_t tokens, std::int64_t duration,
                         bool is_auto = false) {
  return {.op = Op::kLock,
          .wallet = wallet,
          .amount = static_cast<Amount>(tokens) * kToken,
          .value = duration,
          .is_auto = is_auto};
}
inline Operation add_of(const std::string& wallet, std::int64_t tokens) {
  return {.op = Op::kAdd, .wallet = wallet, .amount = static_cast<Amount>(tokens) * kToken};
}
inline Operation of_wallet(Op op, const std::string& wallet) {
  return {.op = op, .wallet = wallet};
}
inline Operation register_of(const std::string& wallet, std::vector<std::string> portals) {
  return {.op = Op::kRegister, .wallet = wallet, .portals = std::move(portals)};
}
inline Operation join_of(const std::string& worker) { return {.op = Op::kJoin, .name = worker}; }

// Clusters c0, c1, ... with one portal each, p0, p1, ...
inline AllocationSet allocations_of(std::vector<std::int64_t> units, Duration epoch_time = 60s) {
  AllocationSet set{.epoch = 1, .epoch_time = epoch_time};
  for (std::size_t i = 0; i < units.size(); ++i) {
    set.clusters.push_back({"c" + std::to_string(i), {"p" + std::to_string(i)}, units[i]});
  }
  return set;
}

}  // namespace weir::system::compute
