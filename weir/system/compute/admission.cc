// Bounds of a worker's settings, as one table, and the warning about rates that its slots cannot
// serve.

#include "weir/system/compute/admission.h"

#include <fmt/format.h>

#include "weir/engine/quantity.h"

namespace weir::system::compute {

Status validate(const WorkerSettings& settings) {
  struct Row {
    std::string_view what;
    std::int64_t value, least, most;
  };
  const Row rows[] = {
      {"running", settings.running, 1, kRunningMax},
      {"queue", settings.queue, 0, kRunningMax},
      {"cluster_running", settings.cluster_running, 0, settings.running},
      {"cluster_queue", settings.cluster_queue, 0, settings.queue},
      {"burst", settings.burst.least, 1, kBurstMax},
      {"largest burst", settings.burst.most, settings.burst.least, kBurstMax},
      {"query_time in ns", settings.query_time.count(), 1, kTermMax / 4},
      {"overloaded_hint in ns", settings.overloaded_hint.count(), 1, kTermMax / 4},
  };
  for (const Row& row : rows) {
    if (row.value >= row.least && row.value <= row.most) continue;
    return bad_argument(fmt::format("{} is {}, but it must be {} to {}; write a number between",
                                    row.what, row.value, row.least, row.most));
  }
  return Done{};
}

std::string oversubscription(const AllocationSet& set, Duration service_time,
                             std::int64_t running) {
  Wide units = 0;
  for (const ClusterAllocation& row : set.clusters) units += row.units;
  // Units of all clusters are below 2^62 times their number, but a sum of more than 2^64
  // is far too many in any case.
  constexpr Wide kMany = Wide{1} << 64;
  const Wide busy = (units < kMany ? units : kMany) * service_time.count();
  if (busy <= Wide{running} * set.epoch_time.count()) return {};
  const Wide needed = ceil_div(busy, set.epoch_time.count());
  return fmt::format(
      "{} units in an epoch of {} at {} each keep {} queries running, but there are {} slots; "
      "raise "
      "'running', or expect 'overloaded'",
      units, engine::duration_text(set.epoch_time), engine::duration_text(service_time), needed,
      running);
}

}  // namespace weir::system::compute
