// What a server is made of. For the files of this folder that are the server.

#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/server/account_parts.h"
#include "weir/server/compute.h"
#include "weir/server/followers.h"
#include "weir/server/http_front.h"
#include "weir/server/keeper.h"
#include "weir/server/listeners.h"
#include "weir/server/loop.h"
#include "weir/server/pool.h"
#include "weir/server/recorder.h"
#include "weir/server/resp_connection.h"
#include "weir/server/server.h"
#include "weir/server/throttle_parts.h"
#include "weir/server/tokens.h"
#include "weir/store/redis/shared/limits.h"

namespace weir::server {

struct Server::Impl {
  Impl(config::Config given, Clock& the_clock, std::unique_ptr<engine::Engine> made, Keeper kept);

  // A client has come.
  void welcome(Protocol protocol, Loop& loop, Socket socket);
  void refuse(Protocol protocol, Socket socket);

  void say(LogLevel level, std::string_view event, std::vector<LogField> fields) const {
    if (log) log({level, event, std::move(fields)});
  }

  void start(Server& server);
  // Each loop asks Redis over a connection of its own.
  void attach_loops();
  Status stop(Duration patience);

  // --- time: on the first loop (server_tick.cc)
  void arm_engine_timer(Instant at);
  void arm_pool_timer();
  void tick();
  void look_after_sampling();
  void look_after_state();
  void look_after_compute();
  // Says when a part of the world begins to fail and when it works again.
  void watch(std::string_view part, std::string& known, std::string trouble) const;
  void say_turn(std::string_view part, std::string_view trouble) const;  // from any thread

  // --- server_reload.cc
  std::string path() const {
    const std::scoped_lock lock(config_lock);
    return config.path;
  }
  Status check_tokens(const config::Config& next) const;
  Status reload();

  std::mutex reload_lock;  // held by whoever changes the configuration
  mutable std::mutex config_lock;
  config::Config config;
  Clock& clock;
  std::unique_ptr<engine::Engine> engine;
  AccountParts account_parts{[this] {
    const std::scoped_lock lock(config_lock);
    return config.accounts;
  }};
  ThrottleParts throttle_parts{[this] {
    const std::scoped_lock lock(config_lock);
    return config.throttles ? config.throttles->throttles : nullptr;
  }};
  AllParts parts{{&account_parts, &throttle_parts}};
  Keeper keeper;  // after the engine and the parts it reads
  engine::RestoreReport restored;
  std::unique_ptr<Recorder> recorder;  // nullptr: nothing is recorded
  Log log;
  std::string state_trouble, record_trouble, compute_trouble, compute_warning,
      pool_trouble;                  // as last said
  std::unique_ptr<Compute> compute;  // nullptr: none is configured
  wire::resp::Service service;
  ConnectionBounds bounds;
  Tokens tokens;
  Readiness readiness;
  Followers followers{clock, [this] { engine->try_waiters(clock.now()); }};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> last_id{0};
  std::atomic<std::uint64_t> reloads{0};
  std::atomic<std::uint64_t> failed_reloads{0};
  bool stopped = false;
  std::atomic<bool> leaves_redis{false};  // what is not answered any more is no outage
  // Destroyed in reverse: listeners and timers before the loops they live on.
  std::vector<std::unique_ptr<Loop>> loops;
  std::unique_ptr<boost::asio::steady_timer> engine_timer;
  std::unique_ptr<boost::asio::steady_timer> tick_timer;
  std::unique_ptr<boost::asio::steady_timer> pool_timer;
  std::unique_ptr<HttpFront> http;
  std::unique_ptr<store::redis::Loop> redis_loop;
  std::vector<std::unique_ptr<store::redis::Loop>> redis_loops;  // of the loops, if they are asked
  std::unique_ptr<store::redis::SharedLimits> shared;            // nullptr: none are configured
  std::unique_ptr<Pool> pool;                                    // nullptr: none are configured
  Listeners listeners{loops, [this](Protocol protocol, Loop& loop, Socket socket) {
                        welcome(protocol, loop, std::move(socket));
                      }};
};

}  // namespace weir::server
