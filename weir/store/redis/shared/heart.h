// Heart: says each second that this server is alive, and hears how many are, and of which data.
//
// A server that only beats takes part in noticing a loss of data, and in finding Redis again.
//
// Thread safety: none; everything happens on the thread of its loop.

#pragma once

#include <functional>
#include <string_view>

#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/shared/connections.h"
#include "weir/store/redis/shared/epochs.h"
#include "weir/store/redis/shared/fleet.h"
#include "weir/store/redis/shared/outages.h"

namespace weir::store::redis {

class Heart {
 public:
  // Told why beats fail though Redis is in reach, and empty when they no longer do.
  using Told = std::function<void(std::string_view why)>;

  // `timeout`: a Redis that takes longer for a beat is too slow for decisions as well.
  Heart(Loop& loop, const Fleet& fleet, Connections& connections, Epochs& epochs, Outages& outages,
        Duration timeout, Told told);

  // Beats now, and each second from now on.
  void beat();
  void stop();

 private:
  void on_beat(const Answer& answer, Instant sent_at);
  void tell(std::string_view why);

  const Fleet& fleet_;
  Connections& connections_;
  Epochs& epochs_;
  Outages& outages_;
  const Duration timeout_;
  const Told told_;
  Timer timer_;
  bool is_over_ = false;
  bool has_bad_beats_ = false;
};

}  // namespace weir::store::redis
