// Books: many blobs, oldest first, made into what they amount to.
//
// Later records replace earlier ones, those of another era are dropped, and so is
// what nobody would miss: meters back in their initial state, holds that have expired.
// What is left is written down as of `now`, by the current process.
//
// Thread safety: one thread.

#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "weir/base/result.h"
#include "weir/engine/state.h"
#include "weir/store/sqlite/eras.h"
#include "weir/store/sqlite/packing.h"

namespace weir::store::sqlite {

class MeterBook {
 public:
  // For the meters of `count` ranges from `first` on.
  MeterBook(std::size_t first, std::size_t count, std::uint64_t process, const Eras& eras,
            Instant now)
      : first_(first), process_(process), eras_(eras), now_(now), ranges_(count) {}

  Status apply(const PackedMeters& packed);
  // What one range amounts to.
  engine::MeterChanges meters(std::size_t range) const;

 private:
  struct Row {
    engine::RowRecord record;
    engine::MeterShape shape;
  };
  struct Entry {
    std::uint32_t row = 0;
    engine::MeterRecord record;
    std::vector<meter::LogRun> runs;
  };
  struct PrintHash {
    std::size_t operator()(engine::Print print) const noexcept { return print.low; }
  };
  using Range = boost::unordered_flat_map<engine::Print, Entry, PrintHash>;
  using RowName =
      std::tuple<std::string, std::uint64_t, engine::MeterKind, std::array<std::int64_t, 4>>;

  // The place of a row of a blob among all; kForgotten: it no longer counts.
  Result<std::uint32_t> place_of(const engine::RowRecord& row, std::uint64_t process);

  std::size_t first_;
  std::uint64_t process_;
  const Eras& eras_;
  Instant now_;
  std::vector<Row> rows_;
  std::map<RowName, std::uint32_t> places_;
  std::vector<Range> ranges_;
};

class HoldBook {
 public:
  HoldBook(std::uint64_t process, const Eras& eras, Instant now)
      : process_(process), eras_(eras), now_(now) {}

  void apply(const PackedHolds& packed);
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
