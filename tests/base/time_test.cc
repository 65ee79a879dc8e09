#include "weir/base/time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1'700'000'000'000'000'000};
constexpr Instant kEarliest{std::numeric_limits<std::int64_t>::min()};

TEST(Instant, IsTheEpochByDefault) { static_assert(Instant{}.ns == 0); }

TEST(Instant, IsOrderedByTime) {
  static_assert(kStart < kStart + 1ns);
  static_assert(kStart > kStart - 1ns);
  static_assert(kStart == Instant{kStart.ns});
  static_assert(kStart < kForever);
}

TEST(Instant, MovesByADuration) {
  static_assert((kStart + 1500ms).ns == kStart.ns + 1'500'000'000);
  static_assert((kStart - 1500ms).ns == kStart.ns - 1'500'000'000);
  static_assert(kStart + -1s == kStart - 1s);
}

TEST(Instant, DiffersByADuration) {
  static_assert((kStart + 3s) - kStart == 3s);
  static_assert(kStart - (kStart + 3s) == -3s);
}

TEST(Instant, SaturatesAtForever) {
  static_assert(kForever - 1ns + 1ns == kForever);
  static_assert(kForever + 1ns == kForever);
  static_assert(kForever + Duration::max() == kForever);
  static_assert(kForever - Duration::min() == kForever);
}

TEST(Instant, SaturatesAtTheEarliest) {
  static_assert(kEarliest - 1ns == kEarliest);
  static_assert(kEarliest + Duration::min() == kEarliest);
}

TEST(Instant, DiffersByNoMoreThanADurationHolds) {
  static_assert(kForever - kEarliest == Duration::max());
  static_assert(kEarliest - kForever == Duration::min());
  static_assert(kForever - Instant{0} == Duration::max());
}

TEST(Instant, HasALastOneThatMetersAccept) {
  static_assert(kInstantNsMax == 4'611'686'018'427'387'903);
  static_assert(Instant{kInstantNsMax} + 1ns == Instant{kTermMax});
}

TEST(LaterOf, PicksTheLater) {
  static_assert(later_of(kStart, kStart + 1ns) == kStart + 1ns);
  static_assert(later_of(kStart + 1ns, kStart) == kStart + 1ns);
  static_assert(later_of(kStart, kStart) == kStart);
}

TEST(EarlierOf, PicksTheEarlier) {
  static_assert(earlier_of(kStart, kStart + 1ns) == kStart);
  static_assert(earlier_of(kStart + 1ns, kStart) == kStart);
  static_assert(earlier_of(kStart, kForever) == kStart);
}

}  // namespace
}  // namespace weir
