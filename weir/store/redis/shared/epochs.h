// Epochs: which data Redis has, and since when, as this server has seen it.
//
// The data of a fleet has an epoch, `id:T`, under a key of its own. T is when data was lost, in
// microseconds of the time of Redis; 0: it never was. If the key is gone, or says another id, the
// data was lost, and a missing meter counts as fully used instead of unused:
//
//   const EpochRef known = epochs.known();
//   ... ask, naming known->seen, and known->fresh in case there is none ...
//   epochs.learn(what the script says);        // empty: `seen` is still right
//
// Thread safety: every function may be called from any thread. known() takes a lock for as long as
// it takes to copy a pointer; Redis runs far fewer scripts a second than that allows.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace weir::store::redis {

struct Epoch {
  std::string seen;              // empty: none yet
  std::string fresh;             // the id of a new one, should it be gone
  std::int64_t lost_at_us = -1;  // when data was lost; 0: never, -1: not known
};
using EpochRef = std::shared_ptr<const Epoch>;

class Epochs {
 public:
  Epochs();

  EpochRef known() const;
  // What a script has found; empty: what it was told is right.
  void learn(std::string_view epoch);
  // The time of Redis, from an answer to a question that named `known`.
  void hear_time(std::int64_t now_us, const EpochRef& known);
  // For how long, as far as Redis has told, nothing has been lost; nothing: that is not known.
  std::optional<std::int64_t> us_since_loss(const EpochRef& known) const;
  // How often data was lost while this server looked on.
  std::uint64_t losses() const noexcept { return losses_.load(std::memory_order_relaxed); }

 private:
  mutable std::mutex lock_;
  EpochRef known_;                // guarded by lock_
  std::int64_t heard_at_us_ = 0;  // guarded by lock_; the time of Redis under this epoch; 0: never
  std::atomic<std::uint64_t> losses_{0};
};

}  // namespace weir::store::redis
