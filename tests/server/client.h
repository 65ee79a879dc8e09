// A client for the server tests: a blocking socket with a patience.

#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/support/eventually.h"

namespace weir::server {

constexpr int kPatienceMs = std::chrono::milliseconds{kPatience}.count();

class Client {
 public:
  // `address` as the server says it: 127.0.0.1:6380, [::1]:6380 or unix:/path.
  explicit Client(const std::string& address) {
    if (address.starts_with("unix:")) {
      sockaddr_un to{};
      to.sun_family = AF_UNIX;
      std::strncpy(to.sun_path, address.c_str() + 5, sizeof to.sun_path - 1);
      connect(AF_UNIX, &to, sizeof to);
      return;
    }
    const std::size_t colon = address.rfind(':');
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)));
    if (address.starts_with("[")) {
      sockaddr_in6 to{};
      to.sin6_family = AF_INET6;
      to.sin6_port = htons(port);
      inet_pton(AF_INET6, address.substr(1, colon - 2).c_str(), &to.sin6_addr);
      connect(AF_INET6, &to, sizeof to);
    } else {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
      connect(AF_INET, &to, sizeof to);
    }
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_connected() const { return socket_ >= 0; }
  void leave() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // Closes one half: the other side reads an end, and can still answer.
  void stop_sending() { ::shutdown(socket_, SHUT_WR); }

  // False: the other side has closed, or takes no more.
  bool send(std::string_view bytes, bool wait = true) {
    while (!bytes.empty()) {
      const auto sent =
          ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // What comes until `count` bytes are there, the other side closes, or time is up.
  std::string receive(std::size_t count, int patience_ms = kPatienceMs) {
    std::string got;
    while (got.size() < count) {
      pollfd waiting{socket_, POLLIN, 0};
      if (::poll(&waiting, 1, patience_ms) != 1) break;
      char bytes[4096];
      const auto read = ::recv(socket_, bytes, std::min(sizeof bytes, count - got.size()), 0);
      if (read <= 0) break;
      got.append(bytes, static_cast<std::size_t>(read));
    }
    return got;
  }

  // What comes until `text` is in it, the other side closes, or time is up.
  std::string receive_until(std::string_view text) {
    std::string got;
    while (got.find(text) == std::string::npos) {
      const std::string more = receive(1);
      if (more.empty()) break;
      got += more;
    }
    return got;
  }

  std::string ask(std::string_view bytes, std::size_t count) {
    send(bytes);
    return receive(count);
  }

  std::string ask_until(std::string_view bytes, std::string_view text) {
    send(bytes);
    return receive_until(text);
  }

  // Whether the other side closes within the time given.
  bool is_closed_within(int patience_ms) {
    pollfd waiting{socket_, POLLIN, 0};
    if (::poll(&waiting, 1, patience_ms) != 1) return false;
    char byte;
    return ::recv(socket_, &byte, 1, 0) <= 0;
  }

 private:
  void connect(int family, const void* to, std::size_t bytes) {
    socket_ = ::socket(family, SOCK_STREAM, 0);
    if (::connect(socket_, static_cast<const sockaddr*>(to), static_cast<socklen_t>(bytes)) != 0) {
      leave();
    }
  }

  int socket_ = -1;
};

}  // namespace weir::server
