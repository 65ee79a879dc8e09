// Journal: where grants are written before anybody is told of them.
//
// Sampling hands every change to its journal while it holds its lock, so that the journal
// has them in the order in which they were made. A record only queues there; its ticket
// tells when it is safe. Whoever answers a caller waits for the ticket first.
//
// A decision is often made far below the function that sends its answer. So the thread that
// decided remembers what its answers have to wait for: take_pending() before sending.
//
// Thread safety: a journal's functions may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"

namespace weir::system::sampling {

// Units given at an instant, or given back. Records add up: to replay them in order is to
// be where one was.
struct Record {
  engine::Print key{};
  engine::Print parent{};  // zeros: none
  Instant at{};            // under which the units are remembered
  Instant parent_at{};
  std::int64_t units = 0;         // negative: given back; 0: only the reservation ended
  std::uint64_t reservation = 0;  // that begins with a grant and ends with what is not one

  bool has_parent() const noexcept { return parent != engine::Print{}; }
  friend bool operator==(const Record&, const Record&) = default;
};

using Ticket = std::uint64_t;  // counts up from 1; 0: nothing to wait for

class Journal {
 public:
  virtual ~Journal() = default;

  // Nothing, or why records cannot be written at present: no grant is made then.
  virtual Status ready() const = 0;

  // Queues a record.
  virtual Ticket append(const Record& record) = 0;

  // Calls back once the record is safe, or has failed to become so; at once, on this
  // thread, if that is known already. The callback must not wait.
  virtual void when_written(Ticket ticket, std::function<void(const Status&)> told) = 0;
};

// What an answer has to wait for.
struct Pending {
  Journal* journal = nullptr;  // nullptr: nothing
  Ticket ticket = 0;
};

namespace internal {
inline Pending& pending() noexcept {
  static thread_local Pending pending;
  return pending;
}
}  // namespace internal

// For the answers of this thread: the last of its records.
inline void keep_pending(Pending pending) noexcept {
  if (pending.journal != nullptr) internal::pending() = pending;
}
inline Pending pending() noexcept { return internal::pending(); }
// The same, once.
inline Pending take_pending() noexcept { return std::exchange(internal::pending(), Pending{}); }

}  // namespace weir::system::sampling
