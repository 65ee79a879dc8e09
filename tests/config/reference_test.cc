// The reference page: its example loads, and its table of keys is the one in the code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/config/support.h"

namespace weir::config {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(WEIR_SOURCE_DIR "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string page() { return contents("docs/reference/config.md"); }

// What stands between the line that starts with `begin` and `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find('\n', text.find(begin)) + 1;
  return text.substr(from, text.find(end, from) - from);
}

std::string key_table() {
  std::string table = "| in | key | write | meaning |\n|---|---|---|---|\n";
  for (const KeyHelp& key : known_keys()) {
    table += "| " + std::string(key.map) + " | `" + std::string(key.name) + "` | `" +
             std::string(key.form) + "` | " + std::string(key.help) +
             (key.is_required ? " Needed." : "") + " |\n";
  }
  return table;
}

TEST(ReferencePage, HasTheTableOfKeysThatTheCodeHas) {
  EXPECT_EQ(between(page(), "<!-- keys:", "<!-- end of keys -->"), key_table());
}

TEST(ReferencePage, HasAnExampleWithEveryKeyOfTheTopLevelAndOfLimits) {
  const std::string example = between(page(), "```yaml", "```");
  for (const KeyHelp& key : known_keys()) {
    if (key.map == "top level" || key.map == "limits") {
      EXPECT_THAT(example, ::testing::HasSubstr(std::string(key.name) + ":"));
    }
  }
}

TEST(ReferencePage, ShowsTheDefaultOfEachBound) {
  std::string bounds = "bounds:\n";
  for (const KeyHelp& key : known_keys()) {
    if (key.map == "bounds") {
      bounds += "  " + std::string(key.name) + ": " + std::string(key.form) + "\n";
    }
  }
  EXPECT_THAT(bounds, ::testing::HasSubstr("when_full"));
  EXPECT_EQ(config_of(bounds).bounds, Bounds{});
}

TEST(ReferencePage, HasAnExampleThatLoads) {
  const Config config = config_of(between(page(), "```yaml", "```"), contents);
  EXPECT_EQ(
      describe(config),
      "limit per-client: bucket 100 every 1s, burst 200; per client; unit requests\n"
      "limit writes: bucket 1000 every 1s, burst 1000; one meter for all; when method is "
      "put or post; weigh method: put 1, post 5; unit requests; exempt if client is "
      "internal-*; shadow\n"
      "limit monthly-units: bucket 400000 every 31d, burst 2500.5; per client; unit "
      "processing_units\n"
      "limit daily: window 10000 every 1d; per client; unit requests; in Redis, outage local\n"
      "limit hot: bucket 50000 every 1s, burst 50000; per tenant; unit requests; in Redis, outage "
      "deny; leased for 1s, at most 500 to a server\n"
      "limit monthly: window 5000000 every calendar month; per client; unit tokens; may owe "
      "20000\n"
      "limit hourly: log 6 in any 1h; per miner, env; unit requests; 50 may wait; at most "
      "100000 keys\n"
      "limit ticks: ticker 1 at ticks of 10ms, burst 5, starts empty; per worker; unit "
      "requests\n"
      "limit running: slots 32 at once, 16 may wait, held 1m; per worker; unit requests\n"
      "limit provider: gate; one meter for all; when provider is acme; unit requests\n"
      "limit team: bucket 500 every 1s, burst 500; per team; unit requests; parent writes\n"
      "limit throttles: gate; one meter for all; unit requests\n"
      "limit compute: gate; one meter for all; unit requests\n"
      "limit sampling: gate; one meter for all; unit requests\n"
      "throttles: examples/throttles.json with 4 buckets, 31 nodes; gas 15000000 a second, "
      "15000000 at consensus\n"
      "contract acme of user u-1547: PU_1000_PT1M, PU_400000_PT744H, RQ_1000_PT1M; guard, "
      "jitter 100ms; joint reservation; held 10m; at most 1h; Retry-After in milliseconds\n"
      "compute ledger: at least 10000 tokens, mana 10, epochs of 100 blocks of 12 s\n"
      "compute worker: worker-1, 32 at once, 16 may wait, allocations from its own ledger\n"
      "sampling: tasks of one key in any 1h\n"
      "  LGC-v2: 6\n"
      "redis: redis://localhost:6379, keys of weir, timeout 20ms, a connection for each thread\n"
      "pools: in this process alone, strict rule; held 10m, at most 1h\n"
      "  model gpt-5: tokens_per_minute 500000, concurrent 50\n"
      "  job type summary: 1 of each pool, about 10000 tokens and 1 requests\n"
      "  escalation: gpt-5\n"
      "listen resp: 127.0.0.1:6380\n"
      "listen http: 127.0.0.1:8080, unix:/run/weir.sock (mode 0660, group weir)\n"
      "http origins: https://dash.example\n"
      "http hosts: weir.internal\n"
      "state: ./weir-state, flushed every 200ms\n"
      "auth: admin (operations), decide\n"
      "units: tokens (whole), processing_units (micro), gas (whole), bytes (whole), nfts (whole), "
      "creations (whole), associations (whole), compute_units (micro)\n"
      "attributes: region, operation, payer, high_volume, portal, hotkey, revision, environment, "
      "uid\n"
      "headers: ietf; rounding: cell; threads: 2\n"
      "record: ./decisions.rec\n"
      "bounds: 10000 connections, 65536 bytes a request, 8192 of headers, 1048576 of replies, "
      "268435456 of all replies, 1000 in a batch, 10000 waiting, 100 streams; idle 5m, slow 10s; "
      "10000000 keys, a fair share of them for CL.THROTTLE, one more is refused; 1000000 holds, "
      "16000000 log runs, 65536 overrides; held at most 1d, waiting 10m, booked 1d ahead\n");
  EXPECT_EQ(config.rules->rules().size(), 14u);
}

TEST(Examples, WithThrottlesLoad) {
  const Config config = config_of(contents("examples/throttles/weir.yaml"), contents);
  ASSERT_TRUE(config.throttles.has_value());
  EXPECT_EQ(config.throttles->spec.nodes, 31);
  EXPECT_TRUE(config.throttles->spec.settings.throttle_by_gas);
  EXPECT_EQ(config.rules->rules().size(), 2u);
}

TEST(Examples, WithSamplingLoad) {
  const Config config = config_of(contents("examples/sampling/weir.yaml"), contents);
  ASSERT_TRUE(config.sampling.has_value());
  EXPECT_EQ(config.sampling->spec.environments.size(), 4u);
  EXPECT_EQ(config.rules->rules().size(), 1u);
}

TEST(Examples, WithPoolsLoadAndMayShareTheirLimits) {
  const Config one = config_of(contents("examples/pool/one.yaml"), contents);
  const Config two = config_of(contents("examples/pool/two.yaml"), contents);
  ASSERT_TRUE(one.pools && two.pools && one.pools->redis && two.pools->redis);
  EXPECT_EQ(one.pools->redis->address, two.pools->redis->address);
  EXPECT_EQ(one.pools->redis->prefix, two.pools->redis->prefix);
  EXPECT_NE(one.pools->redis->instance, two.pools->redis->instance);
  EXPECT_EQ(registration_of(one.pools->settings), registration_of(two.pools->settings));
}

TEST(Examples, WithContractsLoad) {
  const Config config = config_of(contents("examples/contracts/weir.yaml"), contents);
  ASSERT_EQ(config.contracts.size(), 2u);
  EXPECT_EQ(config.contracts[0].policies.size(), 3u);
  EXPECT_EQ(policy_id(config.contracts[0].policies[2]), "RQ_900_PT1M");
  EXPECT_EQ(config.rules->find("provider")->gate_name, contract_gate("acme"));
}

TEST(Examples, WithAServiceAndItsGuardLoad) {
  const Config service = config_of(contents("examples/follow/service.yaml"), contents);
  ASSERT_EQ(service.contracts.size(), 1u);
  EXPECT_EQ(service.contracts[0].options.role, system::contract::AccountRole::kService);
  EXPECT_EQ(service.auth.size(), 2u);
  const Config guard = config_of(contents("examples/follow/guard.yaml"), contents);
  ASSERT_EQ(guard.contracts.size(), 1u);
  ASSERT_TRUE(guard.contracts[0].sync.has_value());
  EXPECT_EQ(guard.contracts[0].user_id, service.contracts[0].user_id);
  EXPECT_EQ(guard.contracts[0].sync->service.url, "http://" + service.http.at(0).text());
  // What the comments of the service tell to type, is let in.
  const std::string text = contents("examples/follow/service.yaml");
  for (const auto& token : service.auth) {
    EXPECT_THAT(text, ::testing::HasSubstr("-H 'Authorization: Bearer " + token.token + "'"));
  }
}

TEST(Examples, WithSharedLimitsLoad) {
  const Config config = config_of(contents("examples/shared/weir.yaml"), contents);
  ASSERT_TRUE(config.redis.has_value());
  EXPECT_EQ(config.redis->address.port, 6379);
  EXPECT_TRUE(config.rules->find("per-client")->shared.has_value());
  EXPECT_FALSE(config.rules->find("here")->shared.has_value());
}

TEST(Examples, WithComputeLoad) {
  const Config config = config_of(contents("examples/compute/weir.yaml"), contents);
  ASSERT_TRUE(config.compute && config.compute->ledger && config.compute->worker);
  EXPECT_EQ(config.compute->ledger->parameters.clock.length, 2);
}

TEST(ReferencePage, ShowsTheMistakesThatAFileReallyHas) {
  const std::string lines = repeated("#\n", 12) + "limits: [ { name: uploads,\n" +
                            "  bucket:   { rate: 1/0s,\n    brust: 1 } } ]\n";
  const Result<Config> config = parse(lines, "weir.yaml");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(page(), ::testing::HasSubstr("```\n" + config.error().message + "\n```"));
}

}  // namespace
}  // namespace weir::config
