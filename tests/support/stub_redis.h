// Stub Redis: greets as a Redis does, then answers every script as a test says.
//
//   StubRedis stub;
//   stub.answer("-OOM command not allowed\r\n");
//   stub.answer({});                               // nothing: silence

#pragma once

#include <array>
#include <cstdlib>

#include "tests/support/listener.h"

namespace weir {

class StubRedis {
 public:
  explicit StubRedis(std::string version = "7.0.15")
      : version_(std::move(version)), listener_([this](int socket) { serve(socket); }) {}

  std::string url() const { return listener_.url(); }
  void answer(std::string bytes) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(bytes);
  }
  // To HELLO as well.
  void refuse(std::string bytes) {
    {
      const std::lock_guard lock(mutex_);
      refusal_ = std::move(bytes);
    }
    listener_.hang_up();
  }

 private:
  void serve(int socket) {
    std::string input;
    std::array<char, 16384> bytes;
    for (;;) {
      const ssize_t count = ::read(socket, bytes.data(), bytes.size());
      if (count <= 0) return;
      input.append(bytes.data(), static_cast<std::size_t>(count));
      for (std::vector<std::string> words = next(input); !words.empty(); words = next(input)) {
        if (!send_all(socket, reply_to(words[0]))) return;
      }
    }
  }

  // Takes a whole command off the front; nothing: there is none yet.
  static std::vector<std::string> next(std::string& input) {
    std::vector<std::string> words;
    std::size_t at = 0;
    const auto number = [&]() -> std::size_t {  // after a mark, or npos
      const std::size_t end = input.find("\r\n", at);
      if (end == std::string::npos) return end;
      const std::size_t value = std::strtoull(input.c_str() + at + 1, nullptr, 10);
      at = end + 2;
      return value;
    };
    const std::size_t count = number();
    if (count == std::string::npos) return {};
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t size = number();
      if (size == std::string::npos || input.size() < at + size + 2) return {};
      words.push_back(input.substr(at, size));
      at += size + 2;
    }
    input.erase(0, at);
    return words;
  }

  std::string reply_to(const std::string& command) {
    const std::lock_guard lock(mutex_);
    if (!refusal_.empty()) return refusal_;
    if (command == "EVALSHA") return answer_;
    if (command != "HELLO") return "+OK\r\n";
    std::string hello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$";
    hello.append(std::to_string(version_.size())).append("\r\n").append(version_).append("\r\n");
    return hello;
  }

  std::string version_;
  std::mutex mutex_;
  std::string answer_;   // guarded by mutex_
  std::string refusal_;  // guarded by mutex_
  Listener listener_;
};

}  // namespace weir
