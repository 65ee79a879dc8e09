// Pool releases: what one model's part has yet to settle in the books.
//
// Each has a number, in the order in which it is to be in the books. Redis remembers the number of
// the last that it has counted, so a connection that broke leaves no doubt: what is numbered up to
// that one is settled, the rest is sent again.
//
//   const std::uint64_t number = releases.add({.grant = grant, .used = used});
//   ... send it, with its number ...
//   answer(releases.take(number));               // the books have it
//   for (auto& each : releases.take_until(8)) ... // after a new registration: up to 8
//
// Thread safety: none; the owner is on one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/pool/coordinator.h"

namespace weir::store::redis {

constexpr std::size_t kReleasesKeptMax = 65536;  // of a model, while Redis cannot be asked

struct PoolRelease {
  system::pool::Grant grant{};
  system::pool::Amounts used{};
  system::pool::ReleaseCallback released{};  // empty once answered
  Instant deadline{};
  bool is_granted = true;  // false: it was used without a grant
  bool is_fenced = false;  // the registration it belongs to has ended
  bool is_sent = false;
};

class PoolReleases {
 public:
  bool is_full() const noexcept { return kept_.size() >= kReleasesKeptMax; }
  std::uint64_t last_number() const noexcept { return last_number_; }

  // Gives it a number. Requires that there is room.
  std::uint64_t add(PoolRelease release);
  // nullptr: it has been settled since.
  PoolRelease* find(std::uint64_t number) noexcept;
  // Requires that it is there.
  PoolRelease take(std::uint64_t number);
  std::vector<PoolRelease> take_until(std::uint64_t number);

  // It is certainly not in the books, and a later one may be: it gets a new number.
  void renumber(std::uint64_t number);
  // The registration that all of these belong to has ended; the books count anew, from the last
  // number there was.
  void fence();
  // What was sent before has been answered, or never will be.
  void forget_sent() noexcept;

  std::vector<std::uint64_t> unsent() const;
  // Those of releases that are not answered yet: they will not be answered again.
  std::vector<system::pool::ReleaseCallback> take_callbacks();
  // Slots that the books count for this registration.
  std::int64_t live_count() const noexcept;
  void clear() noexcept { kept_.clear(); }

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [number, release] : kept_) visit(release);
  }

 private:
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, PoolRelease> kept_;
};

}  // namespace weir::store::redis
