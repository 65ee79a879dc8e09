// Any sequence of calls of any meter, at instants that go back and forth: nothing
// overflows (the sanitizers watch), a refusal changes nothing, a promised instant is
// kept, and what is left is what was left less what was taken.

#include "fuzz/meter/meters.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::fuzz;
  constexpr void (*kRuns[])(Input&) = {run_bucket, run_ticker, run_window, run_log, run_slots};
  Input input(data, size);
  kRuns[input.choice(5)](input);
  return 0;
}
