// Clients: who is connected, over both protocols, and how many may be.
//
// Thread safety: every function may be called from any thread, on the loop that is given.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/http_front.h"
#include "weir/server/listeners.h"
#include "weir/server/loop.h"
#include "weir/server/resp_connection.h"

namespace weir::server {

class Clients {
 public:
  // All of these outlive it.
  Clients(std::size_t connections_max, const ConnectionBounds& bounds, Clock& clock)
      : connections_max_(connections_max), bounds_(bounds), clock_(clock) {}

  // Before the first client.
  void set(HttpFront& http, const wire::resp::Service& service) {
    http_ = &http;
    service_ = &service;
  }

  // A client has come: it is connected, or told that there are too many.
  void welcome(Protocol protocol, Loop& loop, Socket socket);

  std::size_t connected() const noexcept { return connected_.load(); }
  // True: all have left. False: some are there still, and the clock has come to `deadline`.
  bool wait_for_the_last(Instant deadline);
  std::uint64_t refused() const noexcept { return refused_.load(); }

 private:
  void refuse(Protocol protocol, Socket socket);
  void leave();

  const std::size_t connections_max_;
  const ConnectionBounds& bounds_;
  Clock& clock_;
  HttpFront* http_ = nullptr;
  const wire::resp::Service* service_ = nullptr;
  std::atomic<std::size_t> connected_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> last_id_{0};
  std::mutex lock_;
  std::condition_variable none_;  // is there any more
};

}  // namespace weir::server
