#include "weir/wire/resp/session.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/patient_store.h"
#include "tests/wire/resp/session_support.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp {
namespace {

// --- the table of commands

TEST_F(SessionTest, KnowsItsCommandsInAnyCase) {
  EXPECT_EQ(say("PING\r\n"), "+PONG\r\n");
  EXPECT_EQ(say("ping hello\r\n"), "$5\r\nhello\r\n");
  EXPECT_EQ(say("Nonsense a b\r\n"),
            "-ERR unknown command 'Nonsense', with args beginning with: 'a' 'b' \r\n");
}

TEST_F(SessionTest, ChecksTheNumberOfArgumentsOfEveryCommand) {
  for (const Command* const each : commands_of(service)) {
    const Command& command = *each;
    if (command.name == "EXEC") continue;  // words it as what it aborts (transaction_test.cc)
    std::string least(command.name);
    for (int i = 2; i < command.words_min; ++i) least += " x";
    if (command.words_min > 1) {
      EXPECT_TRUE(say(least + "\r\n").starts_with("-ERR wrong number of arguments")) << least;
    }
    if (command.words_max < 0) continue;
    std::string most(command.name);
    for (int i = 1; i < command.words_max + 1; ++i) most += " x";
    EXPECT_TRUE(say(most + "\r\n").starts_with("-ERR wrong number of arguments")) << most;
  }
}

TEST_F(SessionTest, RefusesCommandsBeyondItsRole) {
  for (const Role role : {Role::kNobody, Role::kObserve, Role::kDecide}) {
    for (const Command* const each : commands_of(service)) {
      const Command& command = *each;
      if (command.role <= role || command.name == "EXEC") continue;
      begin(role);
      std::string line(command.name);
      for (int i = 1; i < command.words_min; ++i) line += " x";
      const std::string got = say(line + "\r\n");
      EXPECT_TRUE(got.starts_with(role == Role::kNobody ? "-NOAUTH" : "-NOPERM"))
          << to_string(role) << ": " << line << " " << got;
    }
  }
}

TEST_F(SessionTest, TakesOnTheRoleOfAToken) {
  begin(Role::kNobody);
  EXPECT_TRUE(say("PING\r\n").starts_with("-NOAUTH"));
  EXPECT_EQ(say("AUTH watch\r\n"), "+OK\r\n");
  EXPECT_FALSE(session->take_unknown_token());
  EXPECT_EQ(say("PING\r\n"), "+PONG\r\n");
  EXPECT_TRUE(say("CL.THROTTLE x 1 1 1\r\n").starts_with("-NOPERM"));
  EXPECT_EQ(say("AUTH default decide\r\n"), "+OK\r\n");
  EXPECT_TRUE(say("CL.THROTTLE x 1 1 1\r\n").starts_with("*5"));
  EXPECT_EQ(say("RESET\r\n"), "+RESET\r\n");
  EXPECT_TRUE(say("PING\r\n").starts_with("-NOAUTH"));
}

TEST_F(SessionTest, StopsBehindATokenThatIsNotKnownUntilItIsTakenNoteOf) {
  begin(Role::kNobody);
  EXPECT_TRUE(
      say("AUTH wrong\r\nHELLO 3 AUTH default wrong\r\nAUTH watch\r\n").starts_with("-WRONGPASS"));
  EXPECT_EQ(say(""), "");
  EXPECT_TRUE(session->take_unknown_token());
  EXPECT_FALSE(session->take_unknown_token());
  EXPECT_TRUE(say("").starts_with("-WRONGPASS"));
  EXPECT_TRUE(session->take_unknown_token());
  EXPECT_EQ(say(""), "+OK\r\n");
  EXPECT_FALSE(session->take_unknown_token());
}

TEST_F(SessionTest, LooksUpItsRoleAgainWhenTheTokensChange) {
  begin(Role::kNobody);
  ASSERT_EQ(say("AUTH decide\r\n"), "+OK\r\n");
  host.epoch += 1;
  EXPECT_TRUE(say("CL.THROTTLE x 1 1 1\r\n").starts_with("*5")) << "this token is still known";
  host.revoked = "decide";
  host.epoch += 1;
  EXPECT_TRUE(say("CL.THROTTLE x 1 1 1\r\n").starts_with("-NOAUTH"));
}

TEST_F(SessionTest, LosesItsRoleWhenTokensAreIntroduced) {
  ASSERT_EQ(say("PING\r\n"), "+PONG\r\n");
  host.unnamed = Role::kNobody;
  host.epoch += 1;
  EXPECT_TRUE(say("PING\r\n").starts_with("-NOAUTH"));
}

TEST_F(SessionTest, SaysAsRedisCellHowManyArgumentsAThrottleTakes) {
  const std::string usage =
      "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> "
      "[<quantity>]\r\n";
  EXPECT_EQ(say("CL.THROTTLE\r\n"), usage);
  EXPECT_EQ(say("CL.THROTTLE x 1 1\r\n"), usage);
  EXPECT_TRUE(say("CL.THROTTLE x 1 1 1\r\n").starts_with("*5"));
  EXPECT_TRUE(say("CL.THROTTLE x 1 1 1 1\r\n").starts_with("*5"));
  EXPECT_EQ(say("CL.THROTTLE x 1 1 1 1 1\r\n"), usage);
}

TEST_F(SessionTest, StopsWhenItsRepliesAreManyAndGoesOnLater) {
  service.reply_bytes_max = 100;
  std::string commands, replies;
  for (int i = 0; i < 300; ++i) {
    commands += "ECHO " + std::to_string(i) + "\r\n";
    const std::string text = std::to_string(i);
    replies += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  std::string got = say(commands);
  EXPECT_GE(got.size(), 100u);
  EXPECT_LE(got.size(), 108u) << "one reply beyond the bound at most";
  for (int i = 0; i < 300 && !unread.empty(); ++i) got += say("");
  EXPECT_EQ(got, replies);
}

TEST_F(SessionTest, SaysWhatThereIsInsteadOfCommandsThatRedisHas) {
  const std::string data = say("get key\r\n");
  EXPECT_TRUE(data.starts_with(
      "-ERR unknown command 'get', with args beginning with: 'key' (weir keeps no data; "))
      << data;
  EXPECT_NE(say("EVALSHA abc 0\r\n").find("'abc' '0' (weir runs no scripts; "), std::string::npos);
  EXPECT_NE(say("SUBSCRIBE a\r\n").find("(weir publishes nothing here; "), std::string::npos);
  EXPECT_NE(data.find("COMMAND LIST"), std::string::npos);
}

TEST_F(SessionTest, EchoesAtMostSoMuchOfAnUnknownCommandAsRedisDoes) {
  const std::string start = "-ERR unknown command 'FOO', with args beginning with: ";
  const std::string args = " " + std::string(200, 'c') + " d\r\n";
  EXPECT_EQ(say("FOO a b" + args), start + "'a' 'b' '" + std::string(120, 'c') + "' \r\n");
  EXPECT_EQ(say("FOO \"a\\nb\"\r\n"), start + "'a b' \r\n");
  EXPECT_TRUE(say(std::string(129, 'N') + "\r\n")
                  .starts_with("-ERR unknown command '" + std::string(128, 'N') + "', "));
}

TEST_F(SessionTest, ListsItsCommands) {
  const std::string count = std::to_string(commands_of(service).size());
  EXPECT_EQ(say("COMMAND COUNT\r\n"), ":" + count + "\r\n");
  EXPECT_TRUE(say("COMMAND\r\n").starts_with("*" + count + "\r\n"));
  EXPECT_NE(say("COMMAND DOCS PING\r\n").find("Answer PONG."), std::string::npos);
  EXPECT_EQ(say("COMMAND INFO nonsense\r\n"), "*1\r\n*-1\r\n");
}

// The reference page has a row for each command, made from the table.
TEST_F(SessionTest, HasEveryCommandInItsReference) {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/reference/resp.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const Command* const each : commands_of(service)) {
    const Command& command = *each;
    const std::string call =
        std::string(command.name) + (command.usage.empty() ? "" : " " + std::string(command.usage));
    std::string row = "| `" + call + "` | " + std::string(to_string(command.role)) + " | " +
                      std::string(command.summary) + " |";
    for (std::size_t at = row.find('|', 3); at < row.find("` |"); at = row.find('|', at + 2)) {
      row.insert(at, "\\");
    }
    EXPECT_NE(page.str().find(row), std::string::npos) << row;
  }
}

TEST_F(SessionTest, TellsTheSectionsOfInfoThatAreAskedFor) {
  const std::string server = "# Server\r\nserver:weir\r\n";
  const std::string clients = "# Clients\r\nconnected:2\r\nblocked:1\r\n";
  const std::string table = "# Engine\r\nkeys:3\r\n";
  const auto bulk = [](const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  };
  const std::string all = bulk(server + "\r\n" + clients + "\r\n" + table);
  EXPECT_EQ(say("INFO\r\n"), all);
  EXPECT_EQ(say("INFO everything\r\n"), all);
  EXPECT_EQ(say("INFO server\r\n"), bulk(server));
  EXPECT_EQ(say("INFO ENGINE\r\n"), bulk(table));
  EXPECT_EQ(say("INFO engine Server\r\n"), bulk(server + "\r\n" + table));
  EXPECT_EQ(say("INFO memory\r\n"), bulk(""));
}

// --- before a role is known

// ECHO of so many bytes in all.
std::string echo_of(std::size_t bytes) {
  const std::string begin = "*2\r\n$4\r\nECHO\r\n$";
  const std::size_t text = bytes - begin.size() - std::string_view("12345\r\n\r\n").size();
  return begin + std::to_string(text) + "\r\n" + std::string(text, 'x') + "\r\n";
}

TEST_F(SessionTest, TakesALargeRequestOnlyFromAClientWithARole) {
  ASSERT_EQ(echo_of(kStrangerBytesMax).size(), kStrangerBytesMax);
  begin(Role::kNobody);
  EXPECT_EQ(say(echo_of(kStrangerBytesMax)), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(say(echo_of(kStrangerBytesMax + 1)),
            "-ERR Protocol error: too big multibulk request\r\n");
  EXPECT_TRUE(session->is_closing());
  begin(Role::kNobody);
  unread.clear();
  EXPECT_EQ(say(std::string(kStrangerBytesMax, 'x')), "");
  EXPECT_EQ(say("x"), "-ERR Protocol error: too big inline request\r\n") << "nor a long line";
}

TEST_F(SessionTest, TakesALargeRequestBehindTheTokenThatAllowsIt) {
  begin(Role::kNobody);
  EXPECT_TRUE(say("AUTH watch\r\n" + echo_of(20'000)).starts_with("+OK\r\n$19976\r\nxxx"));
  EXPECT_EQ(say("RESET\r\n"), "+RESET\r\n");
  EXPECT_TRUE(say(echo_of(20'000)).starts_with("-ERR Protocol error"));
}

TEST_F(SessionTest, RunsLittleForAClientWithoutARoleThatReadsNothing) {
  begin(Role::kNobody);
  const std::size_t docs = say("COMMAND DOCS\r\n").size();
  std::string many;
  for (int i = 0; i < 500; ++i) many += "COMMAND DOCS\r\n";
  const std::size_t replies = say(many).size();
  EXPECT_GE(replies, kStrangerBytesMax);
  EXPECT_LT(replies, kStrangerBytesMax + docs);
}

// --- versions

TEST_F(SessionTest, SpeaksVersionThreeWhenAsked) {
  EXPECT_TRUE(say("HELLO\r\n").starts_with("*14\r\n"));
  EXPECT_TRUE(say("HELLO 3\r\n").starts_with("%7\r\n"));
  EXPECT_TRUE(say("WEIR.ACQUIRE client=a\r\n").starts_with("%6\r\n"));
  EXPECT_TRUE(say("HELLO 4\r\n").starts_with("-NOPROTO"));
  EXPECT_TRUE(say("HELLO 2\r\n").starts_with("*14\r\n"));
}

TEST_F(SessionTest, AuthenticatesInTheSameBreath) {
  begin(Role::kNobody);
  EXPECT_TRUE(say("HELLO 3\r\n").starts_with("-NOAUTH"));
  EXPECT_TRUE(say("HELLO 3 AUTH default decide SETNAME me\r\n").starts_with("%7\r\n"));
  EXPECT_EQ(say("CLIENT GETNAME\r\n"), "$2\r\nme\r\n");
  EXPECT_EQ(say("CLIENT ID\r\n"), ":7\r\n");
}

// --- decisions

TEST_F(SessionTest, SaysWhichLimitBoundAndWhen) {
  const std::string allowed =
      "*12\r\n$7\r\nverdict\r\n$7\r\nallowed\r\n$5\r\nlimit\r\n$-1\r\n$9\r\nshortfall\r\n:0\r\n"
      "$14\r\nretry_after_ms\r\n:0\r\n$4\r\nhold\r\n$-1\r\n$9\r\nremaining\r\n"
      "*2\r\n$10\r\nper-client\r\n:2\r\n";
  EXPECT_EQ(say("WEIR.ACQUIRE client=a\r\n"), allowed);
  say("WEIR.ACQUIRE client=a\r\nWEIR.ACQUIRE client=a\r\n");
  EXPECT_EQ(say("WEIR.ACQUIRE client=a\r\n", kStart + 1ms),
            "*12\r\n$7\r\nverdict\r\n$6\r\ndenied\r\n$5\r\nlimit\r\n$10\r\nper-client\r\n"
            "$9\r\nshortfall\r\n:1\r\n$14\r\nretry_after_ms\r\n:3599999\r\n$4\r\nhold\r\n$-1\r\n"
            "$9\r\nremaining\r\n*2\r\n$10\r\nper-client\r\n:0\r\n");
}

TEST_F(SessionTest, RunsAPipelineInOrder) {
  const std::string got =
      say("WEIR.ACQUIRE client=a\r\nWEIR.ACQUIRE client=a\r\nPING\r\nWEIR.ACQUIRE nonsense\r\n"
          "WEIR.ACQUIRE client=a\r\nCL.THROTTLE k 0 1 10\r\nCL.THROTTLE k 0 1 10\r\n");
  std::vector<std::size_t> places;
  std::size_t at = 0;
  for (const std::string_view part :
       {":2\r\n", ":1\r\n", "+PONG", "-BADARG 'nonsense'",
        ":0\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:10\r\n", "*5\r\n:1\r\n:1\r\n:0\r\n:10\r\n:10\r\n"}) {
    at = got.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << got;
  }
}

TEST_F(SessionTest, ReadsCostsInWholeAndInMillionths) {
  EXPECT_NE(say("WEIR.ACQUIRE client=a COST tokens=300 cost pu=0.64\r\n").find(":1360000\r\n"),
            std::string::npos);
  EXPECT_NE(say("WEIR.PEEK client=a COST tokens=1\r\n").find(":700\r\n"), std::string::npos);
  const std::string both = say("WEIR.ACQUIRE client=b COST tokens=300 pu=0.64 HOLD 1s\r\n");
  EXPECT_NE(both.find(":700\r\n"), std::string::npos) << "one COST, two units: " << both;
  EXPECT_NE(both.find(":1360000\r\n"), std::string::npos) << both;
  EXPECT_TRUE(say("WEIR.ACQUIRE client=a COST tokens=0.5\r\n").starts_with("-BADARG"));
  EXPECT_TRUE(say("WEIR.ACQUIRE client=a COST tokens\r\n").starts_with("-BADARG cost 'tokens'"));
  EXPECT_TRUE(say("WEIR.ACQUIRE client=a COST\r\n").starts_with("-BADARG 'COST' stands last"));
  EXPECT_TRUE(
      say("WEIR.ACQUIRE client=a COST rubbish=1\r\n").starts_with("-BADARG unit 'rubbish'"));
}

TEST_F(SessionTest, AnswersARequestThatMeetsNoLimitAsTheRulesSay) {
  engine::RuleSetSpec spec = some_limits();
  EXPECT_NE(say("WEIR.ACQUIRE\r\n").find("allowed"), std::string::npos);
  spec.unmatched = engine::Unmatched::kDeny;
  ASSERT_TRUE(engine->swap(engine::rules_of(spec), kStart));
  const std::string denied = say("WEIR.ACQUIRE\r\n");
  EXPECT_NE(denied.find("denied\r\n$5\r\nlimit\r\n$-1\r\n"), std::string::npos) << denied;
  spec.unmatched = engine::Unmatched::kError;
  ASSERT_TRUE(engine->swap(engine::rules_of(spec), kStart));
  EXPECT_TRUE(say("WEIR.ACQUIRE\r\n").starts_with("-UNMATCHED request: it meets no limit"));
}

TEST_F(SessionTest, GrantsAsMuchAsThereIs) {
  const std::string got = say("WEIR.ACQUIRE client=a COST tokens=5000 UPTO tokens\r\n");
  EXPECT_NE(got.find("$7\r\ngranted\r\n:1000\r\n"), std::string::npos) << got;
}

// --- holds

TEST_F(SessionTest, SettlesCancelsAndRenewsHolds) {
  const auto hold_of = [](const std::string& reply) {
    const std::size_t at = reply.find("$4\r\nhold\r\n$") + 11;
    const std::size_t begin = reply.find("\r\n", at) + 2;
    return reply.substr(begin, reply.find("\r\n", begin) - begin);
  };
  const std::string first = hold_of(say("WEIR.ACQUIRE client=a COST tokens=500 HOLD 1m\r\n"));
  EXPECT_EQ(say("WEIR.RENEW " + first + " 5m\r\n"), "+active\r\n");
  EXPECT_EQ(say("WEIR.SETTLE " + first + " tokens=200\r\n"), "+settled\r\n");
  EXPECT_EQ(say("WEIR.SETTLE " + first + " tokens=100\r\n"), "+settled\r\n");
  EXPECT_NE(say("WEIR.INSPECT tokens client=a\r\n").find(":800\r\n"), std::string::npos);
  const std::string second = hold_of(say("WEIR.ACQUIRE client=a COST tokens=500 HOLD 1m\r\n"));
  EXPECT_EQ(say("WEIR.CANCEL " + second + "\r\n"), "+cancelled\r\n");
  EXPECT_NE(say("WEIR.INSPECT tokens client=a\r\n").find(":800\r\n"), std::string::npos);
  EXPECT_EQ(say("WEIR.CANCEL 0123456789abcdef-1\r\n"), "+gone\r\n");
  EXPECT_TRUE(say("WEIR.CANCEL rubbish\r\n").starts_with("-BADARG 'rubbish' is not a hold"));
}

// --- waiting

TEST_F(SessionTest, HoldsBackLaterCommandsWhileOneWaits) {
  say("WEIR.ACQUIRE worker=w\r\n");
  EXPECT_EQ(say("PING\r\nWEIR.ACQUIRE worker=w WAIT 5s\r\nPING\r\nPING\r\n"), "+PONG\r\n");
  EXPECT_TRUE(session->is_waiting());
  EXPECT_EQ(say(""), "");
  engine->advance(kStart + 5s);
  ASSERT_EQ(late.size(), 1u);
  std::string out;
  EXPECT_TRUE(session->deliver(late[0].first, late[0].second, kStart + 5s, out));
  EXPECT_NE(out.find("denied"), std::string::npos);
  EXPECT_FALSE(session->is_waiting());
  EXPECT_EQ(say("", kStart + 5s), "+PONG\r\n+PONG\r\n");
}

TEST_F(SessionTest, GivesUpAWaitWhoseTokenIsGone) {
  begin(Role::kNobody);
  say("AUTH decide\r\nWEIR.ACQUIRE worker=w\r\nWEIR.ACQUIRE worker=w WAIT 5s\r\nPING\r\n");
  ASSERT_TRUE(session->is_waiting());
  std::string out;
  EXPECT_FALSE(session->look_at_tokens(kStart, out));
  host.epoch += 1;
  EXPECT_FALSE(session->look_at_tokens(kStart, out)) << "this token is still known";
  host.revoked = "decide";
  host.epoch += 1;
  EXPECT_TRUE(session->look_at_tokens(kStart, out));
  EXPECT_EQ(out, "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(engine->usage().waiters, 0u);
  EXPECT_EQ(say(""), "-NOAUTH Authentication required.\r\n") << "nor is what is behind it run";
}

TEST_F(SessionTest, DoesNotWaitWithoutNeed) {
  EXPECT_NE(say("WEIR.ACQUIRE worker=w WAIT 5s\r\n").find("allowed"), std::string::npos);
  EXPECT_FALSE(session->is_waiting());
  EXPECT_TRUE(say("WEIR.ACQUIRE client=a COST tokens=5 UPTO tokens WAIT 5s\r\n")
                  .starts_with("-BADARG WAIT"));
}

// --- limits that a store keeps

struct SharedSession : SessionTest {
  SharedSession() { use_store(store); }

  // Takes the only slot of worker w; returns its hold.
  HoldId take_slot() {
    const engine::RequestOf request({{"worker", "w"}});
    return engine->decide(request, kStart)->hold;
  }
  // Delivers what came last. Whether nothing is owed any more.
  bool deliver_last(std::string& out) {
    return session->deliver(late.back().first, late.back().second, kStart, out);
  }

  engine::PatientStore store;
};

TEST_F(SharedSession, AnswersAWaitThatEndsFirstBehindTheStoreItFollows) {
  const HoldId slot = take_slot();
  EXPECT_EQ(say("WEIR.ACQUIRE tenant=t\r\nWEIR.ACQUIRE worker=w WAIT 9s\r\nECHO z\r\n"), "");
  ASSERT_EQ(store.asked.size(), 1u);
  ASSERT_EQ(engine->usage().waiters, 1u);

  std::string out;
  EXPECT_EQ(engine::cancel(*engine, slot, kStart), engine::HoldState::kCancelled);
  ASSERT_EQ(late.size(), 1u) << "the wait has ended";
  EXPECT_FALSE(deliver_last(out));
  EXPECT_EQ(out, "");
  store.asked[0]();
  ASSERT_EQ(late.size(), 2u);
  EXPECT_TRUE(deliver_last(out));
  const std::size_t shared = out.find("shared\r\n");
  const std::size_t running = out.find("running\r\n");
  ASSERT_NE(running, std::string::npos) << out;
  EXPECT_LT(shared, running) << out;
  EXPECT_EQ(say(""), "$1\r\nz\r\n");
}

TEST_F(SharedSession, GivesUpAWaitBehindTheStoreItFollows) {
  take_slot();
  say("WEIR.ACQUIRE tenant=t\r\nWEIR.ACQUIRE worker=w WAIT 9s\r\n");
  std::string out;
  store.asked[0]();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_FALSE(session->give_up("UNAVAILABLE the server is stopping", kStart, out));
  EXPECT_EQ(out, "") << "the store's answer is on its way";
  EXPECT_TRUE(deliver_last(out));
  EXPECT_TRUE(out.starts_with("*12\r\n$7\r\nverdict")) << out;
  EXPECT_TRUE(out.ends_with("-UNAVAILABLE the server is stopping\r\n")) << out;
}

TEST_F(SharedSession, LetsTheStoreTakeBackWhatItGaveAClientThatLeft) {
  say("WEIR.ACQUIRE tenant=t HOLD 1h WAIT 9s\r\n");
  ASSERT_EQ(store.asked.size(), 1u);
  session->leave(kStart);
  store.asked[0]();
  EXPECT_TRUE(late.empty());
  ASSERT_EQ(store.ended.size(), 1u);
  EXPECT_EQ(store.ended[0].second, engine::HoldState::kCancelled);
  EXPECT_EQ(engine->usage().holds, 0u);
}

// --- the end

TEST_F(SessionTest, ClosesAfterQuitAndAfterAProtocolError) {
  EXPECT_EQ(say("QUIT\r\nPING\r\n"), "+OK\r\n");
  EXPECT_TRUE(session->is_closing());
  begin(Role::kAdmin);
  unread.clear();
  EXPECT_EQ(say("PING\r\n*1\r\n+PING\r\n"),
            "+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n");
  EXPECT_TRUE(session->is_closing());
}

TEST_F(SessionTest, ClosesAtOnceWhenTheClientSpeaksHttp) {
  for (const std::string_view line :
       {"POST / HTTP/1.1", "post x", "GET / HTTP/1.1", "get /v1/limits", "PUT /x HTTP/1.0",
        "OPTIONS * HTTP/1.1", "PRI * HTTP/2.0", "Host: 127.0.0.1:6380", "host:evil"}) {
    begin(Role::kAdmin);
    unread.clear();
    EXPECT_EQ(say("PING\r\n" + std::string(line) + "\r\nWEIR.ACQUIRE client=a\r\n"), "+PONG\r\n")
        << line;
    EXPECT_TRUE(session->is_http()) << line;
    EXPECT_TRUE(session->is_closing()) << line;
  }
  begin(Role::kAdmin);
  unread.clear();
  EXPECT_NE(say("WEIR.PEEK client=a\r\n").find(":3\r\n"), std::string::npos) << "nothing was run";
}

TEST_F(SessionTest, TakesACommandThatOnlyLooksLikeHttpForOneOfRedis) {
  EXPECT_TRUE(say("*2\r\n$3\r\nGET\r\n$2\r\n/x\r\n").starts_with("-ERR unknown command 'GET'"));
  EXPECT_TRUE(say("GET key\r\n").starts_with("-ERR unknown command 'GET'"));
  EXPECT_EQ(say("ECHO HTTP/1.1\r\n"), "$8\r\nHTTP/1.1\r\n");
  EXPECT_FALSE(session->is_closing());
  EXPECT_EQ(say("*1\r\n$4\r\nPOST\r\n"), "");
  EXPECT_TRUE(session->is_http());
}

TEST_F(SessionTest, NamesTheKeyOfALimitByItsAttributes) {
  EXPECT_EQ(say("WEIR.INSPECT per-client a\r\n"),
            "-BADARG limit 'per-client': 'a' is not part of its key, or there twice; write "
            "per-client client=VALUE\r\n");
  EXPECT_TRUE(say("WEIR.INSPECT per-client user=a\r\n").starts_with("-BADARG limit"));
  EXPECT_TRUE(say("WEIR.RESET per-client client=a client=b\r\n").starts_with("-BADARG limit"));
  EXPECT_EQ(say("WEIR.RESET per-client\r\n"),
            "-BADARG limit 'per-client': 'client' is missing from the key; write "
            "per-client client=VALUE\r\n");
  EXPECT_TRUE(say("WEIR.INSPECT per-client client=a=b\r\n").starts_with("*8\r\n"));
}

TEST_F(SessionTest, EndsTheHoldsOfAKeyThatIsReset) {
  for (int i = 0; i < 3; ++i) say("WEIR.ACQUIRE client=a HOLD 60s\r\n");
  say("WEIR.ACQUIRE client=b HOLD 60s\r\n");
  EXPECT_EQ(engine->usage().holds, 4u);
  EXPECT_EQ(say("WEIR.RESET per-client client=a HOLDS\r\n"), ":3\r\n");
  EXPECT_EQ(engine->usage().holds, 1u);
  EXPECT_EQ(say("WEIR.RESET per-client client=a holds\r\n"), ":0\r\n");
  EXPECT_NE(say("WEIR.INSPECT per-client client=a\r\n").find(":3\r\n"), std::string::npos);
  EXPECT_TRUE(say("WEIR.RESET rubbish HOLDS\r\n").starts_with("-NOTFOUND limit 'rubbish'"));
  EXPECT_TRUE(say("WEIR.RESET per-client HOLDS client=a\r\n").starts_with("-BADARG limit"));
}

TEST_F(SessionTest, ReloadsAndResets) {
  say("WEIR.ACQUIRE client=a\r\n");
  EXPECT_EQ(say("WEIR.RESET per-client client=a\r\n"), "+OK\r\n");
  EXPECT_NE(say("WEIR.INSPECT per-client client=a\r\n").find(":3\r\n"), std::string::npos);
  EXPECT_TRUE(say("WEIR.RESET rubbish a\r\n").starts_with("-NOTFOUND limit 'rubbish'"));
  EXPECT_EQ(say("WEIR.RELOAD\r\n"), "+OK\r\n");
  EXPECT_EQ(host.reloads, 1);
}

TEST_F(SessionTest, OwesTheReplyToAReload) {
  host.reloads_later = true;
  EXPECT_EQ(say("PING\r\nWEIR.RELOAD\r\nPING\r\n"), "+PONG\r\n");
  EXPECT_TRUE(session->is_waiting());
  host.waiting_reload(Done{});
  ASSERT_EQ(late.size(), 1u);
  std::string out;
  EXPECT_TRUE(session->deliver(late[0].first, late[0].second, kStart, out));
  EXPECT_EQ(out, "+OK\r\n");
  EXPECT_EQ(say(""), "+PONG\r\n");
}

// What follows it there would be run with the old rules.
TEST_F(SessionTest, ReloadsNothingInATransaction) {
  EXPECT_EQ(say("MULTI\r\n"), "+OK\r\n");
  EXPECT_TRUE(say("WEIR.RELOAD\r\n").starts_with("-ERR WEIR.RELOAD may wait here"));
  EXPECT_TRUE(say("EXEC\r\n").starts_with("-EXECABORT"));
  EXPECT_EQ(host.reloads, 0);
}

TEST_F(SessionTest, ShowsTheHeaviestKeys) {
  // Keys are sampled, so one is asked for often enough to be seen.
  for (int i = 0; i < 1000; ++i) say("WEIR.ACQUIRE client=a\r\n");
  EXPECT_TRUE(say("WEIR.HEAVIEST per-client\r\n").starts_with("*2\r\n$8\r\nclient=a\r\n:"));
  EXPECT_EQ(say("WEIR.HEAVIEST running 100\r\n"), "*0\r\n");
  EXPECT_TRUE(say("WEIR.HEAVIEST per-client 101\r\n").starts_with("-BADARG the number of keys"));
  EXPECT_TRUE(say("WEIR.HEAVIEST rubbish\r\n").starts_with("-NOTFOUND limit 'rubbish'"));
}

// A command cut anywhere gives the same replies.
TEST_F(SessionTest, DoesNotCareHowBytesAreCut) {
  const std::string bytes =
      "*2\r\n$12\r\nWEIR.ACQUIRE\r\n$8\r\nclient=a\r\nPING \"a b\"\r\n"
      "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n3\r\n$1\r\n1\r\n$1\r\n9\r\n";
  const std::string expected = say(bytes);
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    engine = engine::engine_of(some_limits());
    service.engine = engine.get();
    begin(Role::kAdmin);
    unread.clear();
    const std::string first = say(std::string_view(bytes).substr(0, cut));
    EXPECT_EQ(first + say(std::string_view(bytes).substr(cut)), expected) << cut;
  }
}

}  // namespace
}  // namespace weir::wire::resp
