// Commands other than questions: demo, serve, check, tour, version, completion.

#include <gmock/gmock.h>

#include <boost/json.hpp>
#include <filesystem>

#include "apps/weir/exit.h"
#include "tests/app/support.h"

namespace weir::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Commands : AppTest {
  // What bash offers after these words, the last of them begun.
  std::string completed(const std::string& words, int place) {
    const std::string script = dir / "completion";
    std::ofstream(script) << run_words(weir({"completion", "bash"})).out;
    const Ran ran = run_words({"bash", "-c",
                               "source " + script + "; COMP_WORDS=(" + words + "); COMP_CWORD=" +
                                   std::to_string(place) + "; _weir; echo \"${COMPREPLY[*]}\""});
    EXPECT_EQ(ran.err, "");
    return ran.out;
  }
};

// --- demo

TEST_F(Commands, DemoSendsTrafficAndSumsItUp) {
  serve(kConfig);
  const Ran ran = run({"demo", "client=3", "worker=3", "--rate", "500", "--duration", "600ms"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("sent "));
  EXPECT_EQ(ran.out.find('\r'), std::string::npos) << "no progress where nobody looks";
  EXPECT_THAT(run({"inspect", "per-client", "client=1"}).out,
              ::testing::Not(StartsWith("3 of 3 left")));
  for (const char* worker : {"1", "2", "3"}) {
    EXPECT_THAT(run({"inspect", "running", std::string("worker=") + worker}).out,
                StartsWith("1 of 1 left"));
  }
}

TEST_F(Commands, DemoSumsUpInJson) {
  serve(kConfig);
  const Ran ran = run(
      {"demo", "client=3", "--rate", "1000", "--duration", "300ms", "--waiters", "0", "--json"});
  ASSERT_EQ(ran.code, kExitOk) << ran.err;
  const boost::json::value sum = boost::json::parse(ran.out);
  EXPECT_EQ(sum.at("allowed").as_int64(), 9);
  EXPECT_EQ(sum.at("sent").as_int64(), sum.at("allowed").as_int64() + sum.at("denied").as_int64());
}

TEST_F(Commands, DemoEndsCleanlyWhenInterrupted) {
  serve(kConfig);
  Process demo(weir({"demo", "worker=1", "--duration", "1h", "--server", address}));
  ASSERT_TRUE(eventually([&] {
    return run({"inspect", "running", "worker=1"}).out.find("0 of 1 left") != std::string::npos;
  }));
  demo.signal(SIGINT);
  EXPECT_EQ(demo.wait(), kExitOk);
  EXPECT_THAT(demo.printed(), StartsWith("sent "));
  EXPECT_THAT(run({"inspect", "running", "worker=1"}).out, StartsWith("1 of 1 left"));
}

TEST_F(Commands, DemoShowsItsProgressOnATerminal) {
  serve(kConfig);
  const Ran ran = run_words(
      {"script", "-qec", std::string(WEIR_PROGRAM) + " demo --duration 2500ms --server " + address,
       "/dev/null"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("\rsent "));
  EXPECT_THAT(ran.out, HasSubstr(", waiting "));
}

TEST_F(Commands, DemoSaysWhatFailed) {
  serve(kConfig);
  const Ran ran = run({"demo", "--cost", "apples=1", "--duration", "100ms"});
  EXPECT_EQ(ran.code, kExitFailed);
  EXPECT_THAT(ran.out, HasSubstr("the first error: BADARG unit 'apples' is unknown"));
}

TEST_F(Commands, DemoHasBounds) {
  const auto code = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"demo", "--server", "127.0.0.1:1"});
    return run_words(weir(std::move(words))).code;
  };
  EXPECT_EQ(code({"--rate", "100000"}), kExitUnreachable);
  EXPECT_EQ(code({"--rate", "100001"}), kExitUsage);
  EXPECT_EQ(code({"--rate", "0"}), kExitUsage);
  EXPECT_EQ(code({"--waiters", "64"}), kExitUnreachable);
  EXPECT_EQ(code({"--waiters", "65"}), kExitUsage);
  EXPECT_EQ(code({"--duration", "24h"}), kExitUnreachable);
  EXPECT_EQ(code({"--duration", "24h1ns"}), kExitUsage);
  EXPECT_EQ(code({"client=1000000"}), kExitUnreachable);
  EXPECT_EQ(code({"client=1000001"}), kExitUsage);
  EXPECT_EQ(code({"client"}), kExitUsage);
}

TEST_F(Commands, FailWhereTheirOutputDoesNotArrive) {
  for (const std::string command : {"tour", "version --json", "--help", "completion bash"}) {
    const Ran ran =
        run_words({"/bin/sh", "-c", "exec \"$0\" " + command + " >/dev/full", WEIR_PROGRAM});
    EXPECT_EQ(ran.code, kExitFailed) << command;
    EXPECT_THAT(ran.err, HasSubstr("weir: what it printed could not be written")) << command;
  }
}

// --- serve and check

TEST_F(Commands, ServeEndsCleanlyOnEitherSignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    serve(kConfig);
    server->signal(signal);
    EXPECT_EQ(server->wait(), kExitOk);
  }
}

TEST_F(Commands, CheckAndServeRefuseAConfigurationWithMistakes) {
  write("limits: [ { name: broken } ]\n");
  for (const char* command : {"check", "serve"}) {
    const Ran ran = run_words(weir({command, path()}));
    EXPECT_EQ(ran.code, kExitFailed);
    EXPECT_THAT(ran.err, HasSubstr("weir.yaml:1:"));
  }
}

TEST_F(Commands, CheckShowsWhatAConfigurationMeans) {
  write(kConfig);
  const Ran ran = run_words(weir({"check", path()}));
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.out, HasSubstr("per-client"));
}

TEST_F(Commands, CheckPrintsOneJsonObject) {
  write("threads: 0\nlimits: [ { name: a } ]\n");
  const Ran wrong = run_words(weir({"check", path(), "--json"}));
  EXPECT_EQ(wrong.code, kExitFailed);
  EXPECT_EQ(wrong.err, "");
  EXPECT_THAT(wrong.out,
              StartsWith("{\"valid\":false,\"mistakes\":[{\"file\":\"" + path() +
                         "\",\"line\":1,\"column\":10,\"message\":\"top level: threads"));
  EXPECT_THAT(wrong.out, HasSubstr("\"line\":2,\"column\":"));
  write("auth: [ { token: short, role: admin } ]\n" + std::string(kConfig));
  const Ran right = run_words(weir({"check", path(), "--json"}));
  EXPECT_EQ(right.code, kExitOk);
  EXPECT_THAT(right.out, StartsWith("{\"valid\":true,\"mistakes\":[],\"warnings\":[{\"file\":"));
  EXPECT_THAT(right.out, HasSubstr("\"meaning\":[\"limit per-client: window 3 every 10000d; "));
}

TEST_F(Commands, CheckWarnsOfPlacesThatCannotBeWritten) {
  const std::string nowhere = dir / "nowhere";
  write("state: { dir: " + path() + "/state }\nrecord: " + nowhere + "/file\n");
  const Ran ran = run_words(weir({"check", path()}));
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.err, HasSubstr("weir.yaml: state dir: '"));
  EXPECT_THAT(ran.err, HasSubstr("weir.yaml' is no folder; write another path\n"));
  EXPECT_THAT(ran.err, HasSubstr("nowhere' is not there; make it, or write another path\n"));
  // It looks, and makes nothing.
  write("state: { dir: " + nowhere + "/a/b }\n");
  EXPECT_EQ(run_words(weir({"check", path()})).err, "");
  EXPECT_FALSE(std::filesystem::exists(nowhere));
}

TEST_F(Commands, CheckTakesSecretsFromTheEnvironmentAndShowsNone) {
  write(
      "auth: [ { token: \"${WEIR_TEST_TOKEN}\", role: admin, name: operations } ]\n"
      "redis: { url: \"redis://weir:${WEIR_TEST_PASSWORD}@cache\" }\n");
  const auto check = [&](std::vector<std::string> variables) {
    std::vector<std::string> words = {"/usr/bin/env", "-u", "WEIR_TEST_TOKEN"};
    words.insert(words.end(), variables.begin(), variables.end());
    for (std::string& word : weir({"check", path()})) words.push_back(std::move(word));
    return run_words(words);
  };
  const Ran ran = check({"WEIR_TEST_TOKEN=swordfish", "WEIR_TEST_PASSWORD=hush"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("auth: admin (operations)"));
  EXPECT_THAT(ran.err, HasSubstr(":1:18: auth 1: token has 9 bytes, which can be guessed"));
  EXPECT_THAT(ran.out + ran.err, Not(HasSubstr("swordfish")));
  EXPECT_THAT(ran.out + ran.err, Not(HasSubstr("hush")));

  const Ran unset = check({"WEIR_TEST_PASSWORD=hush"});
  EXPECT_EQ(unset.code, kExitFailed);
  EXPECT_THAT(unset.err, HasSubstr(":1:18: file: variable 'WEIR_TEST_TOKEN' is not set"));
}

TEST_F(Commands, ServeReloadsWhenATokenFileChanges) {
  const std::string token = dir / "token";
  std::ofstream(token) << "a token of the first hour\n";
  serve("auth: [ { token_file: " + token + ", role: admin } ]\n" + kConfig);
  const auto code = [&](const std::string& with) {
    return run({"inspect", "per-client", "client=a", "--token", with}).code;
  };
  EXPECT_EQ(code("a token of the first hour"), kExitOk);
  std::ofstream(token) << "another token\n";
  EXPECT_TRUE(eventually([&] { return code("another token") == kExitOk; })) << server->said();
  EXPECT_EQ(code("a token of the first hour"), kExitUnreachable);
  EXPECT_TRUE(eventually([&] {
    return server->said().find("event=config-warning") != std::string::npos;
  })) << server->said();
  EXPECT_THAT(server->said(), Not(HasSubstr("another token")));
}

TEST_F(Commands, AReloadSaysWhatItCannotChange) {
  serve(kConfig);
  write("threads: 3\n" + std::string(kConfig));
  EXPECT_TRUE(eventually([&] {
    return server->said().find("event=restart-needed") != std::string::npos;
  })) << server->said();
  EXPECT_THAT(server->said(), HasSubstr("changed=threads"));
}

// --- throttle report

TEST_F(Commands, ThrottleReportShowsWhatIfForARangeOfNodes) {
  const std::string file = WEIR_SOURCE_DIR "/examples/throttles.json";
  const Ran one = run_words(weir({"throttle", "report", file, "--nodes", "31"}));
  EXPECT_EQ(one.code, kExitOk) << one.err;
  EXPECT_THAT(one.out, HasSubstr("ThroughputLimits"));
  EXPECT_THAT(one.out, HasSubstr("ContractCall"));
  EXPECT_THAT(one.out, StartsWith("31 nodes\n"));
  EXPECT_THAT(one.out, HasSubstr("\nPriorityReservations               3106           1000 "));
  std::string all;
  for (const char* size : {"30", "31", "32"}) {
    all += (all.empty() ? "" : "\n") +
           run_words(weir({"throttle", "report", file, "--nodes", size})).out;
  }
  const Ran range = run_words(weir({"throttle", "report", file, "--nodes", "30-32"}));
  EXPECT_EQ(range.code, kExitOk) << range.err;
  EXPECT_EQ(range.out, all);
  for (const char* wrong : {"0", "3-1", "1-", "-", "1-2-3", "1-1001", "1000001", "many"}) {
    EXPECT_EQ(run_words(weir({"throttle", "report", file, "--nodes", wrong})).code, kExitUsage)
        << wrong;
  }
}

TEST_F(Commands, ThrottleReportSaysWhichBucketsWouldBeDropped) {
  const std::string file = dir / "throttles.json";
  std::ofstream(file) << R"({"buckets": [
    {"name": "Uneven", "burstPeriod": 1,
     "throttleGroups": [{"opsPerSec": 10000, "operations": ["Often", "Both"]},
                        {"milliOpsPerSec": 1, "operations": ["Seldom"]}]},
    {"name": "Even", "burstPeriod": 1,
     "throttleGroups": [{"opsPerSec": 1, "operations": ["Both"]}]}]})";
  const Ran ran = run_words(weir({"throttle", "report", file, "--nodes", "2"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("2 nodes\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nUneven                   dropped: "
                                 "NODE_CAPACITY_NOT_SUFFICIENT_FOR_OPERATION\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nBoth                                            0.5"));
  EXPECT_THAT(
      ran.out,
      HasSubstr("\nalways refused, their buckets dropped or of the other family: Often, Seldom\n"));
}

TEST_F(Commands, ThrottleReportNamesThePlaceOfAMistake) {
  const std::string file = dir / "throttles.json";
  std::ofstream(file) << "{\"buckets\": [\n  {\"nome\": 1}]}";
  const Ran wrong = run_words(weir({"throttle", "report", file, "--nodes", "3"}));
  EXPECT_EQ(wrong.code, kExitFailed);
  EXPECT_THAT(wrong.err, HasSubstr("throttles.json:2:4: "));
  const Ran missing = run_words(weir({"throttle", "report", dir / "none.json", "--nodes", "3"}));
  EXPECT_EQ(missing.code, kExitFailed);
  EXPECT_THAT(missing.err, HasSubstr("none.json"));
}

// --- sampling allowance

TEST_F(Commands, SamplingAllowanceShowsTheTableOfTheReference) {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/reference/sampling.md");
  const std::string page = std::string(std::istreambuf_iterator<char>(file), {});
  const auto block = [&](std::string_view opening) {
    const std::size_t begin = page.find(opening) + opening.size();
    return page.substr(begin, page.find("```", begin) - begin);
  };
  write("sampling:\n" + block("```yaml\nsampling:\n"));
  const Ran ran = run_words(weir({"sampling", "allowance", path()}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, block("$ weir sampling allowance weir.yaml\n"));
}

TEST_F(Commands, SamplingAllowanceShowsPublishedDoors) {
  write(
      "sampling:\n  mode: published\n  environments:\n"
      "    - { name: E, rotation_count: -1.5, sampling_count: -2 }\n"
      "    - { name: F, rotation_count: 7, rotation_interval: 1080, parent: 30 }\n");
  const Ran ran = run_words(weir({"sampling", "allowance", path()}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out,
            "environment  rotates  every s  list  allowance  published  all revisions\n"
            "E               -1.5        0    -2  unlimited  unlimited              -\n"
            "F                  7     1080     0         29         29             30\n"
            "Tasks of one revision in any 1h; 'published' as the published scheduler rounds.\n");
}

TEST_F(Commands, SamplingAllowanceSaysWhatIsWrongWithTheFile) {
  const auto said = [&](const std::string& text) {
    write(text);
    const Ran ran = run_words(weir({"sampling", "allowance", path()}));
    EXPECT_EQ(ran.code, kExitFailed);
    EXPECT_EQ(ran.out, "");
    return ran.err;
  };
  EXPECT_THAT(said("listen: { http: 127.0.0.1:0 }\n"),
              HasSubstr("weir.yaml: there is no 'sampling'; write one with its environments"));
  EXPECT_THAT(said("sampling: { environments: [] }\n"), HasSubstr("environments is empty"));
  EXPECT_THAT(said("sampling: { margin: 0, environments: [ { name: E, rotation_count: 5, "
                   "rotation_interval: 1, sampling_count: 0 } ] }\n"),
              HasSubstr("weir.yaml:1:21: sampling: margin is '0'"));
  const Ran missing = run_words(weir({"sampling", "allowance", dir / "none.yaml"}));
  EXPECT_EQ(missing.code, kExitFailed);
  EXPECT_THAT(missing.err, HasSubstr("none.yaml"));
  EXPECT_EQ(run_words(weir({"sampling", "allowance"})).code, kExitUsage);
}

// --- pool slots

TEST_F(Commands, PoolSlotsShowsTheDocumentsExample) {
  write(
      "pools:\n  models:\n    - { name: gpt-5.2, tokens_per_minute: 500000, requests_per_minute: "
      "500 }\n    - { name: small, concurrent: 9 }\n  escalation: [gpt-5.2, small]\n  job_types:\n"
      "    - { name: summary, tokens: 10000, requests: 1, ratio: 0.3 }\n"
      "    - { name: chat, tokens: 10000, requests: 1 }\n");
  const Ran ran = run_words(weir({"pool", "slots", path(), "--instances", "2"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out,
            "model    slots  tokens/minute  requests/minute  tokens/day  requests/day\n"
            "gpt-5.2     25         250000              250           -             -\n"
            "small        4              -                -           -             -\n"
            "\n"
            "job type    model  ratio  a minute  a day  at once    published\n"
            "summary   gpt-5.2    0.3         7      -        7   7 a minute\n"
            "summary     small    0.3         -      -        1    1 at once\n"
            "chat      gpt-5.2    0.7        17      -       17  17 a minute\n"
            "chat        small    0.7         -      -        2    2 at once\n"
            "On each of 2 instances, with nothing used and the ratios to begin with.\n");
}

TEST_F(Commands, PoolSlotsShowsTheTableOfTheReference) {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/reference/pool.md");
  const std::string page = std::string(std::istreambuf_iterator<char>(file), {});
  const auto block = [&](std::string_view opening) {
    const std::size_t begin = page.find(opening) + opening.size();
    return page.substr(begin, page.find("```", begin) - begin);
  };
  write("pools:\n" + block("```yaml\npools:\n"));
  const Ran ran = run_words(weir({"pool", "slots", path(), "--instances", "2"}));
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.out, block("$ weir pool slots weir.yaml --instances 2\n"));
}

TEST_F(Commands, PoolSlotsSaysWhatIsWrong) {
  write("listen: { http: 127.0.0.1:0 }\n");
  const Ran none = run_words(weir({"pool", "slots", path()}));
  EXPECT_EQ(none.code, kExitFailed);
  EXPECT_THAT(none.err, HasSubstr("weir.yaml: there is no 'pools'; write one with its models"));
  write("pools: { models: [{ name: a }] }\n");
  const Ran broken = run_words(weir({"pool", "slots", path()}));
  EXPECT_EQ(broken.code, kExitFailed);
  EXPECT_THAT(broken.err, HasSubstr("job_types"));
  EXPECT_EQ(run_words(weir({"pool", "slots", path(), "--instances", "0"})).code, kExitUsage);
  EXPECT_EQ(run_words(weir({"pool"})).code, kExitUsage);
}

// --- the rest

TEST_F(Commands, TourIsTheSameEveryTime) {
  const Ran first = run_words(weir({"tour"}));
  EXPECT_EQ(first.code, kExitOk);
  EXPECT_THAT(first.out, HasSubstr("Four limits, one atomic decision"));
  EXPECT_EQ(run_words(weir({"tour"})).out, first.out);
}

TEST_F(Commands, VersionSaysWhichBuildThisIs) {
  const Ran plain = run_words(weir({"version"}));
  EXPECT_THAT(plain.out, StartsWith("weir " WEIR_EXPECTED_VERSION " ("));
  const boost::json::value json = boost::json::parse(run_words(weir({"version", "--json"})).out);
  EXPECT_EQ(json.at("version").as_string(), WEIR_EXPECTED_VERSION);
  EXPECT_FALSE(json.at("compiler").as_string().empty());
  EXPECT_FALSE(json.at("build").as_string().empty());
}

TEST_F(Commands, EveryCommandHasHelpWithAnExampleAndARowInTheReference) {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/reference/cli.md");
  const std::string page = std::string(std::istreambuf_iterator<char>(file), {});
  for (const std::string command :
       {"serve", "check", "tour", "version", "completion", "ask", "settle", "cancel", "renew",
        "inspect", "reset", "demo", "sync"}) {
    const Ran ran = run_words(weir({command, "--help"}));
    EXPECT_EQ(ran.code, kExitOk);
    EXPECT_THAT(ran.out, HasSubstr("Example:\n"));
    EXPECT_THAT(ran.out, HasSubstr("weir " + command));
    EXPECT_THAT(page, HasSubstr("| `weir " + command));
    EXPECT_THAT(completed("weir ''", 1), HasSubstr(command));
  }
}

TEST_F(Commands, CompletionOffersCommandsOptionsChoicesAndFiles) {
  EXPECT_EQ(completed("weir as", 1), "ask\n");
  EXPECT_EQ(completed("weir ask --w", 2), "--wait\n");
  EXPECT_EQ(completed("weir ask client=a --js", 3), "--json\n");
  EXPECT_EQ(completed("weir ask --wait ''", 3), "\n");
  EXPECT_EQ(completed("weir completion b", 2), "bash\n");
  write(kConfig);
  EXPECT_EQ(completed("weir serve " + dir.path().string() + "/we", 2), path() + "\n");
}

TEST_F(Commands, CompletionKnowsOneShell) {
  const Ran ran = run_words(weir({"completion", "fish"}));
  EXPECT_EQ(ran.code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("{bash}"));
}

}  // namespace
}  // namespace weir::app
