#include "weir/engine/driver.h"

#include <algorithm>
#include <optional>

namespace weir::engine {
namespace {

// The table is swept a little at least this often.
constexpr Duration kIdleInterval = std::chrono::seconds{1};

}  // namespace

Driver::Driver(Engine& engine, Clock& clock) : engine_(engine), clock_(clock) {
  engine_.set_wakeup([this](Instant) {
    const std::scoped_lock lock(lock_);
    earlier_ = true;
    woken_.notify_one();
  });
  thread_ = std::thread([this] { run(); });
}

Driver::~Driver() {
  engine_.set_wakeup(nullptr);
  {
    const std::scoped_lock lock(lock_);
    stopping_ = true;
  }
  woken_.notify_one();
  thread_.join();
}

void Driver::run() {
  std::unique_lock lock(lock_);
  while (!stopping_) {
    lock.unlock();
    const Instant now = clock_.now();
    engine_.advance(now);
    const Instant next = engine_.next_instant();
    lock.lock();
    const Duration nap = std::min(later_of(next, now) - now, kIdleInterval);
    woken_.wait_for(lock, nap, [this] { return earlier_ || stopping_; });
    earlier_ = false;
  }
}

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
