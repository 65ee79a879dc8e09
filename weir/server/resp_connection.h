// RESP connection: one client of the Redis protocol.
//
// Reads when the socket is readable, runs what has arrived whole, sends all replies
// in one write. What has arrived in part, and what could not be sent yet, is kept here
// until it can go on; a client that does not read its replies is not read either.
//
// Thread safety: none. Everything happens on the thread of its loop.

#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "weir/base/clock.h"
#include "weir/server/loop.h"
#include "weir/wire/resp/session.h"

namespace weir::server {

using Socket = boost::asio::generic::stream_protocol::socket;

// Of every connection.
struct ConnectionBounds {
  Duration idle{};  // without a request
  Duration slow{};  // for a request to arrive whole, or a reply to be read
  std::size_t output_bytes = std::size_t{1} << 20;  // unread replies
};

class RespConnection final : public Connection,
                             public std::enable_shared_from_this<RespConnection> {
 public:
  RespConnection(Loop& loop, Socket socket, const wire::resp::Service& service,
                 const ConnectionBounds& bounds, Clock& clock, std::uint64_t id, Role role,
                 std::function<void()> on_close);

  void start();
  void check_time(Instant now) override;
  void drain() override;

 private:
  void wait_readable();
  void on_readable();
  void run(std::string_view bytes, Instant now);
  void send(Instant now);
  void wait_writable();
  void on_answer(const Result<Decision>& answer);
  void go_on();
  void close();
  Result<engine::WaitStart> start_wait(const engine::Request& request,
                                       const engine::WaitOptions& options, Instant now);

  Loop& loop_;
  Socket socket_;
  const ConnectionBounds& bounds_;
  Clock& clock_;
  wire::resp::Session session_;
  std::function<void()> on_close_;
  std::string unread_;  // the beginning of a request
  std::string unsent_;  // replies the client has not taken
  Instant active_at_;   // the last whole request, or reply sent
  Instant begun_at_;    // when the unread or unsent bytes began
  bool is_open_ = true;
  bool is_reading_ = false;
  bool is_draining_ = false;
};

}  // namespace weir::server
