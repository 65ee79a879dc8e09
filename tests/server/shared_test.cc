// Servers that share limits in one Redis.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/server/http_client.h"
#include "tests/server/shared_support.h"
#include "tests/server/support.h"
#include "weir/testing/redis_server.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;

struct SharedServers : ServerTest {
  // Two servers with the same limits. The timeout is long: these tests are not about it.
  void start_two(std::string_view limits, const std::string& redis_more = ", timeout: 10s") {
    const std::string settings = "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\nthreads: 2\n" +
                                 ("redis: { url: \"" + redis.url() + "\"" + redis_more + " }\n");
    start(settings, limits);
    first = std::move(server);
    start(settings, limits);
  }
  ~SharedServers() override { first.reset(); }

  static std::string resp(const Server& of) { return of.addresses()[0]; }
  static HttpAnswer post_to(const Server& of, std::string_view target, std::string_view body) {
    return HttpClient(of.addresses()[1]).ask(post(target, body));
  }
  static std::string hold_in(const std::string& body) {
    const std::size_t begin = body.find("\"hold\":\"") + 8;
    return body.substr(begin, body.find('"', begin) - begin);
  }

  RedisServer redis{{.keeps_data = true}};
  std::unique_ptr<Server> first;
};

TEST_F(SharedServers, AdmitTogetherWhatTheLimitAdmits) {
  start_two(kTenADay);
  std::atomic<std::size_t> allowed{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, address = resp(i % 2 == 0 ? *first : *server)] {
      Client client(address);
      std::string sent;
      for (int j = 0; j < 10; ++j) sent += kAskOfAcme;
      client.send(sent + "PING\r\n");
      allowed += count_of(client.receive_until("+PONG"), "allowed");
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(allowed, 10u);
}

TEST_F(SharedServers, AnswerAPipelineInOrder) {
  start_two(R"(
limits:
  - { name: shared, per: [client], bucket: { rate: 2/24h }, store: redis }
  - { name: local, per: [worker], window: { limit: 3, every: 10000d } }
)");
  Client client(resp(*server));
  client.send(
      "ECHO a\r\nWEIR.ACQUIRE worker=w\r\nWEIR.ACQUIRE client=c\r\nWEIR.ACQUIRE worker=w\r\n"
      "WEIR.ACQUIRE client=c\r\nWEIR.ACQUIRE client=c\r\nWEIR.ACQUIRE nothing=c\r\nECHO z\r\n");
  const std::string got = client.receive_until("\r\nz\r\n");
  std::size_t at = 0;
  for (const std::string_view part : {"$1\r\na\r\n", "local\r\n:2", "shared\r\n:1", "local\r\n:1",
                                      "shared\r\n:0", "denied", "-BADARG", "$1\r\nz\r\n"}) {
    at = got.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " is missing or out of order in " << got;
  }
}

TEST_F(SharedServers, AnswerATransactionAsOneArray) {
  start_two(R"(
limits:
  - { name: shared, per: [client], bucket: { rate: 2/24h }, store: redis }
  - { name: local, per: [worker], window: { limit: 3, every: 10000d } }
)");
  Client client(resp(*server));
  const std::string transaction =
      "MULTI\r\nPING\r\nWEIR.ACQUIRE worker=w\r\nWEIR.ACQUIRE client=c\r\nWEIR.ACQUIRE worker=w\r\n"
      "WEIR.ACQUIRE client=c\r\nWEIR.ACQUIRE client=c\r\nEXEC\r\n";
  client.send(transaction + transaction + "ECHO z\r\n");
  const std::string got = client.receive_until("\r\nz\r\n");
  std::size_t at = 0;
  for (const std::string_view part :
       {"*6\r\n+PONG\r\n*12", "local\r\n:2", "shared\r\n:1", "local\r\n:1", "shared\r\n:0",
        "denied", "+OK\r\n+QUEUED", "*6\r\n+PONG\r\n*12", "local\r\n:0", "denied", "denied",
        "denied", "denied", "$1\r\nz\r\n"}) {
    at = got.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " is missing or out of order in " << got;
    at += part.size();
  }
}

TEST_F(SharedServers, AnswerOverHttpAsOverResp) {
  start_two(kTenADay);
  const std::string_view ask = R"({"attributes":{"client":"acme"}})";
  const HttpAnswer one = post_to(*first, "/v1/acquire", ask);
  EXPECT_EQ(one.status, 200);
  EXPECT_THAT(one.body, HasSubstr(R"("verdict":"allowed")"));
  EXPECT_THAT(one.body, HasSubstr(R"("remaining":9)"));
  const HttpAnswer batch = post_to(*server, "/v1/batch",
                                   R"({"requests":[{"attributes":{"client":"acme"}},)"
                                   R"({"attributes":{"client":"other"}},{"attributes":{"x":"y"}},)"
                                   R"({"attributes":{"client":"acme"}}]})");
  EXPECT_EQ(batch.status, 200);
  EXPECT_EQ(count_of(batch.body, R"({"verdict":"allowed")"), 3u) << batch.body;
  EXPECT_EQ(count_of(batch.body, "},{\"verdict\"") + count_of(batch.body, "},{\"type\""), 3u)
      << batch.body;
  EXPECT_EQ(count_of(batch.body, "not used by any limit"), 1u) << batch.body;
  EXPECT_THAT(post_to(*first, "/v1/peek", ask).body, HasSubstr(R"("remaining":7)"));
  Client client(resp(*first));
  for (int i = 0; i < 7; ++i) client.send(kAskOfAcme);
  client.send("PING\r\n");
  client.receive_until("+PONG");
  EXPECT_EQ(post_to(*server, "/v1/acquire", ask).status, 429);
}

TEST_F(SharedServers, EndEachOthersHolds) {
  start_two(R"(
limits:
  - { name: running, slots: { limit: 1, hold: 1h }, store: redis }
)");
  const HttpAnswer held = post_to(*first, "/v1/acquire", "{}");
  ASSERT_EQ(held.status, 200) << held.body;
  const std::string hold = hold_in(held.body);
  EXPECT_TRUE(hold.ends_with("s")) << hold;
  EXPECT_EQ(post_to(*server, "/v1/acquire", "{}").status, 429);
  EXPECT_EQ(post_to(*server, "/v1/renew", R"({"hold":")" + hold + R"(","ttl":"2h"})").status, 200);
  first.reset();  // whoever made it is gone
  Client client(resp(*server));
  EXPECT_EQ(client.ask_until("WEIR.SETTLE " + hold + "\r\n", "\r\n"), "+settled\r\n");
  EXPECT_EQ(client.ask_until("WEIR.CANCEL " + hold + "\r\n", "\r\n"), "+settled\r\n");
  EXPECT_EQ(post_to(*server, "/v1/acquire", "{}").status, 200);
}

TEST_F(SharedServers, GiveUpTheWaitOfAClientThatHangsUp) {
  start_two(R"(
limits:
  - { name: running, slots: { limit: 1, queue: 4, hold: 1h }, store: redis }
)");
  const std::string hold = hold_in(post_to(*first, "/v1/acquire", "{}").body);
  const auto waiters = [&] { return server->engine().usage().waiters; };
  Client over_resp(resp(*server));
  HttpClient over_http(server->addresses()[1]);
  over_resp.send("WEIR.ACQUIRE WAIT 9m\r\n");
  ASSERT_TRUE(eventually([&] { return waiters() == 1; }));
  over_http.send(post("/v1/acquire", R"({"wait":"9m"})"));
  ASSERT_TRUE(eventually([&] { return waiters() == 2; }));
  over_resp.leave();
  EXPECT_TRUE(eventually([&] { return waiters() == 1; }));
  over_http.leave();
  EXPECT_TRUE(eventually([&] { return waiters() == 0; }));
  EXPECT_THAT(Client(resp(*server)).ask_until("INFO clients\r\n", "blocked_clients:0"),
              HasSubstr("blocked_clients:0"));
  // Nobody who has left takes the slot.
  ASSERT_EQ(post_to(*first, "/v1/cancel", R"({"hold":")" + hold + R"("})").status, 200);
  EXPECT_EQ(post_to(*server, "/v1/acquire", "{}").status, 200);
}

TEST_F(SharedServers, SayWhenRedisIsOutOfReachAndGoOnWhenItIsBack) {
  start_two(R"(
limits:
  - { name: strict, per: [client], bucket: { rate: 10/24h }, store: redis }
  - { name: lax, per: [worker], bucket: { rate: 10/24h }, store: redis, outage: allow }
  - { name: local, per: [team], bucket: { rate: 10/24h } }
)",
            ", timeout: 500ms");
  ASSERT_EQ(post_to(*server, "/v1/acquire", R"({"attributes":{"client":"a"}})").status, 200);
  redis.kill();
  const HttpAnswer strict = post_to(*server, "/v1/acquire", R"({"attributes":{"client":"a"}})");
  EXPECT_EQ(strict.status, 503);
  EXPECT_THAT(strict.body, HasSubstr("limit 'strict'"));
  EXPECT_EQ(post_to(*server, "/v1/acquire", R"({"attributes":{"worker":"a"}})").status, 200);
  EXPECT_EQ(post_to(*server, "/v1/acquire", R"({"attributes":{"team":"a"}})").status, 200);
  Client client(resp(*server));
  EXPECT_THAT(client.ask_until("WEIR.ACQUIRE client=a\r\n", "\r\n"), HasSubstr("-UNAVAILABLE"));
  ASSERT_TRUE(eventually([&] {
    post_to(*server, "/v1/acquire", R"({"attributes":{"worker":"a"}})");
    return server->metrics().find("weir_shared_out 1") != std::string::npos;
  }));
  redis.start();
  ASSERT_TRUE(eventually([&] {
    const HttpAnswer again = post_to(*server, "/v1/peek", R"({"attributes":{"client":"a"}})");
    return again.body.find(R"("remaining":9)") != std::string::npos;
  }));
  EXPECT_THAT(server->metrics(), HasSubstr("weir_shared_out 0"));
  EXPECT_THAT(server->metrics(), HasSubstr("weir_shared_losses_total 0"));
}

// However short: each turn is said when it happens.
TEST_F(SharedServers, SayOnceThatRedisIsOutOfReachAndOnceThatItIsBack) {
  write("listen: { resp: 127.0.0.1:0, http: none }\nthreads: 2\nredis: { url: \"" + redis.url() +
        "\", timeout: 20ms }\n" + std::string(kTenADay));
  auto config = config::load(path());
  ASSERT_TRUE(config) << config.error().message;
  struct Turns {
    std::mutex lock;
    std::vector<std::string> said;
  };
  const auto turns = std::make_shared<Turns>();  // the server lives longer than this function
  auto started =
      Server::start(std::move(*config), clock, StartEmpty::kNo, [turns](const LogLine& line) {
        if (!line.event.starts_with("outage")) return;
        const std::scoped_lock lock(turns->lock);
        turns->said.emplace_back(line.event);
        turns->said.back().append(" ").append(line.fields.at(0).value);
      });
  ASSERT_TRUE(started) << started.error().message;
  server = std::move(*started);
  const auto is_back = [&] {
    Client client(resp(*server));
    const std::string got = client.ask_until("WEIR.PEEK client=acme\r\nPING\r\n", "+PONG");
    return count_of(got, "allowed") + count_of(got, "denied") == 1;
  };
  ASSERT_TRUE(eventually(is_back));
  for (int i = 0; i < 5; ++i) {
    redis.pause();
    Client client(resp(*server));
    std::string sent;
    for (int j = 0; j < 10; ++j) sent += kAskOfAcme;
    const std::string got = client.ask_until(sent + "PING\r\n", "+PONG");
    redis.resume();
    ASSERT_EQ(count_of(got, "-UNAVAILABLE"), 10u) << got;
    ASSERT_TRUE(eventually(is_back));
  }
  EXPECT_TRUE(server->stop(5s));
  const std::scoped_lock lock(turns->lock);
  // A slow machine may have more of them.
  ASSERT_GE(turns->said.size(), 10u);
  for (std::size_t i = 0; i < turns->said.size(); ++i) {
    EXPECT_EQ(turns->said[i], i % 2 == 0 ? "outage redis" : "outage-over redis") << i;
  }
  EXPECT_EQ(turns->said.back(), "outage-over redis");
}

TEST_F(SharedServers, DoNotStartOnAReplica) {
  RedisServer replica({.more = {"--replicaof", "127.0.0.1", std::to_string(redis.port())}});
  write("listen: { resp: 127.0.0.1:0 }\nredis: { url: \"" + replica.url() + "\" }\n" +
        std::string(kTenADay));
  auto config = config::load(path());
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto started = Server::start(std::move(*config), clock);
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().message, HasSubstr("it is a replica, which takes no writes"));
}

// A failover leaves the address with the replica: `allow` would admit everything there.
TEST_F(SharedServers, AreNotReadyAndAdmitNothingWhileRedisIsAReplica) {
  start_two(
      "limits: [ { name: calls, per: [client], bucket: { rate: 10/24h }, store: redis, "
      "outage: allow } ]\n");
  const auto ready = [&] { return HttpClient(server->addresses()[1]).ask(get("/readyz")); };
  const auto acquire = [&] {
    return post_to(*server, "/v1/acquire", R"({"attributes":{"client":"acme"}})").status;
  };
  EXPECT_EQ(acquire(), 200);
  RedisServer master;
  ASSERT_EQ(redis.ask("REPLICAOF 127.0.0.1 " + std::to_string(master.port())), "+OK");
  EXPECT_EQ(acquire(), 503);
  EXPECT_TRUE(eventually([&] { return ready().status == 503; }));
  EXPECT_THAT(ready().body, HasSubstr("READONLY"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(acquire(), 503);
  ASSERT_EQ(redis.ask("REPLICAOF NO ONE"), "+OK");
  EXPECT_TRUE(eventually([&] { return ready().status == 200 && acquire() == 200; }));
}

TEST_F(SharedServers, StopWhileRedisIsSilent) {
  start_two(R"(
limits:
  - { name: calls, per: [client], bucket: { rate: 10/24h }, store: redis }
  - { name: local, per: [client], window: { limit: 3, every: 10000d } }
)");
  Client client(resp(*server));
  ASSERT_THAT(client.ask_until(kAskOfAcme, "local\r\n:2\r\n"), HasSubstr("allowed"));
  redis.pause();
  client.send(kAskOfAcme);
  // The local limit is held while Redis is asked.
  ASSERT_TRUE(eventually([&] { return server->engine().usage().holds == 1; }));
  EXPECT_TRUE(server->stop(Duration{0}));
  redis.resume();
}

}  // namespace
}  // namespace weir::server
