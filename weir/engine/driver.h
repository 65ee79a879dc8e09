// Driver: a clock and a thread for an engine that an application embeds.
//
// The engine wants to be called at certain instants; a driver does that, so that
// waiting works without a server. It offers the two usual ways to wait: block
// until the answer, or be called back.
//
//   auto driver = Driver::create(*engine, clock);
//   Result<Decision> decision = (*driver)->acquire(request, 5s);
//
// Thread safety: every function may be called from any thread. Callbacks run on
// the driver's thread or on one that frees capacity. No thread may be inside a
// call when the driver is destroyed; the engine must outlive it, and has one at a time.

#pragma once

#include <cstdint>
#include <memory>

#include "weir/base/clock.h"
#include "weir/base/export.h"
#include "weir/engine/engine.h"

namespace weir {
class AlarmThread;  // weir/base/alarm_thread.h
}

namespace weir::engine {

class WEIR_EXPORT Driver {
 public:
  // An error if the system has no thread or memory to give.
  static Result<std::unique_ptr<Driver>> create(Engine& engine, Clock& clock) noexcept;
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Waits up to `patience` for an admission, and keeps a hold for `hold` if that is more than 0.
  // kDenied: no admission came in time. Where none could have come, that is said at once.
  Result<Decision> acquire(const Request& request, Duration patience, Duration hold = {}) noexcept;

  // Waits without blocking the caller: `answered` is called once, perhaps before this returns. The
  // ticket is for give_up(); 0: it has been answered.
  std::uint64_t acquire(const Request& request, Duration patience, Duration hold,
                        LateAnswer answered) noexcept;
  bool give_up(std::uint64_t ticket) noexcept { return engine_.give_up(ticket, clock_.now()); }

 private:
  Driver(Engine& engine, Clock& clock) noexcept;

  Engine& engine_;
  Clock& clock_;
  std::unique_ptr<AlarmThread> thread_;
};

}  // namespace weir::engine
