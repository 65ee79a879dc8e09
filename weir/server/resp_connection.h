// RESP connection: one client of the Redis protocol.
//
// Runs what has arrived whole and sends all replies in one write.
//
// Thread safety: none. Everything happens on the thread of its loop.

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "weir/server/socket_connection.h"
#include "weir/wire/resp/session.h"

namespace weir::server {

class RespConnection final : public SocketConnection {
 public:
  RespConnection(Loop& loop, Socket socket, const wire::resp::Service& service,
                 const ConnectionBounds& bounds, Clock& clock, std::uint64_t id,
                 std::function<void()> on_close);

  void check_time(Instant now) override;
  void drain() override;

 private:
  void on_input(std::string_view bytes, Instant now) override;
  void on_end(Instant now) override;
  void on_sent(Instant now) override;
  void on_closed() override;
  std::uint64_t take_record() override { return session_.take_record(); }
  std::size_t read_bytes() const noexcept override {
    return session_.is_stranger() ? kStrangerBytesMax : Loop::kInputBytes;
  }

  void run(std::string_view bytes, Instant now);
  void go_on(Instant now);
  void read_behind(Instant now);
  // Brings a reply that is owed to this connection's loop.
  wire::resp::Deliver deliver();
  void on_late(std::size_t place, const wire::resp::LateReply& late);
  void send_replies(Instant now);
  void stop_waiting();

  wire::resp::Session session_;
  bool needs_more_ = false;  // what is unread is no whole request
  bool is_draining_ = false;
};

}  // namespace weir::server
