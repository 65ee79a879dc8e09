// A default server and the pages that a browser on its machine shows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/server/http_client.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

// As a browser sends it, whatever the page asked for.
std::string sent(std::string_view line, std::string_view host, std::string_view fields,
                 std::string_view body = "") {
  return std::string(line) + " HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" +
         std::string(fields) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

constexpr std::string_view kReset = R"({"limit":"per-client","key":["acme"]})";
constexpr std::string_view kEvil = "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n";
// Of a browser that has no Sec-Fetch-Site.
constexpr std::string_view kEvilOfOld = "Origin: https://evil.example\r\n";
constexpr std::string_view kForm = "Content-Type: application/x-www-form-urlencoded\r\n";
constexpr std::string_view kJson = "Content-Type: application/json\r\n";

struct HostilePage : HttpTest {
  // What acme has used.
  std::int64_t used() {
    const std::string body = ask(get("/v1/meters?limit=per-client&key=acme")).body;
    const std::size_t at = body.find("\"remaining\":");
    EXPECT_NE(at, std::string::npos) << body;
    return 1'000'000 - std::stoll(body.substr(at + 12));
  }
  std::string joined(std::string_view a, std::string_view b) {
    return std::string(a) + std::string(b);
  }
};

TEST_F(HostilePage, ChangesNothingAndReadsNothing) {
  serve();
  ASSERT_EQ(ask(post("/v1/acquire", kAcme)).status, 200);
  const std::string here = address();
  const std::vector<std::string> requests = {
      // A form.
      sent("POST /v1/reload", here, joined(kEvil, kForm)),
      sent("POST /v1/reload", here, joined(kEvilOfOld, kForm)),
      sent("POST /v1/reset", here, joined(kEvil, "Content-Type: text/plain\r\n"), kReset),
      // fetch() with a Blob without a type, which a page may send unasked.
      sent("POST /v1/reset", here, kEvil, kReset),
      sent("POST /v1/reset", here, kEvilOfOld, kReset),
      sent("POST /v1/acquire", here, "Sec-Fetch-Site: cross-site\r\n", kAcme),
      // <img>, <script>, <link>: GET without an Origin.
      sent("GET /v1/authorize", here, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"),
      sent("GET /v1/authorize", here, "Sec-Fetch-Site: same-site\r\n"),
      sent("GET /v1/events", here, "Sec-Fetch-Site: cross-site\r\n"),
      // A sandboxed frame.
      sent("POST /v1/reset", here, "Origin: null\r\n", kReset),
      // A page whose name now leads here: same-origin for the browser.
      sent("GET /v1/limits", "evil.example:8080", "Sec-Fetch-Site: same-origin\r\n"),
      sent("GET /v1/limits", "evil.example:8080", ""),
      sent("POST /v1/reset", "evil.example:8080",
           joined("Origin: http://evil.example:8080\r\nSec-Fetch-Site: same-origin\r\n", kJson),
           kReset),
      sent("DELETE /v1/overrides/per-client?key=acme", "evil.example", kJson),
      // A preflight.
      sent("OPTIONS /v1/reset", here,
           joined(kEvil,
                  "Access-Control-Request-Method: POST\r\n"
                  "Access-Control-Request-Headers: content-type\r\n")),
  };
  for (const std::string& request : requests) {
    const HttpAnswer answer = ask(request);
    EXPECT_EQ(answer.status, 403) << request << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("urn:weir:forbidden")) << request;
    EXPECT_THAT(answer.body, HasSubstr("weir.yaml")) << "what to configure";
    EXPECT_EQ(answer.field("Access-Control-Allow-Origin"), "(missing)");
  }
  EXPECT_EQ(used(), 1);
  EXPECT_THAT(server->info(), HasSubstr("\r\nreloads:0\r\n"));
}

// A browser so old that it says nothing at all.
TEST_F(HostilePage, WithoutATypeIsNotTaken) {
  serve();
  for (const std::string_view fields : {std::string_view{}, kForm}) {
    for (const std::string_view line : {"POST /v1/acquire", "POST /v1/reload"}) {
      const HttpAnswer answer = ask(sent(line, address(), fields, kAcme));
      EXPECT_EQ(answer.status, 415) << line << answer.body;
      EXPECT_THAT(answer.body, HasSubstr("--json")) << line;
    }
  }
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(ask(sent("POST /v1/reload", address(), "Weir-Request: 1\r\n")).status, 200);
  EXPECT_EQ(ask(sent("POST /v1/acquire", address(), "weir-request: x\r\n", kAcme)).status, 200);
  EXPECT_EQ(used(), 1);
}

TEST_F(HostilePage, IsRefusedInPipelinesAndInChunks) {
  serve();
  HttpClient client(address());
  const std::string chunked = "POST /v1/acquire HTTP/1.1\r\nHost: " + address() +
                              "\r\nContent-Type: application/json\r\n" + std::string(kEvil) +
                              "Transfer-Encoding: chunked\r\n\r\n";
  client.send(get("/healthz") + sent("POST /v1/acquire", address(), kEvil, kAcme) + get("/readyz") +
              chunked);
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().status, 403);
  EXPECT_EQ(client.read().status, 200);
  // The header lies elsewhere by now.
  for (const std::string_view piece : {"1\r\n{\r\n", "1\r\n}\r\n0", "\r\n\r\n"}) {
    ASSERT_EQ(client.receive(1, 50), "");
    client.send(piece);
  }
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, HasSubstr("Origin is 'https://evil.example'"));
  EXPECT_EQ(client.ask(get("/healthz")).status, 200) << "the connection goes on";
}

TEST_F(HostilePage, IsNoneThatTheServerItselfShows) {
  serve();
  const std::string own = "Origin: http://" + address() + "\r\nSec-Fetch-Site: same-origin\r\n";
  EXPECT_EQ(ask(sent("POST /v1/acquire", address(), joined(own, kJson), kAcme)).status, 200);
  EXPECT_EQ(ask(sent("GET /v1/limits", address(), "Sec-Fetch-Site: same-origin\r\n")).status, 200);
  EXPECT_EQ(ask(sent("GET /v1/limits", "localhost", "Sec-Fetch-Site: none\r\n")).status, 200);
}

TEST_F(HostilePage, IsNoneThatIsConfigured) {
  const std::string settings =
      std::string(kListen) +
      "http: { origins: ['https://dash.example'], hosts: [weir.internal] }\n";
  start(settings);
  const std::string dash = "Origin: https://dash.example\r\nSec-Fetch-Site: cross-site\r\n";
  const std::string by_name = sent("GET /v1/limits", "weir.internal:8080", "");
  const std::string by_page = sent("POST /v1/acquire", address(), joined(dash, kJson), kAcme);
  EXPECT_EQ(ask(by_name).status, 200);
  EXPECT_EQ(ask(by_page).status, 200);
  // A reload changes it.
  write(kListen + std::string(kServerLimits));
  ASSERT_TRUE(server->reload("test"));
  EXPECT_EQ(ask(by_name).status, 403);
  EXPECT_EQ(ask(by_page).status, 403);
}

TEST_F(HostilePage, CannotReachAUnixSocketButAProxyCan) {
  start("listen: { http: 'unix:" + (dir / "socket").string() + "' }\n");
  EXPECT_EQ(ask(sent("GET /v1/limits", "whatever", "")).status, 200);
  EXPECT_EQ(ask(sent("GET /v1/limits", "whatever", kEvil)).status, 403);
}

TEST_F(HostilePage, NeedsNoHostInHttp10) {
  serve();
  const HttpAnswer answer = ask("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(ask("GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n").status, 403);
}

}  // namespace
}  // namespace weir::server
