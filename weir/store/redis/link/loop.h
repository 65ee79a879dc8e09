// Loop: the thread on which connections to Redis are served.
//
// Its own, or that of an event loop which is there already: what is asked on such a thread is
// sent and answered there, without a hand-over.
//
// Callbacks of clients, subscribers and timers of one loop run on its thread, one at a
// time, and must not block. The sockets are Asio's, which stays out of this header.
//
// A loop outlives the clients, subscribers and timers made on it.
//
// Thread safety: post() from any thread; timers on the loop's thread only.

#pragma once

#include <functional>
#include <memory>

#include "weir/base/time.h"

namespace boost::asio {
class io_context;
}

namespace weir::store::redis {

class Loop {
 public:
  Loop();
  // On the one thread that runs `context`, which outlives the loop.
  explicit Loop(boost::asio::io_context& context);
  // Ends its own thread; what has not run yet never runs. Not on that thread.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(std::function<void()> work);
  // Runs `work` on the loop's thread and waits for it; at once if called there.
  void run(const std::function<void()>& work);
  bool is_here() const;  // whether this is the loop's thread

  struct Impl;
  Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// One deadline at a time. Used, and destroyed, on the loop's thread.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();  // what has not run yet never runs

  // Runs `work` after `span`, instead of what was to run before.
  void start(Duration span, std::function<void()> work);
  void stop();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weir::store::redis
