// Ebbs by themselves, against a list that keeps the ebb of each charge apart.

#include "weir/engine/internal/ebbs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "tests/support/exact.h"
#include "tests/support/seed.h"
#include "weir/engine/meter.h"

namespace weir::engine {
namespace ebbs_test {

constexpr Print kKey{7, 7 << 16};

MeterShape bucket(std::int64_t amount, std::int64_t burst) {
  return *make_shape(BucketSpec{amount, 1s, burst});
}

MeterShape ticker(std::int64_t burst) {
  return *make_shape(TickerSpec{.per_tick = 2, .interval = 300ms, .burst = burst});
}

// What is in use, of a bucket in parts of a nanosecond, of a ticker in units.
Exact in_use(const MeterShape& shape, const Words& words, Instant now) {
  if (const auto* bucket = std::get_if<meter::BucketShape>(&shape)) {
    const auto state = std::bit_cast<meter::BucketState>(words);
    if (state.full_at < now) return 0;
    return (Exact{state.full_at.ns} - now.ns) * bucket->num + state.full_at_parts;
  }
  const auto& ticker = std::get<meter::TickerShape>(shape);
  const auto state = std::bit_cast<meter::TickerState>(words);
  return std::max<Exact>(0, Exact{ticker.burst} - meter::level(ticker, state, now));
}

Exact use_of(const MeterShape& shape, std::int64_t units) {
  const auto* bucket = std::get_if<meter::BucketShape>(&shape);
  return bucket == nullptr ? Exact{units} : Exact{units} * bucket->den;
}

// One key with its meter, its ebbs, and the list.
class WatchedKey {
 public:
  WatchedKey(MeterShape shape, Instant now, Print print = kKey)
      : shape_(std::move(shape)), words_(initial_words(shape_, now)), now_(now), print_(print) {}

  void wait(Duration span) { now_ = now_ + span; }
  std::size_t charges() const { return charges_.size(); }
  Exact used() const { return in_use(shape_, words_, now_); }
  const Words& words() const { return words_; }

  void spend(std::int64_t units) {
    if (check(shape_, words_, blocks_, now_, units).allowed()) take(units);
  }
  // True: there was room.
  bool hold(Ebbs& ebbs, std::int64_t units) {
    if (!check(shape_, words_, blocks_, now_, units).allowed()) return false;
    lower_all(in_use(shape_, seen_, now_));
    take(units);
    seen_ = words_;
    const std::uint64_t mark = ebbs.charged(print_, shape_, words_, now_);
    charges_.push_back({{mark, units, now_}, used()});
    return true;
  }
  // Ends the i-th charge. Returns how much less came back than the list says.
  Exact end(Ebbs& ebbs, std::size_t i, std::int64_t back) {
    const Ebbs::Charge charge = charges_[i].charge;
    if (back == 0) {
      const Ebbs::End end(ebbs, print_, charge);
      charges_.erase(charges_.begin() + static_cast<std::ptrdiff_t>(i));
      return 0;
    }
    lower_all(in_use(shape_, seen_, now_));
    const Exact most = std::min({use_of(shape_, back), charges_[i].ebb, used()});
    const Exact before = used();
    Ebbs::End(ebbs, print_, charge).give_back(back, shape_, words_, now_);
    const Exact given = before - used();
    EXPECT_GE(given, 0);
    EXPECT_LE(given, most);
    for (std::size_t at = i; at < charges_.size(); ++at) lower(charges_[at], given);
    for (std::size_t at = 0; at < i; ++at) {
      charges_[at].ebb = std::min(charges_[at].ebb, charges_[i].ebb);
    }
    charges_.erase(charges_.begin() + static_cast<std::ptrdiff_t>(i));
    seen_ = words_;
    return most - given;
  }
  // A charge of another process ends, made at the instant that is now.
  void end_stranger(Ebbs& ebbs, std::int64_t units, std::int64_t back) {
    if (!charges_.empty()) lower_all(in_use(shape_, seen_, now_));
    const Exact before = used();
    const Exact most = std::min({use_of(shape_, back), use_of(shape_, units), before});
    Ebbs::End(ebbs, print_, {0, units, now_}).give_back(back, shape_, words_, now_);
    EXPECT_EQ(before - used(), most);
    for (Kept& kept : charges_) lower(kept, most);
    seen_ = words_;
  }
  // The i-th charge ends, and had cost more.
  void overdraw(Ebbs& ebbs, std::size_t i, std::int64_t units) {
    lower_all(in_use(shape_, seen_, now_));
    take(units);
    seen_ = words_;
    Ebbs::End(ebbs, print_, charges_[i].charge).overdrawn(shape_, words_, now_);
    charges_.erase(charges_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void reset(Ebbs& ebbs) {
    words_ = seen_ = initial_words(shape_, now_);
    for (Kept& kept : charges_) kept.ebb = 0;
    ebbs.drain(print_);
  }
  // Requires the same rate.
  void resize(Ebbs& ebbs, const MeterShape& to, Exact no_longer_fits) {
    if (to == shape_) return;
    lower_all(in_use(shape_, seen_, now_));
    const Words after = reshape(shape_, to, words_, blocks_, now_);
    ebbs.reshaped(print_, shape_, to, after, now_);
    for (Kept& kept : charges_) lower(kept, no_longer_fits);
    words_ = seen_ = after;
    shape_ = to;
  }

 private:
  struct Kept {
    Ebbs::Charge charge;
    Exact ebb;
  };
  void take(std::int64_t units) { charge(shape_, words_, blocks_, now_, units); }
  static void lower(Kept& kept, const Exact& by) { kept.ebb = std::max<Exact>(0, kept.ebb - by); }
  void lower_all(const Exact& ebb) {
    for (Kept& kept : charges_) kept.ebb = std::min(kept.ebb, ebb);
  }

  MeterShape shape_;
  Words words_;
  Words seen_{};  // what the last call that the ebbs have seen has left
  Instant now_;
  Print print_;
  LogBlocks blocks_{0};
  std::vector<Kept> charges_;  // outstanding, oldest first
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : numbers_(seed) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(numbers_() % static_cast<std::uint64_t>(end));
  }

 private:
  std::mt19937_64 numbers_;
};

// As long as few charges are outstanding each has an ebb of its own: all is as the list says.
TEST(Ebbs, GiveBackWhatAPlainListDoes) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  Random random(seed);
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    const bool is_bucket = round % 2 == 0;
    std::int64_t burst = 20;
    const auto shape = [&] { return is_bucket ? bucket(7, burst) : ticker(burst); };
    Ebbs ebbs;
    WatchedKey key(shape(), kStart);
    WatchedKey other(shape(), kStart, {8, 8 << 16});
    other.hold(ebbs, 3);
    for (int step = 0; step < 100; ++step) {
      key.wait(Duration{random.below(3) == 0 ? random.below(1'000'000'000) : random.below(3)});
      const bool has_charges = key.charges() > 0;
      const auto i = static_cast<std::size_t>(
          has_charges ? random.below(static_cast<std::int64_t>(key.charges())) : 0);
      switch (random.below(12)) {
        case 0:
          key.spend(1 + random.below(5));
          break;
        case 1:
        case 2:
        case 3:
          if (has_charges) {
            EXPECT_EQ(key.end(ebbs, i, random.below(6)), 0);
          }
          break;
        case 4:
          if (has_charges) key.overdraw(ebbs, i, 1 + random.below(4));
          break;
        case 5:
          if (random.below(8) == 0) key.reset(ebbs);
          break;
        case 6:
          key.end_stranger(ebbs, 1 + random.below(4), 1 + random.below(4));
          break;
        case 7: {
          const std::int64_t before = std::exchange(burst, 10 + random.below(20));
          key.resize(ebbs, shape(), is_bucket ? 0 : std::max<std::int64_t>(0, before - burst));
          break;
        }
        default:
          if (key.charges() < kEbbsMax / 2 - 1) key.hold(ebbs, 1 + random.below(4));
      }
      ASSERT_EQ(ebbs.size(), key.charges() > 0 ? 2u : 1u);
    }
    while (key.charges() > 0) EXPECT_EQ(key.end(ebbs, 0, 1), 0);
    EXPECT_EQ(other.end(ebbs, 0, 3), 0);
    EXPECT_EQ(ebbs.size(), 0u);
  }
}

// However many charges share an entry, none gets more back than by itself. With thousands that end
// in any order all together get about five sixths of it.
TEST(Ebbs, NeverGiveMoreThanAPlainListHoweverManyChargesThereAre) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  Random random(seed);
  Ebbs ebbs;
  const MeterShape shape = bucket(7, 100'000);
  WatchedKey key(shape, kStart);
  Exact missing = 0;
  Exact wanted = 0;
  for (int step = 0; step < 20'000; ++step) {
    key.wait(Duration{random.below(100'000'000)});
    const bool grows = step < 12'000;
    if (random.below(10) < (grows ? 7 : 3) || key.charges() == 0) {
      key.hold(ebbs, 1 + random.below(4));
      continue;
    }
    const auto i = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(key.charges())));
    const std::int64_t back = 1 + random.below(4);
    wanted += use_of(shape, back);
    missing += key.end(ebbs, i, back);
  }
  EXPECT_LT(3 * missing, wanted) << missing << " of " << wanted;
  while (key.charges() > 0) key.end(ebbs, key.charges() - 1, 1);
  EXPECT_EQ(ebbs.size(), 0u);
}

// Each of these charges left more in use than the one before, so each has an entry of its own until
// there are too many. Then the first of those that share one take what it has, and what they
// leave is there for all that came later.
TEST(Ebbs, AreThinnedOutBeyondTheBound) {
  const MeterShape shape = bucket(1, 1000);
  for (const std::size_t count : {kEbbsMax / 2, kEbbsMax, 8 * kEbbsMax}) {
    Ebbs ebbs;
    WatchedKey key(shape, kStart);
    for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(key.hold(ebbs, 1));
    Exact missing = 0;
    while (key.charges() > 0) missing += key.end(ebbs, 0, 1);
    // An entry stands for as many as were outstanding for half the bound, and two become one.
    const auto sharing = static_cast<std::int64_t>(2 * count / (kEbbsMax / 2));
    EXPECT_LT(missing, use_of(shape, sharing)) << count;
    if (count < kEbbsMax) {
      EXPECT_EQ(missing, 0);
    }
    EXPECT_EQ(key.used(), missing);
  }
}

TEST(Ebbs, GiveEachChargeAMarkOfItsOwnAndForgetAKeyWithItsLast) {
  Ebbs ebbs;
  const MeterShape shape = bucket(1, 10);
  Words words = initial_words(shape, kStart);
  LogBlocks blocks(0);
  charge(shape, words, blocks, kStart, 4);
  const std::uint64_t first = ebbs.charged(kKey, shape, words, kStart);
  const std::uint64_t second = ebbs.charged(kKey, shape, words, kStart);
  EXPECT_NE(first, 0u);
  EXPECT_LT(first, second);
  { const Ebbs::End end(ebbs, kKey, {second, 4, kStart}); }
  EXPECT_EQ(ebbs.size(), 1u);
  { const Ebbs::End end(ebbs, kKey, {first, 4, kStart}); }
  EXPECT_EQ(ebbs.size(), 0u);
  // The key is met again: a charge that was over before is none of its record.
  EXPECT_LT(second, ebbs.charged(kKey, shape, words, kStart));
  { const Ebbs::End end(ebbs, kKey, {first, 4, kStart}); }
  { const Ebbs::End end(ebbs, kKey, {0, 4, kStart}); }
  EXPECT_EQ(ebbs.size(), 1u);
}

// Under another kind of meter nothing comes back, and a charge still ends.
TEST(Ebbs, OfAMeterThatBecameAnotherKindAreNothing) {
  Ebbs ebbs;
  const MeterShape before = bucket(1, 10);
  const MeterShape after = ticker(10);
  Words words = initial_words(before, kStart);
  LogBlocks blocks(0);
  charge(before, words, blocks, kStart, 4);
  const std::uint64_t mark = ebbs.charged(kKey, before, words, kStart);
  words = reshape(before, after, words, blocks, kStart);
  ebbs.reshaped(kKey, before, after, words, kStart);
  const Words kept = words;
  Ebbs::End(ebbs, kKey, {mark, 4, kStart}).give_back(4, after, words, kStart);
  EXPECT_EQ(words, kept);
  EXPECT_EQ(ebbs.size(), 0u);
}

}  // namespace ebbs_test
}  // namespace weir::engine
