#include "weir/engine/print.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

Print of(const std::vector<std::string>& tuple, const Secret& secret = kSecret) {
  Print key;
  for (const std::string& value : tuple) key = with_value(secret, key, value);
  return print_for(seed_for(secret, "limit"), key);
}

TEST(Print, IsTheSameForTheSameTuple) { EXPECT_EQ(of({"ab", "c"}), of({"ab", "c"})); }

TEST(Print, TellsTuplesApartThatReadTheSameWhenJoined) {
  EXPECT_NE(of({"ab", "c"}), of({"a", "bc"}));
  EXPECT_NE(of({"abc"}), of({"ab", "c"}));
  EXPECT_NE(of({"", "a"}), of({"a", ""}));
  EXPECT_NE(of({"a"}), of({"a", ""}));
  EXPECT_NE(of({"", ""}), of({""}));
}

TEST(Print, DependsOnTheOrderOfATuple) { EXPECT_NE(of({"a", "b"}), of({"b", "a"})); }

TEST(Print, DependsOnEveryWordOfTheSecret) {
  for (std::size_t i = 0; i < kSecret.size(); ++i) {
    Secret other = kSecret;
    other[i] ^= 1;
    EXPECT_NE(of({"limit", "acme"}), of({"limit", "acme"}, other)) << "word " << i;
  }
}

TEST(Print, DependsOnWhichIsTheLimitAndWhichTheKey) {
  const auto print = [](std::string_view limit, std::string_view key) {
    return print_for(seed_for(kSecret, limit), with_value(kSecret, {}, key));
  };
  EXPECT_NE(print("a", "b"), print("b", "a"));
  EXPECT_NE(print("a", "x"), print("b", "x"));
  EXPECT_NE(print("a", "a"), print("b", "b"));
}

TEST(Print, LeavesSixteenBitsForTheTable) {
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(of({std::to_string(i)}).high & 0xffff, 0u);
}

TEST(Print, TellsAllLengthsApart) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const char filler : {'\0', 'x', '\xff'}) {
    for (std::size_t length = 0; length <= 64; ++length) {
      if (length == 0 && filler != '\0') continue;
      const Print print = of({std::string(length, filler)});
      EXPECT_TRUE(seen.emplace(print.low, print.high).second) << length << " times " << +filler;
    }
  }
}

TEST(Print, DependsOnEveryBitOfAValue) {
  for (std::size_t length = 1; length <= 40; ++length) {
    const std::string value(length, 'm');
    std::set<std::uint64_t> lows{of({value}).low};
    std::set<std::uint64_t> highs{of({value}).high};
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      std::string other = value;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
      EXPECT_TRUE(lows.insert(of({other}).low).second) << "bit " << bit << " of " << length;
      EXPECT_TRUE(highs.insert(of({other}).high).second) << "bit " << bit << " of " << length;
    }
  }
}

TEST(Print, MakesNoCollisionInAQuarterOfAMillionKeys) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> prints;
  for (int i = 0; i < 250'000; ++i) {
    const Print print = of({"limit", "client-" + std::to_string(i)});
    prints.emplace_back(print.low, print.high);
  }
  std::sort(prints.begin(), prints.end());
  EXPECT_EQ(std::adjacent_find(prints.begin(), prints.end()), prints.end());
}

// --- how evenly prints spread

// Families of keys as they come in practice.
std::vector<std::string> family(const std::string& name, int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) {
    char text[32];
    if (name == "numbers") {
      std::snprintf(text, sizeof text, "%d", i);
    } else if (name == "eight-digits") {
      std::snprintf(text, sizeof text, "%08d", i);
    } else if (name == "addresses") {
      std::snprintf(text, sizeof text, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
    } else if (name == "words") {
      const std::uint64_t word = static_cast<std::uint64_t>(i);
      keys.emplace_back(reinterpret_cast<const char*>(&word), sizeof word);
      continue;
    } else {
      std::snprintf(text, sizeof text, "client-%010d-eu", i);
    }
    keys.emplace_back(text);
  }
  return keys;
}

// How far the fullness of `boxes` equal boxes lies from chance, in standard
// deviations: about 0 for random numbers, large for clusters, negative for a grid.
double clustering(const std::vector<std::uint64_t>& places, std::size_t boxes) {
  std::vector<double> counts(boxes, 0);
  for (const std::uint64_t place : places) {
    counts[static_cast<std::size_t>((internal::Product{place} * boxes) >> 64)] += 1;
  }
  const double expected = static_cast<double>(places.size()) / static_cast<double>(boxes);
  double chi_square = 0;
  for (const double count : counts)
    chi_square += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(boxes - 1);
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

class PrintSpread : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int kKeys = 20'000;
  static constexpr std::uint64_t kSecrets = 16;
  static constexpr double kTooMuch = 8;  // of a few hundred draws, none comes near by chance

  // What `place` makes of each print of the family, under one secret.
  template <typename Place>
  static std::vector<std::uint64_t> places(std::uint64_t number, Place&& place) {
    Secret secret;
    std::mt19937_64 random(number);
    for (std::uint64_t& word : secret) word = random();
    const Print seed = seed_for(secret, "limit");
    std::vector<std::uint64_t> all;
    for (const std::string& key : family(GetParam(), kKeys)) {
      all.push_back(place(print_for(seed, with_value(secret, {}, key))));
    }
    return all;
  }
};

TEST_P(PrintSpread, IsEvenOverPlaces) {
  for (std::uint64_t number = 0; number < kSecrets; ++number) {
    const auto lows = places(number, [](Print print) { return print.low; });
    EXPECT_LT(clustering(lows, 4096), kTooMuch) << "secret " << number;
  }
}

TEST_P(PrintSpread, IsEvenOverShards) {
  for (std::uint64_t number = 0; number < kSecrets; ++number) {
    const auto highs = places(number, [](Print print) { return print.high; });
    EXPECT_LT(clustering(highs, kShardsMax), kTooMuch) << "secret " << number;
  }
}

TEST_P(PrintSpread, IsEvenOverThePlacesOfEachShard) {
  for (std::uint64_t number = 0; number < kSecrets; ++number) {
    const auto joint =
        places(number, [](Print print) { return (print.high >> 56) << 56 | print.low >> 8; });
    EXPECT_LT(clustering(joint, 256 * 16), kTooMuch) << "secret " << number;
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, PrintSpread,
                         ::testing::Values("numbers", "eight-digits", "addresses", "words",
                                           "names"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Secret, IsAnotherOneEveryTime) { EXPECT_NE(random_secret(), random_secret()); }

}  // namespace
}  // namespace weir::engine
