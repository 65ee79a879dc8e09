#include "weir/store/redis/pool/scripts.h"

#include "weir/store/redis/pool/lua.h"  // made by the build

namespace weir::store::redis {

const PoolScripts& pool_scripts() {
  static const PoolScripts scripts{.work{"pool work", pool_lua::kWork},
                                   .tell{"pool tell", pool_lua::kTell},
                                   .report{"pool report", pool_lua::kReport},
                                   .enrol{"pool register", pool_lua::kEnrol},
                                   .heartbeat{"pool heartbeat", pool_lua::kHeartbeat},
                                   .unregister{"pool unregister", pool_lua::kUnregister}};
  return scripts;
}

}  // namespace weir::store::redis
