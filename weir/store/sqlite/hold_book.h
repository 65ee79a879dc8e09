// Book of holds: many blobs, oldest first, made into what they amount to.
//
// Later records replace earlier ones, charges of another era are dropped, and so are
// holds that have expired. What is left is written down as of `now`, by the current
// process.
//
// Thread safety: one thread.

#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "weir/base/time.h"
#include "weir/engine/state.h"
#include "weir/store/sqlite/eras.h"
#include "weir/store/sqlite/packing.h"

namespace weir::store::sqlite {

class HoldBook {
 public:
  HoldBook(std::uint64_t process, const Eras& eras, Instant now)
      : process_(process), eras_(eras), now_(now) {}

  // Takes in one blob. They come in the order in which they were written.
  void apply(const PackedHolds& packed);
  // Forgets holds whose time has come at `now`. After the last blob: a renewal may be in any.
  void drop_expired();
  // All of them, in parts of at most `most`.
  void for_each_part(std::size_t most,
                     const std::function<void(const engine::HoldChanges&)>& visitor) const;

 private:
  struct Held {
    Instant expires{};
    boost::container::small_vector<engine::ChargeRecord, 2> charges;
  };

  std::uint64_t process_;
  const Eras& eras_;
  Instant now_;
  engine::HoldChanges names_;  // only its names
  std::uint64_t next_number_ = 1;
  boost::unordered_flat_map<std::uint64_t, Held> holds_;
};

}  // namespace weir::store::sqlite
