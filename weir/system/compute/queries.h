// Queries: those that a worker has let in and whose end it has not seen, by place and by id.
//
// Places are few and used again; ids are never given twice, and tell their place:
//
//   id = serial * places + place       found by one division, and compared whole
//
// Queries that end by themselves if nothing is said stand in one line, in the order in which
// expect_end() was called for them.
//
// Thread safety: none; the worker has them.

#pragma once

#include <cstdint>
#include <vector>

#include "weir/base/assert.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"
#include "weir/system/compute/admission.h"

namespace weir::system::compute {

using Place = std::uint32_t;  // of a query or of a cluster
constexpr Place kNowhere = ~Place{0};

struct Query {
  QueryId id = 0;  // 0: the place is free
  engine::Print portal{};
  std::int64_t cost_micro = 0;
  Instant expires = kForever;
  Place cluster = kNowhere;
  std::uint32_t generation = 0;  // of the cluster's bucket
  std::uint32_t round = 0;       // the worker's, in which its token was taken
  Place next = kNowhere;         // in the worker's queue, or of those free
  Place before = kNowhere;       // in the worker's queue
  Place older = kNowhere;        // in the line of those that expire
  Place newer = kNowhere;
  bool is_queued = false;
};

class Queries {
 public:
  // Serials count up from `serial`. Requires places >= 1 and a serial that leaves room for all
  // that will ever come.
  Queries(std::int64_t places, std::int64_t serial) : places_(places), serial_(serial) {}

  Query& operator[](Place at) noexcept { return rows_[at]; }
  const Query& operator[](Place at) const noexcept { return rows_[at]; }

  // Requires a free place.
  Place add(engine::Print portal, std::int64_t cost_micro, Place cluster,
            std::uint32_t generation) {
    Place at = free_;
    if (at == kNowhere) {
      at = static_cast<Place>(rows_.size());
      WEIR_ASSERT(at < places_);
      rows_.emplace_back();
    } else {
      free_ = rows_[at].next;
    }
    serial_ += 1;
    rows_[at] = {.id = serial_ * places_ + at,
                 .portal = portal,
                 .cost_micro = cost_micro,
                 .cluster = cluster,
                 .generation = generation};
    return at;
  }

  // kNowhere: it has ended, or never was.
  Place find(QueryId id) const noexcept {
    if (id < places_) return kNowhere;
    const auto at = static_cast<Place>(id % places_);
    return at < rows_.size() && rows_[at].id == id ? at : kNowhere;
  }

  // Its place is free again.
  void forget(Place at) noexcept {
    expect_no_end(at);
    rows_[at] = Query{.next = free_};
    free_ = at;
  }

  // It ends by itself at `expires`; kForever: its end will be told.
  void expect_end(Place at, Instant expires) noexcept {
    Query& expected = rows_[at];
    expected.expires = expires;
    if (expires == kForever) return;
    expected.older = newest_;
    (newest_ == kNowhere ? oldest_ : rows_[newest_].newer) = at;
    newest_ = at;
  }
  void expect_no_end(Place at) noexcept {
    Query& expected = rows_[at];
    if (expected.expires == kForever) return;
    (expected.older == kNowhere ? oldest_ : rows_[expected.older].newer) = expected.newer;
    (expected.newer == kNowhere ? newest_ : rows_[expected.newer].older) = expected.older;
    expected.older = expected.newer = kNowhere;
    expected.expires = kForever;
  }

  // The first in the line, if its time has come.
  Place expired(Instant now) const noexcept {
    return oldest_ != kNowhere && rows_[oldest_].expires <= now ? oldest_ : kNowhere;
  }

 private:
  const std::int64_t places_;
  std::int64_t serial_;
  std::vector<Query> rows_;
  Place free_ = kNowhere;
  Place oldest_ = kNowhere;
  Place newest_ = kNowhere;
};

}  // namespace weir::system::compute
