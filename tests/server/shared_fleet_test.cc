// Processes that share limits in one Redis, while they, or Redis, die, stop or become slow.
//
// Admissions are counted by the clients: in no interval more than burst + rate * time. After each
// fault every server that runs decides normally again, by an answer of Redis, within two seconds.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/server/admissions.h"
#include "tests/server/shared_support.h"
#include "tests/server/support.h"
#include "tests/support/delaying_proxy.h"
#include "tests/support/process.h"
#include "tests/support/sanitizer.h"
#include "weir/testing/redis_server.h"

namespace weir::server {
namespace {

using testing::RedisServer;

// Beside other tests it is a few tenths of a second. Under a sanitizer the servers are many times
// slower.
constexpr auto kRecovery = kSanitized ? 20s : 2s;

// What a fault test uses of a fleet.
struct Fleet : ServerTest {
  static constexpr double kRate = 200;
  static constexpr double kBurst = 50;
  static constexpr std::string_view kLimits =
      "limits: [ { name: calls, bucket: { rate: 200/s, burst: 50 }, store: redis } ]\n";

  void start_fleet(int count, const std::string& redis_url) {
    for (int i = 0; i < count; ++i) {
      std::ofstream(file(i)) << "listen: { resp: \"unix:" << socket(i)
                             << "\" }\nthreads: 1\nredis: { url: \"" << redis_url
                             << "\", timeout: 500ms }\n"
                             << kLimits;
      servers.push_back(launch(i));
    }
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(eventually([&] { return decides(i); })) << process(i).said();
    }
  }
  std::unique_ptr<Process> launch(int number) {
    return std::make_unique<Process>(std::vector<std::string>{WEIR_PROGRAM, "serve", file(number)});
  }
  Process& process(int number) { return *servers[static_cast<std::size_t>(number)]; }
  std::string file(int number) const { return dir / ("weir" + std::to_string(number) + ".yaml"); }
  std::string socket(int number) const { return dir / ("w" + std::to_string(number)); }
  int size() const { return static_cast<int>(servers.size()); }

  // Whether this server answers by what Redis says.
  bool decides(int number) {
    Client client("unix:" + socket(number));
    if (!client.is_connected()) return false;
    const std::string got = ask(client);
    return count_of(got, "allowed") == 1 || count_of(got, "denied") == 1;
  }
  std::string ask(Client& client) {
    const auto asked = Admissions::Clock::now();
    std::string got = client.ask_until("WEIR.ACQUIRE\r\nPING\r\n", "+PONG\r\n");
    if (count_of(got, "allowed") == 1) admissions.add(asked);
    return got;
  }

  // Clients that ask many times as much as there is, until stop_load().
  void start_load() {
    admissions.begin();
    for (int i = 0; i < 2 * size(); ++i) {
      clients.emplace_back([this, at = socket(i % size())] {
        while (!is_over) {
          Client client("unix:" + at);
          while (!is_over && client.is_connected()) {
            if (ask(client).empty()) break;
            std::this_thread::sleep_for(1ms);
          }
          std::this_thread::sleep_for(10ms);
        }
      });
    }
  }
  void stop_load() {
    is_over = true;
    for (std::thread& client : clients) client.join();
    admissions.expect_within(kBurst, kRate, [](auto, auto) { return 0.0; });
  }
  bool admits(std::size_t more) {
    const std::size_t before = admissions.size();
    return eventually([&] { return admissions.size() >= before + more; });
  }

  // From now until all of these decide.
  void expect_recovery(const std::vector<int>& numbers) {
    const auto from = std::chrono::steady_clock::now();
    for (const int number : numbers) {
      EXPECT_TRUE(eventually([&] { return decides(number); })) << "server " << number;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    EXPECT_LE(took, kRecovery);
  }

  RedisServer redis{{.keeps_data = true}};
  std::vector<std::unique_ptr<Process>> servers;
  std::vector<std::thread> clients;
  std::atomic<bool> is_over{false};
  Admissions admissions;
};

// The fleet under load, before and after a fault.
struct FleetOf : Fleet {
  void run(int count, const std::function<void()>& fault, std::vector<int> left = {}) {
    start_fleet(count, url.empty() ? redis.url() : url);
    start_load();
    EXPECT_TRUE(admits(100));
    fault();
    if (left.empty()) {
      for (int i = 0; i < count; ++i) left.push_back(i);
    }
    expect_recovery(left);
    EXPECT_TRUE(admits(50));
    stop_load();
    for (const int number : left) process(number).signal(SIGTERM);
    for (const int number : left) EXPECT_EQ(process(number).wait(), 0);
  }

  void run_while_one_stands_still(int count) {
    run(count, [&] {
      process(0).signal(SIGSTOP);
      std::this_thread::sleep_for(5s);
      process(0).signal(SIGCONT);
    });
  }
  void run_while_redis_stands_still(int count) {
    run(count, [&] {
      redis.pause();
      std::this_thread::sleep_for(5s);
      redis.resume();
    });
  }
  void run_over_a_slow_network(int count) {
    DelayingProxy proxy(redis.port());
    url = proxy.url();
    run(count, [&] {
      proxy.set_delay(50ms);
      EXPECT_TRUE(admits(50));
      proxy.set_delay(0ms);
    });
  }

  std::string url;  // empty: that of Redis
};

TEST_F(FleetOf, FiveThroughTheDeathOfOne) {
  run(5,
      [&] {
        process(0).signal(SIGKILL);
        EXPECT_EQ(process(0).wait(), -SIGKILL);
      },
      {1, 2, 3, 4});
}

TEST_F(FleetOf, TwoWhileOneStandsStill) { run_while_one_stands_still(2); }
TEST_F(FleetOf, FiveWhileOneStandsStill) { run_while_one_stands_still(5); }

TEST_F(FleetOf, TwoWhileRedisStandsStill) { run_while_redis_stands_still(2); }
TEST_F(FleetOf, FiveWhileRedisStandsStill) { run_while_redis_stands_still(5); }

TEST_F(FleetOf, FiveThroughARestartOfRedis) {
  run(5, [&] {
    redis.kill();
    std::this_thread::sleep_for(2s);
    redis.start();
  });
}

TEST_F(FleetOf, FiveThroughALossOfAllData) {
  run(5, [&] {
    redis.kill();
    std::this_thread::sleep_for(1s);
    redis.forget();
    redis.start();
  });
}

TEST_F(FleetOf, TwoOverASlowNetwork) { run_over_a_slow_network(2); }
TEST_F(FleetOf, FiveOverASlowNetwork) { run_over_a_slow_network(5); }

// Everything in a row, to two.
TEST_F(FleetOf, TwoThroughAllOfIt) {
  run(2, [&] {
    process(0).signal(SIGKILL);
    process(0).wait();
    EXPECT_TRUE(admits(50));
    redis.kill();
    redis.start();
    EXPECT_TRUE(admits(50));
    servers[0] = launch(0);
    EXPECT_TRUE(admits(50));
    redis.pause();
    std::this_thread::sleep_for(1s);
    redis.resume();
    EXPECT_TRUE(admits(50));
    redis.kill();
    redis.forget();
    redis.start();
  });
}

}  // namespace
}  // namespace weir::server
