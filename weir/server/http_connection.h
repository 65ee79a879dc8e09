// HTTP connection: one client of HTTP/1.1.
//
// Answers in order, and all that was read at once in one write. A request that waits
// holds back the later ones of its own connection only; meanwhile the socket is
// watched, so that a client that leaves gives up its place. A stream of events is sent
// from check_time(), which the server calls several times a second.
//
// Thread safety: none. Everything happens on the thread of its loop.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weir/base/clock.h"
#include "weir/server/counter.h"
#include "weir/server/socket_connection.h"
#include "weir/server/tokens.h"
#include "weir/wire/http/api.h"
#include "weir/wire/http/request_reader.h"
#include "weir/wire/http/response.h"

namespace weir::server {

class HttpConnection;

// Streams of events that are open, over all loops. Any thread may ask.
class Streams {
 public:
  explicit Streams(std::size_t most) noexcept : most_(most) {}

  // True: there is one more. False: there are as many as there may be.
  bool open() noexcept {
    if (open_.fetch_add(1, std::memory_order_relaxed) < most_) return true;
    close();
    return false;
  }
  void close() noexcept { open_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> open_{0};
};

// What the HTTP connections of one loop share. Must outlive the engine's waiters.
class HttpDesk {
 public:
  HttpDesk(Loop& loop, wire::http::Api& api, const Tokens& tokens, Clock& clock,
           const ConnectionBounds& bounds, const wire::http::RequestBounds& request_bounds,
           Streams& streams);

  // The answer to a request that waited, from any thread.
  void answer_later(std::uint64_t connection, wire::http::Answer answer);

  // Status classes of each route, and of what had no route.
  static constexpr std::size_t kClasses = 6;
  void count(const wire::http::Answer& given) noexcept {
    requests[given.route * kClasses + given.status / 100].add();
  }

  Loop& loop;
  wire::http::Api& api;
  const Tokens& tokens;
  Clock& clock;
  const ConnectionBounds& bounds;
  const wire::http::RequestBounds& request_bounds;
  Streams& streams;
  Traffic traffic;
  std::vector<Counter> requests;  // by route, then status class
  // Lent to the connection that is being run.
  wire::http::Answer answer;
  wire::http::DateLine date;
  // What streams are told, built once for all that are due within a second.
  std::string event{};
  Instant event_at{};
  // Connections with a request that waits, by number.
  std::unordered_map<std::uint64_t, HttpConnection*> waiting;
};

class HttpConnection final : public SocketConnection {
 public:
  HttpConnection(HttpDesk& desk, Socket socket, std::uint64_t id, std::function<void()> on_close);

  void check_time(Instant now) override;
  void drain() override;
  void on_answer(const wire::http::Answer& answer);

 private:
  void on_input(std::string_view bytes, Instant now) override;
  void on_end(Instant now) override;
  void on_sent(Instant now) override;
  void on_closed() override;
  std::uint64_t take_record() override { return std::exchange(record_, 0); }
  std::size_t read_bytes() const noexcept override {
    return is_stranger_ ? kStrangerBytesMax : Loop::kInputBytes;
  }

  void run(std::string_view bytes, Instant now);
  void go_on(Instant now);
  void read_behind(Instant now);
  bool may_send(const wire::http::RequestReader::Step& step);
  void look_at_token(std::string_view token, Instant now);
  std::size_t output_bytes() const noexcept;
  void answer(const wire::http::HttpRequest& request, bool is_last, Instant now);
  void respond(const wire::http::Answer& answer, bool is_last, Instant now);
  void fail(wire::http::Problem problem, std::string_view detail, Instant now);
  void end_wait();
  bool give_up();
  void keep_token(std::string_view token, const engine::Standing& standing, std::size_t route);
  bool has_lost_role();
  wire::http::Answer stopping() const;
  wire::http::Answer without_role() const;
  void add_event(Instant now);
  void send_event(Instant now);
  bool is_busy() const noexcept { return is_waiting_ || is_stream_ || is_closing_; }

  HttpDesk& desk_;
  wire::http::RequestReader reader_;
  const std::uint64_t id_;
  const bool over_unix_;
  std::size_t needed_ = 0;                      // bytes of a request that is arriving; 0: unknown
  std::function<bool(Instant now)> give_up_;    // of the request that waits
  std::size_t waiting_route_ = 0;               // or that of the stream
  std::string token_;                           // of the request that waits, or of the stream
  std::shared_ptr<const engine::Reach> reach_;  // of that
  std::uint64_t token_epoch_ = 0;               // of the role of the last request
  std::uint64_t record_ = 0;                    // the last that an answer waits for
  std::uint64_t events_ = 0;
  Instant next_event_at_{};
  std::size_t taken_ = 0;    // bytes of a request that is arriving in chunks
  bool needs_more_ = false;  // what is unread is no whole request
  bool is_stranger_ = true;  // the last request came without a token that is known
  bool is_waiting_ = false;
  bool is_stream_ = false;
  bool is_closing_ = false;    // after what is being sent
  bool is_lingering_ = false;  // said so; waits for the client to close
  bool is_draining_ = false;
  // Of the request that is being answered.
  bool is_http_10_ = false;
  bool keep_alive_ = false;
  bool is_head_ = false;
};

}  // namespace weir::server
