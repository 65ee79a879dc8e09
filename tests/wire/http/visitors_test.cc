#include "weir/wire/http/visitors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using ::testing::HasSubstr;

const Visitors kConfigured{.origins = {"https://dash.example", "http://127.0.0.1:3000"},
                           .hosts = {"weir.internal"}};

bool is_answered(const Visit& visit, const Visitors& visitors = {}) {
  const bool answered = objection(visitors, visit).empty();
  EXPECT_LE(is_ordinary(visit), answered) << "what is ordinary is answered";
  return answered;
}

// --- names that the server is asked by

TEST(Visitors, AskByALoopbackNameOrALiteralAddress) {
  for (const std::string_view host :
       {"localhost", "localhost:8080", "LocalHost:1", "localhost.", "localhost.:80",
        "a.b.localhost:8080", "127.0.0.1", "127.0.0.1:8080", "10.1.2.3:65535", "0.0.0.0", "[::1]",
        "[::1]:8080", "[2001:DB8::7]:80", "[::ffff:10.0.0.1]", "[fe80::1%eth0]:80", ""}) {
    EXPECT_TRUE(is_answered({.host = host})) << host;
    EXPECT_TRUE(is_ordinary({.host = host})) << host;
  }
}

TEST(Visitors, AreRefusedWithAnAddressThatGoesOnAfterAZeroByte) {
  using namespace std::string_view_literals;
  for (const std::string_view host :
       {"127.0.0.1\0"sv, "127.0.0.1\0.evil.example:80"sv, "[::1\0]"sv}) {
    EXPECT_FALSE(is_answered({.host = host}));
  }
}

// A name leads wherever its owner says, also here: "DNS rebinding".
TEST(Visitors, AreRefusedWithAnyOtherName) {
  for (const std::string_view host : {"evil.example",
                                      "evil.example:8080",
                                      "weir.internal",
                                      "127.0.0.1.evil.example",
                                      "localhost.evil.example",
                                      "evillocalhost",
                                      "127.0.0.1:8080.evil.example",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:123456",
                                      "127.1",
                                      "0x7f.0.0.1",
                                      "127.0.0.1@evil.example",
                                      "[::1",
                                      "[localhost]",
                                      "[127.0.0.1]",
                                      "::1",
                                      "[]",
                                      ":80",
                                      ".",
                                      "[::1]x",
                                      "a b",
                                      "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]"}) {
    EXPECT_FALSE(is_answered({.host = host})) << host;
  }
}

TEST(Visitors, MayUseAConfiguredNameWithAnyPort) {
  for (const std::string_view host : {"weir.internal", "Weir.Internal:8080", "weir.internal.:80"}) {
    EXPECT_TRUE(is_answered({.host = host}, kConfigured)) << host;
  }
  for (const std::string_view host :
       {"a.weir.internal", "weir.internal.evil.example", "internal"}) {
    EXPECT_FALSE(is_answered({.host = host}, kConfigured)) << host;
  }
}

TEST(Visitors, OverAUnixSocketMayUseAnyName) {
  EXPECT_TRUE(is_answered({.host = "whatever", .over_unix = true}));
  EXPECT_FALSE(
      is_answered({.host = "evil.example", .origin = "http://evil.example", .over_unix = true}))
      << "a proxy may pass on what a browser sent";
  EXPECT_FALSE(is_answered({.host = "x", .fetch_site = "cross-site", .over_unix = true}));
}

// --- pages

TEST(Visitors, OfAPageOfTheServerItselfAreAnswered) {
  EXPECT_TRUE(is_answered({.host = "127.0.0.1:8080", .origin = "http://127.0.0.1:8080"}));
  EXPECT_TRUE(is_answered(
      {.host = "[::1]:8080", .origin = "http://[::1]:8080", .fetch_site = "same-origin"}));
  EXPECT_TRUE(is_answered({.host = "Localhost", .origin = "http://localhost"}));
  EXPECT_TRUE(is_answered({.host = "127.0.0.1", .fetch_site = "none"})) << "typed in";
  EXPECT_TRUE(
      is_answered({.host = "weir.internal", .origin = "http://weir.internal"}, kConfigured));
}

TEST(Visitors, OfAnotherPageAreRefused) {
  for (const std::string_view origin :
       {"https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:8081",
        "https://127.0.0.1:8080", "http://127.0.0.1:8080.evil.example", "http://localhost:8080",
        "127.0.0.1:8080", "file://"}) {
    EXPECT_FALSE(is_answered({.host = "127.0.0.1:8080", .origin = origin})) << origin;
  }
  EXPECT_FALSE(is_answered({.host = "evil.example:8080", .origin = "http://evil.example:8080"}));
}

TEST(Visitors, OfAConfiguredOriginAreAnswered) {
  for (const std::string_view site : {"", "same-origin", "same-site", "cross-site"}) {
    EXPECT_TRUE(is_answered(
        {.host = "127.0.0.1", .origin = "https://dash.example", .fetch_site = site}, kConfigured))
        << site;
  }
  EXPECT_TRUE(is_answered({.host = "127.0.0.1", .origin = "HTTPS://Dash.example"}, kConfigured));
  EXPECT_FALSE(is_answered({.host = "127.0.0.1", .origin = "http://dash.example"}, kConfigured));
  EXPECT_FALSE(
      is_answered({.host = "evil.example", .origin = "https://dash.example"}, kConfigured));
}

// Images, forms and scripts come without an Origin.
TEST(Visitors, OfAnotherSiteAreRefusedWithoutAnOrigin) {
  for (const std::string_view site : {"cross-site", "same-site", "Cross-Site", "whatever"}) {
    EXPECT_FALSE(is_answered({.host = "127.0.0.1", .fetch_site = site}, kConfigured)) << site;
    EXPECT_FALSE(is_answered(
        {.host = "127.0.0.1", .origin = "http://127.0.0.1", .fetch_site = site}, kConfigured))
        << site;
  }
}

// --- what they are told

TEST(Visitors, AreToldWhatToConfigure) {
  EXPECT_EQ(objection({}, {.host = "evil.example:8080"}),
            "header: Host is 'evil.example:8080', but it must be a literal address, 'localhost' or "
            "a name in http.hosts, so that no other name leads a browser here; ask by one of "
            "those, or add the name to 'http: { hosts: [...] }' in weir.yaml");
  EXPECT_THAT(objection({}, {.host = "[::1]", .origin = "https://evil.example"}),
              HasSubstr("Origin is 'https://evil.example', but"));
  EXPECT_THAT(objection({}, {.host = "[::1]", .origin = "x"}),
              HasSubstr("http: { origins: [...] }"));
  EXPECT_THAT(objection({}, {.host = "[::1]", .fetch_site = "cross-site"}),
              HasSubstr("Sec-Fetch-Site is 'cross-site' without an Origin"));
}

TEST(Visitors, AreToldABoundedPartOfWhatTheySent) {
  const std::string much(5000, 'x');
  EXPECT_LT(objection({}, {.host = much}).size(), 400u);
  EXPECT_LT(objection({}, {.origin = much}).size(), 400u);
  EXPECT_LT(objection({}, {.fetch_site = much}).size(), 400u);
}

TEST(Visitors, AreRefusedBeforeAnythingElseIsLookedAt) {
  Desk desk(three_per_second());
  desk.visit = {.host = "evil.example"};
  for (const Route* const route : desk.api.routes()) {
    const Answer answer = desk.ask(route->method, route->path);
    EXPECT_EQ(answer.status, 403u) << route->name;
    EXPECT_EQ(text_at(answer, "type"), "urn:weir:forbidden") << route->name;
    EXPECT_EQ(answer.route, desk.api.routes().size()) << route->name;
  }
  EXPECT_EQ(desk.get("/no/such/path").status, 403u);
  EXPECT_EQ(desk.host.reloads, 0);
  desk.visit = {.host = "\"\x01\xff"};
  EXPECT_THAT(detail(desk.get("/healthz")), HasSubstr("Host is '\"?\xef\xbf\xbd'"));
}

TEST(Visitors, AreWhomTheApiAdmitsFromNowOn) {
  Desk desk(three_per_second(), {.visitors = {.hosts = {"first.example"}}});
  desk.visit = {.host = "first.example"};
  EXPECT_EQ(desk.get("/healthz").status, 200u);
  desk.api.admit({.hosts = {"second.example"}});
  EXPECT_EQ(desk.get("/healthz").status, 403u);
  desk.visit = {.host = "second.example:80"};
  EXPECT_EQ(desk.get("/healthz").status, 200u);
}

}  // namespace
}  // namespace weir::wire::http
