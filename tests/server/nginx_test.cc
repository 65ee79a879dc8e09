// The real nginx with the files of examples/nginx, on unix sockets instead of ports.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/server/http_client.h"
#include "tests/support/on_stack.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

std::string example(const std::string& name) {
  std::stringstream text;
  text << std::ifstream(std::filesystem::path(WEIR_SOURCE_DIR) / "examples/nginx" / name).rdbuf();
  return text.str();
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  const std::size_t at = text.find(what);
  ASSERT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), by);
  if (const std::size_t again = text.find(what, at + by.size()); again != std::string::npos) {
    text.replace(again, what.size(), by);
  }
}

struct Nginx : HttpTest {
  void serve_example() {
    std::string config = example("weir.yaml");
    replace(config, "127.0.0.1:8080", "'unix:" + (dir / "weir").string() + "'");
    start("", config);
    std::string nginx = example("nginx.conf");
    replace(nginx, "127.0.0.1:8080", "unix:" + (dir / "weir").string());
    replace(nginx, "127.0.0.1:8000", "unix:" + front());
    replace(nginx, "127.0.0.1:8001", "unix:" + (dir / "app").string());
    std::ofstream(dir / "nginx.conf") << nginx;
    // Made before the fork: another thread may have had the lock of the heap then.
    const std::string prefix = dir;
    const std::string log_path = dir / "log";
    child = ::fork();
    if (child == 0) {
      const int log = ::open(log_path.c_str(), O_CREAT | O_WRONLY, 0600);
      ::dup2(log, 2);
      // As whoever runs the test, who owns the sockets.
      ::execlp("nginx", "nginx", "-p", prefix.c_str(), "-c", "nginx.conf", "-g",
               ::getuid() == 0 ? "user root;" : "", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ASSERT_TRUE(eventually([&] { return Client("unix:" + front()).is_connected(); }))
        << run("cat " + log_path).output;
  }
  ~Nginx() override {
    if (child <= 0) return;
    ::kill(child, SIGQUIT);
    ::waitpid(child, nullptr, 0);
  }

  std::string front() const { return dir / "front"; }
  HttpAnswer through(std::string_view request) {
    return HttpClient("unix:" + front()).ask(request);
  }
  // What six requests with one key are told in one minute. The windows of the example turn with the
  // minute, so if that is over meanwhile another key tries again.
  std::vector<HttpAnswer> told_in_one_minute() {
    const auto minute = [&] { return clock.now().ns / (60 * kNsPerSecond); };
    std::vector<HttpAnswer> answers;
    for (int attempt = 0; attempt < 10; ++attempt) {
      const std::string request =
          get("/", "X-Api-Key: acme" + std::to_string(attempt) + "\r\nConnection: close\r\n");
      answers.clear();
      const std::int64_t begin = minute();
      for (int i = 0; i < 6; ++i) answers.push_back(through(request));
      if (minute() == begin) break;
    }
    return answers;
  }

  pid_t child = 0;
};

TEST_F(Nginx, PassesOnWhatIsAdmittedAndTurnsARefusalInto429) {
  serve_example();
  const std::vector<HttpAnswer> told = told_in_one_minute();
  for (std::size_t i = 0; i < 5; ++i) {
    const HttpAnswer& answer = told[i];
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, "hello\n");
    EXPECT_THAT(answer.field("RateLimit"),
                HasSubstr("\"per-key\";r=" + std::to_string(4 - i) + ";"));
  }
  const HttpAnswer& refused = told[5];
  EXPECT_EQ(refused.status, 429);
  const int after = std::atoi(refused.field("Retry-After").c_str());
  EXPECT_GE(after, 1);
  EXPECT_LE(after, 60);
  EXPECT_EQ(through(get("/", "X-Api-Key: other\r\nConnection: close\r\n")).status, 200);
}

TEST_F(Nginx, IsNotFooledByWhatClientsSend) {
  serve_example();
  for (int i = 0; i < 6; ++i) {
    const HttpAnswer answer =
        through(get("/?client=x", "X-Api-Key: acme&client=" + std::to_string(i) +
                                      "\r\nWeir-Attribute-Client: free\r\nConnection: close\r\n"));
    EXPECT_EQ(answer.status, 200) << "these are keys of their own";
  }
  const std::vector<std::string_view> free = {"free"};
  EXPECT_EQ(engine::inspect(server->engine(), "per-key", free, clock.now())->remaining, 5);
}

}  // namespace
}  // namespace weir::server
