// Sampling with the real program: several schedulers, kill -9, and the document statement by
// statement.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
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

// --- the document, case by case

struct SamplingDocument : ::testing::Test {
  void start(const std::string& environments, const std::string& settings = "") {
    weir.configure("state: { dir: '" + weir.path("state") + "' }\nsampling:\n" + settings +
                   "  exempt: { ids: [0], above: 1000 }\n  environments:\n" + environments);
    weir.start();
  }
  static std::string body(std::string_view environment, int uid, int want,
                          std::string_view revision = "r1") {
    return R"({"hotkey":"m","revision":")" + std::string(revision) + R"(","environment":")" +
           std::string(environment) + R"(","uid":)" + std::to_string(uid) + R"(,"want":)" +
           std::to_string(want) + "}";
  }
  boost::json::value grant(std::string_view environment, int uid, int want,
                           std::string_view revision = "r1") const {
    return json(weir.post("/v1/sampling/grant", body(environment, uid, want, revision)));
  }
  std::int64_t granted(std::string_view environment, int uid, int want,
                       std::string_view revision = "r1") const {
    return grant(environment, uid, want, revision).at("granted").as_int64();
  }
  HttpAnswer end(std::string_view how, const boost::json::value& said,
                 const std::string& more = "") const {
    return weir.post(
        "/v1/sampling/" + std::string(how),
        R"({"reservation":)" + boost::json::serialize(said.at("reservation")) + more + "}");
  }

  Weir weir;
};

// Cases 1 to 6 of the document: 6, 5, 6, 5 an hour, no limit, and who is never limited.
TEST_F(SamplingDocument, AllowsWhatTheCasesSay) {
  start(
      "    - { name: normal, rotation_count: 5, rotation_interval: 3600, sampling_count: 200 }\n"
      "    - { name: slow, rotation_count: 1, rotation_interval: 3600, sampling_count: 200 }\n"
      "    - { name: paused, rotation_count: 5, rotation_interval: 3600, sampling_count: 200,\n"
      "        rotation_enabled: false }\n"
      "    - { name: still, rotation_count: 0, sampling_count: 200 }\n"
      "    - { name: none, rotation_count: 0, sampling_count: 0 }\n");
  EXPECT_EQ(granted("normal", 7, 100), 6);
  EXPECT_EQ(granted("normal", 7, 1), 0);
  EXPECT_EQ(granted("slow", 7, 100), 5);
  EXPECT_EQ(granted("paused", 7, 100), 6) << "independently of rotation_enabled";
  EXPECT_EQ(granted("still", 7, 100), 5);
  EXPECT_EQ(granted("none", 7, 100), 100);
  EXPECT_EQ(granted("normal", 0, 100), 100);
  EXPECT_EQ(granted("normal", 1001, 100), 100);
  EXPECT_EQ(granted("slow", 1000, 1), 0) << "the same key; 1000 is limited";
}

// "Sliding window counter": a task counts for one window from its own instant.
TEST_F(SamplingDocument, CountsInAWindowThatSlides) {
  start("    - { name: E, rotation_count: 0, sampling_count: 3 }\n",
        "  window: 1s\n  horizon: 1s\n");
  const auto first = std::chrono::steady_clock::now();
  EXPECT_EQ(granted("E", 7, 2), 2);
  EXPECT_EQ(granted("E", 7, 5), 1);
  EXPECT_TRUE(eventually([&] { return granted("E", 7, 1) == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - first, std::chrono::milliseconds{990});
}

// Limitation "counter resets on process restart": not here, though it is killed.
TEST_F(SamplingDocument, KeepsReservationsAndHowTheyEndedOverAKill) {
  start("    - { name: E, rotation_count: 0, sampling_count: 288 }\n");  // 6 an hour
  const boost::json::value ended = grant("E", 7, 4);
  const boost::json::value open = grant("E", 7, 2);
  EXPECT_EQ(end("commit", ended, R"(,"created":3)").body,
            R"({"state":"committed","given_back":1})");
  weir.kill();
  weir.start();
  EXPECT_EQ(end("commit", ended, R"(,"created":3)").body, R"({"state":"committed","given_back":1})")
      << "said again, because the answer was lost";
  EXPECT_EQ(end("release", ended).status, 409);
  EXPECT_EQ(end("release", open).body, R"({"state":"released","given_back":2})");
  EXPECT_EQ(end("release", open).body, R"({"state":"released","given_back":2})");
  EXPECT_EQ(granted("E", 7, 9), 3) << "each was given back once";
}

TEST_F(SamplingDocument, GivesReservationsThatOthersCannotEnd) {
  start("    - { name: E, rotation_count: 0, sampling_count: 288 }\n");
  const std::string mine(grant("E", 7, 1).at("reservation").as_string());
  const std::string next(grant("E", 7, 1).at("reservation").as_string());
  const std::string guess = mine.substr(0, 17) + next.substr(17);
  EXPECT_EQ(weir.post("/v1/sampling/release", R"({"reservation":")" + guess + R"("})").status, 404);
}

// Limitation "new revision = new counter": as published, or with a parent not.
TEST_F(SamplingDocument, StartsANewCounterForARevisionUnlessThereIsAParent) {
  start(
      "    - { name: apart, rotation_count: 0, sampling_count: 288 }\n"
      "    - { name: shared, rotation_count: 0, sampling_count: 288, parent: allowance }\n");
  EXPECT_EQ(granted("apart", 7, 9), 6);
  EXPECT_EQ(granted("apart", 7, 9, "r2"), 6);
  EXPECT_EQ(granted("shared", 7, 9), 6);
  EXPECT_EQ(granted("shared", 7, 9, "r2"), 0);
}

// "For each environment: count, check, skip if limited; after creating tasks, record": the flow of
// a pass, in one call. It cannot overshoot, as the published pass does.
TEST_F(SamplingDocument, RunsAPassOverAllEnvironmentsInOneCall) {
  start(
      "    - { name: A, rotation_count: 0, sampling_count: 288 }\n"
      "    - { name: B, rotation_count: 0, sampling_count: 288 }\n");
  EXPECT_EQ(granted("A", 7, 4), 4);
  const auto pass = [&] {
    return json(
        weir.post("/v1/sampling/pass",
                  R"({"hotkey":"m","revision":"r1","uid":7,"slots":10,"work":[)"
                  R"({"environment":"A","missing":50},{"environment":"B","missing":50}]})"));
  };
  const boost::json::value first = pass();
  EXPECT_EQ(first.at("granted").as_int64(), 8) << "two of A and six of B, of ten slots";
  const boost::json::value second = pass();
  EXPECT_EQ(second.at("granted").as_int64(), 0) << "both are skipped";
  const boost::json::array refused =
      json(weir.get("/v1/sampling/refused")).at("refused").as_array();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].at("refusals").as_int64(), 1);
  weir.kill();
  weir.start();
  EXPECT_EQ(pass().at("granted").as_int64(), 0) << "it was on the disk before it was answered";
}

TEST_F(SamplingDocument, SpacesAnAllowanceWhereABurstIsWritten) {
  start("    - { name: E, rotation_count: 0, sampling_count: 288, burst: 2 }\n");
  const boost::json::value said = grant("E", 7, 6);
  EXPECT_EQ(said.at("granted").as_int64(), 2);
  EXPECT_EQ(said.at("remaining").as_int64(), 4);
  EXPECT_EQ(granted("E", 7, 6), 0) << "for 20 minutes";
  const boost::json::value next = grant("E", 7, 1);
  EXPECT_GT(next.at("retry_after_ms").as_int64(), 1'100'000);
  EXPECT_LE(next.at("retry_after_ms").as_int64(), 1'200'000);
}

}  // namespace
}  // namespace weir
