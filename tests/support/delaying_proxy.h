// Delaying proxy: stands between a program and a server on loopback, and lets what it hears
// pass later, or never.
//
//   DelayingProxy proxy(redis.port());
//   proxy.set_delay(50ms);     // each way, from now on
//   proxy.swallow();           // connections there are go silent, as if half-open; new ones work

#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <deque>

#include "tests/support/listener.h"

namespace weir {

class DelayingProxy {
 public:
  explicit DelayingProxy(std::uint16_t to)
      : to_(to), listener_([this](int socket) { serve(socket); }) {}
  ~DelayingProxy() { is_over_ = true; }

  std::string url() const { return listener_.url(); }
  void set_delay(std::chrono::milliseconds delay) { delay_ms_ = delay.count(); }
  void swallow() { swallowed_ = last_.load(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Packet {
    Time due;
    std::string bytes;
  };
  struct Way {
    int from = -1;
    int to = -1;
    std::deque<Packet> packets{};
  };

  void serve(int socket) {
    const std::int64_t number = ++last_;
    const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(to_);
    if (::connect(other, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      std::array<Way, 2> ways = {Way{socket, other}, Way{other, socket}};
      while (!is_over_ && carry(ways, number)) continue;
    }
    ::close(other);
  }

  // One look at both ways. False: an end has closed.
  bool carry(std::array<Way, 2>& ways, std::int64_t number) {
    std::array<pollfd, 2> polled = {pollfd{ways[0].from, POLLIN, 0},
                                    pollfd{ways[1].from, POLLIN, 0}};
    ::poll(polled.data(), polled.size(), 1);
    const Time now = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[i];
      if (polled[i].revents != 0) {
        std::array<char, 16384> input;
        const ssize_t count = ::read(way.from, input.data(), input.size());
        if (count <= 0) return false;
        if (number > swallowed_) {
          way.packets.push_back({now + std::chrono::milliseconds{delay_ms_.load()},
                                 std::string(input.data(), static_cast<std::size_t>(count))});
        }
      }
      while (!way.packets.empty() && way.packets.front().due <= now) {
        if (!send_all(way.to, way.packets.front().bytes)) return false;
        way.packets.pop_front();
      }
    }
    return true;
  }

  std::uint16_t to_;
  std::atomic<bool> is_over_{false};
  std::atomic<std::int64_t> delay_ms_{0};
  std::atomic<std::int64_t> last_{0};       // connection
  std::atomic<std::int64_t> swallowed_{0};  // connections up to this one
  Listener listener_;
};

}  // namespace weir
