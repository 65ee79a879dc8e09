// Pools in a server: alone, with a Redis that is away, and two processes with one Redis.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "tests/server/pool_support.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/testing/redis_server.h"
#include "weir/wire/http/pool_routes.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string release_of(const std::string& acquired) {
  return post("/v1/pool/release", R"({"job":")" + member(acquired, "job") +
                                      R"(","requests":1,"input_tokens":5,"output_tokens":5})");
}

constexpr std::string_view kAsk = R"({"type":"chat","wait":0})";
constexpr std::string_view kPatientAsk = R"({"type":"chat","wait":"60s"})";

struct PoolServer : HttpTest {
  // One model with so many places.
  void begin(int places, const std::string& rest = "") {
    start(
        "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\npools:\n"
        "  models: [{ name: big, concurrent: " +
            std::to_string(places) +
            ", pricing: { input: 1, output: 1 } }]\n"
            "  job_types: [{ name: chat, tokens: 10, requests: 1 }]\n" +
            rest,
        "limits: []\n");
  }
  std::string http() const { return server->addresses()[1]; }
  std::string resp() const { return server->addresses()[0]; }
  HttpAnswer ask(std::string_view request) { return HttpClient(http()).ask(request); }
  bool someone_waits() {
    return eventually([&] {
      return in_force<wire::http::PoolPart>(*server)->pools().reading(clock.now()).waiting == 1;
    });
  }
  bool nobody_waits() {
    return eventually([&] {
      return in_force<wire::http::PoolPart>(*server)->pools().reading(clock.now()).waiting == 0;
    });
  }
};

TEST_F(PoolServer, StartsJobsAndCountsWhatTheyUsed) {
  begin(2);
  const HttpAnswer started = ask(post("/v1/pool/acquire", kAsk));
  EXPECT_EQ(started.status, 200) << started.body;
  EXPECT_EQ(member(started.body, "model"), "big");
  EXPECT_EQ(ask(release_of(started.body)).status, 200);
  EXPECT_EQ(ask(release_of(started.body)).status, 404);
  const std::string metrics = ask(get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("weir_pool_starts_total{model=\"big\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_pool_tokens_total{model=\"big\"} 10\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_pool_cost_dollars_total{model=\"big\"} 0.000010\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_pool_type_ratio{type=\"chat\"} 1.000000\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_pool_reachable 1\n"));
  EXPECT_THAT(ask(get("/v1/pool")).body, HasSubstr(R"("fleet":{"kind":"local")"));
  EXPECT_THAT(ask(get("/v1/pool/allocation")).body,
              HasSubstr(R"("allocation":{"instanceCount":1,"pools":{"big":{"totalSlots":2,)"));
}

TEST_F(PoolServer, LetsAClientWaitForAPlace) {
  begin(1);
  const std::string first = ask(post("/v1/pool/acquire", kAsk)).body;
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 429);
  HttpClient waiting(http());
  waiting.send(post("/v1/pool/acquire", kPatientAsk));
  ASSERT_TRUE(someone_waits());
  EXPECT_EQ(ask(release_of(first)).status, 200);
  EXPECT_EQ(waiting.read().status, 200);
}

TEST_F(PoolServer, TakesThePlaceOfAClientThatLeaves) {
  begin(1);
  const std::string first = ask(post("/v1/pool/acquire", kAsk)).body;
  {
    HttpClient leaving(http());
    leaving.send(post("/v1/pool/acquire", kPatientAsk));
    ASSERT_TRUE(someone_waits());
  }
  ASSERT_TRUE(nobody_waits());
  Client also(resp());
  also.send("WEIR.POOL.ACQUIRE chat WAIT 60s\r\n");
  ASSERT_TRUE(someone_waits());
  also.leave();
  ASSERT_TRUE(nobody_waits());
  EXPECT_EQ(ask(release_of(first)).status, 200);
  EXPECT_EQ(in_force<wire::http::PoolPart>(*server)->pools().reading(clock.now()).jobs, 0u);
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 200);
}

TEST_F(PoolServer, SpeaksOfJobsInResp) {
  begin(1);
  const std::string first = ask(post("/v1/pool/acquire", kAsk)).body;
  Client waiting(resp());
  waiting.send("WEIR.POOL.ACQUIRE chat WAIT 60s\r\nPING\r\n");
  ASSERT_TRUE(someone_waits());
  Client other(resp());
  EXPECT_THAT(other.ask_until("WEIR.POOL.RELEASE " + member(first, "job") + " FAILED\r\n",
                              "overage_requests\r\n:0\r\n"),
              HasSubstr("$6\r\nfailed\r\n"));
  EXPECT_THAT(waiting.receive_until("+PONG\r\n"), HasSubstr("$7\r\nallowed\r\n"));
}

TEST_F(PoolServer, AnswersThoseWhoWaitWhenItStops) {
  begin(1);
  ask(post("/v1/pool/acquire", kAsk));
  HttpClient waiting(http());
  waiting.send(post("/v1/pool/acquire", kPatientAsk));
  ASSERT_TRUE(someone_waits());
  Client in_resp(resp());
  in_resp.send("WEIR.POOL.ACQUIRE chat WAIT 60s\r\n");
  ASSERT_TRUE(eventually([&] {
    return in_force<wire::http::PoolPart>(*server)->pools().reading(clock.now()).waiting == 2;
  }));
  ASSERT_TRUE(server->stop(kPatience).ok());
  EXPECT_EQ(waiting.read().status, 503);
  EXPECT_THAT(in_resp.receive_until("\r\n"), HasSubstr("-UNAVAILABLE the server is stopping"));
}

TEST_F(PoolServer, EndsJobsThatNobodyEnds) {
  begin(1, "  hold: 1s\n");
  ask(post("/v1/pool/acquire", kAsk));
  // Waits for the place to come back by itself.
  HttpClient waiting(http());
  EXPECT_EQ(waiting.ask(post("/v1/pool/acquire", kPatientAsk)).status, 200);
  // The second may have ended likewise by now.
  const std::string expired =
      after(ask(get("/metrics")).body, "weir_pool_jobs_total{outcome=\"expired\"} ");
  EXPECT_GE(std::atoi(expired.c_str()), 1);
}

// Nobody listens on port 1.
TEST_F(PoolServer, RefusesOrAdmitsWithoutItsRedisAsTheOutagePolicySays) {
  begin(1, "  coordinator: redis://127.0.0.1:1\n");
  EXPECT_EQ(ask(post("/v1/pool/acquire", kPatientAsk)).status, 503);
  EXPECT_THAT(ask(get("/metrics")).body, HasSubstr("weir_pool_reachable 0\n"));
  EXPECT_EQ(ask(get("/v1/pool")).status, 200);
  server.reset();
  begin(1, "  coordinator: redis://127.0.0.1:1\n  redis: { outage: allow }\n");
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 200);
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 429);
}

TEST_F(PoolServer, IsNotStartedWithOtherLimitsThanTheFleet) {
  testing::RedisServer redis;
  const std::string shared = "  coordinator: " + redis.url() + "\n  redis: { timeout: 10s }\n";
  begin(1, shared);
  write(
      "listen: { resp: none, http: 127.0.0.1:0 }\npools:\n  models: [{ name: big, concurrent: 2 "
      "}]\n  job_types: [{ name: chat, tokens: 10, requests: 1 }]\n" +
      shared + "limits: []\n");
  auto config = config::load(path());
  ASSERT_TRUE(config) << config.error().message;
  const auto other = Server::start(std::move(*config), clock);
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("pools: mismatch: model 'big'"));
}

// --- reload

TEST_F(PoolServer, TakesNewLimitsWhenItReloadsAndKeepsWhatRuns) {
  begin(1);
  const std::string first = ask(post("/v1/pool/acquire", kAsk)).body;
  HttpClient waiting(http());
  waiting.send(post("/v1/pool/acquire", kPatientAsk));
  ASSERT_TRUE(someone_waits());
  const auto with_places = [](const std::string& places, const std::string& rest = "") {
    return "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\npools:\n"
           "  models: [{ name: big, concurrent: " +
           places +
           ", pricing: { input: 1000000, output: 1000000 } }]\n"
           "  job_types: [{ name: chat, tokens: 10, requests: 1 }]\n" +
           rest + "limits: []\n";
  };
  write(with_places("2", "  hold: 5m\n"));
  const HttpAnswer reloaded = ask(post("/v1/reload", ""));
  ASSERT_EQ(reloaded.status / 100, 2) << reloaded.body;
  const HttpAnswer second = waiting.read();
  EXPECT_EQ(second.status, 200) << "whoever waited has a place now";
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 429);
  // The job from before goes on, and costs what jobs cost now.
  const HttpAnswer released = ask(release_of(first));
  EXPECT_EQ(released.status, 200);
  EXPECT_EQ(member(released.body, "cost"), "10");
  EXPECT_EQ(ask(release_of(second.body)).status, 200);
  EXPECT_EQ(member(ask(post("/v1/pool/acquire", kAsk)).body, "expires_in_ms"), "300000");

  // A mistake, or what needs a restart, leaves everything as it is.
  write(with_places("none"));
  EXPECT_EQ(ask(post("/v1/reload", "")).status, 422);
  write(with_places("7", "  rule: published\n"));
  EXPECT_EQ(ask(post("/v1/reload", "")).status / 100, 2);
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 200);
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 429) << "two places, as before";
}

TEST_F(PoolServer, NeedsAHigherVersionForOtherLimitsOfAFleet) {
  testing::RedisServer redis;
  const std::string shared =
      "  coordinator: " + redis.url() +
      "\n  redis: { timeout: 10s, heartbeat: 100ms, instance_timeout: 300ms }\n";
  begin(1, shared);
  const std::string first = ask(post("/v1/pool/acquire", kPatientAsk)).body;
  const auto with_places = [&](int places, int version) {
    write(
        "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\npools:\n  models: [{ name: big, "
        "concurrent: " +
        std::to_string(places) +
        " }]\n  job_types: [{ name: chat, tokens: 10, requests: 1 }]\n  version: " +
        std::to_string(version) + "\n" + shared + "limits: []\n");
    return ask(post("/v1/reload", ""));
  };
  const HttpAnswer refused = with_places(2, 0);
  EXPECT_EQ(refused.status, 422);
  EXPECT_THAT(refused.body, HasSubstr("pools: limits or estimates changed, but the version went "
                                      "from 0 to 0; write 1"));
  EXPECT_EQ(ask(post("/v1/pool/acquire", kAsk)).status, 429);
  const HttpAnswer taken = with_places(2, 1);
  EXPECT_EQ(taken.status / 100, 2) << taken.body;
  EXPECT_EQ(ask(post("/v1/pool/acquire", kPatientAsk)).status, 200);
  EXPECT_EQ(ask(release_of(first)).status, 200);
}

// --- two processes, one Redis

struct TwoInstances : app::AppTest {
  std::string config_for(const std::string& name) const {
    return "listen: { resp: none, http: 127.0.0.1:0 }\npools:\n"
           "  models: [{ name: big, requests_per_day: 20 }]\n"
           "  job_types: [{ name: chat, requests: 1, tokens: 0 }]\n"
           "  coordinator: " +
           redis.url() + "\n  redis: { instance: " + name +
           ", timeout: 10s, heartbeat: 200ms, instance_timeout: 2s }\nlimits: []\n";
  }
  std::unique_ptr<Process> begin(const std::string& name) {
    const std::string file = dir / (name + ".yaml");
    std::ofstream(file) << config_for(name);
    return std::make_unique<Process>(weir({"serve", file}));
  }
  static bool shows_instances(const std::string& at, const std::string& count) {
    return eventually([&] {
      return member(HttpClient(at).ask(get("/v1/pool")).body, "instance_count") == count;
    });
  }

  testing::RedisServer redis;
};

TEST_F(TwoInstances, ShareOneLimitThroughOneRedis) {
  const auto one = begin("one");
  const auto two = begin("two");
  const std::string addresses[] = {address_of(*one), address_of(*two)};
  for (const std::string& at : addresses) ASSERT_TRUE(shows_instances(at, "2"));
  // A Redis that has just begun admits once it knows that nothing was lost.
  std::map<std::string, int> starts;  // by the day that the answer names
  const auto take = [&](const std::string& at, std::string_view body) {
    const HttpAnswer answer = HttpClient(at).ask(post("/v1/pool/acquire", body));
    if (answer.status != 200) {
      EXPECT_EQ(answer.status, 429) << answer.body;
      return false;
    }
    starts[member(answer.body.substr(answer.body.find("\"day\"")), "begins")] += 1;
    EXPECT_EQ(HttpClient(at).ask(release_of(answer.body)).status, 200);
    return true;
  };
  for (const std::string& at : addresses) ASSERT_TRUE(take(at, kPatientAsk));
  bool is_left[] = {true, true};
  for (int i = 0; i < 100 && (is_left[0] || is_left[1]); ++i) {
    for (std::size_t j = 0; j < 2; ++j) {
      if (is_left[j]) is_left[j] = take(addresses[j], kAsk);
    }
  }
  EXPECT_FALSE(is_left[0] || is_left[1]);
  ASSERT_FALSE(starts.empty());
  // One day, unless it turned meanwhile.
  for (const auto& [day, count] : starts) EXPECT_LE(count, 20) << day;
  if (starts.size() == 1) {
    EXPECT_EQ(starts.begin()->second, 20);
  }

  two->signal(SIGKILL);
  two->wait();
  EXPECT_TRUE(shows_instances(addresses[0], "1"));
  EXPECT_FALSE(take(addresses[0], kAsk) && starts.size() == 1);
}

// --- examples/pool: two instances, a Redis, a stub of a model, and a worker for each

struct Example : TwoInstances {
  std::unique_ptr<Process> serve_example(const std::string& name) {
    std::stringstream text;
    text << std::ifstream(WEIR_SOURCE_DIR "/examples/pool/" + name).rdbuf();
    std::string config =
        std::regex_replace(text.str(), std::regex("127.0.0.1:(808.|638.)"), "127.0.0.1:0");
    config = std::regex_replace(config, std::regex("resp: 127.0.0.1:0"), "resp: none");
    config = std::regex_replace(config, std::regex("redis://127.0.0.1:6379"), redis.url());
    std::ofstream(dir / name) << config;
    return std::make_unique<Process>(weir({"serve", dir / name}));
  }
  static std::vector<std::string> python(std::vector<std::string> words) {
    words[0] = WEIR_SOURCE_DIR "/examples/pool/" + words[0];
    words.insert(words.begin(), "/usr/bin/python3");
    return words;
  }
};

TEST_F(Example, KeepsTheLimitsOfTheModelBehindIt) {
  Process model(python({"model.py", "0"}));
  std::string model_at;
  ASSERT_TRUE(eventually([&] {
    const std::string said = model.printed();
    if (!said.ends_with('\n')) return false;
    model_at = said.substr(said.find("127."), said.size() - said.find("127.") - 1);
    return true;
  }));
  const auto one = serve_example("one.yaml");
  const auto two = serve_example("two.yaml");
  const std::string addresses[] = {address_of(*one), address_of(*two)};
  for (const std::string& at : addresses) ASSERT_TRUE(shows_instances(at, "2"));
  std::vector<std::unique_ptr<Process>> workers;
  for (const std::string& at : addresses) {
    workers.push_back(std::make_unique<Process>(
        python({"worker.py", "http://" + at, "http://" + model_at, "chat", "6"})));
  }
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->wait(), 0) << worker->said();
    EXPECT_THAT(worker->printed(), HasSubstr("job 5: "));
    EXPECT_THAT(worker->printed(), Not(HasSubstr("exhausted")));
  }
  // {"large 2027-…": 4, "small 2027-…": 8}
  const std::string counts = HttpClient(model_at).ask(get("/counts")).body;
  int sum = 0;
  const std::regex each("\"(large|small) [^\"]*\": ([0-9]+)");
  for (std::sregex_iterator at(counts.begin(), counts.end(), each), end; at != end; ++at) {
    EXPECT_LE(std::stoi((*at)[2]), (*at)[1] == "large" ? 10 : 20) << counts;
    sum += std::stoi((*at)[2]);
  }
  EXPECT_EQ(sum, 12) << counts;
}

}  // namespace
}  // namespace weir::server
