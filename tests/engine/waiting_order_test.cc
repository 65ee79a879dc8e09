#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/waiting_support.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

// --- first come, first served

TEST_F(WaitingTest, ServesTheFirstComeFirst) {
  use(slots(1));
  HoldId hold = take(RequestOf());
  for (const std::string name : {"a", "b", "c"}) wait(RequestOf(), name);
  for (int i = 0; i < 3; ++i) {
    release(hold);
    hold = inbox.last().hold;
  }
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "c allowed"}));
}

TEST_F(WaitingTest, LetsASmallRequestWaitBehindALargeOne) {
  use(slots(2));
  const HoldId first = take(RequestOf());
  const HoldId second = take(RequestOf());
  wait(RequestOf().costing(2), "large");
  wait(RequestOf(), "small");
  release(first);
  EXPECT_TRUE(inbox.texts().empty());
  release(second);
  EXPECT_EQ(inbox.texts(), Texts{"large allowed"});
}

TEST_F(WaitingTest, AdmitsAsManyAsOneReleaseMakesRoomFor) {
  use(slots(3));
  const HoldId all = take(RequestOf().costing(3));
  for (const std::string name : {"a", "b", "c", "d"}) wait(RequestOf(), name);
  release(all);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "c allowed"}));
}

TEST_F(WaitingTest, IsNotOvertakenByANewcomer) {
  use(slots(2));
  const HoldId first = take(RequestOf());
  take(RequestOf());
  wait(RequestOf().costing(2), "w");
  release(first);  // one is free, but the waiter wants two
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(engine->peek(RequestOf(), kStart)->verdict, Verdict::kDenied);
}

TEST_F(WaitingTest, IsNotOvertakenByABatchOrAPreparedRequest) {
  use(slots(2));
  auto prepared = engine->prepare(RequestOf());
  const HoldId first = take(RequestOf());
  take(RequestOf());
  wait(RequestOf().costing(2), "w");
  release(first);
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
  const std::vector<Request> requests(1);
  std::vector<Result<Decision>> answers(1, Result<Decision>(std::in_place));
  engine->decide(requests, kStart, answers);
  EXPECT_FALSE(answers[0]->allowed());
}

TEST_F(WaitingTest, IsNotOvertakenByABooking) {
  use(bucket(2));
  take(RequestOf().costing(2));
  wait(RequestOf().costing(2), "w");
  EXPECT_FALSE(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->allowed());
}

TEST_F(WaitingTest, TellsANewcomerBehindSlotsThatItDoesNotKnowWhen) {
  use(slots(2));
  const HoldId first = take(RequestOf());
  take(RequestOf());
  wait(RequestOf().costing(2), "w");
  release(first);
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->earliest, kForever);
}

TEST_F(WaitingTest, TellsANewcomerWhenItFitsAfterThoseAhead) {
  use(bucket(1, 10s));
  take(RequestOf());
  wait(RequestOf(), "w");
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->earliest, kStart + 20s);
  EXPECT_EQ(denied->binding()->limit, "bucket");
}

TEST_F(WaitingTest, LetsOthersPassWhereTheyDoNotMeet) {
  use({.limits = {
           {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1, .queue = 9}}}});
  take(client("a"));
  wait(client("a"), "w");
  EXPECT_TRUE(engine->decide(client("b"), kStart)->allowed());
}

// --- overlapping sets of limits

RuleSetSpec rooms(const std::vector<std::string>& names, std::int64_t limit = 1) {
  RuleSetSpec spec;
  for (const std::string& name : names) {
    spec.limits.push_back({.name = name,
                           .when = {{name, {"yes"}}},
                           .meter = SlotsSpec{.limit = limit, .queue = 1000, .hold = 24h}});
  }
  return spec;
}

RequestOf in(std::initializer_list<std::string_view> names) {
  RequestOf ask;
  for (const std::string_view name : names) ask.with(name, "yes");
  return ask;
}

TEST_F(WaitingTest, OfARequestForTwoRoomsIsNotStarvedByRequestsForOne) {
  use(rooms({"x", "y"}));
  HoldId holding_x = take(in({"x"}));
  HoldId holding_y = take(in({"y"}));
  wait(in({"x", "y"}), "both");
  // From here on each room has somebody waiting for it alone, always.
  for (int round = 0; round < 50; ++round) {
    wait(in({"x"}), "x" + std::to_string(round));
    wait(in({"y"}), "y" + std::to_string(round));
  }
  int releases = 0;
  const auto done = [&] {
    return !inbox.texts().empty() && inbox.texts().back() == "both allowed";
  };
  while (!done() && releases < 100) {
    const std::size_t before = inbox.texts().size();
    HoldId& hold = releases % 2 == 0 ? holding_x : holding_y;
    release(hold);
    releases += 1;
    if (inbox.texts().size() > before) hold = inbox.last().hold;
  }
  EXPECT_TRUE(done());
  EXPECT_LE(releases, 2 + 2);  // both rooms once, and those who were there before
}

TEST_F(WaitingTest, KeepsItsPlaceAtEveryGateThatEverBoundIt) {
  use(rooms({"x", "y"}));
  const HoldId holding_x = take(in({"x"}));
  const HoldId holding_y = take(in({"y"}));
  wait(in({"x", "y"}), "both");
  wait(in({"x"}), "x");
  release(holding_x);  // `both` now waits for y, and nobody may pass it at x
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_FALSE(engine->decide(in({"x"}), kStart)->allowed());
  release(holding_y);
  EXPECT_EQ(inbox.texts(), Texts{"both allowed"});
}

// Waiters for random sets of rooms; whoever is admitted leaves some time later.
TEST_F(WaitingTest, ServesEverybodyWhateverTheSetsAndEqualSetsInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    use(rooms({"a", "b", "c", "d"}, 2));
    struct Guest {
      std::uint64_t set;
      HoldId hold;
      int admitted = -1;
    };
    std::deque<Guest> guests;
    int admissions = 0;
    const std::string_view names[] = {"a", "b", "c", "d"};
    const auto arrive = [&] {
      Guest& guest = guests.emplace_back(Guest{random() % 15 + 1, {}});
      RequestOf ask;
      for (std::size_t i = 0; i < 4; ++i) {
        if ((guest.set >> i & 1) != 0) ask.with(names[i], "yes");
      }
      const auto admit = [&guest, &admissions](const Decision& decision) {
        ASSERT_TRUE(decision.allowed());
        guest.hold = decision.hold;
        guest.admitted = admissions++;
      };
      const auto start = engine::wait(*engine, ask, {.deadline = kFarOff}, kStart,
                                      [admit](const Result<Decision>& d) { admit(*d); });
      if (start->ticket == 0) admit(start->decision);
    };
    const auto leave = [&] {
      std::vector<Guest*> inside;
      for (Guest& guest : guests) {
        if (guest.hold) inside.push_back(&guest);
      }
      if (inside.empty()) return false;
      Guest& leaving = *inside[random() % inside.size()];
      const HoldId hold = std::exchange(leaving.hold, HoldId{});
      release(hold);
      return true;
    };
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0) {
        arrive();
      } else {
        leave();
      }
    }
    while (leave()) {
    }
    EXPECT_EQ(engine->usage().waiters, 0u) << "seed " << seed;
    std::map<std::uint64_t, int> last_of_set;
    for (const Guest& guest : guests) {
      ASSERT_GE(guest.admitted, 0) << "seed " << seed;
      const auto [last, first] = last_of_set.emplace(guest.set, guest.admitted);
      if (!first) {
        EXPECT_GT(guest.admitted, last->second) << "seed " << seed << ", set " << guest.set;
        last->second = guest.admitted;
      }
    }
    for (const std::string_view name : names) {
      EXPECT_EQ(remaining(*engine, name, {}, kStart), 2) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weir::engine
