#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using ::testing::HasSubstr;

struct Authorize : ::testing::Test {
  Answer ask(const std::vector<Field>& fields, std::string_view target = "/v1/authorize") {
    desk.role = Role::kDecide;
    desk.content_type = "";
    desk.fields = fields;
    Answer answer = desk.get(target);
    EXPECT_FALSE(desk.waiting);
    return answer;
  }

  Desk desk{three_per_second()};
};

TEST_F(Authorize, TakesAttributesFromHeadersAndCharges) {
  EXPECT_EQ(ask({{"Weir-Attribute-Client", "a=b&c,\"d\""}}).status, 200u);
  EXPECT_EQ(ask({{"weir-ATTRIBUTE-client", "a=b&c,\"d\""}}).status, 200u);
  const Answer refused = ask({{"Weir-Attribute-Client", "a=b&c,\"d\""}});
  EXPECT_EQ(refused.status, 429u);
  EXPECT_THAT(refused.headers, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_EQ(ask({{"Weir-Attribute-Client", "another"}}).status, 200u);
}

TEST_F(Authorize, TakesCostsFromHeaders) {
  EXPECT_EQ(ask({{"Weir-Attribute-Client", "a"}, {"Weir-Cost-Requests", "2"}}).status, 200u);
  EXPECT_EQ(ask({{"Weir-Attribute-Client", "a"}}).status, 429u);
  EXPECT_EQ(ask({{"Weir-Attribute-Client", "a"}, {"Weir-Cost-Requests", "3"}}).status, 422u);
  for (const std::string_view wrong : {"", "-1", "1.5", "x", "9223372036854775808"}) {
    EXPECT_EQ(ask({{"Weir-Cost-Requests", wrong}}).status, 400u) << wrong;
  }
}

TEST_F(Authorize, ReadsCostsOfAUnitOfMillionthsAsDecimals) {
  Desk gas(
      {.limits = {{.name = "gas", .unit = "gas", .meter = engine::WindowSpec{2'000'000, 1min}}},
       .units = {{"gas", engine::UnitScale::kMicro}}});
  gas.fields = {{"Weir-Cost-Gas", "0.64"}};
  EXPECT_THAT(gas.get("/v1/authorize").body, HasSubstr(R"("remaining":1360000,)"));
}

// Programs that watch a server send HEAD to see whether a path is there.
TEST_F(Authorize, DoesNotChargeForAHead) {
  const Answer head = desk.ask("HEAD", "/v1/authorize");
  EXPECT_EQ(head.status, 405u);
  EXPECT_EQ(head.headers, "Allow: GET\r\n");
  EXPECT_EQ(head.body, "");
  desk.fields = {{"Weir-Attribute-Client", "a"}};
  desk.ask("HEAD", "/v1/authorize");
  EXPECT_EQ(desk.engine->usage().keys, 0u);
}

TEST_F(Authorize, ReadsPastTheFieldOfDeliberateRequests) {
  EXPECT_EQ(ask({{"Weir-Request", "1"}, {"Weir-Attribute-Client", "a"}}).status, 200u);
}

TEST_F(Authorize, GivesARefusalTheStatusThatIsAskedFor) {
  const std::vector<Field> never = {{"Weir-Attribute-Client", "a"}, {"Weir-Cost-Requests", "3"}};
  EXPECT_EQ(ask(never, "/v1/authorize?deny=403").status, 403u);
  EXPECT_EQ(ask(never, "/v1/authorize?deny=401").status, 401u);
  EXPECT_EQ(text_at(ask(never, "/v1/authorize?deny=401"), "verdict"), "never");
  EXPECT_EQ(ask({{"Weir-Attribute-Client", "a"}}, "/v1/authorize?deny=403").status, 200u);
  for (const std::string_view wrong : {"?deny=200", "?deny=", "?deny=403&deny=401"}) {
    EXPECT_EQ(ask(never, "/v1/authorize" + std::string(wrong)).status, 400u) << wrong;
  }
}

TEST_F(Authorize, RefusesHeadersThatItDoesNotKnow) {
  const Answer answer = ask({{"Weir-Atribute-Client", "a"}});
  EXPECT_EQ(answer.status, 400u);
  EXPECT_THAT(detail(answer), HasSubstr("'Weir-Atribute-Client' is unknown"));
  EXPECT_EQ(ask({{"Weir-", "a"}}).status, 400u);
}

}  // namespace
}  // namespace weir::wire::http
