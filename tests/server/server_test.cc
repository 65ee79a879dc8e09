#include "weir/server/server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <netinet/tcp.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/support.h"
#include "weir/testing/manual_clock.h"

namespace weir::server {
namespace {

constexpr std::string_view kPing = "PING\r\n";
constexpr std::string_view kPong = "+PONG\r\n";

// The hold that a decision names.
std::string hold_in(const std::string& reply) {
  const std::size_t length = reply.find("hold\r\n$") + 7;
  const std::size_t begin = reply.find("\r\n", length) + 2;
  return reply.substr(begin, reply.find("\r\n", begin) - begin);
}

// Of what is shown for it; -1: it is not there.
std::int64_t metric_of(const Server& server, const std::string& name) {
  const std::string text = server.metrics();
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
}

TEST_F(ServerTest, AnswersOverEveryKindOfSocket) {
  start("listen: { resp: [127.0.0.1:0, '[::1]:0', 'unix:" + (dir / "socket").string() +
        "'], http: none }\n");
  ASSERT_EQ(server->addresses().size(), 3u);
  for (const std::string& where : server->addresses()) {
    EXPECT_EQ(Client(where).ask(kPing, kPong.size()), kPong) << where;
  }
}

TEST_F(ServerTest, AnswersAPipelineInOneGo) {
  start();
  Client client(address());
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "ECHO " + std::to_string(i % 10) + "\r\n";
  std::thread sender([&] { client.send(many); });
  const std::string got = client.receive(7 * 10'000);
  sender.join();
  ASSERT_EQ(got.size(), 70'000u);
  for (std::size_t i = 0; i < 10'000; ++i)
    ASSERT_EQ(got[7 * i + 4], '0' + static_cast<char>(i % 10));
}

TEST_F(ServerTest, PutsTogetherWhatArrivesInPieces) {
  start();
  Client client(address());
  const std::string command = "*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n";
  for (const char byte : command) {
    ASSERT_TRUE(client.send(std::string_view(&byte, 1)));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(client.receive(11), "$5\r\nhello\r\n");
}

TEST_F(ServerTest, SaysWhatIsWrongWithTheProtocolAndCloses) {
  start();
  Client client(address());
  client.send("*1\r\n$x\r\n");
  EXPECT_EQ(client.receive(1000), "-ERR Protocol error: invalid bulk length\r\n");
  EXPECT_TRUE(client.is_closed_within(kPatienceMs));
}

// --- waiting

TEST_F(ServerTest, LetsOneConnectionWaitAndAnswersTheOthers) {
  start();
  Client first(address());
  Client second(address());
  Client third(address());
  const std::string taken = first.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n");
  const std::string hold = hold_in(taken);
  second.send("WEIR.ACQUIRE worker=w WAIT 20s\r\nPING\r\n");
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
  EXPECT_EQ(third.ask(kPing, kPong.size()), kPong);
  EXPECT_EQ(second.receive(1, 50), "");
  EXPECT_EQ(third.ask("WEIR.SETTLE " + hold + "\r\n", 10), "+settled\r\n");
  const std::string got = second.receive_until(kPong);
  EXPECT_NE(got.find("allowed"), std::string::npos) << got;
  EXPECT_TRUE(got.ends_with(kPong)) << got;
}

TEST_F(ServerTest, GivesUpThePlaceOfAClientThatLeaves) {
  start();
  Client first(address());
  first.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n");
  {
    Client second(address());
    second.send("WEIR.ACQUIRE worker=w WAIT 20s\r\n");
    ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return server->engine().usage().waiters == 0; }));
}

// More than the server reads behind a request that waits, so that the end lies behind it.
TEST_F(ServerTest, GivesUpThePlaceOfAClientThatLeavesMuchBehindItsWait) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { slow: 1s, wait: 1h }\n");
  Client first(address());
  first.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n");
  std::string much;
  for (int i = 0; i < 30'000; ++i) much += kPing;
  for (const std::size_t bytes : {much.size() / 2, much.size()}) {
    Client second(address());
    second.send("WEIR.ACQUIRE worker=w WAIT 800s\r\n");
    ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
    second.send(std::string_view(much).substr(0, bytes), false);
    std::this_thread::sleep_for(50ms);
    second.leave();
    EXPECT_TRUE(eventually([&] { return server->engine().usage().waiters == 0; })) << bytes;
  }
}

TEST_F(ServerTest, AnswersMuchBehindAWaitThatEndsInTime) {
  start();
  Client first(address());
  const std::string hold =
      hold_in(first.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n"));
  Client second(address());
  constexpr std::size_t kMany = 30'000;
  std::string much = "WEIR.ACQUIRE worker=w WAIT 20s\r\n";
  for (std::size_t i = 0; i < kMany; ++i) much += kPing;
  std::thread sender([&] { second.send(much); });
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
  EXPECT_EQ(first.ask("WEIR.SETTLE " + hold + "\r\n", 10), "+settled\r\n");
  EXPECT_TRUE(second.receive_until("running\r\n:0\r\n").starts_with("*12"));
  EXPECT_EQ(second.receive(kMany * kPong.size()).size(), kMany * kPong.size());
  sender.join();
}

// The server's end of the connection lives in this process, too.
TEST_F(ServerTest, HasTheKernelLookForClientsThatVanish) {
  start();
  Client client(address());
  ASSERT_EQ(client.ask(kPing, kPong.size()), kPong);
  int found = 0;
  for (int socket = 3; socket < 4096; ++socket) {
    sockaddr_in peer{}, own{};
    socklen_t size = sizeof peer;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    size = sizeof own;
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size);
    if (own.sin_family != AF_INET ||
        address() != "127.0.0.1:" + std::to_string(ntohs(own.sin_port))) {
      continue;
    }
    int keeps_alive = 0, timeout_ms = 0;
    size = sizeof(int);
    ::getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &keeps_alive, &size);
    ::getsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &size);
    EXPECT_EQ(keeps_alive, 1);
    EXPECT_EQ(timeout_ms, 120'000);
    found += 1;
  }
  EXPECT_EQ(found, 1);
}

TEST_F(ServerTest, AnswersWaitersBeforeItStops) {
  start();
  Client first(address());
  first.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n");
  Client second(address());
  second.send("WEIR.ACQUIRE worker=w WAIT 20s\r\n");
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
  EXPECT_TRUE(server->stop(kPatience).ok());
  EXPECT_TRUE(second.receive_until("\r\n").starts_with("-UNAVAILABLE the server is stopping"));
  EXPECT_FALSE(Client(address()).is_connected());
}

// --- bounds

TEST_F(ServerTest, TakesAsManyConnectionsAsItsBoundAndNotOneMore) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { connections: 3 }\n");
  Client one(address()), two(address()), three(address());
  for (Client* each : {&one, &two, &three}) ASSERT_EQ(each->ask(kPing, kPong.size()), kPong);
  Client four(address());
  EXPECT_EQ(four.receive(100), "-ERR max number of clients reached\r\n");
  two.leave();
  EXPECT_TRUE(eventually([&] { return Client(address()).ask(kPing, kPong.size()) == kPong; }));
}

TEST_F(ServerTest, ClosesConnectionsThatAreIdle) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { idle: 1s }\n");
  Client client(address());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(client.ask(kPing, kPong.size()), kPong);
  EXPECT_TRUE(client.is_closed_within(kPatienceMs));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 900ms);
}

TEST_F(ServerTest, ClosesConnectionsWhoseRequestTakesTooLong) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { slow: 300ms }\n");
  Client slow(address());
  Client idle(address());
  slow.send("*2\r\n$4\r\nEC");
  EXPECT_TRUE(slow.is_closed_within(kPatienceMs));
  EXPECT_EQ(idle.ask(kPing, kPong.size()), kPong) << "an idle one is not slow";
}

// A client that reads nothing of what it is owed stays connected, and is cut off.
TEST_F(ServerTest, HasPatienceByItsOwnClock) {
  testing::ManualClock standing{Instant{1'800'000'000'000'000'000}};
  write("listen: { resp: 'unix:" + (dir / "socket").string() +
        "', http: none }\nbounds: { slow: 10h, idle: 10h }\n");
  auto config = config::load(path());
  ASSERT_TRUE(config) << config.error().message;
  auto started = Server::start(std::move(*config), standing);
  ASSERT_TRUE(started) << started.error().message;
  server = std::move(*started);
  Client client(address());
  // Far more than the sockets hold, so that some of it is owed for as long as nothing is read.
  std::string many;
  for (int i = 0; i < 500; ++i) many += "COMMAND DOCS\r\n";
  client.send(many);
  ASSERT_TRUE(eventually([&] { return metric_of(*server, "weir_unread_reply_bytes") > 500'000; }));
  std::atomic<bool> has_stopped = false;
  std::thread stopping([&] {
    EXPECT_TRUE(server->stop(1h));
    has_stopped = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(has_stopped);
  EXPECT_TRUE(eventually([&] {
    standing.advance(1min);
    return has_stopped.load();
  }));
  stopping.join();
  server.reset();
}

TEST_F(ServerTest, AnswersWaitersBehindEachOtherBeforeItStops) {
  start();
  Client first(address());
  first.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n");
  Client second(address());
  const std::string wait = "WEIR.ACQUIRE worker=w WAIT 20s\r\n";
  second.send(wait + wait + wait + "PING\r\n");
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
  EXPECT_TRUE(server->stop(30s).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(second.receive_until("\r\n").starts_with("-UNAVAILABLE the server is stopping"));
  }
  EXPECT_EQ(second.receive(100), kPong);
}

TEST_F(ServerTest, RefusesARequestLargerThanItsBound) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { request_bytes: 1024 }\n");
  Client client(address());
  // Of so many bytes in all.
  const auto echo = [](std::size_t bytes) {
    const std::string begin = "*3\r\n$4\r\nPING\r\n$500\r\n" + std::string(500, 'x') + "\r\n";
    const std::size_t rest = bytes - begin.size() - std::string_view("$123\r\n\r\n").size();
    return begin + "$" + std::to_string(rest) + "\r\n" + std::string(rest, 'x') + "\r\n";
  };
  ASSERT_EQ(echo(1024).size(), 1024u);
  EXPECT_TRUE(client.ask_until(echo(1024), "\r\n").starts_with("-ERR wrong number of arguments"));
  client.send(echo(1025));
  EXPECT_TRUE(client.receive_until("\r\n").starts_with("-ERR Protocol error"));
}

TEST_F(ServerTest, RefusesALineLongerThanARequestMayBe) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { request_bytes: 1024 }\n");
  Client client(address());
  // With so many bytes up to its LF.
  const auto line = [](std::size_t bytes) {
    return "ECHO " + std::string(bytes - 6, 'x') + "\r\n";
  };
  EXPECT_TRUE(client.ask_until(line(1024), "x\r\n").starts_with("$1018\r\n"));
  client.send(line(1025));
  EXPECT_TRUE(client.receive_until("\r\n").starts_with("-ERR Protocol error"));
}

TEST_F(ServerTest, AnswersInFullWhoReadsTheRepliesToALongPipelineLate) {
  start();
  Client client(address());
  const std::string docs = Client(address()).ask_until("COMMAND DOCS\r\nPING\r\n", kPong);
  const std::size_t bytes = docs.size() - kPong.size();
  constexpr int kCommands = 4000;  // some 15 MB of replies to 56 kB of commands
  std::string many;
  for (int i = 0; i < kCommands; ++i) many += "COMMAND DOCS\r\n";
  ASSERT_TRUE(client.send(many + "QUIT\r\n"));
  EXPECT_EQ(Client(address()).ask(kPing, kPong.size()), kPong) << "others are served meanwhile";
  const std::string got = client.receive(kCommands * bytes + 100);
  EXPECT_EQ(got.size(), kCommands * bytes + std::string_view("+OK\r\n").size());
  EXPECT_TRUE(got.ends_with("+OK\r\n"));
}

// Over a unix socket the kernel keeps little, so the server can send some more again and again.
TEST_F(ServerTest, ClosesAClientThatReadsItsRepliesTooSlowlyThoughItReads) {
  start("listen: { resp: 'unix:" + (dir / "socket").string() +
        "', http: none }\nbounds: { slow: 1s }\n");
  Client client(address());
  std::string many;
  for (int i = 0; i < 400; ++i) many += "COMMAND DOCS\r\n";
  ASSERT_TRUE(client.send(many));
  // Some 20 kB in a second, of more than a megabyte; then what is left.
  std::size_t got = 0;
  const auto began = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - began < 3s) {
    std::this_thread::sleep_for(50ms);
    got += client.receive(1'000).size();
  }
  EXPECT_LT(got + client.receive(2'000'000).size(), 1'000'000u);
}

// Each takes longer than `slow` for all, and gets on within it.
TEST_F(ServerTest, LetsAClientReadItsRepliesSlowlyAsLongAsItGetsOn) {
  for (const std::string& where :
       {"'unix:" + (dir / "socket").string() + "'", std::string("127.0.0.1:0")}) {
    start("listen: { resp: " + where + ", http: none }\nbounds: { slow: 1s }\n");
    Client client(address());
    constexpr std::size_t kMany = 2000;
    const std::size_t bytes =
        client.ask_until("COMMAND DOCS\r\n" + std::string(kPing), kPong).size() - kPong.size();
    std::string many;
    for (std::size_t i = 0; i < kMany; ++i) many += "COMMAND DOCS\r\n";
    many += kPing;
    std::thread sender([&] { client.send(many); });
    // Some 2 MB in a second.
    for (std::size_t left = kMany * bytes + kPong.size(); left > 0;) {
      std::this_thread::sleep_for(50ms);
      const std::size_t got = client.receive(std::min<std::size_t>(left, 100'000)).size();
      if (got == 0) {
        ADD_FAILURE() << left << " bytes did not come over " << where;
        break;
      }
      left -= got;
    }
    sender.join();
    server.reset();
  }
}

TEST_F(ServerTest, ClosesTheClientWhoseUnreadRepliesAreTooManyForAll) {
  start("listen: { resp: 'unix:" + (dir / "socket").string() +
        "', http: none }\nbounds: { reply_bytes: 1000000, reply_bytes_all: 1048576 }\n");
  Client first(address());
  std::string many;
  for (int i = 0; i < 500; ++i) many += "COMMAND DOCS\r\n";
  first.send(many, false);
  const auto value_of = [&](const std::string& name) { return metric_of(*server, name); };
  ASSERT_TRUE(eventually([&] { return value_of("weir_unread_reply_bytes") > 500'000; }));
  EXPECT_EQ(value_of("weir_connections_overfull_total"), 0);
  Client second(address());
  second.send(many, false);
  EXPECT_TRUE(eventually([&] { return value_of("weir_connections_overfull_total") == 1; }));
  EXPECT_LE(value_of("weir_unread_reply_bytes"), 1'048'576);
  // The others go on, and what they take is free again.
  Client third(address());
  EXPECT_EQ(third.ask(kPing, kPong.size()), kPong);
  first.leave();
  second.leave();
  EXPECT_TRUE(eventually([&] { return value_of("weir_unread_reply_bytes") == 0; }));
}

TEST_F(ServerTest, LetsAClientLeaveAsManyRepliesUnreadAsItsBound) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { reply_bytes: 20000 }\n");
  Client client(address());
  const std::string echo = "*2\r\n$4\r\nECHO\r\n$30000\r\n" + std::string(30'000, 'x') + "\r\n";
  std::thread sender([&] { client.send(echo + echo + echo + std::string(kPing)); });
  const std::string got = client.receive_until(kPong);
  sender.join();
  EXPECT_EQ(got.size(), 3 * (30'000 + 10) + kPong.size());
}

TEST_F(ServerTest, StopsReadingFromAClientThatDoesNotReadItsReplies) {
  start();
  Client client(address());
  const std::string echo = "*2\r\n$4\r\nECHO\r\n$60000\r\n" + std::string(60'000, 'x') + "\r\n";
  bool taken = true;
  for (int i = 0; i < 2000 && taken; ++i) {
    taken = client.send(echo, false);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(taken) << "120 MB were taken from a client that reads nothing";
  EXPECT_EQ(Client(address()).ask(kPing, kPong.size()), kPong);
}

// --- tokens

TEST_F(ServerTest, AsksForATokenWhereOneIsSet) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nauth: [ { token: secret, role: decide } ]\n");
  Client client(address());
  client.send(kPing);
  EXPECT_TRUE(client.receive_until("\r\n").starts_with("-NOAUTH"));
  EXPECT_EQ(client.ask("AUTH secret\r\n", 5), "+OK\r\n");
  EXPECT_EQ(client.ask(kPing, kPong.size()), kPong);
  EXPECT_TRUE(client.ask("WEIR.RELOAD\r\n", 8).starts_with("-NOPERM"));
}

TEST_F(ServerTest, ReadsLittleFromAClientWithoutAToken) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nauth: [ { token: secret, role: decide } ]\n");
  Client stranger(address()), known(address());
  const std::string large = "*2\r\n$4\r\nECHO\r\n$20000\r\n";
  EXPECT_TRUE(stranger.ask_until(large, "\r\n").starts_with("-ERR Protocol error"));
  ASSERT_EQ(known.ask("AUTH secret\r\n", 5), "+OK\r\n");
  EXPECT_TRUE(
      known.ask_until(large + std::string(20'000, 'x') + "\r\n", "x\r\n").starts_with("$20000"));
}

TEST_F(ServerTest, ForgetsATokenThatAReloadTakesAway) {
  const std::string listen = "listen: { resp: 127.0.0.1:0, http: none }\n";
  start(listen + "auth: [ { token: old, role: decide }, { token: kept, role: decide } ]\n");
  Client old(address()), kept(address());
  ASSERT_EQ(old.ask("AUTH old\r\n", 5), "+OK\r\n");
  ASSERT_EQ(kept.ask("AUTH kept\r\n", 5), "+OK\r\n");
  write(listen + "auth: [ { token: kept, role: observe } ]\n" + std::string(kServerLimits));
  ASSERT_TRUE(server->reload().ok());
  EXPECT_TRUE(old.ask_until(kPing, "\r\n").starts_with("-NOAUTH"));
  EXPECT_EQ(kept.ask(kPing, kPong.size()), kPong);
  EXPECT_TRUE(kept.ask_until("CL.THROTTLE x 1 1 1\r\n", "\r\n").starts_with("-NOPERM"));
}

// Whatever the process makes files with: in containers the mask is often 0.
TEST_F(ServerTest, LetsOnlyItsUserConnectToAUnixSocket) {
  const mode_t before = ::umask(0);
  const std::string group = std::to_string(::getgid());
  start("listen: { resp: ['unix:" + (dir / "a").string() + "', { unix: '" + (dir / "b").string() +
        "', mode: 0660, group: " + group + " }], http: { unix: '" + (dir / "c").string() +
        "', mode: 0666 } }\n");
  EXPECT_EQ(::umask(before), 0u) << "the mask is as it was";
  const auto mode_of = [&](const char* name) {
    struct stat found {};
    EXPECT_EQ(::stat((dir / name).c_str(), &found), 0);
    EXPECT_EQ(found.st_gid, ::getgid());
    return found.st_mode & 07777;
  };
  EXPECT_EQ(mode_of("a"), 0600u);
  EXPECT_EQ(mode_of("b"), 0660u);
  EXPECT_EQ(mode_of("c"), 0666u);
  for (const std::string& where : server->addresses()) {
    EXPECT_TRUE(Client(where).is_connected()) << where;
  }
}

TEST_F(ServerTest, DoesNotStartWithAGroupThatIsNotThere) {
  write("listen: { resp: { unix: '" + (dir / "a").string() +
        "', mode: 0660, group: no-such-group }, http: none }\n" + std::string(kServerLimits));
  auto config = config::load(path());
  ASSERT_TRUE(config) << config.error().message;
  const auto started = Server::start(std::move(*config), clock);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message.find("group 'no-such-group'"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir / "a"));
}

// Half a file may be in order: what stands in its other half is not taken away unasked.
TEST_F(ServerTest, KeepsTokensAndLimitsThatAFileLosesUnasked) {
  const std::string listen = "listen: { resp: 127.0.0.1:0, http: none }\n";
  const std::string auth = "auth: [ { token: secret, role: admin } ]\n";
  const std::string limits(kServerLimits);
  start(listen + auth);
  write(listen + limits);
  const Status open = server->reload(kByFileChange);
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().message,
            path() +
                ": auth is gone, and nobody asked for this reload, so the file may be half "
                "written; write it again, or send SIGHUP or WEIR.RELOAD to do without");
  EXPECT_EQ(server->role_of(""), Role::kNobody);
  for (const std::string& none : {std::string("limits: []\n"), std::string("compute: {}\n")}) {
    write(listen + auth + none);
    const Status unlimited = server->reload(kByFileChange);
    ASSERT_FALSE(unlimited.ok());
    EXPECT_NE(unlimited.error().message.find("every limit is gone"), std::string::npos);
  }
  EXPECT_EQ(server->engine().rules()->rules().size(), 2u);
  // A part of them may go, and all where somebody asks.
  write(listen + auth + "limits: [ { name: other, window: { limit: 1, every: 1d } } ]\n");
  EXPECT_TRUE(server->reload(kByFileChange).ok());
  write(listen + "limits: []\n");
  EXPECT_TRUE(server->reload("SIGHUP").ok());
  EXPECT_EQ(server->role_of(""), Role::kAdmin);
  EXPECT_TRUE(server->reload(kByFileChange).ok()) << "nothing is lost";
}

TEST_F(ServerTest, AsksOpenConnectionsForATokenOnceOneIsSet) {
  const std::string listen = "listen: { resp: 127.0.0.1:0, http: none }\n";
  start(listen);
  Client client(address());
  ASSERT_EQ(client.ask(kPing, kPong.size()), kPong);
  write(listen + "auth: [ { token: new, role: decide } ]\n" + std::string(kServerLimits));
  ASSERT_TRUE(server->reload().ok());
  EXPECT_TRUE(client.ask_until(kPing, "\r\n").starts_with("-NOAUTH"));
  EXPECT_EQ(client.ask("AUTH new\r\n", 5), "+OK\r\n");
}

// The listeners of the start stay, whatever the file says.
TEST_F(ServerTest, KeepsItsTokensWhileItCanBeReachedFromOutside) {
  // This machine's loopback in the clothes of an address that is not.
  start(
      "listen: { resp: '[::ffff:127.0.0.1]:0', http: none }\n"
      "auth: [ { token: secret, role: decide } ]\n");
  Client client("127.0.0.1" + address().substr(address().rfind(':')));
  write("listen: { resp: 127.0.0.1:0, http: none }\n" + std::string(kServerLimits));
  const Status status = server->reload();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("auth is missing, but the server still listens on"),
            std::string::npos)
      << status.error().message;
  EXPECT_TRUE(client.ask_until(kPing, "\r\n").starts_with("-NOAUTH"));
}

// --- reload

TEST_F(ServerTest, ReloadsItsLimitsAndKeepsWhatWasUsed) {
  start();
  Client client(address());
  client.send("WEIR.ACQUIRE client=a\r\n");
  ASSERT_NE(client.receive_until(":999999\r\n"), "");
  write(
      "listen: { resp: 127.0.0.1:0, http: none }\n"
      "limits: [ { name: per-client, per: [client], window: { limit: 10, every: 10000d } } ]\n");
  EXPECT_EQ(client.ask("WEIR.RELOAD\r\n", 5), "+OK\r\n");
  client.send("WEIR.INSPECT per-client client=a\r\n");
  EXPECT_NE(client.receive_until(":9\r\n").find(":9\r\n"), std::string::npos);
}

TEST_F(ServerTest, KeepsTheOldLimitsWhenTheFileHasMistakes) {
  start();
  write("limits: [ { name: broken } ]\n");
  const Status status = server->reload();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("weir.yaml:1:"), std::string::npos)
      << status.error().message;
  Client client(address());
  client.send("WEIR.INSPECT per-client client=a\r\n");
  EXPECT_NE(client.receive_until(":1000000\r\n").find(":1000000\r\n"), std::string::npos);
}

// --- starting

TEST_F(ServerTest, SaysWhichAddressIsTaken) {
  start();
  const std::string taken = address();
  write("listen: { resp: " + taken + ", http: none }\n");
  const auto second = Server::start(*config::load(path()), clock);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(taken), std::string::npos) << second.error().message;
}

TEST_F(ServerTest, TakesOverASocketFileThatNobodyListensAt) {
  const std::string file = dir / "socket";
  {
    const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::strncpy(to.sun_path, file.c_str(), sizeof to.sun_path - 1);
    ASSERT_EQ(::bind(left, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    ::close(left);
  }
  start("listen: { resp: 'unix:" + file + "', http: none }\n");
  EXPECT_EQ(Client("unix:" + file).ask(kPing, kPong.size()), kPong);
  EXPECT_TRUE(server->stop(1s).ok());
  EXPECT_FALSE(std::filesystem::exists(file));
}

// --- what the log is told

struct ShiftedClock final : Clock {
  Instant now() noexcept override { return clock.now() + Duration{by_ns.load()}; }

  SystemClock clock;
  std::atomic<std::int64_t> by_ns{0};
};

TEST_F(ServerTest, TellsOnceInAWhileOfSettlementsThatWereClipped) {
  write(
      "listen: { resp: 127.0.0.1:0, http: none }\n"
      "limits: [ { name: two, window: { limit: 2, every: 10000d }, overage: 0 } ]\n");
  ShiftedClock shifted;
  std::mutex lock;
  std::uint64_t times = 0;
  std::size_t lines = 0;
  const auto note = [&](const LogLine& line) {
    if (line.event != "overage-clipped") return;
    const std::scoped_lock held(lock);
    EXPECT_EQ(line.fields.at(0).value, "two");
    times += std::stoull(line.fields.at(1).value);
    lines += 1;
  };
  auto started = Server::start(*config::load(path()), shifted, StartEmpty::kNo, note);
  ASSERT_TRUE(started) << started.error().message;
  server = std::move(*started);
  Client client(address());
  std::vector<std::string> holds;
  for (const char* left : {"1", "0"}) {
    const std::string end = "two\r\n:" + std::string(left) + "\r\n";
    holds.push_back(hold_in(client.ask_until("WEIR.ACQUIRE HOLD 60s\r\n", end)));
  }
  for (const std::string& hold : holds) {
    EXPECT_EQ(client.ask("WEIR.SETTLE " + hold + " requests=9\r\n", 10), "+settled\r\n");
  }
  // It looked when it started, and looks again ten seconds later.
  shifted.by_ns = Duration{std::chrono::seconds{11}}.count();
  EXPECT_TRUE(eventually([&] {
    const std::scoped_lock held(lock);
    return times == 2;
  }));
  EXPECT_LE(lines, 2u);
  server.reset();
}

// --- real clients

struct RealClients : ServerTest {
  std::string port() const { return address().substr(address().rfind(':') + 1); }
};

// As a browser that a web page has sent here.
TEST_F(RealClients, CurlIsClosedWhenItSpeaksHttp) {
  write("listen: { resp: 127.0.0.1:0, http: none }\n" + std::string(kServerLimits));
  std::mutex lock;
  std::vector<std::string> told;
  auto started =
      Server::start(*config::load(path()), clock, StartEmpty::kNo, [&](const LogLine& line) {
        const std::scoped_lock held(lock);
        if (line.event == "http-on-resp") told.push_back(line.fields.at(0).value);
      });
  ASSERT_TRUE(started) << started.error().message;
  server = std::move(*started);
  for (const std::string more :
       {"", "--data-binary @- -H 'Content-Type: text/plain'", "-X OPTIONS"}) {
    const Ran ran = run("printf 'WEIR.ACQUIRE client=victim\\r\\n' | curl --http0.9 -sS -m 20 " +
                        more + " http://127.0.0.1:" + port() + "/v1/acquire");
    EXPECT_NE(ran.status, 0) << ran.output;
    EXPECT_EQ(ran.output.find("allowed"), std::string::npos) << ran.output;
    EXPECT_EQ(ran.output.find("ERR"), std::string::npos) << ran.output;
    EXPECT_EQ(ran.output.find("timed out"), std::string::npos) << ran.output;
  }
  Client client(address());
  client.send("WEIR.INSPECT per-client client=victim\r\n");
  EXPECT_NE(client.receive_until(":1000000\r\n").find("remaining\r\n:1000000"), std::string::npos);
  const std::scoped_lock held(lock);
  EXPECT_EQ(told, std::vector<std::string>{"127.0.0.1"}) << "once in a while";
}

TEST_F(RealClients, InfoServerAnswersThatSectionWithTheVersion) {
  start();
  const std::string output = run("redis-cli -p " + port() + " INFO server").output;
  EXPECT_EQ(output.find("# Clients"), std::string::npos) << output;
  EXPECT_NE(output.find("weir_version:0."), std::string::npos) << output;
}

// redis-py puts a pipeline between MULTI and EXEC unless it is told not to.
TEST_F(RealClients, PythonRedisDecidesInItsDefaultPipeline) {
  start();
  const Ran ran = run(
      "/usr/bin/python3 -c \"\n"
      "import redis\n"
      "r = redis.Redis(port=" +
      port() +
      ")\n"
      "p = r.pipeline()\n"
      "for i in range(2): p.execute_command('CL.THROTTLE', 'x', 0, 1, 10)\n"
      "p.execute_command('WEIR.ACQUIRE', 'worker=w', 'HOLD', '60s')\n"
      "p.execute_command('WEIR.ACQUIRE', 'worker=w')\n"
      "print([reply[0] if i < 2 else reply[1].decode() for i, reply in enumerate(p.execute())])\n"
      "p.execute_command('CL.THROTTLE', 'y', 0, 1, 10)\n"
      "p.execute_command('GET', 'y')\n"
      "try: p.execute()\n"
      "except redis.exceptions.ResponseError as error: print(error)\n"
      "print(r.execute_command('CL.THROTTLE', 'y', 0, 1, 10)[0])\n\"");
  EXPECT_TRUE(ran.output.starts_with("[0, 1, 'allowed', 'denied']\n")) << ran.output;
  EXPECT_NE(ran.output.find("unknown command"), std::string::npos) << ran.output;
  EXPECT_TRUE(ran.output.ends_with("\n0\n")) << "nothing was charged: " << ran.output;
}

const std::string kClientsDir = WEIR_SOURCE_DIR "/tests/server/clients/";

TEST_F(RealClients, RubyRedisDecidesInATransaction) {
  if (run("ruby -e 'require \"redis\"'").status != 0) {
    GTEST_SKIP() << "there is no redis gem here; install ruby-redis";
  }
  start();
  EXPECT_EQ(run("timeout 60 ruby " + kClientsDir + "transaction.rb " + port()).output,
            "0 1 allowed denied\nrefused\n0\n");
}

TEST_F(RealClients, PhpRedisDecidesInATransaction) {
  if (run("php -r 'exit(class_exists(\"Redis\") ? 0 : 1);'").status != 0) {
    GTEST_SKIP() << "there is no Redis class in PHP here; install php-cli and php-redis";
  }
  start();
  EXPECT_EQ(run("timeout 60 php " + kClientsDir + "transaction.php " + port()).output,
            "0 1 allowed denied\nrefused\n0\n");
}

TEST_F(RealClients, RedisCliIsAnswered) {
  start();
  EXPECT_EQ(run("redis-cli -p " + port() + " CL.THROTTLE user123 15 30 60").output,
            "0\n16\n15\n-1\n2\n");
  EXPECT_EQ(run("redis-cli -3 -p " + port() + " WEIR.ACQUIRE client=a").output.substr(0, 16),
            "verdict allowed\n");
  EXPECT_EQ(run("printf 'PING\\nECHO hi\\n' | redis-cli -p " + port()).output, "PONG\nhi\n");
}

TEST_F(RealClients, RedisBenchmarkRunsToItsEnd) {
  start();
  const Ran ran = run("timeout 60 redis-benchmark -p " + port() +
                      " -c 20 -P 16 -n 50000 -r 1000 -q CL.THROTTLE key:__rand_int__ 15 30 60");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_NE(ran.output.find("requests per second"), std::string::npos) << ran.output;
  EXPECT_EQ(ran.output.find("WARNING"), std::string::npos) << ran.output;
}

TEST_F(RealClients, PythonRedisIsAnswered) {
  start();
  const Ran ran =
      run("/usr/bin/python3 -c \"\n"
          "import redis\n"
          "r = redis.Redis(port=" +
          port() +
          ", client_name='tester')\n"
          "assert r.ping()\n"
          "assert r.execute_command('CL.THROTTLE', 'x', 0, 1, 10) == [0, 1, 0, -1, 10]\n"
          "p = r.pipeline(transaction=False)\n"
          "for i in range(3): p.execute_command('WEIR.ACQUIRE', 'client=py')\n"
          "print([reply[1].decode() for reply in p.execute()], r.client_getname())\n\"");
  EXPECT_EQ(ran.output, "['allowed', 'allowed', 'allowed'] tester\n");
}

}  // namespace
}  // namespace weir::server
