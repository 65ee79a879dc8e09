// A server as those meet it who mean harm or take no care: what they can change, keep, fill and
// read. (What a page of a browser can do over HTTP is in visitors_test.cc.)

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/server/http_client.h"
#include "tests/support/process.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temporary_directory.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct HostileTest : HttpTest {
  static constexpr const char* kBoth = "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\n";
  static constexpr const char* kTokens =
      "auth: [ { token: for-deciding, role: decide }, { token: for-all, role: admin } ]\n";

  void serve_both(const std::string& settings) { start(kBoth + settings); }
  // Over unix sockets, where who guesses many tokens is not slowed (see guessing_test.cc).
  void serve_guessers() {
    const auto socket = [&](const char* name) { return "\"unix:" + (dir / name).string() + "\""; };
    start("listen: { resp: " + socket("resp") + ", http: " + socket("http") + " }\n" + kTokens);
  }
  std::string resp() const { return server->addresses()[0]; }
  std::string http() const { return server->addresses()[1]; }

  std::int64_t metric(const std::string& name) const {
    const std::string text = server->metrics();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
  }
  // Sent one after the other, with nothing between: a client that sends and then looks.
  static std::string repeated(std::string_view command, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += command;
    return all;
  }
  static std::size_t number_of(std::string_view part, const std::string& in) {
    std::size_t count = 0;
    for (std::size_t at = in.find(part); at != std::string::npos; at = in.find(part, at + 1)) {
      count += 1;
    }
    return count;
  }
};

// --- a page that makes a browser speak to the RESP port of a server without tokens

TEST_F(HostileTest, PageChangesKeepsAndReadsNothingOverResp) {
  serve_both("");
  ASSERT_THAT(Client(resp()).ask_until("WEIR.ACQUIRE client=acme\r\n", "999999\r\n"),
              HasSubstr("allowed"));
  const std::string commands =
      "WEIR.RESET per-client client=acme\r\nWEIR.ACQUIRE client=victim HOLD 60s\r\n"
      "WEIR.ACQUIRE worker=w WAIT 60s\r\nCL.THROTTLE victim 1 1 60\r\nWEIR.RELOAD\r\n"
      "WEIR.HEAVIEST per-client\r\n";
  const std::string rest = " HTTP/1.1\r\nHost: " + resp() + "\r\nOrigin: https://evil.example\r\n";
  const std::string with_length =
      rest + "Content-Length: " + std::to_string(commands.size()) + "\r\n\r\n" + commands;
  for (const std::string& request : {
           "POST /" + with_length,
           "POST /WEIR.RELOAD" + with_length,
           "PUT /" + with_length,
           "OPTIONS /" + with_length,
           "GET /WEIR.ACQUIRE?client=victim" + rest + "\r\n",
           "GET / HTTP/1.1\r\nHost: " + resp() +
               "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + commands,
           // A header that a script may choose, in front of everything else.
           "POST / HTTP/1.1\r\nX: \"\r\nWEIR.RELOAD: 1\r\n" + with_length,
       }) {
    Client page(resp());
    page.send(request);
    EXPECT_EQ(page.receive(100'000), "") << request;
  }
  EXPECT_EQ(server->engine().usage().keys, 1u) << "that of acme";
  EXPECT_EQ(server->engine().usage().holds, 0u);
  EXPECT_EQ(server->engine().usage().waiters, 0u);
  EXPECT_THAT(server->info(), HasSubstr("\r\nreloads:0\r\n"));
  EXPECT_THAT(Client(resp()).ask_until("WEIR.INSPECT per-client client=acme\r\n", "waiters\r\n"),
              HasSubstr(":999999\r\n"));
  EXPECT_TRUE(eventually([&] { return metric("weir_connections{protocol=\"resp\"}") == 0; }));
}

// --- a client without a token, where there are tokens

TEST_F(HostileTest, ClientWithoutATokenChangesAndReadsNothingOverResp) {
  serve_guessers();
  for (const std::string& token :
       {std::string(), std::string("AUTH guess\r\n"), "AUTH " + std::string(512, 'x') + "\r\n"}) {
    Client stranger(resp());
    for (const std::string_view command :
         {"WEIR.ACQUIRE client=acme", "WEIR.ACQUIRE client=acme HOLD 60s",
          "WEIR.ACQUIRE worker=w WAIT 60s", "CL.THROTTLE acme 1 1 60", "WEIR.PEEK client=acme",
          "WEIR.SETTLE 0-1", "WEIR.CANCEL 0-1", "WEIR.RENEW 0-1 60s", "WEIR.INSPECT per-client",
          "WEIR.HEAVIEST per-client", "WEIR.RESET per-client client=acme", "WEIR.RELOAD", "INFO",
          "CONFIG GET *", "PING", "ECHO x", "SELECT 0", "MULTI", "EXEC"}) {
      stranger.send(token + std::string(command) + "\r\n");
      if (!token.empty()) {
        EXPECT_THAT(stranger.receive_until("\r\n"), StartsWith("-WRONGPASS"));
      }
      // EXEC says why the MULTI before it was refused.
      EXPECT_THAT(stranger.receive_until("\r\n"), MatchesRegex("-(EXECABORT.* )?NOAUTH.*\r\n"))
          << command;
    }
    // What it may do tells nothing about the limits.
    stranger.send("HELLO 3\r\nCOMMAND DOCS\r\nCLIENT ID\r\nRESET\r\nQUIT\r\n");
    EXPECT_THAT(stranger.receive(1'000'000), Not(HasSubstr("per-client")));
  }
  EXPECT_EQ(server->engine().usage().keys, 0u);
  EXPECT_EQ(server->engine().usage().holds, 0u);
  EXPECT_EQ(server->engine().usage().waiters, 0u);
  EXPECT_THAT(server->info(), HasSubstr("\r\nreloads:0\r\n"));
}

TEST_F(HostileTest, ClientWithoutATokenChangesAndReadsNothingOverHttp) {
  serve_guessers();
  for (const std::string_view token :
       {"", "Authorization: Bearer guess\r\n", "Authorization: Basic Zm9yLWFsbA==\r\n",
        "Authorization: Bearer\r\n"}) {
    HttpClient stranger(http());
    for (const std::string& request :
         {post("/v1/acquire", kAcme, token), post("/v1/acquire", kPatient, token),
          post("/v1/batch", R"({"requests":[{"attributes":{"client":"acme"}}]})", token),
          post("/v1/peek", kAcme, token), get("/v1/authorize", token),
          post("/v1/settle", R"({"hold":"0-1"})", token), get("/v1/limits", token),
          get("/v1/meters?limit=per-client&key=acme", token),
          post("/v1/reset", R"({"limit":"per-client","key":["acme"]})", token),
          with_body("PUT", "/v1/overrides/per-client?key=acme",
                    R"({"kind":"window","limit":1,"every":"1m"})", token),
          with_body("DELETE", "/v1/overrides/per-client?key=acme", "", token),
          post("/v1/reload", "", token), get("/v1/events", token), get("/metrics", token),
          get("/openapi.json", token)}) {
      const HttpAnswer answer = stranger.ask(request);
      EXPECT_EQ(answer.status, 401) << request;
      EXPECT_THAT(answer.body, Not(HasSubstr("1000000"))) << request;
    }
    for (const std::string_view open : {"/healthz", "/readyz"}) {
      const HttpAnswer answer = stranger.ask(get(open, token));
      EXPECT_EQ(answer.status, 200);
      EXPECT_THAT(answer.body, Not(HasSubstr("per-client")));
    }
  }
  EXPECT_EQ(server->engine().usage().keys, 0u);
  EXPECT_EQ(server->engine().usage().holds, 0u);
  EXPECT_THAT(server->info(), HasSubstr("\r\nreloads:0\r\n"));
}

// The kernel would take 4 MB of replies for each, and once it has too much, no connection of the
// machine gets any.
TEST_F(HostileTest, ClientWithoutATokenLeavesLittleInTheKernelToo) {
  serve_both(kTokens);
  Client stranger(resp());
  const std::string many = repeated("COMMAND DOCS\r\n", 1000);  // for 4 MB of replies
  ASSERT_TRUE(stranger.send(many));
  ASSERT_TRUE(eventually([&] { return metric("weir_unread_reply_bytes") > 0; }));
  // Its own kernel takes some, and so does ours.
  EXPECT_LT(metric("weir_sent_bytes_total{protocol=\"resp\"}"), 500'000);
  EXPECT_LT(metric("weir_unread_reply_bytes"), 2 * 16'384);
}

// What a process has resident now, or at most since it began (`VmHWM`).
std::size_t resident_bytes(pid_t process, std::string_view which = "VmRSS") {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(which)) return std::stoull(line.substr(which.size() + 1)) << 10;
  }
  return 0;
}

// As many files as the system grants this process, for as long as a test runs.
struct ManyFiles {
  ManyFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit most = before;
    most.rlim_cur = before.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &most) == 0) files = most.rlim_cur;
  }
  ~ManyFiles() { ::setrlimit(RLIMIT_NOFILE, &before); }

  rlimit before{};
  std::size_t files = 256;
};

// Connects with a small window, so that its own kernel takes little in its stead, and sends
// without ever reading.
class Hoarder {
 public:
  Hoarder(std::uint16_t port, std::string_view bytes) : left_(bytes) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 1024;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Hoarder() { ::close(socket_); }
  Hoarder(const Hoarder&) = delete;
  Hoarder& operator=(const Hoarder&) = delete;

  bool is_connected() const { return is_connected_; }
  // As much as is taken at the moment.
  void send_more() {
    while (!left_.empty()) {
      const auto sent = ::send(socket_, left_.data(), left_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return;
      left_.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

 private:
  std::string_view left_;
  int socket_ = -1;
  bool is_connected_ = false;
};

// The program itself, so that its memory is its own. Of the default bounds only `slow` is longer:
// else it closes the first of them before the last have come.
TEST_F(HostileTest, TenThousandClientsWithoutATokenTakeLessThanAGibibyte) {
  const ManyFiles files;
  // Room for those with a token: at 10,000 connections everybody is refused.
  const std::size_t wanted = kSanitized ? 400 : 9'900;
  const std::size_t hoarders = std::min(wanted, files.files - 200);
  const TemporaryDirectory folder;
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < 2; ++i) {
    // Free a moment ago: a server in this process had them.
    start("listen: { resp: 127.0.0.1:0, http: none }\n");
    ports.push_back(static_cast<std::uint16_t>(std::stoi(address().substr(10))));
    server.reset();
  }
  const std::string resp_address = "127.0.0.1:" + std::to_string(ports[0]);
  std::ofstream((folder / "weir.yaml").string())
      << "listen: { resp: " << resp_address << ", http: 127.0.0.1:" << ports[1] << " }\n"
      << kTokens << "bounds: { slow: 5m }\n"
      << kServerLimits;
  const Process weir({WEIR_PROGRAM, "serve", (folder / "weir.yaml").string()});
  ASSERT_TRUE(eventually([&] { return Client(resp_address).is_connected(); })) << weir.said();
  const std::size_t before = resident_bytes(weir.id());

  const std::string unread = repeated("COMMAND DOCS\r\n", 1000);
  const std::string half = "*2\r\n$4\r\nAUTH\r\n$16000\r\n" + std::string(15'900, 'x');
  const std::string half_body =
      "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX: " +
      std::string(4'000, 'x') + "\r\nContent-Length: 12000\r\n\r\n" + std::string(11'900, 'x');
  const std::string refused = repeated(get("/v1/limits"), 1000);
  std::vector<std::unique_ptr<Hoarder>> all;
  for (std::size_t i = 0; i < hoarders; ++i) {
    const std::string_view bytes[] = {unread, refused, half, half_body};
    all.push_back(std::make_unique<Hoarder>(ports[i % 2], bytes[i % 4]));
    ASSERT_TRUE(all.back()->is_connected()) << i;
  }
  // Until two seconds have brought nothing more.
  std::size_t most = 0;
  for (int quiet = 0; quiet < 20; ++quiet) {
    for (const auto& each : all) each->send_more();
    std::this_thread::sleep_for(100ms);
    const std::size_t now = resident_bytes(weir.id(), "VmHWM");
    if (now > most) quiet = 0;
    most = std::max(most, now);
  }
  const std::size_t taken = most - before;
  RecordProperty("connections", static_cast<int>(hoarders));
  RecordProperty("mebibytes", static_cast<int>(taken >> 20));
  if (!kSanitized) {
    EXPECT_LT(taken, std::size_t{1} << 30);
    EXPECT_LT(taken / hoarders, 64u << 10) << "bytes for each of " << hoarders;
  }

  // Those with a token are served: all at once, and a hundred times each.
  std::vector<std::unique_ptr<Client>> polite;
  for (int i = 0; i < 10; ++i) {
    polite.push_back(std::make_unique<Client>(resp_address));
    ASSERT_EQ(polite.back()->ask("AUTH for-deciding\r\n", 5), "+OK\r\n") << i;
  }
  for (int round = 0; round < 100; ++round) {
    for (const auto& each : polite) each->send("WEIR.ACQUIRE client=acme\r\nPING\r\n");
    for (const auto& each : polite) {
      ASSERT_THAT(each->receive_until("+PONG\r\n"), HasSubstr("allowed")) << round;
    }
  }
  polite[0]->send("INFO clients\r\n");
  EXPECT_THAT(polite[0]->receive_until("refused_clients"),
              HasSubstr("connected_clients:" + std::to_string(hoarders + 10) + "\r\n"));
  // And once they leave, nothing is kept for them.
  all.clear();
  EXPECT_TRUE(eventually([&] {
    polite[0]->send("INFO clients\r\n");
    return polite[0]->receive_until("blocked_clients").find("connected_clients:10\r\n") !=
           std::string::npos;
  }));
}

// --- a client with the role decide that takes no care

struct ClumsyClient : HostileTest {
  std::unique_ptr<Client> with_token() {
    auto client = std::make_unique<Client>(resp());
    EXPECT_EQ(client->ask("AUTH for-deciding\r\n", 5), "+OK\r\n");
    return client;
  }
  // What `commands` are answered, on a connection of their own, read while they are sent.
  std::string replies_to(const std::string& commands) {
    const auto client = with_token();
    std::thread sender([&] { client->send(commands + "QUIT\r\n"); });
    std::string replies = client->receive(100'000'000);
    sender.join();
    return replies;
  }
  void expect_that_others_are_served() {
    EXPECT_THAT(replies_to("WEIR.ACQUIRE client=neighbour\r\n"), HasSubstr("allowed"));
    EXPECT_EQ(HttpClient(http()).ask(post("/v1/acquire", kAcme, kMay)).status, 200);
  }
  static constexpr std::string_view kMay = "Authorization: Bearer for-deciding\r\n";
};

TEST_F(ClumsyClient, ChangesNoRuleNoKeyAndNoConfiguration) {
  serve_both(kTokens);
  expect_that_others_are_served();
  const auto client = with_token();
  for (const std::string_view command : {"WEIR.RESET per-client client=acme", "WEIR.RELOAD"}) {
    EXPECT_THAT(client->ask_until(std::string(command) + "\r\n", "\r\n"), StartsWith("-NOPERM"));
  }
  HttpClient over_http(http());
  for (const std::string& request :
       {post("/v1/reset", R"({"limit":"per-client","key":["acme"]})", kMay),
        with_body("PUT", "/v1/overrides/per-client?key=acme",
                  R"({"kind":"window","limit":1,"every":"1m"})", kMay),
        with_body("DELETE", "/v1/overrides/per-client?key=acme", "", kMay),
        post("/v1/reload", "", kMay)}) {
    EXPECT_EQ(over_http.ask(request).status, 403) << request;
  }
  EXPECT_THAT(over_http.ask(get("/v1/meters?limit=per-client&key=acme", kMay)).body,
              HasSubstr(R"("remaining":999999,"capacity":1000000,"overridden":false)"));
  EXPECT_THAT(server->info(), HasSubstr("\r\nreloads:0\r\n"));
}

TEST_F(ClumsyClient, HoldsAsMuchAsTheBoundOfHolds) {
  serve_both(std::string(kTokens) + "bounds: { holds: 100 }\n");
  const std::string replies = replies_to(repeated("WEIR.ACQUIRE client=a HOLD 60s\r\n", 500));
  EXPECT_EQ(number_of("allowed", replies), 100u);
  EXPECT_EQ(number_of("-EXHAUSTED", replies), 400u);
  EXPECT_EQ(server->engine().usage().holds, 100u);
  expect_that_others_are_served();
  // Refused, they cost nothing.
  EXPECT_THAT(replies_to("WEIR.INSPECT per-client client=a\r\n"), HasSubstr(":999900\r\n"));
}

TEST_F(ClumsyClient, WaitsAsOftenAsTheBoundOfWaiting) {
  serve_both(std::string(kTokens) + "bounds: { waiting: 10 }\n");
  ASSERT_THAT(replies_to("WEIR.ACQUIRE worker=w\r\n"), HasSubstr("allowed"));
  std::vector<std::unique_ptr<Client>> waiting;
  for (int i = 0; i < 10; ++i) {
    waiting.push_back(with_token());
    // Of a pipeline only the first waits, whatever stands behind it.
    waiting.back()->send(repeated("WEIR.ACQUIRE worker=w WAIT 60s\r\n", 20));
  }
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 10; }));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(replies_to("WEIR.ACQUIRE worker=w WAIT 60s\r\n"), HasSubstr("overloaded"));
  }
  EXPECT_EQ(server->engine().usage().waiters, 10u);
  expect_that_others_are_served();
  // A client that leaves gives up its place.
  waiting.clear();
  EXPECT_TRUE(eventually([&] { return server->engine().usage().waiters == 0; }));
}

TEST_F(ClumsyClient, InventsNoMoreKeysThanTheBoundOfKeys) {
  serve_both(std::string(kTokens) + "bounds: { keys: 1000 }\n");
  expect_that_others_are_served();
  std::string commands;
  for (int i = 0; i < 6000; ++i) {
    commands += "WEIR.ACQUIRE client=" + std::to_string(i) + "\r\nCL.THROTTLE " +
                std::to_string(i) + " 1 1 86400\r\n";
  }
  const std::string replies = replies_to(commands);
  const std::size_t keys = server->engine().usage().keys;
  // About: each of 256 parts has its share, an eighth and a few more for each limit.
  EXPECT_LE(keys, 1000u * 9 / 8 + 3 * 256 * 9);
  // Two keys were there before.
  EXPECT_EQ(12'000 - number_of("-EXHAUSTED", replies), keys - 2);
  // Those whose keys are there go on.
  expect_that_others_are_served();
}

TEST_F(ClumsyClient, AsksForNoMoreAtOnceThanTheBoundsOfOneRequest) {
  serve_both(std::string(kTokens) + "bounds: { batch: 10, request_bytes: 2000 }\n");
  const auto batch = [&](std::size_t requests) {
    std::string body = R"({"requests":[)";
    for (std::size_t i = 0; i < requests; ++i) body += (i == 0 ? "" : ",") + std::string(kAcme);
    return HttpClient(http()).ask(post("/v1/batch", body + "]}", kMay)).status;
  };
  EXPECT_EQ(batch(10), 200);
  EXPECT_EQ(batch(11), 413);
  EXPECT_EQ(batch(100), 413) << "more than 2,000 bytes";
  const auto large = with_token();
  EXPECT_THAT(large->ask_until("*2\r\n$4\r\nECHO\r\n$2001\r\n", "\r\n"),
              StartsWith("-ERR Protocol error"));
  EXPECT_TRUE(large->is_closed_within(kPatienceMs));
  const auto words = with_token();
  EXPECT_THAT(words->ask_until("*1025\r\n", "\r\n"), StartsWith("-ERR Protocol error"));
  const auto transaction = with_token();
  transaction->send("MULTI\r\n" + repeated("WEIR.ACQUIRE client=acme\r\n", 1000) + "EXEC\r\n");
  EXPECT_THAT(transaction->receive_until("-EXECABORT"), HasSubstr("-EXHAUSTED"));
  EXPECT_THAT(replies_to("WEIR.INSPECT per-client client=acme\r\n"), HasSubstr(":999990\r\n"))
      << "the ten of the batch that was small enough";
  expect_that_others_are_served();
}

TEST_F(ClumsyClient, LeavesNoMoreUnreadThanTheBoundsOfReplies) {
  serve_both(std::string(kTokens) +
             "bounds: { reply_bytes: 30000, reply_bytes_all: 1048576, slow: 2s }\n");
  constexpr int kClients = 60;  // all together beyond the second bound, with 30,000 each
  std::vector<std::unique_ptr<Client>> unread;
  for (int i = 0; i < kClients; ++i) unread.push_back(with_token());
  // All at once, for 8 MB of replies each.
  const std::string commands = repeated("COMMAND DOCS\r\n", 2000);
  for (const auto& client : unread) client->send(commands, false);
  std::int64_t most = 0;
  EXPECT_TRUE(eventually([&] {
    most = std::max(most, metric("weir_unread_reply_bytes"));
    // Each is closed: at once, where all have too much, or else without progress for two seconds.
    const bool are_closed = most > 0 && metric("weir_connections{protocol=\"resp\"}") == 0;
    expect_that_others_are_served();
    return are_closed;
  }));
  EXPECT_GT(most, 30'000);
  EXPECT_LE(most, 1'048'576);
  EXPECT_GT(metric("weir_connections_overfull_total"), 0);
  EXPECT_EQ(metric("weir_unread_reply_bytes"), 0);
  // Nine tenths were never made.
  EXPECT_LT(metric("weir_sent_bytes_total{protocol=\"resp\"}"), kClients * 800'000);
}

TEST_F(ClumsyClient, OpensNoMoreStreamsAndConnectionsThanTheirBounds) {
  serve_both(std::string(kTokens) + "bounds: { connections: 10, streams: 5 }\n");
  std::vector<std::unique_ptr<HttpClient>> streams;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(std::make_unique<HttpClient>(http()));
    streams.back()->send(get("/v1/events", kMay));
    EXPECT_EQ(streams.back()->receive(12), "HTTP/1.1 200") << i;
  }
  auto neighbour = with_token();
  std::vector<std::unique_ptr<HttpClient>> more;
  for (int i = 0; i < 4; ++i) {
    more.push_back(std::make_unique<HttpClient>(http()));
    EXPECT_EQ(more.back()->ask(get("/v1/events", kMay)).status, 503) << i;
  }
  EXPECT_EQ(HttpClient(http()).read().status, 503);
  EXPECT_THAT(Client(resp()).receive_until("\r\n"), HasSubstr("max number of clients"));
  // Who was there before goes on.
  EXPECT_THAT(neighbour->ask_until("WEIR.ACQUIRE client=neighbour\r\n", "999999\r\n"),
              HasSubstr("allowed"));
}

}  // namespace
}  // namespace weir::server
