#include "weir/engine/driver.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "weir/base/alarm_thread.h"

namespace weir::engine {

Result<std::unique_ptr<Driver>> Driver::create(Engine& engine, Clock& clock) noexcept {
  std::unique_ptr<Driver> driver(new (std::nothrow) Driver(engine, clock));
  if (driver == nullptr || driver->thread_ == nullptr) {
    return Error{ErrorCode::kExhausted, "driver: no memory for it; allow the process more"};
  }
  if (Status started = driver->thread_->start(); !started) return std::move(started).error();
  return driver;
}

Driver::Driver(Engine& engine, Clock& clock) noexcept
    : engine_(engine),
      clock_(clock),
      thread_(new (std::nothrow) AlarmThread(clock, [&engine](Instant now) {
        engine.advance(now);
        return engine.next_instant();
      })) {
  if (thread_ != nullptr) engine_.set_wakeup([this](Instant) { thread_->wake(); });
}

Driver::~Driver() { engine_.set_wakeup(nullptr); }

Result<Decision> Driver::acquire(const Request& request, Duration patience,
                                 Duration hold) noexcept {
  std::mutex answer_lock;
  std::condition_variable answered;
  std::optional<Result<Decision>> answer;
  acquire(request, patience, hold, [&](const Result<Decision>& decision) {
    const std::scoped_lock lock(answer_lock);
    answer = decision;
    answered.notify_one();
  });
  std::unique_lock lock(answer_lock);
  answered.wait(lock, [&] { return answer.has_value(); });
  return *std::move(answer);
}

std::uint64_t Driver::acquire(const Request& request, Duration patience, Duration hold,
                              LateAnswer answered) noexcept {
  struct One final : Answers {
    explicit One(LateAnswer& to) : answered(to) {}
    void now(std::size_t, const Result<Decision>& answer) override { answered(answer); }
    LateAnswer later(std::size_t, std::uint64_t number) override {
      ticket = number;
      return std::move(answered);
    }

    LateAnswer& answered;
    std::uint64_t ticket = 0;
  };
  One one(answered);
  const Instant now = clock_.now();
  const Ask ask{.request = request, .hold = hold, .wait_until = now + patience};
  engine_.ask({&ask, 1}, now, one);
  return one.ticket;
}

}  // namespace weir::engine
