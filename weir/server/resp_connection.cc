#include "weir/server/resp_connection.h"

#include <utility>

namespace weir::server {
namespace {

constexpr std::string_view kStopping =
    "UNAVAILABLE the server is stopping; ask again, here or elsewhere";

}  // namespace

RespConnection::RespConnection(Loop& loop, Socket socket, const wire::resp::Service& service,
                               const ConnectionBounds& bounds, Clock& clock, std::uint64_t id,
                               std::function<void()> on_close)
    : SocketConnection(loop, loop.resp_traffic, std::move(socket), bounds, clock,
                       std::move(on_close)),
      session_(service, id, [this] { return deliver(); }) {}

void RespConnection::on_input(std::string_view bytes, Instant now) {
  if (session_.is_waiting() || !unsent_.empty()) {
    // Later commands wait their turn; this far we look for the client going away.
    needs_more_ = false;
    unread_.append(bytes);
    if (session_.is_waiting()) read_behind(now);
    return;
  }
  if (unread_.empty()) {
    begin(now);
    return run(bytes, now);
  }
  unread_.append(bytes);
  go_on(now);
}

// Behind a command that waits: so far that the client going away is seen.
void RespConnection::read_behind(Instant now) {
  if (unread_.size() < Loop::kInputBytes) return wait_readable();
  stop_reading(now);
}

// Runs requests of which a part, or all, arrived earlier.
void RespConnection::go_on(Instant now) {
  const std::string whole = std::move(unread_);
  unread_.clear();
  run(whole, now);
}

// Runs the whole requests in `bytes` and keeps the rest.
void RespConnection::run(std::string_view bytes, Instant now) {
  loop_.scratch.commands = 0;
  std::size_t done = 0;
  bool is_late = false;  // the reply to a token that is not known
  do {
    done += session_.run(bytes.substr(done), now, loop_.scratch, loop_.output);
    if (!session_.take_unknown_token()) break;
    is_late = note_unknown_token(now) > Duration{0};
  } while (!is_late && done < bytes.size());
  loop_.resp_commands.add(loop_.scratch.commands);
  if (session_.is_http()) {
    if (loop_.when_http) loop_.when_http(peer());
    loop_.output.clear();
    return close();
  }
  if (loop_.scratch.commands > 0) {
    begin(now);
    active_at_ = now;
  }
  unread_.assign(bytes.substr(done));
  if (unread_.empty()) clear(unread_);
  needs_more_ = !session_.is_waiting() && !session_.is_full(loop_.output) && !is_late;
  send(now);
  // One that comes while the server stops has nothing to wait for.
  if (is_draining_ && session_.is_waiting()) stop_waiting();
}

void RespConnection::on_sent(Instant now) {
  if (session_.is_closing()) return close();
  if (session_.is_waiting()) return read_behind(now);
  if (!unread_.empty() && !needs_more_) return go_on(now);
  if (is_draining_) return close();
  wait_readable();
}

wire::resp::Deliver RespConnection::deliver() {
  return [weak = weak_from_this(), &loop = loop_, &clock = clock_](std::size_t place,
                                                                   wire::resp::LateReply late) {
    loop.post([weak, &clock, place, late = std::move(late)] {
      const auto self = std::static_pointer_cast<RespConnection>(weak.lock());
      if (self != nullptr && self->is_open()) {
        self->on_late(place, late);
      } else if (late.discard) {
        late.discard(clock.now());  // a client that has left has no use for it
      }
    });
  };
}

void RespConnection::on_late(std::size_t place, const wire::resp::LateReply& late) {
  const Instant now = clock_.now();
  if (session_.deliver(place, late, now, loop_.output)) send_replies(now);
}

// All that was owed is in the output.
void RespConnection::send_replies(Instant now) {
  active_at_ = now;
  begin(now);
  needs_more_ = false;
  send(now);
}

// What cannot be given up has its answer on its way.
void RespConnection::stop_waiting() {
  const Instant now = clock_.now();
  if (session_.give_up(kStopping, now, loop_.output)) send_replies(now);
}

void RespConnection::check_time(Instant now) {
  if (is_slowed(now)) return;
  if (session_.look_at_tokens(now, loop_.output)) return send_replies(now);
  const bool is_midway = (!unread_.empty() && !session_.is_waiting()) || !unsent_.empty();
  if (is_midway && is_slow(now)) return close();
  if (session_.is_waiting() ? is_lost(now) : now - active_at_ > bounds_.idle) close();
}

void RespConnection::on_end(Instant) { close(); }

void RespConnection::drain() {
  is_draining_ = true;
  if (session_.is_waiting()) return stop_waiting();
  if (unsent_.empty()) close();
}

void RespConnection::on_closed() { session_.leave(clock_.now()); }

}  // namespace weir::server
