#include "weir/system/sampling/reservations.h"

#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

Record of(std::uint64_t number, Instant at = kStart) {
  return {.at = at, .units = 1, .reservation = number};
}

TEST(Reservations, AreFoundUntilTheyEnd) {
  Reservations reservations(100);
  for (const std::uint64_t number : {3u, 5u, 8u}) reservations.add(of(number));
  EXPECT_EQ(reservations.find(5)->reservation, 5u);
  EXPECT_EQ(reservations.find(4), nullptr);
  reservations.erase(5);
  reservations.erase(5);
  EXPECT_EQ(reservations.find(5), nullptr);
  EXPECT_EQ(reservations.find(8)->reservation, 8u);
  EXPECT_EQ(reservations.size(), 2u);
}

TEST(Reservations, LeaveTheWindow) {
  Reservations reservations(100);
  reservations.add(of(1, kStart));
  reservations.add(of(2, kStart + 1s));
  reservations.drop_old(1h, kStart + 1h);
  EXPECT_EQ(reservations.find(1), nullptr);
  EXPECT_NE(reservations.find(2), nullptr);
  EXPECT_EQ(reservations.size(), 1u);
}

TEST(Reservations, AreFinalBeyondTheirBound) {
  Reservations reservations(2);
  for (const std::uint64_t number : {1u, 2u, 3u}) reservations.add(of(number));
  EXPECT_EQ(reservations.size(), 2u);
  EXPECT_EQ(reservations.find(1), nullptr);
  EXPECT_NE(reservations.find(3), nullptr);
}

// Whoever keeps one open must not make those that end pile up behind it.
TEST(Reservations, TakeNoMemoryForThoseThatHaveEnded) {
  Reservations reservations(kReservationsKept);
  reservations.add(of(1));
  for (std::uint64_t number = 2; number < 1'000'000; ++number) {
    reservations.add(of(number));
    reservations.erase(number);
  }
  EXPECT_EQ(reservations.size(), 1u);
  EXPECT_NE(reservations.find(1), nullptr);
  EXPECT_LE(reservations.bytes(), 1100 * sizeof(Record));
}

TEST(Reservations, RememberHowSoManyWereEnded) {
  Reservations reservations(2);
  for (const std::uint64_t number : {3u, 1u, 2u}) reservations.remember(number, {1, 0}, kStart);
  EXPECT_EQ(reservations.end_of(3), nullptr);
  EXPECT_EQ(reservations.end_of(2)->created, 1);
  EXPECT_EQ(reservations.ended(), 2u);
  reservations.take_back(2);
  EXPECT_EQ(reservations.end_of(2), nullptr);
  reservations.forget_old(kStart - 1ns);
  EXPECT_NE(reservations.end_of(1), nullptr);
  reservations.forget_old(kStart);
  EXPECT_EQ(reservations.ended(), 0u);
}

// As only a file has it that was changed by hand.
TEST(Reservations, AreFinalAtOnceIfTheirNumberIsNotAboveAllOthers) {
  Reservations reservations(100);
  reservations.add(of(7));
  reservations.add(of(6));
  reservations.add(of(7));
  EXPECT_EQ(reservations.size(), 1u);
  EXPECT_EQ(reservations.find(6), nullptr);
  EXPECT_GT(reservations.next_number(Instant{}), 7u);
}

}  // namespace
}  // namespace weir::system::sampling
