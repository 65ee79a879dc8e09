// The routes below /v1/sampling, without a socket and with a clock that stands still.

#include "weir/system/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"
#include "weir/system/sampling/gate.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {
namespace {

namespace sampling = system::sampling;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::shared_ptr<sampling::Sampling> counters(sampling::Mode mode) {
  const auto floor = [](std::string name, std::int64_t an_hour) {
    return sampling::EnvironmentSpec{.name = std::move(name),
                                     .rotation_count_micro = 0,
                                     .sampling_count_micro = an_hour * 48 * kMicro};
  };
  sampling::RulesSpec spec{.environments = {floor("E", 6), floor("P", 6), floor("U", 0)},
                           .exempt = sampling::published_exemptions(),
                           .mode = mode};
  spec.environments[1].parent = sampling::ParentSpec{8};
  auto rules = sampling::make_rules(std::move(spec));
  EXPECT_TRUE(rules.ok());
  return sampling::Sampling::create(std::move(*rules), {.secret = {1, 2, 3, 4}});
}

engine::RuleSetSpec with_gate(std::shared_ptr<sampling::Sampling> in_force) {
  return {.limits = {{.name = "sampling",
                      .meter = std::make_shared<sampling::SamplingGate>(std::move(in_force))}},
          .attributes = {"hotkey", "revision", "environment", "uid"}};
}

struct SamplingDesk : Desk {
  explicit SamplingDesk(sampling::Mode mode = sampling::Mode::kStrict)
      : SamplingDesk(counters(mode)) {}
  explicit SamplingDesk(const std::shared_ptr<sampling::Sampling>& in_force)
      : Desk(with_gate(in_force)) {
    host.sampling_in_force = in_force;
  }

  Answer grant(std::string_view body) { return post("/v1/sampling/grant", body); }
  Answer grant(std::string_view revision, int want, std::string_view environment = "E") {
    return grant(R"({"hotkey":"5F3s","revision":")" + std::string(revision) +
                 R"(","environment":")" + std::string(environment) + R"(","uid":7,"want":)" +
                 std::to_string(want) + "}");
  }
};

TEST(SamplingRoutes, SayWhatToConfigureWhereThereIsNone) {
  Desk desk(three_per_second());
  int seen = 0;
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    if (!route.path.starts_with("/v1/sampling")) continue;
    seen += 1;
    const Answer answer = desk.ask(route.method, route.path, "{}");
    EXPECT_EQ(answer.status, 404u) << route.name;
    EXPECT_THAT(detail(answer), HasSubstr("sampling: { environments: [...] }")) << route.name;
  }
  EXPECT_EQ(seen, 6);
}

TEST(SamplingGrant, SaysWhatWasGrantedAndWhatIsLeft) {
  SamplingDesk desk;
  const Answer some = desk.grant("r1", 4);
  EXPECT_EQ(some.status, 200u);
  EXPECT_EQ(some.body,
            R"({"granted":4,"wanted":4,"reason":"limited","count":4,"limit":6,"remaining":2,)"
            R"("parent":null,"next_free":"2027-01-15T08:00:00.000000000Z",)"
            R"("next_free_ns":1800000000000000000,"retry_after_ms":0,)"
            R"("reservation":")" +
                text_at(some, "reservation") + R"("})");
  EXPECT_THAT(text_at(some, "reservation"), MatchesRegex("[0-9a-f]{16}-1800000000000000"));
  desk.pass(10s);
  const Answer rest = desk.grant("r1", 20);
  EXPECT_EQ(rest.status, 200u);
  EXPECT_EQ(text_at(rest, "granted"), "2");
  EXPECT_EQ(text_at(rest, "next_free_ns"), "1800003600000000000");
  EXPECT_EQ(text_at(rest, "retry_after_ms"), "3590000");
}

TEST(SamplingGrant, GivesAReservationThatCannotBeGuessedFromAnother) {
  SamplingDesk desk;
  const std::string first = text_at(desk.grant("r1", 2), "reservation");
  const std::string second = text_at(desk.grant("r1", 2), "reservation");
  EXPECT_NE(first.substr(0, 16), second.substr(0, 16));
  // The word of the one with the number of the other.
  const std::string guess = first.substr(0, 16) + second.substr(16);
  for (const char* path : {"/v1/sampling/commit", "/v1/sampling/release"}) {
    EXPECT_EQ(desk.post(path, R"({"reservation":")" + guess + R"("})").status, 404u) << path;
  }
  EXPECT_EQ(desk.post("/v1/sampling/release", R"({"reservation":")" + second + R"("})").status,
            200u);
}

TEST(SamplingGrant, IsRefusedUntilSomethingIsFree) {
  SamplingDesk desk;
  desk.grant("r1", 6);
  desk.pass(1h - 1ns);
  const Answer none = desk.grant("r1", 1);
  EXPECT_EQ(none.status, 429u);
  EXPECT_EQ(none.headers, "Retry-After: 1\r\n");
  EXPECT_EQ(text_at(none, "reservation"), "null");
  EXPECT_EQ(desk.grant("r1", 0).status, 200u) << "nothing was wanted";
  desk.pass(1ns);
  EXPECT_EQ(text_at(desk.grant("r1", 9), "granted"), "6");
}

TEST(SamplingGrant, ShowsTheParentAndNoLimitWhereThereIsNone) {
  SamplingDesk desk;
  desk.grant("r1", 6, "P");
  const Answer over = desk.grant("r2", 6, "P");
  EXPECT_EQ(text_at(over, "granted"), "2");
  EXPECT_EQ(text_at(over, "limit"), "6");
  EXPECT_EQ(text_at(over, "remaining"), "0");
  EXPECT_EQ(text_at(over, "parent"), R"({"count":8,"limit":8})");
  const Answer free = desk.grant("r1", 50, "U");
  EXPECT_EQ(text_at(free, "reason"), "unlimited");
  EXPECT_EQ(text_at(free, "limit"), "null");
  EXPECT_EQ(text_at(free, "remaining"), "null");
  const Answer exempt =
      desk.grant(R"({"hotkey":"h","revision":"r","environment":"E","uid":1001,"want":50})");
  EXPECT_EQ(text_at(exempt, "granted"), "50");
  EXPECT_EQ(text_at(exempt, "reason"), "exempt");
}

TEST(SamplingGrant, SaysTheSameInADryRunAndChangesNothing) {
  SamplingDesk desk;
  const std::string asked =
      R"({"hotkey":"5F3s","revision":"r1","environment":"P","uid":7,"want":6)";
  const Answer said = desk.grant(asked + R"(,"dry_run":true})");
  EXPECT_EQ(text_at(said, "reservation"), "null");
  EXPECT_EQ(text_at(said, "remaining"), "0");
  EXPECT_EQ(text_at(said, "retry_after_ms"), "3600000");
  const Answer made = desk.grant(asked + "}");
  EXPECT_EQ(said.status, made.status);
  const auto before_reservation = [](const Answer& answer) {
    return answer.body.substr(0, answer.body.find("\"reservation\""));
  };
  EXPECT_EQ(before_reservation(said), before_reservation(made));
}

TEST(SamplingGrant, NamesWhatIsWrongWithABody) {
  SamplingDesk desk;
  const struct {
    std::string_view body;
    unsigned status;
    std::string_view says;
  } cases[] = {
      {"", 400, "body"},
      {"[]", 400, "body"},
      {R"({"hotkey":"h","revision":"r","environment":"E","uid":7,"want":-1})", 400,
       "want is -1, but it must be from 0 to 1000000"},
      {R"({"hotkey":"h","revision":"r","environment":"E","uid":7,"want":1000001})", 400, "want"},
      {R"({"hotkey":"h","revision":"r","environment":"E","uid":7,"want":1.5})", 400, "want"},
      {R"({"hotkey":"h","revision":"r","environment":"E"})", 400, "uid is missing"},
      {R"({"hotkey":"h","revision":"r","environment":"E","uid":"7"})", 400, "uid"},
      {R"({"hotkey":7,"revision":"r","environment":"E","uid":7})", 400, "hotkey"},
      {R"({"hotkey":"h","environment":"E","uid":7})", 400, "revision is 0 bytes long"},
      {R"({"hotkey":"h","revision":"r","environment":"X","uid":7})", 404,
       "environment 'X' is not configured"},
      {R"({"hotkey":"h","revision":"r","environment":"E","uid":7,"more":1})", 400, "more"},
      {R"({"hotkey":"h","revision":"r","environment":"E","uid":7,"dry_run":1})", 400, "dry_run"},
  };
  for (const auto& [body, status, says] : cases) {
    const Answer answer = desk.grant(body);
    EXPECT_EQ(answer.status, status) << body;
    EXPECT_THAT(detail(answer), HasSubstr(std::string(says))) << body;
  }
  EXPECT_EQ(desk.host.sampling_in_force->reading().keys, 0u);
}

TEST(SamplingGrant, TakesAMissingIdForZeroInPublishedModeOnly) {
  SamplingDesk desk(sampling::Mode::kPublished);
  EXPECT_EQ(
      text_at(desk.grant(R"({"hotkey":"h","revision":"r","environment":"E","want":50})"), "reason"),
      "exempt");
}

TEST(SamplingReservations, AreCommittedOrReleasedOnce) {
  SamplingDesk desk;
  const std::string first = text_at(desk.grant("r1", 6), "reservation");
  const Answer more =
      desk.post("/v1/sampling/commit", R"({"reservation":")" + first + R"(","created":7})");
  EXPECT_EQ(more.status, 400u);
  EXPECT_THAT(detail(more), HasSubstr("created is 7, but reservation"));
  EXPECT_EQ(
      desk.post("/v1/sampling/commit", R"({"reservation":")" + first + R"(","created":4})").body,
      R"({"state":"committed","given_back":2})");
  EXPECT_EQ(
      desk.post("/v1/sampling/commit", R"({"reservation":")" + first + R"(","created":4})").body,
      R"({"state":"committed","given_back":2})")
      << "said again";
  const Answer otherwise =
      desk.post("/v1/sampling/release", R"({"reservation":")" + first + R"("})");
  EXPECT_EQ(otherwise.status, 409u);
  EXPECT_THAT(detail(otherwise), HasSubstr("has been ended with 4 tasks created already"));
  const std::string second = text_at(desk.grant("r1", 6), "reservation");
  EXPECT_EQ(desk.post("/v1/sampling/release", R"({"reservation":")" + second + R"("})").body,
            R"({"state":"released","given_back":2})");
  const std::string third = text_at(desk.grant("r1", 1), "reservation");
  EXPECT_EQ(desk.post("/v1/sampling/commit", R"({"reservation":")" + third + R"("})").body,
            R"({"state":"committed","given_back":0})");
}

TEST(SamplingPass, GrantsManyEnvironmentsAtOnceBySlotsAndShares) {
  SamplingDesk desk;
  desk.grant("r1", 5);
  const Answer answer =
      desk.post("/v1/sampling/pass",
                R"({"hotkey":"5F3s","revision":"r1","uid":7,"slots":6,"work":[)"
                R"({"environment":"E","active":1,"missing":40},{"environment":"P","missing":40},)"
                R"({"environment":"U"}]})");
  EXPECT_EQ(answer.status, 200u);
  const boost::json::value said = parsed(answer.body);
  EXPECT_EQ(said.at("granted").as_int64(), 5) << "six slots, of which one is in use";
  const boost::json::array& each = said.at("environments").as_array();
  ASSERT_EQ(each.size(), 3u);
  EXPECT_EQ(each[0].at("grant").at("granted").as_int64(), 1) << "all that its allowance has left";
  EXPECT_EQ(each[1].at("grant").at("granted").as_int64(), 4) << "its share, and what is left over";
  EXPECT_EQ(each[2].at("grant").at("granted").as_int64(), 0) << "there is no work";
  EXPECT_TRUE(each[2].at("grant").at("reservation").is_null());
  const auto reservation = boost::json::serialize(each[1].at("grant").at("reservation"));
  EXPECT_EQ(desk.post("/v1/sampling/commit", R"({"reservation":)" + reservation + "}").status,
            200u);
}

TEST(SamplingPass, GrantsNothingOverAgainWhenItsSlotsAreInUse) {
  SamplingDesk desk;
  const Answer answer =
      desk.post("/v1/sampling/pass", R"({"hotkey":"h","revision":"r","uid":7,"slots":2,)"
                                     R"("work":[{"environment":"E","active":2,"missing":40}]})");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(text_at(answer, "granted"), "0");
}

TEST(SamplingPass, NamesWhatIsWrongWithABody) {
  SamplingDesk desk;
  const std::string start = R"({"hotkey":"h","revision":"r","uid":7)";
  std::string long_list;
  for (std::size_t i = 0; i <= sampling::kEnvironmentsMax; ++i) {
    long_list += (i > 0 ? "," : "") + (R"({"environment":")" + std::to_string(i)) + R"("})";
  }
  const struct {
    std::string body;
    unsigned status;
    std::string_view says;
  } cases[] = {
      {"{}", 400, "slots is missing"},
      {start + R"(,"slots":0})", 400, "slots"},
      {start + R"(,"slots":1001})", 400, "slots is 1001"},
      {start + R"(,"slots":6,"work":{}})", 400, "work"},
      {start + R"(,"slots":6,"work":[{"environment":"X","missing":1}]})", 404, "'X'"},
      {start + R"(,"slots":6,"work":[{"environment":"E"},{"environment":"E"}]})", 400, "twice"},
      {start + R"(,"slots":6,"work":[{"environment":"E","missing":-1}]})", 400, "missing"},
      {start + R"(,"slots":6,"work":[)" + long_list + "]}", 400, "a list of more than 1024"},
  };
  for (const auto& [body, status, says] : cases) {
    const Answer answer = desk.post("/v1/sampling/pass", body);
    EXPECT_EQ(answer.status, status) << body.substr(0, 200);
    EXPECT_THAT(detail(answer), HasSubstr(std::string(says))) << body.substr(0, 200);
  }
}

TEST(SamplingRefused, ShowsWhoWasRefusedMostAndWhatItHas) {
  SamplingDesk desk;
  desk.grant("r1", 20);
  desk.grant("r2", 6);
  desk.post("/v1/sampling/pass", R"({"hotkey":"5F3s","revision":"r1","uid":7,"slots":6,)"
                                 R"("work":[{"environment":"E","missing":40}]})");
  const boost::json::value all = parsed(desk.get("/v1/sampling/refused").body);
  const boost::json::array& refused = all.at("refused").as_array();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].at("revision").as_string(), "r1");
  EXPECT_EQ(refused[0].at("refusals").as_int64(), 2) << "the pass found it shut, too";
  EXPECT_EQ(refused[0].at("tasks").as_int64(), 15);
  EXPECT_EQ(refused[0].at("count").as_int64(), 6);
  EXPECT_EQ(refused[0].at("remaining").as_int64(), 0);
  EXPECT_EQ(refused[1].at("revision").as_string(), "r2");
  EXPECT_EQ(refused[1].at("refusals").as_int64(), 0);
  EXPECT_EQ(parsed(desk.get("/v1/sampling/refused?most=1").body).at("refused").as_array().size(),
            1u);
  EXPECT_EQ(desk.get("/v1/sampling/refused?most=257").status, 400u);
}

TEST(SamplingReservations, NameWhatIsWrongWithABody) {
  SamplingDesk desk;
  for (const char* path : {"/v1/sampling/commit", "/v1/sampling/release"}) {
    EXPECT_THAT(detail(desk.post(path, "{}")), HasSubstr("reservation is missing")) << path;
    EXPECT_EQ(desk.post(path, R"({"reservation":-1})").status, 400u) << path;
    EXPECT_EQ(desk.post(path, R"({"reservation":"1"})").status, 400u) << path;
    EXPECT_EQ(desk.post(path, R"({"reservation":1})").status, 400u) << path;
    EXPECT_EQ(desk.post(path, R"({"reservation":"00000000000004d2-1"})").status, 404u) << path;
  }
  EXPECT_EQ(desk.post("/v1/sampling/release", R"({"reservation":"00000000000004d2-1","created":1})")
                .status,
            400u);
  EXPECT_EQ(desk.post("/v1/sampling/commit", R"({"reservation":"00000000000004d2-1","created":-1})")
                .status,
            400u);
}

TEST(SamplingReservations, LetWaitersInWhenTheyAreGivenBack) {
  SamplingDesk desk;
  const std::string reservation = text_at(desk.grant("r1", 6), "reservation");
  const std::string waiting =
      R"({"attributes":{"hotkey":"5F3s","revision":"r1","environment":"E","uid":"7"},"wait":"2h"})";
  desk.acquire(waiting);
  ASSERT_TRUE(desk.waiting);
  desk.acquire(waiting);
  ASSERT_TRUE(desk.waiting);
  EXPECT_EQ(
      desk.post("/v1/sampling/commit", R"({"reservation":")" + reservation + R"(","created":5})")
          .status,
      200u);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(text_at(desk.later[0], "verdict"), "allowed");
}

TEST(SamplingLevels, ShowEnvironmentsAndOneKey) {
  SamplingDesk desk;
  desk.grant("r1", 20);
  const boost::json::value all = parsed(desk.get("/v1/sampling").body);
  EXPECT_EQ(all.at("mode").as_string(), "strict");
  EXPECT_EQ(all.at("grants").as_string(), "capped");
  EXPECT_EQ(all.at("window_s").as_int64(), 3600);
  EXPECT_EQ(all.at("keys").as_int64(), 1);
  EXPECT_EQ(all.at("reservations").as_int64(), 1);
  EXPECT_EQ(boost::json::serialize(all.at("environments").at(0)),
            R"({"environment":"E","rotation_count":0,"rotation_interval":0,"sampling_count":288,)"
            R"("limit":6,"parent_limit":null,"burst":null,"grants":1,"granted":6,"refused":14})");
  EXPECT_FALSE(all.as_object().contains("key"));
  const Answer one = desk.get("/v1/sampling?hotkey=5F3s&revision=r1&environment=E&uid=7");
  EXPECT_THAT(one.body, HasSubstr(R"("key":{"granted":0,"wanted":0,"reason":"limited","count":6)"));
  EXPECT_EQ(desk.get("/v1/sampling?hotkey=5F3s").status, 400u);
  EXPECT_EQ(desk.get("/v1/sampling?hotkey=h&revision=r&environment=E&uid=x").status, 400u);
  EXPECT_EQ(desk.get("/v1/sampling?hotkey=h&revision=r&environment=E&uid=-5").status, 200u);
  EXPECT_EQ(desk.get("/v1/sampling?hotkey=h&revision=r&environment=X&uid=5").status, 404u);
}

}  // namespace
}  // namespace weir::wire::http
