#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::BucketSpec;
using engine::RuleSetSpec;
using engine::SlotsSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;

RuleSetSpec tokens() {
  return {.limits = {{.name = "tokens", .unit = "tokens", .meter = WindowSpec{1000, 1min}}},
          .units = {{"tokens"}}};
}

RuleSetSpec one_slot(std::int64_t queue) {
  return {.limits = {{.name = "slots", .meter = SlotsSpec{1, queue}}}};
}

// --- decisions

TEST(Acquire, AnswersAnAdmission) {
  Desk desk(three_per_second());
  const Answer answer = desk.acquire(kAcme);
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_EQ(answer.body,
            R"({"verdict":"allowed","limit":null,"shortfall":0,)"
            R"("earliest":"2027-01-15T08:00:00.000000000Z","earliest_ns":1800000000000000000,)"
            R"("retry_after_ms":0,"hold":null,"hold_expires":null,"limits":[{"limit":"per-client",)"
            R"("verdict":"allowed","remaining":1,"capacity":2,"cost":1,"shadow":false}]})");
}

TEST(Acquire, AnswersADenialWithTheInstantAtWhichItFits) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  const Answer answer = desk.acquire(kAcme);
  EXPECT_EQ(answer.status, 429u);
  EXPECT_EQ(
      answer.body,
      R"({"verdict":"denied","limit":"per-client","shortfall":1,)"
      R"("earliest":"2027-01-15T08:00:00.333333334Z","earliest_ns":1800000000333333334,)"
      R"("retry_after_ms":334,"hold":null,"hold_expires":null,"limits":[{"limit":"per-client",)"
      R"("verdict":"denied","remaining":0,"capacity":2,"cost":1,"shadow":false}]})");
}

TEST(Acquire, AnswersNeverWith422AndNoInstant) {
  Desk desk(three_per_second());
  const Answer answer = desk.acquire(R"({"attributes":{"client":"a"},"costs":{"requests":3}})");
  EXPECT_EQ(answer.status, 422u);
  EXPECT_EQ(text_at(answer, "verdict"), "never");
  EXPECT_EQ(text_at(answer, "earliest"), "null");
  EXPECT_EQ(text_at(answer, "earliest_ns"), "null");
  EXPECT_EQ(text_at(answer, "retry_after_ms"), "null");
}

TEST(Acquire, AnswersAProblemToARequestTheEngineRefuses) {
  Desk desk(three_per_second());
  const Answer answer = desk.acquire(R"({"attributes":{"klient":"acme"}})");
  EXPECT_EQ(answer.status, 400u);
  EXPECT_EQ(answer.content_type, "application/problem+json");
  EXPECT_EQ(text_at(answer, "type"), "urn:weir:bad-argument");
  EXPECT_EQ(text_at(answer, "title"), "Bad request");
  EXPECT_EQ(text_at(answer, "status"), "400");
  EXPECT_THAT(detail(answer), HasSubstr("known are client"));
}

TEST(Acquire, AnswersAProblemToABodyItCannotRead) {
  Desk desk(three_per_second());
  const Answer answer = desk.acquire("{");
  EXPECT_EQ(answer.status, 400u);
  EXPECT_THAT(detail(answer), HasSubstr("body:1:2: a member's name is missing"));
}

TEST(Acquire, AnswersAProblemWhenABoundOfTheProcessIsReached) {
  Desk desk(one_slot(0), {}, {.holds_max = 0});
  EXPECT_EQ(desk.acquire("{}").status, 503u);
}

TEST(Acquire, EscapesNamesOfLimits) {
  Desk desk({.limits = {{.name = "a\"b\\c\x01", .meter = WindowSpec{1, 1s}}}});
  const Answer answer = desk.acquire("{}");
  EXPECT_THAT(answer.body, HasSubstr(R"("limit":"a\"b\\c\u0001")"));
  EXPECT_THAT(answer.headers, HasSubstr(R"("a\"b\\c%01";q=1)"));
}

TEST(Acquire, ReportsLimitsInShadow) {
  Desk desk({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1h}}}});
  desk.acquire("{}");
  const Answer answer = desk.acquire("{}");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_THAT(answer.body, HasSubstr(R"("verdict":"denied","remaining":0,"capacity":1,"cost":1,)"
                                     R"("shadow":true)"));
}

TEST(Acquire, GrantsUpToWhatThereIs) {
  Desk desk(tokens());
  EXPECT_EQ(text_at(desk.acquire(R"({"costs":{"tokens":700},"up_to":"tokens"})"), "granted"),
            "700");
  EXPECT_EQ(text_at(desk.acquire(R"({"costs":{"tokens":700},"up_to":"tokens"})"), "granted"),
            "300");
  EXPECT_EQ(text_at(desk.acquire(R"({"costs":{"tokens":0}})"), "granted"), "(missing)");
}

TEST(Acquire, BooksAStartInTheFuture) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  const Answer answer = desk.acquire(R"({"attributes":{"client":"acme"},"book_within":"1s"})");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(text_at(answer, "earliest_ns"), "1800000000333333334");
}

TEST(Acquire, KeepsAHold) {
  Desk desk(three_per_second());
  const Answer answer = desk.acquire(R"({"attributes":{"client":"acme"},"hold":"60s"})");
  EXPECT_EQ(text_at(answer, "hold").size(), 18u);
  EXPECT_EQ(text_at(answer, "hold_expires"), "2027-01-15T08:01:00.000000000Z");
}

TEST(Acquire, WritesAnAnswerAnew) {
  Desk desk(three_per_second());
  Answer answer;
  for (int i = 0; i < 3; ++i) {
    desk.api.handle({"POST", "/v1/acquire", kAcme, "", Role::kDecide}, kTestStart, answer, {});
  }
  EXPECT_EQ(text_at(answer, "verdict"), "denied");
  desk.api.handle({"GET", "/healthz", "", "", Role::kNobody}, kTestStart, answer, {});
  EXPECT_EQ(answer.headers, "");
  EXPECT_EQ(answer.body, "ok\n");
}

// --- peek

TEST(Peek, ChargesNothing) {
  Desk desk(three_per_second());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(desk.post("/v1/peek", kAcme).status, 200u);
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  EXPECT_EQ(desk.post("/v1/peek", kAcme).status, 429u);
}

TEST(Peek, TakesNoOptions) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/peek", R"({"hold":"1s"})").status, 400u);
}

// --- waiting

constexpr std::string_view kPatient = R"({"attributes":{"client":"acme"},"wait":"5s"})";

TEST(Wait, IsAnsweredAtOnceWhenItFits) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.acquire(kPatient).status, 200u);
  EXPECT_FALSE(desk.waiting);
}

TEST(Wait, IsAnsweredLaterWhenItsTurnComes) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  desk.acquire(kPatient);
  ASSERT_TRUE(desk.waiting);
  desk.pass(333'333'333ns);
  EXPECT_TRUE(desk.later.empty());
  desk.pass(1ns);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 200u);
  EXPECT_EQ(text_at(desk.later[0], "verdict"), "allowed");
  EXPECT_EQ(desk.later[0].headers,
            "RateLimit-Policy: \"per-client\";q=2;w=1\r\nRateLimit: \"per-client\";r=0;t=1\r\n");
}

TEST(Wait, IsAnsweredOnlyOnce) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  desk.acquire(kPatient);
  for (int i = 0; i < 10; ++i) desk.pass(1s);
  EXPECT_EQ(desk.later.size(), 1u);
}

TEST(Wait, IsDeniedAtTheDeadline) {
  Desk desk(one_slot(1));
  desk.acquire("{}");
  desk.acquire(R"({"wait":"5s"})");
  ASSERT_TRUE(desk.waiting);
  desk.pass(5s);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 429u);
}

TEST(Wait, IsDeniedAtOnceWhenItCannotEndInTime) {
  Desk desk({.limits = {{.name = "hourly", .meter = WindowSpec{1, 1h}}}});
  desk.acquire("{}");
  const Answer answer = desk.acquire(R"({"wait":"5s"})");
  EXPECT_FALSE(desk.waiting);
  EXPECT_EQ(answer.status, 429u);
  EXPECT_THAT(answer.headers, HasSubstr("Retry-After: 3600\r\n"));
}

TEST(Wait, IsOverloadedWhenTheQueueIsFull) {
  Desk desk(one_slot(1));
  desk.acquire("{}");
  desk.acquire(R"({"wait":"5s"})");
  const Answer answer = desk.acquire(R"({"wait":"5s"})");
  EXPECT_FALSE(desk.waiting);
  EXPECT_EQ(answer.status, 503u);
  EXPECT_EQ(text_at(answer, "verdict"), "overloaded");
}

TEST(Wait, KeepsAHoldFromItsAdmissionOn) {
  Desk desk(one_slot(1));
  const std::string hold = text_at(desk.acquire("{}"), "hold");
  desk.acquire(R"({"wait":"5s","hold":"10s"})");
  desk.pass(2s);
  desk.post("/v1/cancel", R"({"hold":")" + hold + R"("})");
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(text_at(desk.later[0], "hold_expires"), "2027-01-15T08:00:12.000000000Z");
}

TEST(Wait, IsAnsweredByTheThreadThatFreesTheSlot) {
  Desk desk(one_slot(1));
  const std::string hold = text_at(desk.acquire("{}"), "hold");
  desk.acquire(R"({"wait":"5s"})");
  std::thread([&] { desk.post("/v1/cancel", R"({"hold":")" + hold + R"("})"); }).join();
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 200u);
}

TEST(Wait, IsAnsweredWithAProblemWhenTheRulesForgetItsAttributes) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  desk.acquire(kPatient);
  ASSERT_TRUE(desk.engine->swap(*engine::compile({}), desk.clock.now()));
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 400u);
  EXPECT_EQ(desk.later[0].content_type, "application/problem+json");
}

TEST(Wait, CanBeGivenUp) {
  Desk desk(one_slot(1));
  const std::string hold = text_at(desk.acquire("{}"), "hold");
  const Answer queued = desk.acquire(R"({"wait":"5s"})");
  ASSERT_NE(queued.ticket, 0u);
  EXPECT_TRUE(desk.api.give_up(queued.ticket, desk.clock.now()));
  EXPECT_FALSE(desk.api.give_up(queued.ticket, desk.clock.now()));
  desk.post("/v1/cancel", R"({"hold":")" + hold + R"("})");
  EXPECT_TRUE(desk.later.empty());
  EXPECT_EQ(desk.acquire("{}").status, 200u);
}

TEST(Wait, IsNotCombinedWithTakingLessOrBooking) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.acquire(R"({"wait":"5s","up_to":"requests"})").status, 400u);
  EXPECT_EQ(desk.acquire(R"({"wait":"5s","book_within":"5s"})").status, 400u);
}

// --- batches

boost::json::array decisions_of(const Answer& answer) {
  EXPECT_EQ(answer.status, 200u);
  return parsed(answer.body).as_object()["decisions"].as_array();
}

TEST(Batch, AnswersInOrder) {
  Desk desk(three_per_second());
  const auto decisions = decisions_of(
      desk.post("/v1/batch",
                R"({"requests":[{"attributes":{"client":"acme"}},{"attributes":{"client":"acme"}},
                       {"attributes":{"client":"other"}},{"attributes":{"client":"acme"}}]})"));
  ASSERT_EQ(decisions.size(), 4u);
  EXPECT_EQ(decisions[0].at("limits").at(0).at("remaining"), 1);
  EXPECT_EQ(decisions[1].at("limits").at(0).at("remaining"), 0);
  EXPECT_EQ(decisions[2].at("limits").at(0).at("remaining"), 1);
  EXPECT_EQ(decisions[3].at("verdict"), "denied");
}

TEST(Batch, AnswersAProblemForOneRequestAndDecidesTheOthers) {
  Desk desk(three_per_second());
  const auto decisions = decisions_of(
      desk.post("/v1/batch", R"({"requests":[{"attributes":{"klient":"acme"}},{"wait":"1s"},
                                 {"attributes":{"client":"acme"}}]})"));
  ASSERT_EQ(decisions.size(), 3u);
  EXPECT_EQ(decisions[0].at("status"), 400);
  EXPECT_THAT(std::string(decisions[1].at("detail").as_string()), HasSubstr("cannot 'wait'"));
  EXPECT_EQ(decisions[2].at("verdict"), "allowed");
}

TEST(Batch, KeepsTheOrderAroundRequestsWithOptions) {
  Desk desk(tokens());
  const auto decisions = decisions_of(
      desk.post("/v1/batch",
                R"({"requests":[{"costs":{"tokens":400}},{"costs":{"tokens":900},"up_to":"tokens"},
                       {"costs":{"tokens":1}}]})"));
  EXPECT_EQ(decisions[0].at("verdict"), "allowed");
  EXPECT_EQ(decisions[1].at("granted"), 600);
  EXPECT_EQ(decisions[2].at("verdict"), "denied");
}

std::string batch_of(std::size_t count) {
  std::string body = R"({"requests":[)";
  for (std::size_t i = 0; i < count; ++i) body += i == 0 ? "{}" : ",{}";
  return body + "]}";
}

TEST(Batch, HoldsAsManyAsTheSettingsSayAndNoMore) {
  Desk desk({.limits = {{.name = "all", .meter = WindowSpec{150, 1h}}}}, {.batch_max = 200});
  const auto decisions = decisions_of(desk.post("/v1/batch", batch_of(200)));
  ASSERT_EQ(decisions.size(), 200u);
  EXPECT_EQ(decisions[149].at("verdict"), "allowed");
  EXPECT_EQ(decisions[150].at("verdict"), "denied");

  const Answer beyond = desk.post("/v1/batch", batch_of(201));
  EXPECT_EQ(beyond.status, 413u);
  EXPECT_THAT(detail(beyond), HasSubstr("more than 200"));
}

TEST(Batch, MayBeEmptyButMustBeThere) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/batch", batch_of(0)).body, R"({"decisions":[]})");
  EXPECT_THAT(detail(desk.post("/v1/batch", "{}")), HasSubstr("'requests' is missing"));
}

TEST(Batch, IsRefusedWholeWhenItCannotBeRead) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/batch", R"({"requests":[{"attributes":{"client":"acme"}},7]})").status,
            400u);
  EXPECT_EQ(text_at(desk.get("/v1/meters?limit=per-client&key=acme"), "remaining"), "2");
}

}  // namespace
}  // namespace weir::wire::http
