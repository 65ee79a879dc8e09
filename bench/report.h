// Report: ours against the yardstick of the same round, as a ratio with its bar.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::bench {

enum class Better : bool { kLower, kHigher };

// One line of the report: two benchmarks by name. `ratio` is ours over the
// yardstick in time, or the other way round (throughput) where higher is better.
struct Comparison {
  std::string_view what;
  std::string_view ours;
  std::string_view yardstick;
  double bar;
  double aim;
  Better better = Better::kLower;
};

struct Measured {
  double ours_ns = 0;
  double yardstick_ns = 0;
  double ratio = 0;      // the median over the rounds
  double ratio_low = 0;  // and its range
  double ratio_high = 0;
};

// Nanoseconds for one operation of one thread of the named benchmark.
double time_of(std::string_view name);

// Runs every comparison once a round, `rounds` rounds, interleaved.
std::vector<Measured> measure(const std::vector<Comparison>& comparisons, int rounds);

// Memory of one thing.
struct Footprint {
  std::string_view what;
  double bytes;
  double bar;
  double aim;
};

// Prints the table, and writes it to `path` as JSON. True if every bar is met.
bool report(const std::vector<Comparison>& comparisons, const std::vector<Measured>& measured,
            const std::vector<Footprint>& footprints, const std::string& path);

}  // namespace weir::bench
