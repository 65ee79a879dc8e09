#include "weir/engine/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/engine/kept_state.h"
#include "tests/engine/support.h"
#include "weir/base/keyed_word.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

using ::testing::HasSubstr;

std::string error_of(const Result<RestoreReport>& report) {
  return report ? "restored" : report.error().message;
}

// --- meters

TEST(State, KeepsEveryKindOfMeter) {
  Lasting lasting(every_kind(""));
  ASSERT_EQ(admitted(*lasting, client("acme"), kStart, 4), 4);
  lasting.restart(every_kind(""), kStart);
  for (const std::string_view limit : {"bucket", "ticker", "calendar", "log"}) {
    EXPECT_EQ(remaining(*lasting, limit, {"acme"}, kStart), 6) << limit;
    EXPECT_EQ(remaining(*lasting, limit, {"other"}, kStart), 10) << limit;
  }
  EXPECT_EQ(remaining(*lasting, "window", {}, kStart), 6);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart), 6);
}

TEST(State, KeepsTheFractionOfANanosecond) {
  const RuleSetSpec rules = limit_of(BucketSpec{3, 1s, 1});
  Lasting lasting(rules);
  const Instant next = kStart + 333'333'334ns;
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 2), 1);
  lasting.restart(rules, kStart + 1ns);
  EXPECT_EQ(lasting->peek(client("a"), kStart + 2ns)->earliest, next);
}

TEST(State, KeepsThePhaseOfATickerThatStartsEmpty) {
  const RuleSetSpec rules = limit_of(TickerSpec{1, 1s, 5, meter::TickerStart::kEmpty});
  Lasting lasting(rules);
  ASSERT_FALSE(lasting->decide(client("a"), kStart + 300ms)->allowed());
  lasting.restart(rules, kStart + 500ms);
  EXPECT_FALSE(lasting->decide(client("a"), kStart + 1300ms - 1ns)->allowed());
  EXPECT_TRUE(lasting->decide(client("a"), kStart + 1300ms)->allowed());
}

TEST(State, KeepsALogOfManyRuns) {
  const RuleSetSpec rules = limit_of(LogSpec{200, 1s});
  Lasting lasting(rules);
  // More than fit at once, so that the ring has turned.
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(lasting->decide(client("a"), kStart + i * 5ms)->allowed()) << i;
  }
  const Instant now = kStart + 1500ms;
  ASSERT_EQ(remaining(*lasting, "limit", {"a"}, now), 1);
  lasting.restart(rules, now);
  for (int i = 1; i < 200; ++i) {
    EXPECT_EQ(remaining(*lasting, "limit", {"a"}, now + i * 5ms - 1ns), i) << i;
    EXPECT_EQ(remaining(*lasting, "limit", {"a"}, now + i * 5ms), i + 1) << i;
  }
}

TEST(State, KeepsADebt) {
  const RuleSetSpec rules = limit_of(BucketSpec{1, 1s, 10});
  Lasting lasting(rules);
  const auto held = engine::acquire(*lasting, client("a"), {.hold = 1min}, kStart);
  const Cost actual[] = {{kRequests, 100}};
  ASSERT_EQ(*engine::settle(*lasting, held->hold, actual, kStart), HoldState::kSettled);
  lasting.restart(rules, kStart + 1s);
  EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart + 1s), 10 - 100 + 1);
}

TEST(State, KeepsAdHocBuckets) {
  Lasting lasting(window_of(5));
  const meter::BucketShape shape = *meter::make_bucket(1, 1s, 3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine::AdHoc(*lasting)
                    .take(engine::AdHoc(*lasting).key("user"), shape, 1, kStart)
                    ->step.allowed());
  }
  lasting.restart(window_of(5), kStart + 500ms);
  const AdHocKey key = engine::AdHoc(*lasting).key("user");
  EXPECT_FALSE(engine::AdHoc(*lasting).take(key, shape, 1, kStart + 1s - 1ns)->step.allowed());
  EXPECT_TRUE(engine::AdHoc(*lasting).take(key, shape, 1, kStart + 1s)->step.allowed());
}

TEST(State, ComesBackIntoATableOfTheSameSize) {
  Lasting lasting(window_of(5));
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(lasting->decide(client(std::to_string(i)), kStart)->allowed());
  }
  const std::size_t bytes = lasting->usage().table_bytes;
  lasting.restart(window_of(5), kStart);
  EXPECT_EQ(lasting->usage().keys, 10'000u);
  EXPECT_EQ(lasting->usage().table_bytes, bytes);
}

TEST(State, LeavesOutWhatIsBackInItsInitialState) {
  const RuleSetSpec rules = limit_of(BucketSpec{1, 1s, 10});
  Lasting lasting(rules);
  lasting->decide(client("a"), kStart)->allowed();
  lasting.kept.collect(*lasting, kStart);
  const RestoreReport report = lasting.come_back(rules, kStart + 1s);
  EXPECT_EQ(report.initial, 1u);
  EXPECT_EQ(lasting->usage().keys, 0u);
}

// --- what has changed

// Collected by a clock that was an hour ahead.
TEST(State, OfALogThatWasBookedIsStillToComeOnAnEarlierClock) {
  const MeterShape log = *make_shape(LogSpec{9, 1min});
  MeterRecord record;
  std::vector<meter::LogRun> runs = {
      {kStart + 1h - 1s, 1}, {kStart + 1h, 1}, {kStart + 1h + 5s, 2}};
  move_back(log, record, runs, kStart + 1h, kStart);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].at, kStart - 1s);
  EXPECT_EQ(runs[1].at, kStart);
  EXPECT_EQ(runs[2].at, kStart + 5s);
}

TEST(State, IsCollectedOnce) {
  auto engine = engine_of(every_kind(""), kDurable);
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 6u);
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 0u);
  EXPECT_EQ(collected_holds(*engine, kStart).active.size(), 1u);
  EXPECT_EQ(collected_holds(*engine, kStart).active.size(), 0u);
}

TEST(State, IsCollectedAgainAfterEveryKindOfChange) {
  auto engine = engine_of(window_of(5), kDurable);
  const auto held = engine::acquire(*engine, client("a"), {.hold = 1min}, kStart);
  const auto changes = [&] { return collected(*engine, kStart).meters.size(); };
  EXPECT_EQ(changes(), 1u) << "charged";
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  EXPECT_EQ(changes(), 1u) << "charged again";
  ASSERT_EQ(engine::cancel(*engine, held->hold, kStart), HoldState::kCancelled);
  EXPECT_EQ(changes(), 1u) << "given back";
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, WindowSpec{9, 1h}, kStart).ok());
  EXPECT_EQ(changes(), 1u) << "overridden";
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  EXPECT_EQ(changes(), 1u) << "charged with an override";
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, std::nullopt, kStart).ok());
  EXPECT_EQ(changes(), 1u) << "no longer overridden";
  ASSERT_TRUE(engine::reset(*engine, "window", Key{"a"}, kStart).ok());
  EXPECT_EQ(changes(), 1u) << "reset";
  ASSERT_TRUE(engine->swap(rules_of(window_of(7)), kStart).ok());
  EXPECT_EQ(changes(), 0u) << "a swap touches no meter";
  ASSERT_TRUE(engine::inspect(*engine, "window", Key{"a"}, kStart).ok());
  EXPECT_EQ(changes(), 1u) << "converted";
  EXPECT_EQ(changes(), 0u);
}

TEST(State, IsNotChangedByADenialOrAPeek) {
  auto engine = engine_of(window_of(1), kDurable);
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  collected(*engine, kStart);
  ASSERT_FALSE(engine->decide(client("a"), kStart)->allowed());
  ASSERT_FALSE(engine->peek(client("a"), kStart)->allowed());
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 0u);
}

TEST(State, IsCollectedAgainIfItCouldNotBeStored) {
  auto engine = engine_of(every_kind(""), kDurable);
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  std::vector<Print> prints;
  for (const MeterRecord& record : collected(*engine, kStart).meters) {
    prints.push_back(record.print);
  }
  const HoldChanges holds = collected_holds(*engine, kStart);
  engine::Collector(*engine).mark_changed(prints);
  engine::Collector(*engine).mark_changed(holds);
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 6u);
  EXPECT_EQ(collected_holds(*engine, kStart).active.size(), 1u);
}

// A thousand times as many keys as there is room for, while nothing can be stored.
TEST(State, ThatCannotBeStoredDoesNotFillTheTable) {
  constexpr std::size_t kMetersMost = 256 * 16;  // eight of the limit, and eight ad hoc
  for (const WhenFull when_full : {WhenFull::kRefuse, WhenFull::kEvict}) {
    // Evicting makes room among meters that are in use, refusing among those that are not.
    const Duration every = when_full == WhenFull::kEvict ? Duration{1h} : Duration{1ms};
    auto engine =
        engine_of({.limits = {{.name = "w", .per = {"client"}, .meter = WindowSpec{5, every}}}},
                  {.keys_max = 256, .when_full = when_full, .owner = 7, .durable = true});
    ASSERT_TRUE(engine->decide(client("first"), kStart)->allowed());
    engine::Collector(*engine).mark_changed(
        std::vector<Print>{collected(*engine, kStart).meters.at(0).print});
    for (int i = 0; i < 20'000; ++i) {
      const Instant now = kStart + i * 1ms;
      const auto answer = engine->decide(client(std::to_string(i)), now);
      ASSERT_TRUE(answer) << i << ": " << answer.error().message;
      ASSERT_TRUE(answer->allowed()) << i;
    }
    EXPECT_LE(engine->usage().keys, kMetersMost);
    const Instant end = kStart + 20s;
    EXPECT_LE(collected(*engine, end).meters.size(), 2 * kMetersMost) << "what is forgotten too";
  }
}

TEST(State, OfAMeterIsKeptAgainOnceAStoreWorks) {
  auto engine = engine_of(window_of(5), kDurable);
  engine::Collector(*engine).mark_changed(std::vector<Print>{});
  collected(*engine, kStart);
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  for (int i = 0; i < 4096; ++i) engine->advance(kStart + 2h);
  EXPECT_EQ(engine->usage().keys, 1u) << "it has not been collected yet";
}

TEST(State, OfAHoldThatCouldNeverBeStoredEndsWithoutATrace) {
  auto engine = engine_of(window_of(100), kDurable);
  const auto hold = [&] {
    return engine::acquire(*engine, client("a"), {.hold = 1h}, kStart)->hold;
  };
  const HoldId stored = hold();
  collected_holds(*engine, kStart);
  const HoldId ended_after = hold();
  const HoldId ended_meanwhile = hold();
  const HoldChanges first = collected_holds(*engine, kStart);
  ASSERT_TRUE(engine::settle(*engine, ended_meanwhile, {}, kStart));
  ASSERT_TRUE(engine::settle(*engine, stored, {}, kStart));
  const HoldChanges last = collected_holds(*engine, kStart);
  ASSERT_EQ(last.ended.size(), 2u) << "a store may have both";
  engine::Collector(*engine).mark_changed(last);
  engine::Collector(*engine).mark_changed(first);
  ASSERT_TRUE(engine::settle(*engine, ended_after, {}, kStart));
  const HoldChanges again = collected_holds(*engine, kStart);
  EXPECT_EQ(again.ended, std::vector<std::uint64_t>{stored.number});
  EXPECT_TRUE(again.active.empty());
}

TEST(State, OfAMeterDroppedBeforeItWasStoredIsThatItIsForgotten) {
  auto engine = engine_of(window_of(5), kDurable);
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  const Print print = collected(*engine, kStart).meters.at(0).print;
  for (int i = 0; i < 4096; ++i) engine->advance(kStart + 2h);
  ASSERT_EQ(engine->usage().keys, 0u);
  engine::Collector(*engine).mark_changed(std::vector<Print>{print});
  const MeterChanges again = collected(*engine, kStart + 2h);
  ASSERT_EQ(again.meters.size(), 1u);
  EXPECT_EQ(again.meters[0].row, kForgotten);
}

TEST(State, IsCollectedOfALargeTable) {
  auto engine = engine_of(window_of(5), {.keys_max = 1 << 20, .durable = true});
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(engine->decide(client(std::to_string(i)), kStart)->allowed());
  }
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 100'000u);
  for (int i = 0; i < 100'000; i += 1000) {
    ASSERT_TRUE(engine->decide(client(std::to_string(i)), kStart)->allowed());
  }
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 100u);
}

TEST(State, IsCollectedWholeWithoutWhatNobodyWouldMiss) {
  auto engine = engine_of(window_of(5), kDurable);
  const auto whole = [&](Instant now) {
    MeterChanges changes;
    for (std::size_t i = 0; i < engine::Collector(*engine).shards(); ++i)
      engine::Collector(*engine).whole(i, now, changes);
    return changes.meters.size();
  };
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  ASSERT_TRUE(engine->decide(client("b"), kStart)->allowed());
  ASSERT_TRUE(engine->set_override("window", Key{"c"}, WindowSpec{9, 1h}, kStart).ok());
  EXPECT_EQ(whole(kStart), 3u) << "changed or not";
  EXPECT_EQ(whole(kStart), 3u);
  EXPECT_EQ(collected(*engine, kStart).meters.size(), 0u) << "what was collected counts as stored";
  ASSERT_TRUE(engine::reset(*engine, "window", Key{"a"}, kStart).ok());
  EXPECT_EQ(whole(kStart), 3u) << "it changed: if this is not stored, it has to be again";
  EXPECT_EQ(whole(kStart), 2u);
  EXPECT_EQ(whole(kStart + 1h), 1u) << "an override stays";
}

// --- forgetting

void sweep(Engine& engine, Instant now) {
  for (std::size_t i = 0; i < engine::Collector(engine).shards(); ++i) engine.advance(now);
}

TEST(DurableTable, KeepsAChangedMeterUntilItIsCollected) {
  auto engine = engine_of(window_of(5), kDurable);
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  sweep(*engine, kStart + 2h);
  EXPECT_EQ(engine->usage().keys, 1u);
  EXPECT_EQ(collected(*engine, kStart + 2h).meters.size(), 1u);
  sweep(*engine, kStart + 2h);
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(DurableTable, IsNeededForThat) {
  auto engine = engine_of(window_of(5));
  ASSERT_TRUE(engine->decide(client("a"), kStart)->allowed());
  sweep(*engine, kStart + 2h);
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(DurableTable, EvictsOnlyWhatWasCollectedAndSaysSo) {
  const RuleSetSpec rules = window_of(5);
  Lasting lasting(rules,
                  {.keys_max = 256, .when_full = WhenFull::kEvict, .owner = 7, .durable = true});
  int refused = 0;
  const auto charge = [&](const std::string& name) {
    if (!lasting->decide(client(name), kStart)) refused += 1;
  };
  for (int i = 0; i < 5000; ++i) charge("a" + std::to_string(i));
  EXPECT_GT(refused, 0) << "nothing may be evicted";
  const std::size_t full = lasting->usage().keys;
  lasting.kept.collect(*lasting, kStart);
  EXPECT_EQ(lasting.kept.meters(), full);
  for (int i = 0; i < 5000; ++i) charge("b" + std::to_string(i));
  lasting.kept.collect(*lasting, kStart);
  EXPECT_EQ(lasting.kept.meters(), lasting->usage().keys) << "the evicted ones are forgotten";
}

// --- overrides

TEST(State, KeepsAnOverrideOfAKeyThatWasNeverCharged) {
  Lasting lasting(window_of(5));
  ASSERT_TRUE(lasting->set_override("window", Key{"a"}, WindowSpec{9, 1h}, kStart).ok());
  lasting.restart(window_of(5), kStart + 3h);
  const auto found = engine::inspect(*lasting, "window", Key{"a"}, kStart + 3h);
  EXPECT_TRUE(found->overridden);
  EXPECT_EQ(found->remaining, 9);
  EXPECT_TRUE(lasting->set_override("window", Key{"a"}, std::nullopt, kStart + 3h).ok());
  EXPECT_EQ(remaining(*lasting, "window", {"a"}, kStart + 3h), 5);
}

TEST(State, KeepsThatAnOverrideWasCleared) {
  Lasting lasting(window_of(5));
  ASSERT_TRUE(lasting->set_override("window", Key{"a"}, WindowSpec{9, 1h}, kStart).ok());
  lasting.restart(window_of(5), kStart);
  ASSERT_TRUE(lasting->set_override("window", Key{"a"}, std::nullopt, kStart).ok());
  lasting.restart(window_of(5), kStart);
  EXPECT_FALSE(engine::inspect(*lasting, "window", Key{"a"}, kStart)->overridden);
  EXPECT_EQ(lasting->set_override("window", Key{"a"}, std::nullopt, kStart).error().code,
            ErrorCode::kNotFound);
}

TEST(State, KeepsTheOverrideOfASlotsLimit) {
  const RuleSetSpec rules = limit_of(SlotsSpec{.limit = 1});
  Lasting lasting(rules);
  ASSERT_TRUE(lasting->set_override("limit", Key{"a"}, SlotsSpec{.limit = 3}, kStart).ok());
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 2), 2);
  lasting.restart(rules, kStart + 1s);
  EXPECT_EQ(admitted(*lasting, client("a"), kStart + 1s, 5), 1);
}

TEST(State, EndsAnOverrideWhoseLimitHasAnotherKindOfMeterNow) {
  Lasting lasting(limit_of(WindowSpec{5, 1h}));
  ASSERT_TRUE(lasting->set_override("limit", Key{"a"}, WindowSpec{9, 1h}, kStart).ok());
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 2), 2);
  lasting.restart(limit_of(BucketSpec{1, 1h, 6}), kStart);
  const auto found = engine::inspect(*lasting, "limit", Key{"a"}, kStart);
  EXPECT_FALSE(found->overridden);
  EXPECT_EQ(found->remaining, 4);
}

TEST(State, HasRoomForAsManyOverridesAsTheBound) {
  Lasting lasting(window_of(5));
  for (const std::string_view name : {"a", "b", "c"}) {
    ASSERT_TRUE(lasting->set_override("window", Key{name}, WindowSpec{9, 1h}, kStart).ok());
  }
  lasting.kept.collect(*lasting, kStart);
  EngineOptions options = kDurable;
  options.overrides_max = 3;
  EXPECT_EQ(error_of(lasting.kept.restore(*engine_of(window_of(5), options), kStart)), "restored");
  options.overrides_max = 2;
  EXPECT_THAT(error_of(lasting.kept.restore(*engine_of(window_of(5), options), kStart)),
              HasSubstr("raise overrides_max"));
}

// --- rules that changed

TEST(State, IsConvertedToAChangedLimit) {
  Lasting lasting(limit_of(BucketSpec{10, 1s, 10}));
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 4), 4);
  lasting.restart(limit_of(BucketSpec{5, 1s, 20}), kStart);
  EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 16);
}

TEST(State, IsConvertedToAnotherKindOfMeter) {
  Lasting lasting(limit_of(LogSpec{10, 1h}));
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 4), 4);
  lasting.restart(limit_of(WindowSpec{100, 1h}), kStart);
  EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 96);
}

TEST(State, OfALimitThatIsGoneIsSkippedAndCounted) {
  Lasting lasting(window_of(5));
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 4), 4);
  const RestoreReport report = lasting.restart(limit_of(BucketSpec{10, 1h}), kStart);
  EXPECT_EQ(report.skipped, 1u);
  EXPECT_EQ(report.meters, 0u);
  EXPECT_EQ(lasting->usage().keys, 0u);
}

TEST(State, OfALimitThatWasGoneDoesNotComeBackWithIt) {
  Lasting lasting(window_of(5));
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 4), 4);
  lasting.restart(limit_of(BucketSpec{10, 1h}), kStart);
  ASSERT_TRUE(lasting->swap(rules_of(window_of(5)), kStart).ok());
  EXPECT_EQ(remaining(*lasting, "window", {"a"}, kStart), 5);
  ASSERT_EQ(admitted(*lasting, client("b"), kStart, 1), 1);
  lasting.restart(window_of(5), kStart);
  EXPECT_EQ(remaining(*lasting, "window", {"a"}, kStart), 5);
  EXPECT_EQ(remaining(*lasting, "window", {"b"}, kStart), 4);
}

TEST(State, DoesNotComeBackWithALimitThatWentAndReturnedInOneProcess) {
  Lasting lasting(window_of(5));
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 4), 4);
  lasting.kept.collect(*lasting, kStart);
  ASSERT_TRUE(lasting->swap(rules_of(limit_of(BucketSpec{10, 1h})), kStart).ok());
  ASSERT_TRUE(lasting->swap(rules_of(window_of(5)), kStart).ok());
  lasting.restart(window_of(5), kStart);
  EXPECT_EQ(remaining(*lasting, "window", {"a"}, kStart), 5);
}

TEST(State, IsNotCarriedBetweenSlotsAndSpending) {
  Lasting lasting(limit_of(WindowSpec{5, 1h}));
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 4), 4);
  lasting.restart(limit_of(SlotsSpec{.limit = 5}), kStart);
  EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 5);
  const auto held = lasting->decide(client("a"), kStart);
  lasting.restart(limit_of(WindowSpec{5, 1h}), kStart);
  EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 5);
  ASSERT_EQ(admitted(*lasting, client("a"), kStart, 2), 2);
  EXPECT_EQ(engine::cancel(*lasting, held->hold, kStart), HoldState::kCancelled);
  EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 3) << "the slot credits no window";
}

// --- a clock that was ahead

struct ClockAhead : ::testing::TestWithParam<MeterSpec> {};

TEST_P(ClockAhead, LocksNoKeyForYears) {
  const RuleSetSpec rules = limit_of(GetParam());
  const Instant ahead = kStart + 24h * 365;
  Lasting lasting(rules);
  ASSERT_EQ(admitted(*lasting, client("a"), ahead, 11), 10);
  lasting.kept.collect(*lasting, ahead);
  const RestoreReport report = lasting.come_back(rules, kStart);
  EXPECT_EQ(report.moved, 1u);
  EXPECT_EQ(admitted(*lasting, client("a"), kStart, 1), 0) << "what was used stays used";
  EXPECT_EQ(admitted(*lasting, client("a"), kStart + 25h, 11), 10);
}

INSTANTIATE_TEST_SUITE_P(State, ClockAhead,
                         ::testing::Values(BucketSpec{10, 1h}, TickerSpec{10, 1h, 10},
                                           WindowSpec{10, 1h}, CalendarSpec{10}, LogSpec{10, 1h},
                                           LogSpec{10, 24h}));

TEST(State, OfAClockThatWasAheadKeepsTheTimeAHoldHasLeft) {
  const RuleSetSpec rules = limit_of(SlotsSpec{.limit = 1, .hold = 1min});
  const Instant ahead = kStart + 24h * 365;
  Lasting lasting(rules);
  ASSERT_EQ(admitted(*lasting, client("a"), ahead, 1), 1);
  lasting.kept.collect(*lasting, ahead + 20s);
  lasting.come_back(rules, kStart);
  EXPECT_EQ(admitted(*lasting, client("a"), kStart + 40s - 1ns, 1), 0);
  EXPECT_EQ(admitted(*lasting, client("a"), kStart + 40s, 1), 1);
}

TEST(State, BeyondTheShareOfALimitIsLeftOutAndCounted) {
  Lasting lasting(window_of(5));
  for (int i = 0; i < 4000; ++i) {
    ASSERT_TRUE(lasting->decide(client(std::to_string(i)), kStart)->allowed());
  }
  lasting.kept.collect(*lasting, kStart);
  RuleSetSpec rules = window_of(5);
  rules.limits.front().keys = 256;
  rules.limits.push_back({.name = "b", .per = {"ip"}, .meter = WindowSpec{5, 1h}});
  auto engine = engine_of(rules, {.keys_max = 1 << 14, .owner = 7, .durable = true});
  const auto report = lasting.kept.restore(*engine, kStart);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->meters, engine->usage().keys);
  EXPECT_GT(report->meters, 256u);
  EXPECT_EQ(report->no_room, 4000 - report->meters);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(engine->decide(RequestOf({{"ip", std::to_string(i)}}), kStart).ok()) << i;
  }
}

// A slot that is not in flight after a restart must not come back from one that is.
TEST(State, OfAHoldGivesNoSlotBackForWhichThereIsNoRoom) {
  const auto rules = [](std::int64_t keys) {
    return RuleSetSpec{
        .limits = {{.name = "s", .per = {"client"}, .keys = keys, .meter = SlotsSpec{.limit = 2}}}};
  };
  Lasting lasting(rules(0));
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(engine::acquire(*lasting, client(std::to_string(i)), {.hold = 1h}, kStart)->hold);
  }
  lasting.kept.collect(*lasting, kStart);
  auto engine = engine_of(rules(1), kDurable);
  const auto report = lasting.kept.restore(*engine, kStart);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->holds, 2000u);
  EXPECT_EQ(report->no_room, 2000 - engine->usage().keys);
}

TEST(State, ThatDoesNotFitTheLogsIsAnErrorThatNamesTheBound) {
  const RuleSetSpec rules = limit_of(LogSpec{100, 1h});
  Lasting lasting(rules);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(lasting->decide(client("a"), kStart + i * 1ns)->allowed());
  }
  lasting.kept.collect(*lasting, kStart + 1s);
  EngineOptions options = kDurable;
  options.log_runs_max = 16;
  EXPECT_THAT(error_of(lasting.kept.restore(*engine_of(rules, options), kStart + 1s)),
              HasSubstr("raise log_runs_max"));
}

TEST(State, ThatNoMeterCanHaveIsRefused) {
  const auto restore = [](ShapeRecord shape, Words words, std::vector<meter::LogRun> runs = {}) {
    auto engine = engine_of(limit_of(WindowSpec{5, 1h}), kDurable);
    MeterChanges changes;
    changes.rows.push_back({"limit", 0, shape, kStart});
    changes.meters.push_back({.print = {1, 1 << 16},
                              .words = words,
                              .run_count = static_cast<std::uint16_t>(runs.size())});
    changes.runs = std::move(runs);
    return error_of(engine::Collector(*engine).restore(changes, kStart));
  };
  const ShapeRecord bucket{MeterKind::kBucket, {1, 1000, 5, 0}};
  const ShapeRecord window{MeterKind::kWindow, {5, 1000, 0, 0}};
  const ShapeRecord log{MeterKind::kLog, {5, 1000, 1, 0}};
  const std::uint64_t negative = ~std::uint64_t{0};
  EXPECT_EQ(restore(bucket, {5, 0}), "restored");
  EXPECT_THAT(restore(bucket, {5, 1}), HasSubstr("damaged")) << "a fraction of 1/1";
  EXPECT_THAT(restore(bucket, {negative, 0}), HasSubstr("damaged"));
  EXPECT_THAT(restore(window, {0, negative}), HasSubstr("damaged"));
  EXPECT_EQ(restore(log, {}, {{kStart, 1}, {kStart + 1ns, 1}}), "restored");
  EXPECT_THAT(restore(log, {}, {{kStart, 1}, {kStart, 1}}), HasSubstr("damaged"));
  EXPECT_THAT(restore(log, {}, {{kStart, 0}}), HasSubstr("damaged"));
  EXPECT_THAT(restore(window, {}, {{kStart, 1}}), HasSubstr("damaged"));
  EXPECT_THAT(restore({MeterKind::kBucket, {2, 1000, 5, 0}}, {}), HasSubstr("cannot have"));
  EXPECT_THAT(restore({MeterKind::kBucket, {0, 0, 0, 0}}, {}), HasSubstr("cannot have"));
  EXPECT_THAT(restore({static_cast<MeterKind>(9), {1, 1, 1, 1}}, {}), HasSubstr("cannot have"));
}

TEST(ShapeRecord, MakesTheShapeAgain) {
  const MeterSpec specs[] = {BucketSpec{3, 1s, 7},
                             TickerSpec{2, 3s, 8, meter::TickerStart::kEmpty},
                             WindowSpec{4, 1min},
                             CalendarSpec{4, meter::CalendarUnit::kYear},
                             LogSpec{5, 1h},
                             LogSpec{5000, 1h},
                             SlotsSpec{.limit = 5, .queue = 3, .hold = 2s}};
  for (const MeterSpec& spec : specs) {
    const MeterShape shape = *make_shape(spec);
    const auto again = shape_of(record_of(shape));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, shape);
  }
}

}  // namespace
}  // namespace weir::engine
