// Alarm thread: calls something at the instants that it names.
//
//   AlarmThread thread(clock, [&](Instant now) {
//     engine.advance(now);
//     return engine.next_instant();
//   });
//   engine.set_wakeup([&](Instant) { thread.wake(); });
//   Status started = thread.start();
//
// It is called when it starts, then when the instant it answered has come, when it is woken, and at
// least once a second: a clock that jumps delays nothing for longer.
//
// Thread safety: start() once, before the destructor begins, which waits for a call that is
// running; wake() from any thread, until then.

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/base/time.h"

namespace weir {

class AlarmThread {
 public:
  // Told the time, answers when it wants to be called again.
  using Called = std::function<Instant(Instant now)>;

  AlarmThread(Clock& clock, Called called) noexcept;
  ~AlarmThread();
  AlarmThread(const AlarmThread&) = delete;
  AlarmThread& operator=(const AlarmThread&) = delete;

  // An error if the system has no thread to give.
  Status start() noexcept;

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
  std::thread thread_;
};

}  // namespace weir
