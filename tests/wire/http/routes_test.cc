#include "weir/wire/http/routes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/wire/http/support.h"
#include "weir/wire/http/problem.h"
#include "weir/wire/http/query.h"
#include "weir/wire/http/read.h"

namespace weir::wire::http {
namespace {

using ::testing::HasSubstr;

// The path with something in the place of its parameter.
std::string filled(const Route& route) {
  std::string path(route.path);
  const std::size_t brace = path.find('{');
  if (brace == std::string::npos) return path;
  return path.replace(brace, path.find('}') - brace + 1, "per-client");
}

std::string page(std::string_view name) {
  std::ifstream file(fmt::format(WEIR_SOURCE_DIR "/docs/reference/{}.md", name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The page of a route: of its system, or http.md for what every server has.
std::string_view page_of(std::string_view path) {
  if (path.starts_with("/aux/")) return "contract";
  for (const std::string_view system : {"compute", "contract", "pool", "sampling", "throttle"}) {
    const std::string routes = fmt::format("/v1/{}", system);
    if (path == routes || path.starts_with(routes + "/")) return system;
  }
  return "http";
}

// --- roles

TEST(Routes, AreClosedToARoleBelowTheOneTheyNeed) {
  Desk desk(three_per_second());
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    for (const Role role : {Role::kNobody, Role::kObserve, Role::kDecide}) {
      if (role >= route.role) continue;
      desk.role = role;
      const Answer answer = desk.ask(route.method, filled(route), "{}");
      EXPECT_EQ(answer.status, role == Role::kNobody ? 401u : 403u) << route.name;
      EXPECT_EQ(answer.headers.empty(), role != Role::kNobody) << route.name;
      EXPECT_THAT(detail(answer), HasSubstr(fmt::format("role '{}'", to_string(route.role))));
    }
  }
  EXPECT_EQ(desk.host.reloads, 0);
}

TEST(Routes, AreOpenToTheRoleTheyNeed) {
  Desk desk(three_per_second());
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    desk.role = route.role;
    const unsigned status = desk.ask(route.method, filled(route), "{}").status;
    EXPECT_NE(status, 401u) << route.name;
    EXPECT_NE(status, 403u) << route.name;
  }
}

TEST(Routes, SayHowToAuthenticate) {
  Desk desk(three_per_second());
  desk.role = Role::kNobody;
  EXPECT_EQ(desk.acquire("{}").headers, "WWW-Authenticate: Bearer realm=\"weir\"\r\n");
}

// --- paths, methods, content

TEST(Routes, AnswerAnUnknownPathWith404) {
  Desk desk(three_per_second());
  for (const std::string_view path :
       {"", "/", "/v1", "/v1/acquire/", "/v1/%61cquire", "/V1/acquire", "/v1/overrides",
        "/v1/overrides/a/b", "*", "http://host/v1/acquire"}) {
    EXPECT_EQ(desk.post(path).status, 404u) << path;
  }
}

TEST(Routes, AnswerAnotherMethodWith405AndTheOnesAllowed) {
  Desk desk(three_per_second());
  const Answer answer = desk.get("/v1/acquire");
  EXPECT_EQ(answer.status, 405u);
  EXPECT_EQ(answer.headers, "Allow: POST\r\n");
  EXPECT_EQ(desk.post("/v1/limits").headers, "Allow: GET, HEAD\r\n");
  EXPECT_EQ(desk.post("/v1/overrides/x").headers, "Allow: PUT, DELETE\r\n");
  EXPECT_EQ(desk.ask("post", "/v1/acquire").status, 405u);
}

TEST(Routes, AnswerHeadLikeGetWithoutABody) {
  Desk desk(three_per_second());
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    if (route.method != "GET" || !route.takes_head) continue;
    const Answer get = desk.get(filled(route));
    const Answer head = desk.ask("HEAD", filled(route));
    EXPECT_EQ(head.status, get.status) << route.name;
    EXPECT_EQ(head.content_type, get.content_type) << route.name;
    EXPECT_EQ(head.headers, get.headers) << route.name;
    EXPECT_EQ(head.body, "") << route.name;
    EXPECT_FALSE(head.is_stream) << route.name;
  }
}

TEST(Routes, ReadJsonOnly) {
  Desk desk(three_per_second());
  for (const std::string_view type : {"application/json", "Application/JSON ; charset=utf-8"}) {
    desk.content_type = type;
    EXPECT_EQ(desk.acquire("{}").status, 200u) << type;
  }
  for (const std::string_view type :
       {"", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ";"}) {
    desk.content_type = type;
    EXPECT_EQ(desk.acquire("{}").status, 415u) << type;
  }
}

// A page can send a form, or a Blob that has no type; with these, only where it may.
TEST(Routes, ThatChangeSomethingWantATypeOrAFieldOfTheirOwn) {
  Desk desk(three_per_second());
  for (const Route* const route : desk.api.routes()) {
    const bool changes = route->method != "GET";
    for (const std::string_view type : {"", "text/plain"}) {
      desk.content_type = type;
      desk.fields = {};
      const Answer answer = desk.ask(route->method, filled(*route));
      EXPECT_EQ(answer.status == 415, changes) << route->name;
      desk.fields = {{"weir-request", "1"}};
      const bool is_wrong = type == "text/plain" && !route->body.empty();
      EXPECT_EQ(desk.ask(route->method, filled(*route)).status == 415, is_wrong) << route->name;
    }
    desk.content_type = "application/json";
    desk.fields = {};
    EXPECT_NE(desk.ask(route->method, filled(*route)).status, 415u) << route->name;
  }
  EXPECT_EQ(desk.host.reloads, 3);
  desk.content_type = "";
  EXPECT_THAT(detail(desk.post("/v1/reload", "")),
              HasSubstr("content-type is missing, but POST /v1/reload must come as JSON or with "
                        "'Weir-Request'"));
  EXPECT_THAT(detail(desk.post("/v1/reload", "")), HasSubstr("(curl --json)"));
}

TEST(Routes, ReadAMegabyteAndNoMore) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.acquire("{}" + std::string(kBodyBytesMax - 2, ' ')).status, 200u);
  EXPECT_EQ(desk.acquire("{}" + std::string(kBodyBytesMax - 1, ' ')).status, 413u);
}

TEST(Routes, ReadATargetOfEightKilobytesAndNoMore) {
  Desk desk(three_per_second());
  const std::string start = "/v1/meters?limit=per-client&key=";
  EXPECT_EQ(desk.get(start + std::string(kTargetBytesMax - start.size(), 'a')).status, 200u);
  EXPECT_EQ(desk.get(start + std::string(kTargetBytesMax - start.size() + 1, 'a')).status, 414u);
}

TEST(Routes, RefuseParametersTheyDoNotHave) {
  Desk desk(three_per_second());
  EXPECT_THAT(detail(desk.post("/v1/acquire?wait=5s")), HasSubstr("known are none"));
}

// --- what is made from the rows

TEST(Routes, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  Desk desk(three_per_second());
  for (const Route* const route : desk.api.routes()) {
    EXPECT_TRUE(names.insert(route->name).second) << route->name;
  }
}

TEST(ReferencePages, HaveARowForEveryRouteAndNoOther) {
  Desk desk(three_per_second());
  std::map<std::string_view, std::size_t> expected;
  for (const Route* const each : desk.api.routes()) {
    const Route& route = *each;
    const std::string row = fmt::format("| {} | `{}` | {} | {} |\n", route.method, route.path,
                                        to_string(route.role), route.summary);
    const std::string_view name = page_of(route.path);
    EXPECT_THAT(page(name), HasSubstr(row)) << name;
    expected[name] += 1;
  }
  EXPECT_EQ(expected.size(), 6u);
  for (const auto& [name, count] : expected) {
    std::size_t rows = 0;
    std::istringstream lines(page(name));
    for (std::string line; std::getline(lines, line);) {
      for (const std::string_view method : {"GET", "POST", "PUT", "DELETE"}) {
        rows += line.starts_with(fmt::format("| {} | `/", method)) ? 1 : 0;
      }
    }
    EXPECT_EQ(rows, count) << name;
  }
}

TEST(ReferencePage, HasARowForEveryProblem) {
  const std::string text = page("http");
  for (const ProblemRow& row : problems()) {
    EXPECT_THAT(text, HasSubstr(fmt::format("| {} | `{}` |", row.status, row.type)));
  }
}

}  // namespace
}  // namespace weir::wire::http
