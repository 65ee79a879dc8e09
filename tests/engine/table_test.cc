#include "weir/engine/internal/table.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/support.h"

namespace weir::engine {
namespace {

constexpr std::size_t kKeysOfAShard = 9;  // with keys_max = 256: one each, and a margin
constexpr std::uint64_t kFlags = meta::kOverride | meta::kWaiters | meta::kDirty;

// A table of one limit, with a row for each kind of meter. Everything happens in shard 0.
struct TableTest : ::testing::Test {
  explicit TableTest(std::size_t keys_max = 256, WhenFull when_full = WhenFull::kRefuse)
      : table(keys_max, 1'000'000, when_full, rows) {
    table.share_out(std::vector<std::size_t>{keys_max});
  }

  static Print print(std::uint64_t low) { return {low, 1 << 16}; }

  Slot* insert(std::uint64_t low, RowId row, Words words = {}, Instant now = kStart) {
    const std::scoped_lock lock(shard);
    return table.insert(shard, print(low), row, words, now);
  }
  Slot* find(std::uint64_t low) {
    const std::scoped_lock lock(shard);
    return table.find(shard, print(low));
  }
  std::size_t sweep(Instant now, std::size_t slots_max = 1 << 20) {
    const std::scoped_lock lock(shard);
    return table.sweep(shard, now, slots_max);
  }
  void flag(std::uint64_t low, std::uint64_t flags) {
    const std::scoped_lock lock(shard);
    Slot* slot = table.find(shard, print(low));
    slot->set_meta(slot->meta() | flags);
  }

  static Words full_at(Instant at) { return std::bit_cast<Words>(meter::BucketState{at, 0}); }
  static Words counted(Instant begin, std::int64_t count) {
    return std::bit_cast<Words>(meter::WindowState{begin, count});
  }
  static Words in_flight(std::int64_t count) {
    return std::bit_cast<Words>(meter::SlotsState{count, 0});
  }

  Rows rows;
  RowId bucket = rows.add("limit", *make_shape(BucketSpec{1, 1s}));
  RowId window = rows.add("limit", *make_shape(WindowSpec{9, 1min}));
  RowId slots = rows.add("limit", *make_shape(SlotsSpec{.limit = 9}));
  Table table;
  Shard& shard = table.shard(0);
};

TEST_F(TableTest, FindsWhatWasInserted) {
  insert(7, bucket, full_at(kStart + 5s));
  Slot* slot = find(7);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->row(), bucket);
  EXPECT_EQ(slot->words(), full_at(kStart + 5s));
}

TEST_F(TableTest, FindsNothingElse) {
  insert(7, bucket);
  EXPECT_EQ(find(8), nullptr);
  const std::scoped_lock lock(shard);
  EXPECT_EQ(table.find(shard, Print{7, 2 << 16}), nullptr);
}

TEST_F(TableTest, ReadsWithoutALockWhatIsThere) {
  insert(7, bucket, full_at(kStart + 5s));
  Words words;
  ASSERT_TRUE(Table::read_plain(shard, print(7), bucket, words));
  EXPECT_EQ(words, full_at(kStart + 5s));
  EXPECT_FALSE(Table::read_plain(shard, print(8), bucket, words));
}

TEST_F(TableTest, ReadsNothingWhileSomebodyWrites) {
  insert(7, bucket);
  Words words;
  const std::scoped_lock lock(shard);
  EXPECT_FALSE(Table::read_plain(shard, print(7), bucket, words));
}

TEST_F(TableTest, ReadsWithoutALockOnlyWhatIsPlain) {
  insert(7, bucket);
  const auto is_read = [&](RowId row) {
    Words words;
    return Table::read_plain(shard, print(7), row, words);
  };
  EXPECT_TRUE(is_read(bucket));
  EXPECT_FALSE(is_read(slots));
  for (const std::uint64_t dirty : {std::uint64_t{0}, meta::kDirty}) {
    find(7)->set_meta(bucket | dirty);
    EXPECT_TRUE(is_read(bucket));
    find(7)->set_meta(bucket | dirty | meta::kOverride);
    EXPECT_FALSE(is_read(bucket));
    find(7)->set_meta(bucket | dirty | meta::kWaiters);
    EXPECT_FALSE(is_read(bucket));
  }
}

TEST_F(TableTest, KeepsTheFlagsBesideTheRow) {
  insert(7, bucket);
  flag(7, kFlags);
  EXPECT_EQ(find(7)->row(), bucket);
  EXPECT_EQ(find(7)->meta(), bucket | kFlags);
}

TEST_F(TableTest, CountsItsKeys) {
  insert(1, slots, in_flight(1));
  insert(2, slots, in_flight(1));
  EXPECT_EQ(table.size(), 2u);
  const std::scoped_lock lock(shard);
  table.erase(shard, table.find(shard, print(1)));
  EXPECT_EQ(table.size(), 1u);
}

// --- sweeping

TEST_F(TableTest, SweepsOnlyMetersInTheirInitialState) {
  insert(1, bucket, full_at(kStart));
  insert(2, bucket, full_at(kStart + 1ns));
  insert(3, window, counted(kStart, 1));
  insert(4, window, counted(kStart - 1min, 1));
  insert(5, slots, in_flight(0));
  insert(6, slots, in_flight(1));
  EXPECT_EQ(sweep(kStart), 3u);
  EXPECT_EQ(find(1), nullptr);
  EXPECT_NE(find(2), nullptr);
  EXPECT_NE(find(3), nullptr);
  EXPECT_EQ(find(4), nullptr);
  EXPECT_EQ(find(5), nullptr);
  EXPECT_NE(find(6), nullptr);
}

TEST_F(TableTest, SweepsNoMeterWithWaitersOrParametersOfItsOwn) {
  insert(1, bucket);
  flag(1, meta::kWaiters);
  insert(2, bucket);
  flag(2, meta::kOverride);
  EXPECT_EQ(sweep(kStart), 0u);
}

TEST_F(TableTest, SweepsMetersWhoseLimitIsGoneUnlessSomebodyWaits) {
  insert(1, bucket, full_at(kStart + 1h));
  insert(2, bucket, full_at(kStart + 1h));
  flag(2, meta::kOverride);
  insert(3, bucket, full_at(kStart + 1h));
  flag(3, meta::kWaiters);
  rows.retire("limit");
  EXPECT_EQ(sweep(kStart), 2u);
  EXPECT_NE(find(3), nullptr);
}

TEST_F(TableTest, SweepsABoundedPartAndGoesOnWhereItStopped) {
  for (std::uint64_t i = 0; i < kKeysOfAShard; ++i) insert(i << 60, bucket);
  std::size_t dropped = 0;
  for (int part = 0; part < 64 && table.size() > 0; ++part) {
    const std::size_t now_dropped = sweep(kStart, 4);
    EXPECT_LE(now_dropped, 4u);
    dropped += now_dropped;
  }
  EXPECT_EQ(dropped, kKeysOfAShard);
}

TEST_F(TableTest, GivesTheBlocksOfASweptLogBack) {
  const RowId log = rows.add("limit", *make_shape(LogSpec{9, 1s}));
  LogBlocks& blocks = table.logs;
  meter::LogState state;
  ASSERT_TRUE(blocks.reserve(state, 1));
  insert(1, log, std::bit_cast<Words>(state));
  ASSERT_EQ(sweep(kStart), 1u);
  meter::LogState next;
  ASSERT_TRUE(blocks.reserve(next, 1));
  EXPECT_EQ(next.block, state.block);
}

// --- the bound

TEST_F(TableTest, SweepsAllOfAShardInOnePassHoweverManyGo) {
  std::size_t inserted = 0;
  while (inserted < kKeysOfAShard &&
         insert(inserted * 7, bucket, full_at(kStart + 1h)) != nullptr) {
    inserted += 1;
  }
  rows.retire("limit");
  const std::scoped_lock lock(shard);
  EXPECT_EQ(table.sweep(shard, kStart, shard.capacity), inserted);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(TableTest, RefusesOneKeyBeyondItsBound) {
  for (std::uint64_t i = 0; i < kKeysOfAShard; ++i) {
    ASSERT_NE(insert(i, slots, in_flight(1)), nullptr) << i;
  }
  EXPECT_EQ(insert(99, slots, in_flight(1)), nullptr);
  EXPECT_EQ(find(99), nullptr);
  EXPECT_EQ(table.size(), kKeysOfAShard);
}

TEST_F(TableTest, TakesANewKeyAtItsBoundOnceAnotherIsInItsInitialState) {
  for (std::uint64_t i = 0; i < kKeysOfAShard; ++i) {
    insert(i, bucket, full_at(kStart + Duration{static_cast<std::int64_t>(i)}));
  }
  ASSERT_EQ(insert(99, bucket, full_at(kStart + 1h), kStart - 1ns), nullptr);
  EXPECT_NE(insert(99, bucket, full_at(kStart + 1h), kStart), nullptr);
  EXPECT_EQ(find(0), nullptr);
}

// Not for each key that somebody invents.
TEST_F(TableTest, LooksThroughAFullShardEveryTenMilliseconds) {
  for (std::uint64_t i = 0; i < kKeysOfAShard; ++i) insert(i, bucket, full_at(kStart + 1h));
  ASSERT_EQ(insert(99, bucket, full_at(kStart + 1h)), nullptr);
  find(3)->set_words(full_at(kStart));  // it was given everything back
  EXPECT_EQ(insert(99, bucket, full_at(kStart + 1h), kStart + 10ms - 1ns), nullptr);
  EXPECT_NE(insert(99, bucket, full_at(kStart + 1h), kStart + 10ms), nullptr);
  EXPECT_EQ(find(3), nullptr);
}

// Nor because of a meter that is in its initial state and yet stays: a full ticker whose ticks
// are not those that a new one would have.
TEST_F(TableTest, LooksThroughAFullShardEveryTenMillisecondsThoughAFullMeterStays) {
  const RowId ticker = rows.add("limit", *make_shape(TickerSpec{.interval = 1s}));
  insert(50, ticker, std::bit_cast<Words>(meter::TickerState{1, kStart - 1ms}));
  for (std::uint64_t i = 1; i < kKeysOfAShard; ++i) insert(i, bucket, full_at(kStart + 1h));
  ASSERT_EQ(insert(99, bucket, full_at(kStart + 1h)), nullptr);
  find(3)->set_words(full_at(kStart));
  EXPECT_EQ(insert(99, bucket, full_at(kStart + 1h), kStart + 10ms - 1ns), nullptr);
  EXPECT_NE(insert(99, bucket, full_at(kStart + 1h), kStart + 10ms), nullptr);
}

struct EvictingTable : TableTest {
  EvictingTable() : TableTest(256, WhenFull::kEvict) {}

  // Fills the shard but for `but` places with meters that cannot be evicted.
  void fill_but(std::size_t but) {
    for (std::uint64_t i = 0; i + but < kKeysOfAShard; ++i) insert(1000 + i, slots, in_flight(1));
  }
};

TEST_F(EvictingTable, EvictsTheMeterNearestToItsInitialState) {
  for (std::uint64_t i = 0; i < kKeysOfAShard; ++i) {
    insert(i, bucket, full_at(kStart + Duration{static_cast<std::int64_t>((i * 4) % 9 + 1)}));
  }
  ASSERT_NE(insert(99, bucket, full_at(kStart + 1h)), nullptr);
  EXPECT_EQ(find(0), nullptr);
  EXPECT_EQ(table.size(), kKeysOfAShard);
}

TEST_F(EvictingTable, ComparesMetersOfDifferentKinds) {
  fill_but(2);
  insert(1, bucket, full_at(kStart + 1min + 1ns));
  insert(2, window, counted(kStart, 5));  // initial at kStart + 1min
  ASSERT_NE(insert(99, bucket, full_at(kStart + 1h)), nullptr);
  EXPECT_NE(find(1), nullptr);
  EXPECT_EQ(find(2), nullptr);
}

TEST_F(EvictingTable, EvictsTheLogThatForgetsFirst) {
  const RowId log = rows.add("limit", *make_shape(LogSpec{9, 1min}));
  fill_but(2);
  for (const std::uint64_t low : {std::uint64_t{1}, std::uint64_t{2}}) {
    const std::scoped_lock lock(shard);
    Words words{};
    const MeterShape& shape = rows.at(log).shape;
    ASSERT_TRUE(reserve(shape, words, table.logs, kStart));
    charge(shape, words, table.logs, low == 1 ? kStart : kStart - 1s, 1);
    ASSERT_NE(table.insert(shard, print(low), log, words, kStart), nullptr);
  }
  ASSERT_NE(insert(99, bucket, full_at(kStart + 1h)), nullptr);
  EXPECT_NE(find(1), nullptr);
  EXPECT_EQ(find(2), nullptr);
}

TEST_F(EvictingTable, EvictsNoSlotsInFlight) {
  fill_but(0);
  EXPECT_EQ(insert(99, slots, in_flight(1)), nullptr);
  EXPECT_EQ(table.size(), kKeysOfAShard);
}

TEST_F(EvictingTable, EvictsNoMeterWithWaitersOrParametersOfItsOwn) {
  fill_but(3);
  insert(1, bucket, full_at(kStart + 1ns));
  flag(1, meta::kWaiters);
  insert(2, bucket, full_at(kStart + 2ns));
  flag(2, meta::kOverride);
  insert(3, bucket, full_at(kStart + 1h));
  ASSERT_NE(insert(99, bucket, full_at(kStart + 2h)), nullptr);
  EXPECT_NE(find(1), nullptr);
  EXPECT_NE(find(2), nullptr);
  EXPECT_EQ(find(3), nullptr);
}

TEST_F(EvictingTable, RefusesWhereNothingMayBeEvicted) {
  for (std::uint64_t i = 0; i < kKeysOfAShard; ++i) {
    insert(i, bucket, full_at(kStart + 1h));
    flag(i, i % 2 == 0 ? meta::kWaiters : meta::kOverride);
  }
  EXPECT_EQ(insert(99, bucket, full_at(kStart + 2h)), nullptr);
}

// --- shares

// Two limits, each with a share of 256 keys.
struct SharedTable : TableTest {
  explicit SharedTable(WhenFull when_full = WhenFull::kRefuse) : TableTest(512, when_full) {
    share({256, 256});
  }

  void share(const std::vector<std::size_t>& keys) { table.share_out(keys); }
  // So many that are in use until kStart + `until`.
  int fill(RowId row, int keys, Duration until, std::uint64_t first) {
    int kept = 0;
    for (int i = 0; i < keys; ++i) {
      kept += insert(first + static_cast<std::uint64_t>(i), row, full_at(kStart + until)) ? 1 : 0;
    }
    return kept;
  }

  RowId other = rows.add("other", *make_shape(BucketSpec{1, 1s}));
};
struct SharedEvictingTable : SharedTable {
  SharedEvictingTable() : SharedTable(WhenFull::kEvict) {}
};

TEST_F(SharedTable, RefusesALimitItsOwnKeysBeyondItsShareAndNoOthers) {
  EXPECT_EQ(fill(bucket, 100, 1h, 0), 9);
  EXPECT_EQ(fill(other, 100, 1h, 1000), 9);
}

TEST_F(SharedTable, SweepsForOneLimitThoughAnotherWasJustRefused) {
  EXPECT_EQ(fill(bucket, 10, 1h, 0), 9);
  EXPECT_EQ(fill(other, 9, 1h, 1000), 9);
  find(1000)->set_words(full_at(kStart));
  EXPECT_NE(insert(2000, other), nullptr);
}

TEST_F(SharedTable, SweepsForALimitWhenOneOfItsOwnMayBeBack) {
  EXPECT_EQ(fill(bucket, 9, 5ms, 0), 9);
  EXPECT_EQ(fill(other, 9, 1ms, 1000), 9);
  ASSERT_EQ(insert(99, bucket), nullptr);
  EXPECT_EQ(insert(99, bucket, {}, kStart + 5ms - 1ns), nullptr);
  EXPECT_NE(insert(99, bucket, {}, kStart + 5ms), nullptr);
}

TEST_F(SharedTable, CountsAKeyUnderTheSameLimitInWhateverShape) {
  EXPECT_EQ(fill(bucket, 9, 1h, 0), 9);
  find(3)->set_meta(window);
  {
    const std::scoped_lock lock(shard);
    table.erase(shard, table.find(shard, print(3)));
  }
  EXPECT_EQ(fill(bucket, 2, 1h, 100), 1);
}

TEST_F(SharedTable, LetsALimitThatIsGoneMakeRoom) {
  EXPECT_EQ(fill(bucket, 9, 1h, 0), 9);
  rows.retire("limit");
  const RowId third = rows.add("third", *make_shape(BucketSpec{1, 1s}));
  share({0, 256, 256});
  EXPECT_EQ(fill(third, 10, 1h, 1000), 9);
  EXPECT_EQ(table.size(), 9u);
}

TEST_F(SharedTable, KeepsWhatALimitHasBeyondASmallerShare) {
  EXPECT_EQ(fill(bucket, 9, 1h, 0), 9);
  share({4, 500});
  EXPECT_EQ(table.size(), 9u);
  EXPECT_EQ(insert(99, bucket), nullptr);
  EXPECT_EQ(fill(other, 100, 1h, 1000), 9);
  EXPECT_EQ(sweep(kStart + 1h), 18u);
  EXPECT_EQ(fill(bucket, 9, 2h, 0), 4);
}

TEST_F(SharedTable, HasRoomForOneKeyOfEachLimitInEachShard) {
  std::vector<RowId> limits;
  for (std::size_t i = 2; i < kLimitsMax + 1; ++i) {
    limits.push_back(rows.add(std::to_string(i), *make_shape(BucketSpec{1, 1s})));
  }
  share(std::vector<std::size_t>(kLimitsMax + 1, 1));
  std::uint64_t key = 0;
  for (const RowId limit : limits) EXPECT_EQ(fill(limit, 2, 1h, key += 2), 1);
}

TEST_F(SharedEvictingTable, EvictsAmongTheKeysOfTheLimitAlone) {
  EXPECT_EQ(fill(other, 9, 1ms, 1000), 9);
  EXPECT_EQ(fill(bucket, 100, 1h, 0), 100);
  for (std::uint64_t key = 1000; key < 1009; ++key) EXPECT_NE(find(key), nullptr) << key;
  EXPECT_EQ(table.size(), 18u);
}

TEST_F(SharedEvictingTable, EvictsNobodyElseForALimitThatHasNoneToEvict) {
  for (std::uint64_t key = 0; key < 9; ++key) insert(key, slots, in_flight(1));
  EXPECT_EQ(fill(other, 9, 1ms, 1000), 9);
  EXPECT_EQ(insert(99, slots, in_flight(1)), nullptr);
  EXPECT_EQ(table.size(), 18u);
}

// --- against a map

struct GrowingTable : TableTest {
  GrowingTable() : TableTest(100'000'000) {}
};

// Prints in one shard whose places are few and near the end of the shard, so that
// they collide, wrap around and move; the shard grows several times.
TEST_F(GrowingTable, HoldsWhatAMapHoldsAfterRandomOperations) {
  std::mt19937_64 random(8127);
  std::map<std::uint64_t, std::int64_t> model;
  const auto draw = [&] {
    const std::uint64_t spread = random() % 3 == 0 ? 64 : 6;  // bits that vary at the top
    return ~std::uint64_t{0} - (random() >> (64 - spread) << (64 - spread) >> (random() % 2 * 3)) +
           random() % 4;
  };
  std::vector<std::uint64_t> known;
  for (int step = 0; step < 60'000; ++step) {
    const std::uint64_t low =
        random() % 2 == 0 || known.empty() ? draw() : known[random() % known.size()];
    const auto units = static_cast<std::int64_t>(random() % 1000 + 1);
    const std::scoped_lock lock(shard);
    Slot* slot = table.find(shard, print(low));
    ASSERT_EQ(slot != nullptr, model.contains(low)) << "step " << step;
    if (slot == nullptr) {
      ASSERT_NE(table.insert(shard, print(low), slots, in_flight(units), kStart), nullptr);
      known.push_back(low);
      model[low] = units;
    } else if (random() % 3 == 0) {
      table.erase(shard, slot);
      model.erase(low);
    } else {
      ASSERT_EQ(slot->words(), in_flight(model[low])) << "step " << step;
      slot->set_words(in_flight(units));
      model[low] = units;
    }
  }
  EXPECT_EQ(table.size(), model.size());
  for (const auto& [low, units] : model) {
    Words words;
    ASSERT_TRUE(Table::read_plain(shard, print(low), slots, words));
    ASSERT_EQ(words, in_flight(units));
    ASSERT_EQ(find(low)->words(), in_flight(units));
  }
  EXPECT_GT(shard.capacity.load(), 1000u);  // it has grown
}

TEST_F(GrowingTable, SweepsEverythingInitialAndNothingElseAfterGrowth) {
  std::mt19937_64 random(8127);
  std::map<std::uint64_t, std::int64_t> model;
  while (model.size() < 5000) {
    const std::uint64_t low = random();
    const auto units = static_cast<std::int64_t>(random() % 2);
    // Inserted in flight, so that making room does not drop it.
    insert(low, slots, in_flight(1));
    model[low] = units;
  }
  for (const auto& [low, units] : model) find(low)->set_words(in_flight(units));
  for (int i = 0; i < 4; ++i) sweep(kStart);
  for (const auto& [low, units] : model) ASSERT_EQ(find(low) != nullptr, units == 1);
}

TEST_F(GrowingTable, VisitsEachOfItsKeysOnce) {
  for (std::uint64_t i = 0; i < 500; ++i) insert(i << 55, slots, in_flight(1));
  std::map<std::uint64_t, int> seen;
  const std::scoped_lock lock(shard);
  Table::for_each(shard, [&](Slot& slot) { seen[slot.low.load()] += 1; });
  EXPECT_EQ(seen.size(), 500u);
  for (const auto& [low, times] : seen) EXPECT_EQ(times, 1) << low;
}

}  // namespace
}  // namespace weir::engine
