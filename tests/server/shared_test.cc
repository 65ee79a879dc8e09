// Servers that share limits in one Redis.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/server/http_client.h"
#include "tests/server/support.h"
#include "tests/support/process.h"
#include "weir/testing/redis_server.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;

constexpr std::string_view kAsk = "WEIR.ACQUIRE client=acme\r\n";

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// Waits until `holds()`, for as long as a slow machine may take.
template <typename Condition>
bool in_time(Condition&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < deadline) {
    if (holds()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

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

constexpr std::string_view kTen =
    "limits: [ { name: calls, per: [client], bucket: { rate: 10/24h }, store: redis } ]\n";

TEST_F(SharedServers, AdmitTogetherWhatTheLimitAdmits) {
  start_two(kTen);
  std::atomic<std::size_t> allowed{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, address = resp(i % 2 == 0 ? *first : *server)] {
      Client client(address);
      std::string sent;
      for (int j = 0; j < 10; ++j) sent += kAsk;
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
  - { name: local, per: [worker], window: { limit: 3, every: 1d } }
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

TEST_F(SharedServers, AnswerOverHttpAsOverResp) {
  start_two(kTen);
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
  for (int i = 0; i < 7; ++i) client.send(kAsk);
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
  ASSERT_TRUE(in_time([&] {
    post_to(*server, "/v1/acquire", R"({"attributes":{"worker":"a"}})");
    return server->metrics().find("weir_shared_out 1") != std::string::npos;
  }));
  redis.start();
  ASSERT_TRUE(in_time([&] {
    const HttpAnswer again = post_to(*server, "/v1/peek", R"({"attributes":{"client":"a"}})");
    return again.body.find(R"("remaining":9)") != std::string::npos;
  }));
  EXPECT_THAT(server->metrics(), HasSubstr("weir_shared_out 0"));
  EXPECT_THAT(server->metrics(), HasSubstr("weir_shared_losses_total 0"));
}

TEST_F(SharedServers, StopWhileRedisIsSilent) {
  start_two(R"(
limits:
  - { name: calls, per: [client], bucket: { rate: 10/24h }, store: redis }
  - { name: local, per: [client], window: { limit: 3, every: 1d } }
)");
  Client client(resp(*server));
  ASSERT_THAT(client.ask_until(kAsk, "local\r\n:2\r\n"), HasSubstr("allowed"));
  redis.pause();
  client.send(kAsk);
  // The local limit is held while Redis is asked.
  ASSERT_TRUE(in_time([&] { return server->engine().holds() == 1; }));
  EXPECT_TRUE(server->stop(Duration{0}));
  redis.resume();
}

// --- processes

struct Fleet : ServerTest {
  void write_config(int number, std::string_view limits) {
    std::ofstream(file(number)) << "listen: { resp: \"unix:" << socket(number)
                                << "\" }\nthreads: 1\nredis: { url: \"" << redis.url()
                                << "\", timeout: 5s }\n"
                                << limits;
  }
  std::unique_ptr<Process> launch(int number) {
    return std::make_unique<Process>(std::vector<std::string>{WEIR_PROGRAM, "serve", file(number)});
  }
  std::string file(int number) const { return dir / ("weir" + std::to_string(number) + ".yaml"); }
  std::string socket(int number) const { return dir / ("w" + std::to_string(number)); }

  RedisServer redis{{.keeps_data = true}};
};

// Admissions are counted by the clients. Whatever dies meanwhile, they are never more than
// burst + rate * time.
TEST_F(Fleet, AdmitsNoMoreThanTheLimitThoughServersAndRedisAreKilled) {
  constexpr double kRate = 200;
  constexpr double kBurst = 50;
  for (int i = 0; i < 2; ++i) {
    write_config(i,
                 "limits: [ { name: calls, bucket: { rate: 200/s, burst: 50 }, store: redis } ]\n");
  }
  std::vector<std::unique_ptr<Process>> servers;
  for (int i = 0; i < 2; ++i) servers.push_back(launch(i));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(in_time([&] { return Client("unix:" + socket(i)).is_connected(); }))
        << servers[static_cast<std::size_t>(i)]->said();
  }
  std::atomic<bool> is_over{false};
  std::atomic<long> allowed{0};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      while (!is_over) {
        Client client("unix:" + socket(i % 2));
        while (!is_over && client.is_connected()) {
          const std::string got = client.ask_until("WEIR.ACQUIRE\r\nPING\r\n", "+PONG\r\n");
          allowed += static_cast<long>(count_of(got, "allowed"));
          if (got.empty()) break;
        }
        std::this_thread::sleep_for(10ms);
      }
    });
  }
  const auto admit = [&](long more) {
    const long before = allowed;
    return in_time([&] { return allowed >= before + more; });
  };
  EXPECT_TRUE(admit(100));
  servers[0]->signal(SIGKILL);
  servers[0]->wait();
  EXPECT_TRUE(admit(50));
  redis.kill();
  redis.start();
  EXPECT_TRUE(admit(50));
  servers[0] = launch(0);
  EXPECT_TRUE(admit(50));
  redis.pause();
  std::this_thread::sleep_for(300ms);
  redis.resume();
  EXPECT_TRUE(admit(50));
  redis.kill();
  redis.forget();
  redis.start();
  EXPECT_TRUE(admit(50));
  is_over = true;
  for (std::thread& client : clients) client.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(static_cast<double>(allowed), kBurst + kRate * took.count());
  for (auto& server_process : servers) server_process->signal(SIGTERM);
  for (auto& server_process : servers) EXPECT_EQ(server_process->wait(), 0);
}

}  // namespace
}  // namespace weir::server
