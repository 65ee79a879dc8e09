// Journal: where grants are written before their answers leave.
//
// Sampling hands every change to its journal while it holds its lock, so that the journal
// has them in the order in which they were made. A record only queues there; its ticket
// tells when it is safe. The ticket travels in the answer (Grant::record, Decision::record), and
// the connection waits for it before it sends.
//
// Thread safety: a journal's functions may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

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

}  // namespace weir::system::sampling
