// Compute units with the real program, statement by statement of its source: locks, clusters,
// splits, rates, the queue; a ledger that is killed, and one that follows a chain.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/systems/support.h"

namespace weir {
namespace {

namespace js = boost::json;
using server::HttpAnswer;
using ::testing::HasSubstr;

// As in the source: 10,000 tokens at least, ten portals, a unit for each token in an epoch of 100
// blocks of 12 s. Blocks come when they are pushed.
constexpr std::string_view kAsPublished =
    "compute: { ledger: { blocks: pushed, block_time: 12s, epoch: 100, mana: 10, first_epoch: 0, "
    "min_lock: 10000 } }\n"
    "limits: []\n";

// Rates that a test can wait for: an epoch of two blocks of 1 s, two units in it for 1,000 tokens.
std::string quick(std::string_view worker, std::string_view state) {
  return fmt::format(
      "state: {{ dir: '{}' }}\n"
      "compute: {{ ledger: {{ blocks: pushed, block_time: 1s, epoch: 2, mana: 1, first_epoch: 0, "
      "min_lock: 1000 }}, worker: {{ name: w, mode: immediate{} }} }}\n"
      "limits: []\n",
      state, worker);
}

struct ComputeProgram : ::testing::Test {
  void begin(std::string_view settings) {
    weir.configure(std::string(settings));
    weir.start();
  }
  HttpAnswer lock(std::string_view wallet, std::string_view tokens,
                  std::int64_t duration = 18'000) {
    return weir.post(
        "/v1/compute/locks",
        fmt::format(R"({{"wallet":"{}","tokens":"{}","duration":{}}})", wallet, tokens, duration));
  }
  HttpAnswer add_portals(std::string_view wallet, const std::vector<std::string>& portals) {
    js::array names(portals.begin(), portals.end());
    return weir.post("/v1/compute/portals", fmt::format(R"({{"wallet":"{}","portals":{}}})", wallet,
                                                        js::serialize(names)));
  }
  void push(std::int64_t block) {
    EXPECT_EQ(weir.post("/v1/compute/blocks", fmt::format(R"({{"block":{}}})", block)).status, 200);
  }
  js::value allocations(std::string_view worker) {
    return json(weir.get(fmt::format("/v1/compute/allocations?worker={}", worker)));
  }
  std::int64_t units(std::string_view wallet) {
    return json(weir.get(fmt::format("/v1/compute/wallets?wallet={}", wallet)))
        .at("units")
        .as_int64();
  }
  HttpAnswer query(std::string_view portal, std::string_view rest = "") {
    return weir.post("/v1/compute/queries", fmt::format(R"({{"portal":"{}"{}}})", portal, rest));
  }
  std::string outcome(const HttpAnswer& answer) {
    const js::value said = json(answer);
    return said.at("cause").is_null() ? std::string(said.at("state").as_string())
                                      : std::string(said.at("cause").as_string());
  }
  // Of a cluster with one portal of the same name.
  void fund(const std::string& cluster, std::string_view tokens) {
    EXPECT_EQ(add_portals(cluster, {cluster}).status, 200);
    EXPECT_EQ(lock(cluster, tokens).status, 200);
  }
  bool has_full_bucket(const std::string& cluster, std::int64_t tokens = 3) {
    return eventually([&] {
      const HttpAnswer shown = weir.get("/v1/compute/worker?portal=" + cluster);
      return shown.status == 200 && json(shown).at("tokens_micro").as_int64() >= tokens * 1'000'000;
    });
  }

  Weir weir;
};

// "To be able to use the Network, the client locks SQD tokens in the contract. The minimal locking
// amount is 10,000 SQD."
TEST_F(ComputeProgram, TakesTenThousandTokensAndNotOnePartLess) {
  begin(kAsPublished);
  const HttpAnswer below = lock("acme", "9999.999999999999999999");
  EXPECT_EQ(below.status, 409);
  EXPECT_EQ(json(below).at("fault"), "BELOW_MIN");
  EXPECT_EQ(weir.post("/v1/compute/locks",
                      R"({"wallet":"acme","amount":"9999999999999999999999","duration":18000})")
                .status,
            409);
  EXPECT_EQ(lock("acme", "10000").status, 200);
}

// "1 SQD equals 1 compute unit or more, if locking for a long period."
TEST_F(ComputeProgram, GivesAUnitForATokenAndUpToThreeForALongLock) {
  begin(kAsPublished);
  const std::pair<std::int64_t, std::int64_t> by_days[] = {
      {1, 10'000},   {59, 10'000},  {60, 12'000},  {90, 14'000},  {179, 18'000},  {180, 20'000},
      {359, 20'000}, {360, 25'000}, {719, 25'000}, {720, 30'000}, {1'080, 30'000}};
  for (const auto& [days, expected] : by_days) {
    EXPECT_EQ(lock(fmt::format("w{}", days), "10000", days * 7'200).status, 200);
  }
  EXPECT_EQ(units("w720"), 0) << "from the next epoch on";
  push(100);
  for (const auto& [days, expected] : by_days) {
    EXPECT_EQ(units(fmt::format("w{}", days)), expected) << days;
  }
}

// "Up to 10 Portals may be registered for a single cluster."
TEST_F(ComputeProgram, RegistersTenPortalsOfAClusterAndEachInOneOnly) {
  begin(kAsPublished);
  std::vector<std::string> ten;
  for (int i = 0; i < 10; ++i) ten.push_back(fmt::format("p{}", i));
  EXPECT_EQ(add_portals("acme", ten).status, 200);
  EXPECT_EQ(json(add_portals("acme", {"p10"})).at("fault"), "CLUSTER_FULL");
  EXPECT_EQ(json(add_portals("other", {"q1", "p3"})).at("fault"), "PEER_TAKEN");
  EXPECT_EQ(add_portals("other", {"q1"}).status, 200) << "all or none";
}

// "The allocated CUs are assigned to the registered Workers using a strategy … The default strategy
// splits all CUs equally among the Workers."
TEST_F(ComputeProgram, SplitsUnitsOverTheWorkersAndLosesNone) {
  begin(kAsPublished);
  for (int i = 1; i <= 7; ++i) {
    weir.post("/v1/compute/workers", fmt::format(R"({{"worker":"w{}"}})", i));
  }
  EXPECT_EQ(lock("equal", "10000").status, 200);
  EXPECT_EQ(lock("chosen", "10000").status, 200);
  EXPECT_EQ(lock("shares", "10000").status, 200);
  EXPECT_EQ(weir.post("/v1/compute/clusters/split",
                      R"({"wallet":"chosen","strategy":"support","workers":[1,2,3]})")
                .status,
            200);
  const HttpAnswer over = weir.post(
      "/v1/compute/clusters/split",
      R"({"wallet":"shares","strategy":"shares","workers":[1,7],"basis_points":[9000,1001]})");
  EXPECT_EQ(json(over).at("fault"), "OVER_100_PERCENT");
  EXPECT_THAT(over.body, HasSubstr("come to 10001 basis points"));
  EXPECT_EQ(
      weir.post(
              "/v1/compute/clusters/split",
              R"({"wallet":"shares","strategy":"shares","workers":[1,7],"basis_points":[9000,500]})")
          .status,
      200);
  for (std::int64_t epoch = 2; epoch <= 8; ++epoch) {
    push(100 * (epoch - 1));
    std::map<std::string, std::int64_t> sums;
    for (int i = 1; i <= 7; ++i) {
      const js::value said = allocations(fmt::format("w{}", i));
      EXPECT_EQ(said.at("epoch").as_int64(), epoch);
      for (const js::value& row : said.at("clusters").as_array()) {
        const std::string cluster(row.at("cluster").as_string());
        const std::int64_t part = row.at("units").as_int64();
        sums[cluster] += part;
        if (cluster == "equal") {
          EXPECT_TRUE(part == 1'428 || part == 1'429) << part;
        }
      }
    }
    EXPECT_EQ(sums["equal"], 10'000);
    EXPECT_EQ(sums["chosen"], 10'000);
    EXPECT_EQ(sums["shares"], 9'500);
  }
}

// "Encourage clients to obtain SQD tokens": without a lock there is nothing.
// "The allocated compute units are associated with the wallet and allow running a cluster of
// Portals sharing a pool of compute units."
TEST_F(ComputeProgram, ServesPortalsOfAWalletWithTokensOutOfOnePool) {
  begin(quick("", weir.path("state")));
  EXPECT_EQ(query("p1").status, 403);
  EXPECT_EQ(add_portals("acme", {"p1", "p2", "p3"}).status, 200);
  push(2);
  EXPECT_EQ(outcome(query("p1")), "unknown_portal") << "a portal alone is nothing";
  EXPECT_EQ(lock("acme", "1000").status, 200);
  push(4);
  ASSERT_TRUE(eventually([&] { return weir.get("/v1/compute/worker?portal=p1").status == 200; }));
  ASSERT_TRUE(has_full_bucket("p1"));
  // "The bucket can hold at the most B tokens": three, whichever portal takes them.
  EXPECT_EQ(query("p1").status, 200);
  EXPECT_EQ(query("p2").status, 200);
  EXPECT_EQ(query("p3").status, 200);
  // "If there are no tokens left, the request is discarded as being rate limited." A second a
  // token.
  const HttpAnswer limited = query("p1");
  EXPECT_EQ(limited.status, 429);
  EXPECT_EQ(outcome(limited), "bucket_empty");
  EXPECT_EQ(limited.field("Retry-After"), "1");
  const js::value used = json(weir.get("/v1/compute/worker?portal=p2"));
  EXPECT_EQ(used.at("used_micro").as_int64(), 3'000'000);
  EXPECT_EQ(used.at("rate_limited").as_int64(), 1);
  const std::string metrics = weir.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("weir_compute_cluster_used{cluster=\"acme\"} 3.000000\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_compute_cluster_used{cluster=\"\"} 0.000000\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_compute_cluster_refused{cluster=\"acme\","
                                 "outcome=\"rate_limited\"} 1\n"));
}

// "The Worker calculates the rate limit for this cluster as (CU per epoch) / (epoch length)." "A
// token is added to the bucket every 1 / R seconds."
TEST_F(ComputeProgram, AddsATokenEachTimeThatTheRateSays) {
  begin(quick("", weir.path("state")));
  fund("acme", "3500");  // 7 units in 2 s
  push(2);
  ASSERT_TRUE(eventually([&] { return weir.get("/v1/compute/worker?portal=acme").status == 200; }));
  const js::value shown = json(weir.get("/v1/compute/worker?portal=acme"));
  EXPECT_EQ(shown.at("units").as_int64(), 7);
  EXPECT_EQ(shown.at("interval_ns").as_int64(), 285'714'286);
  ASSERT_TRUE(has_full_bucket("acme"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(query("acme").status, 200);
  const js::value refused = json(query("acme"));
  ASSERT_EQ(refused.at("outcome"), "rate_limited");
  EXPECT_LE(refused.at("retry_after_ms").as_int64(), 286);
  // Who comes again by the hint is not too early.
  std::this_thread::sleep_for(std::chrono::milliseconds(refused.at("retry_after_ms").as_int64()));
  EXPECT_EQ(query("acme").status, 200);
}

// "The Worker also has a limit on the number of queries being processed concurrently. If a new
// query passes the rate limit check but the query queue is full, the request is discarded with the
// "service overloaded" error."
TEST_F(ComputeProgram, RunsSoManyAtOnceQueuesSoManyAndIsThenOverloaded) {
  begin(
      quick(", running: 4, queue: 2, cluster_running: 4, cluster_queue: 2, "
            "burst: 50",
            weir.path("state")));
  fund("acme", "1000000");
  fund("poor", "1000");
  push(2);
  ASSERT_TRUE(has_full_bucket("acme", 50));
  std::vector<std::string> said;
  std::string first;
  for (int i = 0; i < 8; ++i) {
    const HttpAnswer answer = query("acme");
    said.push_back(outcome(answer));
    if (i == 0) first = js::serialize(json(answer).at("query"));
  }
  EXPECT_THAT(said, ::testing::ElementsAre("running", "running", "running", "running", "queued",
                                           "queued", "worker_full", "worker_full"));
  EXPECT_EQ(query("acme").status, 503);
  // The rate is checked first: an empty bucket says so, though the queue is full too.
  for (int i = 0; i < 60; ++i) query("poor");
  EXPECT_EQ(outcome(query("poor")), "bucket_empty");
  const js::value ended =
      json(weir.post("/v1/compute/queries/complete", fmt::format(R"({{"query":{}}})", first)));
  EXPECT_FALSE(ended.at("started").is_null()) << "the next of the queue runs in its place";
}

// "*Guarantee that the Workers can handle the queries they receive": no client, and no two, keep
// others out.
TEST_F(ComputeProgram, LetsAThirdClusterInThoughTwoKeepAllThereIs) {
  begin(quick(", running: 4, queue: 4, burst: 50", weir.path("state")));
  for (const char* cluster : {"one", "two", "third"}) fund(cluster, "1000000");
  push(2);
  for (const char* cluster : {"one", "two", "third"}) ASSERT_TRUE(has_full_bucket(cluster, 50));
  std::string newest;
  for (const char* cluster : {"one", "one", "two", "two", "one", "one", "two", "two"}) {
    const HttpAnswer answer = query(cluster);
    ASSERT_EQ(answer.status, 200) << answer.body;
    newest = std::string(js::serialize(json(answer).at("query")));
  }
  EXPECT_EQ(query("one").status, 503);
  const HttpAnswer third = query("third");
  EXPECT_EQ(outcome(third), "queued");
  std::erase(newest, '"');
  EXPECT_EQ(json(weir.get("/v1/compute/queries?query=" + newest)).at("state"), "displaced");
  EXPECT_THAT(weir.get("/metrics").body, HasSubstr("weir_compute_displaced_total 1\n"));
}

TEST_F(ComputeProgram, HasEveryLockAgainThatWasAnsweredBeforeAKill) {
  weir.configure("state: { dir: '" + weir.path("state") + "' }\n" + std::string(kAsPublished));
  std::int64_t told = 0;
  for (int round = 0; round < 3; ++round) {
    weir.start();
    for (int i = 0; i < 30; ++i) {
      told += lock(fmt::format("w{}-{}", round, i), "10000").status == 200 ? 1 : 0;
    }
    weir.kill();
  }
  weir.start();
  EXPECT_EQ(told, 90);
  EXPECT_EQ(json(weir.get("/v1/compute/epochs")).at("wallets").as_int64(), told);
}

// The second generation of registries: stake in a pool, which leaves by a belt, over a kill.
TEST_F(ComputeProgram, LetsStakeOutOfAPoolNoFasterThanItsBelt) {
  weir.configure("state: { dir: '" + weir.path("state") + "' }\n" + std::string(kAsPublished));
  weir.start();
  const auto tell = [&](std::string_view what, std::string_view rest) {
    return weir.post(fmt::format("/v1/compute/pools{}", what),
                     fmt::format(R"({{"wallet":"anna","pool":"lake"{}}})", rest));
  };
  weir.post("/v1/compute/workers", R"({"worker":"w"})");
  EXPECT_EQ(tell("", "").status, 200);
  EXPECT_EQ(add_portals("anna", {"p1"}).status, 200);
  EXPECT_EQ(tell("/stake", R"(,"tokens":"1000000")").status, 200);
  push(100);
  EXPECT_EQ(allocations("w").at("clusters").at(0).at("units").as_int64(), 100'000);
  EXPECT_EQ(tell("/exit", R"(,"tokens":"120")").status, 200);
  weir.kill();
  weir.start();
  push(109);
  EXPECT_EQ(json(tell("/withdraw", R"(,"ticket":0)")).at("fault"), "NOT_READY");
  push(110);
  EXPECT_EQ(json(tell("/withdraw", R"(,"ticket":0)")).at("tokens"), "120");
  EXPECT_TRUE(allocations("w").at("clusters").as_array().empty()) << "below the least stake";
}

// A follower of a chain that loses answers, is killed, and begins again at the first event.
TEST_F(ComputeProgram, MakesEventsOfAChainOnceWhoeverIsKilledMeanwhile) {
  weir.configure("state: { dir: '" + weir.path("state") + "' }\n" + std::string(kAsPublished));
  constexpr int kWallets = 40;
  const std::string events = weir.path("events.jsonl");
  {
    std::ofstream out(events);
    for (int i = 0; i < kWallets; ++i) {
      out << fmt::format(
          R"({{"event":"lock-{0}","block":{1},"op":"lock","wallet":"w{0}","tokens":"10000",)"
          R"("duration":18000}})"
          "\n",
          i, i);
    }
    // In a later epoch, where an addition would be made again if nobody knew it.
    for (int i = 0; i < kWallets; ++i) {
      out << fmt::format(
          R"({{"event":"add-{0}","block":{1},"op":"add","wallet":"w{0}","tokens":"5000"}})"
          "\n",
          i, 150 + i / 10);
    }
    out << R"({"event":"end","block":400,"op":"join","worker":"w"})" << '\n';
  }
  const auto follow = [&] {
    return std::make_unique<Process>(std::vector<std::string>{
        "/bin/sh", "-c",
        "exec /usr/bin/python3 " + std::string(WEIR_SOURCE_DIR) +
            "/examples/compute/follower.py --url " + weir.http_address() + " < " + events});
  };
  const auto rows = [&] {
    return json(weir.get("/v1/compute/history?after=0")).at("history").as_array();
  };
  weir.start();
  auto follower = follow();
  ASSERT_TRUE(eventually([&] { return rows().size() >= 10; })) << follower->said();
  weir.kill();  // it tries until there is a weir again
  weir.start();
  ASSERT_TRUE(eventually([&] { return rows().size() >= 50; })) << follower->said();
  follower->signal(SIGKILL);
  follower->wait();
  follower = follow();  // from the first event on
  EXPECT_EQ(follower->wait(), 0) << follower->said();
  EXPECT_EQ(rows().size(), 2u * kWallets + 1);
  EXPECT_EQ(json(weir.get("/v1/compute/epochs")).at("locked"), "600000");
  EXPECT_EQ(json(weir.get("/v1/compute/epochs")).at("block").as_int64(), 400);
  const std::string answers = follower->printed();
  follower = follow();
  EXPECT_EQ(follower->wait(), 0) << follower->said();
  EXPECT_EQ(follower->printed(), answers) << "every event is answered as before";
  EXPECT_EQ(rows().size(), 2u * kWallets + 1);
}

}  // namespace
}  // namespace weir
