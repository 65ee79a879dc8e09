#include "weir/testing/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include "weir/base/assert.h"
#include "weir/base/clock.h"

namespace weir::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kStartsMax = 5;  // a port that was free may be taken meanwhile
constexpr auto kPatience = 30s;

std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  WEIR_ASSERT(socket >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  WEIR_ASSERT(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
  WEIR_ASSERT(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

// In memory where there is such a folder: it need not outlive the machine, and a busy disk would
// keep it from answering.
std::filesystem::path folder_for_data() {
  const std::filesystem::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

}  // namespace

RedisServer::RedisServer(RedisServerOptions options) : options_(std::move(options)) {
  std::string name = (folder_for_data() / "weir-redis-XXXXXX").string();
  WEIR_ASSERT(::mkdtemp(name.data()) != nullptr);
  dir_ = name;
  bool has_started = false;
  for (int i = 0; i < kStartsMax && !has_started; ++i) {
    if (!options_.unix_socket) port_ = free_port();
    has_started = spawn();
  }
  WEIR_ASSERT(has_started);
}

RedisServer::~RedisServer() {
  if (id_ > 0) kill();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

std::string RedisServer::url() const {
  if (options_.unix_socket) return "unix://" + (dir_ / "redis.sock").string();
  return "redis://127.0.0.1:" + std::to_string(port_);
}

void RedisServer::start() {
  bool has_started = false;
  for (int i = 0; i < kStartsMax && !has_started; ++i) has_started = spawn();
  WEIR_ASSERT(has_started);
}

// Whether it is this process that answers: the port was free, and may have gone to a stranger.
bool RedisServer::is_own() const {
  const std::string let_in = options_.password.empty() ? "" : "AUTH " + options_.password + "\r\n";
  // There is no such byte in it, so all of it is read, until QUIT closes the connection.
  const std::string info = answer_to(let_in + "INFO server\r\nQUIT\r\n", '\0');
  return info.find("process_id:" + std::to_string(id_) + "\r\n") != std::string::npos;
}

// Whether it answers.
bool RedisServer::spawn() {
  WEIR_ASSERT(id_ < 0);
  std::vector<std::string> words = {"redis-server",
                                    "--daemonize",
                                    "no",
                                    "--port",
                                    std::to_string(port_),
                                    "--bind",
                                    "127.0.0.1",
                                    "--dir",
                                    dir_.string(),
                                    "--logfile",
                                    (dir_ / "log").string(),
                                    "--save",
                                    "",
                                    "--enable-debug-command",
                                    "yes",
                                    "--appendonly",
                                    options_.keeps_data ? "yes" : "no",
                                    "--appendfsync",
                                    "always",
                                    "--unixsocket",
                                    options_.unix_socket ? (dir_ / "redis.sock").string() : ""};
  if (!options_.password.empty()) {
    words.insert(words.end(), {"--requirepass", options_.password});
  }
  if (options_.is_sentinel) {
    // It writes to its own file, so there must be one.
    const std::string file = (dir_ / "sentinel.conf").string();
    std::ofstream(file) << "port " << port_ << "\nbind 127.0.0.1\ndir " << dir_.string()
                        << "\nlogfile " << (dir_ / "log").string() << "\n";
    words = {"redis-server", file, "--sentinel"};
  }
  words.insert(words.end(), options_.more.begin(), options_.more.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  id_ = ::fork();
  WEIR_ASSERT(id_ >= 0);
  if (id_ == 0) {
    // A test that dies takes its server along.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  const auto until = monotonic_clock().now() + kPatience;
  while (monotonic_clock().now() < until) {
    // -NOAUTH is an answer, too.
    const std::string line = ask("PING");
    if ((line == "+PONG" || line.starts_with("-NOAUTH")) && is_own()) return true;
    if (::waitpid(id_, nullptr, WNOHANG) == id_) {
      id_ = -1;
      return false;
    }
    std::this_thread::sleep_for(2ms);
  }
  kill();
  return false;
}

void RedisServer::kill() {
  WEIR_ASSERT(id_ > 0);
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
  id_ = -1;
}

void RedisServer::forget() {
  WEIR_ASSERT(id_ < 0);
  std::error_code ignored;
  std::filesystem::remove_all(dir_ / "appendonlydir", ignored);
  std::filesystem::remove(dir_ / "dump.rdb", ignored);
}

void RedisServer::pause() {
  WEIR_ASSERT(id_ > 0);
  ::kill(id_, SIGSTOP);
  int status = 0;
  ::waitpid(id_, &status, WUNTRACED);
  WEIR_ASSERT(WIFSTOPPED(status));
}

void RedisServer::resume() {
  WEIR_ASSERT(id_ > 0);
  ::kill(id_, SIGCONT);
}

int RedisServer::connected() const {
  sockaddr_un local{};
  sockaddr_in loopback{};
  const sockaddr* address = nullptr;
  socklen_t size = 0;
  if (options_.unix_socket) {
    local.sun_family = AF_UNIX;
    const std::string path = (dir_ / "redis.sock").string();
    WEIR_ASSERT(path.size() < sizeof(local.sun_path));
    std::memcpy(local.sun_path, path.data(), path.size());
    address = reinterpret_cast<const sockaddr*>(&local);
    size = sizeof(local);
  } else {
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    loopback.sin_port = htons(port_);
    address = reinterpret_cast<const sockaddr*>(&loopback);
    size = sizeof(loopback);
  }
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  WEIR_ASSERT(socket >= 0);
  if (::connect(socket, address, size) == 0) return socket;
  ::close(socket);
  return -1;
}

std::string RedisServer::ask(const std::string& command) const {
  return answer_to(command + "\r\n", '\r');
}

// What comes back before the byte `last`, or until the connection is closed.
std::string RedisServer::answer_to(const std::string& sent, char last) const {
  const int socket = connected();
  if (socket < 0) return {};
  std::string answer;
  if (::send(socket, sent.data(), sent.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(sent.size())) {
    // A sentinel knows no QUIT; it answers all that was sent before the end.
    if (options_.is_sentinel && last == '\0') ::shutdown(socket, SHUT_WR);
    constexpr int kPatienceMs = std::chrono::milliseconds{kPatience}.count();
    pollfd readable{socket, POLLIN, 0};
    char c = 0;
    while (::poll(&readable, 1, kPatienceMs) == 1 && ::read(socket, &c, 1) == 1 && c != last) {
      answer += c;
    }
  }
  ::close(socket);
  return answer;
}

}  // namespace weir::testing
