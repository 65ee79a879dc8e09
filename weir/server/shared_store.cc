#include "weir/server/shared_store.h"

#include <chrono>
#include <string>
#include <string_view>

namespace weir::server {
namespace {

constexpr Duration kFirstWord = std::chrono::seconds{1};  // for which a start waits

}  // namespace

SharedStore::SharedStore(const config::RedisSettings& settings, Clock& clock, const Turns& turns,
                         Readiness& readiness)
    : has_own_connections_(settings.connections > 0),
      limits_(std::make_unique<store::redis::SharedLimits>(
          loop_,
          store::redis::SharedOptions{
              .address = settings.address,
              .name = settings.name,
              .timeout = settings.timeout,
              .connections = settings.connections,
              .on_turn =
                  [this, &turns](std::string_view why) {
                    if (!is_leaving_) turns.say("redis", why);
                  },
              .on_topology =
                  [&turns, &readiness](std::string_view why) {
                    turns.say("redis-topology", why);
                    if (why.empty()) {
                      readiness.clear("redis");
                    } else {
                      readiness.obstruct("redis", std::string(why));
                    }
                  },
              .on_beat = [&turns](std::string_view why) { turns.say("heartbeats", why); }},
          clock)) {}

Status SharedStore::check() { return limits_->first_word(kFirstWord); }

void SharedStore::attach(const std::vector<std::unique_ptr<Loop>>& loops) {
  if (has_own_connections_) return;
  for (const auto& loop : loops) {
    loops_.push_back(std::make_unique<store::redis::Loop>(loop->context()));
    limits_->attach(*loops_.back());
  }
}

void SharedStore::leave() {
  is_leaving_ = true;
  for (const auto& loop : loops_) limits_->detach(*loop);
}

}  // namespace weir::server
