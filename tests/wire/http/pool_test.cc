// The routes below /v1/pool, without a socket and with a clock that stands still.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/wire/http/support.h"
#include "weir/base/hold_text.h"
#include "weir/base/keyed_word.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/system/pool/local_coordinator.h"
#include "weir/wire/http/pool_json.h"

namespace weir::wire::http {
namespace {

namespace pool = system::pool;
using ::testing::HasSubstr;
using ::testing::Not;

pool::PoolsSettings two_models() {
  pool::PoolsSettings settings;
  settings.models = {{.name = "big",
                      .limits = {{.tokens_per_minute = 2'500, .requests_per_minute = 100}, 8},
                      .pricing = {1, 0.5, 10}},
                     {.name = "small", .limits = {{.tokens_per_minute = 1'000}, 8}}};
  settings.escalation = {"big", "small"};
  settings.types = {{.name = "summary", .tokens = 1'000, .requests = 1}};
  return settings;
}

// The name of the job with this number.
std::string job_name(std::uint64_t number) {
  return hold_text({owned_word(0xc0ffee, number), number});
}

struct PoolDesk : Desk {
  explicit PoolDesk(pool::PoolsSettings settings = two_models()) : Desk(three_per_second()) {
    auto pools = pool::Pools::create(
        std::move(settings),
        std::make_unique<pool::LocalCoordinator>(std::make_shared<pool::LocalFleet>()));
    EXPECT_TRUE(pools.ok()) << (pools ? "" : pools.error().message);
    jobs = std::make_unique<pool::HeldJobs>(std::move(*pools), pool::HoldSettings{}, 0xc0ffee);
    jobs->pools().start(clock.now(), [](Instant, const Status& status) {
      EXPECT_TRUE(status.ok()) << (status ? "" : status.error().message);
    });
    host.pool_in_force = jobs.get();
  }
  Answer ask_for(std::string_view rest = R"(,"wait":0)") {
    return post("/v1/pool/acquire", R"({"type":"summary")" + std::string(rest) + "}");
  }
  Answer release(const std::string& job, std::string_view rest) {
    return post("/v1/pool/release", R"({"job":")" + job + "\"," + std::string(rest) + "}");
  }
  // A job that used its estimate: the model's name.
  std::string use() {
    const Answer started = ask_for();
    EXPECT_EQ(release(text_at(started, "job"), R"("input_tokens":1000)").status, 200u);
    return text_at(started, "model");
  }
  // Of a route that asks the coordinator.
  Answer shown(std::string_view target) {
    get(target);
    EXPECT_TRUE(waiting);
    EXPECT_FALSE(later.empty());
    Answer answer = later.back();
    later.pop_back();
    return answer;
  }
  void pass(Duration span) {
    clock.advance(span);
    jobs->pools().advance(clock.now());
  }

  std::unique_ptr<pool::HeldJobs> jobs;
};

TEST(PoolRoutes, SayWhatToConfigureWhereThereAreNone) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/pool/acquire", R"({"type":"a"})").status, 404u);
  EXPECT_THAT(detail(desk.get("/v1/pool")), HasSubstr("pools: none are configured"));
}

TEST(PoolRoutes, StartAJobAndSettleItWithWhatItUsed) {
  PoolDesk desk;
  const Answer started = desk.ask_for();
  EXPECT_EQ(started.status, 200u);
  EXPECT_EQ(started.body,
            R"({"verdict":"allowed","job":")" + job_name(1) +
                R"(","model":"big","attempt":1,)"
                R"("estimate":{"tokens":1000,"requests":1},"waited_ms":0,"windows":{)"
                R"("minute":{"begins":"2027-01-15T08:00:00.000000000Z",)"
                R"("ends":"2027-01-15T08:01:00.000000000Z",)"
                R"("tokens":{"limit":2500,"used":1000,"remaining":1500},)"
                R"("requests":{"limit":100,"used":1,"remaining":99}},)"
                R"("day":{"begins":"2027-01-15T00:00:00.000000000Z",)"
                R"("ends":"2027-01-16T00:00:00.000000000Z",)"
                R"("tokens":{"limit":null,"used":1000,"remaining":null},)"
                R"("requests":{"limit":null,"used":1,"remaining":null}}},)"
                R"("expires":"2027-01-15T08:10:00.000000000Z","expires_in_ms":600000})");
  EXPECT_EQ(started.headers,
            "x-ratelimit-limit-requests: 100\r\nx-ratelimit-remaining-requests: 99\r\n"
            "x-ratelimit-reset-requests: 1m0s\r\n"
            "x-ratelimit-limit-tokens: 2500\r\nx-ratelimit-remaining-tokens: 1500\r\n"
            "x-ratelimit-reset-tokens: 1m0s\r\n");
  const Answer ended = desk.release(text_at(started, "job"),
                                    R"("requests":1,"input_tokens":400,"output_tokens":100)");
  EXPECT_EQ(ended.status, 200u);
  EXPECT_EQ(ended.body,
            R"({"state":"settled","cost":0.0014,"overage":{"tokens":0,"requests":0},)"
            R"("attempts":[{"model":"big","requests":1,"input_tokens":400,"output_tokens":100,)"
            R"("cached_tokens":0,"cost":0.0014}]})");
  // Half of the estimate has come back.
  EXPECT_THAT(desk.ask_for().headers, HasSubstr("x-ratelimit-remaining-tokens: 1000\r\n"));
}

TEST(PoolRoutes, EscalateAndThenRefuseWithTheTimeToComeBack) {
  PoolDesk desk;
  desk.pass(20s);
  EXPECT_EQ(desk.use(), "big");
  EXPECT_EQ(desk.use(), "big");
  EXPECT_EQ(desk.use(), "small");
  const Answer refused = desk.ask_for();
  EXPECT_EQ(refused.status, 429u);
  EXPECT_EQ(text_at(refused, "verdict"), "denied");
  EXPECT_EQ(text_at(refused, "reason"), "all_models_exhausted");
  EXPECT_EQ(text_at(refused, "dimension"), "tokens_per_minute");
  EXPECT_EQ(text_at(refused, "earliest"), "2027-01-15T08:01:00.000000000Z");
  EXPECT_EQ(text_at(refused, "retry_after_ms"), "40000");
  EXPECT_EQ(refused.headers,
            "Retry-After: 40\r\nx-ratelimit-limit-tokens: 1000\r\n"
            "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 40s\r\n");
  desk.pass(40s);
  EXPECT_EQ(desk.ask_for().status, 200u);
}

TEST(PoolRoutes, LetWaitUntilTheWindowTurns) {
  PoolDesk desk;
  for (int i = 0; i < 3; ++i) desk.use();
  desk.ask_for(R"(,"wait":"2m")");
  EXPECT_TRUE(desk.waiting);
  desk.pass(59s);
  EXPECT_TRUE(desk.later.empty());
  desk.pass(1s);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 200u);
  EXPECT_EQ(text_at(desk.later[0], "waited_ms"), "60000");
}

TEST(PoolRoutes, GiveThePlaceOfAWaiterBackThatWentAway) {
  PoolDesk desk;
  for (int i = 0; i < 3; ++i) desk.ask_for();
  const Answer waits = desk.ask_for(R"(,"wait":"2m")");
  ASSERT_TRUE(desk.waiting);
  EXPECT_TRUE(waits.give_up(desk.clock.now()));
  EXPECT_FALSE(waits.give_up(desk.clock.now()));
  desk.pass(60s);
  EXPECT_TRUE(desk.later.empty());
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).jobs, 3u);
}

TEST(PoolRoutes, GiveBackAGrantThatNobodyIsThereToTake) {
  PoolDesk desk;
  for (int i = 0; i < 3; ++i) desk.use();
  desk.ask_for(R"(,"wait":"2m")");
  desk.pass(60s);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).jobs, 1u);
  desk.later[0].discard(desk.clock.now());
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).jobs, 0u);
  EXPECT_THAT(desk.ask_for().headers, HasSubstr("x-ratelimit-remaining-tokens: 1500\r\n"));
}

TEST(PoolRoutes, EndAJobWhoseClientNeverDoesAndKeepItsEstimate) {
  PoolDesk desk;
  const Answer started = desk.ask_for(R"(,"wait":0,"hold":"30s")");
  desk.pass(30s - 1ns);
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).models[0].tally.expired, 0u);
  desk.pass(1ns);
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).models[0].tally.expired, 1u);
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).models[0].in_flight, 0);
  const Answer late = desk.release(text_at(started, "job"), R"("requests":1)");
  EXPECT_EQ(late.status, 404u);
  EXPECT_THAT(desk.ask_for().headers, HasSubstr("x-ratelimit-remaining-tokens: 500\r\n"));
}

TEST(PoolRoutes, LetAJobRunLonger) {
  PoolDesk desk;
  const std::string job = text_at(desk.ask_for(R"(,"wait":0,"hold":"30s")"), "job");
  desk.pass(29s);
  const Answer renewed = desk.post("/v1/pool/renew", R"({"job":")" + job + R"(","hold":"2m"})");
  EXPECT_EQ(renewed.status, 200u) << renewed.body;
  EXPECT_THAT(renewed.body, HasSubstr(R"("state":"active")"));
  EXPECT_THAT(renewed.body, HasSubstr(R"("expires_in_ms":120000)"));
  desk.pass(119s);
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).models[0].tally.expired, 0u);
  EXPECT_EQ(desk.post("/v1/pool/renew", R"({"job":")" + job + R"("})").status, 200u);
  EXPECT_EQ(desk.release(job, R"("requests":1)").status, 200u);
  EXPECT_EQ(desk.post("/v1/pool/renew", R"({"job":")" + job + R"("})").status, 404u);
  EXPECT_THAT(detail(desk.post("/v1/pool/renew", R"({"hold":"2m"})")), HasSubstr("job is missing"));
  EXPECT_EQ(desk.post("/v1/pool/renew", R"({"job":")" + job + R"(","hold":"2h"})").status, 400u);
}

TEST(PoolRoutes, DelegateToTheNextModelUnderTheSameName) {
  PoolDesk desk;
  const std::string job = text_at(desk.ask_for(), "job");
  const Answer next = desk.release(job, R"("input_tokens":10,"delegate":true)");
  EXPECT_EQ(next.status, 200u);
  EXPECT_EQ(text_at(next, "job"), job);
  EXPECT_EQ(text_at(next, "model"), "small");
  EXPECT_EQ(text_at(next, "attempt"), "2");
  const Answer ended = desk.release(job, R"("requests":1)");
  EXPECT_THAT(ended.body, HasSubstr(R"("model":"big","requests":1,"input_tokens":10,)"));
  EXPECT_THAT(ended.body, HasSubstr(R"({"model":"small","requests":1,"input_tokens":0,)"));
}

TEST(PoolRoutes, RefuseToDelegateTooOften) {
  pool::PoolsSettings settings = two_models();
  settings.delegations_max = 1;
  PoolDesk desk(std::move(settings));
  const std::string job = text_at(desk.ask_for(), "job");
  constexpr std::string_view kOn = R"("input_tokens":10,"delegate":true)";
  EXPECT_EQ(desk.release(job, kOn).status, 200u);
  const Answer refused = desk.release(job, kOn);
  EXPECT_EQ(refused.status, 422u);
  EXPECT_EQ(text_at(refused, "reason"), "too_many_delegations");
}

TEST(PoolRoutes, TakeAFailureWithAndWithoutUsageAndARejection) {
  PoolDesk desk;
  EXPECT_EQ(text_at(desk.release(text_at(desk.ask_for(), "job"), R"("failed":true)"), "state"),
            "failed");
  EXPECT_EQ(text_at(desk.release(text_at(desk.ask_for(), "job"),
                                 R"("failed":true,"requests":1,"input_tokens":5)"),
                    "state"),
            "failed");
  EXPECT_EQ(
      text_at(desk.release(text_at(desk.ask_for(), "job"), R"("requests":1,"delegate":false)"),
              "state"),
      "rejected");
}

TEST(PoolRoutes, RefuseWhatMakesNoSenseAndChangeNothing) {
  PoolDesk desk;
  const std::string job = text_at(desk.ask_for(), "job");
  EXPECT_THAT(detail(desk.ask_for(R"(,"wait":0,"hold":"2h")")), HasSubstr("hold is 7200000 ms"));
  EXPECT_THAT(detail(desk.post("/v1/pool/acquire", R"({"type":"sumary"})")),
              HasSubstr("there is no job type 'sumary'; write one of: summary"));
  EXPECT_EQ(desk.post("/v1/pool/acquire", R"({"type":"sumary"})").status, 404u);
  EXPECT_THAT(detail(desk.post("/v1/pool/acquire", "{}")), HasSubstr("type is missing"));
  EXPECT_THAT(detail(desk.release(job, R"("requests":-1)")),
              HasSubstr("requests is -1, but it must be from 0 to"));
  EXPECT_THAT(detail(desk.release(job, R"("failed":false)")),
              HasSubstr("it does not say what was used"));
  EXPECT_THAT(detail(desk.release(job, R"("failed":true,"delegate":true)")),
              HasSubstr("write one of them"));
  EXPECT_EQ(desk.release(job_name(99), R"("requests":1)").status, 404u);
  EXPECT_THAT(detail(desk.release("00000000deadbeef-1", R"("requests":1)")),
              HasSubstr("another instance gave it"));
  EXPECT_THAT(detail(desk.release("1", R"("requests":1)")), HasSubstr("the name of a job"));
  EXPECT_EQ(desk.jobs->pools().reading(desk.clock.now()).jobs, 1u);
  EXPECT_EQ(desk.release(job, R"("requests":1)").status, 200u);
  EXPECT_EQ(desk.release(job, R"("requests":1)").status, 404u);
}

TEST(PoolRoutes, SayNeverToAnEstimateThatNoModelHolds) {
  pool::PoolsSettings settings = two_models();
  settings.types[0].tokens = 5'000;
  PoolDesk desk(settings);
  const Answer never = desk.ask_for();
  EXPECT_EQ(never.status, 422u);
  EXPECT_EQ(text_at(never, "verdict"), "never");
  EXPECT_THAT(never.headers, Not(HasSubstr("Retry-After")));
}

TEST(PoolRoutes, ShowPoolsSharesAndTheFleet) {
  PoolDesk desk;
  desk.ask_for();
  const Answer shown = desk.shown("/v1/pool");
  const boost::json::value all = parsed(shown.body);
  EXPECT_EQ(all.at("rule").as_string(), "strict");
  EXPECT_EQ(all.at("running").as_int64(), 1);
  EXPECT_EQ(all.at("models").at(0).at("model").as_string(), "big");
  EXPECT_EQ(all.at("models").at(0).at("in_flight").as_int64(), 1);
  EXPECT_EQ(all.at("models").at(0).at("rates").at("tokens_per_minute").at("count").as_int64(),
            1000);
  EXPECT_EQ(all.at("job_types").at(0).at("ratio").to_number<double>(), 1.0);
  EXPECT_EQ(all.at("fleet").at("kind").as_string(), "local");
  EXPECT_EQ(all.at("fleet").at("instance_count").as_int64(), 1);
  EXPECT_EQ(all.at("fleet").at("models").at(0).at("windows").at("minute").at("tokens").at("used"),
            1000);
}

TEST(PoolRoutes, ShowTheAllocationAsThePublishedMessage) {
  PoolDesk desk;
  const Answer shown = desk.shown("/v1/pool/allocation");
  const boost::json::value all = parsed(shown.body);
  EXPECT_EQ(boost::json::serialize(all.at("allocation")),
            R"({"instanceCount":1,"pools":{"big":{"totalSlots":2,"tokensPerMinute":2500,)"
            R"("requestsPerMinute":100,"tokensPerDay":0,"requestsPerDay":0},"small":{)"
            R"("totalSlots":1,"tokensPerMinute":1000,"requestsPerMinute":0,"tokensPerDay":0,)"
            R"("requestsPerDay":0}},"dynamicLimits":{"big":{"tokensPerMinute":2500,)"
            R"("requestsPerMinute":100},"small":{"tokensPerMinute":1000}}})");
  EXPECT_FALSE(all.at("instanceId").as_string().empty());
}

TEST(GoDuration, IsWrittenAsOpenAiWritesIt) {
  const auto text = [](Duration span) {
    std::string out;
    append_go_duration(out, span);
    return out;
  };
  EXPECT_EQ(text(0s), "0s");
  EXPECT_EQ(text(12ms), "12ms");
  EXPECT_EQ(text(1ns), "1ms");
  EXPECT_EQ(text(1s), "1s");
  EXPECT_EQ(text(8640ms), "8.64s");
  EXPECT_EQ(text(6min), "6m0s");
  EXPECT_EQ(text(1h + 2min + 3s), "1h2m3s");
  EXPECT_EQ(text(24h), "24h0m0s");
}

}  // namespace
}  // namespace weir::wire::http
