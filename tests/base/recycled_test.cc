#include "weir/base/recycled.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace weir {
namespace {

struct Large {
  std::array<char, 2000> bytes{};
};

std::shared_ptr<Large> make() { return std::allocate_shared<Large>(Recycled<Large>()); }

TEST(Recycled, UsesMemoryAgain) {
  const Large* const first = make().get();
  const std::shared_ptr<Large> second = make();
  if (internal::kRecycles) {
    EXPECT_EQ(first, second.get());
  }
  EXPECT_NE(make(), nullptr);
}

TEST(Recycled, GivesEachObjectMemoryOfItsOwnBeyondItsBoundToo) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<Large>> all;
    for (std::size_t i = 0; i < kRecycledMax + 10; ++i) {
      all.push_back(make());
      all.back()->bytes.fill(static_cast<char>(i % 100));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i]->bytes.front(), static_cast<char>(i % 100));
      ASSERT_EQ(all[i]->bytes.back(), static_cast<char>(i % 100));
    }
  }
}

TEST(Recycled, LetsAnObjectEndOnAnotherThread) {
  std::vector<std::shared_ptr<Large>> all;
  for (int i = 0; i < 20; ++i) all.push_back(make());
  std::thread([made = std::move(all)]() mutable { made.clear(); }).join();
  EXPECT_NE(make(), nullptr);
}

}  // namespace
}  // namespace weir
