// Listener: a socket on loopback for servers that tests make up. Each connection has a thread,
// which ends with the listener.

#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weir {

// Whether all of it went.
inline bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

class Listener {
 public:
  // `serve` is run for each connection, and ends when its socket does.
  explicit Listener(std::function<void(int socket)> serve) : serve_(std::move(serve)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept(); });
  }
  ~Listener() {
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    hang_up();
    for (std::thread& thread : serving_) thread.join();
    for (const int socket : sockets_) ::close(socket);
    ::close(listener_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

  // Ends every connection there is.
  void hang_up() {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }

 private:
  void accept() {
    for (;;) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      serving_.emplace_back([this, socket] {
        serve_(socket);
        ::shutdown(socket, SHUT_RDWR);
      });
    }
  }

  std::function<void(int)> serve_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;          // guarded by mutex_; closed at the end
  std::vector<std::thread> serving_;  // guarded by mutex_
  std::thread accepting_;
};

}  // namespace weir
