#include "weir/engine/internal/table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "weir/engine/meter.h"

namespace weir::engine {
namespace {

MeterShape window(std::int64_t limit) {
  return meter::WindowShape{limit, 1'000'000'000, meter::CalendarUnit::kDay};
}

TEST(Rows, InternANameAtOneAddress) {
  Rows rows;
  const std::string_view first = rows.intern("uploads");
  for (int i = 0; i < 1000; ++i) rows.intern("another-" + std::to_string(i));
  const std::string_view again = rows.intern(std::string("uploads"));
  EXPECT_EQ(first, "uploads");
  EXPECT_EQ(first.data(), again.data());
}

TEST(Rows, ShareARowForOneLimitInOneShape) {
  Rows rows;
  EXPECT_EQ(rows.add("a", window(1)), rows.add("a", window(1)));
  EXPECT_EQ(rows.size(), 1u);
}

TEST(Rows, TellShapesAndLimitsApart) {
  Rows rows;
  const std::set<RowId> ids{rows.add("a", window(1)), rows.add("a", window(2)),
                            rows.add("b", window(1)), rows.add("a", meter::SlotsShape{1, 0, 1})};
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_FALSE(ids.contains(0));
}

TEST(Rows, SayWhoseARowIsAndInWhichShape) {
  Rows rows;
  rows.add("a", window(1));
  const RowId id = rows.add("b", window(7));
  EXPECT_EQ(rows.at(id).limit, "b");
  EXPECT_EQ(rows.at(id).shape, window(7));
  EXPECT_TRUE(rows.at(id).alive);
}

TEST(Rows, DieWithTheirLimitAndWithNoOther) {
  Rows rows;
  const RowId first = rows.add("a", window(1));
  const RowId second = rows.add("a", window(2));
  const RowId other = rows.add("b", window(1));
  rows.retire("a");
  EXPECT_FALSE(rows.at(first).alive);
  EXPECT_FALSE(rows.at(second).alive);
  EXPECT_TRUE(rows.at(other).alive);
}

TEST(Rows, AreOthersWhenALimitReturns) {
  Rows rows;
  const RowId before = rows.add("a", window(1));
  rows.retire("a");
  const RowId after = rows.add("a", window(1));
  EXPECT_NE(before, after);
  EXPECT_FALSE(rows.at(before).alive);
  EXPECT_TRUE(rows.at(after).alive);
}

TEST(Rows, StayReadableForWhoeverHeldOneWhenItsLimitWent) {
  Rows rows;
  const Row& held = rows.at(rows.add("a", window(3)));
  rows.retire("a");
  EXPECT_EQ(held.shape, window(3));
}

TEST(Rows, IgnoreThatAnUnknownLimitGoes) {
  Rows rows;
  const RowId id = rows.add("a", window(1));
  rows.retire("nobody");
  EXPECT_TRUE(rows.at(id).alive);
}

TEST(Rows, RunOutAtTheirBoundAndNotBefore) {
  Rows rows;
  for (std::size_t i = 1; i < kRowsMax; ++i) {
    ASSERT_NE(rows.add("a", window(static_cast<std::int64_t>(i))), 0) << i;
  }
  EXPECT_EQ(rows.size(), kRowsMax - 1);
  EXPECT_EQ(rows.add("a", window(0)), 0);
  EXPECT_NE(rows.add("a", window(1)), 0);  // one that is there
}

// As it is when rules are refused for lack of rows: those in force go on.
TEST(Rows, LeaveALimitAsItIsWhenThereIsNoneForItsNewShape) {
  Rows rows;
  const RowId kept = rows.add("a", window(1));
  for (int i = 0; rows.add("b", window(i)) != 0; ++i) {
  }
  EXPECT_EQ(rows.add("a", meter::SlotsShape{1, 0, 1}), 0);
  EXPECT_EQ(rows.era("a"), 0u);
  EXPECT_EQ(rows.add("a", window(1)), kept);
}

TEST(Rows, AreGivenAgainOnceFreed) {
  Rows rows;
  std::vector<RowId> ids(kRowsMax);
  for (std::size_t i = 1; i < kRowsMax; ++i) {
    ids[i] = rows.add("a", window(static_cast<std::int64_t>(i)));
  }
  std::vector<bool> in_use(kRowsMax, false);
  in_use[ids[7]] = true;
  rows.free_unused(in_use);
  EXPECT_EQ(rows.size(), 1u);
  for (std::size_t i = 1; i + 1 < kRowsMax; ++i) {
    const RowId id = rows.add("b", window(static_cast<std::int64_t>(i)));
    ASSERT_NE(id, 0);
    ASSERT_NE(id, ids[7]);
  }
  EXPECT_EQ(rows.at(ids[7]).shape, window(7));
}

TEST(Rows, AreMadeAnewAfterTheyWereFreed) {
  Rows rows;
  rows.add("a", window(1));
  rows.free_unused(std::vector<bool>(kRowsMax, false));
  const RowId id = rows.add("a", window(1));
  ASSERT_NE(id, 0);
  EXPECT_EQ(rows.at(id).shape, window(1));
}

}  // namespace
}  // namespace weir::engine
