// What a denial costs beside an admission, by each kind of meter and by five limits: one key,
// prepared request, time given.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weir/engine/engine.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;
using engine::Attribute;
using engine::BucketSpec;
using engine::CalendarSpec;
using engine::Engine;
using engine::LogSpec;
using engine::MeterSpec;
using engine::Prepared;
using engine::SlotsSpec;
using engine::TickerSpec;
using engine::WindowSpec;

constexpr Instant kStart{1'800'000'000'000'000'000};
constexpr Attribute kAcme[] = {{"client", "acme"}};

using Meters = std::vector<MeterSpec>;

std::unique_ptr<Engine> engine_of(const Meters& meters) {
  engine::RuleSetSpec spec;
  for (const MeterSpec& meter : meters) {
    engine::LimitSpec& limit = spec.limits.emplace_back();
    limit.name = "limit-" + std::to_string(spec.limits.size());
    limit.per = {"client"};
    limit.meter = meter;
  }
  return std::move(*Engine::create(*engine::compile(spec), {}));
}

Meters five(std::int64_t room) {
  return {BucketSpec{room, 24h}, TickerSpec{room, 24h, room}, WindowSpec{room, 24h},
          CalendarSpec{room}, LogSpec{room, 3us}};
}
// The last of them refuses.
Meters one_of_five(std::int64_t room) {
  Meters meters = five(room);
  meters.back() = LogSpec{1, 24h};
  return meters;
}
constexpr std::int64_t kRoom = std::int64_t{1} << 40;  // never reached

// Asks every 100 ns from `now` on, and expects the same answer every time.
template <typename Then>
void ask(benchmark::State& state, Engine& engine, Prepared& prepared, Instant now, bool allowed,
         const Then& then) {
  for (auto _ : state) {
    now.ns += 100;
    const Result<Decision> decision = engine.decide(prepared, now);
    if (!decision || decision->allowed() != allowed) [[unlikely]]
      return state.SkipWithError("a request was answered otherwise");
    then(*decision, now);
  }
}

constexpr auto kGoOn = [](const Decision& decision, Instant) {
  benchmark::DoNotOptimize(decision);
};

void admit(benchmark::State& state, const Meters& meters) {
  const auto engine = engine_of(meters);
  Prepared prepared = *engine->prepare({kAcme});
  ask(state, *engine, prepared, kStart, true, kGoOn);
}

// Once what there is has been used up.
void deny(benchmark::State& state, const Meters& meters) {
  const auto engine = engine_of(meters);
  Prepared prepared = *engine->prepare({kAcme});
  Instant now = kStart;
  while (engine->decide(prepared, now)->allowed()) now.ns += 100;
  ask(state, *engine, prepared, now, false, kGoOn);
}

// Holds are ended off the clock, many at a time.
void admit_slots(benchmark::State& state) {
  constexpr std::size_t kHolds = 10'000;
  const auto engine = engine_of({SlotsSpec{.limit = kHolds, .hold = 24h}});
  Prepared prepared = *engine->prepare({kAcme});
  std::vector<HoldId> holds;
  holds.reserve(kHolds);
  ask(state, *engine, prepared, kStart, true, [&](const Decision& decision, Instant now) {
    holds.push_back(decision.hold);
    if (holds.size() < kHolds) return;
    state.PauseTiming();
    for (const HoldId hold : holds) engine->cancel(hold, now);
    holds.clear();
    state.ResumeTiming();
  });
}

BENCHMARK_CAPTURE(admit, ticker, {TickerSpec{.interval = 1ms, .burst = kRoom}});
BENCHMARK_CAPTURE(deny, ticker, {TickerSpec{.interval = 24h, .burst = 1}});
BENCHMARK_CAPTURE(admit, window, {WindowSpec{kRoom, 1h}});
BENCHMARK_CAPTURE(deny, window, {WindowSpec{1, 24h * 365}});
BENCHMARK_CAPTURE(admit, calendar, {CalendarSpec{kRoom, meter::CalendarUnit::kYear}});
BENCHMARK_CAPTURE(deny, calendar, {CalendarSpec{1, meter::CalendarUnit::kYear}});
// A few dozen runs each.
BENCHMARK_CAPTURE(admit, log, {LogSpec{kRoom, 3us}});
BENCHMARK_CAPTURE(deny, log, {LogSpec{30, 24h}});
BENCHMARK(admit_slots);
BENCHMARK_CAPTURE(deny, slots, {SlotsSpec{.limit = 1, .hold = 24h}});
BENCHMARK_CAPTURE(admit, five, five(kRoom));
BENCHMARK_CAPTURE(deny, five, five(1));
BENCHMARK_CAPTURE(deny, one_of_five, one_of_five(kRoom));

}  // namespace
}  // namespace weir::bench
