// The routes below /v1/compute, without a socket and with a clock that stands still.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"
#include "weir/store/sqlite/ledger_store.h"
#include "weir/system/compute/feed.h"
#include "weir/wire/http/compute_json.h"
#include "weir/wire/http/compute_routes.h"

namespace weir::wire::http {
namespace {

namespace compute = system::compute;
using ::testing::HasSubstr;

struct ComputeDesk : Desk {
  ComputeDesk() : Desk(three_per_second()) {
    compute::LedgerSettings settings;
    settings.blocks = compute::BlockSource::kPushed;
    auto ledger = store::sqlite::LedgerStore::open(std::nullopt, settings, kTestStart);
    EXPECT_TRUE(ledger.ok());
    host.compute_in_force.ledger = std::move(*ledger);
    host.compute_in_force.desk = std::make_shared<AllocationDesk>(host.compute_in_force.ledger);
    host.compute_in_force.worker =
        std::make_shared<compute::SharedWorker>(std::in_place, compute::WorkerSettings{});
  }
  Answer push(std::int64_t block) {
    return post("/v1/compute/blocks", R"({"block":)" + std::to_string(block) + "}");
  }
  Answer lock(std::string_view wallet = "acme") {
    return post("/v1/compute/locks",
                R"({"wallet":")" + std::string(wallet) + R"(","tokens":"10000","duration":18000})");
  }
  // One token a second for portal-1.
  void allocate() {
    host.compute_in_force.worker->locked().apply(
        {.epoch = 1, .epoch_time = 60s, .clusters = {{"acme", {"portal-1"}, 60}}}, clock.now());
  }
  Answer query(std::string_view rest = "") {
    return post("/v1/compute/queries", R"({"portal":"portal-1")" + std::string(rest) + "}");
  }
};

TEST(ComputeRoutes, SayWhatToConfigureWhereThereIsNothing) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.get("/v1/compute/epochs").status, 404u);
  EXPECT_THAT(detail(desk.get("/v1/compute/epochs")), HasSubstr("this weir has no ledger"));
  EXPECT_THAT(detail(desk.get("/v1/compute/worker")), HasSubstr("this weir is no worker"));
}

TEST(ComputeRoutes, TakeALockFromItsBeginningToItsEnd) {
  ComputeDesk desk;
  const Answer locked = desk.lock();
  EXPECT_EQ(locked.status, 200u);
  EXPECT_EQ(locked.body,
            R"({"state":"done","tokens":"10000","amount":"10000000000000000000000","start":100,)"
            R"("end":18100,"total_units":"1800000"})");
  EXPECT_EQ(desk.post("/v1/compute/locks/unlock", R"({"wallet":"acme"})").status, 409u);
  desk.push(100);
  EXPECT_EQ(
      text_at(desk.post("/v1/compute/locks/add", R"({"wallet":"acme","tokens":"0.5"})"), "tokens"),
      "10000.5");
  EXPECT_EQ(text_at(desk.post("/v1/compute/locks/auto", R"({"wallet":"acme","auto":true})"), "end"),
            "null");
  EXPECT_EQ(
      text_at(desk.post("/v1/compute/locks/auto", R"({"wallet":"acme","auto":false})"), "end"),
      "18200");
  desk.push(18'200);
  EXPECT_EQ(text_at(desk.post("/v1/compute/locks/unlock", R"({"wallet":"acme"})"), "tokens"),
            "10000.5");
}

TEST(ComputeRoutes, TakeBackPortalsAndWorkers) {
  ComputeDesk desk;
  desk.lock();
  desk.push(100);
  const std::string_view portals = R"({"wallet":"acme","portals":["p1","p2"]})";
  EXPECT_EQ(desk.post("/v1/compute/portals", portals).status, 200u);
  EXPECT_EQ(text_at(desk.post("/v1/compute/portals/unregister", portals), "portals"), "0");
  EXPECT_EQ(desk.post("/v1/compute/workers", R"({"worker":"w1"})").status, 200u);
  desk.push(200);
  EXPECT_EQ(text_at(desk.post("/v1/compute/workers/leave", R"({"worker":"w1"})"), "active_until"),
            "300");
}

TEST(ComputeRoutes, AnswerAnOverloadWithAHintWhenToComeAgain) {
  ComputeDesk desk;
  desk.host.compute_in_force.worker = std::make_shared<compute::SharedWorker>(
      std::in_place, compute::WorkerSettings{.running = 1, .queue = 0});
  desk.allocate();
  desk.clock.advance(1s);
  EXPECT_EQ(desk.query().status, 200u);
  desk.clock.advance(1s);
  const Answer overloaded = desk.query();
  EXPECT_EQ(overloaded.status, 503u);
  EXPECT_EQ(text_at(overloaded, "outcome"), "overloaded");
  EXPECT_EQ(overloaded.headers, "Retry-After: 1\r\n");
}

TEST(ComputeRoutes, NameTheFaultAndChangeNothing) {
  ComputeDesk desk;
  const Answer refused =
      desk.post("/v1/compute/locks", R"({"wallet":"acme","tokens":"5","duration":100})");
  EXPECT_EQ(refused.status, 409u);
  EXPECT_EQ(refused.body,
            R"({"fault":"BELOW_MIN","detail":"amount is 5 tokens, but at least 10000 must be )"
            R"(locked; lock more"})");
  EXPECT_EQ(desk.get("/v1/compute/wallets?wallet=acme").status, 404u);
  desk.push(10);
  EXPECT_EQ(text_at(desk.push(9), "fault"), "BLOCK_WENT_BACK");
  EXPECT_EQ(text_at(desk.get("/v1/compute/epochs"), "block"), "10");
}

TEST(ComputeRoutes, RefuseBodiesThatAreNotAsTheyShouldBe) {
  ComputeDesk desk;
  for (const char* body :
       {R"({"wallet":"acme","tokens":"1","amount":"1","duration":1})",
        R"({"wallet":"acme","tokens":1,"duration":1})", R"({"wallet":"acme","tokens":"x"})",
        R"({"wallet":"acme","portals":["p"]})", R"({"duration":-1})", ""}) {
    EXPECT_EQ(desk.post("/v1/compute/locks", body).status, 400u) << body;
  }
  EXPECT_EQ(desk.post("/v1/compute/locks/auto", R"({"wallet":"acme"})").status, 400u);
  EXPECT_EQ(desk.post("/v1/compute/clusters/split", R"({"wallet":"acme"})").status, 400u);
  EXPECT_EQ(desk.ask("PUT", "/v1/compute/parameters", R"({"parameter":"manna"})").status, 400u);
  EXPECT_EQ(desk.post("/v1/compute/blocks", "{}").status, 400u);
  EXPECT_EQ(desk.get("/v1/compute/queries").status, 400u);
}

TEST(ComputeRoutes, DemandWhatWouldMeanSomethingElseIfItWereLeftOut) {
  ComputeDesk desk;
  desk.lock();
  desk.push(100);
  const auto trouble = [&](const char* target, const char* body) {
    const Answer answer = desk.post(target, body);
    EXPECT_EQ(answer.status, 400u) << body;
    return detail(answer);
  };
  EXPECT_THAT(trouble("/v1/compute/locks/add", R"({"wallet":"acme"})"),
              HasSubstr("the member 'tokens' is missing"));
  EXPECT_THAT(trouble("/v1/compute/locks", R"({"wallet":"b","duration":18000})"),
              HasSubstr("the member 'tokens' is missing"));
  EXPECT_THAT(trouble("/v1/compute/locks", R"({"wallet":"b","tokens":"10000"})"),
              HasSubstr("the member 'duration' is missing"));
  EXPECT_EQ(text_at(desk.get("/v1/compute/wallets?wallet=acme"), "start"), "100");
  EXPECT_EQ(
      text_at(desk.post("/v1/compute/locks/add", R"({"wallet":"acme","tokens":"0"})"), "start"),
      "200")
      << "renewed because it was asked for";
}

TEST(ComputeRoutes, SetAParameterOnlyToAValueThatIsGiven) {
  ComputeDesk desk;
  const auto set = [&](const char* body) {
    return desk.ask("PUT", "/v1/compute/parameters", body);
  };
  for (const char* body :
       {R"({"parameter":"mana"})", R"({"parameter":"mana","tokens":"20"})",
        R"({"parameter":"mana","value":20,"tokens":"20"})", R"({"parameter":"min_lock"})",
        R"({"parameter":"min_lock","value":20000})", R"({"parameter":"max_portals"})",
        R"({"value":7})"}) {
    EXPECT_EQ(set(body).status, 400u) << body;
  }
  EXPECT_THAT(detail(set(R"({"parameter":"mana","tokens":"20"})")),
              HasSubstr("'mana' has no member 'tokens'"));
  EXPECT_EQ(text_at(set(R"({"parameter":"max_portals","value":0})"), "fault"), "OUT_OF_RANGE");
  const Answer before = desk.get("/v1/compute/epochs");
  EXPECT_EQ(text_at(before, "mana"), "10");
  EXPECT_EQ(text_at(before, "min_lock"), "10000");
  EXPECT_EQ(text_at(before, "max_portals"), "10");
  EXPECT_EQ(set(R"({"parameter":"mana","value":20})").status, 200u);
  EXPECT_EQ(set(R"({"parameter":"min_lock","tokens":"20"})").status, 200u);
  EXPECT_EQ(text_at(desk.get("/v1/compute/epochs"), "mana"), "20");
  EXPECT_EQ(text_at(desk.get("/v1/compute/epochs"), "min_lock"), "20");
}

TEST(ComputeRoutes, SayWhyABlockCannotBePushed) {
  ComputeDesk desk;
  desk.push(1'000);
  EXPECT_THAT(detail(desk.push(999)), HasSubstr("blocks never go back"));
  const Answer far = desk.push(1'000 + compute::kPushAheadMax + 1);
  EXPECT_EQ(text_at(far, "fault"), "BLOCK_TOO_FAR");
  EXPECT_THAT(detail(far), HasSubstr("check the number"));
  auto by_time = store::sqlite::LedgerStore::open(std::nullopt, {}, kTestStart);
  desk.host.compute_in_force.ledger = std::move(*by_time);
  EXPECT_EQ(text_at(desk.push(5), "fault"), "BLOCKS_FOLLOW_TIME");
  EXPECT_THAT(detail(desk.push(5)), HasSubstr("write 'blocks: pushed'"));
}

TEST(ComputeRoutes, TakeAStakeThroughAPoolAndOut) {
  ComputeDesk desk;
  const auto post = [&](std::string_view path, std::string_view body) {
    return desk.post("/v1/compute/pools" + std::string(path), body);
  };
  EXPECT_EQ(post("", R"({"wallet":"owner","pool":"lake"})").body, R"({"state":"done"})");
  EXPECT_EQ(post("/stake", R"({"wallet":"anna","pool":"lake","tokens":"1200000"})").body,
            R"({"state":"done"})");
  EXPECT_EQ(text_at(desk.get("/v1/compute/wallets?wallet=owner"), "pool_units"), "100000");
  EXPECT_EQ(post("/exit", R"({"wallet":"anna","pool":"lake","tokens":"30"})").body,
            R"({"state":"done","tokens":"30","amount":"30000000000000000000","ticket":0,)"
            R"("place":"30000000000000000000"})");
  EXPECT_EQ(desk.get("/v1/compute/pools?pool=lake&wallet=anna").body,
            R"({"pool":"lake","owner":"owner","active":true,"tokens":"1200000",)"
            R"("amount":"1200000000000000000000000","units":100000,"stakes":1,)"
            R"("min_stake":"1000000","exit_rate":"12","requested":"30000000000000000000",)"
            R"("processed":"0","stake":{"wallet":"anna","tokens":"1200000",)"
            R"("amount":"1200000000000000000000000","leaving":"30","tickets":[{"ticket":0,)"
            R"("tokens":"30","amount":"30000000000000000000","place":"30000000000000000000",)"
            R"("ready":false,"wait_blocks":3}]}})");
  const std::string_view ticket = R"({"wallet":"anna","pool":"lake","ticket":0})";
  EXPECT_EQ(text_at(post("/withdraw", ticket), "fault"), "NOT_READY");
  // Slower from now on: the wait is told so at once, though the belt follows with the next exit.
  EXPECT_EQ(
      desk.ask("PUT", "/v1/compute/parameters", R"({"parameter":"exit_rate","tokens":"1"})").status,
      200u);
  EXPECT_THAT(desk.get("/v1/compute/pools?pool=lake&wallet=anna").body,
              HasSubstr(R"("wait_blocks":30)"));
  desk.push(3);
  EXPECT_EQ(text_at(post("/withdraw", ticket), "tokens"), "30");
  EXPECT_THAT(desk.get("/v1/compute/pools?pool=lake&wallet=anna").body,
              HasSubstr(R"("tickets":[])"));
  EXPECT_THAT(desk.get("/v1/compute/pools?pool=lake").body, HasSubstr(R"("stake":null)"));
  EXPECT_EQ(desk.get("/v1/compute/pools?pool=sea").status, 404u);
  EXPECT_EQ(desk.get("/v1/compute/pools").status, 400u);
  EXPECT_EQ(post("/withdraw", R"({"wallet":"anna","pool":"lake"})").status, 400u);
  EXPECT_EQ(post("/exit", R"({"wallet":"anna","pool":"lake"})").status, 400u);
}

TEST(ComputeRoutes, AnswerAnEventThatIsRepeatedAsBefore) {
  ComputeDesk desk;
  const std::string_view lock =
      R"({"wallet":"acme","tokens":"10000","duration":18000,"event":"0x5f-1","block":130})";
  const Answer first = desk.post("/v1/compute/locks", lock);
  EXPECT_EQ(text_at(first, "start"), "200");
  desk.push(1'000);
  EXPECT_EQ(desk.post("/v1/compute/locks", lock).body, first.body);
  EXPECT_EQ(text_at(desk.post("/v1/compute/locks/unlock", R"({"wallet":"acme","event":"0x5f-1"})"),
                    "fault"),
            "EVENT_TAKEN");
  EXPECT_EQ(desk.post("/v1/compute/locks/unlock", R"({"wallet":"acme","event":""})").status, 400u);
  EXPECT_THAT(desk.get("/v1/compute/history").body, HasSubstr(R"("event":"0x5f-1","block":130)"));
}

TEST(ComputeRoutes, ShowWhoHasNothingHereThoughItHasUnits) {
  ComputeDesk desk;
  EXPECT_THAT(desk.get("/v1/compute/worker").body, HasSubstr(R"("broken":[])"));
  desk.host.compute_in_force.feed.broken = {{"acme", compute::Fault::kStrategyFailed}};
  EXPECT_THAT(desk.get("/v1/compute/worker").body,
              HasSubstr(R"("broken":[{"cluster":"acme","fault":"STRATEGY_FAILED"}])"));
}

std::string tag_of(const Answer& answer) {
  constexpr std::string_view kName = "ETag: ";
  EXPECT_THAT(answer.headers, ::testing::StartsWith(kName));
  EXPECT_THAT(answer.headers, ::testing::EndsWith("\r\n"));
  return answer.headers.substr(kName.size(), answer.headers.size() - kName.size() - 2);
}

struct FollowedLedger : ComputeDesk {
  FollowedLedger() {
    post("/v1/compute/workers", R"({"worker":"w1"})");
    post("/v1/compute/workers", R"({"worker":"w2"})");
    post("/v1/compute/portals", R"({"wallet":"acme","portals":["p\"1","p2"]})");
    lock();
    push(150);
  }
  Answer of(std::string_view worker, std::string_view rest = "") {
    return get("/v1/compute/allocations?worker=" + std::string(worker) + std::string(rest));
  }
  // What is not there to be read: nothing, but for the tag.
  void expect_unchanged(const Answer& answer) {
    EXPECT_EQ(answer.status, 304u);
    EXPECT_EQ(answer.body, "");
    EXPECT_EQ(answer.content_type, "");
  }
};

TEST(ComputeAllocations, AreNotSentAgainToWhoHasThem) {
  FollowedLedger desk;
  const Answer first = desk.of("w1");
  EXPECT_EQ(first.status, 200u);
  EXPECT_EQ(first.body,
            R"({"worker":"w1","block":150,"epoch":2,"epoch_time_ns":1200000000000,"clusters":)"
            R"([{"cluster":"acme","units":5000,"portals":["p\"1","p2"]}],"fault":"","broken":[]})");
  desk.if_none_match = tag_of(first);
  const Answer again = desk.of("w1");
  desk.expect_unchanged(again);
  EXPECT_EQ(tag_of(again), desk.if_none_match);
  desk.push(199);
  desk.expect_unchanged(desk.of("w1"));
  desk.if_none_match = "\"other\", W/" + desk.if_none_match;
  desk.expect_unchanged(desk.of("w1"));
  desk.push(200);
  const Answer next = desk.of("w1");
  EXPECT_EQ(text_at(next, "epoch"), "3");
  EXPECT_EQ(desk.if_none_match.find(tag_of(next)), std::string::npos);
}

// Every push measures the epoch anew.
TEST(ComputeAllocations, AreNotSentAgainWhereBlocksComeFasterOrSlower) {
  FollowedLedger desk;
  for (std::int64_t block = 160; block <= 300; block += 10) {
    desk.clock.advance(std::chrono::seconds{10 * 12});
    desk.push(block);
  }
  const Answer first = desk.of("w1");
  EXPECT_EQ(text_at(first, "epoch_time_ns"), "1200000000000");
  desk.if_none_match = tag_of(first);
  for (std::int64_t block = 310; block < 400; block += 10) {
    desk.clock.advance(std::chrono::seconds{10 * 12 + block});
    desk.push(block);
    desk.expect_unchanged(desk.of("w1"));
  }
  // What changes inside the epoch is told with the epoch's own time.
  desk.post("/v1/compute/portals", R"({"wallet":"acme","portals":["p3"]})");
  EXPECT_EQ(text_at(desk.of("w1"), "epoch_time_ns"), "1200000000000");
  desk.push(400);
  EXPECT_GT(std::stoll(text_at(desk.of("w1"), "epoch_time_ns")), 1'300'000'000'000);
}

TEST(ComputeAllocations, AreSentAgainWhenTheyChangeInsideAnEpoch) {
  FollowedLedger desk;
  desk.if_none_match = tag_of(desk.of("w1"));
  desk.post("/v1/compute/portals", R"({"wallet":"acme","portals":["p3"]})");
  EXPECT_THAT(desk.of("w1").body, HasSubstr(R"("portals":["p\"1","p2","p3"])"));
  desk.if_none_match = tag_of(desk.of("w1"));
  desk.expect_unchanged(desk.of("w1"));
  // Changes that are not in it: a wallet without units, a worker of the next epoch.
  desk.post("/v1/compute/portals", R"({"wallet":"other","portals":["q1"]})");
  desk.post("/v1/compute/workers", R"({"worker":"w3"})");
  desk.expect_unchanged(desk.of("w1"));
  desk.post("/v1/compute/clusters/split",
            R"({"wallet":"acme","strategy":"shares","workers":[1],"basis_points":[2500]})");
  EXPECT_EQ(desk.of("w1").status, 200u);
  EXPECT_THAT(desk.of("w1").body, HasSubstr(R"("units":2500)"));
  EXPECT_THAT(desk.of("w2").body, HasSubstr(R"("clusters":[])"));
}

TEST(ComputeAllocations, EndInsideAnEpochThoughNobodyChangesTheLedger) {
  FollowedLedger desk;
  desk.post("/v1/compute/locks", R"({"wallet":"brief","tokens":"10000","duration":130})");
  desk.push(200);
  EXPECT_THAT(desk.of("w2").body, HasSubstr("brief"));
  desk.push(329);  // the lock ends at 330, in the next epoch
  desk.if_none_match = tag_of(desk.of("w1"));
  desk.expect_unchanged(desk.of("w1"));
  desk.push(330);
  const Answer ended = desk.of("w1");
  EXPECT_EQ(ended.status, 200u);
  EXPECT_THAT(ended.body, ::testing::Not(HasSubstr("brief")));
}

TEST(ComputeAllocations, OfTheSameEpochAreOnlyTheEpochToWhoNamesIt) {
  FollowedLedger desk;
  desk.expect_unchanged(desk.of("w1", "&after_epoch=2"));
  desk.post("/v1/compute/portals", R"({"wallet":"acme","portals":["p3"]})");
  desk.expect_unchanged(desk.of("w1", "&after_epoch=2"));
  EXPECT_EQ(desk.host.compute_in_force.desk->snapshots().taken(), 0u) << "nothing was worked out";
  EXPECT_EQ(desk.of("w1", "&after_epoch=1").status, 200u);
  EXPECT_EQ(desk.of("w1", "&after_epoch=3").status, 200u) << "that was another ledger";
  EXPECT_EQ(desk.get("/v1/compute/allocations?worker=w1&after_epoch=x").status, 400u);
}

TEST(ComputeAllocations, AreWorkedOutOnceForAllWorkers) {
  FollowedLedger desk;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(desk.of("w1").status, 200u);
    EXPECT_EQ(desk.of("w2").status, 200u);
    EXPECT_EQ(text_at(desk.of("nobody"), "fault"), "NOT_ACTIVE");
  }
  EXPECT_EQ(desk.host.compute_in_force.desk->snapshots().taken(), 1u);
  desk.push(200);
  desk.of("w1");
  desk.of("w2");
  EXPECT_EQ(desk.host.compute_in_force.desk->snapshots().taken(), 2u);
}

TEST(ComputeRoutes, ShowWhatAWorkerHas) {
  ComputeDesk desk;
  desk.post("/v1/compute/workers", R"({"worker":"w1"})");
  desk.post("/v1/compute/workers", R"({"worker":"w2"})");
  desk.post("/v1/compute/portals", R"({"wallet":"acme","portals":["portal-1"]})");
  desk.lock();
  EXPECT_EQ(text_at(desk.get("/v1/compute/allocations?worker=w1"), "fault"), "NO_WORKERS");
  desk.push(150);
  const Answer shown = desk.get("/v1/compute/allocations?worker=w1");
  EXPECT_EQ(shown.body,
            R"({"worker":"w1","block":150,"epoch":2,"epoch_time_ns":1200000000000,"clusters":)"
            R"([{"cluster":"acme","units":5000,"portals":["portal-1"]}],"fault":"","broken":[]})");
  const auto read = read_allocations(shown.body);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->set.clusters[0].units, 5'000);
  desk.post("/v1/compute/clusters/split",
            R"({"wallet":"acme","strategy":"shares","workers":[2],"basis_points":[10000]})");
  EXPECT_EQ(text_at(desk.get("/v1/compute/allocations?worker=w1"), "clusters"), "[]");
  EXPECT_THAT(desk.get("/v1/compute/allocations?worker=w1&epoch=2").body, HasSubstr("5000"))
      << "as it was when that epoch began";
  EXPECT_EQ(desk.get("/v1/compute/allocations?worker=w1&epoch=3").status, 404u);
  EXPECT_EQ(text_at(desk.get("/v1/compute/wallets?wallet=acme"), "strategy"), "shares");
}

TEST(ComputeRoutes, ShowTheLedgerAndItsHistory) {
  ComputeDesk desk;
  desk.host.name = "alice";
  desk.lock();
  desk.post("/v1/compute/workers", R"({"worker":"w1"})");
  EXPECT_THAT(desk.get("/v1/compute/history?wallet=acme").body,
              HasSubstr(R"("block":0,"by":"alice","operation":{"op":"lock","wallet":"acme")"));
  EXPECT_EQ(text_at(desk.get("/v1/compute/history?after=2"), "history"), "[]");
  EXPECT_EQ(desk.get("/v1/compute/workers").body,
            R"({"workers":[{"id":1,"worker":"w1","active":false,"active_from":100,)"
            R"("active_until":null}]})");
  EXPECT_THAT(desk.get("/v1/compute/clusters").body, HasSubstr(R"("next":null)"));
  EXPECT_EQ(text_at(desk.ask("PUT", "/v1/compute/parameters",
                             R"({"parameter":"epoch_length","value":50})"),
                    "next_epoch"),
            "100");
}

TEST(ComputeRoutes, AdmitQueriesUntilTheBucketIsEmpty) {
  ComputeDesk desk;
  EXPECT_EQ(desk.query().status, 403u);
  desk.allocate();
  desk.pass(1s);
  const Answer accepted = desk.query(R"(,"blocks":[0,30],"chunk":[0,100])");
  EXPECT_EQ(accepted.status, 200u);
  EXPECT_EQ(text_at(accepted, "state"), "running");
  EXPECT_EQ(text_at(accepted, "retry_after_ms"), "1000");
  desk.clock.advance(1ns);
  const Answer limited = desk.query();
  EXPECT_EQ(limited.status, 429u);
  EXPECT_EQ(text_at(limited, "outcome"), "rate_limited");
  EXPECT_EQ(text_at(limited, "cause"), "bucket_empty");
  EXPECT_EQ(text_at(limited, "retry_after_ms"), "1000") << "rounded up";
  EXPECT_THAT(limited.headers, HasSubstr("Retry-After: 1\r\n"));

  const std::string id = text_at(accepted, "query");
  EXPECT_EQ(text_at(desk.get("/v1/compute/queries?query=" + id), "state"), "running");
  const std::string end = R"({"query":")" + id + R"("})";
  const Answer done = desk.post("/v1/compute/queries/complete", end);
  EXPECT_EQ(text_at(done, "tokens_micro"), "700000");
  EXPECT_EQ(desk.post("/v1/compute/queries/complete", end).status, 404u);
  EXPECT_EQ(text_at(desk.get("/v1/compute/queries?query=" + id), "state"), "gone");
}

TEST(ComputeRoutes, TellWhatWouldBeForNothing) {
  ComputeDesk desk;
  desk.allocate();
  desk.pass(1s);
  EXPECT_EQ(text_at(desk.query(R"(,"dry_run":true)"), "outcome"), "accepted");
  EXPECT_EQ(text_at(desk.get("/v1/compute/worker?portal=portal-1"), "tokens_micro"), "1000000");
  EXPECT_EQ(text_at(desk.get("/v1/compute/worker"), "running"), "0");
  EXPECT_EQ(desk.get("/v1/compute/worker?portal=px").status, 404u);
}

TEST(ComputeRoutes, GiveTheTokenOfACancelledQueryBack) {
  ComputeDesk desk;
  desk.allocate();
  desk.pass(1s);
  const std::string id = text_at(desk.query(), "query");
  EXPECT_EQ(text_at(desk.post("/v1/compute/queries/cancel", R"({"query":")" + id + R"("})"),
                    "tokens_micro"),
            "1000000");
}

TEST(ComputeRoutes, KnowNoQueryByAnIdThatSomebodyWorkedOut) {
  ComputeDesk desk;
  desk.allocate();
  desk.pass(2s);
  const std::string id = text_at(desk.query(), "query");
  const std::string other = text_at(desk.query(), "query");
  const auto number = [](const std::string& text) { return text.substr(17); };
  ASSERT_NE(id.substr(0, 16), other.substr(0, 16));
  // The word of one with the number of the other.
  const std::string forged = id.substr(0, 17) + number(other);
  const std::string body = R"({"query":")" + forged + R"("})";
  EXPECT_EQ(text_at(desk.get("/v1/compute/queries?query=" + forged), "state"), "gone");
  EXPECT_EQ(desk.post("/v1/compute/queries/complete", body).status, 404u);
  EXPECT_EQ(desk.post("/v1/compute/queries/cancel", body).status, 404u);
  EXPECT_EQ(text_at(desk.get("/v1/compute/queries?query=" + other), "state"), "running");
  for (const std::string& text : {number(id), id + "s", std::string("x"), std::string("0")}) {
    EXPECT_EQ(desk.get("/v1/compute/queries?query=" + text).status, text == id + "s" ? 200u : 400u)
        << text;
  }
  EXPECT_EQ(desk.post("/v1/compute/queries/cancel", R"({"query":48})").status, 400u);
  EXPECT_EQ(desk.post("/v1/compute/queries/cancel", "{}").status, 400u);
}

TEST(ComputeRoutes, RefuseQueriesThatAreNotAsTheyShouldBe) {
  ComputeDesk desk;
  desk.allocate();
  for (const char* body : {"{}", R"({"portal":""})", R"({"portal":"p","blocks":[0,1]})",
                           R"({"portal":"p","chunk":[0,1],"blocks":[0,1],"cost":"0.5"})",
                           R"({"portal":"p","chunk":[1,0],"blocks":[0,1]})",
                           R"({"portal":"p","cost":"1.5"})", R"({"portal":"p","cost":"-1"})"}) {
    EXPECT_EQ(desk.post("/v1/compute/queries", body).status, 400u) << body;
  }
}

TEST(Allocations, AreRefusedUnlessTheySayHowLongAnEpochLasts) {
  EXPECT_FALSE(read_allocations("{}").ok());
  EXPECT_FALSE(read_allocations("").ok());
  EXPECT_FALSE(read_allocations(R"({"epoch":1,"epoch_time_ns":0,"clusters":[]})").ok());
  EXPECT_TRUE(read_allocations(R"({"epoch":1,"epoch_time_ns":5,"clusters":[]})").ok());
}

// Found by fuzz_compute: another name was written than had been read.
TEST(Allocations, AreRefusedUnlessTheyAreUtf8) {
  const auto read =
      read_allocations("{\"epoch_time_ns\":5,\"clusters\":[{\"cluster\":\"\xa7me\"}]}");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message,
              HasSubstr("the allocations: byte 44 is 0xa7, which is not UTF-8 there"));
}

TEST(Allocations, NameEveryClusterAndPortalOnce) {
  const auto trouble = [](const char* rows) {
    const auto read =
        read_allocations(std::string(R"({"epoch_time_ns":5,"clusters":[)") + rows + "]}");
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(trouble(R"({"cluster":"a","portals":["p"]},{"cluster":"b","portals":["q"]})"), "");
  EXPECT_THAT(trouble(R"({"cluster":"a"},{"cluster":"a"})"),
              HasSubstr("cluster 'a' is there twice"));
  EXPECT_THAT(trouble(R"({"cluster":"a","portals":["p"]},{"cluster":"b","portals":["p"]})"),
              HasSubstr("portal 'p' is there twice"));
}

TEST(Allocations, AreReadBackWithTheirFaults) {
  AllocationsDocument document{.worker = "w"};
  document.set.epoch_time = 1s;
  document.fault = compute::Fault::kNoWorkers;
  document.broken = {{"acme", compute::Fault::kNoSuchStrategy}};
  std::string text;
  append_allocations(text, document);
  const auto read = read_allocations(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->fault, compute::Fault::kNoWorkers);
  EXPECT_EQ(read->broken, document.broken);
  EXPECT_EQ(read_allocations(R"({"epoch_time_ns":5,"fault":"NEW"})")->fault,
            compute::Fault::kNotActive);
}

}  // namespace
}  // namespace weir::wire::http
