// How reservations end, and how records bring counters back.

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "weir/system/sampling/sampling.h"

namespace weir::system::sampling {
namespace {

Error ended(std::uint64_t reservation) {
  return {ErrorCode::kNotFound,
          fmt::format("sampling: reservation {} has ended, or is too old, or was never made here; "
                      "ask for a grant again",
                      reservation)};
}

}  // namespace

Result<std::int64_t> Sampling::commit(std::uint64_t reservation,
                                      std::optional<std::int64_t> created, Instant now) {
  if (created && *created < 0) {
    return bad_argument(fmt::format(
        "sampling: created is {}, but it must not be negative; write how many tasks were created",
        *created));
  }
  return end(reservation, created, now);
}

Result<std::int64_t> Sampling::release(std::uint64_t reservation, Instant now) {
  return end(reservation, 0, now);
}

Result<std::int64_t> Sampling::end(std::uint64_t reservation, std::optional<std::int64_t> created,
                                   Instant now) {
  const std::scoped_lock lock(lock_);
  last_ = later_of(now, last_);
  reservations_.drop_old(rules_.window(), last_);
  const Record* const found = reservations_.find(reservation);
  if (found == nullptr) return ended(reservation);
  if (created && *created > found->units) {
    return bad_argument(fmt::format(
        "sampling: created is {}, but reservation {} is of {}; write at most that, and ask for "
        "another grant for the rest",
        *created, reservation, found->units));
  }
  if (options_.journal != nullptr) {
    if (Status status = options_.journal->ready(); !status) return std::move(status).error();
  }
  try {
    return finish(*found, created.value_or(found->units));
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
}

void Sampling::settle(std::uint64_t reservation, std::int64_t created, Instant now) noexcept {
  const std::scoped_lock lock(lock_);
  last_ = later_of(now, last_);
  reservations_.drop_old(rules_.window(), last_);
  if (const Record* const found = reservations_.find(reservation)) finish(*found, created);
}

// Says how many are given back.
std::int64_t Sampling::finish(Record record, std::int64_t created) {
  const std::int64_t back = std::max<std::int64_t>(0, record.units - created);
  if (created > record.units) {
    const Record more{.key = record.key,
                      .parent = record.parent,
                      .at = last_,
                      .parent_at = last_,
                      .units = created - record.units};
    write(more);
    (void)count(more);  // the key is there: the reservation itself counts
  }
  record.units = -back;
  write(record);
  reservations_.erase(record.reservation);
  (void)count(record);
  return back;
}

void Sampling::write(const Record& record) {
  if (Journal* const journal = options_.journal) keep_pending({journal, journal->append(record)});
}

bool Sampling::count(const Record& record) {
  if (record.units == 0) return true;
  return count(record.key, record.at, record.units) &&
         (!record.has_parent() || count(record.parent, record.parent_at, record.units));
}

// Under a stamp that is taken as it is. A block is as large as any limit needs it: which one
// the key has is not known, and a block that grows leaves the smaller ones behind.
bool Sampling::count(engine::Print key, Instant at, std::int64_t units) {
  const meter::LogShape exact{meter::kRunsMax, rules_.window().count(), 1};
  meter::LogState log = logs_.load(key, ring_);
  log = units < 0 ? meter::give_back(log, ring_, at, -units)
                  : meter::charge(exact, log, ring_, at, units);
  return logs_.store(key, log, ring_, largest_limit_);
}

Status Sampling::restore(const Record& record, Instant now) {
  const std::scoped_lock lock(lock_);
  reservations_.saw(record.reservation);
  Record made = record;
  // Of a clock that was ahead: it was granted by now, so it counts from now.
  made.at = earlier_of(record.at, now);
  made.parent_at = earlier_of(record.parent_at, now);
  if (made.units > 0 && made.at + rules_.window() <= now) return Done{};
  if (made.units < 0) {
    // From where the grant counts: of a clock that was ahead every start of a process counts
    // it from its own instant.
    if (const Record* const grant = reservations_.find(made.reservation)) {
      made.at = grant->at;
      made.parent_at = grant->parent_at;
    }
  }
  try {
    if (!count(made)) return full();
    if (made.reservation != 0 && made.units > 0) {
      reservations_.add(made);
    } else {
      reservations_.erase(made.reservation);
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  return Done{};
}

void Sampling::sweep(Instant now) {
  const std::scoped_lock lock(lock_);
  last_ = later_of(now, last_);
  logs_.sweep(rules_.window(), last_, kSweptAtOnce);
  reservations_.drop_old(rules_.window(), last_);
}

}  // namespace weir::system::sampling
