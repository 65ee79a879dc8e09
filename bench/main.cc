// weir-bench: the engine against yardsticks measured in the same run.
//
//   weir-bench [--rounds N] [--report FILE] [--only TEXT] [Google Benchmark flags]
//                           `--only`: the lines that have TEXT in them, and no memory
//   weir-bench --peers      prints `NAME NS` for bench/peers/run

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/engine/memory_bench.h"
#include "bench/report.h"

namespace {

using weir::bench::Better;
using weir::bench::Comparison;

const std::vector<Comparison> kComparisons = {
    {"hot key, reading the time included", "hot_key", "clock_gettime", 1.3, 0.6},
    {"the same, request not prepared", "hot_key_unprepared", "clock_gettime", 1.3, 0.6},
    {"hot key, time given, prepared request", "hot_key_time_given", "exact_bucket", 4.0, 1.8},
    {"hot key, two threads, admitted", "hot_key_shared/real_time/threads:2",
     "cas_bucket_with_clock/real_time/threads:2", 2.5, 1.1},
    {"hot key, two threads, denied / one thread", "hot_key_denied/real_time/threads:2",
     "hot_key_denied/real_time/threads:1", 2.5, 1.1},
    {"denied / admitted, one thread", "hot_key_denied_time_given", "hot_key_time_given", 1.0, 1.0},
    {"denied / admitted, a ticker", "deny/ticker", "admit/ticker", 1.0, 1.0},
    {"denied / admitted, a window", "deny/window", "admit/window", 1.0, 1.0},
    {"denied / admitted, a calendar window", "deny/calendar", "admit/calendar", 1.0, 1.0},
    {"denied / admitted, a log", "deny/log", "admit/log", 1.0, 1.0},
    {"denied / admitted, slots", "deny/slots", "admit_slots", 1.0, 1.0},
    {"denied / admitted, five limits", "deny/five", "admit/five", 1.0, 1.0},
    {"denied by one of five / admitted", "deny/one_of_five", "admit/five", 1.0, 1.0},
    {"different keys, two threads together", "different_keys/real_time/threads:2",
     "different_keys/real_time/threads:1", 1.8, 1.95, Better::kHigher},
    {"1,000 string keys / flat_map", "string_keys/1000", "flat_map/1000", 1.5, 1.1},
    {"1,000,000 string keys / flat_map", "string_keys/1000000", "flat_map/1000000", 1.3, 0.8},
    {"1,000,000 keys, batches of 16 / access", "string_keys_batched/1000000", "dependent_access",
     0.40, 0.25},
    {"10,000,000 string keys / access", "string_keys/10000000", "dependent_access", 1.6, 1.1},
    {"five limits of mixed kinds / one limit", "five_limits", "one_limit", 5, 3},
    {"1,000 keys, a grant / a plain log take", "sampling_grant/1000", "log_take/1000", 2, 1},
    {"1,000,000 keys, a grant / a plain log take", "sampling_grant/1000000", "log_take/1000000", 2,
     1},
    {"one four-bucket claim / one bucket take", "throttle_four_buckets", "throttle_one_bucket", 4,
     3},
    {"one start of a job type / one window take", "pool_layer2", "window_take", 5, 3},
    {"one query asked and ended / two limits", "compute_admission", "two_limits", 2, 1},
    {"100,000 allocations / 100,000 divisions", "compute_allocations", "plain_divisions", 30, 10},
};

// Takes `flag VALUE` out of the arguments.
std::string take_flag(int& argc, char** argv, const char* flag, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], flag) != 0) continue;
    const std::string value = argv[i + 1];
    for (int j = i; j + 2 < argc; ++j) argv[j] = argv[j + 2];
    argc -= 2;
    return value;
  }
  return otherwise;
}

constexpr std::pair<const char*, const char*> kForPeers[] = {
    {"weir_hot", "hot_key"},
    {"weir_hot_2", "hot_key_shared/real_time/threads:2"},
    {"weir_denied_2", "hot_key_denied/real_time/threads:2"},
    {"weir_keys_1k", "string_keys/1000"},
    {"weir_keys_1m", "string_keys/1000000"},
    {"weir_batch_1m", "string_keys_batched/1000000"},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--peers") == 0) {
    int none = 1;
    benchmark::Initialize(&none, argv);
    for (const auto& [name, benchmark] : kForPeers) {
      fmt::print("{} {:.2f}\n", name, weir::bench::time_of(benchmark));
    }
    return 0;
  }
  const int rounds = std::atoi(take_flag(argc, argv, "--rounds", "5").c_str());
  const std::string path = take_flag(argc, argv, "--report", "build/bench/report.json");
  const std::string only = take_flag(argc, argv, "--only", "");
  benchmark::Initialize(&argc, argv);
  if (rounds < 1 || benchmark::ReportUnrecognizedArguments(argc, argv)) {
    fmt::print(stderr,
               "usage: weir-bench [--rounds N] [--report FILE] [--only TEXT] [--benchmark_...]\n");
    return 2;
  }
  std::vector<Comparison> comparisons = kComparisons;
  std::erase_if(comparisons, [&](const Comparison& line) {
    return std::string_view(line.what).find(only) == std::string_view::npos;
  });
  if (comparisons.empty()) {
    fmt::print(stderr, "weir-bench: no line has '{}' in it; `--only keys` finds several\n", only);
    return 2;
  }
  // First, while the process is small and has freed nothing that could be used again.
  std::vector<weir::bench::Footprint> footprints;
  if (only.empty()) {
    footprints = {
        {"bytes a key, whatever its length", weir::bench::bytes_per_key(), 80, 48},
        {"bytes a cluster of the ledger", weir::bench::bytes_per_ledger_cluster(), 200, 150},
        {"bytes a worker of the ledger", weir::bench::bytes_per_ledger_worker(), 200, 100},
        {"bytes a cluster at a worker", weir::bench::bytes_per_cluster_at_worker(), 200, 150},
    };
  }
  const std::vector<weir::bench::Measured> measured = weir::bench::measure(comparisons, rounds);
  return weir::bench::report(comparisons, measured, footprints, path) ? 0 : 1;
}
