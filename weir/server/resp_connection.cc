#include "weir/server/resp_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

namespace weir::server {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

// Kept for the next request or reply; a larger buffer is given back.
constexpr std::size_t kKeptBytes = 512;

void clear(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBytes) buffer.shrink_to_fit();
}

}  // namespace

RespConnection::RespConnection(Loop& loop, Socket socket, const wire::resp::Service& service,
                               const ConnectionBounds& bounds, Clock& clock, std::uint64_t id,
                               Role role, std::function<void()> on_close)
    : loop_(loop),
      socket_(std::move(socket)),
      bounds_(bounds),
      clock_(clock),
      session_(service, id, role,
               [this](const engine::Request& request, const engine::WaitOptions& options,
                      Instant now) { return start_wait(request, options, now); }),
      on_close_(std::move(on_close)),
      active_at_(clock.now()),
      begun_at_(active_at_) {}

void RespConnection::start() {
  Error error;
  socket_.non_blocking(true, error);
  loop_.add(shared_from_this());
  wait_readable();
}

void RespConnection::wait_readable() {
  if (is_reading_ || !is_open_) return;
  is_reading_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const Error& error) {
    self->is_reading_ = false;
    if (!error) self->on_readable();
  });
}

void RespConnection::on_readable() {
  if (!is_open_) return;
  Error error;
  const std::size_t count = socket_.read_some(asio::buffer(loop_.input), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) {
    return wait_readable();
  }
  if (error) return close();

  const Instant now = clock_.now();
  const std::string_view bytes(loop_.input.data(), count);
  if (session_.is_waiting()) {
    // Later commands wait their turn; this far we look for the client going away.
    if (unread_.empty()) begun_at_ = now;
    unread_.append(bytes);
    if (unread_.size() < Loop::kInputBytes) wait_readable();
    return;
  }
  if (unread_.empty()) {
    run(bytes, now);
  } else {
    unread_.append(bytes);
    const std::string whole = std::move(unread_);
    unread_.clear();
    run(whole, now);
  }
}

// Runs the whole requests in `bytes` and keeps the rest.
void RespConnection::run(std::string_view bytes, Instant now) {
  const std::size_t done = session_.run(bytes, now, loop_.scratch, loop_.output);
  if (done > 0 || unread_.empty()) begun_at_ = now;
  if (done > 0) active_at_ = now;
  unread_.assign(bytes.substr(done));
  if (unread_.empty()) clear(unread_);
  send(now);
}

// Sends what the loop's output holds, or keeps what cannot be sent yet.
void RespConnection::send(Instant now) {
  std::string_view left = loop_.output;
  while (unsent_.empty() && !left.empty()) {
    Error error;
    left.remove_prefix(socket_.write_some(asio::buffer(left.data(), left.size()), error));
    if (error == asio::error::would_block) break;
    if (error && error != asio::error::interrupted) {
      loop_.output.clear();
      return close();
    }
  }
  if (!left.empty()) {
    if (unsent_.empty()) begun_at_ = now;
    unsent_.append(left);
  }
  loop_.output.clear();
  if (unsent_.size() > bounds_.output_bytes) return close();
  if (!unsent_.empty()) return wait_writable();
  if (session_.is_closing() || (is_draining_ && !session_.is_waiting())) return close();
  wait_readable();
}

void RespConnection::wait_writable() {
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const Error& error) {
    if (error || !self->is_open_) return;
    std::swap(self->loop_.output, self->unsent_);
    clear(self->unsent_);
    self->send(self->clock_.now());
    if (self->is_open_ && self->unsent_.empty()) self->go_on();
  });
}

// Runs requests that arrived while the connection was busy.
void RespConnection::go_on() {
  if (unread_.empty() || session_.is_waiting() || session_.is_closing()) return;
  const std::string whole = std::move(unread_);
  unread_.clear();
  run(whole, clock_.now());
}

Result<engine::WaitStart> RespConnection::start_wait(const engine::Request& request,
                                                     const engine::WaitOptions& options,
                                                     Instant now) {
  engine::Engine& engine = *session_.service().engine;
  return engine.wait(request, options, now,
                     [weak = weak_from_this(), &loop = loop_, &engine,
                      &clock = clock_](const Result<Decision>& answer) {
                       // From whichever thread made room. A client that has left has no use for a
                       // hold.
                       loop.post([weak, answer, &engine, &clock] {
                         if (const auto self = weak.lock(); self != nullptr && self->is_open_) {
                           self->on_answer(answer);
                         } else if (answer && answer->hold) {
                           engine.cancel(answer->hold, clock.now());
                         }
                       });
                     });
}

void RespConnection::on_answer(const Result<Decision>& answer) {
  const Instant now = clock_.now();
  active_at_ = now;
  session_.resume(answer, now, loop_.output);
  send(now);
  if (is_open_ && unsent_.empty()) go_on();
}

void RespConnection::check_time(Instant now) {
  const bool is_slow = (!unread_.empty() && !session_.is_waiting()) || !unsent_.empty();
  if (is_slow && now - begun_at_ > bounds_.slow) return close();
  if (!session_.is_waiting() && now - active_at_ > bounds_.idle) close();
}

void RespConnection::drain() {
  is_draining_ = true;
  if (session_.is_waiting()) {
    if (session_.service().engine->cancel_wait(session_.ticket(), clock_.now())) {
      on_answer(weir::Error{ErrorCode::kUnavailable,
                            "the server is stopping; ask again, here or elsewhere"});
    }
    return;
  }
  if (unsent_.empty()) close();
}

void RespConnection::close() {
  if (!is_open_) return;
  is_open_ = false;
  const auto self = shared_from_this();
  if (session_.is_waiting()) {
    session_.service().engine->cancel_wait(session_.ticket(), clock_.now());
  }
  Error ignored;
  socket_.close(ignored);
  loop_.remove(self);
  on_close_();
}

}  // namespace weir::server
