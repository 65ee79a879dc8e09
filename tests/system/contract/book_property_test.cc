// What a book promises, for any policies and any arrivals.

#include <algorithm>

#include "tests/meter/property.h"
#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

using meter::between;
using meter::for_all;

std::vector<Policy> any_policies() {
  std::vector<Policy> policies;
  const std::int64_t count = *between(1, 4);
  for (std::int64_t i = 0; i < count; ++i) {
    const Resource resource =
        *between(0, 1) == 0 ? Resource::kRequests : Resource::kProcessingUnits;
    // Periods differ, as an account asks; some intervals are not whole.
    const Duration period = std::chrono::seconds{*between(1, 100) * 4 + i};
    policies.push_back(*make_policy(resource, *between(1, 200), period));
  }
  return policies;
}

Costs any_costs() { return {kMicro * *between(0, 2), *between(0, 30'000'000)}; }

struct Granted {
  Instant start;
  Costs costs;
  std::uint64_t number;
  bool is_released = false;
};

// A service sees the granted ones as they start.
void expect_no_refusal(const std::vector<Policy>& policies, std::vector<Granted> granted) {
  std::stable_sort(granted.begin(), granted.end(),
                   [](const Granted& a, const Granted& b) { return a.start < b.start; });
  Book service(policies, 0s, kStart);
  for (const Granted& one : granted) {
    if (one.is_released) continue;
    RC_ASSERT(takes(service, one.costs, one.start));
    RC_ASSERT(service.grant(one.costs, one.start, one.start).ok());
    service.expire(one.start);
  }
}

TEST(BookProperty, AGrantedStartIsNeverRefusedAndOneNanosecondEarlierWouldBe) {
  for_all([] {
    const std::vector<Policy> policies = any_policies();
    Book book(policies, 0s, kStart);
    Book service(policies, 0s, kStart);
    Instant now = kStart;
    const std::int64_t arrivals = *between(1, 60);
    for (std::int64_t i = 0; i < arrivals; ++i) {
      now = now + Duration{*between(0, 2) * *between(0, 3'000'000'000)};
      const Costs costs = any_costs();
      const Offer offer = book.offer(costs, now);
      if (offer.never != Never::kNot) continue;
      RC_ASSERT(takes(service, costs, offer.start));
      if (offer.binding) RC_ASSERT(!takes(service, costs, offer.start - 1ns));
      RC_ASSERT(book.grant(costs, offer.start, offer.start + 1s).ok());
      RC_ASSERT(service.grant(costs, offer.start, offer.start).ok());
      service.expire(offer.start);
    }
  });
}

TEST(BookProperty, ReleasesAndActualCostsNeverPromiseWhatTheServiceLacks) {
  for_all([] {
    const std::vector<Policy> policies = any_policies();
    Book book(policies, 0s, kStart);
    std::vector<Granted> granted;
    Instant now = kStart;
    const std::int64_t arrivals = *between(1, 60);
    for (std::int64_t i = 0; i < arrivals; ++i) {
      now = now + Duration{*between(0, 2) * *between(0, 3'000'000'000)};
      const Costs costs = any_costs();
      if (const Offer offer = book.offer(costs, now); offer.never == Never::kNot) {
        granted.push_back({offer.start, costs, *book.grant(costs, offer.start, offer.start + 1h)});
      }
      if (granted.empty()) continue;
      Granted& other = granted[static_cast<std::size_t>(
          *between(0, static_cast<std::int64_t>(granted.size()) - 1))];
      if (*between(0, 1) == 0 && now <= other.start) {  // it has not started
        other.is_released |= book.release(other.number, now) == HoldState::kCancelled;
      } else if (now >= other.start && book.reserved(other.number)) {
        const Costs actual{other.costs.requests_micro,
                           *between(0, other.costs.processing_units_micro)};
        RC_ASSERT(book.commit(other.number, actual, now) == HoldState::kSettled);
        other.costs = actual;
      }
    }
    expect_no_refusal(policies, granted);
  });
}

TEST(BookProperty, StartsThatAreLateByTheJitterAreNotRefused) {
  for_all([] {
    const Duration jitter{*between(0, 500'000'000)};
    std::vector<Policy> policies = any_policies();
    // A policy that fills within the jitter has nothing to keep in hand.
    std::erase_if(policies, [&](const Policy& policy) {
      return full_fs(policy) < Wide{jitter.count()} * kMicro;
    });
    Book book(policies, jitter, kStart);
    std::vector<Granted> granted;
    Instant now = kStart;
    const std::int64_t arrivals = *between(1, 60);
    for (std::int64_t i = 0; i < arrivals; ++i) {
      now = now + Duration{*between(0, 2) * *between(0, 2'000'000'000)};
      const Costs costs = any_costs();
      const Offer offer = book.offer(costs, now);
      if (offer.never != Never::kNot) continue;
      const auto number = *book.grant(costs, offer.start, offer.start + 1h);
      granted.push_back({offer.start + Duration{*between(0, jitter.count())}, costs, number});
    }
    expect_no_refusal(policies, granted);
  });
}

TEST(BookProperty, FoldingChangesNothing) {
  for_all([] {
    const std::vector<Policy> policies = any_policies();
    Book folded(policies, 0s, kStart);
    Book kept(policies, 0s, kStart);
    RC_ASSERT(kept.grant({0, 0}, kStart, kForever).ok());  // stays outstanding for ever
    Instant now = kStart;
    const std::int64_t arrivals = *between(1, 40);
    for (std::int64_t i = 0; i < arrivals; ++i) {
      now = now + Duration{*between(0, 3'000'000'000)};
      const Costs costs = any_costs();
      const Offer a = folded.offer(costs, now);
      const Offer b = kept.offer(costs, now);
      RC_ASSERT(a.start == b.start);
      RC_ASSERT(a.never == b.never);
      if (a.never != Never::kNot) continue;
      const auto x = *folded.grant(costs, a.start, kForever);
      const auto y = *kept.grant(costs, b.start, kForever);
      const Costs actual{costs.requests_micro, *between(0, costs.processing_units_micro)};
      RC_ASSERT(folded.commit(x, actual, now) == kept.commit(y, actual, now));
    }
  });
}

}  // namespace
}  // namespace weir::system::contract
