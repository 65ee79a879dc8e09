// The real nginx with the files of examples/nginx, on unix sockets instead of ports.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <sstream>
#include <string>

#include "tests/server/http_client.h"

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
    child = ::fork();
    if (child == 0) {
      const int log = ::open((dir / "log").c_str(), O_CREAT | O_WRONLY, 0600);
      ::dup2(log, 2);
      const std::string prefix = dir;
      // As whoever runs the test, who owns the sockets.
      ::execlp("nginx", "nginx", "-p", prefix.c_str(), "-c", "nginx.conf", "-g",
               ::getuid() == 0 ? "user root;" : "", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ASSERT_TRUE(eventually([&] { return Client("unix:" + front()).is_connected(); }))
        << run("cat " + (dir / "log").string()).output;
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

  pid_t child = 0;
};

TEST_F(Nginx, PassesOnWhatIsAdmittedAndTurnsARefusalInto429) {
  serve_example();
  const std::string request = get("/", "X-Api-Key: acme\r\nConnection: close\r\n");
  for (int i = 4; i >= 0; --i) {
    const HttpAnswer answer = through(request);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.body, "hello\n");
    EXPECT_THAT(answer.field("RateLimit"), HasSubstr("\"per-key\";r=" + std::to_string(i) + ";"));
  }
  const HttpAnswer refused = through(request);
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
  EXPECT_EQ(server->engine().inspect("per-key", free, clock.now())->remaining, 5);
}

}  // namespace
}  // namespace weir::server
