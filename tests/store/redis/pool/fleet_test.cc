// Fleets of processes under load, counted outside of weir: what the jobs of a window used is
// never more than the model's limit, though instances die, stop and join, and Redis loses its data.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/store/redis/pool/worker.h"
#include "tests/store/redis/support.h"
#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {
namespace {

using testing::RedisServer;

// By window: what was used in it, by the answers that the jobs were given.
using Windows = std::map<std::int64_t, std::int64_t>;

struct Counted {
  Windows windows;
  std::int64_t grants = 0;
};

class Fleet {
 public:
  explicit Fleet(const RedisServer& redis, std::string trust = "trust")
      : url_(redis.url()), trust_(std::move(trust)) {}

  void add() {
    const std::string number = std::to_string(workers_.size() + 1);
    files_.push_back(dir_ / number);
    workers_.push_back(std::make_unique<Process>(
        std::vector<std::string>{POOL_WORKER, url_, trust_, files_.back().string(), number}));
  }
  void add(int count) {
    for (int i = 0; i < count; ++i) add();
  }
  Process& at(std::size_t index) { return *workers_.at(index); }
  void kill(std::size_t index) { workers_.at(index).reset(); }

  // So far. A job that has not said what it used counts as estimated.
  Counted count() const {
    Counted counted;
    for (const auto& file : files_) count(file, counted);
    return counted;
  }
  // Of one of them.
  std::int64_t grants(std::size_t index) const {
    Counted counted;
    count(files_.at(index), counted);
    return counted.grants;
  }
  // Until so many more grants.
  void expect_grants(std::int64_t more) {
    const std::int64_t before = count().grants;
    EXPECT_TRUE(eventually([&] { return count().grants >= before + more; }));
  }
  // Until a window is full that begins after now.
  void expect_full_window() {
    const std::size_t before = count().windows.size();
    EXPECT_TRUE(eventually([&] {
      const Windows windows = count().windows;
      std::size_t place = 0;
      for (const auto& [begin, used] : windows) {
        // Jobs that were refunded leave room for at most one more estimate.
        const bool is_full =
            used > kWorkerTokensLimit - 2 * static_cast<std::int64_t>(kWorkerTokensMax);
        if (++place > before && is_full) return true;
      }
      return false;
    }));
  }
  // Ends them all first: what is counted while they work may count a job's estimate here and
  // there the job that got what it gave back.
  void expect_limit_held() {
    for (auto& worker : workers_) worker.reset();
    for (const auto& [begin, used] : count().windows) {
      EXPECT_LE(used, kWorkerTokensLimit) << "in the window that begins at " << begin << " ns";
    }
  }

 private:
  static void count(const std::filesystem::path& file, Counted& counted) {
    struct Job {
      std::int64_t begin = 0;
      std::int64_t tokens = 0;
    };
    std::map<std::string, Job> jobs;
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line)) {
      if (in.eof()) break;  // not whole yet
      std::istringstream words(line);
      std::string kind;
      std::string grant;
      words >> kind >> grant;
      if (kind == "G") {
        words >> jobs[grant].begin >> jobs[grant].tokens;
      } else {
        words >> jobs[grant].tokens;
      }
    }
    counted.grants += static_cast<std::int64_t>(jobs.size());
    for (const auto& [grant, job] : jobs) counted.windows[job.begin] += job.tokens;
  }

  std::string url_;
  std::string trust_;
  TemporaryDirectory dir_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST(RedisFleet, NeverExceedsALimitAndUsesItUp) {
  const RedisServer redis;
  Fleet fleet(redis);
  fleet.add(3);
  fleet.expect_full_window();
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, OfTenNeverExceedsALimit) {
  const RedisServer redis;
  Fleet fleet(redis);
  fleet.add(10);
  fleet.expect_full_window();
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, HoldsWhileInstancesAreKilledAndAdded) {
  const RedisServer redis;
  Fleet fleet(redis);
  fleet.add(3);
  fleet.expect_grants(50);
  fleet.kill(0);
  fleet.expect_full_window();
  fleet.add();
  fleet.expect_grants(50);
  fleet.kill(1);
  fleet.add();
  EXPECT_TRUE(eventually([&] { return fleet.grants(4) > 0; }));
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, HoldsWhileAnInstanceIsStoppedForLongerThanItsTimeout) {
  const RedisServer redis;
  Fleet fleet(redis);
  fleet.add(3);
  EXPECT_TRUE(eventually([&] { return fleet.grants(1) > 0; }));
  fleet.at(1).signal(SIGSTOP);
  std::this_thread::sleep_for(2500ms);
  fleet.at(1).signal(SIGCONT);
  const std::int64_t before = fleet.grants(1);
  // It registers again by itself.
  EXPECT_TRUE(eventually([&] { return fleet.grants(1) > before + 20; }));
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, HoldsWhileRedisIsPaused) {
  RedisServer redis;
  Fleet fleet(redis);
  fleet.add(3);
  fleet.expect_full_window();
  redis.pause();
  std::this_thread::sleep_for(1300ms);
  redis.resume();
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, HoldsWhileRedisIsKilledAndComesBackWithItsData) {
  RedisServer redis({.keeps_data = true});
  Fleet fleet(redis);
  fleet.add(3);
  for (int i = 0; i < 3; ++i) {
    // Most of the window is left, and nothing of the limit.
    fleet.expect_full_window();
    redis.kill();
    redis.start();
  }
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, HoldsWhileRedisIsKilledAndComesBackWithOlderData) {
  RedisServer redis;  // on disk is what SAVE put there
  Fleet fleet(redis);
  fleet.add(3);
  for (int i = 0; i < 3; ++i) {
    fleet.expect_grants(30);
    redis.ask("SAVE");
    fleet.expect_full_window();
    redis.kill();
    redis.start();
  }
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

TEST(RedisFleet, HoldsWhileRedisIsKilledAndComesBackEmpty) {
  RedisServer redis({.keeps_data = true});
  Fleet fleet(redis, "careful");
  fleet.add(3);
  for (int i = 0; i < 3; ++i) {
    // Most of the window is left, and nothing of the limit.
    fleet.expect_full_window();
    redis.kill();
    redis.forget();
    redis.start();
    // A newcomer knows nothing of what was.
    fleet.add();
  }
  fleet.expect_full_window();
  fleet.expect_limit_held();
}

}  // namespace
}  // namespace weir::store::redis
