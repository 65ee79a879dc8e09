#include "weir/store/redis/shared/leases.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/store/redis/shared/lease_fleet.h"
#include "tests/support/seed.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

// Servers ask in bursts, of one or several units, crash, stop and wake, and Redis loses its
// data, for `steps` steps.
// Returns how many leases may have lapsed: each server that was killed or stopped had one, and one
// that had no answer may have missed its turn to say what it holds.
std::int64_t live(SimulatedFleet& fleet, int steps) {
  std::vector<std::int64_t> demand(fleet.size(), 3);
  std::int64_t out_of_touch = 0;
  fleet.keep_ticking();
  for (int i = 0; i < steps; ++i) {
    const auto number =
        static_cast<std::size_t>(fleet.pick(0, static_cast<std::int64_t>(fleet.size()) - 1));
    switch (fleet.pick(0, 299)) {
      case 0:
        fleet.crash(number);
        ++out_of_touch;
        break;
      case 1:
        fleet.stop(number, Duration{fleet.pick(1, 300) * 1'000'000});
        ++out_of_touch;
        break;
      case 2:
        if (fleet.pick(0, 3) == 0) fleet.lose_data();
        break;
      case 3:
        if (fleet.pick(0, 9) > 0) break;
        fleet.stop_redis(Duration{fleet.pick(1, 400) * 1'000'000});  // a lease lapses in 200 ms
        out_of_touch += static_cast<std::int64_t>(fleet.size());
        break;
      case 4:
        demand[number] = fleet.pick(0, 5);
        break;
      case 5:
        fleet.pass(Duration{fleet.pick(0, 100'000) * kNsPerUs});
        break;
      default:
        break;
    }
    for (std::int64_t n = fleet.pick(0, demand[number]); n > 0; --n) {
      fleet.ask(number, fleet.pick(0, 9) == 0 ? fleet.pick(1, 20) : 1);
    }
    fleet.pass(Duration{fleet.pick(0, 2'000) * kNsPerUs});
  }
  return out_of_touch + fleet.lost_answers();
}

std::vector<Admission> in_order(std::vector<Admission> admissions) {
  std::sort(admissions.begin(), admissions.end(),
            [](const Admission& a, const Admission& b) { return a.at < b.at; });
  return admissions;
}

std::int64_t total(const std::vector<Admission>& admissions) {
  std::int64_t units = 0;
  for (const Admission& admission : admissions) units += admission.units;
  return units;
}

// What came back of leases that lapsed from `from` on until `until`.
std::int64_t came_back(const SimulatedFleet& fleet, Instant from, Instant until) {
  std::int64_t units = 0;
  for (const auto& lapse : fleet.lapses()) {
    if (from <= lapse.at && lapse.at <= until) units += lapse.units;
  }
  return units;
}

// The bound that docs/design/shared.md states, over every interval: a bucket with so much more
// burst, that gets back what lapses, would have let everything pass.
TEST(Leases, AdmitNoMoreThanBurstAndRateAndWhatIsHeld) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 seeds(seed);
  std::size_t admitted = 0;
  std::uint64_t refusals = 0;
  std::int64_t lapsed = 0;
  for (int round = 0; round < 60; ++round) {
    const std::size_t servers = 1 + seeds() % 5;
    const auto most = static_cast<std::int64_t>(1 + seeds() % 30);
    SimulatedFleet fleet(leased(kBucket, most), servers, seeds());
    const std::int64_t out_of_touch = live(fleet, 2000);
    EXPECT_LE(static_cast<std::int64_t>(fleet.lapses().size()), out_of_touch) << "round " << round;
    const auto bound = static_cast<std::int64_t>(60 + servers * static_cast<std::uint64_t>(most));
    const auto shape = std::get<meter::BucketShape>(
        *engine::make_shape(engine::BucketSpec{.amount = 1000, .period = 1s, .burst = bound}));
    meter::BucketState state{};
    auto lapse = fleet.lapses().begin();
    for (const Admission& admission : in_order(fleet.admissions())) {
      for (; lapse != fleet.lapses().end() && lapse->at <= admission.at; ++lapse) {
        ASSERT_LE(lapse->units, most) << "round " << round;
        state = meter::give_back(shape, state, lapse->at, lapse->units);
        lapsed += lapse->units;
      }
      const auto step = meter::take(shape, state, admission.at, admission.units);
      ASSERT_TRUE(step.allowed()) << "round " << round << ": " << admission.units << " at "
                                  << admission.at.ns - kFleetStart.ns << " ns, "
                                  << step.check.shortfall << " too many";
      state = step.state;
    }
    // From the beginning, when no server held anything, it is the limit itself.
    const std::int64_t passed_ms = (fleet.now() - kFleetStart) / 1ms;
    EXPECT_LE(total(fleet.admissions()),
              60 + passed_ms + came_back(fleet, kFleetStart, fleet.now()));
    admitted += fleet.admissions().size();
    refusals += fleet.refusals();
  }
  EXPECT_GT(admitted, 6000u);
  EXPECT_GT(refusals, 1000u);
  EXPECT_GT(lapsed, 500);
}

TEST(Leases, AdmitNoMoreInAWindowThanItHasAndWhatLapses) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 seeds(seed);
  std::size_t seen = 0;
  for (int round = 0; round < 40; ++round) {
    const auto most = static_cast<std::int64_t>(1 + seeds() % 50);
    SimulatedFleet fleet(leased(engine::WindowSpec{200, 300ms}, most), 1 + seeds() % 5, seeds());
    const std::int64_t out_of_touch = live(fleet, 2000);
    EXPECT_LE(static_cast<std::int64_t>(fleet.lapses().size()), out_of_touch) << "round " << round;
    std::map<std::int64_t, std::int64_t> windows;
    for (const Admission& admission : fleet.admissions()) {
      windows[admission.at.ns / 300'000'000] += admission.units;
    }
    for (const auto& [window, units] : windows) {
      const Instant begin{window * 300'000'000};
      ASSERT_LE(units, 200 + came_back(fleet, begin, begin + 300ms)) << "round " << round;
    }
    seen += windows.size();
  }
  EXPECT_GT(seen, 160u);  // of some 280: not all servers ask all the time
}

TEST(Leases, AdmitNoMoreInAnyWindowThanALogHasAndWhatIsHeld) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 seeds(seed);
  std::size_t admitted = 0;
  for (int round = 0; round < 40; ++round) {
    const std::size_t servers = 1 + seeds() % 5;
    const auto most = static_cast<std::int64_t>(1 + seeds() % 30);
    SimulatedFleet fleet(leased(engine::LogSpec{200, 300ms}, most), servers, seeds());
    const std::int64_t out_of_touch = live(fleet, 2000);
    EXPECT_LE(static_cast<std::int64_t>(fleet.lapses().size()), out_of_touch) << "round " << round;
    const std::vector<Admission> admissions = in_order(fleet.admissions());
    std::int64_t units = 0;
    std::size_t first = 0;
    for (const Admission& admission : admissions) {
      units += admission.units;
      for (; admissions[first].at + 300ms <= admission.at; ++first)
        units -= admissions[first].units;
      ASSERT_LE(units, 200 + static_cast<std::int64_t>(servers) * most +
                           came_back(fleet, admission.at - 300ms, admission.at))
          << "round " << round;
    }
    admitted += admissions.size();
  }
  EXPECT_GT(admitted, 4000u);
}

// The example of docs/design/shared.md.
TEST(Leases, GrowAsTheyAreUsed) {
  SimulatedFleet fleet(
      leased(engine::BucketSpec{.amount = 100, .period = 24h * 365, .burst = 100}, 20, 1h), 1, 1);
  for (const std::int64_t held : {0, 2, 6, 5, 10, 9, 8, 16, 15, 14, 13, 12, 11, 10, 20}) {
    fleet.ask(0, 1);
    fleet.pass(10ms);
    EXPECT_EQ(fleet.held(0), held) << "after " << fleet.admissions().size();
  }
  EXPECT_EQ(fleet.admissions().size(), 15u);
}

// A bucket, a window and a log that bring nothing in the time of a test.
const std::vector<engine::MeterSpec> kStanding = {
    engine::BucketSpec{.amount = 100, .period = 24h * 365, .burst = 100},
    engine::WindowSpec{100, 24h * 365}, engine::LogSpec{100, 24h * 365}};

int admitted(SimulatedFleet& fleet, std::size_t server, int times) {
  const std::size_t before = fleet.admissions().size();
  for (int i = 0; i < times; ++i) {
    fleet.ask(server, 1);
    fleet.pass(10ms);
  }
  return static_cast<int>(fleet.admissions().size() - before);
}

TEST(Leases, OfAServerThatCrashesComeBackWhenTheyEnd) {
  for (const engine::MeterSpec& meter : kStanding) {
    SimulatedFleet fleet(leased(meter, 20, 1h), 2, 1, Network::kAllInTime);
    ASSERT_EQ(admitted(fleet, 0, 15), 15);
    ASSERT_EQ(fleet.held(0), 20);
    const Instant heard = fleet.now();  // of its last draw, a moment ago
    fleet.crash(0);
    EXPECT_EQ(admitted(fleet, 1, 120), 65) << meter.index();
    fleet.pass(heard + 1h - fleet.now());
    EXPECT_EQ(admitted(fleet, 1, 120), 0) << meter.index();
    fleet.pass(heard + Duration{1h} + Duration{1h} / 16 - fleet.now());
    EXPECT_EQ(admitted(fleet, 1, 120), 20) << meter.index();
    fleet.pass(3h);
    EXPECT_EQ(admitted(fleet, 1, 120), 0) << meter.index() << ": came back twice";
  }
}

// No server knows of those: they are above the limit, and the bound in docs/design/shared.md has
// them.
TEST(Leases, OfAServerThatCrashesComeBackWithWhatItUsedSinceItWasHeard) {
  for (const engine::MeterSpec& meter : kStanding) {
    SimulatedFleet fleet(leased(meter, 20, 1h), 2, 1, Network::kAllInTime);
    ASSERT_EQ(admitted(fleet, 0, 19), 19);
    ASSERT_EQ(fleet.held(0), 16);
    fleet.crash(0);
    fleet.pass(2h);
    EXPECT_EQ(admitted(fleet, 1, 120), 85) << meter.index();
  }
}

TEST(Leases, OfAServerThatStopsInOrderDoNotComeBackTwice) {
  for (const engine::MeterSpec& meter : kStanding) {
    SimulatedFleet fleet(leased(meter, 20, 1h), 2, 1, Network::kAllInTime);
    ASSERT_EQ(admitted(fleet, 0, 19), 19);
    fleet.end_and_start(0);
    fleet.pass(10ms);
    EXPECT_EQ(admitted(fleet, 1, 120), 81) << meter.index();
    fleet.pass(2h);
    EXPECT_EQ(admitted(fleet, 1, 120), 0) << meter.index();
  }
}

// Servers that are in touch with Redis, though some of its answers come late: the limit itself,
// from the beginning on, and all of it.
TEST(Leases, ThatDoNotLapseAdmitTheLimit) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 seeds(seed);
  for (int round = 0; round < 100; ++round) {
    const std::size_t servers = 1 + seeds() % 5;
    const engine::MeterSpec& meter = kStanding[seeds() % kStanding.size()];
    const Network network = round % 2 == 0 ? Network::kAllInTime : Network::kSomeLate;
    const Duration length{network == Network::kAllInTime
                              ? 100'000'000 + static_cast<std::int64_t>(seeds() % 200'000'000)
                              : 400'000'000};
    const auto most = static_cast<std::int64_t>(1 + seeds() % 30);
    SCOPED_TRACE("round " + std::to_string(round) + ", meter " + std::to_string(meter.index()));
    SimulatedFleet fleet(leased(meter, most, length), servers, seeds(), network);
    fleet.keep_ticking();
    for (int step = 0; step < 300; ++step) {
      const auto number = static_cast<std::size_t>(seeds() % servers);
      const auto cost = static_cast<std::int64_t>(1 + seeds() % 3);
      if (seeds() % 10 == 0) fleet.ask(number, cost);
      if (seeds() % 20 == 0) fleet.ask_in_vain(number, cost);
      if (seeds() % 50 == 0) fleet.surrender(number);
      if (seeds() % 100 == 0) fleet.end_and_start(number);
      fleet.pass(10ms);
    }
    // What is no longer asked for goes back: the last server to ask gets the rest.
    fleet.pass(2s);
    for (std::size_t i = 0; i < servers; ++i) fleet.end_and_start(i);
    fleet.pass(1s);
    for (int i = 0; i < 120; ++i) {
      fleet.ask(0, 1);
      fleet.pass(100ms);
    }
    const std::int64_t lapsed = came_back(fleet, kFleetStart, fleet.now());
    const std::int64_t allowed = total(fleet.admissions());
    if (network == Network::kAllInTime) {
      EXPECT_EQ(allowed, 100);
      EXPECT_EQ(lapsed, 0);
    }
    // Of a draw that is answered late, what those who waited would have used counts as used, and
    // what has no room any more is given up. A message that is overtaken may bring a lease back.
    EXPECT_LE(lapsed, most * fleet.lost_answers());
    EXPECT_LE(allowed, 100 + lapsed);
    EXPECT_EQ(allowed + fleet.awaited_in_vain() + fleet.given_up(), 100 + lapsed) << "lost";
  }
}

TEST(Leases, OfAnIdleServerGoBack) {
  SimulatedFleet fleet(leased(kBucket, 30), 2, 1);
  for (int i = 0; i < 40; ++i) {
    fleet.ask(0, 1);
    fleet.pass(1ms);
  }
  ASSERT_GT(fleet.held(0), 0);
  for (int i = 0; i < 4; ++i) {
    fleet.tick(0);
    fleet.pass(50ms);
  }
  EXPECT_EQ(fleet.held(0), 0);
}

TEST(Leases, FollowDemandFromOneServerToAnother) {
  // Slow enough that what one holds the other lacks.
  SimulatedFleet fleet(leased(engine::BucketSpec{.amount = 100, .period = 1s, .burst = 100}, 80), 2,
                       1);
  const auto load = [&](std::size_t server, int times) {
    for (int i = 0; i < times; ++i) {
      fleet.ask(server, 1);
      fleet.pass(10ms);
      fleet.tick(0);
      fleet.tick(1);
    }
  };
  load(0, 30);
  EXPECT_GE(fleet.held(0), 5);
  EXPECT_EQ(fleet.held(1), 0);
  load(1, 30);
  EXPECT_EQ(fleet.held(0), 0);
  EXPECT_GE(fleet.held(1), 5);
}

TEST(Leases, OfAServerThatWasStoppedAreOverWhenItWakes) {
  SimulatedFleet fleet(leased(kBucket, 30), 1, 1);
  for (int i = 0; i < 40; ++i) {
    fleet.ask(0, 1);
    fleet.pass(1ms);
  }
  ASSERT_GT(fleet.held(0), 0);
  fleet.stop(0, 99ms);
  fleet.pass(99ms);
  fleet.pass(1ms);
  EXPECT_EQ(fleet.held(0), 0);
}

}  // namespace
}  // namespace weir::store::redis
