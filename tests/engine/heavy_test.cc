#include "weir/engine/internal/locals.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

Print print(std::uint64_t number) { return {number, 0}; }

void add(HeavyKeys& keys, std::string_view limit, Print key, std::int64_t units,
         std::string_view text) {
  if (std::string* place = keys.add(limit, key, units)) *place = text;
}

TEST(HeavyKeys, AreListedHeaviestFirst) {
  HeavyKeys keys(8);
  add(keys, "limit", print(1), 5, "light");
  add(keys, "limit", print(2), 50, "heavy");
  add(keys, "limit", print(1), 10, "light");
  const auto all = keys.heaviest("limit", 8);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text, "heavy");
  EXPECT_EQ(all[0].units, 50);
  EXPECT_EQ(all[1].text, "light");
  EXPECT_EQ(all[1].units, 15);
}

TEST(HeavyKeys, AreListedUpToACount) {
  HeavyKeys keys(8);
  for (std::uint64_t i = 0; i < 5; ++i) add(keys, "limit", print(i), 1, "x");
  EXPECT_EQ(keys.heaviest("limit", 3).size(), 3u);
  EXPECT_TRUE(keys.heaviest("limit", 0).empty());
}

TEST(HeavyKeys, AreKeptForEachLimit) {
  HeavyKeys keys(8);
  add(keys, "a", print(1), 1, "x");
  EXPECT_EQ(keys.heaviest("a", 8).size(), 1u);
  EXPECT_TRUE(keys.heaviest("b", 8).empty());
}

TEST(HeavyKeys, AreAtMostAsManyAsThereArePlaces) {
  HeavyKeys keys(4);
  for (std::uint64_t i = 0; i < 1000; ++i) add(keys, "limit", print(i), 1, "x");
  EXPECT_EQ(keys.heaviest("limit", 1000).size(), 4u);
}

TEST(HeavyKeys, AreNoneWhereThereAreNoPlaces) {
  HeavyKeys keys(0);
  add(keys, "limit", print(1), 1, "x");
  EXPECT_TRUE(keys.heaviest("limit", 8).empty());
}

TEST(HeavyKeys, GiveTheirPlaceToANewcomerThatInheritsTheCountOfTheLightest) {
  HeavyKeys keys(2);
  add(keys, "limit", print(1), 10, "a");
  add(keys, "limit", print(2), 3, "b");
  add(keys, "limit", print(3), 1, "c");
  const auto all = keys.heaviest("limit", 8);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].text, "a");
  EXPECT_EQ(all[1].text, "c");
  EXPECT_EQ(all[1].units, 4);
}

TEST(HeavyKeys, StopCountingAtTheLargestNumber) {
  HeavyKeys keys(2);
  add(keys, "limit", print(1), kForever.ns, "a");
  add(keys, "limit", print(1), kForever.ns, "a");
  EXPECT_EQ(keys.heaviest("limit", 1)[0].units, kForever.ns);
}

TEST(HeavyKeys, AlwaysIncludeWhoAsksForMoreThanItsShare) {
  constexpr std::size_t kPlaces = 16;
  std::mt19937_64 random(8127);
  HeavyKeys keys(kPlaces);
  for (int i = 0; i < 20'000; ++i) {
    const bool heavy = random() % 10 == 0;  // more than 1 in 16
    add(keys, "limit", print(heavy ? 0 : random()), 1, heavy ? "heavy" : "noise");
  }
  const auto all = keys.heaviest("limit", 1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].text, "heavy");
}

TEST(HeavyKeys, AddUpWhatAnotherHasCounted) {
  HeavyKeys one(8);
  HeavyKeys other(8);
  add(one, "limit", print(1), 5, "a");
  add(other, "limit", print(1), 6, "a");
  add(other, "limit", print(2), 1, "b");
  one.merge(other);
  const auto all = one.heaviest("limit", 8);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].units, 11);
}

// --- through the engine

RuleSetSpec per_client_and_env() {
  return {.limits = {{.name = "rate",
                      .per = {"client", "env"},
                      .unit = "tokens",
                      .meter = WindowSpec{1'000'000, 1h}},
                     {.name = "all", .meter = WindowSpec{1'000'000, 1h}}},
          .units = {{"tokens"}}};
}

RequestOf ask(std::string_view who, std::string_view env, std::int64_t tokens) {
  RequestOf request;
  request.with("env", env).with("client", who).costing("tokens", tokens);
  return request;
}

TEST(HeaviestKeys, AreShownWithTheirTextsAndWhatTheyAskedFor) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 1});
  ASSERT_TRUE(engine->decide(ask("acme", "prod", 5), kStart));
  ASSERT_TRUE(engine->decide(ask("acme", "prod", 7), kStart));
  ASSERT_TRUE(engine->decide(ask("other", "test", 1), kStart));
  const auto keys = engine->heaviest("rate", 10);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].key, "client=acme env=prod");
  EXPECT_EQ(keys[0].units, 12);
  EXPECT_EQ(keys[1].key, "client=other env=test");
}

TEST(HeaviestKeys, CountWhatWasDeniedToo) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .per = {"client"}, .meter = WindowSpec{1, 1h}}}},
                {.heavy_sample_every = 1});
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 10), 1);
  EXPECT_EQ(engine->heaviest("rate", 1)[0].units, 10);
}

TEST(HeaviestKeys, AreEstimatedFromSamples) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 10});
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(engine->decide(ask("acme", "prod", 3), kStart));
  // Some 10,000 samples of 30 units, six standard deviations either way.
  EXPECT_NEAR(static_cast<double>(engine->heaviest("rate", 1)[0].units), 300'000, 12'000);
}

// One key in ten, always the same beat.
TEST(HeaviestKeys, AreFoundInTrafficWithTheRhythmOfTheSamples) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 10});
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(engine->decide(ask(i % 10 == 0 ? "rare" : "usual", "prod", 1), kStart));
  }
  const auto keys = engine->heaviest("rate", 2);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].key, "client=usual env=prod");
  EXPECT_NEAR(static_cast<double>(keys[0].units), 90'000, 4'000);
  EXPECT_NEAR(static_cast<double>(keys[1].units), 10'000, 2'000);
}

TEST(HeaviestKeys, AreExactForTheFirstRequests) {
  auto engine = engine_of(per_client_and_env());
  ASSERT_TRUE(engine->decide(ask("acme", "prod", 500), kStart));
  ASSERT_EQ(engine->heaviest("rate", 9).size(), 1u);
  EXPECT_EQ(engine->heaviest("rate", 9)[0].units, 500);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(engine->decide(ask("other", "test", 1), kStart));
  ASSERT_EQ(engine->heaviest("rate", 9).size(), 2u);
  EXPECT_EQ(engine->heaviest("rate", 9)[1].units, 40);
}

TEST(HeaviestKeys, AreExactForAsManyAsAGapHasSamples) {
  auto engine = engine_of(per_client_and_env());
  for (std::uint32_t i = 0; i < kSamplesOfAGap; ++i) {
    ASSERT_TRUE(engine->decide(ask("acme", "prod", 1), kStart));
  }
  EXPECT_EQ(engine->heaviest("rate", 1)[0].units, kSamplesOfAGap);
}

TEST(Local, LooksAtFewerAndFewerDecisionsDownToOneInSoMany) {
  Local local(8, 8127);
  std::uint64_t decisions = 0;
  std::uint64_t counted = 0;
  for (std::uint32_t gap = 1; gap <= 8; gap = gap * 2) {
    for (std::uint32_t i = 0; i < kSamplesOfAGap; ++i) {
      decisions += local.until_sample;
      const std::uint32_t stands_for = local.begin_sample(8);
      ASSERT_EQ(stands_for, gap);
      counted += stands_for;
    }
  }
  EXPECT_EQ(local.gap, 8u);
  EXPECT_NEAR(static_cast<double>(counted), static_cast<double>(decisions), 300);
  local.begin_sample(8);
  EXPECT_EQ(local.gap, 8u) << "and no further";
}

TEST(HeaviestKeys, AreNotOfPeeks) {
  auto engine = engine_of(per_client_and_env());
  ASSERT_TRUE(engine->peek(ask("acme", "prod", 5), kStart));
  EXPECT_TRUE(engine->heaviest("rate", 9).empty());
}

TEST(HeaviestKeys, HaveTheirValuesWhateverBytesAreInThem) {
  auto engine = engine_of(per_client_and_env());
  const std::string long_one(kValueBytesMax, '=');
  ASSERT_TRUE(engine->decide(ask("a b=c", long_one, 5), kStart));
  const auto keys = engine->heaviest("rate", 9);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].values, (std::vector<std::string>{"a b=c", long_one}));
}

TEST(HeaviestKeys, AreForgottenWithTheirLimitAndWithItsKey) {
  auto engine = engine_of(per_client_and_env());
  const auto decide_and_swap_to = [&](const RuleSetSpec& next) {
    ASSERT_TRUE(engine->decide(ask("acme", "prod", 5), kStart));
    ASSERT_TRUE(engine->swap(rules_of(next), kStart));
  };
  decide_and_swap_to(per_client_and_env());
  EXPECT_EQ(engine->heaviest("rate", 9).size(), 1u);
  RuleSetSpec other_key = per_client_and_env();
  other_key.limits[0].per = {"env", "client"};
  decide_and_swap_to(other_key);
  EXPECT_TRUE(engine->heaviest("rate", 9).empty());
  RuleSetSpec gone = per_client_and_env();
  gone.limits.erase(gone.limits.begin());
  gone.attributes = {"client", "env"};
  decide_and_swap_to(gone);
  decide_and_swap_to(per_client_and_env());
  EXPECT_TRUE(engine->heaviest("rate", 9).empty());
}

TEST(HeaviestKeys, AreNotKeptForALimitWithoutAKey) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 1});
  ASSERT_TRUE(engine->decide(ask("acme", "prod", 3), kStart));
  EXPECT_TRUE(engine->heaviest("all", 10).empty());
}

TEST(HeaviestKeys, AreNoneForALimitThatDoesNotExist) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 1});
  EXPECT_TRUE(engine->heaviest("nobody", 10).empty());
}

TEST(HeaviestKeys, AreNoneWhereNoneAreKept) {
  auto engine = engine_of(per_client_and_env(), {.heavy_keys = 0, .heavy_sample_every = 1});
  ASSERT_TRUE(engine->decide(ask("acme", "prod", 3), kStart));
  EXPECT_TRUE(engine->heaviest("rate", 10).empty());
}

TEST(HeaviestKeys, AddUpOverThreadsThoseThatHaveEndedIncluded) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 1});
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { ASSERT_TRUE(engine->decide(ask("acme", "prod", 5), kStart)); }).join();
  }
  ASSERT_TRUE(engine->decide(ask("acme", "prod", 5), kStart));
  EXPECT_EQ(engine->heaviest("rate", 1)[0].units, 20);
}

TEST(HeaviestKeys, AreOfPreparedRequestsToo) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 1});
  auto prepared = engine->prepare(ask("acme", "prod", 5));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(engine->decide(*prepared, kStart));
  ASSERT_EQ(engine->heaviest("rate", 1).size(), 1u);
  EXPECT_EQ(engine->heaviest("rate", 1)[0].units, 100);
}

TEST(HeaviestKeys, AreOfBatchesToo) {
  auto engine = engine_of(per_client_and_env(), {.heavy_sample_every = 1});
  RequestOf request = ask("acme", "prod", 5);
  const std::vector<Request> requests(20, request);
  std::vector<Result<Decision>> answers(20, Result<Decision>(std::in_place));
  engine->decide(requests, kStart, answers);
  EXPECT_EQ(engine->heaviest("rate", 1)[0].units, 100);
}

}  // namespace
}  // namespace weir::engine
