#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "apps/weir/exit.h"
#include "tests/app/support.h"

namespace weir::app {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Ask : AppTest {
  std::string hold_of(const Ran& ran) {
    return std::string(boost::json::parse(ran.out).at("hold").as_string());
  }
};

TEST_F(Ask, SaysAllowedAndWhatIsLeft) {
  serve(kConfig);
  const Ran ran = run({"ask", "client=a", "--cost", "tokens=300"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, "allowed\n  per-client  2 left\n  tokens      700 left\n");
  EXPECT_EQ(ran.err, "");
}

TEST_F(Ask, SaysWhoDeniedAndUntilWhen) {
  std::string config = kConfig;
  config.replace(config.find("10000d"), 6, "1d");
  serve(config);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run({"ask", "client=a"}).code, kExitOk);
  const Ran ran = run({"ask", "client=a"});
  EXPECT_EQ(ran.code, kExitDenied);
  EXPECT_THAT(ran.out, StartsWith("denied by per-client, 1 short; try again in "));
  EXPECT_THAT(ran.out, HasSubstr(" 00:00:00.0"));  // a day's window ends at midnight
  EXPECT_THAT(ran.out, HasSubstr("\n  per-client  0 left\n"));
}

TEST_F(Ask, SaysThatNoLimitIsMet) {
  serve(std::string(kConfig) + "unmatched: deny\n");
  const Ran denied = run({"ask"});
  EXPECT_EQ(denied.code, kExitDenied) << denied.err;
  EXPECT_EQ(denied.out, "denied; it meets no limit, so write the attributes that one reads\n");
}

TEST_F(Ask, SaysWhatLimitsReadWhereItIsAnError) {
  serve(std::string(kConfig) + "unmatched: error\n");
  const Ran refused = run({"ask"});
  EXPECT_EQ(refused.code, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr("UNMATCHED request: it meets no limit"));
  EXPECT_THAT(refused.err, HasSubstr("client, worker, kind"));
}

TEST_F(Ask, SaysNever) {
  serve(kConfig);
  const Ran ran = run({"ask", "client=a", "--cost", "tokens=1001"});
  EXPECT_EQ(ran.code, kExitNever);
  EXPECT_THAT(ran.out, StartsWith("never by tokens, 1 short; waiting will not help\n"));
}

TEST_F(Ask, SaysItInJson) {
  serve(kConfig);
  const Ran allowed = run({"ask", "client=a", "--cost", "tokens=300", "--json"});
  EXPECT_EQ(allowed.out,
            R"({"verdict":"allowed","limit":null,"shortfall":0,"retry_after_ms":0,"hold":null,)"
            R"("remaining":{"per-client":2,"tokens":700}})"
            "\n");
  const Ran never = run({"ask", "client=a", "--cost", "tokens=1001", "--json"});
  EXPECT_EQ(never.code, kExitNever);
  const boost::json::value said = boost::json::parse(never.out);
  EXPECT_EQ(said.at("limit").as_string(), "tokens");
  EXPECT_EQ(said.at("shortfall").as_int64(), 301);
}

TEST_F(Ask, PeeksWithoutCharging) {
  serve(kConfig);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(run({"ask", "client=a", "--peek"}).code, kExitOk);
  EXPECT_THAT(run({"ask", "client=a"}).out, HasSubstr("2 left"));
}

TEST_F(Ask, TakesWhatThereIs) {
  serve(kConfig);
  const Ran ran = run({"ask", "client=a", "--cost", "tokens=1500", "--up-to", "tokens"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("allowed: 1000 tokens\n"));
  EXPECT_THAT(run({"ask", "client=b", "--cost", "tokens=1500", "--up-to", "tokens", "--json"}).out,
              HasSubstr(R"("granted":1000)"));
}

TEST_F(Ask, WaitsForItsTurn) {
  serve(kConfig);
  const std::string hold = hold_of(run({"ask", "worker=w", "--json"}));
  EXPECT_EQ(run({"ask", "worker=w", "--wait", "50ms"}).code, kExitDenied);
  Process waiter(weir({"ask", "worker=w", "--wait", "50s", "--json", "--server", address}));
  ASSERT_TRUE(eventually([&] {
    return run({"inspect", "running", "worker=w", "--json"}).out.find(R"("waiters":1)") !=
           std::string::npos;
  }));
  EXPECT_EQ(run({"settle", hold}).out, "settled\n");
  EXPECT_EQ(waiter.wait(), kExitOk);
}

TEST_F(Ask, EndsAndRenewsHolds) {
  serve(kConfig);
  const std::string first =
      hold_of(run({"ask", "client=a", "--cost", "tokens=500", "--hold", "60s", "--json"}));
  EXPECT_EQ(run({"renew", first, "5m"}).out, "active\n");
  const Ran settled = run({"settle", first, "tokens=100", "--json"});
  EXPECT_EQ(settled.code, kExitOk);
  EXPECT_EQ(settled.out, R"({"hold":")" + first + R"(","state":"settled"})" + "\n");
  EXPECT_THAT(run({"inspect", "tokens", "client=a"}).out, StartsWith("900 of 1000 left"));
  const Ran renewed = run({"renew", first, "5m"});
  EXPECT_EQ(renewed.code, kExitFailed);
  EXPECT_EQ(renewed.out, "settled\n");

  const std::string second =
      hold_of(run({"ask", "client=a", "--cost", "tokens=500", "--hold", "60s", "--json"}));
  EXPECT_EQ(run({"cancel", second}).out, "cancelled\n");
  EXPECT_THAT(run({"inspect", "tokens", "client=a"}).out, StartsWith("900 of 1000 left"));
  EXPECT_EQ(run({"cancel", "0123456789abcdef-1"}).code, kExitFailed);
}

TEST_F(Ask, TakesSeveralCosts) {
  serve(kConfig);
  const Ran ran =
      run({"ask", "--cost", "tokens=300", "--cost", "requests=2", "client=a", "--json"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(run({"ask", "client=a", "--cost", "requests=2"}).code, kExitDenied);
  EXPECT_EQ(run({"ask", "client=a", "--cost", "tokens=701"}).code, kExitDenied);
}

TEST_F(Ask, SaysWhatTheServerFindsWrong) {
  serve(kConfig);
  const Ran unit = run({"ask", "client=a", "--cost", "apples=1"});
  EXPECT_EQ(unit.code, kExitUsage);
  EXPECT_THAT(unit.err, StartsWith("weir ask: the server says: BADARG unit 'apples' is unknown"));
  EXPECT_EQ(run({"cancel", "rubbish"}).code, kExitUsage);
}

TEST_F(Ask, SaysWhatIsWrongBeforeItConnects) {
  const auto wrong = [&](std::vector<std::string> words, const std::string& message) {
    const Ran ran = run_words(weir(std::move(words)));
    EXPECT_EQ(ran.code, kExitUsage);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(message));
  };
  wrong({"ask", "client"}, "'client' has no '='");
  wrong({"ask", "--wait", "soon"}, "--wait is 'soon'");
  wrong({"ask", "--server", "6380"}, "--server is '6380', but it must be a numeric address");
  wrong({"ask", "--peek", "--wait", "1s"}, "--peek excludes --wait");
  wrong({"ask", "--nonsense"}, "--nonsense");
  wrong({"settle"}, "hold is required");
  wrong({"nonsense"}, "'nonsense' is not a command");
  wrong({}, "subcommand is required");
}

TEST_F(Ask, SaysThatNothingListens) {
  const Ran tcp = run_words(weir({"ask", "--server", "127.0.0.1:1"}));
  EXPECT_EQ(tcp.code, kExitUnreachable);
  EXPECT_EQ(tcp.err,
            "weir ask: nothing listens at 127.0.0.1:1; start one with `weir serve FILE`, or name "
            "another with --server\n");
  const std::string nowhere = "unix:" + (dir / "nowhere").string();
  const Ran local = run_words(weir({"ask", "--server", nowhere}));
  EXPECT_EQ(local.code, kExitUnreachable);
  EXPECT_THAT(local.err, StartsWith("weir ask: nothing listens at " + nowhere));
}

TEST_F(Ask, SaysThatTheServerWentAway) {
  serve(kConfig);
  ASSERT_EQ(run({"ask", "worker=w"}).code, kExitOk);
  Process waiter(weir({"ask", "worker=w", "--wait", "50s", "--server", address}));
  ASSERT_TRUE(eventually([&] {
    return run({"inspect", "running", "worker=w"}).out.find("1 waiting") != std::string::npos;
  }));
  server->signal(SIGKILL);
  EXPECT_EQ(waiter.wait(), kExitUnreachable);
  EXPECT_THAT(waiter.said(), StartsWith("weir ask: " + address + " went away"));
}

TEST_F(Ask, ShowsItsTokenWhereOneIsWanted) {
  serve(std::string(kConfig) + "auth: [ { token: secret, role: decide } ]\n");
  EXPECT_EQ(run({"ask"}).code, kExitUnreachable);
  const Ran wrong = run({"ask", "--token", "guess"});
  EXPECT_EQ(wrong.code, kExitUnreachable);
  EXPECT_THAT(wrong.err, HasSubstr("does not know this token"));
  EXPECT_EQ(run({"ask", "client=a", "--token", "secret"}).code, kExitOk);
  EXPECT_EQ(run({"reset", "per-client", "client=a", "--token", "secret"}).code, kExitUnreachable);
  const Ran by_environment =
      run_words({"env", "WEIR_TOKEN=secret", "WEIR_SERVER=" + address, WEIR_PROGRAM, "ask"});
  EXPECT_EQ(by_environment.code, kExitOk) << by_environment.err;
}

TEST_F(Ask, ConnectsToEveryKindOfSocket) {
  const std::string socket = "unix:" + (dir / "socket").string();
  serve("listen: { resp: [127.0.0.1:0, '" + socket + "', '[::1]:0'], http: none }\n");
  ASSERT_TRUE(eventually([&] { return !port_after("[::1]:").empty(); }));
  for (const std::string& where : {address, socket, port_after("[::1]:")}) {
    EXPECT_EQ(run_words(weir({"ask", "--server", where})).code, kExitOk) << where;
  }
}

// --- keys

TEST_F(Ask, InspectsAndResetsAKey) {
  serve(kConfig);
  run({"ask", "client=a"});
  EXPECT_EQ(run({"inspect", "per-client", "client=a"}).out, "2 of 3 left, 0 waiting\n");
  EXPECT_EQ(
      run({"inspect", "per-client", "client=a", "--json"}).out,
      R"({"limit":"per-client","key":{"client":"a"},"remaining":2,"capacity":3,"overridden":false,)"
      R"("waiters":0})"
      "\n");
  EXPECT_EQ(run({"reset", "per-client", "client=a"}).out, "forgotten\n");
  EXPECT_EQ(run({"reset", "per-client", "client=a", "--json"}).out,
            "{\"limit\":\"per-client\",\"key\":{\"client\":\"a\"},\"reset\":true}\n");
  EXPECT_EQ(run({"inspect", "per-client", "client=a"}).out, "3 of 3 left, 0 waiting\n");
  EXPECT_EQ(run({"inspect", "all"}).out, "5 of 5 left, 0 waiting\n");
}

TEST_F(Ask, EndsTheHoldsOfAKey) {
  serve(kConfig);
  run({"ask", "client=a", "--hold", "60s"});
  EXPECT_EQ(run({"reset", "per-client", "client=a", "--holds"}).out, "forgotten; 1 holds ended\n");
  EXPECT_EQ(run({"reset", "per-client", "client=a", "--holds", "--json"}).out,
            "{\"limit\":\"per-client\",\"key\":{\"client\":\"a\"},\"reset\":true,\"holds\":0}\n");
}

TEST_F(Ask, NamesALimitThatDoesNotExist) {
  serve(kConfig);
  for (const char* command : {"inspect", "reset"}) {
    const Ran ran = run({command, "nonsense", "a"});
    EXPECT_EQ(ran.code, kExitFailed);
    EXPECT_THAT(ran.err, HasSubstr("NOTFOUND limit 'nonsense'"));
  }
  EXPECT_EQ(run({"inspect", "per-client", "client=a", "env=b"}).code, kExitUsage);
}

}  // namespace
}  // namespace weir::app
