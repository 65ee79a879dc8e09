#include "weir/server/clients.h"

#include <boost/asio/buffer.hpp>
#include <memory>
#include <string>
#include <utility>

#include "weir/base/timed_wait.h"

namespace weir::server {
namespace {

void add(Loop& loop, std::shared_ptr<SocketConnection> connection) {
  loop.post([connection = std::move(connection)] { connection->start(); });
}

}  // namespace

void Clients::welcome(Protocol protocol, Loop& loop, Socket socket) {
  if (connected_.fetch_add(1, std::memory_order_relaxed) >= connections_max_) {
    leave();
    return refuse(protocol, std::move(socket));
  }
  auto on_close = [this] { leave(); };
  if (protocol == Protocol::kHttp) {
    add(loop, std::make_shared<HttpConnection>(http_->desk(loop), std::move(socket), ++last_id_,
                                               std::move(on_close)));
  } else {
    add(loop, std::make_shared<RespConnection>(loop, std::move(socket), *service_, bounds_, clock_,
                                               ++last_id_, std::move(on_close)));
  }
}

void Clients::leave() {
  if (connected_.fetch_sub(1) > 1) return;
  // With the lock, so that one that has just looked does not miss it.
  const std::scoped_lock lock(lock_);
  none_.notify_all();
}

bool Clients::wait_for_the_last(Instant deadline) {
  std::unique_lock lock(lock_);
  return wait_by(none_, lock, clock_, deadline, [this] { return connected() == 0; });
}

void Clients::refuse(Protocol protocol, Socket socket) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  const std::string last_words = protocol == Protocol::kHttp
                                     ? HttpFront::too_many_connections(clock_.now())
                                     : "-ERR max number of clients reached\r\n";
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(boost::asio::buffer(last_words), ignored);
  socket.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace weir::server
