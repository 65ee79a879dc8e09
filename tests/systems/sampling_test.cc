// Sampling with the real program: several schedulers, kill -9.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/sampling_support.h"
#include "tests/systems/support.h"

namespace weir {
namespace {

using server::get;
using server::grant_body;
using server::HttpAnswer;
using server::HttpClient;
using server::number_text;
using server::post;

struct SamplingProgram : ::testing::Test {
  SamplingProgram() {
    weir.configure("state: { dir: '" + weir.path("state") +
                   "' }\n"
                   "sampling:\n"
                   "  window: 1d\n"
                   "  horizon: 1d\n"
                   "  environments:\n"
                   "    - { name: E, rotation_count: 0, sampling_count: 60 }\n");
  }
  std::int64_t count(std::string_view hotkey) const {
    const HttpAnswer said =
        weir.get("/v1/sampling?revision=r1&environment=E&uid=7&hotkey=" + std::string(hotkey));
    const std::size_t key = said.body.find("\"key\":");
    EXPECT_NE(key, std::string::npos) << said.body;
    return std::atoll(number_text(said.body.substr(key), "count").c_str());
  }

  Weir weir;
};

TEST_F(SamplingProgram, LetsSeveralSchedulersShareOneAllowance) {
  weir.start();
  std::vector<pid_t> schedulers;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child != 0) {
      schedulers.push_back(child);
      continue;
    }
    // A scheduler of its own, which wants all it can get; its exit code tells how much.
    int total = 0;
    HttpClient client(weir.http_address());
    for (int n = 0; n < 60; ++n) {
      const HttpAnswer said = client.ask(post("/v1/sampling/grant", grant_body("a", 1 + n % 3)));
      if (said.status != 200 && said.status != 429) ::_exit(255);
      total += std::atoi(number_text(said.body, "granted").c_str());
    }
    ::_exit(total);
  }
  int total = 0;
  for (const pid_t scheduler : schedulers) {
    int how = 0;
    ASSERT_EQ(::waitpid(scheduler, &how, 0), scheduler);
    ASSERT_TRUE(WIFEXITED(how));
    ASSERT_NE(WEXITSTATUS(how), 255);
    total += WEXITSTATUS(how);
  }
  EXPECT_EQ(total, 60);
  EXPECT_EQ(count("a"), 60);
}

TEST_F(SamplingProgram, ForgetsNoGrantThatWasAnsweredBeforeAKill) {
  constexpr int kMiners = 8;
  std::array<std::int64_t, kMiners> told{};
  for (int round = 0; round < 3; ++round) {
    weir.start();
    for (int i = 0; i < kMiners; ++i) {
      const std::int64_t now = count(std::to_string(i));
      EXPECT_GE(now, told[static_cast<std::size_t>(i)]) << "round " << round << ", miner " << i;
      EXPECT_LE(now, 60);
      told[static_cast<std::size_t>(i)] = now;
    }
    std::atomic<int> answers{0};
    std::thread scheduler([&] {
      HttpClient client(weir.http_address());
      for (int n = 0;; ++n) {
        const auto miner = static_cast<std::size_t>(n % kMiners);
        const HttpAnswer said =
            client.ask(post("/v1/sampling/grant", grant_body(std::to_string(miner), 1)));
        if (said.status == 0) return;  // killed
        told[miner] += std::atoi(number_text(said.body, "granted").c_str());
        answers += 1;
      }
    });
    while (answers < 30) std::this_thread::yield();
    weir.kill();
    scheduler.join();
  }
  weir.start();
  for (int i = 0; i < kMiners; ++i) {
    EXPECT_GE(count(std::to_string(i)), told[static_cast<std::size_t>(i)]) << "miner " << i;
  }
}

}  // namespace
}  // namespace weir
