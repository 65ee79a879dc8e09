#include "weir/server/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <thread>
#include <utility>

#include "weir/server/server_impl.h"
#include "weir/server/server_metrics.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
using ErrorNumber = boost::system::error_code;

engine::EngineOptions options_of(const config::Config& config, const Keeper& keeper) {
  engine::EngineOptions options;
  keeper.prepare(options);
  options.keys_max = config.bounds.keys;
  options.when_full = config.bounds.when_full;
  options.log_runs_max = config.bounds.log_runs;
  options.holds_max = config.bounds.holds;
  options.waiters_max = config.bounds.waiting;
  return options;
}

// One request is bounded as a whole, whichever way it is written.
wire::resp::ParserBounds resp_bounds(const config::Bounds& bounds) {
  wire::resp::ParserBounds parser;
  parser.bulk_bytes_max = bounds.request_bytes;
  parser.request_bytes_max = bounds.request_bytes;
  parser.inline_bytes_max = std::min(parser.inline_bytes_max, bounds.request_bytes);
  return parser;
}

void add(Loop& loop, std::shared_ptr<SocketConnection> connection) {
  loop.post([connection = std::move(connection)] { connection->start(); });
}

}  // namespace

Server::Impl::Impl(config::Config given, Clock& the_clock, std::unique_ptr<engine::Engine> made,
                   Keeper kept)
    : config(std::move(given)),
      clock(the_clock),
      engine(std::move(made)),
      keeper(std::move(kept)),
      tokens(config.auth) {
  const unsigned count =
      config.threads > 0 ? config.threads : std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) loops.push_back(std::make_unique<Loop>());
  engine_timer = std::make_unique<asio::steady_timer>(loops[0]->context());
  tick_timer = std::make_unique<asio::steady_timer>(loops[0]->context());
  pool_timer = std::make_unique<asio::steady_timer>(loops[0]->context());
  bounds.idle = config.bounds.idle;
  bounds.slow = config.bounds.slow;
}

void Server::Impl::welcome(Protocol protocol, Loop& loop, Socket socket) {
  if (connections.fetch_add(1, std::memory_order_relaxed) >= config.bounds.connections) {
    connections.fetch_sub(1, std::memory_order_relaxed);
    return refuse(protocol, std::move(socket));
  }
  auto on_close = [this] { connections.fetch_sub(1, std::memory_order_relaxed); };
  if (protocol == Protocol::kHttp) {
    add(loop, std::make_shared<HttpConnection>(http->desk(loop), std::move(socket), ++last_id,
                                               std::move(on_close)));
  } else {
    add(loop, std::make_shared<RespConnection>(loop, std::move(socket), service, bounds, clock,
                                               ++last_id, std::move(on_close)));
  }
}

void Server::Impl::refuse(Protocol protocol, Socket socket) {
  refused.fetch_add(1, std::memory_order_relaxed);
  const std::string last_words = protocol == Protocol::kHttp
                                     ? http->too_many_connections(clock.now())
                                     : "-ERR max number of clients reached\r\n";
  ErrorNumber ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(last_words), ignored);
  socket.shutdown(Socket::shutdown_send, ignored);
}

void Server::Impl::start(Server& server) {
  service = {engine.get(),
             &server,
             config.rounding == config::Rounding::kCell ? wire::resp::Seconds::kCell
                                                        : wire::resp::Seconds::kDragonfly,
             resp_bounds(config.bounds),
             bounds.output_bytes,
             pool == nullptr ? nullptr : &pool->jobs()};
  http = std::make_unique<HttpFront>(server, *engine, config, tokens, clock, bounds, loops);
  // Two threads may post in another order than they were told in: what counts is the
  // engine's next instant when the timer is armed.
  engine->set_wakeup(
      [this](Instant) { loops[0]->post([this] { arm_engine_timer(engine->next_instant()); }); });
  if (pool != nullptr) {
    pool->jobs().pools().set_wakeup(
        [this](Instant) { loops[0]->post([this] { arm_pool_timer(); }); });
    loops[0]->post([this] { arm_pool_timer(); });
  }
  loops[0]->post([this] { tick(); });
  for (auto& loop : loops) {
    loop->when_written = [this](std::uint64_t record, std::function<void(const Status&)> told) {
      keeper.when_written(record, std::move(told));
    };
  }
  // First: an account without policies waits for those of its service.
  followers.follow(config.contracts, log);
  listeners.start();
  for (auto& loop : loops) loop->start();
  if (shared != nullptr && config.redis->connections == 0) attach_loops();
}

void Server::Impl::attach_loops() {
  for (auto& loop : loops) {
    redis_loops.push_back(std::make_unique<store::redis::Loop>(loop->context()));
    shared->attach(*redis_loops.back());
  }
}

Status Server::Impl::stop(Duration patience) {
  if (std::exchange(stopped, true)) return Done{};
  readiness.obstruct("server", "it is stopping");
  followers.stop();
  if (compute != nullptr) compute->rest();
  loops[0]->post([this] {
    listeners.close();
    for (auto& loop : loops) {
      loop->post(
          [&loop = *loop] { loop.for_each([](Connection& connection) { connection.drain(); }); });
    }
  });
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (connections.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  engine->set_wakeup(nullptr);
  if (pool != nullptr) pool->jobs().pools().set_wakeup(nullptr);
  leaves_redis = true;
  for (auto& loop : redis_loops) shared->detach(*loop);
  for (auto& loop : loops) loop->stop();
  // Answers what is still asked, for nobody to read.
  shared.reset();
  engine->set_store(nullptr);
  if (pool != nullptr) pool->stop();
  listeners.remove_files();
  // After the last decision.
  Status recorded = recorder == nullptr ? Status{Done{}} : recorder->close();
  Status computed = compute == nullptr ? Status{Done{}} : compute->stop();
  Status kept = keeper.end();
  if (kept) kept = std::move(computed);
  return kept ? std::move(recorded) : std::move(kept);
}

Result<std::unique_ptr<Server>> Server::start(config::Config config, Clock& clock,
                                              StartEmpty start_empty, Log log) {
  Result<Keeper> keeper = Keeper::open(config, start_empty);
  if (!keeper) return std::move(keeper).error();
  std::unique_ptr<Recorder> recorder;  // none: decisions are not recorded
  if (!config.record.empty()) {
    Result<std::unique_ptr<Recorder>> opened = Recorder::open(config.record, clock);
    if (!opened) return std::move(opened).error();
    recorder = std::move(*opened);
  }
  engine::EngineOptions options = options_of(config, *keeper);
  options.sink = recorder.get();
  Result<std::unique_ptr<engine::Engine>> engine = engine::Engine::create(config.rules, options);
  if (!engine) return std::move(engine).error();
  std::unique_ptr<Server> server(new Server(
      std::make_unique<Impl>(std::move(config), clock, std::move(*engine), std::move(*keeper))));
  Impl& impl = *server->impl_;
  impl.recorder = std::move(recorder);
  Result<engine::RestoreReport> restored = impl.keeper.begin(*impl.engine, impl.parts, clock);
  if (!restored) return std::move(restored).error();
  impl.restored = *restored;
  if (impl.config.sampling) {
    Status kept = impl.keeper.keep(*impl.config.sampling->sampling, clock.now());
    if (!kept) return std::move(kept).error();
  }
  impl.log = std::move(log);
  if (impl.config.compute) {
    Result<std::unique_ptr<Compute>> compute =
        Compute::start(impl.config, clock, [&impl] { impl.engine->try_waiters(impl.clock.now()); });
    if (!compute) return std::move(compute).error();
    impl.compute = std::move(*compute);
  }
  if (impl.config.redis) {
    const config::RedisSettings& redis = *impl.config.redis;
    impl.redis_loop = std::make_unique<store::redis::Loop>();
    impl.shared = std::make_unique<store::redis::SharedLimits>(
        *impl.redis_loop,
        store::redis::SharedOptions{
            .address = redis.address,
            .name = redis.name,
            .timeout = redis.timeout,
            .connections = redis.connections,
            .on_turn =
                [&impl](std::string_view why) {
                  if (!impl.leaves_redis) impl.say_turn("redis", why);
                },
            .on_beat = [&impl](std::string_view why) { impl.say_turn("heartbeats", why); }},
        clock);
    impl.engine->set_store(impl.shared.get());
  }
  if (impl.config.pools) {
    Result<std::unique_ptr<Pool>> pool = Pool::start(*impl.config.pools, clock);
    if (!pool) return std::move(pool).error();
    impl.pool = std::move(*pool);
  }
  Listeners& listeners = impl.listeners;
  for (const config::Address& address : impl.config.resp) {
    Status status = listeners.listen(address, Protocol::kResp);
    if (!status) return std::move(status).error();
  }
  for (const config::Address& address : impl.config.http) {
    Status status = listeners.listen(address, Protocol::kHttp);
    if (!status) return std::move(status).error();
  }
  impl.start(*server);
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { static_cast<void>(impl_->stop(Duration{0}).ok()); }

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> texts;
  for (const config::Address& address : impl_->listeners.addresses()) {
    texts.push_back(address.text());
  }
  return texts;
}
Readiness& Server::readiness() noexcept { return impl_->readiness; }
engine::Engine& Server::engine() noexcept { return *impl_->engine; }
Status Server::stop(Duration patience) { return impl_->stop(patience); }
const engine::RestoreReport& Server::restored() const noexcept { return impl_->restored; }

std::shared_ptr<system::throttle::Throttles> Server::throttles() const {
  const std::scoped_lock lock(impl_->config_lock);
  return impl_->config.throttles ? impl_->config.throttles->throttles : nullptr;
}

std::shared_ptr<const system::contract::Accounts> Server::accounts() const {
  const std::scoped_lock lock(impl_->config_lock);
  return impl_->config.accounts;
}

wire::http::ComputeParts Server::compute() const {
  return impl_->compute == nullptr ? wire::http::ComputeParts{} : impl_->compute->parts();
}

system::pool::HeldJobs* Server::pool() const {
  return impl_->pool == nullptr ? nullptr : &impl_->pool->jobs();
}

std::string Server::name_of(std::string_view token) const { return impl_->tokens.name_of(token); }

std::shared_ptr<system::sampling::Sampling> Server::sampling() const {
  const std::scoped_lock lock(impl_->config_lock);
  return impl_->config.sampling ? impl_->config.sampling->sampling : nullptr;
}

std::string Server::definitions_file() const {
  const std::scoped_lock lock(impl_->config_lock);
  return impl_->config.throttles ? impl_->config.throttles->file : "";
}

Status Server::reopen_recording() {
  return impl_->recorder == nullptr ? Status{Done{}} : impl_->recorder->reopen();
}

Role Server::role_of(std::string_view token) const { return impl_->tokens.role_of(token); }
std::uint64_t Server::token_epoch() const noexcept { return impl_->tokens.epoch(); }

std::string Server::metrics() const {
  return server_metrics(
      {.engine = *impl_->engine,
       .loops = impl_->loops,
       .http = *impl_->http,
       .readiness = impl_->readiness,
       .clock = impl_->clock,
       .keeper = impl_->keeper,
       .throttles = throttles(),
       .sampling = sampling(),
       .accounts = accounts(),
       .compute = compute(),
       .shared = impl_->shared == nullptr ? std::nullopt : std::optional(impl_->shared->counts()),
       .leases = impl_->shared == nullptr ? std::vector<store::redis::LeaseCounts>{}
                                          : impl_->shared->lease_counts(),
       .pool = impl_->pool.get(),
       .refused = impl_->refused.load(),
       .reloads = impl_->reloads.load(),
       .failed_reloads = impl_->failed_reloads.load()});
}

std::string Server::info() const {
  const engine::Engine& engine = *impl_->engine;
  std::string state;
  if (const std::optional<KeeperStats> kept = impl_->keeper.stats()) {
    state = fmt::format(
        "\r\n# State\r\nflushed_until_ns:{}\r\nlast_flush_ns:{}\r\nflushes:{}\r\n"
        "failed_flushes:{}\r\nflush_error:{}\r\n",
        kept->flusher.flushed_until.ns, kept->flusher.last_duration.count(), kept->store.flushes,
        kept->store.failed_flushes, kept->flusher.last_error);
  }
  return fmt::format(
      "# Server\r\nredis_version:7.0.0\r\nserver:weir\r\nprocess_id:{}\r\n\r\n"
      "# Clients\r\nconnected_clients:{}\r\nrefused_clients:{}\r\nblocked_clients:{}\r\n\r\n"
      "# Engine\r\nkeys:{}\r\ntable_bytes:{}\r\nholds:{}\r\nreloads:{}\r\n{}",
      ::getpid(), impl_->connections.load(), impl_->refused.load(), engine.usage().waiters,
      engine.usage().keys, engine.usage().table_bytes, engine.usage().holds, impl_->reloads.load(),
      state);
}

}  // namespace weir::server
