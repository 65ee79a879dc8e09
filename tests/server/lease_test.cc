// Servers that draw units of shared limits ahead.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/server/admissions.h"
#include "tests/server/http_client.h"
#include "tests/server/shared_support.h"
#include "tests/server/support.h"
#include "tests/support/delaying_proxy.h"
#include "tests/support/process.h"
#include "tests/support/sanitizer.h"
#include "weir/testing/redis_server.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;
using SteadyTime = std::chrono::steady_clock::time_point;

struct LeasingServers : ServerTest {
  void start_two(const std::string& limits) {
    const std::string settings = "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\nthreads: 2\n" +
                                 ("redis: { url: \"" + redis.url() + "\", timeout: 10s }\n");
    start(settings, limits);
    first = std::move(server);
    start(settings, limits);
  }
  ~LeasingServers() override { first.reset(); }

  // How many of so many requests are admitted.
  static std::size_t ask(const Server& of, int times) {
    Client client(of.addresses()[0]);
    std::string sent;
    for (int i = 0; i < times; ++i) sent += kAskOfAcme;
    client.send(sent + "PING\r\n");
    return count_of(client.receive_until("+PONG"), "allowed");
  }
  static std::uint64_t metric(const Server& of, const std::string& name) {
    const std::string text = of.metrics();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size() + 2));
  }
  static std::uint64_t held(const Server& of) {
    return metric(of, "weir_lease_held{limit=\"calls\"}");
  }

  RedisServer redis;
  std::unique_ptr<Server> first;
};

std::string hundred(std::string_view lease) {
  return "limits: [ { name: calls, per: [client], bucket: { rate: 100/24h }, store: redis, "
         "lease: " +
         std::string(lease) + " } ]\n";
}

TEST_F(LeasingServers, AdmitTogetherWhatTheLimitAdmits) {
  start_two(hundred("{ most: 20, length: 1h }"));
  std::atomic<std::size_t> allowed{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] { allowed += ask(i % 2 == 0 ? *first : *server, 50); });
  }
  for (std::thread& client : clients) client.join();
  const std::uint64_t unused = held(*first) + held(*server);
  EXPECT_EQ(allowed + unused, 100u);
}

TEST_F(LeasingServers, ReturnWhatTheyHoldWhenTheyStop) {
  start_two(hundred("{ most: 50, length: 1h }"));
  std::size_t allowed = 0;
  ASSERT_TRUE(eventually([&] {
    allowed += ask(*first, 1);
    return held(*first) >= 4;
  }));
  EXPECT_TRUE(first->stop(5s));
  first.reset();
  EXPECT_EQ(ask(*server, 200) + held(*server), 100 - allowed);
}

TEST_F(LeasingServers, FollowDemandFromOneToTheOther) {
  start_two(hundred("{ most: 60, length: 1s }"));
  ASSERT_TRUE(eventually([&] {
    ask(*first, 1);
    return held(*first) >= 2;
  }));
  EXPECT_EQ(held(*server), 0u);
  EXPECT_TRUE(eventually([&] { return held(*first) == 0; }));  // idle
  EXPECT_GT(metric(*first, "weir_lease_units_total{limit=\"calls\",what=\"drawn\"}"), 0u);
  ASSERT_TRUE(eventually([&] {
    ask(*server, 1);
    return held(*server) >= 2;
  }));
  EXPECT_EQ(held(*first), 0u);
}

TEST_F(LeasingServers, ShowTheirModeAndTheirUnits) {
  start_two(hundred("{ most: 20, length: 1h }"));
  ask(*server, 10);
  HttpClient client(server->addresses()[1]);
  const HttpAnswer limits = client.ask("GET /v1/limits HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_THAT(limits.body, HasSubstr(R"("shared":{"mode":"leased","outage":"deny",)"
                                     R"("lease":{"most":20,"length":"1h"}})"));
  EXPECT_GE(metric(*server, "weir_lease_units_total{limit=\"calls\",what=\"drawn\"}"), 10u);
  EXPECT_THAT(server->metrics(), HasSubstr("what=\"returned\""));
  EXPECT_THAT(server->metrics(), HasSubstr("what=\"expired\""));
}

// --- processes

// Servers of one limit, each a process, and clients that count what is admitted.
struct LeasingFleet : ServerTest {
  static constexpr double kRate = 200;
  static constexpr double kBurst = 50;
  static constexpr double kMost = 10;
  static constexpr std::size_t kClientsEach = 3;

  ~LeasingFleet() override { end(); }

  void launch_all(std::size_t count, std::string_view bucket, std::string_view lease) {
    for (std::size_t i = 0; i < count; ++i) {
      std::ofstream(file(i)) << "listen: { resp: \"unix:" << socket(i)
                             << "\" }\nthreads: 1\nredis: { url: \"" << proxy.url()
                             << "\", timeout: 300ms }\nlimits: [ { name: calls, bucket: " << bucket
                             << ", store: redis, lease: " << lease << " } ]\n";
      servers.push_back(launch(i));
    }
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(eventually([&] { return Client("unix:" + socket(i)).is_connected(); }))
          << servers[i]->said();
    }
  }

  void begin(std::size_t count) {
    launch_all(count, "{ rate: 200/s, burst: 50 }", "{ most: 10, length: 500ms }");
    admissions.begin();
    for (std::size_t i = 0; i < count * kClientsEach; ++i) {
      clients.emplace_back([this, to = i % count] { saturate_one(to); });
    }
  }

  void end() {
    is_over = true;
    // Whoever was stopped would let its clients wait for ever.
    for (const auto& process : servers) {
      if (process->id() > 0) process->signal(SIGCONT);
    }
    for (std::thread& client : clients) client.join();
    clients.clear();
  }

  std::unique_ptr<Process> launch(std::size_t number) const {
    return std::make_unique<Process>(std::vector<std::string>{WEIR_PROGRAM, "serve", file(number)});
  }
  std::string file(std::size_t number) const {
    return dir / ("weir" + std::to_string(number) + ".yaml");
  }
  std::string socket(std::size_t number) const { return dir / ("w" + std::to_string(number)); }

  // Asks one server as fast as it answers.
  void saturate_one(std::size_t number) {
    while (!is_over) {
      Client client("unix:" + socket(number));
      while (!is_over && client.is_connected()) {
        const SteadyTime asked = std::chrono::steady_clock::now();
        const std::string got = client.ask_until("WEIR.ACQUIRE\r\nPING\r\n", "+PONG\r\n");
        if (got.empty()) break;
        if (count_of(got, "allowed") == 0) continue;
        admissions.add(asked);
      }
      std::this_thread::sleep_for(10ms);
    }
  }

  // The fleet decides normally: as much passes as refills in a quarter of a second.
  void expect_normal(std::string_view after) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    const std::size_t before = admissions.size();
    EXPECT_TRUE(eventually([&] { return admissions.size() >= before + 50; })) << "after " << after;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    RecordProperty(std::string("seconds after ") + std::string(after),
                   std::to_string(took.count()));
    EXPECT_LE(took.count(), 2.0 * kSlowness) << "after " << after;
  }

  // Something happened since `from` that so many leases may have lapsed by. They end, and come
  // back, within a second from now.
  void note_lapses(std::size_t count, SteadyTime from) {
    lapses.push_back({from, std::chrono::steady_clock::now() + 1s, static_cast<double>(count)});
  }
  double may_have_come_back(SteadyTime from, SteadyTime until) const {
    double units = 0;
    for (const Lapse& lapse : lapses) {
      if (lapse.from <= until && from <= lapse.until) units += lapse.count * kMost;
    }
    return units;
  }

  // In any interval no more than burst + rate * time + what all servers may hold and what may have
  // lapsed; from the beginning, when nothing was held, without what they hold.
  void expect_bound() {
    const double held = kMost * static_cast<double>(servers.size());
    admissions.expect_within(kBurst, kRate, [&](SteadyTime from, SteadyTime until) {
      return may_have_come_back(from, until) + (from == admissions.begun() ? 0 : held);
    });
  }

  static constexpr double kSlowness = kSanitized ? 10 : 1;

  RedisServer redis{{.keeps_data = true}};
  DelayingProxy proxy{redis.port()};
  std::vector<std::unique_ptr<Process>> servers;
  std::vector<std::thread> clients;
  std::atomic<bool> is_over{false};
  Admissions admissions;
  struct Lapse {
    SteadyTime from;
    SteadyTime until;
    double count;
  };
  std::vector<Lapse> lapses;
};

void survive_everything(LeasingFleet& fleet) {
  fleet.expect_normal("the beginning");

  SteadyTime begin = std::chrono::steady_clock::now();
  fleet.servers[0]->signal(SIGKILL);
  fleet.servers[0]->wait();
  fleet.expect_normal("a server was killed");
  fleet.note_lapses(1, begin);
  fleet.servers[0] = fleet.launch(0);
  fleet.expect_normal("it is back");

  // Well past the end of its lease.
  begin = std::chrono::steady_clock::now();
  fleet.servers[1]->signal(SIGSTOP);
  fleet.expect_normal("another one was stopped");
  fleet.note_lapses(1, begin);
  std::this_thread::sleep_until(begin + 5s);
  fleet.servers[1]->signal(SIGCONT);
  fleet.expect_normal("it goes on");

  begin = std::chrono::steady_clock::now();
  fleet.redis.kill();
  fleet.redis.start();
  fleet.expect_normal("Redis was killed and came back");
  fleet.note_lapses(fleet.servers.size(), begin);

  begin = std::chrono::steady_clock::now();
  fleet.redis.pause();
  std::this_thread::sleep_for(5s);
  fleet.redis.resume();
  fleet.expect_normal("Redis was stopped for a while");
  fleet.note_lapses(fleet.servers.size(), begin);

  fleet.proxy.set_delay(50ms);
  fleet.expect_normal("the network became slow");
  fleet.proxy.set_delay(0ms);
  fleet.expect_normal("the network is fast again");

  fleet.redis.kill();
  fleet.redis.forget();
  fleet.redis.start();
  fleet.expect_normal("Redis has lost its data");
  fleet.end();
  fleet.expect_bound();
  for (auto& process : fleet.servers) process->signal(SIGTERM);
  for (auto& process : fleet.servers) EXPECT_EQ(process->wait(), 0);
}

// Slow enough that nothing refills meanwhile.
TEST_F(LeasingFleet, GetsBackWhatAKilledServerHeldWhenItsLeaseEnds) {
  launch_all(2, "{ rate: 100/24h }", "{ most: 20, length: 3s }");
  const auto ask = [this](std::size_t number, int times) {
    Client client("unix:" + socket(number));
    std::size_t allowed = 0;
    for (int i = 0; i < times; ++i) {
      allowed += count_of(client.ask_until("WEIR.ACQUIRE\r\nPING\r\n", "+PONG\r\n"), "allowed");
    }
    return allowed;
  };
  ASSERT_EQ(ask(0, 15), 15u);
  const SteadyTime killed = std::chrono::steady_clock::now();
  servers[0]->signal(SIGKILL);
  servers[0]->wait();
  std::size_t allowed = 15 + ask(1, 120);
  EXPECT_LT(allowed, 100u) << "it held something";
  EXPECT_TRUE(eventually([&] {
    allowed += ask(1, 1);
    return allowed >= 100;
  }));
  // A length and a sixteenth, and a refusal is repeated for a quarter.
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_LE(took.count(), 6.0 * kSlowness);
  allowed += ask(1, 120);
  EXPECT_LE(allowed, 100u + 20u);
}

TEST_F(LeasingFleet, OfTwoStaysWithinItsBoundWhateverDies) {
  begin(2);
  survive_everything(*this);
}

TEST_F(LeasingFleet, OfFiveStaysWithinItsBoundWhateverDies) {
  begin(5);
  survive_everything(*this);
}

}  // namespace
}  // namespace weir::server
