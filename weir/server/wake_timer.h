// Wake timer: calls a part of the server when it wants to be called.
//
//   WakeTimer timer(*loop, clock, [&] { return engine.next_instant(); },
//                   [&](Instant now) { engine.advance(now); });
//   engine.set_wakeup([&](Instant) { timer.look(); });
//
// Thread safety: look() from any thread; it lives and ends with its loop.

#pragma once

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <utility>

#include "weir/base/clock.h"
#include "weir/base/time.h"
#include "weir/server/loop.h"

namespace weir::server {

class WakeTimer {
 public:
  WakeTimer(Loop& loop, Clock& clock, std::function<Instant()> next,
            std::function<void(Instant now)> call)
      : loop_(loop),
        clock_(clock),
        next_(std::move(next)),
        call_(std::move(call)),
        timer_(loop.context()) {}

  // The instant may be an earlier one now. Two threads may post in another order than they were
  // told in: what counts is the instant when the timer is armed.
  void look() {
    loop_.post([this] { arm(); });
  }

 private:
  void arm() {
    const Instant at = next_();
    if (at == kForever) return;
    timer_.expires_after(std::max(Duration{0}, at - clock_.now()));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      call_(clock_.now());
      arm();
    });
  }

  Loop& loop_;
  Clock& clock_;
  const std::function<Instant()> next_;
  const std::function<void(Instant)> call_;
  boost::asio::steady_timer timer_;
};

}  // namespace weir::server
