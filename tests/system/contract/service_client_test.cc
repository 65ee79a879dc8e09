// Answers over real sockets: good, bad, none, too long, too slow.

#include "weir/system/contract/service_client.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/system/contract/remote_service.h"
#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ServiceClientTest : ::testing::Test {
  ServiceOptions options() const {
    return {.url = service.url() + "/",
            .user_id = "u 1",
            .token_url = service.url() + "/token",
            .client_id = "me&you",
            .client_secret = "a+b",
            .transfer = {.timeout = 60s}};
  }
  Fetched ask(Fetch what = Fetch::kContract, const std::string& token = "t") {
    return ServiceClient(options()).fetch(what, token);
  }

  RemoteService service;
};

TEST_F(ServiceClientTest, AsksForATokenWithItsCredentialsInTheBody) {
  const Fetched reply = ask(Fetch::kToken, "");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(read_access_token(reply.body)->token, "token-1");
  EXPECT_EQ(service.asked().at(0),
            "POST /token - grant_type=client_credentials&client_id=me%26you&client_secret=a%2Bb");
}

TEST_F(ServiceClientTest, AsksForDocumentsOfItsUserWithTheToken) {
  ServiceClient client(options());
  EXPECT_EQ(client.fetch(Fetch::kContract, "one").status, 200);
  EXPECT_EQ(client.fetch(Fetch::kTokenCounts, "two").status, 200);
  EXPECT_EQ(client.fetch(Fetch::kContractTypes, "three").status, 200);
  EXPECT_EQ(service.asked().at(0), "GET /aux/ratelimit/contract?userId=eq%3Au%201 Bearer one ");
  EXPECT_EQ(service.asked().at(1), "GET /aux/ratelimit/statistics/tokenCounts/u%201 Bearer two ");
  EXPECT_EQ(service.asked().at(2), "GET /aux/ratelimit/contract/types Bearer three ");
}

TEST_F(ServiceClientTest, HasATokenOfItsOwnWhereNoneIsGranted) {
  ServiceOptions with = options();
  with.bearer = "fixed";
  ServiceClient(with).fetch(Fetch::kContract, "");
  ServiceClient(options()).fetch(Fetch::kContract, "");
  EXPECT_THAT(service.asked().at(0), HasSubstr(" Bearer fixed "));
  EXPECT_THAT(service.asked().at(1), HasSubstr(" - "));
}

TEST_F(ServiceClientTest, SaysWhyThereIsNoAnswer) {
  service.stop();
  const Fetched reply = ask();
  EXPECT_EQ(reply.status, 0);
  EXPECT_THAT(reply.body, HasSubstr("Failed to connect"));
}

TEST_F(ServiceClientTest, DoesNotWaitLongerThanTheTimeout) {
  ServiceOptions hasty = options();
  hasty.transfer.timeout = 300ms;
  for (const char* mode : {"slow", "drip"}) {
    service.behave(mode);
    const Fetched reply = ServiceClient(hasty).fetch(Fetch::kContract, "t");
    EXPECT_EQ(reply.status, 0) << mode;
    EXPECT_THAT(reply.body, HasSubstr("timed out")) << mode;
  }
}

TEST_F(ServiceClientTest, PassesStatusesOn) {
  service.behave("status 500");
  EXPECT_EQ(ask().status, 500);
  service.behave("status 404");
  EXPECT_EQ(ask().status, 404);
}

TEST_F(ServiceClientTest, ReadsARetryAfterInTheServicesUnit) {
  service.behave("status 429 Retry-After=3398");
  EXPECT_EQ(ask().retry_after, 3398ms);
  ServiceOptions as_http = options();
  as_http.retry_after = RetryAfterUnit::kSeconds;
  EXPECT_EQ(ServiceClient(as_http).fetch(Fetch::kContract, "t").retry_after, 3398s);
  service.behave("status 503 Retry-After=Wed,_01_Jan_2098_00:00:00_GMT");
  EXPECT_EQ(ask().retry_after, 24h) << "a date far away counts as a day";
  service.behave("status 503 Retry-After=soon");
  EXPECT_EQ(ask().retry_after, std::nullopt);
  service.behave("status 503");
  EXPECT_EQ(ask().retry_after, std::nullopt);
}

TEST_F(ServiceClientTest, FollowsNoRedirect) {
  service.behave("status 302 Location=/elsewhere");
  EXPECT_EQ(ask().status, 302);
  EXPECT_EQ(service.asked().size(), 1u);
}

TEST_F(ServiceClientTest, ReadsNoMoreThanADocumentMayHave) {
  service.behave("huge");
  const Fetched reply = ask();
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.body, "more than 8388608 bytes, as many as are read");
}

TEST_F(ServiceClientTest, SendsNoTokenThatAHeaderCannotCarry) {
  const Fetched reply = ask(Fetch::kContract, "a\r\nHost: elsewhere");
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.body, "the access token has control characters");
  EXPECT_THAT(service.asked(), IsEmpty());
}

TEST_F(ServiceClientTest, IsCancelledWhileItWaits) {
  service.behave("slow");
  ServiceOptions patient = options();
  patient.transfer.timeout = 1h;
  ServiceClient client(patient);
  Fetched reply{-1};
  std::thread waiting([&] { reply = client.fetch(Fetch::kContract, "t"); });
  EXPECT_TRUE(eventually([&] { return !service.asked().empty(); }));
  client.cancel();
  waiting.join();
  EXPECT_EQ(reply.status, 0);
  EXPECT_EQ(reply.body, "cancelled");
  EXPECT_EQ(client.fetch(Fetch::kContract, "t").body, "cancelled");
}

// --- TLS

struct TlsTest : ::testing::Test {
  // A certificate of its own for `name`, with the key behind it.
  std::string certificate(const std::string& name) const {
    const std::string path = (dir / "service.pem").string();
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=service -addext subjectAltName=" +
        name + " -keyout '" + path + "' -out '" + path + ".crt' 2>/dev/null && cat '" + path +
        ".crt' >> '" + path + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return path;
  }
  std::string authority() const { return (dir / "service.pem.crt").string(); }
  static Fetched ask(const RemoteService& service, fetch::TransferOptions transfer) {
    transfer.timeout = 60s;
    return ServiceClient({.url = service.url(), .transfer = std::move(transfer)})
        .fetch(Fetch::kContract, "t");
  }

  TemporaryDirectory dir;
};

TEST_F(TlsTest, VerifiesTheCertificateUnlessToldNotTo) {
  const RemoteService service(certificate("IP:127.0.0.1"));
  const Fetched refused = ask(service, {});
  EXPECT_EQ(refused.status, 0);
  EXPECT_THAT(refused.body, HasSubstr("certificate"));
  EXPECT_THAT(service.asked(), IsEmpty()) << "the token was not sent";
  EXPECT_EQ(ask(service, {.ca_file = authority()}).status, 200);
  EXPECT_EQ(ask(service, {.verify = false}).status, 200);
}

TEST_F(TlsTest, VerifiesThatTheCertificateIsTheHosts) {
  const RemoteService service(certificate("DNS:elsewhere.example.org"));
  const Fetched refused = ask(service, {.ca_file = authority()});
  EXPECT_EQ(refused.status, 0);
  EXPECT_THAT(refused.body, AnyOf(HasSubstr("subject name"), HasSubstr("certificate")));
  EXPECT_THAT(service.asked(), IsEmpty());
}

// --- texts

TEST(RetryAfter, IsANumberInItsUnit) {
  EXPECT_EQ(parse_retry_after("0", RetryAfterUnit::kSeconds), 0s);
  EXPECT_EQ(parse_retry_after("12", RetryAfterUnit::kSeconds), 12s);
  EXPECT_EQ(parse_retry_after("12", RetryAfterUnit::kMilliseconds), 12ms);
  EXPECT_EQ(parse_retry_after("86400001", RetryAfterUnit::kMilliseconds), 24h);
  EXPECT_EQ(parse_retry_after("99999999999999999999999", RetryAfterUnit::kMilliseconds), 24h);
  for (const char* text : {"", "-1", "1.5", "soon", " 1"}) {
    EXPECT_EQ(parse_retry_after(text, RetryAfterUnit::kSeconds), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace weir::system::contract
