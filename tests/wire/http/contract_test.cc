// The routes of contracts, without a socket: what is answered, and that it is as described (which
// the Desk sees to). tests/server/contract_test.cc has what they do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/wire/http/support.h"
#include "weir/system/contract/accounts.h"
#include "weir/wire/http/contract_routes.h"

namespace weir::wire::http {
namespace {

namespace contract = system::contract;
using ::testing::HasSubstr;

// Ten units and five requests a day.
struct ContractDesk : Desk {
  ContractDesk() : Desk(three_per_second()) {
    auto accounts = std::make_shared<contract::Accounts>();
    auto account = contract::Account::create(
        "acme",
        {*contract::make_policy(contract::Resource::kProcessingUnits, 10, 24h),
         *contract::make_policy(contract::Resource::kRequests, 5, 24h)},
        {.jitter = 0ns}, clock.now());
    EXPECT_TRUE(account.ok()) << (account ? "" : account.error().message);
    EXPECT_TRUE(accounts->add(*account, "u1").ok());
    host.contract_in_force = std::move(accounts);
  }

  Answer call(const std::string& what, std::string_view body) {
    return post("/v1/contract/acme/" + what, body);
  }
  // A reservation of so many units, as the member of a body.
  std::string reserved(std::string_view units) {
    const Answer answer =
        call("reserve", R"({"processing_units":)" + std::string(units) + R"(,"hold":"1.5m"})");
    return R"("reservation":")" + text_at(answer, "reservation") + '"';
  }
};

TEST(ContractRoutes, ReserveCommitAndRelease) {
  ContractDesk desk;
  const std::string first = desk.reserved("2");
  EXPECT_EQ(desk.call("commit", "{" + first + R"(,"processing_units":"0.5"})").body,
            R"({"state":"settled","debited":{"requests":1,"processing_units":0.5}})");
  EXPECT_EQ(desk.call("commit", "{" + first + "}").body,
            R"({"state":"settled","debited":{"requests":1,"processing_units":0.5}})");
  EXPECT_EQ(desk.call("release", "{" + first + "}").status, 409u);
  EXPECT_EQ(text_at(desk.call("release", "{" + desk.reserved("2") + "}"), "state"), "cancelled");
}

TEST(ContractRoutes, RefuseInTheirOwnWords) {
  ContractDesk desk;
  EXPECT_EQ(desk.call("reserve", R"({"processing_units":11})").status, 422u);
  desk.reserved("10");
  const Answer denied = desk.call("reserve", R"({"processing_units":10,"max_delay":0})");
  EXPECT_EQ(denied.status, 429u);
  EXPECT_THAT(denied.headers, HasSubstr("Retry-After: "));
}

TEST(ContractRoutes, ConsumeAndRefuseAsTheServiceDoes) {
  ContractDesk desk;
  const Answer consumed = desk.call("consume", R"({"processing_units":0.64})");
  EXPECT_EQ(consumed.status, 200u);
  EXPECT_EQ(consumed.headers, "X-ProcessingUnits-Spent: 0.64\r\n");
  EXPECT_EQ(desk.call("consume", R"({"processing_units":10})").status, 429u);
  EXPECT_EQ(desk.call("consume", R"({"processing_units":11})").status, 429u);
}

TEST(ContractRoutes, TakeFeedback) {
  ContractDesk desk;
  for (const std::string_view body :
       {R"({"retry_after":3398})", R"({"retry_after":"3398"})", R"({"retry_after":"3398ms"})",
        R"({"policy":"PU_10_PT24H","requests":1})"}) {
    EXPECT_EQ(desk.call("feedback", body).status, 200u) << body;
  }
}

TEST(ContractRoutes, WorkOutProcessingUnits) {
  ContractDesk desk;
  const Answer answer = desk.post(
      "/v1/contract/processing-units",
      R"({"api":"process","tiles":[{"width":512,"height":512}],"bands":["B04","B03","B02"],)"
      R"("output":"float32","area_km2":"1.5","announced":{"delivered_mb":0}})");
  EXPECT_EQ(answer.status, 200u) << answer.body;
  EXPECT_EQ(text_at(answer, "processing_units"), "2/1");
}

TEST(ContractRoutes, ShowTheAccountAndTakeItsDocumentsBack) {
  ContractDesk desk;
  const Answer account = desk.get("/v1/contract/acme");
  EXPECT_EQ(text_at(account, "role"), "guard");
  const Answer contracts = desk.get("/aux/ratelimit/contract?userId=eq:u1");
  EXPECT_EQ(desk.ask("PUT", "/v1/contract/acme/contract", contracts.body).status, 200u);
  const Answer counts = desk.get("/aux/ratelimit/statistics/tokenCounts/u1");
  EXPECT_EQ(
      desk.ask("PUT", "/v1/contract/acme/counts?mark=" + text_at(account, "mark"), counts.body)
          .status,
      200u);
  EXPECT_EQ(desk.get("/v1/contract/other").status, 404u);
}

}  // namespace
}  // namespace weir::wire::http
