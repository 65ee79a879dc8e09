// The server's clocks: what it does when time has passed, though nobody asks.

#include <algorithm>
#include <utility>

#include "weir/server/server_impl.h"

namespace weir::server {
namespace {

using ErrorNumber = boost::system::error_code;

constexpr auto kTick = std::chrono::milliseconds{100};  // sweeping, and looking at clocks

}  // namespace

void Server::Impl::arm_engine_timer(Instant at) {
  if (at == kForever) return;
  const Duration wait = std::max(Duration{0}, at - clock.now());
  engine_timer->expires_after(wait);
  engine_timer->async_wait([this](const ErrorNumber& error) {
    if (error) return;
    engine->advance(clock.now());
    arm_engine_timer(engine->next_instant());
  });
}

void Server::Impl::arm_pool_timer() {
  const Instant at = pool->jobs().pools().next_instant();
  if (at == kForever) return;
  pool_timer->expires_after(std::max(Duration{0}, at - clock.now()));
  pool_timer->async_wait([this](const ErrorNumber& error) {
    if (error) return;
    pool->jobs().pools().advance(clock.now());
    arm_pool_timer();
  });
}

void Server::Impl::look_after_sampling() {
  std::shared_ptr<system::sampling::Sampling> counters;
  Duration window{};
  {
    const std::scoped_lock lock(config_lock);
    if (!config.sampling) return;
    counters = config.sampling->sampling;
    window = std::chrono::seconds{config.sampling->spec.formula.window_s};
  }
  const Instant now = clock.now();
  counters->sweep(now);
  keeper.forget_grants_before(now - window);
}

void Server::Impl::look_after_state() {
  std::string trouble = keeper.trouble();
  watch("state", state_trouble, trouble);
  if (trouble.empty()) {
    readiness.clear("state");
  } else {
    readiness.obstruct("state", std::move(trouble));
  }
}

void Server::Impl::look_after_compute() {
  watch("compute", compute_trouble, compute->trouble());
  std::string warning = compute->parts().feed.warning;
  if (!warning.empty() && warning != compute_warning) {
    say(LogLevel::kWarning, "compute", {{"warning", warning}});
  }
  compute_warning = std::move(warning);
}

void Server::Impl::tick() {
  tick_timer->expires_after(kTick);
  tick_timer->async_wait([this](const ErrorNumber& error) {
    if (error) return;
    engine->advance(clock.now());
    look_after_state();
    look_after_sampling();
    if (recorder != nullptr) watch("record", record_trouble, recorder->trouble());
    if (compute != nullptr) look_after_compute();
    if (pool != nullptr) {
      pool->jobs().pools().advance(clock.now());
      watch("pools", pool_trouble, pool->trouble());
    }
    for (auto& loop : loops) {
      loop->post([this, &loop = *loop] {
        loop.for_each([now = clock.now()](Connection& connection) { connection.check_time(now); });
      });
    }
    tick();
  });
}

void Server::Impl::watch(std::string_view part, std::string& known, std::string trouble) const {
  if (trouble.empty() != known.empty()) say_turn(part, trouble);
  known = std::move(trouble);
}

void Server::Impl::say_turn(std::string_view part, std::string_view trouble) const {
  if (trouble.empty()) {
    say(LogLevel::kInfo, "outage-over", {{"part", std::string(part)}});
  } else {
    say(LogLevel::kError, "outage", {{"part", std::string(part)}, {"error", std::string(trouble)}});
  }
}

}  // namespace weir::server
