// Workers, a guard and a service in virtual time, as the authors of the source
// document measured theirs: 200 workers of 3 requests each, under 50 requests and
// 200 units in 10 seconds.

#include <functional>
#include <queue>
#include <random>

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

constexpr int kWorkers = 200;
constexpr int kRequestsEach = 3;

struct Outcome {
  Duration took{};
  int refusals = 0;
};

using CostOf = std::function<double(int worker, int request)>;

std::vector<Policy> policies() { return {requests_per(50, 10s), units_per(200, 10s)}; }

// Nobody can be faster than the policy that has least for all of it.
Duration ideal(const CostOf& cost_of) {
  double total = 0;
  for (int w = 0; w < kWorkers; ++w) {
    for (int r = 0; r < kRequestsEach; ++r) total += cost_of(w, r);
  }
  const Duration by_requests = 200ms * (kWorkers * kRequestsEach - 50);
  const Duration by_units{static_cast<std::int64_t>((total - 200) * 50e6)};
  return std::max(by_requests, by_units);
}

// A worker asks, starts when it is told or up to `late` after, and asks for the next
// one when the service has answered; for the same one again if it was refused.
Outcome simulate(const AccountOptions& options, Duration late, const CostOf& cost_of) {
  struct Event {
    Instant at;
    int order;  // of events at the same instant
    bool starts;
    int worker;
    int request;
    HoldId reservation;
    bool operator>(const Event& other) const {
      return std::pair(at, order) > std::pair(other.at, other.order);
    }
  };
  const auto guard = account_of(policies(), options);
  const auto service = service_of(policies());
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::mt19937_64 random(1);
  int order = 0;
  for (int w = 0; w < kWorkers; ++w) events.push({kStart, order++, false, w, 0, {}});
  Outcome outcome;
  while (!events.empty()) {
    const Event event = events.top();
    events.pop();
    const Costs costs = units(cost_of(event.worker, event.request));
    if (!event.starts) {
      const Reserved reserved = *guard->reserve({.costs = costs}, event.at);
      const Duration delay{late.count() == 0
                               ? 0
                               : static_cast<std::int64_t>(
                                     random() % (static_cast<std::uint64_t>(late.count()) + 1))};
      events.push({reserved.start + delay, order++, true, event.worker, event.request,
                   reserved.reservation});
      continue;
    }
    const bool refused = service->consume(costs, event.at)->refusal.has_value();
    outcome.refusals += refused ? 1 : 0;
    if (!refused) outcome.took = std::max(outcome.took, event.at - kStart);
    if (event.reservation) {
      if (refused) {
        guard->release(event.reservation, event.at);
      } else {
        EXPECT_TRUE(guard->commit(event.reservation, std::nullopt, event.at).ok());
      }
    }
    const int next = event.request + (refused ? 0 : 1);
    if (next < kRequestsEach) events.push({event.at, order++, false, event.worker, next, {}});
  }
  return outcome;
}

constexpr AccountOptions kReserving{.jitter = 0s};
constexpr AccountOptions kPublishedRule{.rule = Rule::kPublished};

// As in the published measurement: requests are what is short.
double cheap(int, int) { return 1; }
// One in fifty takes all units there are.
double some_large(int worker, int request) {
  return (worker * kRequestsEach + request) % 50 == 25 ? 200 : 1;
}
// The first twenty workers take a quarter each.
double large_first(int worker, int) { return worker < 20 ? 50 : 1; }

TEST(Simulation, OfReservationsTakesTheIdealTimeWithoutARefusal) {
  const Outcome outcome = simulate(kReserving, 0s, cheap);
  EXPECT_EQ(ideal(cheap), 110s);
  EXPECT_EQ(outcome.refusals, 0);
  EXPECT_LE(outcome.took, ideal(cheap) * 101 / 100);
}

TEST(Simulation, OfReservationsWithSomeLargeRequestsTakesTheIdealTimeWithoutARefusal) {
  const Outcome outcome = simulate(kReserving, 0s, some_large);
  EXPECT_EQ(outcome.refusals, 0);
  EXPECT_LE(outcome.took, ideal(some_large) * 101 / 100);
}

TEST(Simulation, OfThePublishedRuleWithSomeLargeRequestsShowsRefusals) {
  EXPECT_GT(simulate(kPublishedRule, 0s, some_large).refusals, 0);
}

TEST(Simulation, OfAHerdShowsHundredsOfRefusalsByThePublishedRuleAndNoneOfReservations) {
  EXPECT_GT(simulate(kPublishedRule, 0s, large_first).refusals, 100);
  EXPECT_EQ(simulate(kReserving, 0s, large_first).refusals, 0);
}

TEST(Simulation, OfWorkersThatStartLateShowsNoRefusalWithTheJitterInHand) {
  for (const CostOf& cost_of : {CostOf(cheap), CostOf(some_large), CostOf(large_first)}) {
    EXPECT_EQ(simulate({.jitter = 100ms}, 100ms, cost_of).refusals, 0);
  }
  const Outcome outcome = simulate({.jitter = 100ms}, 100ms, cheap);
  EXPECT_LE(outcome.took, ideal(cheap) * 101 / 100);
}

TEST(Simulation, OfWorkersThatStartLateShowsRefusalsWithNothingInHand) {
  EXPECT_GT(simulate(kReserving, 100ms, cheap).refusals, 0);
}

}  // namespace
}  // namespace weir::system::contract
