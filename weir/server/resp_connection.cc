#include "weir/server/resp_connection.h"

#include <utility>

namespace weir::server {
namespace {

Error stopping() {
  return Error{ErrorCode::kUnavailable, "the server is stopping; ask again, here or elsewhere"};
}

}  // namespace

RespConnection::RespConnection(Loop& loop, Socket socket, const wire::resp::Service& service,
                               const ConnectionBounds& bounds, Clock& clock, std::uint64_t id,
                               std::function<void()> on_close)
    : SocketConnection(loop, loop.resp_traffic, std::move(socket), bounds, clock,
                       std::move(on_close)),
      session_(
          service, id,
          [this](const engine::Request& request, const engine::WaitOptions& options, Instant now) {
            return start_wait(request, options, now);
          },
          [this] { return deliver(); }, [this] { return job_waiter(); }) {}

void RespConnection::on_input(std::string_view bytes, Instant now) {
  if (session_.is_waiting() || !unsent_.empty()) {
    // Later commands wait their turn; this far we look for the client going away.
    needs_more_ = false;
    unread_.append(bytes);
    if (session_.is_waiting() && unread_.size() < Loop::kInputBytes) wait_readable();
    return;
  }
  if (unread_.empty()) {
    begun_at_ = now;
    return run(bytes, now);
  }
  unread_.append(bytes);
  go_on(now);
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
  const std::size_t done = session_.run(bytes, now, loop_.scratch, loop_.output);
  loop_.resp_commands.add(loop_.scratch.commands);
  if (loop_.scratch.commands > 0) {
    begun_at_ = now;
    active_at_ = now;
  }
  unread_.assign(bytes.substr(done));
  if (unread_.empty()) clear(unread_);
  needs_more_ = !session_.is_waiting() && !session_.is_full(loop_.output);
  send(now);
  // One that comes while the server stops has nothing to wait for.
  if (is_draining_ && session_.job_ticket() != 0) stop_waiting();
}

void RespConnection::on_sent(Instant now) {
  if (session_.is_closing()) return close();
  if (!session_.is_waiting()) {
    if (!unread_.empty() && !needs_more_) return go_on(now);
    if (is_draining_) return close();
  }
  wait_readable();
}

Result<engine::WaitStart> RespConnection::start_wait(const engine::Request& request,
                                                     const engine::WaitOptions& options,
                                                     Instant now) {
  engine::Engine& engine = *session_.service().engine;
  Result<engine::WaitStart> start = engine.wait(
      request, options, now,
      [weak = weak_from_this(), &loop = loop_, &engine,
       &clock = clock_](const Result<Decision>& answer) {
        // From whichever thread made room. A client that has left has no use for a
        // hold.
        loop.post([weak, answer, &engine, &clock, pending = system::sampling::pending()] {
          system::sampling::keep_pending(pending);
          const auto self = std::static_pointer_cast<RespConnection>(weak.lock());
          if (self != nullptr && self->is_open()) {
            self->on_answer(answer);
          } else if (answer && answer->hold) {
            engine.abandon(answer->hold, clock.now());
          }
        });
      });
  // One that comes while the server stops has nothing to wait for. If it cannot be given
  // up, its answer is on its way.
  if (is_draining_ && start && start->ticket != 0 && engine.cancel_wait(start->ticket, now)) {
    return stopping();
  }
  return start;
}

void RespConnection::on_answer(const Result<Decision>& answer) {
  const Instant now = clock_.now();
  active_at_ = now;
  begun_at_ = now;
  needs_more_ = false;
  session_.resume(answer, now, loop_.output);
  send(now);
}

wire::resp::Deliver RespConnection::deliver() {
  return [weak = weak_from_this(), &loop = loop_, &engine = *session_.service().engine,
          &clock = clock_](std::size_t place, wire::resp::WriteLate write, HoldId hold) {
    loop.post([weak, &engine, &clock, place, write = std::move(write), hold,
               pending = system::sampling::pending()] {
      system::sampling::keep_pending(pending);
      const auto self = std::static_pointer_cast<RespConnection>(weak.lock());
      if (self != nullptr && self->is_open()) {
        self->on_late(place, write);
      } else {
        engine.abandon(hold, clock.now());
      }
    });
  };
}

system::pool::JobAnswered RespConnection::job_waiter() {
  return [weak = weak_from_this(), &loop = loop_, pool = session_.service().pool, &clock = clock_](
             Instant, const system::pool::JobAnswer& answer) {
    // From whichever thread made room. A client that has left has no use for a job.
    loop.post([weak, answer, pool, &clock] {
      const auto self = std::static_pointer_cast<RespConnection>(weak.lock());
      if (self != nullptr && self->is_open()) {
        self->on_job_answer(answer);
      } else if (const auto* held = std::get_if<system::pool::HeldStart>(&answer)) {
        pool->discard(held->id, clock.now());
      }
    });
  };
}

void RespConnection::on_late(std::size_t place, const wire::resp::WriteLate& write) {
  const Instant now = clock_.now();
  if (!session_.deliver(place, write, now, loop_.output)) return;
  active_at_ = now;
  begun_at_ = now;
  needs_more_ = false;
  send(now);
}

void RespConnection::on_job_answer(const system::pool::JobAnswer& answer) {
  const Instant now = clock_.now();
  active_at_ = now;
  begun_at_ = now;
  needs_more_ = false;
  session_.resume_job(answer, now, loop_.output);
  send(now);
}

// If it cannot be given up, its answer is on its way.
void RespConnection::stop_waiting() {
  if (session_.job_ticket() == 0) {
    if (session_.service().engine->cancel_wait(session_.ticket(), clock_.now())) {
      on_answer(stopping());
    }
  } else if (session_.service().pool->give_up(session_.job_ticket(), clock_.now())) {
    session_.resume_job(stopping(), loop_.output);
    needs_more_ = false;
    send(clock_.now());
  }
}

void RespConnection::check_time(Instant now) {
  const bool is_slow = (!unread_.empty() && !session_.is_waiting()) || !unsent_.empty();
  if (is_slow && now - begun_at_ > bounds_.slow) return close();
  if (!session_.is_waiting() && now - active_at_ > bounds_.idle) close();
}

void RespConnection::on_end(Instant) { close(); }

void RespConnection::drain() {
  is_draining_ = true;
  if (session_.is_waiting()) return stop_waiting();
  if (unsent_.empty()) close();
}

void RespConnection::on_closed() {
  if (session_.job_ticket() != 0) {
    session_.service().pool->give_up(session_.job_ticket(), clock_.now());
  } else if (session_.is_waiting()) {
    session_.service().engine->cancel_wait(session_.ticket(), clock_.now());
  }
}

}  // namespace weir::server
