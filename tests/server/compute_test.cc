// Compute in a server: in one process, and a ledger and a worker in two.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "tests/app/support.h"
#include "tests/server/http_client.h"
#include "weir/base/clock.h"
#include "weir/server/systems/worker_state.h"
#include "weir/wire/http/compute_routes.h"

namespace weir::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::string_view kNoLimits = "limits: []\n";

// Tokens come fast and blocks when they are pushed, so that nothing waits for time.
constexpr const char* kLedger = "blocks: pushed, block_time: 1s, epoch: 2, first_epoch: 0";

// A port where somebody listens and nobody ever answers.
class SilentListener {
 public:
  SilentListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
  }
  ~SilentListener() { ::close(socket_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
};

std::string lock_body(std::int64_t tokens) {
  return R"({"wallet":"acme","tokens":")" + std::to_string(tokens) + R"(","duration":1000})";
}

struct ComputeServer : HttpTest {
  void begin(const std::string& rest = "", std::string_view limits = kNoLimits) {
    serve(std::string("compute: { ledger: { ") + kLedger + " }, worker: { mode: immediate } }\n" +
              rest,
          limits);
  }
  void fund() {
    EXPECT_EQ(
        ask(post("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-1"]})")).status,
        200);
    EXPECT_EQ(ask(post("/v1/compute/locks", lock_body(1'000'000))).status, 200);
    EXPECT_EQ(ask(post("/v1/compute/blocks", R"({"block":2})")).status, 200);
  }
  bool has_tokens() {
    return eventually([&] {
      return ask(post("/v1/compute/queries", R"({"portal":"portal-1","dry_run":true})")).status ==
             200;
    });
  }
};

TEST_F(ComputeServer, AdmitsQueriesOnceTokensAreLockedAndTheEpochHasTurned) {
  begin();
  EXPECT_EQ(ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).status, 403);
  fund();
  ASSERT_TRUE(has_tokens());
  EXPECT_EQ(ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).status, 200);
  EXPECT_THAT(ask(get("/metrics")).body,
              HasSubstr("weir_compute_queries_total{outcome=\"accepted\"} 1\n"));
}

TEST_F(ComputeServer, LimitsAnOrdinaryAcquireThatNamesAPortal) {
  begin("", "limits: [ { name: daily, window: { limit: 1, every: 10000d } } ]\n");
  fund();
  ASSERT_TRUE(has_tokens());
  const std::string body = R"({"attributes":{"portal":"portal-1"},"hold":"60s"})";
  EXPECT_EQ(ask(post("/v1/acquire", body)).status, 200);
  EXPECT_THAT(ask(get("/v1/compute/worker")).body, HasSubstr(R"("running":1)"));
  const HttpAnswer refused = ask(post("/v1/acquire", body));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr(R"("limit":"daily")"));
  EXPECT_THAT(ask(get("/v1/compute/worker")).body, HasSubstr(R"("running":1)"));
}

TEST_F(ComputeServer, HasLedgerAndBucketsAgainAfterARestart) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  begin(state);
  fund();
  ASSERT_TRUE(has_tokens());
  ASSERT_TRUE(server->stop(1s).ok());
  server.reset();
  const auto kept = read_worker_state(dir / "state" / kWorkerStateName);
  ASSERT_TRUE(kept.ok() && kept->has_value());
  EXPECT_EQ((*kept)->buckets.size(), 1u);
  EXPECT_GT((*kept)->buckets[0].tokens_micro, 0);
  begin(state);
  EXPECT_THAT(ask(get("/v1/compute/wallets?wallet=acme")).body, HasSubstr(R"("tokens":"1000000")"));
  EXPECT_THAT(ask(get("/v1/compute/epochs")).body, HasSubstr(R"("block":2,)"));
  EXPECT_EQ(ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).status, 200)
      << "the bucket did not begin empty";
}

TEST_F(ComputeServer, StaysAsItIsUntilARestart) {
  begin();
  fund();
  write(std::string(kListen) + std::string(kNoLimits));
  EXPECT_EQ(ask(with_body("POST", "/v1/reload", "")).status, 200);
  ASSERT_TRUE(has_tokens());
  EXPECT_EQ(ask(post("/v1/acquire", R"({"attributes":{"portal":"portal-1"}})")).status, 200);
}

TEST_F(ComputeServer, LetsAWaiterStartWhenAQueryEnds) {
  serve(std::string("compute: { ledger: { ") + kLedger +
            " }, worker: { mode: immediate, running: 1 } }\n",
        kNoLimits);
  fund();
  ASSERT_TRUE(has_tokens());
  const std::string body = ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).body;
  const std::size_t begin = body.find("\"query\":") + 8;
  const std::string query = body.substr(begin, body.find(',', begin) - begin);
  HttpClient waiting(address());
  waiting.send(
      post("/v1/acquire", R"({"attributes":{"portal":"portal-1"},"hold":"60s","wait":"60s"})"));
  ASSERT_TRUE(someone_waits());
  EXPECT_EQ(ask(post("/v1/compute/queries/complete", R"({"query":)" + query + "}")).status, 200);
  EXPECT_EQ(waiting.read().status, 200);
}

TEST_F(ComputeServer, LetsAWaiterStartWhenAQueryIsOverThatNobodyEnded) {
  serve(std::string("compute: { ledger: { ") + kLedger +
            " }, worker: { mode: immediate, running: 1, query_time: 2s } }\n",
        kNoLimits);
  fund();
  ASSERT_TRUE(has_tokens());
  EXPECT_EQ(ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).status, 200);
  HttpClient waiting(address());
  waiting.send(
      post("/v1/acquire", R"({"attributes":{"portal":"portal-1"},"hold":"60s","wait":"10m"})"));
  EXPECT_EQ(waiting.read().status, 200);
}

TEST_F(ComputeServer, LetsAWaiterStartWhenItsClusterHasUnits) {
  begin();
  HttpClient waiting(address());
  waiting.send(
      post("/v1/acquire", R"({"attributes":{"portal":"portal-1"},"hold":"60s","wait":"10m"})"));
  ASSERT_TRUE(someone_waits());
  fund();
  EXPECT_EQ(waiting.read().status, 200);
}

TEST_F(ComputeServer, SeesALockEndInsideAnEpoch) {
  begin();
  EXPECT_EQ(ask(post("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-1"]})")).status,
            200);
  // From block 2 to before block 5, and epochs have two blocks.
  EXPECT_EQ(
      ask(post("/v1/compute/locks", R"({"wallet":"acme","tokens":"1000000","duration":3})")).status,
      200);
  EXPECT_EQ(ask(post("/v1/compute/blocks", R"({"block":4})")).status, 200);
  ASSERT_TRUE(has_tokens());
  EXPECT_EQ(ask(post("/v1/compute/blocks", R"({"block":5})")).status, 200);
  EXPECT_TRUE(eventually([&] {
    return ask(post("/v1/compute/queries", R"({"portal":"portal-1","dry_run":true})")).status ==
           403;
  }));
}

TEST_F(ComputeServer, JoinsAgainWhenItWasLeavingAtARestart) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  const auto shows = [&](const char* target, const std::string& text) {
    return eventually([&] { return ask(get(target)).body.find(text) != std::string::npos; });
  };
  begin(state);
  fund();
  ASSERT_TRUE(has_tokens());
  EXPECT_EQ(ask(post("/v1/compute/workers/leave", R"({"worker":"worker-1"})")).status, 200);
  ASSERT_TRUE(server->stop(1s).ok());
  server.reset();
  begin(state);
  EXPECT_EQ(ask(post("/v1/compute/blocks", R"({"block":4})")).status, 200);
  ASSERT_TRUE(shows("/v1/compute/workers", R"("id":2,"worker":"worker-1")"));
  EXPECT_EQ(ask(post("/v1/compute/blocks", R"({"block":6})")).status, 200);
  EXPECT_TRUE(has_tokens());
  // Told to leave while it runs, it stays away, and says so.
  EXPECT_EQ(ask(post("/v1/compute/workers/leave", R"({"worker":"worker-1"})")).status, 200);
  EXPECT_EQ(ask(post("/v1/compute/blocks", R"({"block":8})")).status, 200);
  EXPECT_TRUE(shows("/v1/compute/worker",
                    "NO_WORKERS: worker 'worker-1' is not active in this ledger; let it join"));
}

TEST_F(ComputeServer, BeginsWithEmptyBucketsWhereTheirFileIsBroken) {
  fs::create_directories(dir / "state");
  std::ofstream(dir / "state" / kWorkerStateName) << "";
  begin("state: { dir: '" + (dir / "state").string() + "' }\n");
  EXPECT_THAT(ask(get("/v1/compute/worker")).body, HasSubstr("buckets begin empty"));
  fund();
  EXPECT_TRUE(has_tokens());
}

TEST_F(ComputeServer, DoesNotWaitForALedgerFarAwayWhereItHasSomethingToGoOnWith) {
  const SilentListener ledger;  // accepts nobody
  const Instant now = SystemClock().now();
  WorkerState state{.heard = now};
  state.buckets = {{"acme", kMicro, now}};
  state.allocations = {.epoch = 1, .epoch_time = 60s, .clusters = {{"acme", {"portal-1"}, 60}}};
  fs::create_directories(dir / "state");
  ASSERT_TRUE(write_worker_state(dir / "state" / kWorkerStateName, worker_state_text(state)).ok());
  const auto begun = std::chrono::steady_clock::now();
  serve("compute: { worker: { ledger: 'http://127.0.0.1:" + std::to_string(ledger.port()) +
            "' } }\nstate: { dir: '" + (dir / "state").string() + "' }\n",
        kNoLimits);
  EXPECT_EQ(ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 9s) << "a transfer gives up after 10 s";
}

TEST_F(ComputeServer, GoesOnAcrossAReload) {
  begin();
  fund();
  ASSERT_TRUE(has_tokens());
  EXPECT_EQ(ask(with_body("POST", "/v1/reload", "")).status, 200);
  EXPECT_EQ(ask(post("/v1/compute/queries", R"({"portal":"portal-1"})")).status, 200);
  EXPECT_EQ(ask(post("/v1/acquire", R"({"attributes":{"portal":"px"}})")).status, 429);
}

TEST_F(ComputeServer, ReadsAllocationsFromAFile) {
  const std::string file = dir / "allocations.json";
  std::ofstream(file)
      << R"({"epoch":1,"epoch_time_ns":1000000,"clusters":[{"cluster":"acme","units":1000,"portals":["portal-1"]}]})";
  serve("compute: { worker: { file: '" + file + "' } }\n", kNoLimits);
  EXPECT_TRUE(has_tokens());
}

// --- two processes

struct TwoProcesses : app::AppTest {
  static std::unique_ptr<Process> serve_file(const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
    return std::make_unique<Process>(weir({"serve", file}));
  }
  static std::string address_of(const Process& process) {
    std::string found;
    EXPECT_TRUE(eventually([&] {
      const std::string log = process.said();
      const std::size_t begin = log.find("127.0.0.1:");
      if (begin == std::string::npos) return false;
      const std::size_t end = log.find_first_not_of("0123456789", begin + 10);
      if (end == std::string::npos) return false;
      found = log.substr(begin, end - begin);
      return true;
    })) << process.said();
    return found;
  }
  std::string ledger_config(const std::string& at) const {
    return "listen: { resp: none, http: " + at + " }\nstate: { dir: '" +
           (dir / "ledger-state").string() + "' }\ncompute: { ledger: { " + kLedger +
           " } }\nlimits: []\n";
  }
};

TEST_F(TwoProcesses, KeepTheWorkerServedWhileTheLedgerIsAway) {
  auto ledger = serve_file(dir / "ledger.yaml", ledger_config("127.0.0.1:0"));
  const std::string ledger_at = address_of(*ledger);
  const auto tell = [&](const std::string& target, const std::string& body) {
    const HttpAnswer answer = HttpClient(ledger_at).ask(post(target, body));
    EXPECT_EQ(answer.status, 200) << target << ": " << answer.body;
  };
  tell("/v1/compute/workers", R"({"worker":"far away"})");
  tell("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-1"]})");
  tell("/v1/compute/locks", lock_body(1'000'000));
  tell("/v1/compute/blocks", R"({"block":2})");

  const auto worker = serve_file(
      dir / "worker.yaml",
      "listen: { resp: none, http: 127.0.0.1:0 }\ncompute: { worker: { name: far away, ledger: "
      "'http://" +
          ledger_at + "', poll: 50ms, max_age: 1h } }\nlimits: []\n");
  const std::string worker_at = address_of(*worker);
  const auto ask = [&](const std::string& request) { return HttpClient(worker_at).ask(request); };
  const auto query = [&] {
    return ask(post("/v1/compute/queries", R"({"portal":"portal-1","dry_run":true})")).status;
  };
  const auto shows = [&](const std::string& text) {
    return eventually(
        [&] { return ask(get("/v1/compute/worker")).body.find(text) != std::string::npos; });
  };
  ASSERT_TRUE(eventually([&] { return query() == 200; })) << worker->said();

  ledger->signal(SIGTERM);
  EXPECT_EQ(ledger->wait(), 0);
  ASSERT_TRUE(eventually([&] {
    return worker->said().find("event=outage part=compute") != std::string::npos;
  })) << worker->said();
  EXPECT_EQ(query(), 200) << "the last good allocations go on";

  ledger = serve_file(dir / "ledger.yaml", ledger_config(ledger_at));
  ASSERT_EQ(address_of(*ledger), ledger_at);
  ASSERT_TRUE(eventually([&] {
    return worker->said().find("event=outage-over part=compute") != std::string::npos;
  })) << worker->said();
  // Epoch 2 was in force; the ledger, which has everything again, goes on to the next.
  EXPECT_TRUE(shows(R"("epoch":2,)"));
  tell("/v1/compute/blocks", R"({"block":4})");
  EXPECT_TRUE(shows(R"("epoch":3,)"));
  EXPECT_EQ(query(), 200);
}

TEST_F(TwoProcesses, SendAllocationsOnceAndThenOnlyThatNothingHasChanged) {
  const auto ledger = serve_file(dir / "ledger.yaml", ledger_config("127.0.0.1:0"));
  const std::string ledger_at = address_of(*ledger);
  const auto tell = [&](const std::string& target, const std::string& body) {
    EXPECT_EQ(HttpClient(ledger_at).ask(post(target, body)).status, 200) << target;
  };
  tell("/v1/compute/workers", R"({"worker":"w"})");
  tell("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-1"]})");
  tell("/v1/compute/locks", lock_body(1'000'000));
  tell("/v1/compute/blocks", R"({"block":2})");
  HttpClient client(ledger_at);
  const HttpAnswer first = client.ask(get("/v1/compute/allocations?worker=w"));
  EXPECT_EQ(first.status, 200);
  const std::string tag = first.field("ETag");
  const std::string known = "If-None-Match: " + tag + "\r\n";
  for (const std::string& request : {get("/v1/compute/allocations?worker=w", known),
                                     get("/v1/compute/allocations?worker=w&after_epoch=2")}) {
    const HttpAnswer again = client.ask(request);
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.field("Content-Length"), "(missing)");
  }
  // The connection goes on: what follows a 304 is the next answer.
  EXPECT_EQ(client.ask(get("/v1/compute/allocations?worker=w")).body, first.body);

  const auto worker = [&](const std::string& mode) {
    return serve_file(dir / (mode + ".yaml"),
                      "listen: { resp: none, http: 127.0.0.1:0 }\ncompute: { worker: { name: w, "
                      "ledger: 'http://" +
                          ledger_at + "', poll: 20ms, max_age: 1h, mode: " + mode +
                          " } }\nlimits: []\n");
  };
  const auto by_epoch = worker("epoch");
  const auto at_once = worker("immediate");
  const auto shows = [&](const Process& process, const std::string& text) {
    const std::string at = address_of(process);
    return eventually([&] {
      return HttpClient(at).ask(get("/v1/compute/worker")).body.find(text) != std::string::npos;
    });
  };
  ASSERT_TRUE(shows(*by_epoch, R"("epoch":2,)") && shows(*at_once, R"("epoch":2,)"));
  // Another portal is seen at once by the one, and by the other with the next epoch.
  tell("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-2"]})");
  const auto knows = [&](const Process& process) {
    return HttpClient(address_of(process)).ask(get("/v1/compute/worker?portal=portal-2")).status ==
           200;
  };
  EXPECT_TRUE(eventually([&] { return knows(*at_once); }));
  EXPECT_FALSE(knows(*by_epoch));
  EXPECT_TRUE(shows(*at_once, R"("fetches":2,)")) << "everything between was a 304";
  EXPECT_TRUE(shows(*by_epoch, R"("fetches":1,)"));
  tell("/v1/compute/blocks", R"({"block":4})");
  EXPECT_TRUE(shows(*by_epoch, R"("epoch":3,)") && shows(*at_once, R"("epoch":3,)"));
  EXPECT_TRUE(eventually([&] { return knows(*by_epoch); }));
}

// A ledger of before `after_epoch` and tags: it refuses the one, and does not know the others.
class OlderLedger {
 public:
  OlderLedger() : acceptor_(io_, {boost::asio::ip::make_address("127.0.0.1"), 0}) {
    thread_ = std::thread([this] { serve(); });
  }
  ~OlderLedger() {
    is_over_ = true;
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket waker(io);
    boost::system::error_code ignored;
    waker.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  OlderLedger(const OlderLedger&) = delete;
  OlderLedger& operator=(const OlderLedger&) = delete;

  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  int refused() const { return refused_; }
  int answered() const { return answered_; }
  std::atomic<int> epoch{1};

 private:
  void serve() {
    while (true) {
      boost::asio::ip::tcp::socket socket(io_);
      acceptor_.accept(socket);
      if (is_over_) return;
      boost::system::error_code failed;
      std::string request;
      boost::asio::read_until(socket, boost::asio::dynamic_buffer(request), "\r\n\r\n", failed);
      if (failed) continue;
      const bool knows = request.find("after_epoch") == std::string::npos;
      const std::string body =
          knows ? R"({"epoch":)" + std::to_string(epoch) +
                      R"(,"epoch_time_ns":1000000000,"clusters":)"
                      R"([{"cluster":"acme","units":1000,"portals":["portal-1"]}]})"
                : R"({"error":"after_epoch is not known"})";
      (knows ? answered_ : refused_) += 1;
      const std::string answer = std::string(knows ? "HTTP/1.1 200 OK" : "HTTP/1.1 400 No") +
                                 "\r\nConnection: close\r\nContent-Type: application/json\r\n"
                                 "Content-Length: " +
                                 std::to_string(body.size()) + "\r\n\r\n" + body;
      boost::asio::write(socket, boost::asio::buffer(answer), failed);
    }
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> is_over_{false};
  std::atomic<int> refused_{0};
  std::atomic<int> answered_{0};
  std::thread thread_;
};

TEST_F(TwoProcesses, HearAnOlderLedgerThatDoesNotKnowHowToBeAskedForLess) {
  OlderLedger ledger;
  const auto worker = serve_file(
      dir / "worker.yaml",
      "listen: { resp: none, http: 127.0.0.1:0 }\ncompute: { worker: { name: w, ledger: '" +
          ledger.url() + "', poll: 20ms, max_age: 1h } }\nlimits: []\n");
  const std::string at = address_of(*worker);
  const auto shows = [&](const std::string& text) {
    return eventually([&] {
      return HttpClient(at).ask(get("/v1/compute/worker")).body.find(text) != std::string::npos;
    });
  };
  ASSERT_TRUE(shows(R"("epoch":1,)")) << worker->said();
  ledger.epoch = 2;
  EXPECT_TRUE(shows(R"("epoch":2,)")) << worker->said();
  EXPECT_TRUE(eventually([&] { return ledger.answered() >= 6; }));
  EXPECT_EQ(ledger.refused(), 1) << "it is asked so once";
  EXPECT_EQ(worker->said().find("event=outage"), std::string::npos) << worker->said();
}

TEST_F(TwoProcesses, RefuseEverybodyOnceAllocationsAreTooOld) {
  auto ledger = serve_file(dir / "ledger.yaml", ledger_config("127.0.0.1:0"));
  const std::string ledger_at = address_of(*ledger);
  HttpClient(ledger_at).ask(post("/v1/compute/workers", R"({"worker":"w"})"));
  HttpClient(ledger_at).ask(
      post("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-1"]})"));
  HttpClient(ledger_at).ask(post("/v1/compute/locks", lock_body(1'000'000)));
  HttpClient(ledger_at).ask(post("/v1/compute/blocks", R"({"block":2})"));
  const auto worker = serve_file(
      dir / "worker.yaml",
      "listen: { resp: none, http: 127.0.0.1:0 }\ncompute: { worker: { name: w, ledger: 'http://" +
          ledger_at + "', poll: 50ms, max_age: 200ms } }\nlimits: []\n");
  const std::string worker_at = address_of(*worker);
  const auto outcome = [&] {
    return HttpClient(worker_at)
        .ask(post("/v1/compute/queries", R"({"portal":"portal-1","dry_run":true})"))
        .body;
  };
  ASSERT_TRUE(eventually([&] { return outcome().find("accepted") != std::string::npos; }));
  ledger->signal(SIGKILL);
  ledger->wait();
  EXPECT_TRUE(eventually([&] { return outcome().find("stale") != std::string::npos; }))
      << outcome();
}

}  // namespace
}  // namespace weir::server
