// A grant of sampling, against taking from a plain log limit of the engine with the same
// key and the same allowance.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "bench/keys.h"
#include "weir/engine/engine.h"
#include "weir/system/sampling/sampling.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;
namespace sampling = system::sampling;

constexpr Instant kStart{1'800'000'000'000'000'000};
constexpr std::int64_t kAllowance = 6;

// So that a key is asked for three times an hour: it is seldom refused, and keys come and go.
Duration step_of(const benchmark::State& state) {
  return Duration{Duration{1h}.count() / (3 * state.range(0))};
}

void log_take(benchmark::State& state) {
  const auto engine = engine::Engine::create(*engine::compile(
      {.limits = {{.name = "hourly",
                   .per = {"hotkey", "revision", "environment"},
                   .meter = engine::LogSpec{.limit = kAllowance, .window = 1h}}}}));
  const std::vector<Key>& keys = key_stream(static_cast<std::uint64_t>(state.range(0)));
  const Duration step = step_of(state);
  Instant now = kStart;
  std::size_t i = 0;
  for (auto _ : state) {
    now = now + step;
    const engine::Attribute who[] = {
        {"hotkey", keys[i++ % keys.size()].view()}, {"revision", "r1"}, {"environment", "LGC-v2"}};
    const auto decision = (*engine)->decide({.attributes = who}, now);
    if (!decision) [[unlikely]]
      state.SkipWithError(decision.error().message.c_str());
  }
}
BENCHMARK(log_take)->Arg(1'000)->Arg(1'000'000);

void sampling_grant(benchmark::State& state) {
  auto rules = sampling::make_rules({.environments = {{.name = "LGC-v2",
                                                       .rotation_count_micro = 5 * kMicro,
                                                       .rotation_interval_micro = 3600 * kMicro,
                                                       .sampling_count_micro = 200 * kMicro}},
                                     .exempt = sampling::published_exemptions()});
  if (!rules) std::abort();
  const auto counters = sampling::Sampling::create(std::move(*rules), {.secret = {1, 2, 3, 4}});
  const std::vector<Key>& keys = key_stream(static_cast<std::uint64_t>(state.range(0)));
  const Duration step = step_of(state);
  Instant now = kStart;
  std::size_t i = 0;
  for (auto _ : state) {
    now = now + step;
    const auto grant = counters->grant({keys[i++ % keys.size()].view(), "r1", "LGC-v2", 7}, 1, now,
                                       sampling::Keep::kFinal);
    if (!grant) [[unlikely]]
      state.SkipWithError(grant.error().message.c_str());
  }
}
BENCHMARK(sampling_grant)->Arg(1'000)->Arg(1'000'000);

// With a reservation, and its commit.
void sampling_grant_and_commit(benchmark::State& state) {
  auto rules = sampling::make_rules({.environments = {{.name = "LGC-v2",
                                                       .rotation_count_micro = 5 * kMicro,
                                                       .rotation_interval_micro = 3600 * kMicro,
                                                       .sampling_count_micro = 200 * kMicro}}});
  if (!rules) std::abort();
  const auto counters = sampling::Sampling::create(std::move(*rules), {.secret = {1, 2, 3, 4}});
  const std::vector<Key>& keys = key_stream(static_cast<std::uint64_t>(state.range(0)));
  const Duration step = step_of(state);
  Instant now = kStart;
  std::size_t i = 0;
  for (auto _ : state) {
    now = now + step;
    const auto grant = counters->grant({keys[i++ % keys.size()].view(), "r1", "LGC-v2", 7}, 1, now);
    if (!grant) [[unlikely]]
      state.SkipWithError(grant.error().message.c_str());
    if (!grant->reservation) continue;
    benchmark::DoNotOptimize(counters->commit(grant->reservation, std::nullopt, now).ok());
  }
}
BENCHMARK(sampling_grant_and_commit)->Arg(1'000)->Arg(1'000'000);

}  // namespace
}  // namespace weir::bench
