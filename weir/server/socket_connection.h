// Socket connection: what every protocol's connection does with its socket.
//
// Reads when the socket is readable, into the loop's buffer; sends what the loop's
// output holds in one write. What has arrived in part (`unread_`) and what could not be
// sent yet (`unsent_`) is kept here until it can go on; a client that does not read its
// replies is not read either, and closed if it does not go on reading them. A client that leaves is
// noticed though nothing is read, and so is one whose machine has vanished. Replies that tell of
// something that must be written first, a grant of sampling, are kept until it is; if it cannot be,
// the connection is closed without them.
//
// Thread safety: none. Everything happens on the thread of its loop.

#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/base/clock.h"
#include "weir/server/loop.h"
#include "weir/server/unread_replies.h"

namespace weir::server {

using Socket = boost::asio::generic::stream_protocol::socket;

// Of every connection.
struct ConnectionBounds {
  Duration idle{};  // without a request
  // For a request to arrive whole, and for a client that has unread replies to take
  // kProgressBytes of them, or all.
  Duration slow{};
  std::size_t output_bytes = std::size_t{1} << 20;  // unread replies
  UnreadReplies* all_replies = nullptr;             // of all connections; outlives them
};

// What a slow reader takes of its replies in ConnectionBounds::slow, at least: a client that takes
// less is not reading, whatever it sends.
constexpr std::int64_t kProgressBytes = 65'536;

class SocketConnection : public Connection, public std::enable_shared_from_this<SocketConnection> {
 public:
  SocketConnection(Loop& loop, Traffic& traffic, Socket socket, const ConnectionBounds& bounds,
                   Clock& clock, std::function<void()> on_close);

  void start();

 protected:
  // Bytes have arrived. They lie in the loop's buffer.
  virtual void on_input(std::string_view bytes, Instant now) = 0;
  // The client sends no more.
  virtual void on_end(Instant now) = 0;
  // Everything that was to be sent has been.
  virtual void on_sent(Instant now) = 0;
  // It is closed now.
  virtual void on_closed() = 0;
  // What the loop's output holds is sent when this record is on disk; 0: at once. Says it once.
  virtual std::uint64_t take_record() = 0;

  // The most that is read at once.
  virtual std::size_t read_bytes() const noexcept = 0;

  bool is_open() const noexcept { return is_open_; }
  // The address of the client, for a log; that of a unix socket is empty.
  std::string peer() const;
  bool is_unix() const;
  void wait_readable();
  // Enough is unread behind a request that waits, so nothing is read until wait_readable().
  void stop_reading(Instant now) noexcept { full_at_ = now; }
  // Whether a client whose request waits has left, or may have: it has sent more than is kept
  // behind that request, so its end cannot be seen, and that for as long as a request may take.
  bool is_lost(Instant now);
  // The client has presented a token that is not known. Returns how long the answer waits: what
  // is sent next is kept until then.
  Duration note_unknown_token(Instant now);
  // Sends what waited, once its time has come. True: it waits still, and so does the client.
  bool is_slowed(Instant now);
  // Something begins, unless the client has not read all replies yet.
  void begin(Instant now) noexcept {
    if (!is_behind_) begun_at_ = now;
  }
  // Whether what arrives or is read takes too long: it began more than `slow` ago. For a client
  // that takes its replies slowly, but takes them, it begins again.
  bool is_slow(Instant now);
  // Sends what the loop's output holds, or keeps what cannot be sent yet. Calls on_sent()
  // before it returns, or later.
  void send(Instant now);
  // The client is told that nothing more comes, while what it sends can still be read.
  void shut_sending();
  void close();

  // Empties a buffer and gives its memory back, unless it is small.
  static void clear(std::string& buffer);

  Loop& loop_;
  const ConnectionBounds& bounds_;
  Clock& clock_;
  std::string unread_;  // the beginning of a request
  std::string unsent_;  // replies the client has not taken
  Instant active_at_;   // the last whole request, or reply sent
  // When the unread or unsent bytes began, or when the client last got on with reading.
  Instant begun_at_;

 private:
  void watch_peer();
  // The most that the kernel keeps each way.
  void keep_in_kernel(int bytes);
  void on_readable();
  void wait_writable();
  void send_unsent();
  // Keeps what the loop's output holds until the record is on disk.
  void hold_back(std::uint64_t record, Instant now);
  void wait_written(std::uint64_t record);
  // The bytes that the client's machine has taken so far.
  std::int64_t taken_bytes();
  // False: all connections keep too much.
  bool count_unsent() noexcept;

  Traffic& traffic_;
  Socket socket_;
  std::function<void()> on_close_;
  bool is_open_ = true;
  bool is_tcp_ = false;
  bool is_known_ = false;  // has had a role, so the kernel keeps more for it
  bool is_reading_ = false;
  bool is_held_back_ = false;
  Instant slowed_until_{};       // what is sent waits until then; 0: it does not
  bool is_behind_ = false;       // replies have been waiting to be read since begun_at_
  std::int64_t written_ = 0;     // bytes given to the kernel
  std::int64_t taken_then_ = 0;  // taken_bytes() at begun_at_, of one that is behind
  std::size_t counted_ = 0;      // of unsent_, in all_replies
  Instant full_at_{};            // when reading stopped; 0: it has not
  std::uint64_t held_next_ = 0;  // what replies behind those held back wait for
};

}  // namespace weir::server
