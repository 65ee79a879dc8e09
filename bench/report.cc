#include "bench/report.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weir::bench {
namespace {

// Keeps the time of the one benchmark that was run, in nanoseconds per operation
// of one thread.
class TimeKeeper : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) {
        fmt::print(stderr, "\n{}: {}\n", run.benchmark_name(), run.error_message);
        std::exit(1);
      }
      const bool wall = run.threads > 1 || run.run_name.time_type == "real_time";
      ns_ = wall ? run.real_accumulated_time : run.cpu_accumulated_time;
      // Google Benchmark adds the threads' iterations up and takes the mean of their times.
      ns_ = ns_ / static_cast<double>(run.iterations) * 1e9 * static_cast<double>(run.threads);
    }
  }
  double ns() const { return ns_; }

 private:
  double ns_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool meets(const Comparison& comparison, double ratio) {
  return comparison.better == Better::kLower ? ratio <= comparison.bar : ratio >= comparison.bar;
}

}  // namespace

double time_of(std::string_view name) {
  TimeKeeper keeper;
  benchmark::RunSpecifiedBenchmarks(&keeper, fmt::format("^{}$", name));
  return keeper.ns();
}

std::vector<Measured> measure(const std::vector<Comparison>& comparisons, int rounds) {
  std::vector<std::vector<double>> ours(comparisons.size());
  std::vector<std::vector<double>> yardstick(comparisons.size());
  std::vector<std::vector<double>> ratios(comparisons.size());
  for (int round = 1; round <= rounds; ++round) {
    for (std::size_t i = 0; i < comparisons.size(); ++i) {
      if (::isatty(STDERR_FILENO) != 0)
        fmt::print(stderr, "\rround {}/{}: {:<60}", round, rounds, comparisons[i].what);
      ours[i].push_back(time_of(comparisons[i].ours));
      yardstick[i].push_back(time_of(comparisons[i].yardstick));
      const double slower = ours[i].back() / yardstick[i].back();
      // Two threads do twice the work in the time of one operation each.
      ratios[i].push_back(comparisons[i].better == Better::kLower ? slower : 2 / slower);
    }
  }
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:<80}\r", "");
  std::vector<Measured> measured;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const auto [low, high] = std::minmax_element(ratios[i].begin(), ratios[i].end());
    measured.push_back({median(ours[i]), median(yardstick[i]), median(ratios[i]), *low, *high});
  }
  return measured;
}

bool report(const std::vector<Comparison>& comparisons, const std::vector<Measured>& measured,
            const std::vector<Footprint>& footprints, const std::string& path) {
  bool all_met = true;
  std::vector<std::string> lines;
  fmt::print("{:<42} {:>9} {:>10} {:>7} {:>15} {:>6} {:>6}\n", "one decision through the engine",
             "ours ns", "yardstick", "ratio", "range", "bar", "aim");
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const Comparison& line = comparisons[i];
    const Measured& found = measured[i];
    const bool met = meets(line, found.ratio);
    all_met = all_met && met;
    fmt::print("{:<42} {:>9.1f} {:>10.1f} {:>7.2f} {:>7.2f}-{:<7.2f} {:>6.2f} {:>6.2f} {}\n",
               line.what, found.ours_ns, found.yardstick_ns, found.ratio, found.ratio_low,
               found.ratio_high, line.bar, line.aim, met ? "" : "MISSED");
    lines.push_back(fmt::format(
        "    {{\"what\": \"{}\", \"ours\": \"{}\", \"yardstick\": \"{}\", \"ours_ns\": {:.2f}, "
        "\"yardstick_ns\": {:.2f}, \"ratio\": {:.3f}, \"low\": {:.3f}, \"high\": {:.3f}, \"bar\": "
        "{}, \"aim\": {}, \"met\": {}}}",
        line.what, line.ours, line.yardstick, found.ours_ns, found.yardstick_ns, found.ratio,
        found.ratio_low, found.ratio_high, line.bar, line.aim, met));
  }
  for (const Footprint& line : footprints) {
    const bool met = line.bytes <= line.bar;
    all_met = all_met && met;
    fmt::print("{:<42} {:>9.1f} {:>34} {:>6} {:>6} {}\n", line.what, line.bytes, "", line.bar,
               line.aim, met ? "" : "MISSED");
    lines.push_back(fmt::format(
        "    {{\"what\": \"{}\", \"ours\": {:.1f}, \"bar\": {}, \"aim\": {}, \"met\": {}}}",
        line.what, line.bytes, line.bar, line.aim, met));
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  std::ofstream(path) << fmt::format("{{\n  \"lines\": [\n{}\n  ]\n}}\n", fmt::join(lines, ",\n"));
  fmt::print(
      "\nTime is CPU time of one thread, or wall time of each of two. Medians of the rounds; "
      "written to {}\n",
      path);
  return all_met;
}

}  // namespace weir::bench
