// A named snapshot is judged as a whole before any level is set. The published one is restored as
// the network does it, which may leave half of what does not fit.

#include "weir/system/throttle/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/base/integer.h"

namespace weir::system::throttle {
namespace {

// The same share of another capacity, rounded up: what was used stays used. Both factors are below
// 2^63. Of no capacity there are no shares.
Usage converted(const Usage& from, std::int64_t of, std::int64_t capacity) noexcept {
  if (of == capacity || of < 1) return from;
  return {saturate(ceil_div(Wide{from.used} * capacity, of)), from.decided};
}

Error bad_level(std::string_view what, std::int64_t used, std::int64_t capacity) {
  return bad_argument(
      fmt::format("snapshot: the level of {} is {}, but it must be between 0 and "
                  "its capacity {}; write a snapshot that this software has made",
                  what, used, capacity));
}

// A level beyond the capacity it was saved with contradicts itself, but for a duration.
std::optional<Error> check_scalar(std::string_view what, const std::optional<Usage>& usage,
                                  std::optional<std::int64_t> capacity) {
  const std::int64_t most = capacity.value_or(kMax);
  if (!usage || (usage->used >= 0 && usage->used <= most)) return std::nullopt;
  return bad_level(what, usage->used, most);
}

// `usage` for a bucket of gas or bytes that now holds `capacity`.
Usage fitted(const Usage& usage, std::optional<std::int64_t> of, std::int64_t capacity) noexcept {
  Usage fits = of ? converted(usage, *of, capacity) : usage;
  fits.used = std::min(fits.used, capacity);
  return fits;
}

// Notes a bucket that has another capacity than it was saved with.
void note_converted(std::string_view name, std::optional<std::int64_t> of, std::int64_t capacity,
                    RestoreReport& report) {
  if (of && *of != capacity) report.converted.emplace_back(name);
}

bool restore_all(const PositionalSnapshot& snapshot, ThrottleSet& set) {
  std::vector<Usage> before;
  for (const LiveBucket& live : set.buckets()) before.push_back(live.bucket.usage());
  for (std::size_t i = 0; i < snapshot.buckets.size(); ++i) {
    if (set.restore_bucket(i, snapshot.buckets[i]) == Anomaly::kNone) continue;
    for (std::size_t j = 0; j < before.size(); ++j) (void)set.restore_bucket(j, before[j]);
    return false;
  }
  return true;
}

void note(std::optional<Moment> moment, Moment& latest) noexcept {
  if (moment) latest = std::max(latest, *moment);
}
void note(const std::optional<Usage>& usage, Moment& latest) noexcept {
  if (usage) note(usage->decided, latest);
}
void note(const TierStarts& starts, Moment& latest) noexcept {
  for (const std::optional<Moment>& start : starts) note(start, latest);
}

// Calls `visit` with every instant of a bucket or tier.
template <typename Visit>
void for_each_instant(Snapshot& snapshot, Visit&& visit) {
  for (NamedUsage& bucket : snapshot.buckets) visit(bucket.usage.decided);
  for (std::optional<Usage>* usage : {&snapshot.gas, &snapshot.bytes, &snapshot.duration}) {
    if (*usage) visit((*usage)->decided);
  }
  for (TierStarts* starts : {&snapshot.generic_starts, &snapshot.gas_starts}) {
    for (std::optional<Moment>& start : *starts) visit(start);
  }
}

// Seconds of 64 bits are nanoseconds of 94, so nothing overflows; before the first second is it.
Moment back_by(Moment at, Duration by) noexcept {
  const Wide ns = Wide{at.seconds} * kNsPerSecond + at.nanos - by.count();
  const Wide seconds = floor_div(ns, kNsPerSecond);
  if (seconds < INT64_MIN) return {INT64_MIN, 0};
  return {static_cast<std::int64_t>(seconds),
          static_cast<std::int32_t>(ns - seconds * kNsPerSecond)};
}

// An error if a decision or a tier is later than the clock.
Status check_clock(const Snapshot& snapshot) {
  Snapshot decisions = snapshot;
  decisions.clock = Moment{INT64_MIN, 0};
  const Moment latest = latest_of(decisions);
  if (latest <= snapshot.clock) return Done{};
  return bad_argument(
      fmt::format("snapshot: something was decided at [{},{}], but its clock is only at [{},{}]; "
                  "write a snapshot that this software has made",
                  latest.seconds, latest.nanos, snapshot.clock.seconds, snapshot.clock.nanos));
}

}  // namespace

void shift_back(Snapshot& snapshot, Duration by) noexcept {
  for_each_instant(snapshot, [by](std::optional<Moment>& at) {
    if (at) at = back_by(*at, by);
  });
  // A clock at the epoch has never been read.
  if (snapshot.clock != Moment{}) snapshot.clock = back_by(snapshot.clock, by);
}

Moment latest_of(const Snapshot& snapshot) noexcept {
  Moment latest = snapshot.clock;
  for (const NamedUsage& bucket : snapshot.buckets) note(bucket.usage.decided, latest);
  note(snapshot.gas, latest);
  note(snapshot.bytes, latest);
  note(snapshot.duration, latest);
  note(snapshot.generic_starts, latest);
  note(snapshot.gas_starts, latest);
  return latest;
}

Moment latest_of(const PositionalSnapshot& snapshot) noexcept {
  Moment latest;
  for (const Usage& usage : snapshot.buckets) note(usage.decided, latest);
  note(snapshot.gas, latest);
  note(snapshot.duration, latest);
  if (snapshot.generic_starts) note(*snapshot.generic_starts, latest);
  if (snapshot.gas_starts) note(*snapshot.gas_starts, latest);
  return latest;
}

Snapshot snapshot_of(const ThrottleSet& set, const Congestion* congestion) {
  Snapshot snapshot;
  for (const LiveBucket& live : set.buckets()) {
    snapshot.buckets.push_back(
        {live.name, live.high_volume, live.bucket.capacity(), live.bucket.usage()});
  }
  snapshot.gas = set.gas().usage();
  snapshot.capacities.gas = set.gas().capacity();
  if (set.bytes()) {
    snapshot.bytes = set.bytes()->usage();
    snapshot.capacities.bytes = set.bytes()->capacity();
  }
  snapshot.duration = set.duration().usage();
  snapshot.capacities.duration = set.duration().capacity();
  if (congestion != nullptr) {
    snapshot.generic_starts = congestion->generic().starts();
    snapshot.gas_starts = congestion->gas().starts();
  }
  snapshot.clock = set.clamped_to();
  return snapshot;
}

PositionalSnapshot positional_snapshot_of(const ThrottleSet& set, const Congestion* congestion) {
  PositionalSnapshot snapshot;
  for (const LiveBucket& live : set.buckets()) snapshot.buckets.push_back(live.bucket.usage());
  snapshot.gas = set.gas().usage();
  snapshot.duration = set.duration().usage();
  if (congestion != nullptr) {
    snapshot.generic_starts = congestion->generic().starts();
    snapshot.gas_starts = congestion->gas().starts();
  }
  return snapshot;
}

Result<RestoreReport> restore(const Snapshot& snapshot, ThrottleSet& set, Congestion* congestion) {
  RestoreReport report;
  if (set.options().clamp_clock) {
    if (Status status = check_clock(snapshot); !status) return std::move(status).error();
  }
  std::vector<const NamedUsage*> chosen(set.buckets().size());
  for (const NamedUsage& named : snapshot.buckets) {
    if (named.usage.used < 0 || named.usage.used > named.capacity || named.capacity < 1) {
      return bad_level("bucket " + in_quotes(named.name), named.usage.used, named.capacity);
    }
    std::size_t place = 0;
    for (; place < chosen.size(); ++place) {
      const LiveBucket& live = set.buckets()[place];
      if (chosen[place] == nullptr && live.name == named.name &&
          live.high_volume == named.high_volume) {
        break;
      }
    }
    if (place == chosen.size()) {
      report.unknown.push_back(named.name);
    } else {
      chosen[place] = &named;
    }
  }
  const ScalarCapacities& of = snapshot.capacities;
  if (auto error = check_scalar("gas", snapshot.gas, of.gas)) return *error;
  if (auto error = check_scalar("bytes", snapshot.bytes, of.bytes)) return *error;
  if (auto error = check_scalar("duration", snapshot.duration, std::nullopt)) return *error;

  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const LiveBucket& live = set.buckets()[i];
    if (chosen[i] == nullptr) {
      report.missing.push_back(live.name);
      continue;
    }
    if (chosen[i]->capacity != live.bucket.capacity()) report.converted.push_back(live.name);
    const Anomaly anomaly = set.restore_bucket(
        i, converted(chosen[i]->usage, chosen[i]->capacity, live.bucket.capacity()));
    WEIR_ASSERT(anomaly == Anomaly::kNone);
    report.restored += 1;
  }
  if (snapshot.gas) {
    const std::int64_t capacity = set.gas().capacity();
    note_converted("gas", of.gas, capacity, report);
    (void)set.restore_gas(fitted(*snapshot.gas, of.gas, capacity));
  }
  if (snapshot.bytes && set.bytes()) {
    const std::int64_t capacity = set.bytes()->capacity();
    note_converted("bytes", of.bytes, capacity, report);
    (void)set.restore_bytes(fitted(*snapshot.bytes, of.bytes, capacity));
  }
  if (snapshot.duration) {
    const std::int64_t capacity = set.duration().capacity();
    note_converted("duration", of.duration, capacity, report);
    (void)set.restore_duration(
        converted(*snapshot.duration, of.duration.value_or(capacity), capacity));
  }
  set.clamp_to(snapshot.clock);
  if (congestion != nullptr) congestion->restore(snapshot.generic_starts, snapshot.gas_starts);
  return report;
}

Anomaly restore(const PositionalSnapshot& snapshot, RestorePolicy policy, ThrottleSet& set,
                Congestion* congestion) {
  const std::size_t count = snapshot.buckets.size();
  const bool fits = count == set.buckets().size() || count == set.normal_buckets();
  if (policy == RestorePolicy::kFailFast) {
    if (!fits) return Anomaly::kIllegalState;
    for (std::size_t i = 0; i < count; ++i) {
      const Anomaly anomaly = set.restore_bucket(i, snapshot.buckets[i]);
      if (anomaly != Anomaly::kNone) return anomaly;
    }
  } else if (fits) {
    restore_all(snapshot, set);
  }
  if (snapshot.gas) {
    const Anomaly anomaly = set.restore_gas(*snapshot.gas);
    if (anomaly != Anomaly::kNone) return anomaly;
  }
  if (snapshot.duration) {
    const Anomaly anomaly = set.restore_duration(*snapshot.duration);
    if (anomaly != Anomaly::kNone) return anomaly;
  }
  if (congestion != nullptr) {
    congestion->restore(snapshot.generic_starts.value_or(congestion->generic().starts()),
                        snapshot.gas_starts.value_or(congestion->gas().starts()));
  }
  return Anomaly::kNone;
}

}  // namespace weir::system::throttle
