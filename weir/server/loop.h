// Loop: one event loop, on one thread, with what it lends to its connections.
//
// A connection is read, decided and answered on the thread of its loop, so nothing
// here is locked. An idle connection owns no buffer: it waits until it is readable
// and then reads into the loop's.
//
// Thread safety: post() and stop() from any thread, everything else on the loop's.

#pragma once

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/server/counter.h"
#include "weir/server/metrics.h"
#include "weir/wire/resp/session.h"

namespace weir::server {

// What a loop knows of a connection.
class Connection {
 public:
  virtual ~Connection() = default;

  // Closes it if it has been silent, or a request unfinished, for too long.
  virtual void check_time(Instant now) = 0;
  // Finishes what is in flight and closes.
  virtual void drain() = 0;
};

class Loop {
 public:
  static constexpr std::size_t kInputBytes = std::size_t{64} << 10;

  Loop() : work_(boost::asio::make_work_guard(context_)) {}

  boost::asio::io_context& context() noexcept { return context_; }
  template <typename Work>
  void post(Work&& work) {
    boost::asio::post(context_, std::forward<Work>(work));
  }

  void start() {
    thread_ = std::thread([this] { context_.run(); });
  }
  // Ends the thread. Whatever is still connected is dropped.
  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void add(std::shared_ptr<Connection> connection) { connections_.insert(std::move(connection)); }
  void remove(const std::shared_ptr<Connection>& connection) { connections_.erase(connection); }
  std::size_t size() const noexcept { return connections_.size(); }

  template <typename Visitor>
  void for_each(Visitor&& visitor) {
    // A visit may remove the connection visited, and no other: the step is taken before it.
    for (auto at = connections_.begin(); at != connections_.end();) {
      const std::shared_ptr<Connection> connection = *at++;
      visitor(*connection);
    }
  }

  // Calls back when a record is on disk, or has failed to get there. The server sets it before it
  // accepts connections.
  std::function<void(std::uint64_t record, std::function<void(const Status&)>)> when_written;

  // Told that a client of the Redis protocol spoke HTTP, and its address. Set as when_written.
  std::function<void(std::string from)> when_http;

  // Told that a client has presented a token that is not known, and its address. Returns how long
  // the answer waits. Set as when_written.
  std::function<Duration(std::string from)> when_unknown_token;

  // --- lent to the connection that is being run
  std::array<char, kInputBytes> input;
  std::string output;
  wire::resp::Scratch scratch;

  Traffic resp_traffic;
  Counter resp_commands;
  BatchTimes batch_times;

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace weir::server
