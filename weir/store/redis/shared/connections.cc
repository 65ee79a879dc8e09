// Invariants:
// 1. Seats are taken from the first on and never left, so a thread that finds an empty one has
//    looked at all that are taken. A thread that ended may leave its seat to one with the same id.
// 2. The desk of a seat is set, read and cleared on the thread of that seat alone: a desk lives as
//    long as its loop's thread may see it.
// 3. A thread asks over one connection for as long as it has the same desk, or none.

#include "weir/store/redis/shared/connections.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "weir/base/assert.h"
#include "weir/base/timed_wait.h"
#include "weir/store/redis/shared/errors.h"

namespace weir::store::redis {

Connections::Connections(Loop& loop, ClientOptions options, unsigned count, ClientMaker make)
    : loop_(loop),
      options_(std::move(options)),
      make_(std::move(make)),
      count_(std::clamp(count, 1U, kConnectionsMax)) {}

void Connections::open(std::function<void()> on_up, std::function<void(const Failure&)> on_down) {
  ClientOptions first = options_;
  const auto say = [this](Status status) {
    const std::scoped_lock lock(lock_);
    if (!first_word_) first_word_.emplace(std::move(status));
    said_.notify_all();
  };
  first.on_up = [say, on_up = std::move(on_up)] {
    say(Done{});
    if (on_up) on_up();
  };
  first.on_down = [say, on_down = std::move(on_down)](const Failure& failure) {
    if (on_down) on_down(failure);
    say(failure.kind == FailureKind::kTopology ? Status(named(failure)) : Status(Done{}));
  };
  clients_.reserve(count_);
  clients_.push_back(make_(loop_, std::move(first)));
  while (clients_.size() < count_) clients_.push_back(make_(loop_, options_));
}

Status Connections::first_word(Clock& clock, Instant deadline) {
  std::unique_lock lock(lock_);
  wait_by(said_, lock, clock, deadline, [this] { return first_word_.has_value(); });
  return first_word_.value_or(Done{});
}

void Connections::close() {
  WEIR_ASSERT(desks_.empty());
  // All of them are closed before the first goes: what one answers may ask over another.
  for (const auto& client : clients_) client->close();
  clients_.clear();
}

std::size_t Connections::seat() noexcept {
  const std::thread::id me = std::this_thread::get_id();
  for (std::size_t i = 0; i < kSeatsMax; ++i) {
    std::thread::id taken = seats_[i].thread.load(std::memory_order_relaxed);
    if (taken == me) return i;
    if (taken != std::thread::id{}) continue;
    if (seats_[i].thread.compare_exchange_strong(taken, me, std::memory_order_relaxed)) return i;
  }
  return kSeatsMax;
}

Desk* Connections::here() noexcept {
  const std::size_t mine = seat();
  return mine == kSeatsMax ? nullptr : seats_[mine].desk.load(std::memory_order_relaxed);
}

Client& Connections::client() noexcept {
  const std::size_t mine = seat();
  if (mine == kSeatsMax) {
    return *clients_[std::hash<std::thread::id>{}(std::this_thread::get_id()) % clients_.size()];
  }
  const Desk* const desk = seats_[mine].desk.load(std::memory_order_relaxed);
  return desk != nullptr ? *desk->client : *clients_[mine % clients_.size()];
}

void Connections::attach(Loop& loop) {
  loop.run([&] {
    const std::size_t mine = seat();
    if (mine == kSeatsMax) return;  // it shares the others
    WEIR_ASSERT(seats_[mine].desk.load(std::memory_order_relaxed) == nullptr);
    auto desk = std::make_unique<Desk>(Desk{loop, make_(loop, options_)});
    seats_[mine].desk.store(desk.get(), std::memory_order_relaxed);
    const std::scoped_lock lock(lock_);
    desks_.emplace(&loop, std::move(desk));
  });
}

void Connections::detach(Loop& loop, const std::function<void(Desk&)>& last) {
  loop.run([&] {
    const std::size_t mine = seat();
    Desk* const desk = here();
    if (desk == nullptr) return;
    WEIR_ASSERT(&desk->loop == &loop);
    last(*desk);
    seats_[mine].desk.store(nullptr, std::memory_order_relaxed);
    std::unique_ptr<Desk> ended;
    {
      const std::scoped_lock lock(lock_);
      ended = std::move(desks_.at(&loop));
      desks_.erase(&loop);
    }
  });
}

}  // namespace weir::store::redis
