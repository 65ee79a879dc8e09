#include "bench/engine/memory_bench.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "bench/keys.h"
#include "weir/engine/engine.h"

namespace weir::bench {

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

using namespace std::chrono_literals;

double bytes_per_key(std::uint64_t keys) {
  const std::size_t before = resident_bytes();
  const auto engine = engine::Engine::create(
      *engine::compile({.limits = {{.name = "per-client",
                                    .per = {"client"},
                                    .meter = engine::BucketSpec{.amount = 1, .period = 1h}}}}),
      {.keys_max = keys * 2});
  for (std::uint64_t i = 0; i < keys; ++i) {
    // Long keys: a table that kept them would show it here.
    const std::string key =
        "a client whose name is longer than any small string: " + std::string(Key(i).view());
    const engine::Attribute who[] = {{"client", key}};
    if (!(*engine)->decide({.attributes = who}, Instant{1'800'000'000'000'000'000})) return -1;
  }
  return static_cast<double>(resident_bytes() - before) / static_cast<double>(keys);
}

}  // namespace

double bytes_per_key() {
  double sum = 0;
  for (const std::uint64_t keys : {1'000'000u, 1'250'000u, 1'500'000u, 1'750'000u}) {
    sum += bytes_per_key(keys);
  }
  return sum / 4;
}

}  // namespace weir::bench
