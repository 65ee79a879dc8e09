// Decisions that a thread asks together, and that leave for Redis in one script.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/store/redis/shared/support.h"
#include "tests/support/seed.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::RuleSetSpec;
using ::testing::HasSubstr;
using testing::RedisServer;

constexpr std::string_view kScriptsRun =
    "EVAL \"return tonumber(string.match(redis.call('INFO','commandstats'),"
    "'cmdstat_evalsha:calls=(%d+)'))\" 0";

// A limit for each client and a smaller one for each of its models, which has thirds of a
// microsecond in it; a third is only watched.
RuleSetSpec three_limits(bool is_shared) {
  RuleSetSpec spec{
      .limits = {{.name = "calls",
                  .per = {"client"},
                  .meter = engine::BucketSpec{.amount = 10, .period = 1h, .burst = 10}},
                 {.name = "models",
                  .per = {"client", "model"},
                  .meter = engine::BucketSpec{.amount = 3, .period = 10s, .burst = 4}},
                 {.name = "watched",
                  .per = {"model"},
                  .shadow = true,
                  .meter = engine::BucketSpec{.amount = 1, .period = 1min, .burst = 2}}}};
  if (is_shared) {
    for (engine::LimitSpec& limit : spec.limits) limit.shared = engine::SharedSpec{};
  }
  return spec;
}

// What is asked of one engine.
struct Ask {
  std::array<engine::Attribute, 2> attributes;
  std::size_t attribute_count = 2;
  std::array<engine::Cost, 1> costs;

  engine::Request request() const {
    return {.attributes = {attributes.data(), attribute_count}, .costs = costs};
  }
};

// A server with a thread whose requests, asked in one turn, leave together.
class SharedBatch : public ::testing::Test {
 protected:
  SharedBatch() : server_(redis_.url(), three_limits(true), clock_, patient()) {
    server_.limits().attach(mine_.loop);
    // The first decision learns what data Redis has.
    const engine::Attribute nobody[] = {{"client", "nobody"}};
    EXPECT_TRUE(server_.acquire({.attributes = nobody}));
  }
  ~SharedBatch() override { server_.limits().detach(mine_.loop); }

  std::vector<Result<Decision>> ask_together(const std::vector<Ask>& asks) {
    std::vector<Waited<Decision>> waited(asks.size());
    mine_.loop.run([&] {
      for (std::size_t i = 0; i < asks.size(); ++i) {
        engine::ask(server_.engine(), {.request = asks[i].request()}, clock_.now(),
                    waited[i].callback());
      }
    });
    std::vector<Result<Decision>> answers;
    for (Waited<Decision>& one : waited) answers.push_back(one.get());
    return answers;
  }

  static std::vector<Ask> one_of_each(std::span<const std::string> clients) {
    std::vector<Ask> asks;
    for (const std::string& client : clients) {
      asks.push_back({{{{"client", client}, {}}}, 1, {{{"requests", 1}}}});
    }
    return asks;
  }

  int scripts_run() const { return std::stoi(redis_.ask(std::string(kScriptsRun)).substr(1)); }

  RedisServer redis_;
  testing::ManualClock clock_{kStart};
  SharedEngine server_;
  Thread mine_;
};

std::vector<std::string> names(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back("c" + std::to_string(i));
  return all;
}

TEST_F(SharedBatch, IsOneScript) {
  const std::vector<std::string> clients = names(60);
  const int before = scripts_run();
  for (const Result<Decision>& answer : ask_together(one_of_each(clients))) {
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_TRUE(answer->allowed());
  }
  // The heart beats, too.
  EXPECT_LT(scripts_run() - before, 30);
}

TEST_F(SharedBatch, DecidesAsMemoryDoesOneByOne) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto memory = std::move(*engine::Engine::create(compiled(three_limits(false))));
  const std::vector<std::string> clients = names(40);
  const std::vector<std::string> models = names(5);
  int allowed = 0;
  int denied = 0;
  for (int turn = 0; turn < 40; ++turn) {
    std::vector<Ask> asks;
    for (std::size_t count = random() % 120; asks.size() < count;) {
      asks.push_back({{{{"client", clients[random() % clients.size()]},
                        {"model", models[random() % models.size()]}}},
                      1 + random() % 2,
                      {{{"requests", static_cast<std::int64_t>(random() % 6)}}}});
    }
    const std::vector<Result<Decision>> answers = ask_together(asks);
    for (std::size_t i = 0; i < asks.size(); ++i) {
      const Result<Decision> expected = memory->decide(asks[i].request(), clock_.now());
      ASSERT_TRUE(expected);
      ASSERT_TRUE(answers[i]) << answers[i].error().message;
      const Decision& said = *answers[i];
      ASSERT_EQ(said.verdict, expected->verdict);
      ASSERT_EQ(said.earliest, expected->earliest);
      ASSERT_EQ(said.shortfall, expected->shortfall);
      ASSERT_EQ(said.outcomes().size(), expected->outcomes().size());
      for (std::size_t j = 0; j < said.outcomes().size(); ++j) {
        ASSERT_EQ(said.outcomes()[j].verdict, expected->outcomes()[j].verdict);
        ASSERT_EQ(said.outcomes()[j].remaining, expected->outcomes()[j].remaining);
      }
      ++(said.allowed() ? allowed : denied);
    }
    clock_.advance(std::chrono::microseconds{random() % 2'000'000});
  }
  EXPECT_GT(allowed, 100);
  EXPECT_GT(denied, 100);
}

TEST_F(SharedBatch, NamesAForeignValueToWhoMeetsIt) {
  const std::vector<std::string> clients = names(3);
  for (const std::string foreign : {"SET", "RPUSH"}) {
    redis_.ask("DEL weir:1:{weir}:b:calls:c1");
    redis_.ask(foreign + " weir:1:{weir}:b:calls:c1 hello");
    const std::vector<Result<Decision>> answers = ask_together(one_of_each(clients));
    ASSERT_TRUE(answers[0]) << answers[0].error().message;
    ASSERT_FALSE(answers[1]);
    EXPECT_THAT(answers[1].error().message, HasSubstr("weir:1:{weir}:b:calls:c1"));
    ASSERT_TRUE(answers[2]) << answers[2].error().message;
  }
  redis_.ask("DEL weir:1:{weir}:b:calls:c1");
  const std::vector<Result<Decision>> answers = ask_together(one_of_each(clients));
  const std::array<std::int64_t, 3> left = {7, 9, 7};
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    EXPECT_EQ(answers[i]->outcome("calls")->remaining, left[i]);
  }
}

TEST_F(SharedBatch, FindsEverythingUsedAfterALoss) {
  const std::vector<std::string> clients = names(20);
  ASSERT_EQ(redis_.ask("FLUSHALL"), "+OK");
  for (const Result<Decision>& answer : ask_together(one_of_each(clients))) {
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->verdict, Verdict::kDenied);
  }
  EXPECT_EQ(server_.limits().counts().losses, 1u);
}

TEST_F(SharedBatch, IsOneScriptAgainOnceItsLimitsHaveRefilledAfterALoss) {
  const std::vector<std::string> clients = names(60);
  ASSERT_EQ(redis_.ask("FLUSHALL"), "+OK");
  ask_together(one_of_each(clients));
  const auto scripts_of = [&] {
    const int before = scripts_run();
    for (const Result<Decision>& answer : ask_together(one_of_each(clients))) {
      EXPECT_TRUE(answer) << answer.error().message;
    }
    return scripts_run() - before;
  };
  clock_.advance(1h - 1us);
  EXPECT_GE(scripts_of(), 60);
  clock_.advance(10us);
  scripts_of();  // tells that an hour has passed
  EXPECT_LT(scripts_of(), 30);
}

TEST_F(SharedBatch, FindsEverythingUsedAfterASecondLossThoughTheClockWasSetBack) {
  const std::vector<std::string> clients = names(20);
  ASSERT_EQ(redis_.ask("FLUSHALL"), "+OK");
  ask_together(one_of_each(clients));
  clock_.advance(3h);
  ask_together(one_of_each(clients));  // tells that hours have passed
  clock_.advance(-2h);
  ASSERT_EQ(redis_.ask("FLUSHALL"), "+OK");
  for (int i = 0; i < 3; ++i) {
    for (const Result<Decision>& answer : ask_together(one_of_each(clients))) {
      ASSERT_TRUE(answer) << answer.error().message;
      EXPECT_EQ(answer->verdict, Verdict::kDenied);
    }
  }
  EXPECT_EQ(server_.limits().counts().losses, 2u);
}

TEST_F(SharedBatch, KeepsItsPlaceBeforeARequestWithAHold) {
  const std::vector<std::string> clients = names(1);
  std::vector<Ask> asks = one_of_each(clients);
  asks[0].costs[0].amount = 10;
  Waited<Decision> plain;
  Waited<Decision> held;
  mine_.loop.run([&] {
    engine::ask(server_.engine(), {.request = asks[0].request()}, clock_.now(), plain.callback());
    engine::ask(server_.engine(), {.request = asks[0].request(), .hold = 1s}, clock_.now(),
                held.callback());
  });
  const Result<Decision> first = plain.get();
  const Result<Decision> second = held.get();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->allowed());
  EXPECT_EQ(second->verdict, Verdict::kDenied);
}

TEST(SharedBatches, AreAnsweredWhenTheirThreadIsDetachedBeforeTheyLeave) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), three_limits(true), clock, patient());
  const engine::Attribute acme[] = {{"client", "acme"}};
  ASSERT_TRUE(server.acquire({.attributes = acme}));
  Thread mine;
  server.limits().attach(mine.loop);
  Waited<Decision> waited;
  mine.loop.run([&] {
    engine::ask(server.engine(), {.request = {.attributes = acme}}, clock.now(), waited.callback());
    server.limits().detach(mine.loop);
  });
  EXPECT_FALSE(waited.get());
}

}  // namespace
}  // namespace weir::store::redis
