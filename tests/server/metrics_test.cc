#include "weir/server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/server/http_client.h"
#include "weir/server/systems.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string contents(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Without which some metrics are not there.
constexpr const char* kSystems = "throttles: { file: " WEIR_SOURCE_DIR
                                 "/examples/throttles.json }\ncompute: {}\n"
                                 "redis: { url: 'unix:///nobody/listens/here' }\n";

constexpr const char* kSampling =
    "sampling: { environments: [ { name: E, rotation_count: 0, sampling_count: 48 } ] }\n";

// Nobody listens there: what is told of outages is there all the same.
constexpr const char* kPools =
    "pools: { models: [ { name: m, concurrent: 1 } ], job_types: [ { name: t } ], coordinator: "
    "'redis://127.0.0.1:1' }\n";

constexpr std::string_view kLeased =
    "  - { name: hot, per: [tenant], window: { limit: 9, every: 1d }, store: redis, lease: {} }\n";

struct Metrics : HttpTest {
  // Settings with which the server has everything to tell; `sync` is of an account.
  std::string everything(const std::string& sync = "") const {
    return kSystems + std::string(kSampling) + kPools +
           std::string(
               "contracts: [ { name: provider, policies: [ { type: REQUESTS, capacity: 5, period: "
               "PT1M } ]") +
           sync + " } ]\nstate: { dir: '" + (dir / "state").string() + "' }\n";
  }
  // The account follows the server itself, whose address is known once it is there.
  void serve_everything() {
    const std::string limits = std::string(kServerLimits) + std::string(kLeased);
    serve(everything(), limits);
    write(kListen + everything(", sync: { url: 'http://" + address() + "' }") + limits);
    ASSERT_TRUE(server->reload("test"));
    ASSERT_TRUE(eventually([this] {
      return metrics().find("weir_sync_age_seconds{account=\"provider\",of=\"counts\"}") !=
             std::string::npos;
    }));
  }
  std::string metrics() { return ask(get("/metrics")).body; }
  // Of the server and of its systems.
  std::vector<MetricRow> every_row() const {
    std::vector<MetricRow> rows(metric_rows().begin(), metric_rows().end());
    for (const auto& system : server->systems()) {
      for (const MetricRow& row : system->metric_rows()) rows.push_back(row);
    }
    return rows;
  }
};

TEST_F(Metrics, CountWhatEachLimitDecided) {
  serve("", R"(
limits:
  - { name: two, per: [client], window: { limit: 2, every: 10000d } }
  - { name: "shy \"one\"", window: { limit: 1, every: 10000d }, shadow: true }
  - { name: running, per: [worker], slots: { limit: 1, queue: 0, hold: 60s } }
)");
  for (int i = 0; i < 3; ++i) ask(post("/v1/acquire", kAcme));
  ask(post("/v1/acquire", R"({"attributes":{"client":"b"},"costs":{"requests":3}})"));
  ask(post("/v1/peek", kAcme));
  ask(post("/v1/acquire", kSlot));
  ask(post("/v1/acquire", kPatient));  // the queue has no room
  const std::string text = metrics();
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"two\",outcome=\"allowed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"two\",outcome=\"denied\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"two\",outcome=\"never\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("weir_decisions_total{limit=\"shy \\\"one\\\"\",outcome=\"allowed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_shadow_denials_total{limit=\"shy \\\"one\\\"\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"running\",outcome=\"allowed\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("weir_decisions_total{limit=\"running\",outcome=\"overloaded\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_holds 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("acme"))) << "nothing is labelled by key";
}

TEST_F(Metrics, CountSettlementsThatWereClipped) {
  serve("", "limits: [ { name: two, window: { limit: 2, every: 10000d }, overage: 3 } ]\n");
  const std::string body = ask(post("/v1/acquire", R"({"attributes":{},"hold":"60s"})")).body;
  const std::size_t at = body.find("\"hold\":\"") + 8;
  const std::string hold = body.substr(at, body.find('"', at) - at);
  EXPECT_THAT(metrics(), HasSubstr("weir_overage_clipped_total{limit=\"two\"} 0\n"));
  EXPECT_EQ(ask(post("/v1/settle", R"({"hold":")" + hold + R"(","costs":{"requests":9}})")).status,
            200);
  EXPECT_THAT(metrics(), HasSubstr("weir_overage_clipped_total{limit=\"two\"} 1\n"));
}

TEST_F(Metrics, CountBatchesAndWaitsOnce) {
  serve();
  ask(post("/v1/batch",
           R"({"requests":[{"attributes":{"client":"a"}},{"attributes":{"client":"a"}}]})"));
  const std::string hold = take_slot();
  HttpClient waiting(address());
  waiting.send(post("/v1/acquire", kPatient));
  ASSERT_TRUE(someone_waits());
  EXPECT_THAT(metrics(), HasSubstr("weir_waiting 1\n"));
  ask(post("/v1/settle", R"({"hold":")" + hold + R"("})"));
  EXPECT_EQ(waiting.read().status, 200);
  const std::string text = metrics();
  EXPECT_THAT(text,
              HasSubstr("weir_decisions_total{limit=\"per-client\",outcome=\"allowed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"running\",outcome=\"allowed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"running\",outcome=\"denied\"} 0\n"));
}

TEST_F(Metrics, KeepTheirCountsWhenTheRulesChange) {
  serve();
  ask(post("/v1/acquire", kAcme));
  write(std::string(kListen) +
        "limits: [ { name: another, window: { limit: 9, every: 10000d } },\n"
        "          { name: per-client, per: [client], window: { limit: 9, every: 10000d } } ]\n");
  ask(post("/v1/reload", ""));
  write("limits: [ { name: broken } ]\n");
  ask(post("/v1/reload", ""));
  ask(post("/v1/acquire", kAcme));
  const std::string text = metrics();
  EXPECT_THAT(text,
              HasSubstr("weir_decisions_total{limit=\"per-client\",outcome=\"allowed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weir_decisions_total{limit=\"another\",outcome=\"allowed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_reloads_total{result=\"done\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_reloads_total{result=\"failed\"} 1\n"));
}

TEST_F(Metrics, CountConnectionsRequestsAndBytesOfBothProtocols) {
  start("listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\nbounds: { connections: 2 }\n");
  Client resp(server->addresses()[0]);
  resp.ask("PING\r\nPING\r\n", 14);
  resp.ask("CL.THROTTLE k 0 1 60\r\n", 20);
  resp.ask("CL.THROTTLE k 0 1 60\r\n", 20);
  HttpClient http(server->addresses()[1]);
  http.ask(get("/healthz"));
  http.ask(get("/nowhere"));
  HttpClient(server->addresses()[1]).read();  // one too many
  const std::string text = http.ask(get("/metrics")).body;
  EXPECT_THAT(text, HasSubstr("weir_connections{protocol=\"resp\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_connections{protocol=\"http\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_connections_refused_total 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_requests_total{protocol=\"resp\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("weir_requests_total{protocol=\"http\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weir_http_answers_total{route=\"healthz\",status=\"2xx\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_http_answers_total{route=\"none\",status=\"4xx\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_throttle_decisions_total{outcome=\"allowed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_throttle_decisions_total{outcome=\"denied\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_received_bytes_total{protocol=\"resp\"} 56\n"));
}

TEST_F(Metrics, AreReadByAnIndependentParser) {
  serve_everything();
  ask(post("/v1/acquire", kAcme));
  const std::string file = dir / "metrics";
  std::ofstream(file) << metrics();
  const Ran ran =
      run("/usr/bin/python3 -c \"\n"
          "from prometheus_client.parser import text_string_to_metric_families\n"
          "text = open('" +
          file +
          "').read()\n"
          "for family in text_string_to_metric_families(text):\n"
          "    assert family.documentation and family.samples, family.name\n"
          "    assert family.type in ('counter', 'gauge', 'histogram'), family.name\n"
          "    print(family.name)\n\" | wc -l");
  EXPECT_EQ(ran.output, std::to_string(every_row().size()) + "\n");
}

TEST_F(Metrics, AreThoseOfTheReferencePage) {
  serve_everything();
  ask(get("/healthz"));
  const std::string page =
      contents(std::filesystem::path(WEIR_SOURCE_DIR) / "docs/reference/metrics.md");
  const std::string text = metrics();
  std::size_t documented = 0;
  for (std::size_t at = page.find("\n| `weir_"); at != std::string::npos;
       at = page.find("\n| `weir_", at + 1)) {
    ++documented;
  }
  EXPECT_EQ(documented, every_row().size());
  for (const MetricRow& row : every_row()) {
    std::string line = "| `" + std::string(row.name) + "` | " + std::string(row.type) + " | " +
                       std::string(row.labels) + " | " + std::string(row.help) + " |\n";
    EXPECT_THAT(page, HasSubstr(line));
    EXPECT_THAT(text, HasSubstr("# TYPE " + std::string(row.name) + " "));
  }
}

TEST(BatchTimes, FallIntoTheBucketThatHoldsThem) {
  BatchTimes times;
  times.add(Duration{10'000});
  times.add(Duration{10'001});
  times.add(Duration{1'000'000'000});
  EXPECT_EQ(times.buckets[0].value(), 1u);
  EXPECT_EQ(times.buckets[1].value(), 1u);
  EXPECT_EQ(times.buckets[BatchTimes::kBoundsNs.size()].value(), 1u);
  EXPECT_EQ(times.sum_ns.value(), 1'000'020'001u);
}

}  // namespace
}  // namespace weir::server
