// Weir inside a program: no server, no other process.
//
// Two limits guard one call: each client may make 3 requests a second, and at
// most 2 requests may run at once. The clock is a manual one, so that the output
// is the same every time; a program would use weir::SystemClock.

#include <weir/engine/engine.h>
#include <weir/testing/manual_clock.h>

#include <cstdio>

using namespace std::chrono_literals;
namespace we = weir::engine;

int main() {
  auto rules =
      we::compile({.limits = {
                       {.name = "per-client",
                        .per = {"client"},
                        .meter = we::BucketSpec{.amount = 3, .period = 1s}},
                       {.name = "running", .meter = we::SlotsSpec{.limit = 2, .hold = 10s}},
                   }});
  if (!rules) return std::fprintf(stderr, "%s\n", rules.error().message.c_str()), 1;
  auto engine = we::Engine::create(*rules);
  if (!engine) return std::fprintf(stderr, "%s\n", engine.error().message.c_str()), 1;

  weir::testing::ManualClock clock(weir::Instant{1'800'000'000'000'000'000});
  const we::Attribute who[] = {{"client", "acme"}};
  weir::HoldId last_hold;
  for (int i = 1; i <= 5; ++i) {
    const auto decision = (*engine)->decide({.attributes = who}, clock.now());
    if (!decision) return std::fprintf(stderr, "%s\n", decision.error().message.c_str()), 1;
    if (decision->allowed()) {
      std::printf("request %d: allowed, %lld left\n", i,
                  static_cast<long long>(decision->outcome("per-client")->remaining));
      last_hold = decision->hold;
    } else {
      const std::string_view limit = decision->binding()->limit;
      std::printf("request %d: denied by %.*s\n", i, static_cast<int>(limit.size()), limit.data());
      // A request ends, its slot comes back.
      (*engine)->settle(last_hold, {}, clock.now());
      clock.advance(334ms);
    }
  }
  return 0;
}
