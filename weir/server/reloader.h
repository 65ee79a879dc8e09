// Reloader: the thread on which the configuration is read again when a client asks for it.
//
// Reading and compiling a large file, and what the systems do with it, takes seconds at worst. A
// loop that did it would answer none of its clients meanwhile.
//
//   Reloader reloader([&] { return server.reload(); });
//   reloader.start();
//   reloader.ask([](const Status& status) { ... });   // called on that thread
//
// One reload at a time. Those who ask before one has begun are all told of it, so that what waits
// is at most one more reload, whoever asks how often.
//
// Thread safety: ask() from any thread; start() and stop() from one.

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "weir/base/result.h"

namespace weir::server {

class Reloader {
 public:
  using Told = std::function<void(const Status&)>;

  explicit Reloader(std::function<Status()> reload) : reload_(std::move(reload)) {}
  ~Reloader() { stop(); }
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;

  void start() {
    is_running_ = true;
    thread_ = std::thread([this] { run(); });
  }

  // Before start() and after stop() it is told at once that nothing is reloaded.
  void ask(Told told) {
    {
      const std::scoped_lock lock(lock_);
      if (is_running_) {
        asked_.push_back(std::move(told));
        woken_.notify_one();
        return;
      }
    }
    told(Error{ErrorCode::kUnavailable, "the server is stopping; ask again, here or elsewhere"});
  }

  // Whoever has asked is told.
  void stop() {
    {
      const std::scoped_lock lock(lock_);
      is_running_ = false;
      woken_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(lock_);
    for (;;) {
      woken_.wait(lock, [this] { return !asked_.empty() || !is_running_; });
      if (asked_.empty()) return;
      const std::vector<Told> asked = std::exchange(asked_, {});
      lock.unlock();
      const Status status = reload_();
      for (const Told& told : asked) told(status);
      lock.lock();
    }
  }

  const std::function<Status()> reload_;
  std::mutex lock_;
  std::condition_variable woken_;
  std::vector<Told> asked_;  // at most one of each connection, which then waits
  bool is_running_ = false;
  std::thread thread_;
};

}  // namespace weir::server
