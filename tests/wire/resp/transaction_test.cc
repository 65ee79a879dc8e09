// MULTI, EXEC and DISCARD. What is refused is worded as Redis 7.0 words it.

#include "weir/wire/resp/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/patient_store.h"
#include "tests/wire/resp/session_support.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kAborted =
    "-EXECABORT Transaction discarded because of previous errors.\r\n";
constexpr std::string_view kQueued = "+QUEUED\r\n";

struct TransactionTest : SessionTest {
  // What EXEC answers to these lines.
  std::string exec(const std::vector<std::string>& lines) {
    EXPECT_EQ(say("MULTI\r\n"), "+OK\r\n");
    for (const std::string& line : lines) EXPECT_EQ(say(line + "\r\n"), kQueued) << line;
    return say("EXEC\r\n");
  }
};

TEST_F(TransactionTest, RunsWhatWasQueuedInOrder) {
  EXPECT_EQ(exec({"PING", "CL.THROTTLE k 0 1 10", "ECHO \"a b\"", "CL.THROTTLE k 0 1 10"}),
            "*4\r\n+PONG\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:10\r\n$3\r\na b\r\n"
            "*5\r\n:1\r\n:1\r\n:0\r\n:10\r\n:10\r\n");
  EXPECT_EQ(exec({}), "*0\r\n");
  EXPECT_EQ(say("EXEC\r\n"), "-ERR EXEC without MULTI\r\n");
}

TEST_F(TransactionTest, ChargesNothingBeforeExec) {
  say("MULTI\r\nWEIR.ACQUIRE client=a\r\n");
  const std::string_view key[] = {"a"};
  const auto left = [&] {
    std::int64_t remaining = -1;
    engine->inspect("per-client", key, kStart,
                    [&](const Result<engine::Inspection>& found) { remaining = found->remaining; });
    return remaining;
  };
  EXPECT_EQ(left(), 3);
  say("EXEC\r\n");
  EXPECT_EQ(left(), 2);
}

// An hour lies between the first command and the last.
TEST_F(TransactionTest, DecidesAtTheInstantOfExec) {
  say("MULTI\r\nCL.THROTTLE k 0 1 10\r\n");
  say("CL.THROTTLE k 0 1 10\r\n", kStart + 1h);
  EXPECT_EQ(say("EXEC\r\n", kStart + 1h),
            "*2\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:10\r\n*5\r\n:1\r\n:1\r\n:0\r\n:10\r\n:10\r\n");
}

TEST_F(TransactionTest, IsForgottenByDiscard) {
  EXPECT_EQ(say("DISCARD\r\n"), "-ERR DISCARD without MULTI\r\n");
  EXPECT_EQ(say("MULTI\r\nWEIR.ACQUIRE client=a\r\nDISCARD\r\nEXEC\r\n"),
            "+OK\r\n+QUEUED\r\n+OK\r\n-ERR EXEC without MULTI\r\n");
  EXPECT_THAT(say("WEIR.PEEK client=a\r\n"), HasSubstr(":3\r\n"));
}

TEST_F(TransactionTest, IsNotNested) {
  EXPECT_EQ(say("MULTI\r\nMULTI\r\nPING\r\nEXEC\r\n"),
            "+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n+PONG\r\n");
}

TEST_F(TransactionTest, IsAbortedByWhatIsRefusedWhileItIsQueued) {
  for (const std::string_view line :
       {"NONSENSE a", "ECHO", "WEIR.CANCEL", "DISCARD x", "WEIR.ACQUIRE worker=w WAIT 5s",
        "WEIR.POOL.ACQUIRE chat", "WEIR.POOL.RELEASE job DELEGATE"}) {
    say("MULTI\r\nWEIR.ACQUIRE client=a\r\n");
    EXPECT_THAT(say(std::string(line) + "\r\n"), StartsWith("-ERR ")) << line;
    EXPECT_EQ(say("PING\r\n"), kQueued) << "as Redis says, though it comes to nothing";
    EXPECT_EQ(say("EXEC\r\n"), kAborted) << line;
  }
  EXPECT_THAT(say("WEIR.PEEK client=a\r\n"), HasSubstr(":3\r\n"));
}

TEST_F(TransactionTest, EndsWithAnExecThatIsRefused) {
  constexpr std::string_view kWrong =
      "-EXECABORT Transaction discarded because of: wrong number of arguments for 'EXEC' command";
  EXPECT_THAT(say("EXEC x\r\n"), StartsWith(kWrong));
  say("MULTI\r\n");
  EXPECT_THAT(say("EXEC x\r\n"), StartsWith(kWrong));
  EXPECT_EQ(say("EXEC\r\n"), "-ERR EXEC without MULTI\r\n");
}

TEST_F(TransactionTest, ChecksTheRoleWhenACommandIsQueuedAndWhenItIsRun) {
  begin(Role::kNobody);
  EXPECT_EQ(say("MULTI\r\n"), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(say("EXEC\r\n"),
            "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n");
  say("AUTH watch\r\nMULTI\r\n");
  EXPECT_THAT(say("WEIR.ACQUIRE client=a\r\n"), StartsWith("-NOPERM"));
  EXPECT_EQ(say("EXEC\r\n"), kAborted);
  say("AUTH decide\r\n");
  EXPECT_THAT(exec({"AUTH watch", "WEIR.ACQUIRE client=a"}),
              StartsWith("*2\r\n+OK\r\n-NOPERM this token's role is 'observe'"));
}

TEST_F(TransactionTest, AnswersErrorsOfCommandsInTheirPlaces) {
  EXPECT_THAT(
      exec({"WEIR.ACQUIRE nonsense", "PING", "WEIR.CANCEL rubbish"}),
      ::testing::MatchesRegex(
          "\\*3\r\n-BADARG [^\r]*\r\n\\+PONG\r\n-BADARG 'rubbish' is not a hold[^\r]*\r\n"));
}

// Hold, settle and look, in one go.
TEST_F(TransactionTest, DecidesNeighboursAsOneBatch) {
  const std::string got =
      exec({"WEIR.ACQUIRE client=a COST tokens=600", "WEIR.ACQUIRE client=a COST tokens=600",
            "WEIR.ACQUIRE worker=w", "WEIR.ACQUIRE worker=w", "WEIR.INSPECT tokens client=a"});
  std::size_t at = 0;
  for (const std::string_view part :
       {"*5\r\n", "allowed", "denied", "allowed", "denied", "remaining\r\n:400\r\n"}) {
    at = got.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << got;
  }
}

TEST_F(TransactionTest, TakesACommandWhoseValueIsCalledWait) {
  EXPECT_EQ(say("MULTI\r\nWEIR.ACQUIRE WAIT=1 client=WAIT HOLD WAIT UPTO wait COST wait=1\r\n"),
            "+OK\r\n+QUEUED\r\n");
  EXPECT_THAT(say("WEIR.ACQUIRE client=a COST tokens=1 pu=2 UPTO wait wait 1s\r\n"),
              StartsWith("-ERR WEIR.ACQUIRE may wait here"));
}

TEST_F(TransactionTest, LetsHelloAuthAndSelectBeQueuedAndResetAndQuitEndIt) {
  EXPECT_THAT(
      exec({"SELECT 0", "AUTH admin", "HELLO 3", "WEIR.PEEK client=a"}),
      ::testing::MatchesRegex("\\*4\r\n\\+OK\r\n\\+OK\r\n%7\r\n(.|\r|\n)*%6\r\n(.|\r|\n)*"));
  EXPECT_EQ(say("MULTI\r\nRESET\r\nEXEC\r\n"), "+OK\r\n+RESET\r\n-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(say("MULTI\r\nPING\r\nQUIT\r\nEXEC\r\n"), "+OK\r\n+QUEUED\r\n+OK\r\n");
  EXPECT_TRUE(session->is_closing());
}

TEST_F(TransactionTest, WatchesNothing) {
  EXPECT_THAT(say("WATCH key\r\n"), StartsWith("-ERR weir keeps no keys that could be watched"));
  EXPECT_EQ(say("UNWATCH\r\n"), "+OK\r\n");
  EXPECT_EQ(say("MULTI\r\nWATCH key\r\nUNWATCH\r\nEXEC\r\n"),
            "+OK\r\n-ERR WATCH inside MULTI is not allowed\r\n+QUEUED\r\n*1\r\n+OK\r\n");
}

TEST_F(TransactionTest, ComesInOnePieceOrByte) {
  const std::string bytes =
      "MULTI\r\n*2\r\n$12\r\nWEIR.ACQUIRE\r\n$8\r\nclient=a\r\nECHO \"a b\"\r\nEXEC\r\nPING\r\n";
  const std::string whole = say(bytes);
  EXPECT_TRUE(whole.ends_with("$3\r\na b\r\n+PONG\r\n")) << whole;
  say("WEIR.RESET per-client client=a\r\n");
  std::string pieces;
  for (std::size_t i = 0; i < bytes.size(); ++i) pieces += say(bytes.substr(i, 1));
  EXPECT_EQ(pieces, whole);
}

// --- bounds

TEST_F(TransactionTest, HasAsManyCommandsAsItsBoundAndNotOneMore) {
  say("MULTI\r\n");
  for (std::size_t i = 0; i < kTransactionCommandsMax; ++i) ASSERT_EQ(say("PING\r\n"), kQueued);
  EXPECT_THAT(say("EXEC\r\n"), StartsWith("*1024\r\n+PONG\r\n"));
  say("MULTI\r\n");
  for (std::size_t i = 0; i < kTransactionCommandsMax; ++i) ASSERT_EQ(say("PING\r\n"), kQueued);
  EXPECT_THAT(say("PING\r\n"), StartsWith("-EXHAUSTED a transaction has at most 1024 commands"));
  EXPECT_EQ(say("EXEC\r\n"), kAborted);
}

TEST_F(TransactionTest, HasAsManyBytesAsItsBoundAndNotOneMore) {
  service.bounds.request_bytes_max = 100;
  begin(Role::kAdmin);
  // 14 bytes of *1 and PING, and 24 beside the text of *2 and ECHO.
  const auto queue_text_of = [&](std::size_t bytes) {
    say("MULTI\r\nPING\r\n");
    return say("ECHO " + std::string(bytes, 'x') + "\r\n");
  };
  EXPECT_EQ(queue_text_of(100 - 14 - 21), kQueued);
  EXPECT_THAT(say("EXEC\r\n"), StartsWith("*2\r\n+PONG\r\n$65\r\n"));
  EXPECT_THAT(queue_text_of(100 - 14 - 21 + 1),
              StartsWith("-EXHAUSTED the commands of a transaction take at most 100 bytes"));
  EXPECT_EQ(say("EXEC\r\n"), kAborted);
}

TEST_F(TransactionTest, RunsNoMoreOnceItsRepliesAreMany) {
  service.reply_bytes_max = 100;
  const std::string got = exec(std::vector<std::string>(20, "ECHO 0123456789"));
  EXPECT_THAT(got, StartsWith("*20\r\n$10\r\n0123456789\r\n"));
  std::size_t run = 0, refused = 0;
  for (std::size_t at = 0; (at = got.find("\r\n$10", at)) != std::string::npos; ++at) run += 1;
  for (std::size_t at = 0; (at = got.find("\r\n-EXHAUSTED the replies", at)) != std::string::npos;
       ++at) {
    refused += 1;
  }
  EXPECT_EQ(run, 6u) << "17 bytes each, after five of the array";
  EXPECT_EQ(run + refused, 20u);
}

// --- limits that a store keeps

struct SharedTransaction : TransactionTest {
  SharedTransaction() { use_store(store); }

  engine::PatientStore store;
};

TEST_F(SharedTransaction, LeavesWholeWhenItsLastReplyHasCome) {
  EXPECT_EQ(say("ECHO a\r\nMULTI\r\nPING\r\nWEIR.ACQUIRE tenant=t\r\nWEIR.ACQUIRE client=a\r\n"
                "WEIR.ACQUIRE tenant=t\r\nECHO z\r\nEXEC\r\nECHO behind\r\n"),
            "$1\r\na\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
  ASSERT_EQ(store.asked.size(), 2u);
  ASSERT_TRUE(session->is_waiting());
  // The later one is answered first.
  store.asked[1]();
  store.asked[0]();
  ASSERT_EQ(late.size(), 2u);
  std::string out;
  EXPECT_FALSE(session->deliver(late[0].first, late[0].second, kStart, out));
  EXPECT_EQ(out, "");
  EXPECT_TRUE(session->deliver(late[1].first, late[1].second, kStart, out));
  std::size_t at = 0;
  for (const std::string_view part :
       {"*5\r\n+PONG\r\n", "shared", "per-client", "shared", "$1\r\nz\r\n"}) {
    at = out.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << out;
    at += 1;
  }
  EXPECT_TRUE(out.starts_with("*5\r\n")) << out;
  EXPECT_TRUE(out.ends_with("$1\r\nz\r\n")) << out;
  EXPECT_EQ(say(""), "$6\r\nbehind\r\n");
}

TEST_F(SharedTransaction, OwesOneReplyBehindItsBeginning) {
  EXPECT_EQ(exec({"PING", "WEIR.ACQUIRE tenant=t"}), "");
  ASSERT_EQ(store.asked.size(), 1u);
  store.asked[0]();
  ASSERT_EQ(late.size(), 1u);
  std::string out;
  EXPECT_TRUE(session->deliver(late[0].first, late[0].second, kStart, out));
  EXPECT_THAT(out, StartsWith("*2\r\n+PONG\r\n*12\r\n$7\r\nverdict"));
}

TEST_F(SharedTransaction, AnswersWhatIsGivenUpInItsPlace) {
  EXPECT_EQ(exec({"PING", "WEIR.ACQUIRE tenant=t", "PING"}), "");
  std::string out;
  ASSERT_TRUE(session->give_up("UNAVAILABLE the server is stopping", kStart, out));
  EXPECT_EQ(out, "*3\r\n+PONG\r\n-UNAVAILABLE the server is stopping\r\n+PONG\r\n");
}

}  // namespace
}  // namespace weir::wire::resp
