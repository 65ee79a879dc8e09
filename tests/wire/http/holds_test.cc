#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::RuleSetSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;

class HoldCalls : public ::testing::Test {
 protected:
  // The body of a call about the hold, with more members after it.
  std::string about_hold(std::string_view more = {}) const {
    return R"({"hold":")" + hold + '"' + std::string(more) + '}';
  }
  std::string left() { return text_at(desk.get("/v1/meters?limit=tokens"), "remaining"); }

  Desk desk{tokens()};
  std::string hold = text_at(desk.acquire(R"({"costs":{"tokens":400},"hold":"10s"})"), "hold");
};

TEST_F(HoldCalls, SettleReplacesTheCost) {
  const Answer answer = desk.post("/v1/settle", about_hold(R"(,"costs":{"tokens":150})"));
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.body, R"({"state":"settled"})");
  EXPECT_EQ(left(), "850");
}

TEST_F(HoldCalls, SettleWithoutCostsKeepsWhatWasCharged) {
  EXPECT_EQ(desk.post("/v1/settle", about_hold()).status, 200u);
  EXPECT_EQ(left(), "600");
}

TEST_F(HoldCalls, SettleAgainChangesNothing) {
  desk.post("/v1/settle", about_hold(R"(,"costs":{"tokens":150})"));
  EXPECT_EQ(desk.post("/v1/settle", about_hold(R"(,"costs":{"tokens":1})")).status, 200u);
  EXPECT_EQ(left(), "850");
}

TEST_F(HoldCalls, SettleRefusesUnitsNobodyKnows) {
  EXPECT_EQ(desk.post("/v1/settle", about_hold(R"(,"costs":{"bytes":150})")).status, 400u);
  EXPECT_EQ(left(), "600");
}

TEST_F(HoldCalls, CancelGivesEverythingBack) {
  EXPECT_EQ(desk.post("/v1/cancel", about_hold()).body, R"({"state":"cancelled"})");
  EXPECT_EQ(desk.post("/v1/cancel", about_hold()).body, R"({"state":"cancelled"})");
  EXPECT_EQ(left(), "1000");
}

TEST_F(HoldCalls, OneThatEndedTheOtherWayIsAConflict) {
  desk.post("/v1/cancel", about_hold());
  const Answer answer = desk.post("/v1/settle", about_hold());
  EXPECT_EQ(answer.status, 409u);
  EXPECT_THAT(detail(answer), HasSubstr("cancelled already"));
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":"1s")")).status, 409u);
}

TEST_F(HoldCalls, RenewCountsFromNow) {
  desk.pass(9s);
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":"10s")")).body, R"({"state":"active"})");
  desk.pass(9s);
  EXPECT_EQ(desk.post("/v1/cancel", about_hold()).status, 200u);
}

TEST_F(HoldCalls, RenewNeedsATime) {
  EXPECT_THAT(detail(desk.post("/v1/renew", about_hold())), HasSubstr("'ttl' is missing"));
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":0)")).status, 400u);
}

TEST_F(HoldCalls, OneThatIsGoneIsNotFound) {
  desk.pass(10s);
  for (const std::string_view path : {"/v1/settle", "/v1/cancel"}) {
    const Answer answer = desk.post(path, about_hold());
    EXPECT_EQ(answer.status, 404u) << path;
    EXPECT_THAT(detail(answer), HasSubstr(hold));
  }
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":"1s")")).status, 404u);
  EXPECT_EQ(desk.post("/v1/cancel", R"({"hold":"00000000000004d2-17"})").status, 404u);
}

TEST_F(HoldCalls, NeedAnIdThatCanBeRead) {
  for (const std::string_view path : {"/v1/settle", "/v1/cancel", "/v1/renew"}) {
    EXPECT_EQ(desk.post(path, "{}").status, 400u) << path;
    EXPECT_THAT(detail(desk.post(path, "{}")), HasSubstr("'hold' is missing")) << path;
    EXPECT_THAT(detail(desk.post(path, R"({"hold":"17"})")), HasSubstr("hold is '17'")) << path;
  }
}

}  // namespace
}  // namespace weir::wire::http
