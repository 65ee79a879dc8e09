// Throttles with the real program, statement by statement against the network's own document.
//
// Consensus is asked, where the test gives the instants, so every number is exact.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/client.h"
#include "tests/systems/support.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// The document's buckets, one after the other.
constexpr std::string_view kThroughput = R"({"name":"ThroughputLimits","burstPeriod":1,
  "throttleGroups":[
    {"opsPerSec":10000,"operations":["CryptoTransfer","CryptoCreate","ConsensusCreateTopic",
                                     "ContractCallLocal"]},
    {"opsPerSec":13,"operations":["ContractCall","ContractCreate"]},
    {"opsPerSec":3000,"operations":["TokenMint","TokenCreate","TokenAssociateToAccount"]}]})";
constexpr std::string_view kPriority = R"({"name":"PriorityReservations","burstPeriod":1,
  "throttleGroups":[{"opsPerSec":10,"operations":["ContractCall","ContractCreate"]}]})";
constexpr std::string_view kCreation = R"({"name":"CreationLimits","burstPeriod":10,
  "throttleGroups":[{"opsPerSec":2,"operations":["CryptoCreate"]},
    {"opsPerSec":5,"operations":["ConsensusCreateTopic"]},
    {"opsPerSec":100,"operations":["TokenCreate","TokenAssociateToAccount"]}]})";
constexpr std::string_view kFree = R"({"name":"FreeQueryLimits","burstPeriod":1,
  "throttleGroups":[{"opsPerSec":1000000,
                     "operations":["CryptoGetAccountBalance","TransactionGetReceipt"]}]})";

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kThen = 1'800'000'000 * kSecond;

struct ThrottleProgram : ::testing::Test {
  void start(const std::vector<std::string_view>& buckets, const std::string& settings = "") {
    std::string text;
    for (const std::string_view bucket : buckets) {
      text += (text.empty() ? "" : ",") + std::string(bucket);
    }
    start_with(R"({"buckets":[)" + text + "]}", settings);
  }
  void start_with(const std::string& definitions, const std::string& settings = "") {
    std::ofstream(weir.path("throttles.json")) << definitions;
    weir.configure("throttles: { file: '" + weir.path("throttles.json") + "', ahead: off" +
                   settings + " }\n");
    weir.start();
  }

  static std::string at_consensus(std::string_view operation, std::int64_t at,
                                  std::int64_t count = 1, const std::string& more = "") {
    return R"({"operation":")" + std::string(operation) + R"(","role":"consensus","at_ns":)" +
           std::to_string(at) + R"(,"count":)" + std::to_string(count) + more + "}";
  }
  boost::json::value submit(const std::string& body) const {
    return json(weir.post("/v1/throttle/submit", body));
  }
  // Whether it is let through; `why` otherwise.
  bool admits(std::string_view operation, std::int64_t at, std::int64_t count = 1) {
    const boost::json::value said = submit(at_consensus(operation, at, count));
    last = said;
    return said.at("status").as_string() == "OK";
  }
  std::string refused_by() const { return std::string(last.at("refused_by").as_string()); }
  // How many come through one by one.
  int admitted(std::string_view operation, std::int64_t at, int tries) {
    int count = 0;
    for (int i = 0; i < tries; ++i) count += admits(operation, at) ? 1 : 0;
    return count;
  }

  Weir weir;
  boost::json::value last;
};

// "If 13 of them come in all at once, it will completely fill the bucket … until at least 1/13 of
// a liter has leaked out. That will take 1/13 of a second."
TEST_F(ThrottleProgram, FillsABucketWithThirteenCallsAndLeaksOneInAThirteenthOfASecond) {
  start({kThroughput});
  EXPECT_EQ(admitted("ContractCreate", kThen, 14), 13);
  EXPECT_EQ(last.at("earliest_ns").as_int64(), kThen + 76'923'077);
  EXPECT_FALSE(admits("ContractCall", kThen + 76'923'076));
  EXPECT_TRUE(admits("ContractCall", kThen + 76'923'077));
}

// "If there are no more transactions for half a second, then it will allow another 6 to come in
// all at once … a full second or more, … it will allow 13."
TEST_F(ThrottleProgram, AllowsSixAfterHalfASecondAndThirteenAfterASecond) {
  start({kThroughput});
  EXPECT_EQ(admitted("ContractCall", kThen, 14), 13);
  EXPECT_EQ(admitted("ContractCall", kThen + kSecond / 2, 14), 6);
  EXPECT_EQ(admitted("ContractCall", kThen + 2 * kSecond, 14), 13);
  EXPECT_EQ(admitted("ContractCall", kThen + 9 * kSecond, 14), 13);
}

// "In one second, it will allow 10,000 crypto transfers, or 13 contract calls. Or … half of 10,000
// crypto transfers and half of 13 contract calls. Or any other way of dividing up the bucket."
TEST_F(ThrottleProgram, DividesABucketBetweenOperationsInAnyWay) {
  start({kThroughput});
  EXPECT_TRUE(admits("CryptoTransfer", kThen, 10'000));
  EXPECT_FALSE(admits("CryptoTransfer", kThen));
  EXPECT_TRUE(admits("TokenMint", kThen + 10 * kSecond, 3'000));
  EXPECT_FALSE(admits("CryptoTransfer", kThen + 10 * kSecond));
  EXPECT_TRUE(admits("CryptoTransfer", kThen + 20 * kSecond, 5'000));
  EXPECT_TRUE(admits("ContractCall", kThen + 20 * kSecond, 6));
  EXPECT_FALSE(admits("ContractCall", kThen + 20 * kSecond));
  EXPECT_TRUE(admits("CryptoTransfer", kThen + 20 * kSecond, 384)) << "half a call is left";
  EXPECT_FALSE(admits("CryptoTransfer", kThen + 20 * kSecond));
}

// "An incoming transaction adds water to all of the buckets that list it. And it will be reject if
// any of those buckets are full." 10 calls, then 3/13 of 10,000 transfers.
TEST_F(ThrottleProgram, ReservesSomethingForTransfersByASecondBucket) {
  start({kThroughput, kPriority});
  EXPECT_EQ(admitted("ContractCall", kThen, 13), 10);
  EXPECT_EQ(refused_by(), "PriorityReservations");
  EXPECT_FALSE(admits("CryptoTransfer", kThen, 2'308));
  EXPECT_EQ(refused_by(), "ThroughputLimits");
  EXPECT_TRUE(admits("CryptoTransfer", kThen, 2'307));
  EXPECT_FALSE(admits("CryptoTransfer", kThen));
}

// "There will never be more than 10 contract calls per second, and … there will still be leftover
// resources to handle quite a few crypto transfers (3/13 times 10,000 each second)."
TEST_F(ThrottleProgram, KeepsThreeThirteenthsForTransfersHoweverManyCallsCome) {
  start({kThroughput, kPriority});
  int calls = 0;
  for (int tenth = 0; tenth < 50; ++tenth) {
    calls += admitted("ContractCall", kThen + tenth * kSecond / 10, 3);
  }
  EXPECT_LE(calls, 10 + 49);
  EXPECT_TRUE(admits("CryptoTransfer", kThen + 5 * kSecond, 2'307));
}

// "This bucket throttles how many new entities can be created each second", with a burst of 10 s.
TEST_F(ThrottleProgram, LimitsCreationsOverTenSeconds) {
  start({kThroughput, kCreation});
  const std::pair<std::string_view, int> creations[] = {{"CryptoCreate", 20},
                                                        {"ConsensusCreateTopic", 50},
                                                        {"TokenCreate", 1'000},
                                                        {"TokenAssociateToAccount", 1'000}};
  std::int64_t at = kThen;
  for (const auto& [operation, most] : creations) {
    EXPECT_TRUE(admits(operation, at, most)) << operation;
    EXPECT_FALSE(admits(operation, at)) << operation;
    EXPECT_EQ(refused_by(), "CreationLimits") << operation;
    EXPECT_TRUE(admits("CryptoTransfer", at)) << "transfers are not held up";
    at += 20 * kSecond;
  }
}

// "A final bucket … on the queries-per-second accepted for the free … queries."
TEST_F(ThrottleProgram, LimitsFreeQueriesByABucketOfTheirOwn) {
  start({kThroughput, kFree});
  EXPECT_TRUE(admits("TransactionGetReceipt", kThen, 600'000));
  EXPECT_TRUE(admits("CryptoGetAccountBalance", kThen, 400'000));
  EXPECT_FALSE(admits("TransactionGetReceipt", kThen));
  EXPECT_EQ(refused_by(), "FreeQueryLimits");
  EXPECT_TRUE(admits("CryptoTransfer", kThen, 10'000));
}

// The document is silent: what no bucket lists is refused, and told that waiting does not help.
TEST_F(ThrottleProgram, RefusesWhatNoBucketLists) {
  start({kThroughput});
  EXPECT_FALSE(admits("FileCreate", kThen));
  EXPECT_EQ(refused_by(), "unlisted");
  EXPECT_EQ(last.at("verdict").as_string(), "never");
}

// "Transactions throttled by the frontend receive a status BUSY and transactions throttled on the
// consensus level receive a status CONSENSUS_GAS_EXHAUSTED. Transaction may still be throttled by
// the opsPerSec buckets where contract-related ops are listed."
TEST_F(ThrottleProgram, ThrottlesContractsByGasAndByTheirBuckets) {
  start({kThroughput, kPriority},
        ", contracts.frontendThrottleMaxGasLimit: 1000, "
        "contracts.consensusThrottleMaxGasLimit: 2000");
  const auto call = [&](std::int64_t at, int gas) {
    return submit(at_consensus("ContractCall", at, 1, R"(,"gas":)" + std::to_string(gas)));
  };
  EXPECT_EQ(call(kThen, 2'000).at("status").as_string(), "OK");
  EXPECT_EQ(call(kThen, 1).at("status").as_string(), "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(call(kThen + kSecond / 2, 1'000).at("status").as_string(), "OK");
  for (int i = 0; i < 10; ++i) call(kThen + 9 * kSecond, 0);
  const boost::json::value held_up = call(kThen + 9 * kSecond, 0);
  EXPECT_EQ(held_up.at("status").as_string(), "THROTTLED_AT_CONSENSUS");
  EXPECT_EQ(held_up.at("refused_by").as_string(), "PriorityReservations");
  const boost::json::value busy = submit(R"({"operation":"ContractCallLocal","gas":1001})");
  EXPECT_EQ(busy.at("status").as_string(), "BUSY");
  EXPECT_EQ(busy.at("refused_by").as_string(), "gas");
}

// ContractCallLocal stands in the first bucket, at the front end too; as the network's code has
// it, by gas alone.
TEST_F(ThrottleProgram, LimitsLocalCallsByTheBucketThatListsThem) {
  start({kThroughput});
  boost::json::value said = submit(R"({"operation":"ContractCallLocal","count":10001})");
  EXPECT_EQ(said.at("status").as_string(), "BUSY");
  EXPECT_EQ(said.at("refused_by").as_string(), "ThroughputLimits");
  weir.stop();
  start({kThroughput}, ", local_calls: gas");
  said = submit(R"({"operation":"ContractCallLocal","count":10001})");
  EXPECT_EQ(said.at("status").as_string(), "OK");
}

// What `weir throttle report` prints is what the server admits, for each operation of the
// document's whole file.
TEST_F(ThrottleProgram, AdmitsWhatTheReportSays) {
  const std::string file = WEIR_SOURCE_DIR "/examples/throttles.json";
  std::ifstream in(file);
  start_with({std::istreambuf_iterator<char>(in), {}});
  Process report({WEIR_PROGRAM, "throttle", "report", file});
  ASSERT_EQ(report.wait(), 0);
  std::istringstream lines(report.printed());
  std::string batch;
  std::vector<std::string> names;
  bool is_row = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("operation, alone")) {
      is_row = true;
      continue;
    }
    if (line.empty()) is_row = false;
    if (!is_row) continue;
    std::istringstream row(line);
    std::string name, rate;
    std::int64_t at_once = 0;
    ASSERT_TRUE(row >> name >> rate >> at_once) << line;
    const std::int64_t at = kThen + static_cast<std::int64_t>(names.size()) * 1'000 * kSecond;
    names.push_back(name);
    batch += (batch.empty() ? "" : ",") +
             at_consensus(name, at, at_once, R"(,"scheduled":{"operation":"CryptoTransfer"})") +
             "," + at_consensus(name, at, 1, R"(,"scheduled":{"operation":"CryptoTransfer"})");
  }
  EXPECT_EQ(names.size(), 47u);
  const boost::json::value said =
      json(weir.post("/v1/throttle/batch", R"({"submissions":[)" + batch + "]}"));
  const boost::json::array& results = said.at("results").as_array();
  ASSERT_EQ(results.size(), 2 * names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(results[2 * i].at("status").as_string(), "OK") << names[i];
    EXPECT_EQ(results[2 * i + 1].at("status").as_string(), "THROTTLED_AT_CONSENSUS") << names[i];
  }
}

// "It is used in handleTransaction to decide when to engage emergency congestion pricing."
TEST_F(ThrottleProgram, MultipliesFeesUnderCongestionAndTellsOfIt) {
  start({kThroughput});
  // 95 % and more at each of 61 seconds: the tier counts from the 60th on.
  std::int64_t multiplier = 0;
  for (int second = 0; second <= 60; ++second) {
    ASSERT_TRUE(admits("CryptoTransfer", kThen + second * kSecond, 9'500));
    multiplier = last.at("multiplier").as_int64();
    EXPECT_EQ(multiplier, second < 60 ? 1 : 25) << second;
  }
  EXPECT_TRUE(eventually([&] {
    return weir.said().find("event=congestion of=generic from=1 to=25") != std::string::npos;
  })) << weir.said();
  EXPECT_THAT(weir.get("/metrics").body,
              HasSubstr("weir_throttle_multiplier_changes_total{of=\"generic\"} 1\n"));
}

// Claims outlive a kill: a node that comes back settles what it submitted before.
TEST_F(ThrottleProgram, SettlesClaimsOfBeforeAKill) {
  std::ofstream(weir.path("throttles.json"))
      << R"({"buckets":[)" << kThroughput << "," << kPriority << "]}";
  weir.configure("state: { dir: '" + weir.path("state") +
                 "', flush: 20ms }\n"
                 "throttles: { file: '" +
                 weir.path("throttles.json") +
                 "', ahead: off, by_gas: true, consensus_gas: 1000 }\n");
  weir.start();
  const auto call = [&](int gas) {
    return submit(at_consensus("ContractCall", kThen, 1, R"(,"gas":)" + std::to_string(gas)));
  };
  const std::string settled(call(600).at("claim").as_string());
  const std::string cancelled(call(400).at("claim").as_string());
  EXPECT_EQ(call(1).at("status").as_string(), "CONSENSUS_GAS_EXHAUSTED");
  weir.stop();
  weir.start();
  EXPECT_EQ(call(1).at("status").as_string(), "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(weir.post("/v1/throttle/settle", R"({"claim":")" + settled + R"(","gas":100})").status,
            200);
  EXPECT_EQ(call(501).at("status").as_string(), "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(call(500).at("status").as_string(), "OK") << "what was not used came back";
  std::this_thread::sleep_for(std::chrono::milliseconds{300});  // several flushes
  weir.kill();
  weir.start();
  const std::string cancel = R"({"claim":")" + cancelled + R"("})";
  EXPECT_EQ(weir.post("/v1/throttle/cancel", cancel).status, 200);
  EXPECT_EQ(weir.post("/v1/throttle/cancel", cancel).status, 404) << "each ends once";
  EXPECT_EQ(call(400).at("status").as_string(), "OK");
}

// Throttles that a reload takes out and brings in again are others: of those before nothing comes
// back, not after a kill either.
TEST_F(ThrottleProgram, ForgetsClaimsWithTheirThrottlesThoughOthersFollow) {
  std::ofstream(weir.path("throttles.json"))
      << R"({"buckets":[)" << kThroughput << "," << kPriority << "]}";
  const std::string state = "state: { dir: '" + weir.path("state") + "', flush: 20ms }\n";
  const std::string throttles = "throttles: { file: '" + weir.path("throttles.json") +
                                "', ahead: off, by_gas: true, consensus_gas: 1000 }\n";
  const auto claim_of = [&](int gas) {
    const auto said =
        submit(at_consensus("ContractCall", kThen, 1, R"(,"gas":)" + std::to_string(gas)));
    return std::string(said.at("claim").as_string());
  };
  const auto several_flushes = [] { std::this_thread::sleep_for(std::chrono::milliseconds{300}); };
  const auto cancel = [&](const std::string& claim) {
    return weir.post("/v1/throttle/cancel", R"({"claim":")" + claim + R"("})").status;
  };
  weir.configure(state + throttles);
  weir.start();
  const std::string before = claim_of(900);
  several_flushes();
  weir.configure(state + "limits: []\n");
  ASSERT_EQ(weir.post("/v1/reload", "").status, 200);
  weir.configure(state + throttles);
  ASSERT_EQ(weir.post("/v1/reload", "").status, 200);
  EXPECT_EQ(cancel(before), 404);
  several_flushes();
  weir.kill();
  weir.start();
  EXPECT_EQ(cancel(before), 404) << "it was not these throttles that granted it";
  const std::string after = claim_of(700);
  several_flushes();
  weir.kill();
  weir.start();
  EXPECT_EQ(cancel(after), 200) << "an ordinary start loses nothing";
}

// Many submissions in one command, as a node of the network would send them.
TEST_F(ThrottleProgram, DecidesManyInOneCommandOverResp) {
  start({kThroughput, kPriority}, ", nodes: 1");
  std::string command = "WEIR.THROTTLE.SUBMIT";
  for (int i = 0; i < 12; ++i) command += " operation=ContractCall";
  const std::string said =
      server::Client(weir.resp_address()).ask_until(command + "\r\nPING\r\n", "+PONG\r\n");
  std::size_t busy = 0;
  for (std::size_t at = said.find("BUSY"); at != std::string::npos;
       at = said.find("BUSY", at + 1)) {
    busy += 1;
  }
  EXPECT_THAT(said, HasSubstr("*12\r\n"));
  EXPECT_EQ(busy, 2u);
}

}  // namespace
}  // namespace weir
