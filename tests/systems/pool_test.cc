// Pools with the real program, several instances and a real Redis: what the source document says,
// statement by statement, and what becomes of jobs when something ends or stands still.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/systems/support.h"
#include "weir/testing/redis_server.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using server::HttpAnswer;
using server::HttpClient;
using server::post;
using ::testing::HasSubstr;
using testing::RedisServer;

// The source document's own example, with so few requests that they bind. No type says how many
// requests it makes.
constexpr std::string_view kDocumentsExample =
    "  models: [{ name: m, tokens_per_minute: 500_000, requests_per_minute: 5 }]\n"
    "  job_types:\n"
    "    - { name: summary, tokens: 10_000, ratio: 0.3 }\n"
    "    - { name: VacationPlanning, tokens: 2000, ratio: 0.7, flexible: false }\n";
constexpr std::string_view kNarrowAndWide =
    "  models: [{ name: narrow, concurrent: 1 }, { name: wide, concurrent: 10 }]\n"
    "  escalation: [narrow, wide]\n"
    "  job_types: [{ name: a, tokens: 100 }]\n";

struct PoolProgram : ::testing::Test {
  static void SetUpTestSuite() { redis = std::make_unique<RedisServer>(); }
  static void TearDownTestSuite() { redis.reset(); }

  // A fleet of its own for each test and each name.
  static std::string over_redis(std::string_view name = "", std::string_view more = "") {
    return "  coordinator: " + redis->url() + "\n  redis: { prefix: '" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + std::string(name) +
           "', heartbeat: 200ms, instance_timeout: 2s" + std::string(more) + " }\n";
  }
  static void begin(Weir& weir, const std::string& pools) {
    weir.configure("pools:\n" + pools);
    weir.start();
  }
  // So that no minute ends for so long.
  static void keep_away_from_the_minute(std::chrono::seconds span = 10s) {
    const auto past = std::chrono::system_clock::now().time_since_epoch() % 60s;
    if (past > 60s - span) std::this_thread::sleep_for(60s - past + 5ms);
  }
  static HttpAnswer acquire(const Weir& weir, std::string_view type, std::string_view wait = "0s") {
    return weir.post("/v1/pool/acquire", R"({"type":")" + std::string(type) + R"(","wait":")" +
                                             std::string(wait) + R"("})");
  }
  static std::string text(const HttpAnswer& answer, std::string_view name) {
    const boost::json::value body = json(answer);
    const boost::json::value* const found = body.as_object().if_contains(name);
    return found == nullptr || !found->is_string() ? "(none)" : std::string(found->get_string());
  }
  static int release(const Weir& weir, const HttpAnswer& started, std::int64_t tokens) {
    return weir
        .post("/v1/pool/release", R"({"job":")" + text(started, "job") +
                                      R"(","requests":1,"input_tokens":)" + std::to_string(tokens) +
                                      "}")
        .status;
  }
  static boost::json::value model_of(const Weir& weir, std::string_view name) {
    const boost::json::value pool = json(weir.get("/v1/pool"));
    for (const boost::json::value& model : pool.at("models").as_array()) {
      if (model.at("model").as_string() == name) return model;
    }
    return {};
  }

  static std::unique_ptr<RedisServer> redis;
  Weir one;
  Weir two;
};
std::unique_ptr<RedisServer> PoolProgram::redis;

TEST_F(PoolProgram, LimitsRequestsThatTheDocumentsExampleDoesNotEstimate) {
  keep_away_from_the_minute();
  for (const std::string rule : {"strict", "published"}) {
    for (const std::string& coordinator : {std::string(), over_redis(rule)}) {
      Weir weir;
      begin(weir, std::string(kDocumentsExample) + "  rule: " + rule + "\n" + coordinator);
      int started = 0;
      for (int i = 0; i < 60; ++i) {
        // A young Redis may have lost its data, and the first job waits for that.
        const HttpAnswer job =
            acquire(weir, i % 2 == 0 ? "summary" : "VacationPlanning", i == 0 ? "10s" : "0s");
        if (job.status != 200) continue;
        started += 1;
        EXPECT_EQ(release(weir, job, 1'000), 200);
      }
      EXPECT_GE(started, 4) << rule << coordinator << ": floor(5 * 0.3) + floor(5 * 0.7)";
      EXPECT_LE(started, 5) << rule << coordinator;
      weir.stop();
    }
  }
}

TEST_F(PoolProgram, FindsAnIdleModelHoweverManyWaitForAnother) {
  for (const std::string& coordinator : {std::string(), over_redis()}) {
    Weir weir;
    begin(weir, std::string(kNarrowAndWide) + coordinator);
    EXPECT_EQ(text(acquire(weir, "a", "10s"), "model"), "narrow");
    std::vector<std::unique_ptr<HttpClient>> waiting;
    for (int i = 0; i < 20; ++i) {
      waiting.push_back(std::make_unique<HttpClient>(weir.http_address()));
      waiting.back()->send(post("/v1/pool/acquire", R"({"type":"a","wait":"60s"})"));
    }
    EXPECT_TRUE(eventually([&] { return model_of(weir, "narrow").at("waiting") == 20; }));
    EXPECT_EQ(text(acquire(weir, "a", "0s"), "model"), "wide");
    EXPECT_EQ(text(acquire(weir, "a", "300ms"), "model"), "wide");
    for (int i = 0; i < 8; ++i) EXPECT_EQ(acquire(weir, "a").status, 200);
    const HttpAnswer none = acquire(weir, "a");
    EXPECT_EQ(none.status, 429);
    EXPECT_EQ(text(none, "reason"), "all_models_exhausted");
    EXPECT_EQ(text(none, "model"), "wide");
    EXPECT_EQ(text(none, "dimension"), "concurrent");
    EXPECT_NE(none.field("Retry-After"), "(missing)");
    weir.stop();
  }
}

// Tokens and requests of the day and jobs in flight, as the books have them.
struct Books {
  std::int64_t tokens = -1;
  std::int64_t requests = -1;
  std::int64_t in_flight = -1;
  friend bool operator==(const Books&, const Books&) = default;
};
Books books_of(const Weir& weir) {
  const boost::json::value fleet = json(weir.get("/v1/pool")).at("fleet");
  if (!fleet.as_object().contains("models")) return {};
  const boost::json::value& model = fleet.at("models").at(0);
  const boost::json::value& day = model.at("windows").at("day");
  return {day.at("tokens").at("used").to_number<std::int64_t>(),
          day.at("requests").at("used").to_number<std::int64_t>(),
          model.at("in_flight").to_number<std::int64_t>()};
}

// 500,000 tokens and 500 requests a minute, two instances, `summary` with 0.3 of them: 7 each.
TEST_F(PoolProgram, DividesThePracticalExampleAsTheDocumentDoes) {
  keep_away_from_the_minute();
  const std::string pools =
      "  models: [{ name: gpt, tokens_per_minute: 500_000, requests_per_minute: 500 }]\n"
      "  job_types:\n"
      "    - { name: summary, tokens: 10_000, requests: 1, ratio: 0.3 }\n"
      "    - { name: chat, tokens: 10_000, requests: 1, ratio: 0.7 }\n" +
      over_redis();
  begin(one, pools);
  begin(two, pools);
  const auto allocation = [&] { return json(one.get("/v1/pool/allocation")).at("allocation"); };
  ASSERT_TRUE(eventually([&] { return allocation().at("instanceCount") == 2; }));
  const boost::json::value pool = allocation().at("pools").at("gpt");
  EXPECT_EQ(pool.at("totalSlots"), 25);
  EXPECT_EQ(pool.at("tokensPerMinute"), 250'000);
  EXPECT_EQ(pool.at("requestsPerMinute"), 250);
  EXPECT_EQ(pool.at("tokensPerDay"), 0) << "not limited";

  std::vector<HttpAnswer> jobs;
  for (const Weir* weir : {&one, &two}) {
    for (int i = 0; i < 7; ++i) {
      jobs.push_back(acquire(*weir, "summary", i == 0 ? "5s" : "0s"));
      EXPECT_EQ(jobs.back().status, 200) << jobs.back().body;
    }
    EXPECT_EQ(acquire(*weir, "summary").status, 429) << "job 15";
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(release(i < 7 ? one : two, jobs[i], 10'000), 200);
  }
  // Though all of them have ended: they were started in this minute.
  const HttpAnswer late = acquire(one, "summary", "300ms");
  EXPECT_EQ(late.status, 429);
  EXPECT_EQ(text(late, "dimension"), "tokens_per_minute");
  EXPECT_NE(late.field("Retry-After"), "(missing)");
  EXPECT_EQ(acquire(one, "chat").status, 200) << "another type has its own share";
  one.stop();
  two.stop();
}

TEST_F(PoolProgram, SettlesInBothDirections) {
  keep_away_from_the_minute();
  begin(one,
        "  models: [{ name: m, tokens_per_minute: 100_000 }]\n"
        "  job_types: [{ name: a, tokens: 10_000, requests: 1 }]\n" +
            over_redis());
  const HttpAnswer less = acquire(one, "a", "5s");
  EXPECT_EQ(books_of(one), (Books{10'000, 1, 1}));
  EXPECT_EQ(release(one, less, 6'000), 200);
  EXPECT_TRUE(eventually([&] { return books_of(one) == Books{6'000, 1, 0}; }));
  EXPECT_EQ(release(one, less, 6'000), 404) << "once";
  EXPECT_EQ(release(one, acquire(one, "a"), 15'000), 200);
  EXPECT_TRUE(eventually([&] { return books_of(one) == Books{21'000, 2, 0}; }));
  one.stop();
}

// 100 slots: A has 5 of 30 in use and gives, B 38 of 40 and receives, C is fixed.
TEST_F(PoolProgram, MovesRatiosAsTheDocumentsExampleDoes) {
  begin(one,
        "  models: [{ name: m, concurrent: 100 }]\n"
        "  job_types:\n"
        "    - { name: A, tokens: 1, ratio: 0.3 }\n"
        "    - { name: B, tokens: 1, ratio: 0.4 }\n"
        "    - { name: C, tokens: 1, ratio: 0.3, flexible: false }\n"
        "  ratios: { interval: 300ms, releases: 0 }\n");
  const auto start = [&](std::string_view type, int count) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(acquire(one, type).status, 200) << type << i;
  };
  start("A", 5);
  start("C", 10);
  start("B", 38);
  const auto ratio = [&](std::size_t place) {
    return json(one.get("/v1/pool")).at("job_types").at(place).at("ratio").to_number<double>();
  };
  EXPECT_TRUE(eventually([&] { return ratio(0) < 0.2; }));
  EXPECT_NEAR(ratio(0), 0.4 / 3, 1e-6);
  EXPECT_NEAR(ratio(1), 1.7 / 3, 1e-6);
  EXPECT_NEAR(ratio(2), 0.3, 1e-6);
  start("B", 18);
  EXPECT_EQ(acquire(one, "B").status, 429) << "56 slots";
  one.stop();
}

// A restart of the service while jobs run at the provider.
TEST_F(PoolProgram, FreesNothingThatRunsWhenItEndsInOrder) {
  const std::string pools =
      "  models: [{ name: m, concurrent: 4 }]\n"
      "  job_types: [{ name: a, tokens: 100 }]\n" +
      over_redis();
  begin(one, pools);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(acquire(one, "a", "10s").status, 200);
  one.stop();
  const auto stopped_at = std::chrono::steady_clock::now();
  one.start();
  EXPECT_EQ(acquire(one, "a").status, 429);
  EXPECT_EQ(books_of(one).in_flight, 4);
  EXPECT_EQ(acquire(one, "a", "10s").status, 200) << "the lease is over";
  EXPECT_GE(std::chrono::steady_clock::now() - stopped_at, 1900ms);
  EXPECT_LE(std::chrono::steady_clock::now() - stopped_at, 5s);
  one.stop();
}

// At the defaults: a heartbeat each second, a lease of 15 s.
TEST_F(PoolProgram, HasThePlacesOfAKilledInstanceBackWithinFiveSeconds) {
  const std::string pools =
      "  models: [{ name: m, concurrent: 4 }]\n"
      "  job_types: [{ name: a, tokens: 100 }]\n  coordinator: " +
      redis->url() + "\n  redis: { prefix: killed }\n";
  begin(one, pools);
  begin(two, pools);
  EXPECT_EQ(acquire(one, "a", "30s").status, 200) << "a young Redis is waited for";
  EXPECT_EQ(acquire(one, "a").status, 200);
  const HttpAnswer stays = acquire(two, "a", "5s");
  EXPECT_EQ(stays.status, 200);
  EXPECT_EQ(acquire(two, "a", "5s").status, 200);

  // One that lives keeps its places: it lost the connection by which it is seen, or stands still.
  EXPECT_THAT(redis->ask("CLIENT KILL TYPE pubsub"), HasSubstr(":"));
  std::this_thread::sleep_for(3s);
  EXPECT_EQ(books_of(one).in_flight, 4);
  two.process().signal(SIGSTOP);
  std::this_thread::sleep_for(4s);
  EXPECT_EQ(books_of(one).in_flight, 4);
  two.process().signal(SIGCONT);
  EXPECT_EQ(books_of(one).in_flight, 4);
  EXPECT_EQ(release(two, stays, 100), 200);
  EXPECT_EQ(acquire(two, "a", "5s").status, 200);

  two.kill();
  const auto killed_at = std::chrono::steady_clock::now();
  EXPECT_EQ(acquire(one, "a", "20s").status, 200);
  EXPECT_LE(std::chrono::steady_clock::now() - killed_at, 5s);
  EXPECT_TRUE(eventually([&] { return books_of(one).in_flight == 3; }));
  one.stop();
}

TEST_F(PoolProgram, HasBooksThatAddUpAfterRedisStoodStill) {
  for (const std::string policy : {"deny", "local", "allow"}) {
    const std::string pools =
        "  models: [{ name: m, tokens_per_minute: 1_000_000, tokens_per_day: 2_000_000 }]\n"
        "  job_types: [{ name: a, tokens: 1000 }]\n" +
        over_redis(policy, ", timeout: 300ms, outage: " + policy);
    Weir first, second;
    begin(first, pools);
    begin(second, pools);
    std::int64_t used = 0;
    std::int64_t jobs = 0;
    const auto end = [&](const Weir& weir, const HttpAnswer& job, std::int64_t tokens) {
      EXPECT_EQ(release(weir, job, tokens), 200);
      used += tokens;
      jobs += 1;
    };
    for (const auto pause : {200ms, 1200ms, 3000ms}) {
      const HttpAnswer runs = acquire(first, "a", "10s");
      const HttpAnswer goes_on = acquire(second, "a", "10s");
      redis->pause();
      std::vector<HttpAnswer> answers(6);
      std::vector<std::thread> clients;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        clients.emplace_back([&, i] { answers[i] = acquire(i % 2 == 0 ? first : second, "a"); });
      }
      std::this_thread::sleep_for(pause / 2);
      end(first, runs, 300);
      std::this_thread::sleep_for(pause - pause / 2);
      redis->resume();
      for (std::thread& client : clients) client.join();
      end(second, goes_on, 2'500);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        if (answers[i].status == 200) end(i % 2 == 0 ? first : second, answers[i], 7);
      }
      const Books expected{used, jobs, 0};
      EXPECT_TRUE(eventually([&] { return books_of(first) == expected; }))
          << policy << ", " << pause.count() << " ms: " << books_of(first).tokens << " tokens of "
          << used << ", " << books_of(first).requests << " requests of " << jobs << ", "
          << books_of(first).in_flight << " in flight";
      EXPECT_THAT(first.get("/metrics").body,
                  HasSubstr("weir_pool_uncertain{unit=\"tokens\"} 0\n"));
    }
    first.stop();
    second.stop();
  }
}

// Redis says itself why it will not be asked, and the log, the answers and /readyz repeat it.
TEST_F(PoolProgram, SaysInRedisOwnWordsWhyItCannotBeAsked) {
  RedisServer locked({.password = "right"});
  const std::string models =
      "  models: [{ name: m, concurrent: 4 }]\n"
      "  job_types: [{ name: a, tokens: 100 }]\n";
  const auto over = [&](std::string_view user) {
    return models + "  coordinator: redis://" + std::string(user) +
           "@127.0.0.1:" + std::to_string(locked.port()) +
           "\n  redis: { instance_timeout: 2s, heartbeat: 200ms }\n";
  };
  begin(one, over(":wrong"));
  EXPECT_EQ(acquire(one, "a").status, 503);
  EXPECT_THAT(acquire(one, "a").body, HasSubstr("WRONGPASS"));
  EXPECT_EQ(one.get("/readyz").status, 503);
  EXPECT_THAT(one.get("/readyz").body, HasSubstr("pools"));
  EXPECT_TRUE(eventually([&] { return one.said().find("WRONGPASS") != std::string::npos; }))
      << one.said();
  one.stop();

  RedisServer open;
  ASSERT_THAT(open.ask("ACL SETUSER poor on >x ~* &* +hello +ping +script +subscribe"),
              HasSubstr("OK"));
  begin(two, models + "  coordinator: redis://poor:x@127.0.0.1:" + std::to_string(open.port()) +
                 "\n  redis: { instance_timeout: 2s, heartbeat: 200ms }\n");
  EXPECT_THAT(acquire(two, "a").body, HasSubstr("NOPERM"));
  EXPECT_EQ(two.get("/readyz").status, 503);
  ASSERT_THAT(open.ask("ACL SETUSER poor +@all"), HasSubstr("OK"));
  EXPECT_TRUE(eventually([&] { return two.get("/readyz").status == 200; }));
  EXPECT_EQ(acquire(two, "a", "10s").status, 200);
  two.stop();
}

TEST_F(PoolProgram, TakesARedisThatIsMadeAReplicaForAnOutageWithAName) {
  RedisServer changing;
  begin(one,
        "  models: [{ name: m, concurrent: 4 }]\n"
        "  job_types: [{ name: a, tokens: 100 }]\n  coordinator: " +
            changing.url() + "\n  redis: { instance_timeout: 2s, heartbeat: 200ms }\n");
  EXPECT_EQ(acquire(one, "a", "10s").status, 200);
  ASSERT_THAT(changing.ask("REPLICAOF 127.0.0.1 1"), HasSubstr("OK"));
  EXPECT_TRUE(eventually([&] { return one.get("/readyz").status == 503; }));
  EXPECT_THAT(acquire(one, "a").body,
              ::testing::AnyOf(HasSubstr("READONLY"), HasSubstr("replica")));
  ASSERT_THAT(changing.ask("REPLICAOF NO ONE"), HasSubstr("OK"));
  EXPECT_TRUE(eventually([&] { return one.get("/readyz").status == 200; }));
  EXPECT_EQ(acquire(one, "a").status, 200);
  one.stop();
}

}  // namespace
}  // namespace weir
