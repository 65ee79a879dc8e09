// The client with a Redis that is slow, gone, back again, too old, or talks nonsense.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/redis/support.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;

std::unique_ptr<Client> client_of(Loop& loop, const std::string& url,
                                  Duration silence = kPatience) {
  ClientOptions options = patient_with(url);
  options.silence = silence;
  options.scripts = {&kAdd};
  options.retry_most = 50ms;
  return make_client(loop, std::move(options));
}

TEST(RedisOutage, AnswersTimedOutAndDiscardsTheLateReply) {
  RedisServer redis;
  Loop loop;
  const auto client = client_of(loop, redis.url());
  ask(*client, {"SET", "k", "old"});
  redis.pause();
  const Said said = ask(*client, {"GET", "k"}, 10ms);
  EXPECT_EQ(said.kind, FailureKind::kTimedOut);
  EXPECT_TRUE(said.may_have_run);
  redis.resume();
  // The reply to GET does not become that of PING.
  EXPECT_EQ(ask(*client, {"PING"}).text, "PONG");
  EXPECT_EQ(client->counts().connections, 1);
  EXPECT_EQ(client->counts().timed_out, 1);
}

TEST(RedisOutage, GivesALateReplyToWhoeverLeftACallback) {
  RedisServer redis;
  Loop loop;
  const auto client = client_of(loop, redis.url());
  ask(*client, {"PING"});
  redis.pause();
  Answers answers;
  Answers late;
  client->call(kAdd, std::vector<std::string_view>{"n"}, std::vector<std::string_view>{"5"},
               answers.take(), {.timeout = 10ms, .late = late.take()});
  EXPECT_EQ(answers.wait().front().kind, FailureKind::kTimedOut);
  EXPECT_EQ(late.size(), 0);
  redis.resume();
  EXPECT_EQ(late.wait().front().text, "5");
  EXPECT_EQ(answers.size(), 1);
}

TEST(RedisOutage, SaysToWhoeverLeftACallbackThatALateRequestWasRefused) {
  RedisServer redis;
  Loop loop;
  const auto client = client_of(loop, redis.url());
  ask(*client, {"CONFIG", "SET", "maxmemory", "1"});
  redis.pause();
  Answers answers;
  Answers late;
  client->call(kAdd, std::vector<std::string_view>{"n"}, std::vector<std::string_view>{"5"},
               answers.take(), {.timeout = 10ms, .late = late.take()});
  EXPECT_EQ(answers.wait().front().kind, FailureKind::kTimedOut);
  redis.resume();
  const Said said = late.wait().front();
  EXPECT_EQ(said.kind, FailureKind::kOutOfMemory);
  EXPECT_FALSE(said.may_have_run);
  EXPECT_EQ(answers.size(), 1);
}

TEST(RedisOutage, TimesEachRequestOutByItsOwnTimeout) {
  RedisServer redis;
  Loop loop;
  const auto client = client_of(loop, redis.url());
  ask(*client, {"PING"});
  redis.pause();
  Answers patient;
  Answers hasty;
  client->send(std::vector<std::string_view>{"PING"}, patient.take(), {.timeout = kPatience});
  client->send(std::vector<std::string_view>{"PING"}, hasty.take(), {.timeout = 5ms});
  EXPECT_EQ(hasty.wait().front().kind, FailureKind::kTimedOut);
  EXPECT_EQ(patient.size(), 0);
  redis.resume();
  EXPECT_EQ(patient.wait().front().text, "PONG");
}

TEST(RedisOutage, OpensASilentConnectionAgain) {
  RedisServer redis;
  Loop loop;
  const auto client = client_of(loop, redis.url(), 2s);
  ask(*client, {"PING"});
  redis.pause();
  const Said said = ask(*client, {"PING"});
  EXPECT_EQ(said.kind, FailureKind::kDisconnected);
  EXPECT_TRUE(said.may_have_run);
  EXPECT_THAT(said.text, HasSubstr("nothing heard for 2000 ms"));
  redis.resume();
  EXPECT_TRUE(eventually([&] { return client->is_up(); }));
  EXPECT_EQ(ask(*client, {"PING"}).text, "PONG");
}

TEST(RedisOutage, KeepsAnIdleConnectionThatAnswersPing) {
  RedisServer redis;
  Loop loop;
  // A Redis that is held up for half of this counts as silent.
  const auto client = client_of(loop, redis.url(), 2s);
  ask(*client, {"PING"});
  EXPECT_TRUE(eventually([&] { return client->counts().sent > 2; }));
  EXPECT_EQ(client->counts().connections, 1);
}

TEST(RedisOutage, AnswersAtOnceWithTheReasonWhileRedisIsGoneAndRecoversByItself) {
  RedisServer redis({.keeps_data = true});
  Loop loop;
  const auto client = client_of(loop, redis.url());
  EXPECT_EQ(run(*client, kAdd, {"n"}, {"3"}).text, "3");
  redis.kill();
  EXPECT_TRUE(eventually([&] { return !client->is_up(); }));
  // Either the loss is noticed with it, or the attempts to come back have failed.
  EXPECT_TRUE(eventually([&] {
    const Said said = ask(*client, {"PING"});
    EXPECT_EQ(said.kind, FailureKind::kDisconnected);
    return said.text.find("cannot connect") != std::string::npos && !said.may_have_run;
  }));
  redis.start();
  EXPECT_TRUE(eventually([&] { return client->is_up(); }));
  // The scripts are loaded again with the connection.
  EXPECT_EQ(run(*client, kAdd, {"n"}, {"3"}).text, "6");
  EXPECT_EQ(client->counts().reloads, 0);
}

TEST(RedisOutage, IsTakenForRunWhenTheConnectionBreaksBeforeTheReply) {
  RedisServer redis;
  Loop loop;
  const auto client = client_of(loop, redis.url());
  ask(*client, {"PING"});
  redis.pause();
  Answers answers;
  client->send(std::vector<std::string_view>{"PING"}, answers.take(), {.timeout = kPatience});
  EXPECT_TRUE(eventually([&] { return client->counts().sent >= 2; }));
  redis.kill();
  EXPECT_EQ(answers.wait().front().kind, FailureKind::kDisconnected);
  EXPECT_TRUE(answers.wait().front().may_have_run);
}

TEST(RedisOutage, SaysEachReasonOnceAndWhenItIsUp) {
  RedisServer redis;
  Loop loop;
  std::atomic<int> ups{0};
  std::mutex mutex;
  std::vector<std::string> reasons;
  ClientOptions options = patient_with(redis.url());
  options.retry_most = 5ms;
  options.on_up = [&] { ++ups; };
  options.on_down = [&](const Failure& failure) {
    const std::lock_guard lock(mutex);
    reasons.push_back(failure.message);
  };
  const auto client = make_client(loop, std::move(options));
  EXPECT_TRUE(eventually([&] { return ups >= 1; }));
  redis.kill();
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return !reasons.empty() && reasons.back().find("cannot connect") != std::string::npos;
  }));
  // Attempts enough to say it again.
  std::this_thread::sleep_for(50ms);
  redis.start();
  EXPECT_TRUE(eventually([&] { return ups >= 2; }));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(std::adjacent_find(reasons.begin(), reasons.end()), reasons.end());
}

TEST(RedisOutage, RefusesAnOldRedisByName) {
  const FakeServer old(greeting_of("6.2.14"));
  Loop loop;
  const auto client = client_of(loop, old.url());
  const Said said = ask(*client, {"PING"});
  EXPECT_EQ(said.kind, FailureKind::kVersion);
  EXPECT_EQ(said.text,
            "Redis at " + old.url() + ": its version is '6.2.14', but weir needs Redis 7 or later");
}

TEST(RedisOutage, RefusesARedisBeforeHelloByName) {
  const FakeServer old("-ERR unknown command `HELLO`, with args beginning with: `2`\r\n");
  Loop loop;
  const auto client = client_of(loop, old.url());
  const Said said = ask(*client, {"PING"});
  EXPECT_EQ(said.kind, FailureKind::kVersion);
  EXPECT_THAT(said.text, HasSubstr("weir needs Redis 7 or later"));
}

TEST(RedisOutage, TellsThatRedisIsLoading) {
  std::string answer = greeting_of("7.0.15");
  answer.append("-LOADING Redis is loading the dataset in memory\r\n");
  const FakeServer loading(answer);
  Loop loop;
  const auto client = client_of(loop, loading.url());
  EXPECT_EQ(ask(*client, {"PING"}).kind, FailureKind::kLoading);
}

TEST(RedisOutage, TellsNonsense) {
  for (const char* nonsense : {"HTTP/1.1 400 Bad Request\r\n\r\n", "*-7\r\n", ":7\r\n", "$5\r\n"}) {
    // A reply that never ends is a connection that never opens.
    const bool is_unfinished = std::string_view(nonsense) == "$5\r\n";
    const FakeServer server(nonsense);
    Loop loop;
    ClientOptions options = patient_with(server.url());
    if (is_unfinished) options.connect_timeout = 200ms;
    const auto client = make_client(loop, std::move(options));
    const Said said = ask(*client, {"PING"});
    EXPECT_FALSE(said.ok) << nonsense;
    EXPECT_FALSE(said.may_have_run);
    EXPECT_EQ(said.kind, is_unfinished ? FailureKind::kDisconnected : FailureKind::kProtocol)
        << nonsense << ": " << said.text;
  }
}

TEST(RedisOutage, BreaksOffWhenAReplyComesToNoRequest) {
  std::string answer = greeting_of("7.0.15");
  answer.append("+OK\r\n+PONG\r\n+PONG\r\n");
  const FakeServer server(answer);
  Loop loop;
  const auto client = client_of(loop, server.url());
  EXPECT_TRUE(eventually([&] { return server.connections() >= 2; }));
}

}  // namespace
}  // namespace weir::store::redis
