// One decision through the engine.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "bench/keys.h"
#include "weir/base/clock.h"
#include "weir/engine/engine.h"

namespace weir::bench {
namespace {

using namespace std::chrono_literals;
using engine::Attribute;
using engine::BucketSpec;
using engine::Engine;
using engine::Prepared;
using engine::Request;

constexpr std::int64_t kNever = std::int64_t{1} << 40;  // a burst that is not reached
constexpr Instant kStart{1'800'000'000'000'000'000};

SystemClock& clock() {
  static SystemClock clock;
  return clock;
}

std::unique_ptr<Engine> engine_of(engine::RuleSetSpec spec,
                                  std::size_t keys_max = engine::EngineOptions{}.keys_max) {
  auto made = Engine::create(*engine::compile(spec), {.keys_max = keys_max});
  return std::move(*made);
}

// One limit per client that is never reached.
engine::RuleSetSpec admitting() {
  return {.limits = {{.name = "per-client",
                      .per = {"client"},
                      .meter = BucketSpec{.amount = 1'000'000, .period = 1s, .burst = kNever}}}};
}

// One limit per client that is always reached.
engine::RuleSetSpec denying() {
  return {.limits = {{.name = "per-client",
                      .per = {"client"},
                      .meter = BucketSpec{.amount = 1, .period = 1h, .burst = 1}}}};
}

// A benchmark of errors would be a benchmark of nothing.
void require(benchmark::State& state, const Result<Decision>& last) {
  if (!last) state.SkipWithError(last.error().message.c_str());
}

constexpr Attribute kAcme[] = {{"client", "acme"}};

void hot_key(benchmark::State& state) {
  const auto engine = engine_of(admitting());
  Prepared prepared = *engine->prepare({kAcme});
  for (auto _ : state) benchmark::DoNotOptimize(engine->decide(prepared, clock().now()));
}
BENCHMARK(hot_key);

void hot_key_unprepared(benchmark::State& state) {
  const auto engine = engine_of(admitting());
  for (auto _ : state)
    benchmark::DoNotOptimize(engine->decide({.attributes = kAcme}, clock().now()));
}
BENCHMARK(hot_key_unprepared);

void hot_key_time_given(benchmark::State& state) {
  const auto engine = engine_of(admitting());
  Prepared prepared = *engine->prepare({kAcme});
  Instant now = kStart;
  for (auto _ : state) {
    now.ns += 100;
    benchmark::DoNotOptimize(engine->decide(prepared, now));
  }
}
BENCHMARK(hot_key_time_given);

void hot_key_denied_time_given(benchmark::State& state) {
  const auto engine = engine_of(denying());
  Prepared prepared = *engine->prepare({kAcme});
  for (auto _ : state) benchmark::DoNotOptimize(engine->decide(prepared, kStart));
}
BENCHMARK(hot_key_denied_time_given);

// Shared by the threads of one run.
void hot_key_shared(benchmark::State& state) {
  static const auto engine = engine_of(admitting());
  Prepared prepared = *engine->prepare({kAcme});
  for (auto _ : state) benchmark::DoNotOptimize(engine->decide(prepared, clock().now()));
}
BENCHMARK(hot_key_shared)->Threads(2)->UseRealTime();

void hot_key_denied(benchmark::State& state) {
  static const auto engine = engine_of(denying());
  Prepared prepared = *engine->prepare({kAcme});
  for (auto _ : state) benchmark::DoNotOptimize(engine->decide(prepared, clock().now()));
}
BENCHMARK(hot_key_denied)->Threads(1)->Threads(2)->UseRealTime();

// Each thread has a hundred keys of its own. With many thousands, the threads meet in
// the same shards by chance, and the shard's line goes back and forth.
void different_keys(benchmark::State& state) {
  static const auto engine = engine_of(admitting());
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.push_back("thread" + std::to_string(state.thread_index()) + ":" + std::to_string(i));
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const Attribute who[] = {{"client", names[next]}};
    benchmark::DoNotOptimize(engine->decide({.attributes = who}, clock().now()));
    next = next + 1 == names.size() ? 0 : next + 1;
  }
}
BENCHMARK(different_keys)->Threads(1)->Threads(2)->UseRealTime();

Engine& filled(std::uint64_t population) {
  static std::vector<std::pair<std::uint64_t, std::unique_ptr<Engine>>> engines;
  for (auto& [size, engine] : engines) {
    if (size == population) return *engine;
  }
  auto engine = engine_of(admitting(), population * 5 / 4 + 1'000);
  for (std::uint64_t i = 0; i < population; ++i) {
    const Key key(i);
    const Attribute who[] = {{"client", key.view()}};
    // Far enough ahead that no key is back in its initial state and dropped.
    const engine::Cost cost[] = {{"requests", 1'000'000'000}};
    benchmark::DoNotOptimize(engine->decide({.attributes = who, .costs = cost}, clock().now()));
  }
  return *engines.emplace_back(population, std::move(engine)).second;
}

void string_keys(benchmark::State& state) {
  const auto population = static_cast<std::uint64_t>(state.range(0));
  Engine& engine = filled(population);
  const std::vector<Key>& stream = key_stream(population);
  std::size_t next = 0;
  for (auto _ : state) {
    const Attribute who[] = {{"client", stream[next].view()}};
    const Result<Decision> decision = engine.decide({.attributes = who}, clock().now());
    benchmark::DoNotOptimize(decision);
    if (!decision) [[unlikely]]
      require(state, decision);
    next = (next + 1) & (kStreamKeys - 1);
  }
}
BENCHMARK(string_keys)->Arg(1'000)->Arg(1'000'000)->Arg(10'000'000);

// The time of one decision in a batch of 16: one clock read for all.
void string_keys_batched(benchmark::State& state) {
  constexpr std::size_t kBatch = 16;
  const auto population = static_cast<std::uint64_t>(state.range(0));
  Engine& engine = filled(population);
  const std::vector<Key>& stream = key_stream(population);
  std::vector<Attribute> attributes(kBatch);
  std::vector<Request> requests(kBatch);
  std::vector<Result<Decision>> answers;
  for (std::size_t i = 0; i < kBatch; ++i) answers.emplace_back(std::in_place);
  std::size_t next = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      attributes[i] = {"client", stream[next + i].view()};
      requests[i] = {std::span(&attributes[i], 1), {}};
    }
    engine.decide(requests, clock().now(), answers);
    benchmark::DoNotOptimize(answers.data());
    next = (next + kBatch) & (kStreamKeys - 1);
  }
}
BENCHMARK(string_keys_batched)->Arg(1'000'000);

engine::RuleSetSpec five_kinds() {
  return {.limits = {
              {.name = "bucket",
               .per = {"client"},
               .meter = BucketSpec{.amount = 1'000'000, .period = 1s, .burst = kNever}},
              {.name = "ticker",
               .per = {"client"},
               .meter = engine::TickerSpec{.interval = 1ms, .burst = kNever}},
              {.name = "window",
               .per = {"client"},
               .meter = engine::WindowSpec{.limit = kNever, .every = 1h}},
              {.name = "log",
               .per = {"client"},
               // A client asks some thousand times a second here: a few dozen runs.
               .meter = engine::LogSpec{.limit = kNever, .window = 10ms}},
              {.name = "total",
               .meter = BucketSpec{.amount = 1'000'000, .period = 1s, .burst = kNever}},
          }};
}

void many_clients(benchmark::State& state, Engine& engine) {
  const std::vector<Key>& stream = key_stream(1'000);
  std::size_t next = 0;
  for (auto _ : state) {
    const Attribute who[] = {{"client", stream[next].view()}};
    const Result<Decision> decision = engine.decide({.attributes = who}, clock().now());
    benchmark::DoNotOptimize(decision);
    if (!decision) [[unlikely]]
      require(state, decision);
    next = (next + 1) & (kStreamKeys - 1);
  }
}

void five_limits(benchmark::State& state) {
  static const auto engine = engine_of(five_kinds());
  many_clients(state, *engine);
}
BENCHMARK(five_limits);

void one_limit(benchmark::State& state) {
  static const auto engine = engine_of(admitting());
  many_clients(state, *engine);
}
BENCHMARK(one_limit);

}  // namespace
}  // namespace weir::bench
