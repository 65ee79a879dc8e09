#include "weir/system/sampling/refused.h"

#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

engine::Print print_of(std::uint64_t number) { return {number, number << 16}; }

void note(Refused& refused, std::uint64_t number, std::int64_t tasks, Instant now = kStart) {
  refused.note(print_of(number), std::to_string(number), "r1", "E", 7, tasks, now);
}

TEST(Refused, ShowsTheMostRefusedFirst) {
  Refused refused;
  note(refused, 1, 5);
  note(refused, 2, 1);
  note(refused, 2, 1);
  note(refused, 3, 0);
  const std::vector<RefusedMiner> most = refused.most();
  ASSERT_EQ(most.size(), 3u);
  EXPECT_EQ(most[0].hotkey, "2");
  EXPECT_EQ(most[0].refusals, 2u);
  EXPECT_EQ(most[0].tasks, 2u);
  EXPECT_EQ(most[1].hotkey, "1");
  EXPECT_EQ(most[2].refusals, 0u) << "it has only used up what it may have";
}

TEST(Refused, KeepsSoManyAndSaysWhatMayBeAnothers) {
  Refused refused;
  for (std::uint64_t i = 1; i <= kRefusedKept; ++i) {
    note(refused, i, 1);
    note(refused, i, 1);
  }
  EXPECT_EQ(refused.size(), kRefusedKept);
  note(refused, 9'999, 0);
  EXPECT_EQ(refused.most().back().refusals, 2u) << "one that was refused nothing takes no place";
  note(refused, 9'999, 4);
  EXPECT_EQ(refused.size(), kRefusedKept);
  const RefusedMiner first = refused.most().front();
  EXPECT_EQ(first.hotkey, "9999");
  EXPECT_EQ(first.refusals, 3u);
  EXPECT_EQ(first.beyond, 2u);
  EXPECT_EQ(first.tasks, 4u);
}

TEST(Refused, ForgetsWhomNothingWasRefusedOfLate) {
  Refused refused;
  note(refused, 1, 1, kStart);
  note(refused, 2, 1, kStart + 1s);
  refused.forget(kStart);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused.most()[0].hotkey, "2");
}

}  // namespace
}  // namespace weir::system::sampling
