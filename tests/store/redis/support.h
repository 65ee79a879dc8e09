// What tests of the Redis client share: answers that can be waited for, and a server that
// says what a test wants.

#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/script.h"

namespace weir::store::redis {

using namespace std::chrono_literals;

inline const Script kAdd("add", "return redis.call('incrby', KEYS[1], ARGV[1])");

// Most tests are not about how long a connection may take.
inline ClientOptions patient_with(const std::string& url) {
  ClientOptions options;
  options.address = *parse_address(url);
  options.connect_timeout = kPatience;
  options.silence = kPatience;
  return options;
}

// What an answer said, after its callback.
struct Said {
  bool ok = false;
  std::string text{};  // a string, a number in digits, or the message of a failure
  FailureKind kind = FailureKind::kServer;
  bool may_have_run = false;
};

inline Said said(const Answer& answer) {
  if (!answer.ok()) {
    return {false, answer.failure().message, answer.failure().kind, answer.failure().may_have_run};
  }
  if (const auto number = answer.reply().integer()) return {true, std::to_string(*number)};
  return {true, std::string(answer.reply().text().value_or("?"))};
}

// Answers in the order in which they came.
class Answers {
 public:
  AnswerCallback take() {
    return [this](const Answer& answer) {
      const std::lock_guard lock(mutex_);
      said_.push_back(said(answer));
      came_.notify_all();
    };
  }
  // The first `count` of them, once they are there.
  std::vector<Said> wait(std::size_t count = 1) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, kPatience, [&] { return said_.size() >= count; }));
    return said_;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return said_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Said> said_;
};

inline Said ask(Client& client, std::vector<std::string_view> words, Duration timeout = kPatience) {
  Answers answers;
  client.send(words, answers.take(), {.timeout = timeout});
  return answers.wait().front();
}

inline Said run(Client& client, const Script& script, std::vector<std::string_view> keys,
                std::vector<std::string_view> arguments, Duration timeout = kPatience) {
  Answers answers;
  client.call(script, keys, arguments, answers.take(), {.timeout = timeout});
  return answers.wait().front();
}

// A server on loopback that answers all requests with the same bytes, once for each
// time it reads.
class FakeServer {
 public:
  explicit FakeServer(std::string answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 8), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    is_ending_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    ::shutdown(connection_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  int connections() const { return connections_; }

 private:
  void serve() {
    while (!is_ending_) {
      connection_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection_ < 0) return;
      ++connections_;
      char input[4096];
      while (!is_ending_ && ::read(connection_, input, sizeof(input)) > 0) {
        if (::send(connection_, answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) break;
      }
      ::close(connection_);
    }
  }

  std::string answer_;
  int listener_ = -1;
  std::atomic<int> connection_{-1};
  std::uint16_t port_ = 0;
  std::atomic<bool> is_ending_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

// What a Redis of this version says to HELLO and SELECT.
inline std::string greeting_of(std::string_view version) {
  std::string text = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$";
  text.append(std::to_string(version.size())).append("\r\n").append(version).append("\r\n+OK\r\n");
  return text;
}

}  // namespace weir::store::redis
