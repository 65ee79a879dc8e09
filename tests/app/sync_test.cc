// `weir sync` against a weir that acts as the service, alone and beside a guard.

#include <gmock/gmock.h>

#include <filesystem>

#include "apps/weir/exit.h"
#include "tests/app/support.h"

namespace weir::app {
namespace {

using ::testing::HasSubstr;

constexpr const char* kService =
    "listen: { resp: none, http: 127.0.0.1:0 }\n"
    "contracts: [ { name: acme, user_id: u1, role: service, policies: [ { type: REQUESTS, "
    "capacity: 50, period: P31D }, { type: PROCESSING_UNITS, capacity: 2000, period: P31D } ] } "
    "]\n";

struct Sync : AppTest {
  Sync() { ::setenv("no_proxy", "*", 1); }

  void begin() { serve(kService); }
  std::string follower(const std::string& url, const std::string& more = "") const {
    const std::string file = dir / "guard.yaml";
    std::ofstream(file) << "listen: { resp: none, http: 127.0.0.1:0 }\n"
                           "contracts: [ { name: acme, user_id: u1, sync: { url: 'http://"
                        << url << "', refresh: 1s" << more << " } } ]\n";
    return file;
  }
};

TEST_F(Sync, OnceShowsWhatTheServiceHasLeft) {
  begin();
  const Ran ran = run_words(weir({"sync", follower(address), "--once", "--log-level", "error"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, "acme\n  RQ_50_PT744H  50 left\n  PU_2000_PT744H  2000 left\n");
  EXPECT_EQ(ran.err, "");
}

TEST_F(Sync, OnceAsJson) {
  begin();
  const Ran ran = run_words(weir({"sync", follower(address), "--once", "--json"}));
  EXPECT_EQ(ran.out,
            "{\"account\":\"acme\",\"left\":{\"RQ_50_PT744H\":50,\"PU_2000_PT744H\":2000}}\n");
}

TEST_F(Sync, OnceSaysThatTheServiceCannotBeReached) {
  const Ran ran = run_words(weir({"sync", follower("127.0.0.1:1"), "--once"}));
  EXPECT_EQ(ran.code, kExitUnreachable);
  EXPECT_THAT(ran.err, HasSubstr("event=outage part=\"sync acme\""));
  EXPECT_EQ(ran.out, "");
}

TEST_F(Sync, KeepsTheContractInAFileThatAnAccountStartsFrom) {
  begin();
  const std::string saved = dir / "contract.json";
  EXPECT_EQ(run_words(weir({"sync", follower(address), "--once", "--save", saved})).code, kExitOk);
  const std::string file = dir / "offline.yaml";
  std::ofstream(file) << "listen: { resp: none, http: 127.0.0.1:0 }\n"
                         "contracts: [ { name: acme, user_id: u1, file: '"
                      << saved << "' } ]\n";
  const Ran checked = run_words(weir({"check", file}));
  EXPECT_EQ(checked.code, kExitOk) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("RQ_50_PT744H, PU_2000_PT744H"));
}

TEST_F(Sync, TellsAServerThatKnowsNoCredentials) {
  begin();
  const std::string service = address;
  const auto running = std::move(server);
  serve(
      "listen: { resp: none, http: 127.0.0.1:0 }\n"
      "auth: [ { token: boss, role: admin } ]\n"
      "contracts: [ { name: acme, user_id: u1 } ]\n");
  const std::string config = follower(service);
  const Ran ran =
      run_words(weir({"sync", config, "--once", "--to", "http://" + address, "--token", "boss"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  // From now on the guard is a service to follow itself.
  const Ran shown = run_words(weir({"sync", follower(address, ", token: boss"), "--once"}));
  EXPECT_EQ(shown.code, kExitOk) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("RQ_50_PT744H  "));
  const Ran stranger = run_words(weir({"sync", config, "--once", "--to", "http://" + address}));
  EXPECT_EQ(stranger.code, kExitUnreachable);
  EXPECT_THAT(stranger.err, HasSubstr("401 "));
}

TEST_F(Sync, FollowsUntilItIsToldToEnd) {
  begin();
  Process following(weir({"sync", follower(address)}));
  ASSERT_TRUE(eventually([&] {
    const std::string printed = following.printed();
    return printed.find("acme", printed.find("acme") + 1) != std::string::npos;
  })) << following.said();
  following.signal(SIGTERM);
  EXPECT_EQ(following.wait(), kExitOk);
}

TEST_F(Sync, SaysWhichAccountsThereAre) {
  const std::string config = follower("127.0.0.1:1");
  const Ran wrong = run_words(weir({"sync", config, "--account", "acne", "--once"}));
  EXPECT_EQ(wrong.code, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("account 'acne' does not follow a service; --account may be "
                                   "'acme'"));
  write(kService);
  const Ran none = run_words(weir({"sync", path(), "--once"}));
  EXPECT_EQ(none.code, kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("no account follows a service; write 'sync: { url: ... }'"));
  EXPECT_EQ(run_words(weir({"sync", config, "--once", "--to", "elsewhere"})).code, kExitUsage);
}

}  // namespace
}  // namespace weir::app
