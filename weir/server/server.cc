#include "weir/server/server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <thread>

#include "weir/server/loop.h"
#include "weir/server/recorder.h"
#include "weir/server/resp_connection.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using ErrorNumber = boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr auto kTick = std::chrono::milliseconds{100};         // sweeping, and looking at clocks
constexpr auto kAcceptPause = std::chrono::milliseconds{100};  // when the process has no more files

// Equal in a time that does not tell where they differ.
bool is_same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

Error cannot_listen(const config::Address& address, const ErrorNumber& error) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("listen: cannot listen on {}: {}; stop what is using it, or write "
                           "another address",
                           address.text(), error.message())};
}

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

}  // namespace

struct Server::Impl {
  Impl(config::Config given, Clock& the_clock, std::unique_ptr<engine::Engine> made, Keeper kept)
      : config(std::move(given)),
        clock(the_clock),
        engine(std::move(made)),
        keeper(std::move(kept)) {
    const unsigned count =
        config.threads > 0 ? config.threads : std::max(1u, std::thread::hardware_concurrency());
    for (unsigned i = 0; i < count; ++i) loops.push_back(std::make_unique<Loop>());
    engine_timer = std::make_unique<asio::steady_timer>(loops[0]->context());
    tick_timer = std::make_unique<asio::steady_timer>(loops[0]->context());
    bounds.idle = config.bounds.idle;
    bounds.slow = config.bounds.slow;
  }

  Status listen(const config::Address& address) {
    if (address.kind == config::Address::Kind::kUnix) {
      return listen_at(address, stream_protocol::endpoint(address.path), local_acceptors);
    }
    ErrorNumber error;
    const auto host = asio::ip::make_address(address.host, error);
    if (error) return cannot_listen(address, error);
    return listen_at(address, tcp::endpoint(host, address.port), tcp_acceptors);
  }

  template <typename Endpoint, typename Acceptors>
  Status listen_at(const config::Address& address, const Endpoint& endpoint, Acceptors& acceptors) {
    using Acceptor = typename Endpoint::protocol_type::acceptor;
    auto acceptor = std::make_unique<Acceptor>(loops[0]->context());
    ErrorNumber error;
    acceptor->open(endpoint.protocol(), error);
    if constexpr (std::is_same_v<Endpoint, tcp::endpoint>) {
      if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    } else {
      remove_stale_socket(address.path);
    }
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(kBacklog, error);
    if (error) return cannot_listen(address, error);
    if constexpr (std::is_same_v<Endpoint, tcp::endpoint>) {
      config::Address bound = address;
      bound.port = acceptor->local_endpoint().port();
      bound_at.push_back(bound.text());
    } else {
      bound_at.push_back(address.text());
    }
    acceptors.push_back(std::move(acceptor));
    return Done{};
  }

  // A socket file that nobody listens at is left over from a process that was killed.
  static void remove_stale_socket(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return;
    asio::io_context context;
    stream_protocol::socket probe(context);
    ErrorNumber error;
    probe.connect(stream_protocol::endpoint(path), error);
    if (error == asio::error::connection_refused) ::unlink(path.c_str());
  }

  template <typename Acceptor>
  void accept(Acceptor& acceptor) {
    Loop& loop = *loops[next_loop++ % loops.size()];
    acceptor.async_accept(
        loop.context(), [this, &acceptor, &loop](const ErrorNumber& error,
                                                 typename Acceptor::protocol_type::socket socket) {
          if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
          if (error) {
            // Out of files, most likely: those who wait in the backlog are taken later.
            auto pause = std::make_shared<asio::steady_timer>(loops[0]->context(), kAcceptPause);
            pause->async_wait([this, &acceptor, pause](const ErrorNumber&) {
              if (acceptor.is_open()) accept(acceptor);
            });
            return;
          }
          welcome(loop, std::move(socket));
          accept(acceptor);
        });
  }

  template <typename Accepted>
  void welcome(Loop& loop, Accepted socket) {
    if constexpr (std::is_same_v<Accepted, tcp::socket>) {
      ErrorNumber ignored;
      socket.set_option(tcp::no_delay(true), ignored);
    }
    if (connections.fetch_add(1, std::memory_order_relaxed) >= config.bounds.connections) {
      connections.fetch_sub(1, std::memory_order_relaxed);
      refused.fetch_add(1, std::memory_order_relaxed);
      ErrorNumber ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(std::string_view("-ERR max number of clients reached\r\n")),
                        ignored);
      return;
    }
    const Role role = has_tokens() ? Role::kNobody : Role::kAdmin;
    auto connection = std::make_shared<RespConnection>(
        loop, Socket(std::move(socket)), service, bounds, clock, ++last_id, role,
        [this] { connections.fetch_sub(1, std::memory_order_relaxed); });
    loop.post([connection] { connection->start(); });
  }

  bool has_tokens() const {
    const std::scoped_lock lock(config_lock);
    return !config.auth.empty();
  }

  void say(LogLevel level, std::string_view event, std::vector<LogField> fields) const {
    if (log) log({level, event, std::move(fields)});
  }
  // Says when a part of the world begins to fail and when it works again.
  void watch(std::string_view part, std::string& known, std::string trouble) const {
    if (trouble.empty() != known.empty()) {
      if (trouble.empty()) {
        say(LogLevel::kInfo, "outage-over", {{"part", std::string(part)}});
      } else {
        say(LogLevel::kError, "outage", {{"part", std::string(part)}, {"error", trouble}});
      }
    }
    known = std::move(trouble);
  }

  // --- time: on the first loop
  void arm_engine_timer(Instant at) {
    if (at == kForever) return;
    const Duration wait = std::max(Duration{0}, at - clock.now());
    engine_timer->expires_after(wait);
    engine_timer->async_wait([this](const ErrorNumber& error) {
      if (error) return;
      engine->advance(clock.now());
      arm_engine_timer(engine->next_instant());
    });
  }
  void tick() {
    tick_timer->expires_after(kTick);
    tick_timer->async_wait([this](const ErrorNumber& error) {
      if (error) return;
      engine->advance(clock.now());
      watch("state", state_trouble, keeper.trouble());
      if (recorder != nullptr) watch("record", record_trouble, recorder->trouble());
      for (auto& loop : loops) {
        loop->post([this, &loop = *loop] {
          loop.for_each(
              [now = clock.now()](Connection& connection) { connection.check_time(now); });
        });
      }
      tick();
    });
  }

  void start(Server& server) {
    service = {engine.get(),
               &server,
               config.rounding == config::Rounding::kCell ? wire::resp::Seconds::kCell
                                                          : wire::resp::Seconds::kDragonfly,
               {.bulk_bytes_max = config.bounds.request_bytes,
                .request_bytes_max = std::max(config.bounds.request_bytes, std::size_t{1} << 20)},
               recorder.get()};
    engine->set_wakeup(
        [this](Instant at) { loops[0]->post([this, at] { arm_engine_timer(at); }); });
    loops[0]->post([this] { tick(); });
    for (auto& acceptor : tcp_acceptors) accept(*acceptor);
    for (auto& acceptor : local_acceptors) accept(*acceptor);
    for (auto& loop : loops) loop->start();
  }

  Status stop(Duration patience) {
    if (std::exchange(stopped, true)) return Done{};
    loops[0]->post([this] {
      ErrorNumber ignored;
      for (auto& acceptor : tcp_acceptors) acceptor->close(ignored);
      for (auto& acceptor : local_acceptors) acceptor->close(ignored);
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
    for (auto& loop : loops) loop->stop();
    for (const config::Address& address : config.resp) {
      if (address.kind == config::Address::Kind::kUnix) ::unlink(address.path.c_str());
    }
    // After the last decision.
    Status recorded = recorder == nullptr ? Status{Done{}} : recorder->close();
    Status kept = keeper.end();
    return kept ? std::move(recorded) : std::move(kept);
  }

  mutable std::mutex config_lock;
  config::Config config;
  Clock& clock;
  std::unique_ptr<engine::Engine> engine;
  Keeper keeper;  // after the engine it reads
  engine::RestoreReport restored;
  std::unique_ptr<Recorder> recorder;  // nullptr: nothing is recorded
  Log log;
  std::string state_trouble, record_trouble;  // as last said
  wire::resp::Service service;
  ConnectionBounds bounds;
  std::vector<std::string> bound_at;
  std::atomic<std::size_t> connections{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> last_id{0};
  std::atomic<std::uint64_t> reloads{0};
  std::size_t next_loop = 0;
  bool stopped = false;
  // Destroyed in reverse: acceptors and timers before the loops they live on.
  std::vector<std::unique_ptr<Loop>> loops;
  std::unique_ptr<asio::steady_timer> engine_timer;
  std::unique_ptr<asio::steady_timer> tick_timer;
  std::vector<std::unique_ptr<tcp::acceptor>> tcp_acceptors;
  std::vector<std::unique_ptr<stream_protocol::acceptor>> local_acceptors;
};

Result<std::unique_ptr<Server>> Server::start(config::Config config, Clock& clock,
                                              StartEmpty start_empty, Log log) {
  Result<Keeper> keeper = Keeper::open(config, start_empty);
  if (!keeper) return std::move(keeper).error();
  Result<std::unique_ptr<engine::Engine>> engine =
      engine::Engine::create(config.rules, options_of(config, *keeper));
  if (!engine) return std::move(engine).error();
  std::unique_ptr<Server> server(new Server(
      std::make_unique<Impl>(std::move(config), clock, std::move(*engine), std::move(*keeper))));
  Impl& impl = *server->impl_;
  Result<engine::RestoreReport> restored = impl.keeper.begin(*impl.engine, clock);
  if (!restored) return std::move(restored).error();
  impl.restored = *restored;
  impl.log = std::move(log);
  if (!impl.config.record.empty()) {
    Result<std::unique_ptr<Recorder>> recorder = Recorder::open(impl.config.record, clock);
    if (!recorder) return std::move(recorder).error();
    impl.recorder = std::move(*recorder);
  }
  for (const config::Address& address : server->impl_->config.resp) {
    if (Status status = server->impl_->listen(address); !status) return std::move(status).error();
  }
  server->impl_->start(*server);
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { static_cast<void>(impl_->stop(Duration{0}).ok()); }

std::vector<std::string> Server::addresses() const { return impl_->bound_at; }
std::vector<config::Address> Server::not_served() const { return impl_->config.http; }
engine::Engine& Server::engine() noexcept { return *impl_->engine; }
Status Server::stop(Duration patience) { return impl_->stop(patience); }
const engine::RestoreReport& Server::restored() const noexcept { return impl_->restored; }

Status Server::reload(std::string_view by) {
  std::string path;
  {
    const std::scoped_lock lock(impl_->config_lock);
    path = impl_->config.path;
  }
  Result<config::Config> next = config::load(path);
  Status status =
      next ? impl_->engine->swap(next->rules, impl_->clock.now()) : Status{std::move(next).error()};
  if (!status) {
    impl_->say(LogLevel::kError, "reload-refused",
               {{"config", path}, {"by", std::string(by)}, {"mistakes", status.error().message}});
    return status;
  }
  {
    const std::scoped_lock lock(impl_->config_lock);
    impl_->config.rules = next->rules;
    impl_->config.limits_spec = std::move(next->limits_spec);
    impl_->config.auth = std::move(next->auth);
  }
  impl_->reloads.fetch_add(1, std::memory_order_relaxed);
  impl_->say(LogLevel::kInfo, "reload", {{"config", path}, {"by", std::string(by)}});
  return Done{};
}

Status Server::reopen_recording() {
  return impl_->recorder == nullptr ? Status{Done{}} : impl_->recorder->reopen();
}

Role Server::role_of(std::string_view token) const {
  const std::scoped_lock lock(impl_->config_lock);
  Role role = Role::kNobody;
  for (const config::AuthToken& known : impl_->config.auth) {
    if (is_same_secret(token, known.token)) role = known.role;
  }
  return role;
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
      ::getpid(), impl_->connections.load(), impl_->refused.load(), engine.waiters(), engine.keys(),
      engine.table_bytes(), engine.holds(), impl_->reloads.load(), state);
}

}  // namespace weir::server
