#include "weir/server/socket_connection.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <chrono>
#include <utility>

#include "weir/base/role.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
using ErrorNumber = boost::system::error_code;

// Kept for the next request or reply; a larger buffer is given back.
constexpr std::size_t kKeptBytes = 512;

// A machine that has vanished is noticed within two minutes.
constexpr int kProbeAfterS = 60;
constexpr int kProbeEveryS = 15;
constexpr int kProbes = 4;
constexpr auto kVanishedAfter = std::chrono::minutes{2};

// What the kernel keeps for a TCP connection each way; it takes twice as much for its own books.
// Left to itself it keeps up to 4 MB of replies and 32 MB of requests for each, and once that is a
// tenth of the machine's memory, no connection of the machine gets any.
constexpr int kKernelBytes = 128 << 10;
constexpr int kStrangerKernelBytes = kStrangerBytesMax;

void set_option(int socket, int level, int name, int value) {
  // Where it cannot be set, the bounds on time are what is left.
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

}  // namespace

SocketConnection::SocketConnection(Loop& loop, Traffic& traffic, Socket socket,
                                   const ConnectionBounds& bounds, Clock& clock,
                                   std::function<void()> on_close)
    : loop_(loop),
      bounds_(bounds),
      clock_(clock),
      active_at_(clock.now()),
      begun_at_(active_at_),
      traffic_(traffic),
      socket_(std::move(socket)),
      on_close_(std::move(on_close)) {}

void SocketConnection::start() {
  ErrorNumber error;
  socket_.non_blocking(true, error);
  watch_peer();
  loop_.add(shared_from_this());
  traffic_.opened.add();
  wait_readable();
}

// The kernel looks for the client while nothing is said, and gives up what the client does not
// acknowledge.
void SocketConnection::watch_peer() {
  ErrorNumber error;
  const int family = socket_.local_endpoint(error).protocol().family();
  if (error || (family != AF_INET && family != AF_INET6)) return;
  is_tcp_ = true;
  keep_in_kernel(kStrangerKernelBytes);
  const int socket = socket_.native_handle();
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEveryS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  // Not before a slow reader is closed by its own bound.
  const auto vanished = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::max<Duration>(kVanishedAfter, bounds_.slow));
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(std::min<std::int64_t>(vanished.count(), 1 << 30)));
}

void SocketConnection::keep_in_kernel(int bytes) {
  set_option(socket_.native_handle(), SOL_SOCKET, SO_SNDBUF, bytes);
  set_option(socket_.native_handle(), SOL_SOCKET, SO_RCVBUF, bytes);
}

std::string SocketConnection::peer() const {
  if (is_unix()) return {};
  ErrorNumber error;
  const auto endpoint = socket_.remote_endpoint(error);
  char host[NI_MAXHOST] = "?";
  if (error || ::getnameinfo(endpoint.data(), static_cast<socklen_t>(endpoint.size()), host,
                             sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "?";
  }
  return host;
}

bool SocketConnection::is_unix() const {
  ErrorNumber error;
  return socket_.local_endpoint(error).protocol().family() == AF_UNIX;
}

Duration SocketConnection::note_unknown_token(Instant now) {
  traffic_.unknown_tokens.add();
  if (!loop_.when_unknown_token) return Duration{0};
  const Duration delay = loop_.when_unknown_token(peer());
  if (delay > Duration{0}) slowed_until_ = now + delay;
  return delay;
}

bool SocketConnection::is_slowed(Instant now) {
  if (slowed_until_.ns == 0) return false;
  if (now < slowed_until_) return true;
  slowed_until_ = {};
  const std::uint64_t record = std::exchange(held_next_, 0);
  if (record != 0) {
    is_held_back_ = true;
    wait_written(record);
  } else {
    send_unsent();
  }
  return true;
}

bool SocketConnection::is_lost(Instant now) {
  if (is_reading_ || full_at_.ns == 0) return false;
  pollfd end{socket_.native_handle(), POLLRDHUP, 0};
  if (::poll(&end, 1, 0) == 1) return true;
  return now - full_at_ > bounds_.slow;
}

void SocketConnection::wait_readable() {
  if (is_reading_ || !is_open_) return;
  is_reading_ = true;
  full_at_ = {};
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const ErrorNumber& error) {
    self->is_reading_ = false;
    if (!error) self->on_readable();
  });
}

void SocketConnection::on_readable() {
  if (!is_open_) return;
  ErrorNumber error;
  const std::size_t most = read_bytes();
  if (is_tcp_ && most > kStrangerBytesMax && !std::exchange(is_known_, true)) {
    keep_in_kernel(kKernelBytes);
  }
  const std::size_t count = socket_.read_some(asio::buffer(loop_.input.data(), most), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) {
    return wait_readable();
  }
  if (error == asio::error::eof) return on_end(clock_.now());
  if (error) return close();
  traffic_.bytes_in.add(count);
  // The connection may be gone afterwards.
  Loop& loop = loop_;
  Clock& clock = clock_;
  const Instant now = clock.now();
  on_input({loop.input.data(), count}, now);
  loop.batch_times.add(clock.now() - now);
}

void SocketConnection::send(Instant now) {
  if (!loop_.output.empty()) {
    const std::uint64_t record = take_record();
    if (slowed_until_.ns != 0) {
      begin(now);
      unsent_.append(loop_.output);
      loop_.output.clear();
      if (!count_unsent()) return close();
      held_next_ = std::max(held_next_, record);
      return;
    }
    if (is_held_back_ || record != 0) return hold_back(record, now);
  }
  std::string_view left = loop_.output;
  while (unsent_.empty() && !left.empty()) {
    ErrorNumber error;
    const std::size_t sent = socket_.write_some(asio::buffer(left.data(), left.size()), error);
    traffic_.bytes_out.add(sent);
    written_ += static_cast<std::int64_t>(sent);
    left.remove_prefix(sent);
    if (error == asio::error::would_block) break;
    if (error && error != asio::error::interrupted) {
      loop_.output.clear();
      return close();
    }
  }
  if (!left.empty()) {
    begin(now);
    if (!std::exchange(is_behind_, true)) taken_then_ = taken_bytes();
    unsent_.append(left);
  }
  loop_.output.clear();
  if (!count_unsent()) return close();
  if (unsent_.empty()) {
    is_behind_ = false;
    return on_sent(now);
  }
  wait_writable();
}

// What the kernel keeps for a client is not taken: of a large buffer the program hears only when a
// third of it is free again.
std::int64_t SocketConnection::taken_bytes() {
  int queued = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &queued) != 0) queued = 0;
  return written_ - queued;
}

bool SocketConnection::is_slow(Instant now) {
  if (now - begun_at_ <= bounds_.slow) return false;
  if (!is_behind_) return true;
  const std::int64_t taken = taken_bytes();
  if (taken - taken_then_ < kProgressBytes) return true;
  taken_then_ = taken;
  begun_at_ = now;
  return false;
}

bool SocketConnection::count_unsent() noexcept {
  if (!bounds_.all_replies->change(counted_, unsent_.size())) return false;
  counted_ = unsent_.size();
  return true;
}

void SocketConnection::wait_writable() {
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const ErrorNumber& error) {
    if (!error && self->is_open_) self->send_unsent();
  });
}

void SocketConnection::send_unsent() {
  std::swap(loop_.output, unsent_);
  clear(unsent_);
  send(clock_.now());
}

void SocketConnection::hold_back(std::uint64_t record, Instant now) {
  if (unsent_.empty()) begin(now);
  unsent_.append(loop_.output);
  loop_.output.clear();
  if (!count_unsent()) return close();
  if (!std::exchange(is_held_back_, true)) return wait_written(record);
  held_next_ = std::max(held_next_, record);
}

void SocketConnection::wait_written(std::uint64_t record) {
  loop_.when_written(record, [weak = weak_from_this(), &loop = loop_](const Status& written) {
    loop.post([weak, is_written = written.ok()] {
      const auto self = weak.lock();
      if (self == nullptr || !self->is_open_) return;
      if (!is_written) return self->close();
      const std::uint64_t next = std::exchange(self->held_next_, 0);
      if (next != 0) return self->wait_written(next);
      self->is_held_back_ = false;
      self->send_unsent();
    });
  });
}

void SocketConnection::shut_sending() {
  ErrorNumber ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void SocketConnection::close() {
  if (!is_open_) return;
  is_open_ = false;
  bounds_.all_replies->change(std::exchange(counted_, 0), 0);
  const auto self = shared_from_this();
  on_closed();
  ErrorNumber ignored;
  socket_.close(ignored);
  loop_.remove(self);
  traffic_.closed.add();
  on_close_();
}

void SocketConnection::clear(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBytes) buffer.shrink_to_fit();
}

}  // namespace weir::server
