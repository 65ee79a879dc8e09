#include "weir/engine/internal/holds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/engine/support.h"
#include "weir/base/keyed_word.h"

namespace weir::engine {
namespace {

struct HoldsTest : ::testing::Test {
  HoldId add(Instant expires) {
    EXPECT_TRUE(holds.reserve());
    HoldCharges charges;
    charges.emplace_back().amount = 7;
    return holds.add(std::move(charges), expires);
  }

  Holds holds{42, 3};
};

TEST_F(HoldsTest, GiveTheChargesToWhoeverEndsAHoldFirst) {
  const HoldId id = add(kStart + 1s);
  const auto [first, as] = holds.end(id, HoldState::kSettled, kStart);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->at(0).amount, 7);
  EXPECT_EQ(as, HoldState::kSettled);
  EXPECT_FALSE(holds.end(id, HoldState::kSettled, kStart).first.has_value());
}

TEST_F(HoldsTest, SayHowAHoldHasEnded) {
  const HoldId settled = add(kStart + 1s);
  const HoldId cancelled = add(kStart + 1s);
  holds.end(settled, HoldState::kSettled, kStart);
  holds.end(cancelled, HoldState::kCancelled, kStart);
  EXPECT_EQ(holds.end(settled, HoldState::kCancelled, kStart).second, HoldState::kSettled);
  EXPECT_EQ(holds.end(cancelled, HoldState::kSettled, kStart).second, HoldState::kCancelled);
}

TEST_F(HoldsTest, AreActiveUntilTheirTimeAndGoneFromThenOn) {
  const HoldId id = add(kStart + 1s);
  EXPECT_EQ(holds.state(id, kStart + 1s - 1ns), HoldState::kActive);
  EXPECT_EQ(holds.state(id, kStart + 1s), HoldState::kGone);
  EXPECT_FALSE(holds.end(id, HoldState::kSettled, kStart + 1s).first.has_value());
}

TEST_F(HoldsTest, ExpireOneByOneInTheOrderOfTheirTimes) {
  add(kStart + 2s);
  add(kStart + 1s);
  EXPECT_EQ(holds.next_expiry(), kStart + 1s);
  EXPECT_FALSE(holds.expire_one(kStart + 1s - 1ns).has_value());
  EXPECT_TRUE(holds.expire_one(kStart + 1s).has_value());
  EXPECT_FALSE(holds.expire_one(kStart + 1s).has_value());
  EXPECT_EQ(holds.next_expiry(), kStart + 2s);
  EXPECT_TRUE(holds.expire_one(kStart + 2s).has_value());
  EXPECT_EQ(holds.next_expiry(), kForever);
}

TEST_F(HoldsTest, ExpireAtTheirRenewedTimeOnly) {
  const HoldId id = add(kStart + 1s);
  ASSERT_TRUE(holds.renew(id, kStart + 3s, kStart));
  EXPECT_FALSE(holds.expire_one(kStart + 3s - 1ns).has_value());
  EXPECT_TRUE(holds.expire_one(kStart + 3s).has_value());
}

TEST_F(HoldsTest, MayBeRenewedToAnEarlierTime) {
  const HoldId id = add(kStart + 10s);
  ASSERT_TRUE(holds.renew(id, kStart + 1s, kStart));
  EXPECT_EQ(holds.next_expiry(), kStart + 1s);
  EXPECT_TRUE(holds.expire_one(kStart + 1s).has_value());
  EXPECT_FALSE(holds.expire_one(kStart + 10s).has_value());
}

TEST_F(HoldsTest, AreNotRenewedOnceTheyHaveEndedOrExpired) {
  const HoldId ended = add(kStart + 1s);
  const HoldId expired = add(kStart + 1s);
  holds.end(ended, HoldState::kSettled, kStart);
  EXPECT_FALSE(holds.renew(ended, kStart + 9s, kStart));
  EXPECT_FALSE(holds.renew(expired, kStart + 9s, kStart + 1s));
}

TEST_F(HoldsTest, HaveRoomForAsManyAsTheirBound) {
  const HoldId first = add(kStart + 1s);
  add(kStart + 1s);
  add(kStart + 1s);
  EXPECT_FALSE(holds.reserve());
  holds.end(first, HoldState::kSettled, kStart);
  EXPECT_TRUE(holds.reserve());
  EXPECT_FALSE(holds.reserve());
}

TEST_F(HoldsTest, GiveUpAPlaceThatWasNotNeeded) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(holds.reserve());
    holds.unreserve();
  }
  EXPECT_EQ(holds.active(), 0u);
}

TEST_F(HoldsTest, NeverUseANumberTwice) {
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const HoldId id = add(kStart + 1s);
    EXPECT_GT(id.number, last);
    last = id.number;
    holds.end(id, HoldState::kSettled, kStart);
  }
}

TEST_F(HoldsTest, RememberAnEndedOneUntilItsTime) {
  const HoldId id = add(kStart + 5s);
  holds.end(id, HoldState::kSettled, kStart);
  holds.expire_one(kStart + 5s - 1ns);
  EXPECT_EQ(holds.state(id, kStart + 5s - 1ns), HoldState::kSettled);
  holds.expire_one(kStart + 5s);
  EXPECT_EQ(holds.state(id, kStart + 5s), HoldState::kGone);
}

TEST_F(HoldsTest, RememberAsManyEndedOnesAsTheirBound) {
  std::vector<HoldId> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(add(kStart + 1h));
    holds.end(ids.back(), HoldState::kSettled, kStart);
  }
  EXPECT_EQ(holds.state(ids[0], kStart), HoldState::kGone);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(holds.state(ids[i], kStart), HoldState::kSettled) << i;
}

// Those that were forgotten at their time take no room.
TEST_F(HoldsTest, RememberAnEndedOneHoweverManyWereForgottenMeanwhile) {
  const HoldId lasting = add(kStart + 1h);
  holds.end(lasting, HoldState::kSettled, kStart);
  for (int i = 0; i < 1'000; ++i) {
    const Instant now = kStart + i * 1s;
    holds.end(add(now + 1s), HoldState::kCancelled, now);
    holds.expire_one(now + 1s);
    ASSERT_EQ(holds.state(lasting, now + 1s), HoldState::kSettled) << i;
  }
}

TEST_F(HoldsTest, KnowNothingOfAnotherOwner) {
  HoldId id = add(kStart + 1s);
  id.owner += 1;
  EXPECT_EQ(holds.state(id, kStart), HoldState::kGone);
  EXPECT_FALSE(holds.end(id, HoldState::kSettled, kStart).first.has_value());
  EXPECT_FALSE(holds.renew(id, kStart + 9s, kStart));
}

TEST_F(HoldsTest, ForgetWhatTheyWereChargedAtOnePrint) {
  Holds durable(42, 3, true);
  ASSERT_TRUE(durable.reserve());
  HoldCharges charges(2);
  charges[0].print = {1, 0};
  charges[0].amount = 7;
  charges[1].print = {2, 0};
  charges[1].amount = 8;
  const HoldId id = durable.add(charges, kStart + 1s);
  HoldChanges before;
  EXPECT_FALSE(durable.collect(9, kStart, before));
  durable.forget_charges({1, 0});
  durable.forget_charges({3, 0});
  // A store that has the hold is told.
  HoldChanges after;
  EXPECT_FALSE(durable.collect(9, kStart, after));
  ASSERT_EQ(after.active.size(), 1u);
  ASSERT_EQ(after.charges.size(), 2u);
  EXPECT_EQ(after.charges[0].amount, 0);
  EXPECT_EQ(after.charges[1].amount, 8);
  const auto [left, as] = durable.end(id, HoldState::kCancelled, kStart);
  ASSERT_TRUE(left.has_value());
  ASSERT_EQ(left->size(), 2u);
  EXPECT_EQ(left->at(0).amount, 0);
  EXPECT_EQ(left->at(1).amount, 8);
}

// --- by key

HoldCharges charged_at(std::initializer_list<Print> prints) {
  HoldCharges charges;
  for (const Print print : prints) {
    charges.emplace_back().print = print;
    charges.back().amount = 7;
  }
  return charges;
}

std::multiset<std::uint64_t> numbers(const std::vector<HoldId>& ids) {
  std::multiset<std::uint64_t> numbers;
  for (const HoldId id : ids) numbers.insert(id.number);
  return numbers;
}

// Prints that share a list, too.
TEST(HoldsByKey, AreThoseThatAreActive) {
  const std::vector<Print> prints = {{1, 1}, {2, 1}, {3, 1 + 4096}, {4, 2}, {5, 3}};
  std::mt19937_64 random(7);
  const auto draw = [&](std::size_t below) { return random() % below; };
  Holds holds{42, 1'000};
  std::map<std::uint64_t, std::vector<Print>> active;
  std::uint64_t expected_next = 1;
  Instant now = kStart;
  for (int step = 0; step < 20'000; ++step) {
    if (draw(2) == 0 && active.size() < 300) {
      const Print one = prints[draw(prints.size())];
      const Print other = prints[draw(prints.size())];
      std::vector<Print> at = {one};
      if (!(other == one)) at.push_back(other);
      ASSERT_TRUE(holds.reserve());
      HoldCharges charges = at.size() == 1 ? charged_at({one}) : charged_at({one, other});
      const HoldId id =
          holds.add(std::move(charges), now + Duration{1 + static_cast<int>(draw(500))});
      ASSERT_EQ(id.number, expected_next++);
      active[id.number] = at;
    } else if (draw(3) == 0 && !active.empty()) {
      auto chosen = active.begin();
      std::advance(chosen, static_cast<std::ptrdiff_t>(draw(active.size())));
      if (holds.end({owned_word(42, chosen->first), chosen->first}, HoldState::kCancelled, now)
              .first)
        active.erase(chosen);
    } else {
      now = now + 3ns;
      while (holds.expire_one(now)) {
      }
      std::erase_if(active, [&](const auto& hold) {
        return holds.state({owned_word(42, hold.first), hold.first}, now) != HoldState::kActive;
      });
    }
    const Print print = prints[draw(prints.size())];
    std::multiset<std::uint64_t> expected;
    for (const auto& [number, at] : active) {
      if (std::find(at.begin(), at.end(), print) != at.end()) expected.insert(number);
    }
    ASSERT_EQ(numbers(holds.charged_at(print, 1'000)), expected) << step;
  }
}

TEST(HoldsByKey, AreToldUpToABoundAndAlsoWhenTheyWereRestored) {
  Holds holds{42, 10};
  for (std::uint64_t number = 1; number <= 4; ++number) {
    ASSERT_TRUE(holds.restore(number, kStart + 1s, charged_at({Print{9, 9}})));
  }
  EXPECT_EQ(holds.charged_at({9, 9}, 3).size(), 3u);
  EXPECT_EQ(holds.charged_at({9, 9}, 4).size(), 4u);
  EXPECT_EQ(holds.charged_at({9, 9}, 5).size(), 4u);
}

}  // namespace
}  // namespace weir::engine
