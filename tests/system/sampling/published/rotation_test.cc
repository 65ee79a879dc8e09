#include "weir/system/sampling/published/rotation.h"

#include <gmock/gmock.h>

#include <numeric>

namespace weir::system::sampling {
namespace {

using ::testing::ElementsAre;

ListChange change(std::size_t have, std::int64_t sampling_count, std::int64_t rotation_count,
                  std::int64_t dataset = 100) {
  std::vector<std::int64_t> list(have);
  std::iota(list.begin(), list.end(), 0);
  return rotate(list, {{{0, dataset}}, sampling_count, rotation_count});
}

void expect(const ListChange& made, std::size_t removed, std::size_t added) {
  EXPECT_EQ(made.removed, removed);
  EXPECT_EQ(made.added, added);
}

TEST(ListRotation, MovesAFullListOn) { expect(change(10, 10, 3), 3, 3); }
TEST(ListRotation, OnlyFillsAShortList) { expect(change(6, 10, 3), 0, 4); }
TEST(ListRotation, CutsALongList) { expect(change(14, 10, 3), 7, 3); }
TEST(ListRotation, LeavesEverythingForANegativeCount) {
  expect(change(6, 10, -1), 0, 0);
  expect(change(6, -1, 1), 0, 0);
}
TEST(ListRotation, RemovesNoMoreThanThereIs) { expect(change(12, 10, 20), 12, 20); }

TEST(ListRotation, StopsAtFourFifthsOfTheDataset) {
  expect(change(10, 10, 6, 20), 6, 6);
  expect(change(10, 10, 7, 20), 0, 0);
}

TEST(ListRotation, StopsWhenTooFewIdsAreUnused) {
  expect(change(15, 10, 5, 20), 10, 5);
  expect(change(15, 10, 6, 20), 0, 0);
}

TEST(ListRotation, IsDueAtExactlyItsInterval) {
  EXPECT_FALSE(is_rotation_due(3599, 0, 3600));
  EXPECT_TRUE(is_rotation_due(3600, 0, 3600));
}

TEST(ListRotation, OffersTheIdsThatAreNotInTheList) {
  EXPECT_THAT(
      unused_ids(std::vector<std::int64_t>{3, 1, 11}, std::vector<IdRange>{{0, 4}, {10, 12}}),
      ElementsAre(0, 2, 10));
}

TEST(ListRotation, TakesAnIdOfSeveralRangesForOne) {
  const std::vector<IdRange> overlapping{{4, 8}, {0, 6}, {9, 9}, {12, 3}, {7, 10}};  // 0 to 9
  EXPECT_THAT(unused_ids(std::vector<std::int64_t>{1, 5}, overlapping),
              ElementsAre(0, 2, 3, 4, 6, 7, 8, 9));
  std::vector<std::int64_t> list{0, 1, 2, 3, 4, 5};
  expect(rotate(list, {overlapping, 6, 2}), 2, 2);
  expect(rotate(list, {overlapping, 6, 3}), 0, 0);  // 9 of 10 are more than four fifths
}

}  // namespace
}  // namespace weir::system::sampling
