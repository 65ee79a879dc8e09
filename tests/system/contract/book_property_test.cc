// What a book promises, for any policies and any arrivals.

#include <algorithm>
#include <random>

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
    // One that fills within the jitter: all starts could meet in one instant.
    if (*between(0, 1) == 0) policies.push_back(requests_per(*between(2, 5), 100ms));
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

// A service beside the book: it takes what starts, when it starts.
struct Service {
  explicit Service(const std::vector<Policy>& policies) : book(policies, 0s, kStart) {}

  // Takes those that start up to `now`, in order.
  void run(std::vector<Granted>& granted, Instant now) {
    for (; next < granted.size(); ++next) {
      const Granted& one = granted[next];
      if (one.is_released) continue;
      if (one.start > now) break;
      RC_ASSERT(takes(book, one.costs, one.start));
      RC_ASSERT(book.grant(one.costs, one.start, one.start).ok());
      book.expire(one.start);
    }
  }
  std::vector<std::optional<std::int64_t>> report(Instant now) const {
    std::vector<std::optional<std::int64_t>> left;
    const std::vector<Standing> rows = book.standing({0, 0}, now);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      left.emplace_back();
      if (*between(0, 3) > 0) left[i] = left_micro(book.policies()[i], rows[i].level_fs);
    }
    return left;
  }

  Book book;
  std::size_t next = 0;
};

// `granted` is in the order of the starts, but for what was released.
template <typename Event>
void expect_no_refusal_with(const Event& event) {
  const std::vector<Policy> policies = any_policies();
  Book book(policies, 0s, kStart);
  Service service(policies);
  std::vector<Granted> granted;
  Instant now = kStart;
  const std::int64_t arrivals = *between(1, 60);
  for (std::int64_t i = 0; i < arrivals; ++i) {
    now = now + Duration{*between(0, 2) * *between(0, 3'000'000'000)};
    service.run(granted, now);
    const Costs costs = any_costs();
    if (const Offer offer = book.offer(costs, now); offer.never == Never::kNot) {
      granted.push_back({offer.start, costs, *book.grant(costs, offer.start, offer.start + 1h)});
    }
    if (granted.empty()) continue;
    Granted& other = granted[static_cast<std::size_t>(
        *between(0, static_cast<std::int64_t>(granted.size()) - 1))];
    if (now < other.start && *between(0, 1) == 0) {
      other.is_released |= book.release(other.number, now) == HoldState::kCancelled;
    }
    event(book, service, granted, other, now);
  }
  service.run(granted, kForever);
}

TEST(BookProperty, ChangesForgetNothingThatWasBooked) {
  for_all([] {
    expect_no_refusal_with([](Book& book, Service& service, std::vector<Granted>& granted,
                              const Granted& other, Instant now) {
      // Also before its start: whoever commits so early starts then all the same.
      if (*between(0, 1) == 0) book.commit(other.number, std::nullopt, now);
      if (*between(0, 3) > 0) return;
      service.run(granted, now);
      // Larger ones only: smaller ones could not keep what is promised.
      std::vector<Policy> larger = book.policies();
      for (Policy& policy : larger) {
        policy = *make_policy(policy.resource, policy.capacity + *between(0, 20), policy.period);
      }
      std::rotate(larger.begin(), larger.begin() + 1, larger.end());
      book.change(larger, now);
      service.book.change(larger, now);
    });
  });
}

TEST(BookProperty, ReportsForgetNothingThatWasBooked) {
  for_all([] {
    expect_no_refusal_with([](Book& book, Service& service, std::vector<Granted>& granted,
                              const Granted& other, Instant now) {
      if (now >= other.start && *between(0, 1) == 0) book.commit(other.number, std::nullopt, now);
      if (*between(0, 3) > 0) return;
      service.run(granted, now);
      book.refresh(service.report(now), now, *between(0, 1) == 0 ? now : Instant{});
    });
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

// The same book, which replays one reservation after the other: one that has learnt something does.
Book replayed(const Book& book) {
  Book::Saved saved = book.saved();
  for (std::size_t i = 0; i < saved.reservations.size(); ++i) {  // with places
    if (book.is_place(saved.first_number + i)) saved.reservations[i].state = HoldState::kActive;
  }
  if (!saved.policies.empty()) saved.lowerings.push_back({saved.at, 0, 0});
  return Book(std::move(saved), book.jitter());
}

void expect_same(const Book& book, Instant now) {
  const Book plain = replayed(book);
  RC_ASSERT(book.last_start() == plain.last_start());
  const std::vector<Standing> runs = book.standing({0, 0}, now);
  const std::vector<Standing> steps = plain.standing({0, 0}, now);
  for (std::size_t i = 0; i < runs.size(); ++i) RC_ASSERT(runs[i].level_fs == steps[i].level_fs);
}

// Anything that may happen to a book, `times`; compared each time, or at the end alone.
void live(Book& book, std::int64_t times, bool is_compared) {
  std::vector<std::uint64_t> places;
  Instant now = kStart;
  for (std::int64_t i = 0; i < times; ++i) {
    now = now + Duration{*between(0, 2) * *between(0, 300'000'000)};
    const Costs costs = any_costs();
    if (const Offer offer = book.offer(costs, now); offer.never == Never::kNot) {
      const Instant start = offer.start + Duration{*between(0, 9) == 0 ? 1'000'000 : 0};
      RC_ASSERT(book.grant(costs, start, start + 1s * *between(0, 300)).ok());
    }
    const auto count = static_cast<std::int64_t>(book.reservations().size());
    if (count == 0) continue;
    const std::uint64_t number =
        book.first_number() + static_cast<std::uint64_t>(*between(0, count - 1));
    switch (*between(0, 11)) {
      case 0:
      case 1:
        book.release(number, now);
        break;
      case 2:
      case 3:
        book.commit(number, any_costs(), now);
        break;
      case 4:
        if (const auto id = book.take_place(any_costs(), now + 1s * *between(0, 9), now)) {
          places.push_back(*id);
        }
        break;
      case 5:
        book.expire_all(now);
        break;
      case 6:
        if (*between(0, 4) == 0) {
          std::vector<std::optional<std::int64_t>> left(book.policies().size());
          left[0] = *between(0, 50'000'000);
          book.refresh(left, now, now);
        }
        break;
      case 7:
        if (*between(0, 9) == 0) book.change(any_policies(), now);
        break;
      default:
        break;
    }
    if (*between(0, 9) == 0) book.hold_off(1s * *between(0, 9), now);
    book.settle_places(now);
    for (const std::uint64_t id : places) {
      if (*between(0, 1) == 0) book.settle_place(id, now);
    }
    if (is_compared) expect_same(book, now);
  }
  expect_same(book, now);
}

// What was granted never finds less for it, and nothing starts before what is in front of it.
TEST(BookProperty, PlacesKeepTheirOrderAndNoGrantedStartFindsLess) {
  for_all([] {
    const std::vector<Policy> policies = any_policies();
    Book book(policies, 0s, kStart);
    std::vector<std::uint64_t> places;
    Instant now = kStart;
    const std::int64_t times = *between(1, 60);
    for (std::int64_t i = 0; i < times; ++i) {
      now = now + Duration{*between(0, 2) * *between(0, 3'000'000'000)};
      book.settle_places(now);
      const Costs costs = any_costs();
      const Offer offer = book.offer(costs, now);
      switch (*between(0, 5)) {
        case 0:
        case 1:
          if (offer.never != Never::kNot) break;
          RC_ASSERT(book.grant(costs, offer.start, kForever).ok());
          break;
        case 2:
        case 3:
          if (const auto id = book.take_place(costs, now + 1s * *between(0, 9), now)) {
            places.push_back(*id);
          }
          break;
        case 4:
          book.release(
              book.first_number() + static_cast<std::uint64_t>(*between(
                                        0, static_cast<std::int64_t>(book.reservations().size()))),
              now);
          break;
        default:
          book.hold_off(1s * *between(0, 5), now);
          break;
      }
      book.settle_places(now);
      for (const std::uint64_t id : places) {
        if (*between(0, 1) == 0) book.settle_place(id, now);
      }
      Instant last{};
      for (const std::uint64_t id : places) {
        const auto place = book.place(id);
        if (!place) continue;
        RC_ASSERT(place->start >= last);
        last = place->start;
      }
      last = Instant{};
      Book service(policies, 0s, kStart);
      for (const Book::Reservation& one : book.reservations()) {
        if (one.state == HoldState::kCancelled) continue;
        RC_ASSERT(one.start >= last);
        last = one.start;
        RC_ASSERT(takes(service, one.costs, one.start));
        RC_ASSERT(service.grant(one.costs, one.start, one.start).ok());
      }
    }
  });
}

TEST(BookProperty, RunsOfReservationsAreWhatTheyAreOneByOne) {
  for_all([] {
    Book book(any_policies(), Duration{*between(0, 500'000'000)}, kStart);
    live(book, *between(1, 60), true);
  });
}

TEST(BookProperty, RunsOfManyReservationsAreWhatTheyAreOneByOne) {
  std::mt19937_64 random(meter::property_seed());
  Book book({units_per(1000, 10s), requests_per(500, 1min)}, 100ms, kStart);
  Instant now = kStart;
  for (int i = 0; i < 20'000; ++i) {
    const Costs costs{kMicro, static_cast<std::int64_t>(random() % 5'000'000)};
    ASSERT_TRUE(book.grant(costs, book.offer(costs, now).start, kForever));
    if (random() % 3 == 0) {
      const std::uint64_t number = book.first_number() + random() % book.reservations().size();
      if (random() % 2 == 0) {
        book.release(number, now);
      } else {
        book.commit(number, Costs{kMicro, 0}, now);
      }
    }
    // So that whole runs are folded: the oldest ones end.
    if (i > 15'000) {
      for (int j = 0; j < 4; ++j) book.release(book.first_number(), now);
    }
    now = now + 10ms;
    if (i % 500 == 0) {
      const Book plain = replayed(book);
      ASSERT_EQ(book.last_start(), plain.last_start()) << meter::how_to_reproduce();
      for (std::size_t p = 0; p < 2; ++p) {
        ASSERT_EQ(book.standing({0, 0}, now)[p].level_fs, plain.standing({0, 0}, now)[p].level_fs)
            << meter::how_to_reproduce();
      }
    }
  }
}

}  // namespace
}  // namespace weir::system::contract
