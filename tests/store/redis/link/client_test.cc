// The client with a Redis that is well: commands, scripts, batches, users, errors.

#include "weir/store/redis/link/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/redis/support.h"
#include "weir/store/redis/shared/scripts.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;

const Script kBroken("broken", "return redis.call('incrby', KEYS[1], {} .. '')");

class RedisClient : public ::testing::Test {
 protected:
  std::unique_ptr<Client> client(std::vector<const Script*> scripts = {}) {
    ClientOptions options = patient_with(redis_.url());
    options.scripts = std::move(scripts);
    return make_client(loop_, std::move(options));
  }

  RedisServer redis_;
  Loop loop_;
};

TEST_F(RedisClient, AnswersACommand) {
  const auto client = this->client();
  EXPECT_EQ(ask(*client, {"SET", "k", "v"}).text, "OK");
  EXPECT_EQ(ask(*client, {"GET", "k"}).text, "v");
}

TEST_F(RedisClient, CarriesBytesAsTheyAre) {
  const auto client = this->client();
  const std::string bytes("\0\r\n$-1 \xff", 8);
  EXPECT_EQ(ask(*client, {"ECHO", bytes}).text, bytes);
}

TEST_F(RedisClient, AnswersInTheOrderInWhichItWasAsked) {
  const auto client = this->client();
  Answers answers;
  constexpr std::size_t kCount = 10'000;
  for (std::size_t i = 0; i < kCount; ++i) {
    client->send(std::vector<std::string_view>{"INCR", "n"}, answers.take(),
                 {.timeout = kPatience});
  }
  const std::vector<Said> all = answers.wait(kCount);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(all[i].text, std::to_string(i + 1));
}

TEST_F(RedisClient, IsAskedFromManyThreads) {
  const auto client = this->client({&kAdd});
  Answers answers;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        client->call(kAdd, std::vector<std::string_view>{"n"}, std::vector<std::string_view>{"1"},
                     answers.take(), {.timeout = kPatience});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  answers.wait(2000);
  EXPECT_EQ(ask(*client, {"GET", "n"}).text, "2000");
}

TEST_F(RedisClient, SpeaksOverAUnixSocketInItsDatabase) {
  const RedisServer local({.unix_socket = true});
  const auto client = make_client(loop_, patient_with(local.url() + "?db=5"));
  EXPECT_EQ(ask(*client, {"SET", "k", "v"}).text, "OK");
  EXPECT_THAT(ask(*client, {"CLIENT", "INFO"}).text, HasSubstr(" db=5 "));
}

TEST_F(RedisClient, FindsAHostByName) {
  const auto client =
      make_client(loop_, patient_with("redis://localhost:" + std::to_string(redis_.port())));
  EXPECT_EQ(ask(*client, {"PING"}).text, "PONG");
}

TEST_F(RedisClient, RunsAScriptThatItLoadedWhenItCame) {
  const auto client = this->client({&kAdd});
  EXPECT_EQ(run(*client, kAdd, {"n"}, {"7"}).text, "7");
  EXPECT_EQ(client->counts().reloads, 0);
}

TEST_F(RedisClient, NamesAScriptAsRedisDoes) {
  const auto client = this->client();
  const SharedScripts& shared = shared_scripts();
  for (const Script* script : {&kAdd, &kBroken, &shared.decide, &shared.draw}) {
    EXPECT_EQ(ask(*client, {"SCRIPT", "LOAD", script->text()}).text, script->sha())
        << script->name();
  }
}

TEST_F(RedisClient, LoadsAScriptThatRedisDoesNotKnow) {
  const auto client = this->client();
  EXPECT_EQ(run(*client, kAdd, {"n"}, {"7"}).text, "7");
  EXPECT_EQ(client->counts().reloads, 1);
}

TEST_F(RedisClient, RunsEachRequestOnceAndInOrderWhenTheScriptsGo) {
  const auto client = this->client({&kAdd});
  Answers answers;
  constexpr std::size_t kCount = 3000;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 1000 == 500) {
      client->send(std::vector<std::string_view>{"SCRIPT", "FLUSH"}, [](const Answer&) {},
                   {.timeout = kPatience});
    }
    client->call(kAdd, std::vector<std::string_view>{"n"}, std::vector<std::string_view>{"1"},
                 answers.take(), {.timeout = kPatience});
  }
  const std::vector<Said> all = answers.wait(kCount);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(all[i].text, std::to_string(i + 1));
  EXPECT_GE(client->counts().reloads, 1);
}

TEST_F(RedisClient, NamesTheScriptThatFailed) {
  const auto client = this->client();
  const Said said = run(*client, kBroken, {"n"}, {});
  EXPECT_EQ(said.kind, FailureKind::kScript);
  EXPECT_TRUE(said.may_have_run);
  EXPECT_THAT(said.text, HasSubstr("to the script 'broken'"));
  EXPECT_THAT(said.text, HasSubstr(redis_.url()));
}

TEST_F(RedisClient, TellsAForeignValueUnderAKey) {
  const auto client = this->client({&kAdd});
  ask(*client, {"RPUSH", "n", "x"});
  EXPECT_EQ(run(*client, kAdd, {"n"}, {"1"}).kind, FailureKind::kScript);
}

TEST_F(RedisClient, TellsThatMemoryIsFull) {
  const auto client = this->client({&kAdd});
  ask(*client, {"CONFIG", "SET", "maxmemory", "1"});
  const Said said = run(*client, kAdd, {"n"}, {"1"});
  EXPECT_EQ(said.kind, FailureKind::kOutOfMemory);
  EXPECT_FALSE(said.may_have_run);
}

TEST_F(RedisClient, TellsThatItSpeaksToAReplica) {
  const auto client = this->client({&kAdd});
  // No server is there: the port 1 of loopback refuses.
  ask(*client, {"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_EQ(run(*client, kAdd, {"n"}, {"1"}).kind, FailureKind::kTopology);
}

TEST_F(RedisClient, TellsAnErrorOfTheServer) {
  const auto client = this->client();
  const Said said = ask(*client, {"NONSENSE"});
  EXPECT_EQ(said.kind, FailureKind::kServer);
  EXPECT_THAT(said.text, HasSubstr("unknown command"));
}

TEST_F(RedisClient, RefusesWhatIsBeyondItsBound) {
  const auto client = this->client();
  ask(*client, {"PING"});
  redis_.pause();
  Answers answers;
  const std::vector<std::string_view> words = {"PING"};
  for (std::size_t i = 0; i < kRequestsMax; ++i) {
    client->send(words, answers.take(), {.timeout = kPatience});
  }
  EXPECT_EQ(answers.size(), 0);
  client->send(words, answers.take());
  EXPECT_EQ(answers.wait().front().kind, FailureKind::kTooMany);
  redis_.resume();
  client->close();
  EXPECT_EQ(answers.wait(kRequestsMax + 1).size(), kRequestsMax + 1);
}

// Their replies may come yet, so they are kept.
TEST_F(RedisClient, CountsWhatHasTimedOutAmongWhatIsInFlight) {
  const auto client = this->client();
  ask(*client, {"PING"});
  redis_.pause();
  Answers answers;
  const std::vector<std::string_view> words = {"PING"};
  for (std::size_t i = 0; i < kRequestsMax; ++i) {
    client->send(words, answers.take(), {.timeout = 1ms});
  }
  answers.wait(kRequestsMax);
  EXPECT_EQ(ask(*client, {"PING"}).kind, FailureKind::kTooMany);
  redis_.resume();
  EXPECT_TRUE(eventually([&] { return ask(*client, {"PING"}).ok; }));
}

TEST_F(RedisClient, AnswersWhateverIsInFlightWhenItCloses) {
  auto client = this->client();
  ask(*client, {"PING"});
  redis_.pause();
  Answers answers;
  client->send(std::vector<std::string_view>{"PING"}, answers.take(), {.timeout = kPatience});
  client.reset();
  EXPECT_EQ(answers.wait().front().kind, FailureKind::kDisconnected);
  redis_.resume();
}

TEST(RedisClientUser, IsLetInWithTheRightPasswordOnly) {
  const RedisServer redis({.password = "open"});
  Loop loop;
  const auto said = [&](std::string_view who) {
    const auto client = make_client(
        loop,
        patient_with("redis://" + std::string(who) + "127.0.0.1:" + std::to_string(redis.port())));
    return ask(*client, {"PING"});
  };
  EXPECT_EQ(said(":open@").text, "PONG");
  EXPECT_EQ(said("default:open@").text, "PONG");
  EXPECT_EQ(said("").kind, FailureKind::kRefusedUser);
  EXPECT_EQ(said(":shut@").kind, FailureKind::kRefusedUser);
  EXPECT_THAT(said(":shut@").text, HasSubstr("WRONGPASS"));
}

TEST(RedisClientUser, IsToldWhatItMayNotDo) {
  const RedisServer redis;
  EXPECT_EQ(redis.ask("ACL SETUSER ann on >pw ~* +@all -incrby"), "+OK");
  Loop loop;
  const auto client =
      make_client(loop, patient_with("redis://ann:pw@127.0.0.1:" + std::to_string(redis.port())));
  EXPECT_EQ(ask(*client, {"INCRBY", "n", "1"}).kind, FailureKind::kRefusedUser);
}

}  // namespace
}  // namespace weir::store::redis
