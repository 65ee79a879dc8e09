// Process: the real program, started by a test and ended by it at the latest.

#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weir::app {

// Far more than anything here takes, even under sanitizers on a busy machine.
constexpr auto kPatience = std::chrono::seconds{60};

// Waits until `holds()`. False: the time is up.
template <typename Condition>
bool eventually(Condition&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Process {
 public:
  // `name`: of the files in `dir` that take what it prints.
  Process(const std::filesystem::path& dir, const std::string& name,
          const std::vector<std::string>& words)
      : out_(dir / (name + ".out")), err_(dir / (name + ".err")) {
    // What an earlier one printed is not to be taken for this one's.
    std::filesystem::remove(out_);
    std::filesystem::remove(err_);
    id_ = ::fork();
    if (id_ != 0) return;
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    redirect(out_, STDOUT_FILENO);
    redirect(err_, STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Process() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  std::string out() const { return contents(out_); }
  std::string err() const { return contents(err_); }
  void send(int signal) const { ::kill(id_, signal); }

  // The exit code; -1 if a signal or we had to end it.
  int wait() {
    int status = 0;
    const bool ended = eventually([&] { return ::waitpid(id_, &status, WNOHANG) == id_; });
    if (!ended) return -1;
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static void redirect(const std::filesystem::path& path, int to) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, to);
    ::close(file);
  }

  std::filesystem::path out_, err_;
  pid_t id_ = -1;
};

struct Ran {
  int code;
  std::string out, err;
};

// A directory of its own, and the real weir in it.
struct AppTest : ::testing::Test {
  AppTest() {
    dir = std::filesystem::temp_directory_path() /
          ("weir-app-" + std::to_string(::getpid()) + "-" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir);
  }
  ~AppTest() override {
    server.reset();
    std::filesystem::remove_all(dir);
  }

  static std::vector<std::string> weir(std::vector<std::string> words) {
    words.insert(words.begin(), WEIR_PROGRAM);
    return words;
  }
  Ran run_words(const std::vector<std::string>& words) {
    Process process(dir, "run" + std::to_string(++runs), words);
    const int code = process.wait();
    return {code, process.out(), process.err()};
  }
  // Against the server that was started.
  Ran run(std::vector<std::string> words) {
    if (!address.empty()) words.insert(words.end(), {"--server", address});
    return run_words(weir(std::move(words)));
  }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string path() const { return dir / "weir.yaml"; }

  // Starts `weir serve` and waits until it listens.
  void serve(const std::string& text, std::vector<std::string> options = {}) {
    write(text);
    std::vector<std::string> words = weir({"serve", path()});
    words.insert(words.end(), options.begin(), options.end());
    server = std::make_unique<Process>(dir, "server", words);
    ASSERT_TRUE(eventually([&] {
      const std::string log = server->err();
      const std::size_t begin = log.find("127.0.0.1:");
      const std::size_t end = log.find_first_not_of("0123456789", begin + 10);
      if (begin == std::string::npos || end == std::string::npos) return false;
      address = log.substr(begin, end - begin);
      return true;
    })) << server->err();
  }

  std::filesystem::path dir;
  std::unique_ptr<Process> server;
  std::string address;
  int runs = 0;
};

constexpr const char* kConfig = R"(
listen: { resp: 127.0.0.1:0, http: none }
units: { tokens: whole }
limits:
  - { name: per-client, per: [client], window: { limit: 3, every: 1d } }
  - { name: tokens, per: [client], unit: tokens, window: { limit: 1000, every: 1d } }
  - { name: running, per: [worker], slots: { limit: 1, queue: 16, hold: 60s } }
  - { name: all, when: { kind: [total] }, window: { limit: 5, every: 1d } }
)";

}  // namespace weir::app
