// Alarm thread: calls something at the instants that it names.
//
//   AlarmThread thread(clock, [&](Instant now) {
//     engine.advance(now);
//     return engine.next_instant();
//   });
//   engine.set_wakeup([&](Instant) { thread.wake(); });
//
// It is called at once, then when the instant it answered has come, when it is woken, and at
// least once a second: a clock that jumps delays nothing for longer.
//
// Thread safety: wake() may be called from any thread until the destructor begins, which waits
// for a call that is running.

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "weir/base/clock.h"
#include "weir/base/time.h"

namespace weir {

class AlarmThread {
 public:
  // Told the time, answers when it wants to be called again.
  using Called = std::function<Instant(Instant now)>;

  AlarmThread(Clock& clock, Called called);
  ~AlarmThread();
  AlarmThread(const AlarmThread&) = delete;
  AlarmThread& operator=(const AlarmThread&) = delete;

  // It wants to be called earlier than it said.
  void wake();

 private:
  void run();

  Clock& clock_;
  Called called_;
  std::mutex lock_;
  std::condition_variable woken_;
  bool is_woken_ = false;
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace weir
