#include "weir/store/sqlite/flusher.h"

#include <algorithm>

namespace weir::store::sqlite {

Flusher::Flusher(Store& store, engine::Engine& engine, Clock& clock, Duration interval)
    : store_(store), engine_(engine), clock_(clock), interval_(interval) {
  stats_.flushed_until = clock_.now();
  thread_ = std::thread([this] { run(); });
}

Flusher::~Flusher() { static_cast<void>(stop().ok()); }

void Flusher::run() {
  std::unique_lock lock(lock_);
  while (!stopping_) {
    lock.unlock();
    const Instant began = clock_.now();
    Status flushed = flush();
    if (flushed) {
      Status merged = store_.compact(clock_.now());
      const std::scoped_lock again(lock_);
      if (!merged) stats_.last_error = merged.error().message;
    }
    const Duration took = clock_.now() - began;
    lock.lock();
    woken_.wait_for(lock, std::max(interval_ - took, Duration{0}), [this] { return stopping_; });
  }
}

Status Flusher::flush() {
  const Instant began = clock_.now();
  Status flushed = store_.flush(engine_, began);
  const Instant ended = clock_.now();
  const std::scoped_lock lock(lock_);
  if (flushed) {
    stats_.last_error.clear();
    stats_.last_duration = ended - began;
    stats_.flushed_until = began;
    stats_.failed_in_row = 0;
  } else {
    stats_.last_error = flushed.error().message;
    stats_.failed_in_row += 1;
  }
  return flushed;
}

Status Flusher::stop() noexcept {
  {
    const std::scoped_lock lock(lock_);
    if (stopping_) return Done{};
    stopping_ = true;
  }
  woken_.notify_one();
  thread_.join();
  return flush();
}

FlusherStats Flusher::stats() const noexcept {
  const std::scoped_lock lock(lock_);
  return stats_;
}

}  // namespace weir::store::sqlite
