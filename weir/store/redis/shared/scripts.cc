#include "weir/store/redis/shared/scripts.h"

#include "weir/store/redis/shared/lua.h"  // made by the build

namespace weir::store::redis {

const SharedScripts& shared_scripts() {
  static const SharedScripts scripts{.decide{"decide", shared_lua::kDecide},
                                     .one_bucket{"one bucket", shared_lua::kOneBucket},
                                     .buckets{"buckets", shared_lua::kBuckets},
                                     .end{"end", shared_lua::kEnd},
                                     .renew{"renew", shared_lua::kRenew},
                                     .reset{"reset", shared_lua::kReset},
                                     .slot_holds{"slot_holds", shared_lua::kSlotHolds},
                                     .beat{"beat", shared_lua::kBeat},
                                     .draw{"draw", shared_lua::kDraw},
                                     .give_back{"give_back", shared_lua::kGiveBack}};
  return scripts;
}

}  // namespace weir::store::redis
