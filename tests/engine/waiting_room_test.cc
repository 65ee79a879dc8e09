#include "weir/engine/internal/waiting.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "tests/engine/support.h"

namespace weir::engine {
namespace {

constexpr Print kDoor{1, 1 << 16};
constexpr Print kOtherDoor{2, 1 << 16};

struct WaitRoomTest : ::testing::Test {
  Waiter& arrive(Instant deadline = kForever) {
    auto waiter = std::make_unique<Waiter>(Request{});
    waiter->deadline = deadline;
    return room.add(std::move(waiter));
  }
  Waiter& arrive_at(Print print, std::int64_t cost) {
    Waiter& waiter = arrive();
    room.take_place(waiter, {print, print, cost, nullptr});
    return waiter;
  }

  std::atomic<std::uint64_t> next_ticket{1};
  WaitRoom room{next_ticket};
};

TEST_F(WaitRoomTest, GivesEverybodyAHigherTicketThanThoseBefore) {
  const std::uint64_t first = arrive().ticket;
  const std::uint64_t second = arrive().ticket;
  EXPECT_GT(first, 0u);
  EXPECT_GT(second, first);
}

TEST_F(WaitRoomTest, NeverGivesATicketTwice) {
  const std::uint64_t first = arrive().ticket;
  room.remove(first);
  EXPECT_GT(arrive().ticket, first);
}

TEST_F(WaitRoomTest, FindsWhoIsThereAndNobodyElse) {
  Waiter& waiter = arrive();
  const std::uint64_t ticket = waiter.ticket;
  EXPECT_EQ(room.find(ticket), &waiter);
  EXPECT_EQ(room.size(), 1u);
  EXPECT_NE(room.remove(ticket), nullptr);
  EXPECT_EQ(room.find(ticket), nullptr);
  EXPECT_EQ(room.remove(ticket), nullptr);
  EXPECT_EQ(room.size(), 0u);
}

TEST_F(WaitRoomTest, ListsTicketsOldestFirst) {
  const std::uint64_t first = arrive().ticket;
  const std::uint64_t second = arrive().ticket;
  EXPECT_EQ(room.tickets(), (std::vector{first, second}));
}

TEST_F(WaitRoomTest, KnowsWhoHasAPlaceWhere) {
  Waiter& waiter = arrive_at(kDoor, 3);
  EXPECT_TRUE(WaitRoom::has_place(waiter, kDoor));
  EXPECT_FALSE(WaitRoom::has_place(waiter, kOtherDoor));
  EXPECT_EQ(room.waiting_at(kDoor), 1u);
  EXPECT_EQ(room.waiting_at(kOtherDoor), 0u);
}

TEST_F(WaitRoomTest, KnowsTheOldestAtADoor) {
  EXPECT_EQ(room.oldest_at(kDoor), 0u);
  const std::uint64_t first = arrive_at(kDoor, 1).ticket;
  const std::uint64_t second = arrive_at(kDoor, 1).ticket;
  EXPECT_EQ(room.oldest_at(kDoor), first);
  EXPECT_FALSE(room.older_at(kDoor, first));
  EXPECT_TRUE(room.older_at(kDoor, second));
  EXPECT_FALSE(room.older_at(kOtherDoor, second));
}

TEST_F(WaitRoomTest, PutsAnOlderOneAheadThoughItComesToADoorLater) {
  Waiter& first = arrive_at(kOtherDoor, 1);
  const Waiter& second = arrive_at(kDoor, 1);
  ASSERT_EQ(room.oldest_at(kDoor), second.ticket);
  room.take_place(first, {kDoor, kDoor, 1, nullptr});
  EXPECT_EQ(room.oldest_at(kDoor), first.ticket);
  EXPECT_TRUE(room.older_at(kDoor, second.ticket));
}

TEST_F(WaitRoomTest, AddsUpWhatThoseAheadWant) {
  const Waiter& first = arrive_at(kDoor, 3);
  const Waiter& second = arrive_at(kDoor, 4);
  const Waiter& newcomer = arrive();
  EXPECT_EQ(room.ahead_at(kDoor, first.ticket).units, 0);
  EXPECT_EQ(room.ahead_at(kDoor, second.ticket).units, 3);
  EXPECT_EQ(room.ahead_at(kDoor, newcomer.ticket).units, 7);
  EXPECT_EQ(room.ahead_at(kOtherDoor, newcomer.ticket).units, 0);
}

// Whoever comes and goes between two questions, in whichever order these are.
TEST_F(WaitRoomTest, AddsUpThoseAheadWhateverHappenedSinceItWasAskedLast) {
  std::vector<Waiter*> there;
  for (std::int64_t cost = 1; cost <= 40; ++cost) there.push_back(&arrive_at(kDoor, cost));
  const auto expect_sums = [&](std::size_t place) {
    WaitRoom::Ahead ahead;
    for (std::size_t i = 0; i < place; ++i) {
      if (!WaitRoom::has_place(*there[i], kDoor)) continue;
      ahead.count += 1;
      ahead.units += static_cast<std::int64_t>(i) + 1;
    }
    EXPECT_EQ(room.ahead_at(kDoor, there[place]->ticket).count, ahead.count) << place;
    EXPECT_EQ(room.ahead_at(kDoor, there[place]->ticket).units, ahead.units) << place;
  };
  for (std::size_t step = 0; step < 400; ++step) {
    const std::size_t moved = step * 7 % 40;
    if (WaitRoom::has_place(*there[moved], kDoor)) {
      room.leave_place(*there[moved], kDoor);
    } else {
      room.take_place(*there[moved], {kDoor, kDoor, static_cast<std::int64_t>(moved) + 1, nullptr});
    }
    if (room.waiting_at(kDoor) > 0) expect_sums(step * 11 % 40);
  }
}

TEST_F(WaitRoomTest, AddsUpToNoMoreThanExactArithmeticCovers) {
  arrive_at(kDoor, kTermMax);
  arrive_at(kDoor, kTermMax);
  EXPECT_EQ(room.ahead_at(kDoor, arrive().ticket).units, kTermMax);
}

TEST_F(WaitRoomTest, KnowsWhoIsLeftAtADoor) {
  Waiter& first = arrive_at(kDoor, 3);
  Waiter& second = arrive_at(kDoor, 4);
  room.leave_place(first, kDoor);
  EXPECT_EQ(room.ahead_at(kDoor, arrive().ticket).units, 4);
  room.leave_place(second, kDoor);
  EXPECT_EQ(room.waiting_at(kDoor), 0u);
}

TEST_F(WaitRoomTest, FindsTheOldestOfEveryQueueAtADoor) {
  constexpr Print kFirstQueue{kDoor.low ^ 1, kDoor.high};
  constexpr Print kSecondQueue{kDoor.low ^ 2, kDoor.high};
  Waiter& first = arrive();
  Waiter& second = arrive();
  Waiter& third = arrive();
  room.take_place(third, {kDoor, kFirstQueue, 1, nullptr});
  room.take_place(first, {kDoor, kFirstQueue, 1, nullptr});
  room.take_place(second, {kDoor, kSecondQueue, 1, nullptr});
  std::set<std::uint64_t> oldest;
  room.add_oldest_of(kDoor, oldest);
  EXPECT_EQ(oldest, (std::set<std::uint64_t>{first.ticket, second.ticket}));
  EXPECT_FALSE(room.older_at(kSecondQueue, second.ticket));

  room.leave_place(second, kSecondQueue);
  room.leave_place(first, kFirstQueue);
  oldest.clear();
  room.add_oldest_of(kDoor, oldest);
  EXPECT_EQ(oldest, std::set<std::uint64_t>{third.ticket});
}

TEST_F(WaitRoomTest, LeavesOtherPlacesAlone) {
  Waiter& waiter = arrive_at(kDoor, 3);
  room.take_place(waiter, {kOtherDoor, kOtherDoor, 1, nullptr});
  room.leave_place(waiter, kDoor);
  EXPECT_FALSE(WaitRoom::has_place(waiter, kDoor));
  EXPECT_TRUE(WaitRoom::has_place(waiter, kOtherDoor));
}

TEST_F(WaitRoomTest, IsDueAtTheEarlierOfDeadlineAndNextTry) {
  EXPECT_EQ(room.next_due(), kForever);
  Waiter& waiter = arrive(kStart + 10s);
  EXPECT_EQ(room.next_due(), kStart + 10s);
  room.set_timer(waiter, kStart + 3s);
  EXPECT_EQ(room.next_due(), kStart + 3s);
  room.set_timer(waiter, kStart + 30s);
  EXPECT_EQ(room.next_due(), kStart + 10s);
  room.remove(waiter.ticket);
  EXPECT_EQ(room.next_due(), kForever);
}

TEST_F(WaitRoomTest, ListsThoseWhoseTimeHasComeOldestFirst) {
  const std::uint64_t late = arrive(kStart + 2s).ticket;
  const std::uint64_t soon = arrive(kStart + 1s).ticket;
  EXPECT_TRUE(room.due(kStart + 1s - 1ns).empty());
  EXPECT_EQ(room.due(kStart + 1s), std::vector{soon});
  EXPECT_EQ(room.due(kStart + 2s), (std::vector{late, soon}));
}

}  // namespace
}  // namespace weir::engine
