// End to end: a weir that acts as the service, another that guards its workers and
// follows it over /aux, and 50 workers that ask both over sockets, at once.
//
// Time is the test's own: it moves on when every worker waits, so that workers are late
// by exactly what they are told to be, however slow the machine is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/http_client.h"
#include "weir/system/contract/accounts.h"
#include "weir/testing/manual_clock.h"
#include "weir/wire/http/contract_routes.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

constexpr int kWorkers = 50;
constexpr int kRequestsEach = 4;
constexpr int kLargeWorkers = 10;  // whose requests cost a quarter of all units
constexpr Duration kRefresh = 5s;
constexpr Instant kStart{1'800'000'000'000'000'000};  // 2027

// The time that workers wait in.
class SharedTime {
 public:
  SharedTime(testing::ManualClock& clock, int workers) : clock_(clock), busy_(workers) {}

  void wait_until(Instant at) {
    std::unique_lock lock(lock_);
    waits_.insert(at);
    --busy_;
    move_on();
    moved_.wait(lock, [&] { return clock_.now() >= at; });
  }
  // The worker waits no more.
  void leave() {
    const std::scoped_lock lock(lock_);
    --busy_;
    move_on();
  }

 private:
  void move_on() {
    if (busy_ > 0 || waits_.empty()) return;
    clock_.set(later_of(clock_.now(), *waits_.begin()));
    while (!waits_.empty() && *waits_.begin() <= clock_.now()) {
      waits_.erase(waits_.begin());
      ++busy_;
    }
    moved_.notify_all();
  }

  testing::ManualClock& clock_;
  std::mutex lock_;
  std::condition_variable moved_;
  std::multiset<Instant> waits_;
  int busy_;
};

std::string member(const std::string& body, const std::string& name) {
  const std::size_t at = body.find("\"" + name + "\":");
  if (at == std::string::npos) return "(missing)";
  const std::size_t begin = at + name.size() + 3;
  if (body[begin] == '"') return body.substr(begin + 1, body.find('"', begin + 1) - begin - 1);
  return body.substr(begin, body.find_first_of(",}]", begin) - begin);
}

struct GuardTest : ServerTest {
  GuardTest() { ::setenv("no_proxy", "*", 1); }
  ~GuardTest() override { guard.reset(); }

  std::unique_ptr<Server> begin(const std::string& text) {
    auto config = config::parse(text, "weir.yaml");
    EXPECT_TRUE(config) << config.error().message;
    auto started = Server::start(std::move(*config), manual);
    EXPECT_TRUE(started) << started.error().message;
    return std::move(*started);
  }
  void begin_both(const std::string& rule) {
    const std::string listen = "listen: { resp: none, http: 127.0.0.1:0 }\ncontracts:\n";
    server = begin(listen +
                   "  - { name: acme, user_id: u1, role: service, policies: [ { type: REQUESTS, "
                   "capacity: 20, period: PT10S }, { type: PROCESSING_UNITS, capacity: 200, "
                   "period: PT10S } ] }\n");
    // It has no policies of its own: all it knows it has fetched.
    guard = begin(listen + "  - { name: acme, user_id: u1, rule: " + rule +
                  ", jitter: 100ms, sync: { url: 'http://" + server->addresses()[0] +
                  "', refresh: 5s, timeout: 1m } }\n");
    ASSERT_TRUE(eventually([&] { return guard_account()->view(kStart).refreshed_at.has_value(); }));
    ASSERT_EQ(guard_account()->policies(), service_account()->policies());
  }
  std::shared_ptr<system::contract::Account> guard_account() const {
    return *in_force<wire::http::ContractPart>(*guard)->find("acme");
  }
  std::shared_ptr<system::contract::Account> service_account() const {
    return *in_force<wire::http::ContractPart>(*server)->find("acme");
  }

  bool is_fresh() {
    const auto followed = guard_account()->view(manual.now()).followed;
    return followed && followed->counts_at && *followed->counts_at + kRefresh > manual.now();
  }

  // Asks the guard, starts when it is told or up to `late` after, asks again if it is
  // refused, and works for a while if it is not.
  void work(int number, Duration late, SharedTime& time) {
    std::mt19937_64 random(static_cast<std::uint64_t>(number));
    const auto up_to = [&](Duration most) {
      return Duration{
          static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(most.count()) + 1))};
    };
    HttpClient to_guard(guard->addresses()[0]);
    HttpClient to_service(server->addresses()[0]);
    const std::string costs =
        number < kLargeWorkers ? R"({"processing_units":50})" : R"({"processing_units":0})";
    // Those who want much come first, as in the worst of herds.
    if (number >= kLargeWorkers) time.wait_until(kStart + 1ms);
    for (int done = 0; done < kRequestsEach;) {
      const HttpAnswer told = to_guard.ask(post("/v1/contract/acme/reserve", costs));
      if (told.status != 200) {
        ADD_FAILURE() << told.status << told.body;
        break;
      }
      time.wait_until(Instant{std::stoll(member(told.body, "start_ns"))} + up_to(late));
      const HttpAnswer answer = to_service.ask(post("/v1/contract/acme/consume", costs));
      const std::string reservation = member(told.body, "reservation");
      if (answer.status == 429) {
        ++refusals;
        if (reservation != "null") {
          to_guard.ask(post("/v1/contract/acme/feedback", R"({"reservation":")" + reservation +
                                                              R"(","retry_after":)" +
                                                              answer.field("Retry-After") + "}"));
        }
        continue;
      }
      if (answer.status != 200) {
        ADD_FAILURE() << answer.status << answer.body;
        break;
      }
      ++done;
      ++taken;
      // Time stands still until what is due has been fetched, while others are at work.
      if (number == 0) {
        EXPECT_TRUE(eventually([&] { return is_fresh(); }));
      }
      time.wait_until(manual.now() + up_to(200ms));
      if (reservation == "null") continue;
      const HttpAnswer committed = to_guard.ask(
          post("/v1/contract/acme/commit", R"({"reservation":")" + reservation + R"("})"));
      EXPECT_EQ(committed.status, 200) << committed.body;
    }
    time.leave();
  }
  void let_them_work(Duration late) {
    SharedTime time(manual, kWorkers);
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorkers; ++i) {
      workers.emplace_back([&, i] { work(i, late, time); });
    }
    for (std::thread& worker : workers) worker.join();
  }

  testing::ManualClock manual{kStart};
  std::unique_ptr<Server> guard;  // `server` is the service
  std::atomic<int> taken{0};
  std::atomic<int> refusals{0};
};

TEST_F(GuardTest, LetsNoWorkerMeetARefusalThoughWorkersAreLate) {
  begin_both("reservation");
  let_them_work(100ms);
  EXPECT_EQ(taken.load(), kWorkers * kRequestsEach);
  EXPECT_EQ(refusals.load(), 0);
  EXPECT_EQ(service_account()->view(manual.now()).refused, 0u);
  EXPECT_EQ(guard_account()->view(manual.now()).outstanding, 0u);
  EXPECT_GT(guard_account()->view(manual.now()).followed->fetches, 2u) << "and it has refreshed";
  std::string why;
  EXPECT_TRUE(guard->readiness().ready(why)) << why;
}

TEST_F(GuardTest, ShowsTheHerdThatThePublishedRuleMakes) {
  begin_both("published");
  let_them_work(0ms);
  EXPECT_EQ(taken.load(), kWorkers * kRequestsEach);
  // At 1 ms the guard has promised 40 starts for when the units are there again, at 15 s; the
  // service has 20 requests to give then.
  EXPECT_GE(refusals.load(), 20);
}

}  // namespace
}  // namespace weir::server
