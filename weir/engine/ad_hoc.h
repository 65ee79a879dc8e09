// Ad hoc: buckets without a limit in the rules, whose parameters come with each call.
//
// A key and what it has used are all that is kept, so a call may name another shape each
// time. Shapes must have num = 1: in these a state means the same whatever the rate.
//
//   AdHoc buckets(*engine);
//   const AdHocKey key = buckets.key("user123");             // fetched meanwhile
//   Result<AdHocStep> step = buckets.take(key, shape, 1, clock.now());
//
// Thread safety: safe from any thread. The engine must outlive it.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/export.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"
#include "weir/meter/bucket.h"

namespace weir::engine {

class Engine;

struct AdHocKey {
  std::string_view text{};
  Print print{};
};

// What became of a call.
struct AdHocStep {
  meter::BucketStep step;
  Instant at;  // the instant it was decided at: as given, or that of the last charge if later
};

class WEIR_EXPORT AdHoc {
 public:
  explicit AdHoc(Engine& engine) noexcept : engine_(engine) {}

  // Works out where the key's state lies and has it fetched meanwhile. `text` must live until
  // take() returns.
  AdHocKey key(std::string_view text) const noexcept;
  // Takes `cost`, or gives back if it is negative.
  Result<AdHocStep> take(const AdHocKey& key, const meter::BucketShape& shape, std::int64_t cost,
                         Instant now) noexcept;

 private:
  Engine& engine_;
};

}  // namespace weir::engine
