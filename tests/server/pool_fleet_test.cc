// Fleets of weir processes with one Redis, asked over HTTP as fast as they answer and counted
// here: what the jobs of a minute used is never more than the model's limit, whatever dies,
// stops, joins, leaves, or loses its data. A job counts in the minute that its answer names,
// from the instant at which it has it.

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/pool_support.h"
#include "weir/testing/redis_server.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using testing::RedisServer;

constexpr std::int64_t kLimit = 6'000;  // tokens a minute
constexpr std::int64_t kEstimate = 100;
// Used up: what does not divide by the instances is nobody's, and some give back.
constexpr std::int64_t kFull = kLimit * 3 / 4;
constexpr int kAskers = 2;  // of each process
constexpr auto kInstanceTimeout = 1s;

// What was granted and used, by minute.
class Ledger {
 public:
  void grant(const std::string& job, const std::string& minute) {
    const std::scoped_lock lock(lock_);
    jobs_[job] = {minute, kEstimate};
  }
  void use(const std::string& job, std::int64_t tokens) {
    const std::scoped_lock lock(lock_);
    jobs_.at(job).tokens = tokens;
  }
  std::map<std::string, std::int64_t> minutes() const {
    const std::scoped_lock lock(lock_);
    std::map<std::string, std::int64_t> sums;
    for (const auto& [job, entry] : jobs_) sums[entry.minute] += entry.tokens;
    return sums;
  }

 private:
  struct Entry {
    std::string minute;
    std::int64_t tokens;
  };
  mutable std::mutex lock_;
  std::map<std::string, Entry> jobs_;
};

// One weir process and those who ask it.
class Worker {
 public:
  Worker(std::vector<std::string> words, Ledger& ledger)
      : process_(std::move(words)), ledger_(ledger), address_(address_of(process_)) {}
  ~Worker() {
    hush();
    if (is_alive_) kill();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void begin(unsigned seed) {
    for (unsigned i = 0; i < kAskers; ++i) {
      askers_.emplace_back([this, random = seed * 100 + i] { ask(random); });
    }
  }
  // Nobody asks any more.
  void hush() {
    is_quiet_ = true;
    for (std::thread& asker : askers_) asker.join();
    askers_.clear();
  }
  void kill() {
    process_.signal(SIGKILL);
    process_.wait();
    is_alive_ = false;
  }
  // As an administrator stops it.
  void end() {
    process_.signal(SIGTERM);
    EXPECT_EQ(process_.wait(), 0) << process_.said();
    is_alive_ = false;
  }
  void signal(int number) { process_.signal(number); }
  bool is_alive() const { return is_alive_; }
  // Answers that are no outage's: a start, or that there is no room.
  int answers() const { return answers_; }
  std::string show() const { return HttpClient(address_).ask(get("/v1/pool")).body; }

 private:
  void ask(unsigned seed) {
    std::mt19937 random(seed);
    while (!is_quiet_) {
      HttpClient client(address_);
      while (!is_quiet_ && client.is_connected()) {
        const HttpAnswer answer =
            client.ask(post("/v1/pool/acquire", R"({"type":"chat","wait":0})"));
        if (answer.status == 0) break;
        if (answer.status == 200 || answer.status == 429) ++answers_;
        if (answer.status != 200) {
          std::this_thread::sleep_for(2ms);
          continue;
        }
        const std::string job = member(answer.body, "job");
        ledger_.grant(job, member(after(answer.body, "\"minute\":"), "begins"));
        // Most use what they were estimated at, so that the starts of a minute use it up.
        const std::int64_t used = random() % 8 == 0 ? kEstimate / 2 : kEstimate;
        ledger_.use(job, used);
        client.ask(post("/v1/pool/release",
                        R"({"job":")" + job + R"(","input_tokens":)" + std::to_string(used) + "}"));
      }
      std::this_thread::sleep_for(2ms);
    }
  }

  Process process_;
  Ledger& ledger_;
  std::string address_;
  std::atomic<bool> is_quiet_{false};
  std::atomic<int> answers_{0};
  bool is_alive_ = true;
  std::vector<std::thread> askers_;
};

struct PoolFleet : app::AppTest {
  Worker& add() {
    const std::string number = std::to_string(workers.size() + 1);
    const std::string file = dir / (number + ".yaml");
    std::ofstream(file) << "listen: { resp: none, http: 127.0.0.1:0 }\nthreads: 1\npools:\n"
                           "  models: [{ name: big, tokens_per_minute: "
                        << kLimit << " }]\n  job_types: [{ name: chat, tokens: " << kEstimate
                        << ", requests: 1 }]\n  coordinator: " << redis.url()
                        << "\n  redis: { instance: weir-" << number
                        << ", heartbeat: 200ms, instance_timeout: 1s, timeout: 250ms }\n"
                           "limits: []\n";
    workers.push_back(std::make_unique<Worker>(weir({"serve", file}), ledger));
    return *workers.back();
  }
  // One more, which works at once.
  void join() { add().begin(static_cast<unsigned>(workers.size())); }
  // So many, which begin when they know of each other.
  void begin(unsigned count) {
    for (unsigned i = 0; i < count; ++i) add();
    for (const auto& worker : workers) {
      EXPECT_TRUE(eventually(
          [&] { return member(worker->show(), "instance_count") == std::to_string(count); }));
    }
    for (unsigned i = 0; i < count; ++i) workers[i]->begin(i);
  }
  // Until a minute is used up that begins now or later.
  void expect_full_minute() {
    const auto before = ledger.minutes();
    const std::string last = before.empty() ? "" : before.rbegin()->first;
    EXPECT_TRUE(eventually([&] {
      for (const auto& [minute, used] : ledger.minutes()) {
        if (minute >= last && used >= kFull) return true;
      }
      return false;
    })) << "the newest minute has "
        << (ledger.minutes().empty() ? 0 : ledger.minutes().rbegin()->second);
  }
  // Until everybody who lives has answered so many more times, so that too much would show.
  void expect_answers(int more = 40) {
    for (const auto& worker : workers) {
      if (!worker->is_alive()) continue;
      const int before = worker->answers();
      EXPECT_TRUE(eventually([&] { return worker->answers() >= before + more; }));
    }
  }
  void expect_limit_held() const {
    const auto minutes = ledger.minutes();
    EXPECT_FALSE(minutes.empty());
    for (const auto& [minute, used] : minutes) EXPECT_LE(used, kLimit) << minute;
  }
  // The document's invariants, of instances that neither come nor go.
  void expect_invariants() const {
    for (const auto& worker : workers) {
      const std::string shown = worker->show();
      const std::string type = after(shown, "\"job_types\":[");
      const std::int64_t slots = std::stoll(member(type, "slots"));
      const std::int64_t used = std::stoll(member(type, "used"));
      const std::int64_t in_flight = std::stoll(member(type, "in_flight"));
      EXPECT_LE(used, slots);
      EXPECT_LE(in_flight, used + kAskers) << "more than were started or carried over";
      EXPECT_EQ(member(shown, "ratio"), "1");
    }
    // One that is held up for a second is taken for gone, and until it is back the others have its
    // share, too.
    std::int64_t shares = 0;
    eventually([&] {
      shares = 0;
      for (const auto& worker : workers) {
        shares += std::stoll(member(after(worker->show(), "\"whole\":"), "tokens_per_minute"));
      }
      return shares <= kLimit;
    });
    EXPECT_LE(shares, kLimit);
  }
  // Once quiet, the books have what was used. `at_least`: and what nobody is left to settle.
  void expect_books(bool at_least) {
    for (const auto& worker : workers) worker->hush();
    const Worker* alive = nullptr;
    for (const auto& worker : workers) alive = worker->is_alive() ? worker.get() : alive;
    ASSERT_NE(alive, nullptr);
    std::string fleet;
    std::int64_t counted = -1;
    std::int64_t booked = -2;
    eventually([&] {
      fleet = after(after(alive->show(), "\"fleet\":"), "\"minute\":");
      booked = std::stoll(member(after(fleet, "\"tokens\":"), "used"));
      counted = ledger.minutes()[member(fleet, "begins")];
      return at_least ? booked >= counted : booked == counted;
    });
    if (at_least) {
      EXPECT_GE(booked, counted) << fleet;
    } else {
      EXPECT_EQ(booked, counted) << fleet;
    }
  }

  RedisServer redis{{.keeps_data = true}};
  Ledger ledger;
  std::vector<std::unique_ptr<Worker>> workers;
};

TEST_F(PoolFleet, OfThreeUsesALimitUpAndNotMore) {
  begin(3);
  expect_answers();
  expect_invariants();
  expect_full_minute();
  expect_answers();
  expect_invariants();
  expect_books(false);
  expect_limit_held();
}

TEST_F(PoolFleet, OfTenHoldsWhileSomeAreKilledAndSomeCome) {
  begin(10);
  expect_full_minute();
  expect_answers(10);
  expect_invariants();
  workers[2]->kill();
  workers[7]->kill();
  join();
  expect_full_minute();
  expect_answers(10);
  expect_books(true);
  expect_limit_held();
}

TEST_F(PoolFleet, OfThreeHoldsWhileOneIsKilledOneLeavesAndOneComes) {
  begin(3);
  expect_full_minute();
  workers[0]->kill();
  expect_answers();
  workers[1]->end();
  join();
  expect_answers();
  expect_full_minute();
  expect_answers();
  expect_books(true);
  expect_limit_held();
}

TEST_F(PoolFleet, OfThreeHoldsWhileOneIsStoppedForLongerThanItsTimeout) {
  begin(3);
  expect_full_minute();
  workers[1]->signal(SIGSTOP);
  std::this_thread::sleep_for(2 * kInstanceTimeout);
  workers[1]->signal(SIGCONT);
  // It registers again by itself.
  expect_answers();
  expect_full_minute();
  expect_books(true);
  expect_limit_held();
}

TEST_F(PoolFleet, OfThreeHoldsWhileRedisIsPaused) {
  begin(3);
  expect_full_minute();
  redis.pause();
  std::this_thread::sleep_for(2 * kInstanceTimeout);
  redis.resume();
  expect_answers();
  expect_full_minute();
  expect_books(true);
  expect_limit_held();
}

TEST_F(PoolFleet, OfThreeHoldsWhileRedisIsKilledAndComesBackWithItsData) {
  begin(3);
  for (int i = 0; i < 2; ++i) {
    expect_full_minute();
    redis.kill();
    redis.start();
    expect_answers();
  }
  expect_full_minute();
  expect_books(true);
  expect_limit_held();
}

TEST_F(PoolFleet, OfThreeHoldsWhileRedisIsKilledAndComesBackEmpty) {
  begin(3);
  for (int i = 0; i < 2; ++i) {
    expect_full_minute();
    redis.kill();
    redis.forget();
    redis.start();
    // A newcomer knows nothing of what was.
    join();
    expect_answers();
  }
  expect_full_minute();
  expect_books(true);
  expect_limit_held();
}

}  // namespace
}  // namespace weir::server
