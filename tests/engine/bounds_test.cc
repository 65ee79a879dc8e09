#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/table.h"
#include "weir/engine/print.h"

namespace weir::engine {
namespace {

using ::testing::HasSubstr;

constexpr Instant kPastEnd{kInstantNsMax + 1};

// --- time

TEST(Engine, TakesInstantsFromTheEpochToTheEndOfTime) {
  for (const Instant now : {Instant{0}, Instant{kInstantNsMax}}) {
    auto engine = engine_of(window_of(1));
    EXPECT_TRUE(engine->decide(client("acme"), now)->allowed()) << now;
  }
}

TEST(Engine, RefusesInstantsBeforeTheEpochAndBeyondTheEndOfTime) {
  auto engine = engine_of(window_of(1));
  for (const Instant now : {Instant{-1}, kPastEnd}) {
    const auto answer = engine->decide(client("acme"), now);
    ASSERT_FALSE(answer) << now;
    EXPECT_EQ(answer.error().code, ErrorCode::kBadArgument);
  }
  EXPECT_EQ(engine->usage().keys, 0u);
}

// Nothing is due, so next_instant() is kForever: a loop that passes it on must not bring the
// shards to the end of time, where every bucket has refilled and every hold has expired.
TEST(Engine, DoesNotAdvanceToWhatIsNoInstant) {
  auto engine = engine_of(
      {.limits = {{.name = "rate", .per = {"client"}, .meter = BucketSpec{1, 1h}},
                  {.name = "slots", .per = {"job"}, .meter = SlotsSpec{.limit = 1, .hold = 1h}}}});
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  ASSERT_EQ(engine->next_instant(), kForever);
  ASSERT_TRUE(engine::acquire(*engine, RequestOf({{"job", "a"}}), {}, kStart)->allowed());
  for (const Instant now : {Instant{-1}, kPastEnd, kForever}) {
    for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(now);
  }
  EXPECT_EQ(engine->usage().holds, 1u);
  EXPECT_FALSE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(admitted(*engine, client("other"), kStart, 3), 1);
}

TEST(Engine, AnswersNobodyAtWhatIsNoInstant) {
  auto engine = engine_of(window_of(1));
  Inbox inbox;
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  const auto first =
      engine::wait(*engine, client("acme"), {.deadline = kStart + 2h}, kStart, inbox.as("first"));
  ASSERT_TRUE(
      engine::wait(*engine, client("acme"), {.deadline = kStart + 2h}, kStart, inbox.as("second")));
  for (const Instant now : {Instant{-1}, kPastEnd, kForever}) {
    engine->try_waiters(now);
    EXPECT_FALSE(engine->give_up(first->ticket, now)) << now;
  }
  EXPECT_EQ(engine->usage().waiters, 2u);
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_TRUE(engine->give_up(first->ticket, kStart));
}

TEST(Engine, CancelsNoHoldAtWhatIsNoInstant) {
  auto engine = engine_of(window_of(1));
  const auto held = engine::acquire(*engine, client("acme"), {.hold = 1h}, kStart);
  for (const Instant now : {Instant{-1}, kPastEnd, kForever}) {
    EXPECT_EQ(engine::cancel(*engine, held->hold, now), HoldState::kActive) << now;
  }
  EXPECT_EQ(engine->usage().holds, 1u);
  EXPECT_EQ(engine::cancel(*engine, held->hold, kStart), HoldState::kCancelled);
  engine->cancel(held->hold, kForever, [](const Result<HoldAnswer>& state) {
    ASSERT_FALSE(state);
    EXPECT_THAT(state.error().message, HasSubstr("between 0 and 2^62 ns"));
  });
}

TEST(Engine, InspectsAtTheLastChargeWhenTimeRunsBackwards) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .meter = BucketSpec{.amount = 10, .period = 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart - 5s), 9);
}

// A meter that a sweep has dropped must not come back fresh at an instant at which
// it was not: threads read the clock at different times.
TEST(Engine, DoesNotReopenAWindowThatASweepHasForgotten) {
  auto engine = engine_of({.limits = {{.name = "three", .meter = WindowSpec{3, 1min}}}});
  int total = admitted(*engine, RequestOf(), kStart + 59s, 5);
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 60s);
  ASSERT_EQ(engine->usage().keys, 0u);
  total += admitted(*engine, RequestOf(), kStart + 59s, 5);
  total += admitted(*engine, RequestOf(), kStart + 60s, 5);
  EXPECT_LE(total, 6);
}

// --- bounds of the process

TEST(Engine, RefusesANewKeyOfAFullTableAndNamesTheLimit) {
  auto engine =
      engine_of({.limits = {{.name = "first", .meter = WindowSpec{1'000'000, 1h}},
                            {.name = "second", .per = {"client"}, .meter = WindowSpec{1, 1h}}}},
                {.keys_max = 1});
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto answer = engine->decide(client(std::to_string(i)), kStart);
    if (answer) continue;
    refused += 1;
    EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
    EXPECT_NE(answer.error().message.find("'second'"), std::string::npos);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_EQ(remaining(*engine, "first", {}, kStart), 1'000'000 - (2000 - refused));
}

// Of a limit that has its share, and of buckets without a limit: what to raise is called as it
// stands where the reader wrote it.
TEST(Engine, SaysWhichSettingsGiveALimitMoreKeys) {
  EngineOptions options{.keys_max = 1, .ad_hoc_keys_max = 1};
  options.names.keys = "bounds.keys";
  options.names.ad_hoc_keys = "bounds.cl_throttle_keys";
  options.names.when_full = "bounds.when_full";
  const RuleSetSpec rules = window_of(1);
  auto engine = engine_of(rules, options);
  AdHoc buckets(*engine);
  const meter::BucketShape shape = *meter::make_bucket(1, 1s, 1);
  std::string limit;
  std::string ad_hoc;
  for (int i = 0; i < 10'000 && (limit.empty() || ad_hoc.empty()); ++i) {
    const std::string name = std::to_string(i);
    const auto answer = engine->decide(client(name), kStart);
    if (!answer) limit = answer.error().message;
    const auto step = buckets.take(buckets.key(name), shape, 1, kStart);
    if (!step) ad_hoc = step.error().message;
  }
  EXPECT_EQ(limit,
            "limit 'window': its share of the table is full, so a new key is refused; raise 'keys' "
            "of the limit or bounds.keys, or let bounds.when_full be 'evict'");
  EXPECT_EQ(ad_hoc,
            "the share of these keys in the table is full, so a new key is refused; raise "
            "bounds.cl_throttle_keys or bounds.keys, or let bounds.when_full be 'evict'");
  RuleSetSpec many = rules;
  many.limits[0].keys = 5;
  const Status swapped = engine->swap(rules_of(many), kStart);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().message,
            "limits: their 'keys' and bounds.cl_throttle_keys add up to 6, but the table has 1; "
            "write fewer, or raise bounds.keys");
}

// It could not remember when it began to fill, and would promise a later instant each time.
TEST(Engine, RefusesATickerThatBeginsEmptyInAFullTable) {
  auto engine = engine_of(
      {.limits = {{.name = "ticker",
                   .per = {"job"},
                   .meter = TickerSpec{.interval = 1s, .start = meter::TickerStart::kEmpty}}}},
      {.keys_max = 1});
  for (int i = 0; i < 10'000; ++i) {
    (void)engine->decide(RequestOf({{"job", std::to_string(i)}}), kStart);
  }
  ASSERT_EQ(engine->usage().keys, 256u);  // one in each shard
  const auto answer = engine->decide(RequestOf({{"job", "a"}}), kStart);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
  EXPECT_NE(answer.error().message.find("'ticker'"), std::string::npos);
  EXPECT_TRUE(engine->peek(RequestOf({{"job", "a"}}), kStart));
}

// Keys of `limit` in the shard of key "x" of `other`, enough to make it grow several times.
std::vector<std::string> mates_of_x(std::string_view limit, std::string_view other) {
  const auto shard = [](std::string_view name, std::string_view value) {
    const Print key = with_value(kSecret, {}, value);
    return print_for(seed_for(kSecret, name), key).high >> (64 - kShardBitsMax);
  };
  std::vector<std::string> mates;
  for (int i = 0; mates.size() < 120; ++i) {
    if (shard(limit, std::to_string(i)) == shard(other, "x")) mates.push_back(std::to_string(i));
  }
  return mates;
}

// Prints of one request can share a shard; making room there for one of its keys
// must not drop the other, which has not been charged yet and so looks unused.
TEST(Engine, CountsBothKeysOfARequestThatFillOneShard) {
  RuleSetSpec spec{.limits = {{.name = "log", .per = {"a"}, .meter = LogSpec{5, 1h}},
                              {.name = "bucket", .per = {"b"}, .meter = BucketSpec{5, 1h}}}};
  const std::vector<std::string> mates = mates_of_x("bucket", "log");
  for (std::size_t filled = 20; filled < mates.size(); ++filled) {
    auto engine = engine_of(spec);
    for (std::size_t i = 0; i < filled; ++i) {
      ASSERT_TRUE(engine->decide(RequestOf({{"b", mates[i]}}), kStart)->allowed());
    }
    ASSERT_TRUE(engine->decide(RequestOf({{"a", "x"}, {"b", mates[filled]}}), kStart)->allowed());
    EXPECT_EQ(remaining(*engine, "log", {"x"}, kStart), 4) << filled << " keys before";
    EXPECT_EQ(remaining(*engine, "bucket", {mates[filled]}, kStart), 4) << filled;
    for (std::size_t i = 0; i < filled; ++i) {
      ASSERT_EQ(remaining(*engine, "bucket", {mates[i]}, kStart), 4) << filled;
    }
  }
}

// The log of key "x" has forgotten everything, so making room for the bucket's new key might
// drop it, and give its runs to the next log.
TEST(Engine, KeepsTheRunsOfALogWhileItMakesRoomForAnotherKeyOfTheRequest) {
  RuleSetSpec spec{.limits = {{.name = "bucket", .per = {"b"}, .meter = BucketSpec{5, 1h}},
                              {.name = "log", .per = {"a"}, .meter = LogSpec{9, 1s}}}};
  const std::vector<std::string> mates = mates_of_x("bucket", "log");
  for (std::size_t filled = 20; filled < mates.size(); ++filled) {
    auto engine = engine_of(spec);
    ASSERT_TRUE(engine->decide(RequestOf({{"a", "x"}}), kStart)->allowed());
    for (std::size_t i = 0; i < filled; ++i) {
      ASSERT_TRUE(engine->decide(RequestOf({{"b", mates[i]}}), kStart)->allowed());
    }
    const Instant later = kStart + 2s;
    ASSERT_TRUE(engine->decide(RequestOf({{"a", "x"}, {"b", mates[filled]}}), later)->allowed());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(engine->decide(RequestOf({{"a", "y"}}).costing(2), later + i * 1ns)->allowed());
      ASSERT_TRUE(engine->decide(RequestOf({{"a", "x"}}), later + i * 1ns)->allowed());
    }
    ASSERT_EQ(remaining(*engine, "log", {"x"}, later + 2ns), 5) << filled << " keys before";
    ASSERT_EQ(remaining(*engine, "log", {"y"}, later + 2ns), 3) << filled << " keys before";
  }
}

// The log of key "x" is the meter nearest to its initial state, but it is another limit's.
TEST(Engine, EvictsNoMeterOfARequestThatStartsATicker) {
  auto engine = engine_of(
      {.limits = {{.name = "ticker",
                   .per = {"c"},
                   .meter = TickerSpec{.interval = 100h, .start = meter::TickerStart::kEmpty}},
                  {.name = "log", .per = {"a"}, .meter = LogSpec{9, 1h}}}},
      {.keys_max = 256, .when_full = WhenFull::kEvict});
  const std::vector<std::string> mates = mates_of_x("ticker", "log");
  ASSERT_TRUE(engine->decide(RequestOf({{"a", "x"}}), kStart)->allowed());
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_FALSE(engine->decide(RequestOf({{"c", mates[i]}}), kStart)->allowed());
  }
  ASSERT_EQ(engine->usage().keys, 9u);
  const RequestOf ask({{"a", "x"}, {"c", mates[8]}});
  const auto refused = engine->decide(ask, kStart);
  ASSERT_EQ(refused->verdict, Verdict::kDenied);
  EXPECT_EQ(refused->outcomes()[1].remaining, 8);
  EXPECT_EQ(remaining(*engine, "log", {"x"}, kStart), 8);
  EXPECT_EQ(engine->usage().keys, 9u);
}

// Somebody else waits at "x" when making room for the first waiter's other key moves its slot.
TEST(Engine, WakesTheNextWaiterAfterItMadeRoomForAnotherKeyOfTheFirst) {
  RuleSetSpec spec{
      .limits = {
          {.name = "bucket", .per = {"b"}, .meter = BucketSpec{5, 1h}},
          {.name = "slots", .per = {"a"}, .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}}}};
  const std::vector<std::string> mates = mates_of_x("bucket", "slots");
  for (std::size_t filled = 20; filled < mates.size(); ++filled) {
    auto engine = engine_of(spec);
    Inbox inbox;
    const auto held = engine::acquire(*engine, RequestOf({{"a", "x"}}), {}, kStart);
    const Patience patient{.deadline = kStart + 1h};
    ASSERT_TRUE(engine::wait(*engine, RequestOf({{"a", "x"}, {"b", mates[filled]}}), patient,
                             kStart, inbox.as("first")));
    ASSERT_TRUE(engine::wait(*engine, RequestOf({{"a", "x"}}), patient, kStart, inbox.as("next")));
    for (std::size_t i = 0; i < filled; ++i) {
      ASSERT_TRUE(engine->decide(RequestOf({{"b", mates[i]}}), kStart)->allowed());
    }
    ASSERT_EQ(engine::cancel(*engine, held->hold, kStart + 1s), HoldState::kCancelled);
    ASSERT_EQ(inbox.texts(), Texts{"first allowed"});
    ASSERT_EQ(engine::cancel(*engine, inbox.last().hold, kStart + 2s), HoldState::kCancelled);
    ASSERT_EQ(inbox.texts(), (Texts{"first allowed", "next allowed"})) << filled;
  }
}

// A limit that is only tried refuses nobody, whatever it runs out of.
RuleSetSpec tried(MeterSpec meter) {
  return {.limits = {{.name = "all", .meter = WindowSpec{1'000'000, 1h}},
                     {.name = "tried", .per = {"client"}, .shadow = true, .meter = meter}}};
}

TEST(Engine, AdmitsThoughAShadowFindsNoRoom) {
  const MeterSpec kinds[] = {WindowSpec{9, 1h}, LogSpec{9, 1h}, SlotsSpec{.limit = 9},
                             TickerSpec{.interval = 1s, .burst = 9}};
  for (const MeterSpec& kind : kinds) {
    auto engine =
        engine_of(tried(kind), {.keys_max = 1, .log_runs_max = 100, .holds_max = 100'000});
    for (int i = 0; i < 10'000; ++i) {
      const auto decision = engine->decide(client(std::to_string(i)), kStart);
      ASSERT_TRUE(decision) << decision.error().message;
      ASSERT_TRUE(decision->allowed());
    }
    EXPECT_EQ(remaining(*engine, "all", {}, kStart), 990'000);
  }
}

TEST(Engine, RefusesByItsLimitsThoughAShadowTickerFindsNoRoomToBegin) {
  RuleSetSpec spec = tried(TickerSpec{.interval = 1s, .start = meter::TickerStart::kEmpty});
  spec.limits[0].meter = WindowSpec{1, 1h};
  auto engine = engine_of(spec, {.keys_max = 1});
  ASSERT_TRUE(engine->decide(client("first"), kStart)->allowed());
  for (int i = 0; i < 10'000; ++i) {
    const auto decision = engine->decide(client(std::to_string(i)), kStart);
    ASSERT_TRUE(decision) << decision.error().message;
    ASSERT_EQ(decision->binding()->limit, "all");
  }
}

TEST(Engine, AdmitsWithoutAHoldThoughSlotsInShadowFindNone) {
  auto engine = engine_of(tried(SlotsSpec{.limit = 9}), {.holds_max = 1});
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->hold);
  for (int i = 0; i < 3; ++i) {
    const auto decision = engine->decide(client("acme"), kStart);
    ASSERT_TRUE(decision) << decision.error().message;
    EXPECT_TRUE(decision->allowed());
    EXPECT_FALSE(decision->hold);
  }
  // In flight is what can come back.
  EXPECT_EQ(remaining(*engine, "tried", {"acme"}, kStart), 8);
  EXPECT_FALSE(engine::acquire(*engine, client("acme"), {.hold = 1s}, kStart));
}

TEST(Engine, ChargesNothingWhenTheMemoryForLogsIsUsedUp) {
  auto engine = engine_of({.limits = {{.name = "window", .meter = WindowSpec{100, 1h}},
                                      {.name = "log", .meter = LogSpec{100, 1h}}}},
                          {.log_runs_max = 0});
  const auto answer = engine->decide(RequestOf(), kStart);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
  EXPECT_NE(answer.error().message.find("'log'"), std::string::npos);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 100);
}

TEST(Engine, RemembersAThousandInstantsOfALogWithoutBeingToldTo) {
  auto engine = engine_of({.limits = {{.name = "log", .meter = LogSpec{1000, 1h}}}});
  for (int i = 0; i < 1000; ++i) {
    const auto answer = engine->decide(RequestOf(), kStart + i * 1ms);
    ASSERT_TRUE(answer) << i << ": " << answer.error().message;
    ASSERT_TRUE(answer->allowed()) << i;
  }
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 1s)->allowed());
}

TEST(Engine, IsNotMadeWithoutRules) { EXPECT_FALSE(Engine::create(nullptr)); }

TEST(Engine, IsNotMadeForMoreKeysThanThereAreAddresses) {
  for (int bits = 44; bits < 64; ++bits) {
    for (const std::size_t keys : {std::size_t{1} << bits, ~std::size_t{0} >> (63 - bits)}) {
      const auto engine = Engine::create(rules_of({}), {.keys_max = keys});
      ASSERT_FALSE(engine) << keys;
      EXPECT_NE(engine.error().message.find("keys_max"), std::string::npos);
    }
  }
}

TEST(Engine, IsNotMadeToSampleEveryZerothDecision) {
  EXPECT_FALSE(Engine::create(rules_of({}), {.heavy_sample_every = 0}));
}

// --- what one request may ask for

TEST(EngineBounds, OfAHoldIsTheLastThatIsTaken) {
  EngineOptions options;
  options.hold_max = 1h;
  auto engine = engine_of(window_of(9), options);
  const auto hold_of = [&](Duration hold) {
    return engine::acquire(*engine, client("acme"), {.hold = hold}, kStart);
  };
  EXPECT_TRUE(hold_of(1h)->allowed());
  const auto refused = hold_of(1h + 1ns);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(refused.error().message,
            "request: hold is '1h1ns', but hold_max allows at most '1h'; write a "
            "shorter time, or raise hold_max");
  EXPECT_EQ(engine->usage().holds, 1u);
  EXPECT_EQ(remaining(*engine, "window", {"acme"}, kStart), 8) << "nothing was charged";
}

TEST(EngineBounds, OfAHoldIsThatOfARenewalToo) {
  EngineOptions options;
  options.hold_max = 1h;
  auto engine = engine_of(window_of(9), options);
  const HoldId hold = engine::acquire(*engine, client("acme"), {.hold = 1s}, kStart)->hold;
  EXPECT_EQ(*engine::renew(*engine, hold, 1h, kStart), HoldState::kActive);
  const auto refused = engine::renew(*engine, hold, 1h + 1ns, kStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("hold_max allows at most '1h'"));
}

TEST(EngineBounds, OfAWaitIsTheLastThatIsTaken) {
  EngineOptions options;
  options.wait_max = 10min;
  auto engine =
      engine_of({.limits = {{.name = "a", .meter = SlotsSpec{.limit = 1, .queue = 9}}}}, options);
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kStart + 10min}, kStart, {}));
  EXPECT_EQ(engine->usage().waiters, 1u);
  for (const Instant beyond : {kStart + 10min + 1ns, kForever}) {
    const auto refused = engine::wait(*engine, RequestOf(), {.deadline = beyond}, kStart, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("but wait_max allows at most '10m'"));
  }
  EXPECT_EQ(engine->usage().waiters, 1u);
}

TEST(EngineBounds, OfABookingIsTheLastThatIsTaken) {
  EngineOptions options;
  options.book_max = 1h;
  auto engine = engine_of({.limits = {{.name = "a", .meter = BucketSpec{1, 1h}}}}, options);
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto refused = engine::acquire(*engine, RequestOf(), {.book_within = 1h + 1ns}, kStart);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("but book_max allows at most '1h'"));
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->earliest,
            kStart + 1h);
}

}  // namespace
}  // namespace weir::engine
