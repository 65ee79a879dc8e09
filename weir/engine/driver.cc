#include "weir/engine/driver.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

namespace weir::engine {

Result<std::unique_ptr<Driver>> Driver::create(Engine& engine, Clock& clock) noexcept {
  std::unique_ptr<Driver> driver(new (std::nothrow) Driver(engine, clock));
  if (driver == nullptr) {
    return Error{ErrorCode::kExhausted, "driver: no memory for it; allow the process more"};
  }
  if (Status started = driver->thread_.start(); !started) return std::move(started).error();
  return driver;
}

Driver::Driver(Engine& engine, Clock& clock) noexcept
    : engine_(engine), clock_(clock), thread_(clock, [&engine](Instant now) {
        engine.advance(now);
        return engine.next_instant();
      }) {
  engine_.set_wakeup([this](Instant) { thread_.wake(); });
}

Driver::~Driver() { engine_.set_wakeup(nullptr); }

Result<Decision> Driver::acquire(const Request& request, Duration patience,
                                 Duration hold) noexcept {
  std::mutex answer_lock;
  std::condition_variable answered;
  std::optional<Result<Decision>> answer;
  Result<WaitStart> start = acquire(request, patience, hold, [&](const Result<Decision>& decision) {
    const std::scoped_lock lock(answer_lock);
    answer = decision;
    answered.notify_one();
  });
  if (!start) return std::move(start).error();
  if (start->ticket == 0) return start->decision;
  std::unique_lock lock(answer_lock);
  answered.wait(lock, [&] { return answer.has_value(); });
  return *std::move(answer);
}

Result<WaitStart> Driver::acquire(const Request& request, Duration patience, Duration hold,
                                  WaitCallback callback) noexcept {
  const Instant now = clock_.now();
  return engine_.wait(request, {.deadline = now + patience, .hold = hold}, now,
                      std::move(callback));
}

}  // namespace weir::engine
