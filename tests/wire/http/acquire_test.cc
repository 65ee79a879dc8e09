#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::RuleSetSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;

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

TEST(Acquire, AnswersARequestThatMeetsNoLimitAsTheRulesSay) {
  RuleSetSpec spec = three_per_second();
  spec.unmatched = engine::Unmatched::kDeny;
  Desk desk(spec);
  const Answer denied = desk.acquire("{}");
  EXPECT_EQ(denied.status, 429u);
  EXPECT_EQ(denied.body,
            R"({"verdict":"denied","limit":null,"shortfall":0,"earliest":null,)"
            R"("earliest_ns":null,"retry_after_ms":null,"hold":null,"hold_expires":null,)"
            R"("limits":[]})");
  EXPECT_EQ(denied.headers, "");
  spec.unmatched = engine::Unmatched::kError;
  ASSERT_TRUE(desk.engine->swap(*engine::compile(spec), desk.clock.now()));
  const Answer refused = desk.acquire("{}");
  EXPECT_EQ(refused.status, 400u);
  EXPECT_THAT(refused.body, HasSubstr(R"("type":"urn:weir:unmatched")"));
  EXPECT_THAT(refused.body, HasSubstr("limits read the attributes client"));
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

// --- amounts

RuleSetSpec gas() {
  return {.limits = {{.name = "gas", .unit = "gas", .meter = WindowSpec{2'000'000, 1min}}},
          .units = {{"gas", engine::UnitScale::kMicro}}};
}

TEST(Acquire, ReadsCostsOfAUnitOfMillionthsAsDecimals) {
  Desk desk(gas());
  EXPECT_THAT(desk.acquire(R"({"costs":{"gas":0.64}})").body, HasSubstr(R"("remaining":1360000,)"));
  EXPECT_THAT(desk.post("/v1/peek", R"({"costs":{"gas":"0.36"}})").body,
              HasSubstr(R"("cost":360000,)"));
  EXPECT_THAT(desk.post("/v1/batch", R"({"requests":[{"costs":{"gas":1}}]})").body,
              HasSubstr(R"("remaining":360000,)"));
  for (const std::string_view wrong : {"0.0000001", "1e3", "-1", "\"\"", "null"}) {
    const Answer answer = desk.acquire("{\"costs\":{\"gas\":" + std::string(wrong) + "}}");
    EXPECT_EQ(answer.status, 400u) << wrong;
    EXPECT_THAT(detail(answer), HasSubstr("costs.gas"));
  }
}

TEST(Acquire, SettlesAUnitOfMillionthsAsDecimals) {
  Desk desk(gas());
  const std::string hold = text_at(desk.acquire(R"({"costs":{"gas":1.5},"hold":"10s"})"), "hold");
  EXPECT_EQ(desk.post("/v1/settle", R"({"hold":")" + hold + R"(","costs":{"gas":0.25}})").status,
            200u);
  EXPECT_THAT(desk.get("/v1/meters?limit=gas").body, HasSubstr(R"("remaining":1750000,)"));
}

TEST(Acquire, OverridesAUnitOfMillionthsByDecimals) {
  Desk desk(gas());
  EXPECT_EQ(
      desk.ask("PUT", "/v1/overrides/gas", R"({"kind":"window","limit":2.5,"every":"1m"})").status,
      200u);
  EXPECT_THAT(desk.get("/v1/meters?limit=gas").body, HasSubstr(R"("capacity":2500000,)"));
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
    desk.api.handle({"POST", "/v1/acquire", kAcme, "application/json", Role::kDecide}, kTestStart,
                    answer, {});
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

}  // namespace
}  // namespace weir::wire::http
