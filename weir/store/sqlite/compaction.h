// Compaction: changes merged into the base, a few ranges at a time.
//
// Each flush adds blobs to `changes`. When they outweigh the base, they are merged into
// it: range by range, each step one transaction that rewrites the base of its ranges,
// and at last one that deletes the changes. Merging a change twice gives the same base,
// so a crash on the way costs nothing but the work. Memory: what a step's ranges hold.
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

namespace weir::store::sqlite {

// In `changes`.
constexpr std::int64_t kMeterChanges = 0;
constexpr std::int64_t kHoldChanges = 1;

class Compaction {
 public:
  Compaction(std::string file, std::uint64_t process) : file_(std::move(file)), process_(process) {}

  // Weighs what is there.
  Status begin(Database& database);
  void added(std::uint64_t bytes) noexcept { changes_bytes_ += bytes; }

  bool is_under_way() const noexcept { return next_range_ > 0; }
  bool is_due() const noexcept;

  // One step. True: that was the last one.
  Result<bool> step(Database& database, const Eras& eras, Instant now);

  std::uint64_t base_bytes() const noexcept { return base_bytes_; }
  std::uint64_t changes_bytes() const noexcept { return changes_bytes_; }

 private:
  Status merge_ranges(Database& database, const Eras& eras, Instant now);
  Status merge_holds(Database& database, const Eras& eras, Instant now);
  Error damaged(std::string_view table, std::int64_t place, const Error& found) const;

  std::string file_;
  std::uint64_t process_;
  std::uint64_t base_bytes_ = 0;
  std::uint64_t changes_bytes_ = 0;
  std::int64_t through_ = 0;    // the last change that is merged
  std::size_t next_range_ = 0;  // 0: none is under way
  std::size_t ranges_a_step_ = 0;
};

}  // namespace weir::store::sqlite
