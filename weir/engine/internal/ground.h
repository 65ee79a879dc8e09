// Ground: what all owners of an engine stand on.
//
// The options, the table and the rows, what each thread keeps, and the tickets of all that
// wait. It outlives every owner, and knows none of them.
//
// Locks are taken in this order, and a thread that holds one takes only later ones:
//
//  1. the wait room's
//  2. the one of `elsewhere`, or the one of `ending`
//  3. the rules'
//  4. shards, by number
//  5. gates, by order
//  6. one of: holds, locals, the stages of the table, the blocks of logs
//  7. a sketch's or a tally's
//
// Thread safety: the options and the secret never change; the others say for themselves.

#pragma once

#include <atomic>
#include <cstdint>

#include "weir/base/result.h"
#include "weir/engine/internal/locals.h"
#include "weir/engine/internal/table.h"
#include "weir/engine/options.h"
#include "weir/engine/print.h"

namespace weir::engine {

struct Ground {
  explicit Ground(const EngineOptions& given)
      : options(given),
        secret(options.secret ? *options.secret : random_secret()),
        table(options.keys_max, options.log_runs_max, options.when_full, rows,
              options.durable ? Durable::kYes : Durable::kNo),
        locals(options, secret[1]),
        // No limit has an empty name.
        ad_hoc_seed(seed_for(secret, "")),
        ad_hoc_row(rows.add("", meter::BucketShape{})) {}

  const EngineOptions options;
  const Secret secret;
  Rows rows;
  Table table;
  Locals locals;
  // Of every ask that is answered later, wherever it waits: a lower one is older.
  std::atomic<std::uint64_t> next_ticket{1};
  // Of buckets whose parameters come with each call.
  const Print ad_hoc_seed;
  const RowId ad_hoc_row;
};

// Whether a call may be made at `now`: an instant that meters accept.
inline bool is_acceptable(Instant now) noexcept { return now.ns >= 0 && now.ns <= kInstantNsMax; }

// The error for an instant outside what meters accept.
Error unacceptable_instant(Instant now);

}  // namespace weir::engine
