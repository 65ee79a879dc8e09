// A local decision of layer 2, against taking from one plain window; and a whole job in one
// process, for comparison over time.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "weir/meter/window.h"
#include "weir/system/pool/local_coordinator.h"
#include "weir/system/pool/pools.h"
#include "weir/system/pool/type_meter.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;
namespace pool = system::pool;

constexpr Instant kStart{1'800'000'000'000'000'000};
constexpr Duration kStep = 1ms;  // so that windows turn

void window_take(benchmark::State& state) {
  meter::WindowShape shape = *meter::make_window(1'000'000, 60s);
  benchmark::DoNotOptimize(shape);
  meter::WindowState window;
  Instant now = kStart;
  for (auto _ : state) {
    now = now + kStep;
    const meter::WindowStep step = meter::take(shape, window, now, 1);
    window = step.state;
    benchmark::DoNotOptimize(step);
  }
}
BENCHMARK(window_take);

// Asked, taken and given back, with all five dimensions limited.
void pool_layer2(benchmark::State& state) {
  pool::TypeMeter meter;
  const pool::ModelLimits limits{.rates = {.tokens_per_minute = 1'000'000'000,
                                           .requests_per_minute = 1'000'000,
                                           .tokens_per_day = 1'000'000'000'000,
                                           .requests_per_day = 1'000'000'000},
                                 .concurrent = 1'000};
  meter.set_slots(pool::make_pool(limits, {}, {1'000, 1}, 1), 0.5, {1'000, 1}, 1);
  benchmark::DoNotOptimize(meter);
  Instant now = kStart;
  for (auto _ : state) {
    now = now + kStep;
    const pool::TypeCheck check = meter.check(now);
    if (!check.allowed) [[unlikely]]
      state.SkipWithError("it must be admitted");
    benchmark::DoNotOptimize(meter.take(now));
    meter.give_back(now);
  }
}
BENCHMARK(pool_layer2);

void pool_job(benchmark::State& state) {
  pool::PoolsSettings settings;
  settings.models = {{.name = "m", .limits = {.concurrent = 1'000}}};
  settings.types = {{.name = "a", .tokens = 1'000, .requests = 1}};
  auto pools = pool::Pools::create(
      settings, std::make_unique<pool::LocalCoordinator>(std::make_shared<pool::LocalFleet>()));
  if (!pools) std::abort();
  (*pools)->start(kStart, [](Instant, const Status&) {});
  Instant now = kStart;
  for (auto _ : state) {
    now = now + kStep;
    const auto job = (*pools)->submit({"a"}, now, [](Instant, const pool::JobOutcome&) {});
    if (!job || !(*pools)->finish(*job, {.requests = 1, .input_tokens = 900}, now)) [[unlikely]]
      state.SkipWithError("it must run");
  }
}
BENCHMARK(pool_job);

}  // namespace
}  // namespace weir::bench
