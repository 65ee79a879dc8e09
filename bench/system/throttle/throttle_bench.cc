// One decision of a throttle set, against taking from one of its buckets.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "weir/meter/bucket.h"
#include "weir/system/throttle/read.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::bench {
namespace {

namespace throttle = system::throttle;

constexpr Instant kStart{1'800'000'000'000'000'000};

// Four buckets that list the operation, none of them ever full.
throttle::ThrottleSet four_buckets() {
  std::string text = R"({"buckets": [)";
  for (const char* name : {"a", "b", "c", "d"}) {
    if (text.back() == '}') text += ',';
    text += std::string(R"({"name": ")") + name +
            R"(", "burstPeriodMs": 1000, "throttleGroups": [)"
            R"({"opsPerSec": 100000, "operations": ["claimed"]},)"
            R"({"opsPerSec": 50000, "operations": ["other"]}]})";
  }
  const auto definitions = throttle::read_definitions(text + "]}", "bench");
  if (!definitions) std::abort();
  return {*definitions, {.role = throttle::SetRole::kFrontEnd}};
}

void throttle_four_buckets(benchmark::State& state) {
  throttle::ThrottleSet set = four_buckets();
  throttle::Transaction transaction;
  transaction.operation = set.operations().find("claimed");
  Instant now = kStart;
  for (auto _ : state) {
    now.ns += 100'000;
    const auto said = set.decide(transaction, throttle::moment_of(now));
    if (!said.ok() || !said->allowed) [[unlikely]]
      state.SkipWithError("the claim was refused");
  }
}
BENCHMARK(throttle_four_buckets);

// The bucket every plain limit has, at the same rate.
void throttle_one_bucket(benchmark::State& state) {
  const auto shape = meter::make_bucket(100'000, std::chrono::seconds{1}, 100'000);
  if (!shape) std::abort();
  meter::BucketShape bucket = *shape;
  meter::BucketState used{};
  benchmark::DoNotOptimize(bucket);  // no limiter knows its parameters when it is compiled
  Instant now = kStart;
  for (auto _ : state) {
    now.ns += 100'000;
    const meter::BucketStep step = meter::take(bucket, used, now, 3);
    used = step.state;
    benchmark::DoNotOptimize(used);
  }
}
BENCHMARK(throttle_one_bucket);

}  // namespace
}  // namespace weir::bench
