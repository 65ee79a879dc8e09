// Compaction: the base written anew, a few ranges at a time, so that changes can go.
//
// Each flush adds blobs to `changes`. When they outweigh the base, a round begins: the
// next flushes write some ranges whole, straight from the engine, instead of what
// changed there. A range has a place among the changes and replaces those before it;
// once every range has been written, they are deleted. Nothing is read back but holds,
// which are merged at the end of the round.
//
//   flush    turn(keys)        which ranges to write whole
//            written(turn)     and that they were, once committed
//   after    end_round(...)    when all have been
//
// A crash on the way costs nothing but the work: the next process begins a round anew.
//
// Thread safety: the caller's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/eras.h"
#include "weir/store/sqlite/packing.h"

namespace weir::store::sqlite {

// In `changes`.
constexpr std::int64_t kMeterChanges = 0;
constexpr std::int64_t kHoldChanges = 1;

// The turn of a flush: ranges from `first` to before `end`.
struct Turn {
  std::size_t first = kRanges;
  std::size_t end = kRanges;
  std::int64_t through = 0;  // the last change that the round replaces
};

class Compaction {
 public:
  // `last_place`: of the base.
  Compaction(std::string file, std::uint64_t process, std::int64_t last_place)
      : file_(std::move(file)), process_(process), last_place_(last_place) {}

  // Weighs what is there.
  Status begin(Database& database);
  void added(std::uint64_t bytes) noexcept { changes_bytes_ += bytes; }

  // Places of ranges and changes only grow, also when none is left.
  std::int64_t next_place() noexcept { return ++last_place_; }

  // The ranges that a flush has to write whole, of an engine with so many keys.
  Turn turn(std::size_t keys) const noexcept;
  // Every range, due or not.
  Turn turn_of_all() const noexcept { return {0, kRanges, last_place_}; }
  void written(const Turn& turn) noexcept;

  // Ends the round if every range has been written. True: it did.
  Result<bool> end_round(Database& database, const Eras& eras, Instant now);

  std::uint64_t base_bytes() const noexcept { return base_bytes_; }
  std::uint64_t changes_bytes() const noexcept { return changes_bytes_; }

 private:
  Status merge_holds(Database& database, const Eras& eras, Instant now) const;
  Error damaged(std::string_view table, std::int64_t place, const Error& found) const;

  std::string file_;
  std::uint64_t process_;
  std::uint64_t base_bytes_ = 0;
  std::uint64_t changes_bytes_ = 0;
  std::int64_t last_place_;
  std::int64_t through_ = 0;    // of the round under way
  std::size_t next_range_ = 0;  // 0: no round is under way
};

}  // namespace weir::store::sqlite
