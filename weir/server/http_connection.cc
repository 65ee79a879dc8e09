#include "weir/server/http_connection.h"

#include <algorithm>
#include <utility>

#include "weir/wire/http/problem.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/http/text.h"

namespace weir::server {
namespace {

using wire::http::Afterwards;
using wire::http::Answer;
using wire::http::Problem;
using wire::http::RequestReader;

constexpr auto kEventEvery = std::chrono::seconds{1};
constexpr std::string_view kAskForToken = "WWW-Authenticate: Bearer realm=\"weir\"\r\n";

void refuse_stream(Answer& answer) {
  answer.status = wire::http::status_of(Problem::kExhausted);
  answer.content_type = wire::http::kProblemType;
  answer.headers = "Retry-After: 1\r\n";
  answer.body.clear();
  answer.is_stream = false;
  append_problem(answer.body, Problem::kExhausted,
                 "the server has as many streams of events as it sends; close some, or raise "
                 "bounds.streams");
}

}  // namespace

HttpDesk::HttpDesk(Loop& the_loop, wire::http::Api& the_api, const Tokens& the_tokens,
                   Clock& the_clock, const ConnectionBounds& the_bounds,
                   const wire::http::RequestBounds& the_request_bounds, Streams& the_streams)
    : loop(the_loop),
      api(the_api),
      tokens(the_tokens),
      clock(the_clock),
      bounds(the_bounds),
      request_bounds(the_request_bounds),
      streams(the_streams),
      requests((api.routes().size() + 1) * kClasses) {}

void HttpDesk::answer_later(std::uint64_t connection, Answer late) {
  loop.post([this, connection, late = std::move(late)] {
    const auto found = waiting.find(connection);
    if (found != waiting.end()) {
      found->second->on_answer(late);
    } else if (late.discard) {
      // A client that has left has no use for what it was given.
      late.discard(clock.now());
    }
  });
}

HttpConnection::HttpConnection(HttpDesk& desk, Socket socket, std::uint64_t id,
                               std::function<void()> on_close)
    : SocketConnection(desk.loop, desk.traffic, std::move(socket), desk.bounds, desk.clock,
                       std::move(on_close)),
      desk_(desk),
      reader_(desk.request_bounds),
      id_(id),
      over_unix_(is_unix()) {}

void HttpConnection::on_input(std::string_view bytes, Instant now) {
  if (is_stream_ || is_closing_) return wait_readable();  // it is not read
  if (is_waiting_ || !unsent_.empty()) {
    // Later requests wait their turn; this far we look for the client going away.
    needs_more_ = false;
    unread_.append(bytes);
    if (is_waiting_) read_behind(now);
    return;
  }
  if (unread_.empty()) {
    if (!reader_.is_midway()) begin(now);
    return run(bytes, now);
  }
  unread_.append(bytes);
  if (unread_.size() < needed_) return wait_readable();
  go_on(now);
}

// Behind a request that waits: so far that the client going away is seen.
void HttpConnection::read_behind(Instant now) {
  if (unread_.size() < Loop::kInputBytes) return wait_readable();
  stop_reading(now);
}

// Whether so much may arrive of a request that is not whole: more than a little needs a token.
bool HttpConnection::may_send(const RequestReader::Step& step) {
  taken_ += step.taken;
  return std::max(step.needed, taken_) <= kStrangerBytesMax ||
         desk_.tokens.role_of(step.token) != Role::kNobody;
}

// A client that presents what is no token is counted. If it is slowed, this is its last request
// here: what stands behind it is not read.
void HttpConnection::look_at_token(std::string_view token, Instant now) {
  if (!is_stranger_ || token.empty()) return;
  if (note_unknown_token(now) > Duration{0}) keep_alive_ = false;
}

std::size_t HttpConnection::output_bytes() const noexcept {
  return is_stranger_ ? std::min(kStrangerBytesMax, bounds_.output_bytes) : bounds_.output_bytes;
}

// Runs requests of which a part, or all, arrived earlier.
void HttpConnection::go_on(Instant now) {
  const std::string whole = std::move(unread_);
  unread_.clear();
  run(whole, now);
}

// Answers the whole requests in `bytes` and keeps the rest.
void HttpConnection::run(std::string_view bytes, Instant now) {
  needs_more_ = false;
  needed_ = 0;
  wire::http::HttpRequest request;
  while (!bytes.empty() && !is_busy() && loop_.output.size() < output_bytes()) {
    const RequestReader::Step step = reader_.read(bytes, request);
    if (step.state == RequestReader::State::kBad) {
      fail(step.problem, step.detail, now);
      break;
    }
    bytes.remove_prefix(step.taken);
    if (step.state == RequestReader::State::kWhole) {
      taken_ = 0;
      begin(now);
      active_at_ = now;
      answer(request, bytes.empty(), now);
      reader_.release();
      continue;
    }
    if (!may_send(step)) {
      is_stranger_ = true;
      look_at_token(step.token, now);
      fail(Problem::kUnauthenticated,
           "request: without a token it may have at most 16384 bytes; send 'Authorization: Bearer "
           "TOKEN' with one of the configuration's 'auth'",
           now);
      break;
    }
    if (step.wants_continue) loop_.output += wire::http::kContinue;
    needed_ = step.needed;
    needs_more_ = step.taken == 0;
    if (needs_more_) break;
  }
  if (!is_closing_) unread_.assign(bytes);
  if (unread_.empty()) clear(unread_);
  send(now);
}

void HttpConnection::answer(const wire::http::HttpRequest& request, bool is_last, Instant now) {
  is_http_10_ = request.is_http_10;
  keep_alive_ = request.keep_alive;
  is_head_ = request.method == "HEAD";
  token_epoch_ = desk_.tokens.epoch();  // before the role: a change in between is seen
  const engine::Standing standing = desk_.tokens.standing_of(request.token);
  const wire::http::Call call{.method = request.method,
                              .target = request.target,
                              .body = request.body,
                              .content_type = request.content_type,
                              .role = standing.role,
                              .reach = standing.reach.get(),
                              .token = request.token,
                              .if_none_match = request.if_none_match,
                              .fields = std::span(request.fields).first(request.field_count),
                              .visit = {.host = request.host,
                                        .origin = request.origin,
                                        .fetch_site = request.fetch_site,
                                        .over_unix = over_unix_}};
  is_stranger_ = call.role == Role::kNobody;
  look_at_token(request.token, now);
  Answer& answer = desk_.answer;
  // Two words, so that the function keeps them without allocating.
  const bool answered = desk_.api.handle(call, now, answer, [desk = &desk_, id = id_](Answer late) {
    desk->answer_later(id, std::move(late));
  });
  if (!answered) {
    is_waiting_ = true;
    give_up_ = std::move(answer.give_up);
    keep_token(request.token, standing, answer.route);
    desk_.waiting.emplace(id_, this);
    // One that comes while the server stops has nothing to wait for.
    if (is_draining_ && give_up()) respond(stopping(), is_last, now);
    return;
  }
  if (answer.is_stream && !desk_.streams.open()) refuse_stream(answer);
  respond(answer, is_last, now);
  if (answer.is_stream) {
    is_stream_ = true;
    keep_token(request.token, standing, answer.route);
    add_event(now);
  }
}

// `is_last`: nothing more has arrived.
void HttpConnection::respond(const Answer& answer, bool is_last, Instant now) {
  desk_.count(answer);
  record_ = std::max(record_, answer.record);
  const bool stays = keep_alive_ && !answer.is_stream && !(is_draining_ && is_last);
  append_response(loop_.output, answer, desk_.date.at(now),
                  !stays        ? Afterwards::kClose
                  : is_http_10_ ? Afterwards::kKeepAlive
                                : Afterwards::kKeep,
                  !is_head_);
  if (!stays && !answer.is_stream) is_closing_ = true;
}

// Answers a request that cannot be read. Where the next one begins is not known.
void HttpConnection::fail(Problem problem, std::string_view detail, Instant now) {
  Answer answer{.status = wire::http::status_of(problem),
                .content_type = wire::http::kProblemType,
                .route = desk_.api.routes().size()};
  append_problem(answer.body, problem, detail);
  if (problem == Problem::kUnauthenticated) {
    answer.headers = kAskForToken;
  }
  keep_alive_ = false;
  is_head_ = false;
  respond(answer, true, now);
  clear(unread_);
}

void HttpConnection::on_sent(Instant now) {
  if (is_closing_ && is_draining_) return close();
  if (is_closing_) {
    // What the client is still sending is read and dropped: closing now would reset the
    // connection, and the answer with it.
    if (!std::exchange(is_lingering_, true)) {
      begun_at_ = now;
      shut_sending();
    }
    return wait_readable();
  }
  if (is_waiting_) return read_behind(now);
  if (is_stream_) return wait_readable();
  if (!unread_.empty() && !needs_more_) return go_on(now);
  if (is_draining_) return close();
  wait_readable();
}

void HttpConnection::on_answer(const Answer& answer) {
  const auto self = shared_from_this();
  const Instant now = clock_.now();
  end_wait();
  active_at_ = now;
  begin(now);
  respond(answer, unread_.empty(), now);
  send(now);
}

void HttpConnection::end_wait() {
  desk_.waiting.erase(id_);
  is_waiting_ = false;
  give_up_ = nullptr;
}

// True: the wait has ended, and no answer comes. False: the answer is on its way.
bool HttpConnection::give_up() {
  if (!give_up_ || !give_up_(clock_.now())) return false;
  end_wait();
  return true;
}

Answer HttpConnection::stopping() const {
  Answer answer{.status = wire::http::status_of(Problem::kUnavailable),
                .content_type = wire::http::kProblemType,
                .route = waiting_route_};
  append_problem(answer.body, Problem::kUnavailable,
                 "the server is stopping; ask again, here or elsewhere");
  return answer;
}

Answer HttpConnection::without_role() const {
  if (desk_.tokens.role_of(token_) >= desk_.api.routes()[waiting_route_]->role) {
    Answer answer{.status = wire::http::status_of(Problem::kForbidden),
                  .content_type = wire::http::kProblemType,
                  .route = waiting_route_};
    append_problem(answer.body, Problem::kForbidden,
                   "the bounds of the token that this request came with have changed while it "
                   "waited; ask again, if they cover it");
    return answer;
  }
  Answer answer{.status = wire::http::status_of(Problem::kUnauthenticated),
                .content_type = wire::http::kProblemType,
                .route = waiting_route_};
  answer.headers = kAskForToken;
  append_problem(answer.body, Problem::kUnauthenticated,
                 "the token that this request came with has lost its role while it waited; send "
                 "'Authorization: Bearer TOKEN' with one that has it");
  return answer;
}

void HttpConnection::keep_token(std::string_view token, const engine::Standing& standing,
                                std::size_t route) {
  reach_ = standing.reach;
  waiting_route_ = route;
  token_ = token;
}

// Whether the tokens have changed, and that of what goes on here does not allow it any more. A
// token with other bounds is another one: what it asked for is not checked again.
bool HttpConnection::has_lost_role() {
  const std::uint64_t epoch = desk_.tokens.epoch();
  if (std::exchange(token_epoch_, epoch) == epoch) return false;
  const engine::Standing now = desk_.tokens.standing_of(token_);
  return now.role < desk_.api.routes()[waiting_route_]->role || !is_same(now.reach, reach_);
}

void HttpConnection::add_event(Instant now) {
  next_event_at_ = now + kEventEvery;
  if (desk_.event.empty() || now - desk_.event_at >= kEventEvery) {
    desk_.event = desk_.api.event(now);
    desk_.event_at = now;
  }
  loop_.output += "id: ";
  wire::http::append_unsigned(loop_.output, ++events_);
  loop_.output += '\n';
  loop_.output += desk_.event;
}

void HttpConnection::send_event(Instant now) {
  // A client that has not read the last one gets the next it has time for.
  if (now < next_event_at_ || !unsent_.empty()) return;
  add_event(now);
  send(now);
}

void HttpConnection::check_time(Instant now) {
  if (is_slowed(now)) return;
  const bool is_partial = (!unread_.empty() || reader_.is_midway()) && !is_busy();
  if ((is_partial || is_lingering_ || !unsent_.empty()) && is_slow(now)) {
    if (!is_partial || !unsent_.empty()) return close();
    fail(Problem::kTimeout, "request: it did not arrive whole in time; send it at once", now);
    return send(now);
  }
  if (is_stream_) return has_lost_role() ? close() : send_event(now);
  if (is_waiting_) {
    if (is_lost(now)) return close();
    if (has_lost_role() && give_up()) on_answer(without_role());
  } else if (!is_partial && now - active_at_ > bounds_.idle) {
    close();
  }
}

void HttpConnection::on_end(Instant now) {
  if (is_waiting_ || is_stream_) return close();
  if (!unsent_.empty()) return;  // the end is found again when that has been sent
  if (is_closing_ || (unread_.empty() && !reader_.is_midway())) return close();
  fail(Problem::kBadArgument, "request: it ends before it is whole; send all of it", now);
  send(now);
}

void HttpConnection::drain() {
  is_draining_ = true;
  if (is_waiting_) {
    if (give_up()) on_answer(stopping());
    return;
  }
  if (unsent_.empty()) close();
}

void HttpConnection::on_closed() {
  if (is_stream_) desk_.streams.close();
  if (!is_waiting_) return;
  desk_.waiting.erase(id_);
  if (give_up_) give_up_(clock_.now());
}

}  // namespace weir::server
