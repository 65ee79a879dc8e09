#include "weir/base/keyed_word.h"

#include <gtest/gtest.h>

#include <set>

namespace weir {
namespace {

// The key 00 01 … 0f and the message 00 01 … 07, as published with SipHash.
TEST(KeyedWord, IsThatOfThePublishedExample) {
  constexpr WordKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(keyed_word(kKey, 0x0706050403020100), 0x93f5f5799a932462);
}

TEST(KeyedWord, TellsNothingOfTheOwnerOrItsNeighbours) {
  std::set<std::uint64_t> words;
  for (std::uint64_t owner : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    for (std::uint64_t number = 1; number <= 1000; ++number) {
      words.insert(owned_word(owner, number));
    }
  }
  EXPECT_EQ(words.size(), 3000u);
}

}  // namespace
}  // namespace weir
