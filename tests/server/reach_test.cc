// A token that is bound, at every door.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/server/http_client.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kBoundTokens = R"(auth:
  - { token: boss-boss-boss-boss, role: admin }
  - { token: acme-acme-acme-acme, role: decide, only: { client: [acme, acme-*] }, keys: ['acme:*'] }
  - { token: part-part-part-part, role: decide, portals: [p-1], hotkeys: [h-1], uids: ['7'], accounts: [team-a],
      job_types: [chat], payers: ['7'] }
)";
constexpr std::string_view kAllSystems = R"(
contracts:
  - { name: team-a, policies: [ { type: REQUESTS, capacity: 10, period: PT1S } ] }
  - { name: team-b, policies: [ { type: REQUESTS, capacity: 10, period: PT1S } ] }
sampling: { environments: [ { name: E, rotation_count: 0, sampling_count: 60 } ] }
pools:
  models: [ { name: m, concurrent: 4 } ]
  job_types: [ { name: chat, tokens: 1, requests: 1 }, { name: mail, tokens: 1, requests: 1 } ]
compute:
  ledger: { blocks: pushed, block_time: 1s, epoch: 2, first_epoch: 0 }
  worker: { mode: immediate }
)";
constexpr std::string_view kThreeLimits = R"(
limits:
  - { name: per-client, per: [client], window: { limit: 5, every: 10000d } }
  - { name: running, per: [client], when: { kind: [job] }, slots: { limit: 1, queue: 4, hold: 60s } }
  - { name: all, window: { limit: 1000, every: 10000d } }
)";

struct ReachTest : ServerTest {
  void serve(std::string_view tokens = kBoundTokens, std::string_view systems = "") {
    start(configuration(tokens, systems), kThreeLimits);
  }
  static std::string configuration(std::string_view tokens, std::string_view systems) {
    return "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\n" + std::string(tokens) +
           std::string(systems);
  }
  // `who`: the first letters of a token, four times.
  static std::string token_of(std::string_view who) {
    return std::string(who) + "-" + std::string(who) + "-" + std::string(who) + "-" +
           std::string(who);
  }
  HttpAnswer http(std::string_view who, std::string_view method, std::string_view target,
                  std::string_view body = "", const std::string& fields = "") const {
    const std::string bearer = "Authorization: Bearer " + token_of(who) + "\r\n" + fields;
    return HttpClient(server->addresses()[1])
        .ask(method == "GET" ? get(target, bearer) : with_body(method, target, body, bearer));
  }
  // The first line of the reply.
  std::string resp(std::string_view who, std::string_view command) const {
    Client client(server->addresses()[0]);
    EXPECT_EQ(client.ask("AUTH " + token_of(who) + "\r\n", 5), "+OK\r\n");
    return client.ask_until(std::string(command) + "\r\n", "\r\n");
  }
  std::string left() const {
    const std::string body = http("boss", "GET", "/v1/meters?limit=all").body;
    const std::size_t at = body.find("\"remaining\":") + 12;
    return body.substr(at, body.find(',', at) - at);
  }
};

TEST_F(ReachTest, OfADecisionIsCheckedByEveryDoor) {
  serve();
  const auto ask = [](std::string_view client) {
    return R"({"attributes":{"client":")" + std::string(client) + R"("}})";
  };
  EXPECT_EQ(http("acme", "POST", "/v1/acquire", ask("acme-1")).status, 200);
  EXPECT_EQ(http("acme", "POST", "/v1/peek", ask("acme")).status, 200);
  EXPECT_EQ(http("acme", "GET", "/v1/authorize", "", "Weir-Attribute-client: acme\r\n").status,
            200);
  EXPECT_THAT(resp("acme", "WEIR.ACQUIRE client=acme"), StartsWith("*12"));
  EXPECT_THAT(resp("acme", "WEIR.PEEK client=acme"), StartsWith("*12"));
  EXPECT_THAT(resp("acme", "CL.THROTTLE acme:1 1 1 60"), StartsWith("*5"));
  EXPECT_THAT(resp("acme", "WEIR.INSPECT per-client client=acme"), StartsWith("*8"));
  EXPECT_EQ(http("acme", "GET", "/v1/meters?limit=per-client&key=acme").status, 200);
  ASSERT_EQ(left(), "997");

  const std::string outside = http("acme", "POST", "/v1/acquire", ask("other")).body;
  EXPECT_THAT(outside, HasSubstr("\"type\":\"urn:weir:forbidden\""));
  EXPECT_THAT(outside, HasSubstr("client is 'other', which this token is not for"));
  EXPECT_EQ(http("acme", "POST", "/v1/acquire", "{}").status, 403);
  EXPECT_EQ(http("acme", "POST", "/v1/peek", ask("other")).status, 403);
  EXPECT_EQ(http("acme", "GET", "/v1/authorize", "", "Weir-Attribute-client: other\r\n").status,
            403);
  EXPECT_EQ(http("acme", "GET", "/v1/authorize").status, 403);
  EXPECT_THAT(resp("acme", "WEIR.ACQUIRE client=other"), StartsWith("-NOPERM client"));
  EXPECT_THAT(resp("acme", "WEIR.ACQUIRE"), StartsWith("-NOPERM"));
  EXPECT_THAT(resp("acme", "WEIR.PEEK client=other"), StartsWith("-NOPERM"));
  EXPECT_THAT(resp("acme", "CL.THROTTLE other:1 1 1 60"), StartsWith("-NOPERM key is 'other:1'"));
  EXPECT_THAT(resp("acme", "WEIR.INSPECT per-client client=other"), StartsWith("-NOPERM"));
  EXPECT_THAT(resp("acme", "WEIR.INSPECT all"), StartsWith("-NOPERM"));
  EXPECT_THAT(resp("acme", "WEIR.HEAVIEST per-client"), StartsWith("-NOPERM WEIR.HEAVIEST is not"));
  EXPECT_EQ(http("acme", "GET", "/v1/meters?limit=per-client&key=other").status, 403);
  EXPECT_EQ(http("acme", "GET", "/v1/meters?limit=all").status, 403);
  EXPECT_EQ(http("acme", "GET", "/v1/meters?limit=per-client&heaviest=3").status, 403);
  for (const std::string_view route : {"/v1/limits", "/v1/events", "/metrics"}) {
    EXPECT_EQ(http("acme", "GET", route).status, 403) << route;
  }
  EXPECT_EQ(left(), "997") << "what was refused took something";
}

TEST_F(ReachTest, OfABatchIsCheckedForEachOfItsRequests) {
  serve();
  const std::string said =
      http("acme", "POST", "/v1/batch",
           R"({"requests":[{"attributes":{"client":"acme"}},{"attributes":{"client":"other"}},)"
           R"({"attributes":{"client":"acme-2"}}]})")
          .body;
  const std::size_t first = said.find("\"verdict\":\"allowed\"");
  const std::size_t refused = said.find("urn:weir:forbidden");
  const std::size_t last = said.rfind("\"verdict\":\"allowed\"");
  EXPECT_TRUE(first < refused && refused < last) << said;
  EXPECT_EQ(left(), "998");
  Client client(server->addresses()[0]);
  client.send("AUTH acme-acme-acme-acme\r\n");
  ASSERT_EQ(client.receive(5), "+OK\r\n");
  const std::string pipelined = client.ask_until(
      "WEIR.ACQUIRE client=acme\r\nWEIR.ACQUIRE client=other\r\nWEIR.ACQUIRE "
      "client=acme\r\nPING\r\n",
      "+PONG\r\n");
  EXPECT_LT(pipelined.find("allowed"), pipelined.find("-NOPERM")) << pipelined;
  EXPECT_LT(pipelined.find("-NOPERM"), pipelined.rfind("allowed")) << pipelined;
  EXPECT_EQ(left(), "996");
  const std::string transaction = client.ask_until(
      "MULTI\r\nWEIR.ACQUIRE client=acme\r\nWEIR.ACQUIRE client=other\r\nEXEC\r\nECHO end\r\n",
      "end\r\n");
  EXPECT_THAT(transaction, HasSubstr("-NOPERM client is 'other'"));
  EXPECT_EQ(left(), "995");
}

// Each has a call that is refused by the identity, and one that is answered.
TEST_F(ReachTest, OfASystemIsCheckedByItsRoutes) {
  serve(kBoundTokens, kAllSystems);
  const auto grant = [](std::string_view hotkey) {
    return R"({"hotkey":")" + std::string(hotkey) +
           R"(","revision":"r","environment":"E","uid":7,"want":1})";
  };
  const auto job = [](std::string_view type) {
    return R"({"type":")" + std::string(type) + R"("})";
  };
  struct Pair {
    std::string method, target, body;
    std::string other_target, other_body;
  };
  const std::map<std::string, Pair> doors = {
      {"contract_reserve",
       {"POST", "/v1/contract/team-a/reserve", R"({"requests":1})", "/v1/contract/team-b/reserve",
        R"({"requests":1})"}},
      {"contract_consume",
       {"POST", "/v1/contract/team-a/consume", R"({"requests":1})", "/v1/contract/team-b/consume",
        R"({"requests":1})"}},
      {"contract", {"GET", "/v1/contract/team-a", "", "/v1/contract/team-b", ""}},
      {"sampling_grant",
       {"POST", "/v1/sampling/grant", grant("h-1"), "/v1/sampling/grant", grant("h-2")}},
      {"pool_acquire", {"POST", "/v1/pool/acquire", job("chat"), "/v1/pool/acquire", job("mail")}},
  };
  for (const auto& [name, door] : doors) {
    EXPECT_EQ(http("part", door.method, door.target, door.body).status, 200) << name;
    const HttpAnswer other = http("part", door.method, door.other_target, door.other_body);
    EXPECT_EQ(other.status, 403) << name << ' ' << other.body;
    EXPECT_THAT(other.body, HasSubstr("which this token is not for")) << name;
  }
  // A portal without units is refused by the worker, and another one before.
  EXPECT_THAT(http("part", "POST", "/v1/compute/queries", R"({"portal":"p-1"})").body,
              HasSubstr("no_allocation"));
  EXPECT_EQ(http("part", "POST", "/v1/compute/queries", R"({"portal":"p-2"})").status, 403);
  EXPECT_EQ(http("part", "GET", "/v1/compute/worker").status, 403);
  EXPECT_EQ(http("part", "GET", "/v1/compute/worker?portal=p-1").status, 404);
  EXPECT_EQ(http("part", "GET", "/v1/compute/worker?portal=p-2").status, 403);
  EXPECT_THAT(resp("part", "WEIR.POOL.ACQUIRE mail WAIT 0s"), StartsWith("-NOPERM job_type"));
  // A limit of a system is a door to it, too.
  EXPECT_EQ(http("part", "POST", "/v1/acquire", R"({"attributes":{"portal":"p-2"}})").status, 403);
  EXPECT_EQ(
      http("acme", "POST", "/v1/acquire", R"({"attributes":{"client":"acme","portal":"p-1"}})")
          .status,
      403);
  // A token of a client alone has no business with any system.
  for (const auto& [name, door] : doors) {
    EXPECT_EQ(http("acme", door.method, door.target, door.body).status, 403) << name;
  }
  EXPECT_EQ(http("boss", "GET", "/v1/contract/team-b").status, 200);
  // Some uids are exempt, so a miner cannot be another one.
  for (const std::string uid : {"0", "8"}) {
    EXPECT_EQ(
        http("part", "POST", "/v1/sampling/grant",
             R"({"hotkey":"h-1","revision":"r","environment":"E","uid":)" + uid + R"(,"want":1})")
            .status,
        403)
        << uid;
  }
}

// The end of a query makes room for another, whose id is not told.
TEST_F(ReachTest, OfAPortalIsNotTheQueryThatStartsNext) {
  std::string systems(kAllSystems);
  systems.replace(systems.find("{ mode: immediate }"), 19, "{ mode: immediate, running: 1 }");
  serve(kBoundTokens, systems);
  for (const std::string portal : {"p-1", "p-2"}) {
    EXPECT_EQ(http("boss", "POST", "/v1/compute/portals",
                   R"({"wallet":"w-)" + portal + R"(","portals":[")" + portal + R"("]})")
                  .status,
              200);
    EXPECT_EQ(http("boss", "POST", "/v1/compute/locks",
                   R"({"wallet":"w-)" + portal + R"(","tokens":"1000000","duration":1000})")
                  .status,
              200);
  }
  EXPECT_EQ(http("boss", "POST", "/v1/compute/blocks", R"({"block":2})").status, 200);
  const auto ask = [&](const std::string& who, const std::string& portal) {
    return http(who, "POST", "/v1/compute/queries", R"({"portal":")" + portal + R"("})");
  };
  HttpAnswer runs;
  ASSERT_TRUE(eventually([&] { return (runs = ask("part", "p-1")).status == 200; })) << runs.body;
  HttpAnswer queued;
  ASSERT_TRUE(eventually([&] { return (queued = ask("boss", "p-2")).status == 200; }))
      << queued.body;
  const auto id_in = [](const std::string& body) {
    const std::size_t at = body.find("\"query\":\"") + 9;
    return body.substr(at, body.find('"', at) - at);
  };
  const HttpAnswer ended = http("part", "POST", "/v1/compute/queries/complete",
                                R"({"query":")" + id_in(runs.body) + R"("})");
  EXPECT_EQ(ended.status, 200) << ended.body;
  EXPECT_THAT(ended.body, HasSubstr("\"started\":null"));
  EXPECT_THAT(http("boss", "GET", "/v1/compute/queries?query=" + id_in(queued.body)).body,
              HasSubstr("running"));
}

// A route or command that says nothing of bounds refuses; so nothing new is a door unawares.
TEST_F(ReachTest, OfEverythingElseIsNothing) {
  serve(kBoundTokens, kAllSystems);
  const std::string listed = http("boss", "GET", "/openapi.json").body;
  int refused = 0;
  for (const std::string_view route :
       {"/v1/compute/clusters", "/v1/compute/workers", "/v1/compute/epochs",
        "/v1/compute/allocations?worker=w", "/v1/compute/history?wallet=w", "/v1/pool",
        "/v1/pool/allocation", "/aux/ratelimit/contract",
        "/aux/ratelimit/statistics/tokenCounts/u1"}) {
    const HttpAnswer said = http("part", "GET", route);
    EXPECT_EQ(said.status, 403) << route << ' ' << said.body;
    EXPECT_THAT(said.body, HasSubstr("is not for a token that is bound"));
    ++refused;
  }
  EXPECT_EQ(refused, 9);
  EXPECT_EQ(http("part", "GET", "/openapi.json").body, listed);
  EXPECT_EQ(http("part", "GET", "/healthz").status, 200);
}

TEST_F(ReachTest, ThatChangesEndsWhatWaits) {
  serve();
  Client first(server->addresses()[0]);
  EXPECT_EQ(first.ask("AUTH acme-acme-acme-acme\r\n", 5), "+OK\r\n");
  first.ask_until("WEIR.ACQUIRE client=acme kind=job HOLD 60s\r\n", "allowed");
  Client waits(server->addresses()[0]);
  EXPECT_EQ(waits.ask("AUTH acme-acme-acme-acme\r\n", 5), "+OK\r\n");
  waits.send("WEIR.ACQUIRE client=acme kind=job HOLD 60s WAIT 60s\r\n");
  HttpClient waits_too(server->addresses()[1]);
  waits_too.send(post("/v1/acquire",
                      R"({"attributes":{"client":"acme","kind":"job"},"hold":"60s","wait":"60s"})",
                      "Authorization: Bearer acme-acme-acme-acme\r\n"));
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 2; }));
  std::string tokens(kBoundTokens);
  tokens.replace(tokens.find("[acme, acme-*]"), 14, "[beta]");
  write(configuration(tokens, "") + std::string(kThreeLimits));
  ASSERT_TRUE(server->reload().ok());
  EXPECT_THAT(waits.receive_until("\r\n"), StartsWith("-NOPERM this token may not ask for it"));
  EXPECT_EQ(waits_too.read().status, 403);
  EXPECT_THAT(resp("acme", "WEIR.ACQUIRE client=acme"), StartsWith("-NOPERM"));
  EXPECT_THAT(resp("acme", "WEIR.ACQUIRE client=beta"), StartsWith("*12"));
}

}  // namespace
}  // namespace weir::server
