// What the worker process and the tests that run it agree on.

#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "weir/store/redis/pool/coordinator.h"

namespace weir::store::redis {

constexpr std::int64_t kWorkerTokensLimit = 2'000;  // in each window
constexpr std::uint64_t kWorkerTokensMax = 20;      // of one job
constexpr int kWorkerThreads = 8;

inline PoolCoordinatorOptions worker_options(const Address& address) {
  PoolCoordinatorOptions options;
  options.address = address;
  options.prefix = "workers";
  options.timeout = std::chrono::milliseconds{100};
  options.silence = std::chrono::milliseconds{500};
  options.heartbeat = std::chrono::milliseconds{200};
  options.instance_timeout = std::chrono::milliseconds{1500};
  options.retry_most = std::chrono::milliseconds{100};
  options.minute = std::chrono::seconds{1};
  options.day = std::chrono::hours{24};
  return options;
}

inline system::pool::Registration worker_registration() {
  return {.limits = {{"gpt", {.rates = {.tokens_per_minute = kWorkerTokensLimit}}}},
          .average = {10, 1},
          .version = 1};
}

}  // namespace weir::store::redis
