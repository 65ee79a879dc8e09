// Metrics: what the server has counted, in the text format of Prometheus.
//
// Every metric is a row of a table: the server's own is in metrics.cc, those of the systems are in
// systems/. docs/reference/metrics.md is compared with all of them. The number of lines is bounded
// by the numbers of limits, buckets and policies that are configured: nothing is ever labelled by
// key.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/server/counter.h"

namespace weir::server {

struct MetricRow {
  std::string_view name;
  std::string_view type;  // counter, gauge, histogram
  std::string_view labels;
  std::string_view help;
};
// Those of the server itself.
std::span<const MetricRow> metric_rows() noexcept;

// How long batches took, counted by one loop.
class BatchTimes {
 public:
  // Upper bounds; one more bucket has none.
  static constexpr std::array<std::int64_t, 10> kBoundsNs = {
      10'000,    25'000,    50'000,    100'000,    250'000,
      1'000'000, 2'500'000, 5'000'000, 25'000'000, 100'000'000};

  void add(Duration took) noexcept {
    std::size_t i = 0;
    while (i < kBoundsNs.size() && took.count() > kBoundsNs[i]) ++i;
    buckets[i].add();
    sum_ns.add(static_cast<std::uint64_t>(took.count() > 0 ? took.count() : 0));
  }

  std::array<Counter, kBoundsNs.size() + 1> buckets;
  Counter sum_ns;
};

// Writes metrics: begin() each of them, then its values.
class MetricsText {
 public:
  // The table of what is begun from now on, which outlives the text; at first metric_rows().
  void set_rows(std::span<const MetricRow> rows) noexcept { rows_ = rows; }
  // HELP and TYPE. Requires the name of a row.
  void begin(std::string_view name);
  void value(std::uint64_t value);
  void value(std::string_view label, std::string_view is, std::uint64_t value);
  void value(std::string_view label, std::string_view is, std::string_view second_label,
             std::string_view second_is, std::uint64_t value);
  // Of millionths.
  void micro_value(std::string_view label, std::string_view is, std::string_view second_label,
                   std::string_view second_is, std::int64_t micro);
  void micro_value(std::string_view label, std::string_view is, std::int64_t micro);
  void seconds(Duration value);
  // Nothing: infinitely many.
  void seconds(std::string_view label, std::string_view is, std::string_view second_label,
               std::string_view second_is, std::optional<Duration> value);
  // The sum of what several loops counted.
  void histogram(std::span<const BatchTimes* const> loops);

  std::string take() && { return std::move(text_); }

 private:
  void line(std::string_view suffix, std::string_view labels, std::string_view value);

  std::span<const MetricRow> rows_ = metric_rows();
  std::string text_;
  std::string_view name_;
};

// What the engine holds and has decided.
void write_engine(MetricsText& out, const engine::Engine& engine);

}  // namespace weir::server
