#include "weir/base/alarm_thread.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

namespace weir {
namespace {

constexpr Duration kIdleInterval = std::chrono::seconds{1};

}  // namespace

AlarmThread::AlarmThread(Clock& clock, Called called) noexcept
    : clock_(clock), called_(std::move(called)) {}

Status AlarmThread::start() noexcept {
  try {
    thread_ = std::thread([this] { run(); });
    return Done{};
  } catch (const std::system_error& failed) {
    return Error{ErrorCode::kExhausted, std::string("no thread could be started: ") +
                                            failed.what() + "; allow the process more threads"};
  }
}

AlarmThread::~AlarmThread() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(lock_);
    is_stopping_ = true;
  }
  woken_.notify_one();
  thread_.join();
}

void AlarmThread::wake() {
  const std::scoped_lock lock(lock_);
  is_woken_ = true;
  woken_.notify_one();
}

void AlarmThread::run() {
  std::unique_lock lock(lock_);
  while (!is_stopping_) {
    lock.unlock();
    const Instant now = clock_.now();
    const Instant next = called_(now);
    lock.lock();
    const Duration nap = std::min(later_of(next, now) - now, kIdleInterval);
    woken_.wait_for(lock, nap, [this] { return is_woken_ || is_stopping_; });
    is_woken_ = false;
  }
}

}  // namespace weir
