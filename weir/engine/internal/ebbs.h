// Ebbs: the least that a key has had in use since each of its holds was charged.
//
// A bucket refills while a hold lasts. What comes back when the hold ends must not come on
// top of that: a bucket that was full meanwhile has lost what it could not keep, and would have
// lost more without the hold. So no more comes back than has been in use at every instant
// since the charge, the ebb of that charge. Given back so, the meter stands as if so much had never
// been charged. Over any interval it admits what its burst and its rate allow, holds or not.
//
//   in use |   charge          end of the hold
//        5 |   +-.               .
//        3 |   |  '-.   .-.   .-'    ebb of the charge: 2
//        2 |   |     '-'   '-'
//          +---+----------------------> time
//
// Known is what calls that hold and end holds have seen. Between two of them the meter counts as
// left alone, which is when it has least in use. So costs without a hold never raise an ebb.
//
//  1. A key has a record as long as a charge of it is outstanding.
//  2. The marks of a record rise with time, and so do their ebbs: a later charge has seen less. An
//     entry stands for all charges after the entry before it, up to its own mark.
//  3. An ebb is never higher than what was really in use. An entry may stand for several charges,
//     with the lowest of their ebbs, but for no more than a few in a hundred of those that are
//     outstanding. As many as share one may get too little back.
//  4. What comes back to one charge lowers the ebbs of all others by as much as it has raised the
//     level at their instants.
//
// Buckets and tickers have ebbs. Windows and logs know what counts by its instant, and slots are
// not used up.
//
// Thread safety: none; there is one for each shard of the table, under the shard's lock.

#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "weir/base/time.h"
#include "weir/engine/meter.h"
#include "weir/engine/print.h"

namespace weir::engine {

constexpr std::size_t kEbbsMax = 64;  // entries of one key

// What a meter has in use, or a part of that: of a bucket the time in which it comes back, whole
// nanoseconds and 1/num parts; of a ticker units.
struct InUse {
  std::int64_t whole = 0;
  std::int64_t parts = 0;

  friend constexpr auto operator<=>(const InUse&, const InUse&) = default;
};

// Whether a meter of this shape has ebbs.
inline bool has_ebbs(const MeterShape& shape) noexcept {
  return std::holds_alternative<meter::BucketShape>(shape) ||
         std::holds_alternative<meter::TickerShape>(shape);
}

class Ebbs {
 public:
  // A charge as its hold remembers it.
  struct Charge {
    std::uint64_t mark = 0;  // 0: made by an earlier process, or under another kind of meter
    std::int64_t amount = 0;
    Instant charged_at{};
  };

  // A hold has been charged, which left `words`. Returns the mark of the charge, never 0.
  std::uint64_t charged(Print print, const MeterShape& shape, const Words& words, Instant now);

  // A charge that ends; its key is looked up once.
  class End;

  // `before` under one shape became `after` under another.
  void reshaped(Print print, const MeterShape& from, const MeterShape& to, const Words& after,
                Instant now);

  // The key begins anew, with nothing in use: so nothing comes back to what was charged before.
  void drain(Print print) noexcept;

  // Keys with outstanding charges.
  std::size_t size() const noexcept { return records_.size(); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  struct Entry {
    std::uint64_t mark;
    InUse ebb;
    std::uint32_t charges;  // that it was made for
  };
  struct Record {
    std::uint64_t first = 0;    // no charge of the record has an earlier mark
    std::uint32_t charges = 0;  // outstanding
    Words last{};               // what the last call that was seen has left
    boost::container::small_vector<Entry, 2> entries;  // oldest first
  };

  using Records = boost::unordered_flat_map<Key, Record>;

  Records::iterator find(Print print) noexcept {
    return records_.empty() ? records_.end() : records_.find({print.low, print.high});
  }
  static Entry* entry_of(Record& record, std::uint64_t mark);
  static void lower_all(Record& record, const InUse& ebb);
  static void thin_out(Record& record);
  static void take_away(Record& record, std::uint64_t mark, const InUse& given,
                        std::int64_t modulus);

  Records records_;
  std::uint64_t next_mark_ = 1;
};

// A charge that ends: something may come back of it or be charged beyond it, once, and when this is
// gone nothing more comes back. No other charge of the shard begins or ends meanwhile.
class Ebbs::End {
 public:
  End(Ebbs& ebbs, Print print, const Charge& charge) noexcept;
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  // `back` units of the charge are to come back to `words`: at most its ebb does. Of a charge that
  // is not known here, what cannot have been refilled since it was made does.
  void give_back(std::int64_t back, const MeterShape& shape, Words& words, Instant now);

  // More was charged than costs had allowed, which left `words`.
  void overdrawn(const MeterShape& shape, const Words& words, Instant now);

 private:
  Ebbs& ebbs_;
  const Charge charge_;
  const Records::iterator found_;
  Record* const record_;  // nullptr: no charge of the key is outstanding
  const bool is_known_;   // the charge is one of the record
};

}  // namespace weir::engine
