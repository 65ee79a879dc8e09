// Listeners: the sockets that connections come in at, over TCP or a unix socket.
//
// They live on the first loop and give each connection to the loops in turn.
//
// Thread safety: listen() and start() before the loops run; close() on the first loop;
// remove_files() after they have ended.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/result.h"
#include "weir/config/config.h"
#include "weir/server/loop.h"
#include "weir/server/socket_connection.h"

namespace weir::server {

enum class Protocol : std::uint8_t { kResp, kHttp };

class Listeners {
 public:
  // Called on the first loop for every connection, with the loop it shall live on.
  using Welcome = std::function<void(Protocol, Loop&, Socket)>;

  Listeners(std::vector<std::unique_ptr<Loop>>& loops, Welcome welcome);
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  // Binds. An address that is taken is an error.
  Status listen(const config::Address& address, Protocol protocol);
  // Begins to accept.
  void start();
  void close();
  // Removes the files of unix sockets.
  void remove_files() const;

  // Where they listen, with the ports that were chosen for 0.
  const std::vector<config::Address>& addresses() const noexcept { return bound_; }

 private:
  struct Listener;
  template <typename Protocol>
  struct ListenerAt;

  std::vector<std::unique_ptr<Loop>>& loops_;
  Welcome welcome_;
  std::vector<config::Address> bound_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::size_t next_loop_ = 0;
};

}  // namespace weir::server
