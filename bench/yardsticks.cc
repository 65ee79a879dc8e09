// What the machine and the simplest honest code can do, in the same run.

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>

#include "bench/keys.h"
#include "weir/base/integer.h"

namespace weir::bench {
namespace {

std::int64_t system_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::uint64_t cycles() { return __builtin_ia32_rdtsc(); }

void clock_gettime(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(system_ns());
}
BENCHMARK(clock_gettime);

// An exact bucket in 16 bytes for any rate: the instant when it is full again, in
// nanoseconds and a fraction, moved by a 128-bit product and its division. Nothing
// around it: no key, no lock, no decision, and no short cut.
struct PlainBucket {
  std::int64_t full_at_ns = 0;
  std::int64_t parts = 0;
};

struct PlainShape {
  std::int64_t num = 1;     // 1,000,000 a second, as the engine's benchmarks have it
  std::int64_t den = 1000;  // nanoseconds for `num` units
  std::int64_t fill_ns = std::int64_t{1} << 60;
  std::int64_t cost = 1;
};

// Not a constant: a limiter does not know its parameters when it is compiled.
PlainShape& plain_shape() {
  static PlainShape shape;
  benchmark::DoNotOptimize(shape);
  return shape;
}

bool take_plain(const PlainShape& shape, PlainBucket& bucket, std::int64_t now_ns) {
  const bool full = bucket.full_at_ns < now_ns;
  const Wide lasts = Wide{shape.cost} * shape.den + (full ? 0 : bucket.parts);
  const Wide full_at_ns = Wide{full ? now_ns : bucket.full_at_ns} + lasts / shape.num;
  if (full_at_ns - now_ns > shape.fill_ns) return false;
  bucket.full_at_ns = static_cast<std::int64_t>(full_at_ns);
  bucket.parts = static_cast<std::int64_t>(lasts % shape.num);
  return true;
}

void exact_bucket(benchmark::State& state) {
  static PlainBucket bucket;
  const PlainShape& shape = plain_shape();
  std::int64_t now_ns = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(take_plain(shape, bucket, now_ns += 100));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(exact_bucket);

// A 64-bit bucket changed by compare-and-swap, as lock-free limiters have it.
void cas_bucket_with_clock(benchmark::State& state) {
  static std::atomic<std::int64_t> full_at{0};
  constexpr std::int64_t kToleranceNs = std::int64_t{1} << 60;
  for (auto _ : state) {
    const std::int64_t now_ns = system_ns();
    std::int64_t seen = full_at.load(std::memory_order_relaxed);
    std::int64_t next;
    do {
      next = std::max(seen, now_ns) + 1;
      if (next - now_ns > kToleranceNs) break;
    } while (!full_at.compare_exchange_weak(seen, next, std::memory_order_acq_rel));
    benchmark::DoNotOptimize(next);
  }
}
BENCHMARK(cas_bucket_with_clock)->Threads(2)->UseRealTime();

// std::string keys in a flat map, found with a view, one cycle-counter read each.
struct ViewHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return boost::hash<std::string_view>{}(text);
  }
};
using KeyedMap = boost::unordered_flat_map<std::string, PlainBucket, ViewHash, std::equal_to<>>;

KeyedMap& map_of(std::uint64_t population) {
  static std::vector<std::pair<std::uint64_t, std::unique_ptr<KeyedMap>>> maps;
  for (auto& [size, map] : maps) {
    if (size == population) return *map;
  }
  auto map = std::make_unique<KeyedMap>();
  for (std::uint64_t i = 0; i < population; ++i) (*map)[std::string(Key(i).view())] = {};
  return *maps.emplace_back(population, std::move(map)).second;
}

void flat_map(benchmark::State& state) {
  const auto population = static_cast<std::uint64_t>(state.range(0));
  KeyedMap& map = map_of(population);
  const std::vector<Key>& stream = key_stream(population);
  const PlainShape& shape = plain_shape();
  std::size_t next = 0;
  for (auto _ : state) {
    PlainBucket& bucket = map.find(stream[next].view())->second;
    benchmark::DoNotOptimize(take_plain(shape, bucket, static_cast<std::int64_t>(cycles())));
    next = (next + 1) & (kStreamKeys - 1);
  }
}
BENCHMARK(flat_map)->Arg(1'000)->Arg(1'000'000);

// One dependent random access in 1 GiB of huge pages: each line names the next.
struct alignas(64) Line {
  std::uint64_t next;
};

Line* chase_lines(std::size_t count) {
  void* memory = ::mmap(nullptr, count * sizeof(Line) + (2u << 20), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::madvise(memory, count * sizeof(Line) + (2u << 20), MADV_HUGEPAGE);
  auto* lines =
      reinterpret_cast<Line*>((reinterpret_cast<std::uintptr_t>(memory) + (2u << 20) - 1) &
                              ~std::uintptr_t{(2u << 20) - 1});
  // One cycle through all lines, in random order.
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  for (std::size_t i = 0; i < count; ++i) lines[order[i]].next = order[(i + 1) % count];
  return lines;
}

void dependent_access(benchmark::State& state) {
  static Line* const lines = chase_lines((std::size_t{1} << 30) / sizeof(Line));
  std::uint64_t at = 0;
  for (auto _ : state) {
    at = lines[at].next;
    benchmark::DoNotOptimize(at);
  }
}
BENCHMARK(dependent_access);

}  // namespace
}  // namespace weir::bench
