#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::RuleSetSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;

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
