// Rows: which limit, in which shape, a table slot belongs to.
//
// A slot has 13 bits to say whose meter it is. They number a row: a limit's name
// with one shape. When a limit changes its shape it gets a new row, and a slot
// that still names the old one is converted when it is touched. Keys with
// parameters of their own share a row for each shape.
//
// All rows of a limit have one place, by which the table counts the limit's keys. It is
// given to another name once no row has it.
//
// Thread safety: add() and retire() under the caller's lock; at() from any thread,
// for a row read from a slot under that slot's lock.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weir/engine/meter.h"

namespace weir::engine {

using RowId = std::uint16_t;  // 0: none

constexpr std::size_t kRowsMax = 1 << 13;

struct Row {
  std::string_view limit;  // interned by the Rows that made it
  MeterShape shape;
  bool alive = true;         // false: the limit is gone, and its meters with it
  std::uint64_t era = 0;     // another one: nothing of the limit's meters is carried over
  std::uint64_t serial = 0;  // never given twice, unlike the row's number
  std::uint16_t place = 0;   // of the limit's name

  // Whether a meter of this row is one of `in_force` too, another of the limit.
  bool carries_over_to(const Row& in_force) const noexcept { return alive && era == in_force.era; }
};

class Rows {
 public:
  // The limit's name, at an address that stays for good.
  std::string_view intern(std::string_view name);

  // The row for this limit and shape. 0: there is none yet.
  RowId find(std::string_view limit, const MeterShape& shape) const;
  // The same, made if need be. 0: all rows are taken.
  RowId add(std::string_view limit, const MeterShape& shape);

  const Row& at(RowId id) const noexcept { return *rows_[id].load(std::memory_order_acquire); }

  // The limit is gone: its rows are dead and new ones will be made if it returns. One
  // that was never here has been gone before.
  void retire(std::string_view limit);

  // The era a limit is in; 0: its first, or it was never here.
  std::uint64_t era(std::string_view limit) const noexcept;

  // The limits that are not in their first era, and the one they are in.
  std::vector<std::pair<std::string, std::uint64_t>> later_eras() const;

  // Frees every row for which `in_use[id]` is false, so that ids can be given again.
  void free_unused(const std::vector<bool>& in_use);

  // The place of a limit that has a row.
  std::size_t place_of(std::string_view limit) const { return by_limit_.at(limit).place; }
  // All places are below this.
  std::size_t places() const noexcept { return places_; }

  std::size_t size() const noexcept { return size_; }
  // Rows that can still be made.
  std::size_t left() const noexcept { return kRowsMax - 1 - size_; }

 private:
  std::array<std::atomic<const Row*>, kRowsMax> rows_{};
  std::vector<std::unique_ptr<Row>> owned_;  // dead ones included: a reader may look
  struct Limit {
    std::unordered_multimap<std::size_t, RowId> ids;  // by what their shapes hash to
    std::uint64_t era = 0;
    bool is_slots = false;
    std::uint16_t place = 0;  // as long as there are ids

    std::uint64_t era_of(const MeterShape& shape) const noexcept {
      // Slots count what is in flight and the others what was spent.
      return era + (is_slots == engine::is_slots(shape) ? 0 : 1);
    }
  };
  Limit& known(std::string_view name, bool is_slots);
  std::uint16_t take_place();

  std::unordered_map<std::string_view, Limit> by_limit_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::size_t size_ = 0;
  std::size_t places_ = 0;
  std::vector<std::uint16_t> free_places_;
  std::uint64_t next_serial_ = 1;
  RowId next_ = 1;
};

}  // namespace weir::engine
