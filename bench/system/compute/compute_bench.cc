// Admission of one query against a plain decision over two limits, and the allocations of
// many clusters against a plain loop that divides.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bench/engine/memory_bench.h"
#include "bench/keys.h"
#include "weir/engine/engine.h"
#include "weir/system/compute/ledger.h"
#include "weir/system/compute/worker.h"

namespace weir::bench {
namespace {

namespace compute = system::compute;
using namespace std::chrono_literals;

constexpr Instant kStart{1'800'000'000'000'000'000};
constexpr std::size_t kClusters = 1'000;
constexpr std::size_t kManyClusters = 100'000;
constexpr std::size_t kWorkers = 3'000;

std::string name_of(const char* kind, std::size_t number) {
  return kind + std::to_string(1'000'000 + number);
}

// Every cluster with one portal, and more tokens than anybody takes.
compute::AllocationSet allocations_of(std::size_t clusters) {
  compute::AllocationSet set{.epoch = 1, .epoch_time = 1s, .clusters = {}};
  for (std::size_t i = 0; i < clusters; ++i) {
    set.clusters.push_back({name_of("wallet-", i), {name_of("portal-", i)}, 1'000'000'000});
  }
  return set;
}

// Asked and ended: the slot, the turn and the refund included.
void compute_admission(benchmark::State& state) {
  compute::Worker worker({});
  worker.apply(allocations_of(kClusters), kStart);
  std::vector<std::string> portals;
  for (std::size_t i = 0; i < kClusters; ++i) portals.push_back(name_of("portal-", i));
  Instant now = kStart + 1s;
  std::size_t at = 0;
  for (auto _ : state) {
    now.ns += 100;
    at = (at + 617) % kClusters;
    const compute::Admission said = worker.admit(portals[at], 300'000, now);
    if (said.outcome != compute::QueryOutcome::kAccepted) [[unlikely]]
      state.SkipWithError("the query was refused");
    benchmark::DoNotOptimize(worker.finish(said.query, {}, now));
  }
}
BENCHMARK(compute_admission);

void two_limits(benchmark::State& state) {
  const auto rules = engine::compile(
      {.limits = {{.name = "rate",
                   .per = {"client"},
                   .meter = engine::BucketSpec{1'000'000, 1s, std::int64_t{1} << 40}},
                  {.name = "daily",
                   .per = {"client"},
                   .meter = engine::WindowSpec{std::int64_t{1} << 60, 24h}}}});
  const auto engine = engine::Engine::create(*rules, {});
  std::vector<std::string> clients;
  for (std::size_t i = 0; i < kClusters; ++i) clients.push_back(name_of("client-", i));
  Instant now = kStart;
  std::size_t at = 0;
  for (auto _ : state) {
    now.ns += 100;
    at = (at + 617) % kClusters;
    const engine::Attribute who[] = {{"client", clients[at]}};
    const auto decision = (*engine)->decide({.attributes = who}, now);
    if (!decision || !decision->allowed()) [[unlikely]]
      state.SkipWithError("the request was refused");
  }
}
BENCHMARK(two_limits);

void must(const compute::Applied& applied) {
  if (!applied.ok()) std::abort();
}

void add_clusters(compute::Ledger& ledger, std::size_t clusters) {
  for (std::size_t i = 0; i < clusters; ++i) {
    const std::string wallet = name_of("wallet-", i);
    must(ledger.apply(
        0, {.op = compute::Op::kRegister, .wallet = wallet, .portals = {name_of("portal-", i)}}));
    must(ledger.apply(0, {.op = compute::Op::kLock,
                          .wallet = wallet,
                          .amount = (1'000 + i % 977) * compute::kToken,
                          .value = 18'000 + static_cast<std::int64_t>(i % 8) * 400'000}));
  }
}

void add_workers(compute::Ledger& ledger, std::size_t workers) {
  for (std::size_t i = 0; i < workers; ++i) {
    must(ledger.apply(0, {.op = compute::Op::kJoin, .name = name_of("worker-", i)}));
  }
}

compute::Ledger empty_ledger() {
  compute::Parameters parameters;
  parameters.min_lock = 1;
  return std::move(*compute::Ledger::create(parameters));
}

const compute::Ledger& big_ledger() {
  static const compute::Ledger ledger = [] {
    compute::Ledger made = empty_ledger();
    add_workers(made, kWorkers);
    add_clusters(made, kManyClusters);
    return made;
  }();
  return ledger;
}

void compute_allocations(benchmark::State& state) {
  const compute::Ledger& ledger = big_ledger();
  for (auto _ : state) {
    const compute::Allocations found = ledger.allocations(1'500, 100);
    if (found.rows.empty()) [[unlikely]]
      state.SkipWithError("nothing was allocated");
    benchmark::DoNotOptimize(found.rows.data());
  }
}
BENCHMARK(compute_allocations)->Unit(benchmark::kNanosecond);

void plain_divisions(benchmark::State& state) {
  std::vector<compute::Amount> totals;
  for (std::size_t i = 0; i < kManyClusters; ++i) {
    totals.push_back((compute::Amount{1} << 80) + i * 1'000'003);
  }
  compute::Amount divisor = (compute::Amount{1} << 65) + 12'345;
  benchmark::DoNotOptimize(divisor);
  std::vector<std::int64_t> shares(totals.size());
  for (auto _ : state) {
    for (std::size_t i = 0; i < totals.size(); ++i) {
      shares[i] = static_cast<std::int64_t>(totals[i] / divisor);
    }
    benchmark::DoNotOptimize(shares.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(plain_divisions)->Unit(benchmark::kNanosecond);

constexpr std::size_t kCounted = 400'000;

}  // namespace

double bytes_per_ledger_cluster() {
  const std::size_t before = resident_bytes();
  compute::Ledger ledger = empty_ledger();
  add_clusters(ledger, kCounted);
  return static_cast<double>(resident_bytes() - before) / kCounted;
}

double bytes_per_ledger_worker() {
  const std::size_t before = resident_bytes();
  compute::Ledger ledger = empty_ledger();
  add_workers(ledger, kCounted);
  return static_cast<double>(resident_bytes() - before) / kCounted;
}

double bytes_per_cluster_at_worker() {
  const compute::AllocationSet set = allocations_of(kCounted);
  const std::size_t before = resident_bytes();
  compute::Worker worker({});
  worker.apply(set, kStart);
  return static_cast<double>(resident_bytes() - before) / kCounted;
}

}  // namespace weir::bench
