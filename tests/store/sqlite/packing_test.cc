#include "weir/store/sqlite/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <random>
#include <vector>

#include "tests/store/sqlite/support.h"

namespace weir::store::sqlite {
namespace {

using engine::HoldChanges;
using engine::kForgotten;
using engine::MeterChanges;
using engine::MeterKind;
using ::testing::HasSubstr;

constexpr engine::Print kPrint{0x1122334455667788, 0xab00000000010000};
constexpr std::int64_t kRange = 0xab;
constexpr std::int64_t kPlace = 17;

MeterChanges meters() {
  MeterChanges changes;
  changes.rows.push_back({"window", 3, {MeterKind::kWindow, {5, 1000, 0, 0}}, kStart});
  changes.rows.push_back({"log", 0, {MeterKind::kLog, {5, 1000, 1, 0}}, kStart});
  changes.meters.push_back({.print = kPrint, .words = {7, 8}, .row = 0, .overridden = true});
  changes.meters.push_back({.print = {2, kPrint.high}, .row = 1, .first_run = 0, .run_count = 2});
  changes.meters.push_back({.print = {3, kPrint.high}, .row = kForgotten});
  changes.meters.push_back({.print = {4, kPrint.high}, .row = 1, .first_run = 2, .run_count = 1});
  changes.runs = {{kStart, 1}, {kStart + 1ns, 2}, {kStart + 2ns, 3}};
  return changes;
}

HoldChanges holds() {
  HoldChanges changes;
  changes.names = {"window", "tokens"};
  changes.active = {{.number = 9, .expires = kStart + 1s, .first_charge = 0, .charge_count = 1},
                    {.number = 10, .expires = kStart + 2s, .first_charge = 1, .charge_count = 0}};
  changes.charges = {{.limit = 0,
                      .unit = 1,
                      .print = kPrint,
                      .amount = 5,
                      .weight = 2,
                      .charged_at = kStart,
                      .era = 4,
                      .kind = MeterKind::kLog}};
  changes.ended = {1, 2};
  changes.next_number = 11;
  changes.as_of = kStart;
  return changes;
}

TEST(Packing, KeepsMeters) {
  const auto packed = unpack_meters(pack(meters(), 6, kPlace), kRange, kRange, kPlace);
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  const MeterChanges& changes = packed->changes;
  EXPECT_EQ(packed->processes, (std::vector<std::uint64_t>{6, 6}));
  ASSERT_EQ(changes.rows.size(), 2u);
  EXPECT_EQ(changes.rows[0].limit, "window");
  EXPECT_EQ(changes.rows[0].era, 3u);
  EXPECT_EQ(changes.rows[0].as_of, kStart);
  EXPECT_EQ(changes.rows[0].shape, meters().rows[0].shape);
  ASSERT_EQ(changes.meters.size(), 4u);
  EXPECT_EQ(changes.meters[0].print, kPrint);
  EXPECT_EQ(changes.meters[0].words, (engine::Words{7, 8}));
  EXPECT_TRUE(changes.meters[0].overridden);
  EXPECT_FALSE(changes.meters[1].overridden);
  EXPECT_EQ(changes.runs_of(changes.meters[1]).back().units, 2);
  EXPECT_EQ(changes.meters[2].row, kForgotten);
  EXPECT_EQ(changes.runs_of(changes.meters[3]).front().at, kStart + 2ns);
}

TEST(Packing, KeepsHolds) {
  const auto packed = unpack_holds(pack(holds(), 6));
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  const HoldChanges& changes = packed->changes;
  EXPECT_EQ(packed->process, 6u);
  EXPECT_EQ(changes.names, holds().names);
  ASSERT_EQ(changes.active.size(), 2u);
  EXPECT_EQ(changes.active[0].expires, kStart + 1s);
  const auto charges = changes.charges_of(changes.active[0]);
  ASSERT_EQ(charges.size(), 1u);
  EXPECT_EQ(charges[0].print, kPrint);
  EXPECT_EQ(charges[0].amount, 5);
  EXPECT_EQ(charges[0].weight, 2);
  EXPECT_EQ(charges[0].era, 4u);
  EXPECT_EQ(charges[0].kind, MeterKind::kLog);
  EXPECT_EQ(changes.ended, holds().ended);
  EXPECT_EQ(changes.next_number, 11u);
}

TEST(Packing, KeepsFactsAndEras) {
  const Facts facts{engine::kSecret, 5, 6, 7};
  const auto again = unpack_facts(pack(facts));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->secret, engine::kSecret);
  EXPECT_EQ(again->next_hold, 7u);
  Eras eras;
  eras.set("window", {3, 1});
  eras.set("", {4, 2});
  EXPECT_TRUE(*unpack_eras(pack(eras)) == eras);
}

TEST(Packing, TakesThirtyTwoBytesForAMeter) {
  MeterChanges changes = meters();
  const std::size_t before = pack(changes, 1, kPlace).size();
  changes.meters.push_back({.print = {5, kPrint.high}, .words = {1, 2}, .row = 0});
  EXPECT_EQ(pack(changes, 1, kPlace).size(), before + 32);
}

TEST(Packing, HasTheDocumentedLayout) {
  const std::vector<std::byte> blob = pack(meters(), 6, kPlace);
  const auto at = [&](std::size_t place) { return static_cast<int>(blob.at(place)); };
  EXPECT_EQ(at(0), 'W');
  EXPECT_EQ(at(3), 'T');
  EXPECT_EQ(at(4), 2);     // format
  EXPECT_EQ(at(12), 17);   // place
  EXPECT_EQ(at(20), 2);    // rows
  EXPECT_EQ(at(24), 4);    // meters
  EXPECT_EQ(at(28), 3);    // runs
  EXPECT_EQ(at(32), 6);    // process of the first row
  EXPECT_EQ(at(40), 3);    // its era
  EXPECT_EQ(at(56), 2);    // its kind: window
  EXPECT_EQ(at(89), 6);    // bytes of its name
  EXPECT_EQ(at(91), 'w');  // 32 + 59 + 6 and 59 + 3: meters begin at 159
  EXPECT_EQ(at(159), 0x88);
  EXPECT_EQ(at(159 + 13), 0xab);
  EXPECT_EQ(at(159 + 15), 0x80);  // overridden, row 0
  EXPECT_EQ(at(159 + 16), 7);
  EXPECT_EQ(at(159 + 24), 8);
  EXPECT_EQ(at(159 + 32 + 16), 2);  // runs of the log
  EXPECT_EQ(blob.size(), 159u + 4 * 32 + 3 * 16);
}

// With the checksum made right again, so that the other checks are reached.
void seal(std::vector<std::byte>& blob) {
  boost::crc_32_type crc;
  crc.process_bytes(blob.data() + 12, blob.size() - 12);
  for (std::size_t i = 0; i < 4; ++i)
    blob[8 + i] = static_cast<std::byte>(crc.checksum() >> (8 * i));
}

TEST(Packing, ReadsTheFirstFormatWhichHadNoPlace) {
  std::vector<std::byte> blob = pack(meters(), 6, kPlace);
  blob.erase(blob.begin() + 12, blob.begin() + 20);
  blob[4] = std::byte{1};
  seal(blob);
  const auto packed = unpack_meters(blob, kRange, kRange, kPlace + 1);
  ASSERT_TRUE(packed.ok()) << packed.error().message;
  EXPECT_EQ(packed->changes.meters.size(), 4u);
}

// In a blob of one charge and two ended holds.
std::byte& kind_in(std::vector<std::byte>& blob) { return blob[blob.size() - 4 - 2 * 8 - 1]; }

TEST(Packing, ReadsTheFirstFormatOfHoldsWhichKnewOnlySlots) {
  for (const bool is_slots : {false, true}) {
    std::vector<std::byte> blob = pack(holds(), 6);
    ASSERT_EQ(blob[4], std::byte{2});
    ASSERT_EQ(kind_in(blob), std::byte{3});
    blob[4] = std::byte{1};
    kind_in(blob) = static_cast<std::byte>(is_slots);
    seal(blob);
    const auto packed = unpack_holds(blob);
    ASSERT_TRUE(packed.ok()) << packed.error().message;
    const auto kind = packed->changes.charges.at(0).kind;
    EXPECT_EQ(kind, is_slots ? std::optional(MeterKind::kSlots) : std::nullopt);
    // It is written again as it was read.
    EXPECT_EQ(unpack_holds(pack(packed->changes, 6))->changes.charges.at(0).kind, kind);
  }
}

TEST(Packing, RefusesAChargeOfAKindThatThereIsNot) {
  std::vector<std::byte> blob = pack(holds(), 6);
  kind_in(blob) = std::byte{4};
  seal(blob);
  EXPECT_TRUE(unpack_holds(blob).ok());
  kind_in(blob) = std::byte{5};
  seal(blob);
  EXPECT_THAT(unpack_holds(blob).error().message, HasSubstr("kind"));
}

TEST(Packing, RefusesABlobOfAnotherPlace) {
  const std::vector<std::byte> blob = pack(meters(), 6, kPlace);
  EXPECT_THAT(unpack_meters(blob, 0, 255, 0).error().message, HasSubstr("another place"));
}

TEST(Packing, KeepsPlaces) {
  Places places{};
  places[3] = std::int64_t{1} << 40;
  EXPECT_EQ(*unpack_places(pack(places)), places);
  EXPECT_FALSE(unpack_places(Bytes(pack(places)).first(2000)).ok());
}

TEST(Packing, RefusesAMeterOfAnotherRange) {
  const std::vector<std::byte> blob = pack(meters(), 6, kPlace);
  EXPECT_TRUE(unpack_meters(blob, 0, kRange, kPlace).ok());
  EXPECT_THAT(unpack_meters(blob, 0, kRange - 1, kPlace).error().message,
              HasSubstr("another range"));
  EXPECT_THAT(unpack_meters(blob, kRange + 1, 255, kPlace).error().message,
              HasSubstr("another range"));
}

TEST(Packing, RefusesEveryTruncationAndEveryFlippedBit) {
  const std::vector<std::byte> meter_blob = pack(meters(), 6, kPlace);
  const std::vector<std::byte> hold_blob = pack(holds(), 6);
  for (std::size_t size = 0; size < meter_blob.size(); ++size) {
    EXPECT_FALSE(unpack_meters(Bytes(meter_blob).first(size), 0, 255, kPlace).ok()) << size;
  }
  for (std::size_t size = 0; size < hold_blob.size(); ++size) {
    EXPECT_FALSE(unpack_holds(Bytes(hold_blob).first(size)).ok()) << size;
  }
  for (std::size_t bit = 0; bit < 8 * meter_blob.size(); ++bit) {
    std::vector<std::byte> flipped = meter_blob;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(unpack_meters(flipped, 0, 255, kPlace).ok()) << bit;
  }
}

TEST(Packing, StaysInRangeWhateverTheBytesAre) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> blob = i % 2 == 0 ? pack(meters(), 6, kPlace) : pack(holds(), 6);
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      blob[12 + random() % (blob.size() - 12)] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) blob.resize(12 + random() % (blob.size() - 12));
    seal(blob);
    if (const auto packed = unpack_meters(blob, 0, 255, kPlace)) {
      for (const auto& record : packed->changes.meters) {
        EXPECT_TRUE(record.row == kForgotten || record.row < packed->changes.rows.size());
        EXPECT_LE(record.first_run + record.run_count, packed->changes.runs.size());
      }
    }
    if (const auto packed = unpack_holds(blob)) {
      for (const auto& record : packed->changes.active) {
        EXPECT_LE(std::size_t{record.first_charge} + record.charge_count,
                  packed->changes.charges.size());
      }
    }
  }
}

}  // namespace
}  // namespace weir::store::sqlite
