// What `weir serve` says on stderr, and what it records.

#include <gmock/gmock.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <iterator>

#include "apps/weir/exit.h"
#include "tests/app/support.h"
#include "weir/server/recording.h"

namespace weir::app {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct LogTest : AppTest {
  bool says(const std::string& text) const {
    return eventually([&] { return server->said().find(text) != std::string::npos; });
  }
  static std::vector<server::Recorded> recorded(const std::string& file) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::vector<server::Recorded> lines;
    const Status status =
        server::read_recording(text, [&](const server::Recorded& line) { lines.push_back(line); });
    EXPECT_TRUE(status) << status.error().message;
    return lines;
  }
};

TEST_F(LogTest, IsLogfmtFromStartToStop) {
  serve(kConfig);
  run({"ask", "client=a"});
  server->signal(SIGTERM);
  ASSERT_EQ(server->wait(), kExitOk);
  const std::string when = "time=....-..-..T..:..:..[.]...Z level=info event=";
  EXPECT_THAT(server->said(),
              ContainsRegex(
                  "^" + when + "start version=[0-9.]+ config=[^ ]*weir.yaml pid=[0-9]+\n" + when +
                  "listening address=127.0.0.1:[0-9]+\n" + when + "stopping\n" + when + "stop\n$"))
      << "one line an event, and none for a request";
}

TEST_F(LogTest, IsJsonOnRequest) {
  serve(kConfig, {"--log-format", "json"});
  server->signal(SIGTERM);
  ASSERT_EQ(server->wait(), kExitOk);
  std::istringstream lines(server->said());
  std::vector<std::string> events;
  for (std::string line; std::getline(lines, line);) {
    const boost::json::value said = boost::json::parse(line);
    EXPECT_EQ(said.at("level").as_string(), "info");
    EXPECT_EQ(said.at("time").as_string().size(), 24u);
    events.emplace_back(said.at("event").as_string());
  }
  EXPECT_EQ(events, (std::vector<std::string>{"start", "listening", "stopping", "stop"}));
}

TEST_F(LogTest, RaisesTheLimitOfOpenFilesAndSaysWhenItIsTooLow) {
  const auto start_with = [&](const std::string& most) {
    write(std::string(kConfig) + "bounds: { connections: 200 }\n");
    server = std::make_unique<Process>(std::vector<std::string>{
        "bash", "-c",
        "ulimit -n " + most + " && ulimit -Sn 100 && exec " WEIR_PROGRAM " serve " + path()});
    ASSERT_TRUE(says("event=listening")) << server->said();
  };
  // 200 connections and 64 besides.
  start_with("264");
  EXPECT_THAT(server->said(), Not(HasSubstr("few-files")));
  std::ifstream limits("/proc/" + std::to_string(server->id()) + "/limits");
  const std::string text{std::istreambuf_iterator<char>(limits), {}};
  EXPECT_THAT(text, ContainsRegex("Max open files +264 +264"));
  start_with("263");
  EXPECT_THAT(server->said(), HasSubstr("level=warning event=few-files open_files=263 "
                                        "connections=200"));
}

TEST_F(LogTest, SaysWhoReloadedAndWhatWasRefused) {
  serve(kConfig);
  server->signal(SIGHUP);
  ASSERT_TRUE(says("event=reload config=" + path() + " by=SIGHUP\n"));
  write("limits: [ { name: broken } ]\n");
  ASSERT_TRUE(
      says("level=error event=reload-refused config=" + path() + " by=\"file change\" mistakes="));
  EXPECT_THAT(server->said(), HasSubstr("weir.yaml:1:"));
  const std::string port = address.substr(address.rfind(':') + 1);
  EXPECT_NE(run_words({"redis-cli", "-e", "-p", port, "WEIR.RELOAD"}).code, 0);
  ASSERT_TRUE(says("event=reload-refused config=" + path() + " by=request"));
  write(kConfig);
  EXPECT_EQ(run_words({"redis-cli", "-e", "-p", port, "WEIR.RELOAD"}).out, "OK\n");
  ASSERT_TRUE(says("event=reload config=" + path() + " by=request\n"));
}

TEST_F(LogTest, SaysThatAFileToReloadCannotBeRead) {
  serve(kConfig);
  std::filesystem::remove(path());
  server->signal(SIGHUP);
  ASSERT_TRUE(says("level=error event=reload-refused config=" + path() + " by=SIGHUP error="));
  EXPECT_THAT(server->said(), Not(HasSubstr("mistakes=")));
}

TEST_F(LogTest, SaysThatChangedDefinitionsOfThrottlesWereRead) {
  const std::string file = dir / "throttles.json";
  const auto define = [&](std::string_view rate) {
    std::ofstream(file) << R"({"buckets":[{"name":"A","burstPeriod":1,"throttleGroups":[)"
                        << R"({"opsPerSec":)" << rate << R"(,"operations":["X"]}]}]})";
  };
  define("5");
  serve(std::string(kConfig) + "throttles: { file: '" + file + "' }\n");
  define("10");
  ASSERT_TRUE(says("event=reload config=" + path() + " by=\"file change\""));
  define("none");
  ASSERT_TRUE(says("event=reload-refused config=" + path() + " by=\"file change\""));
  EXPECT_THAT(server->said(), HasSubstr("throttles.json:1:"));
}

TEST_F(LogTest, LeavesOutWhatIsLessImportant) {
  // Without the line that says where it listens, so at a place that is known.
  const std::string socket = "unix:" + (dir / "socket").string();
  write("listen: { resp: '" + socket + "', http: none }\n");
  server = std::make_unique<Process>(weir({"serve", path(), "--log-level", "error"}));
  ASSERT_TRUE(eventually([&] {
    return run_words(weir({"ask", "--server", socket})).code == kExitOk;
  }));
  write("limits: [ { name: broken } ]\n");
  ASSERT_TRUE(says("event=reload-refused"));
  EXPECT_THAT(server->said(), Not(HasSubstr("level=info")));
}

TEST_F(LogTest, SaysThatAConfigurationWasRefused) {
  write("limits: [ { name: broken } ]\n");
  const Ran ran = run_words(weir({"serve", path()}));
  EXPECT_EQ(ran.code, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("level=error event=start-refused config=" + path() + "\n"));
}

TEST_F(LogTest, KnowsItsFormatsAndLevels) {
  EXPECT_EQ(run_words(weir({"serve", "--log-format", "xml"})).code, kExitUsage);
  EXPECT_EQ(run_words(weir({"serve", "--log-level", "loud"})).code, kExitUsage);
}

// --- the recording

TEST_F(LogTest, RecordsEachDecision) {
  const std::string file = dir / "decisions";
  serve(std::string(kConfig) + "record: " + file + "\n");
  EXPECT_THAT(server->said(), HasSubstr("event=record file=" + file + "\n"));
  run({"ask", "client=a", "--cost", "tokens=300"});
  run({"ask", "client=a", "--peek"});
  run({"ask", "client=a", "--cost", "tokens=800", "--hold", "5s"});
  const std::string port = address.substr(address.rfind(':') + 1);
  run_words({"redis-cli", "-p", port, "CL.THROTTLE", "user123", "15", "30", "60"});
  server->signal(SIGTERM);
  ASSERT_EQ(server->wait(), kExitOk);

  std::vector<server::Recorded> lines = recorded(file);
  ASSERT_EQ(lines.size(), 3u) << "a look charges nothing and is not recorded";
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.now < b.now; });
  EXPECT_EQ(lines[0].verdict, Verdict::kAllowed);
  EXPECT_EQ(lines[0].attributes,
            (std::vector<std::pair<std::string, std::string>>{{"client", "a"}}));
  EXPECT_EQ(lines[0].costs, (std::vector<std::pair<std::string, std::int64_t>>{{"tokens", 300}}));
  EXPECT_EQ(lines[1].verdict, Verdict::kDenied);
  EXPECT_EQ(lines[1].limit, "tokens");
  EXPECT_EQ(lines[1].shortfall, 100);
  EXPECT_EQ(lines[1].hold, std::chrono::seconds{5});
  EXPECT_EQ(lines[2].key, "user123");
  EXPECT_EQ(lines[2].burst, 16);
}

TEST_F(LogTest, RecordsWhatIsAskedOverHttp) {
  const std::string file = dir / "decisions";
  std::string both = kConfig;
  both.replace(both.find("http: none"), 10, "http: '[::1]:0'");
  serve(both + "record: " + file + "\n");
  ASSERT_TRUE(eventually([&] { return !port_after("[::1]:").empty(); }));
  const std::string url = "http://" + port_after("[::1]:") + "/v1/";
  const auto post = [&](const std::string& path, const std::string& body) {
    return run_words(
        {"curl", "-sg", "-d", body, "-H", "Content-Type: application/json", url + path});
  };
  post("acquire", R"({"attributes":{"client":"one"}})");
  post("acquire", R"({"attributes":{"client":"two"},"hold":"5s"})");
  post("acquire", R"({"attributes":{"worker":"three"},"wait":"1s"})");
  post("acquire", R"({"attributes":{"worker":"three"},"wait":"1ms"})");
  post("batch", R"({"requests":[{"attributes":{"client":"four"}},)"
                R"({"attributes":{"client":"five"},"hold":"5s"}]})");
  post("peek", R"({"attributes":{"client":"six"}})");
  server->signal(SIGTERM);
  ASSERT_EQ(server->wait(), kExitOk);
  std::vector<server::Recorded> lines = recorded(file);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.now < b.now; });
  std::string seen;
  for (const server::Recorded& line : lines) {
    seen += line.attributes[0].second + ' ' + std::string(to_string(line.verdict)) + '\n';
  }
  EXPECT_EQ(seen,
            "one allowed\ntwo allowed\nthree allowed\nthree queued\nfour allowed\nfive allowed\n");
}

TEST_F(LogTest, OpensItsRecordingAgainOnSighup) {
  const std::string file = dir / "decisions";
  serve(std::string(kConfig) + "record: " + file + "\n");
  run({"ask", "client=before"});
  std::filesystem::rename(file, file + ".1");
  server->signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file); }));
  run({"ask", "client=after"});
  server->signal(SIGTERM);
  ASSERT_EQ(server->wait(), kExitOk);
  ASSERT_EQ(recorded(file + ".1").size(), 1u);
  ASSERT_EQ(recorded(file).size(), 1u);
  EXPECT_EQ(recorded(file)[0].attributes[0].second, "after");
}

TEST_F(LogTest, SaysWhenTheRecordingFails) {
  // Nothing can be written to this device, as to a full disk.
  write(std::string(kConfig) + "record: /dev/full\n");
  const Ran ran = run_words(weir({"serve", path()}));
  EXPECT_EQ(ran.code, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("record: cannot write /dev/full: No space left on device"));
}

TEST_F(LogTest, SaysWhenAnOutageBeginsAndDecidesOn) {
  const std::string file = dir / "decisions";
  write(std::string(kConfig) + "record: " + file + "\n");
  // A file that may not grow, and has, stands for a full disk.
  constexpr std::size_t kBytes = 4096;
  std::string full = std::string(server::kRecordingHeader) + "d 1 allowed a:n=";
  full += std::string(kBytes - full.size() - 1, 'x') + "\n";
  std::ofstream(file) << full;
  server = std::make_unique<Process>(std::vector<std::string>{
      "prlimit", "--fsize=" + std::to_string(kBytes), WEIR_PROGRAM, "serve", path()});
  ASSERT_TRUE(says("event=listening"));
  address = port_after("127.0.0.1:");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run({"ask", "client=a"}).code, kExitOk);
  ASSERT_TRUE(says("level=error event=outage part=record error=\"record: cannot write " + file));
  EXPECT_EQ(run({"ask", "client=b"}).code, kExitOk);
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait(), kExitFailed) << "what is missing is said at the end, too";
  EXPECT_THAT(server->said(), HasSubstr("level=error event=stop lost="));
  EXPECT_EQ(recorded(file).size(), 1u) << "half a line was left";
}

}  // namespace
}  // namespace weir::app
