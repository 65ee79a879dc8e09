// Any bytes at all as the worker.state of a worker: what is read is written and read back the
// same, and a worker that begins with it keeps within its bounds.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/input.h"
#include "weir/server/systems/worker_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace compute = weir::system::compute;
  using weir::fuzz::check;
  using weir::server::parse_worker_state;
  using weir::server::worker_state_text;
  constexpr weir::Instant kNow{1'800'000'000'000'000'000};
  const auto state = parse_worker_state({reinterpret_cast<const char*>(data), size});
  if (!state) {
    check(!state.error().message.empty());
    return 0;
  }
  const std::string text = worker_state_text(*state);
  const auto again = parse_worker_state(text);
  check(again.ok() && worker_state_text(*again) == text);
  check(again->heard == state->heard && again->buckets == state->buckets);
  check(again->allocations == state->allocations);
  compute::Worker worker({});
  worker.restore(state->buckets);
  worker.apply(state->allocations, kNow);
  for (const weir::Instant now : {kNow, kNow + std::chrono::hours{1}}) {
    for (const compute::ClusterReading& row : worker.clusters(now)) {
      check(row.tokens_micro >= 0 && row.tokens_micro <= row.burst_micro);
    }
  }
  static_cast<void>(parse_worker_state(worker_state_text(
      {.heard = kNow, .buckets = worker.kept(), .allocations = state->allocations})));
  return 0;
}
