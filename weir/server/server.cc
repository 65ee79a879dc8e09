// The server: what it is made of, its life, its clock and its configuration.
//
// 1. Members end in reverse order: listeners and timers before the loops they live on, connections
//    before what they speak to.
// 2. A reload that is refused has changed nothing: every step that may fail comes before the first
//    that changes, and room for the next rules is reserved before.
// 3. config is what is in force. What takes a restart stays in it as it was at the start.

#include "weir/server/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "weir/base/assert.h"
#include "weir/server/attempts.h"
#include "weir/server/clients.h"
#include "weir/server/http_front.h"
#include "weir/server/listeners.h"
#include "weir/server/loop.h"
#include "weir/server/recorder.h"
#include "weir/server/reloader.h"
#include "weir/server/seldom.h"
#include "weir/server/server_metrics.h"
#include "weir/server/shared_store.h"
#include "weir/server/tokens.h"
#include "weir/server/turns.h"
#include "weir/server/wake_timer.h"

namespace weir::server {
namespace {

constexpr auto kTick = std::chrono::milliseconds{100};  // sweeping, and looking at clocks

// As they stand in weir.yaml.
constexpr engine::SettingNames kSettingNames{.keys = "bounds.keys",
                                             .ad_hoc_keys = "bounds.cl_throttle_keys",
                                             .when_full = "bounds.when_full",
                                             .log_runs = "bounds.log_runs",
                                             .holds = "bounds.holds",
                                             .overrides = "bounds.overrides",
                                             .hold = "bounds.hold",
                                             .wait = "bounds.wait",
                                             .book = "bounds.book",
                                             .declare_attribute = "write it under 'attributes'",
                                             .declare_unit = "write it under 'units'"};

engine::EngineOptions options_of(const config::Config& config, const Keeper& keeper) {
  engine::EngineOptions options;
  keeper.prepare(options);
  options.keys_max = config.bounds.keys;
  options.when_full = config.bounds.when_full;
  options.ad_hoc_keys_max = config.bounds.cl_throttle_keys;
  options.log_runs_max = config.bounds.log_runs;
  options.holds_max = config.bounds.holds;
  options.waiters_max = config.bounds.waiting;
  options.overrides_max = config.bounds.overrides;
  options.hold_max = config.bounds.hold;
  options.wait_max = config.bounds.wait;
  options.book_max = config.bounds.book;
  options.names = kSettingNames;
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

ConnectionBounds connection_bounds(const config::Bounds& given, UnreadReplies& all_replies) {
  ConnectionBounds bounds;
  bounds.idle = given.idle;
  bounds.slow = given.slow;
  bounds.output_bytes = given.reply_bytes;
  bounds.all_replies = &all_replies;
  return bounds;
}

std::vector<std::unique_ptr<Loop>> make_loops(unsigned threads) {
  const unsigned count = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<Loop>> loops;
  for (unsigned i = 0; i < count; ++i) loops.push_back(std::make_unique<Loop>());
  return loops;
}

// Why a reload is refused.
struct Refusal {
  Refusal(Error why) : Refusal(std::move(why), true) {}
  Refusal(Error why, bool may_be_of_file)
      : error(std::move(why)),
        is_of_file(may_be_of_file && error.code == ErrorCode::kBadArgument) {}

  Error error;
  bool is_of_file;  // its mistakes; no: it cannot be read, or a store or a fleet has said no
};

}  // namespace

struct Server::Impl {
  Impl(config::Config given, Clock& the_clock, Keeper kept, Log the_log,
       std::span<const MakeSystem> makers)
      : config(std::move(given)),
        clock(the_clock),
        log(std::move(the_log)),
        keeper(std::move(kept)),
        systems(makers, ground),
        tokens(config.auth),
        all_replies(config.bounds.reply_bytes_all),
        bounds(connection_bounds(config.bounds, all_replies)),
        loops(make_loops(config.threads)) {}

  // --- life
  Status start(Server& server);
  Status make_engine();
  void tell_of_unusable_parts();
  void set_timers();
  Status stop(Duration patience);

  // --- time, on the first loop
  void tick();
  void look_after_state();
  void look_at_obstructions();
  void look_at_overages();

  // --- configuration
  std::string path() const {
    const std::scoped_lock lock(config_lock);
    return config.path;
  }
  Status check_tokens(const config::Config& next) const;
  Status check_losses(const config::Config& next) const;
  using Rules = std::shared_ptr<const engine::RuleSet>;
  std::optional<Refusal> prepare(const config::Config& next, Rules& rules);
  std::optional<Refusal> put_in_force(bool is_asked);
  Status reload(std::string_view by);

  void say_warnings(const config::Config& of) const {
    for (const std::string& warning : of.warnings) {
      say(LogLevel::kWarning, "config-warning", {{"warning", warning}});
    }
  }

  void say(LogLevel level, std::string_view event, std::vector<LogField> fields) const {
    if (log) log({level, event, std::move(fields)});
  }

  std::mutex reload_lock;  // held while the configuration changes
  mutable std::mutex config_lock;
  config::Config config;
  Clock& clock;
  const Log log;
  Turns turns{log};
  Keeper keeper;
  const SystemGround ground{clock, keeper, log, [this] { engine->try_waiters(clock.now()); }};
  Systems systems;
  std::unique_ptr<Recorder> recorder;  // nullptr: nothing is recorded
  std::unique_ptr<engine::Engine> engine;
  engine::RestoreReport restored;
  Tokens tokens;
  Readiness readiness;
  Seldom http_on_resp{std::chrono::seconds{10}};  // lines in the log
  Seldom auth_failed{std::chrono::seconds{10}};
  Attempts attempts;
  Seldom overage_looks{std::chrono::seconds{10}};
  std::map<std::string, std::uint64_t> clipped;  // of each limit, when it was last looked at
  std::atomic<std::uint64_t> reloads{0};
  std::atomic<std::uint64_t> failed_reloads{0};
  bool stopped = false;
  UnreadReplies all_replies;
  const ConnectionBounds bounds;
  std::vector<std::unique_ptr<Loop>> loops;
  std::vector<std::unique_ptr<WakeTimer>> wake_timers;  // of the engine and the systems
  boost::asio::steady_timer tick_timer{loops[0]->context()};
  std::unique_ptr<SharedStore> shared;  // nullptr: no limit can be shared
  wire::resp::Service service;
  std::unique_ptr<HttpFront> http;
  Clients clients{config.bounds.connections, bounds, clock};
  Listeners listeners{loops, [this](Protocol protocol, Loop& loop, Socket socket) {
                        clients.welcome(protocol, loop, std::move(socket));
                      }};
  Reloader reloader{[this] { return reload("request"); }};  // for clients
};

// --- life

Status Server::Impl::make_engine() {
  if (Status status = systems.check(config); !status) return status;
  Result<std::shared_ptr<const engine::RuleSet>> rules = config.rules.bind(systems.gates());
  if (!rules) return std::move(rules).error();
  engine::EngineOptions options = options_of(config, keeper);
  options.sink = recorder.get();
  Result<std::unique_ptr<engine::Engine>> made = engine::Engine::create(*rules, options);
  if (!made) return std::move(made).error();
  engine = std::move(*made);
  systems.change(clock.now());
  return Done{};
}

// The rest of the state is used. Somebody should look at what it begins with instead.
void Server::Impl::tell_of_unusable_parts() {
  for (store::sqlite::UnusablePart& part : keeper.unusable_parts()) {
    readiness.note(part.name, "what was kept could not be used; it began empty, or as configured");
    say(LogLevel::kError, "part-unusable",
        {{"part", std::move(part.name)},
         {"error", std::move(part.why)},
         {"kept_as", std::move(part.kept_as)}});
  }
}

// Calls of a hook come from any thread.
void Server::Impl::set_timers() {
  const auto add = [this](auto& of, std::function<void(Instant)> call) {
    wake_timers.push_back(std::make_unique<WakeTimer>(
        *loops[0], clock, [&of] { return of.next_instant(); }, std::move(call)));
    of.set_wakeup([timer = wake_timers.back().get()](Instant) { timer->look(); });
    wake_timers.back()->look();
  };
  add(*engine, [this](Instant now) { engine->advance(now); });
  for (const auto& system : systems) {
    add(*system, [each = system.get()](Instant now) { each->tick(now); });
  }
}

Status Server::Impl::start(Server& server) {
  say_warnings(config);
  if (!config.record.empty()) {
    Result<std::unique_ptr<Recorder>> opened = Recorder::open(config.record, clock);
    if (!opened) return std::move(opened).error();
    recorder = std::move(*opened);
  }
  if (Status status = make_engine(); !status) return status;
  Result<engine::RestoreReport> brought_back = keeper.begin(*engine, systems, clock);
  if (!brought_back) return std::move(brought_back).error();
  restored = *brought_back;
  tell_of_unusable_parts();
  if (config.redis) {
    shared = std::make_unique<SharedStore>(*config.redis, clock, turns, readiness);
    if (Status status = shared->check(); !status) return status;
    set_store(*engine, &shared->limits());
  }
  if (Status status = systems.start(); !status) return status;
  look_at_obstructions();
  for (const config::Address& address : config.resp) {
    if (Status status = listeners.listen(address, Protocol::kResp); !status) return status;
  }
  for (const config::Address& address : config.http) {
    if (Status status = listeners.listen(address, Protocol::kHttp); !status) return status;
  }
  service = {.engine = engine.get(),
             .host = &server,
             .rounding = config.rounding == config::Rounding::kCell
                             ? wire::resp::Seconds::kCell
                             : wire::resp::Seconds::kDragonfly,
             .bounds = resp_bounds(config.bounds),
             .reply_bytes_max = bounds.output_bytes,
             .systems = systems.commands()};
  http = std::make_unique<HttpFront>(server, *engine, config, systems.routes(), tokens, clock,
                                     bounds, loops);
  clients.set(*http, service);
  set_timers();
  loops[0]->post([this] { tick(); });
  for (auto& loop : loops) {
    loop->when_written = [this](std::uint64_t record, std::function<void(const Status&)> told) {
      systems.when_written(record, told);
    };
    loop->when_http = [this](std::string from) {
      const std::uint64_t times = http_on_resp.count(clock.now());
      if (times == 0) return;
      say(LogLevel::kWarning, "http-on-resp",
          {{"from", from.empty() ? "unix" : std::move(from)}, {"times", std::to_string(times)}});
    };
  }
  for (auto& loop : loops) {
    loop->when_unknown_token = [this](std::string from) {
      const Instant now = clock.now();
      // A unix socket has no addresses to tell clients apart, and its file says who may connect.
      const Duration delay = from.empty() ? Duration{0} : attempts.fail(from, now);
      if (const std::uint64_t times = auth_failed.count(now); times > 0) {
        say(LogLevel::kWarning, "auth-failed",
            {{"from", from.empty() ? "unix" : std::move(from)}, {"times", std::to_string(times)}});
      }
      return delay;
    };
  }
  listeners.start();
  for (auto& loop : loops) loop->start();
  reloader.start();
  if (shared != nullptr) shared->attach(loops);
  return Done{};
}

Status Server::Impl::stop(Duration patience) {
  if (std::exchange(stopped, true)) return Done{};
  readiness.obstruct("server", "it is stopping");
  reloader.stop();
  systems.rest();
  loops[0]->post([this] {
    listeners.close();
    for (auto& loop : loops) {
      loop->post(
          [&loop = *loop] { loop.for_each([](Connection& connection) { connection.drain(); }); });
    }
  });
  // Those who have not left by then are cut off.
  static_cast<void>(clients.wait_for_the_last(clock.now() + patience));
  if (engine != nullptr) engine->set_wakeup(nullptr);
  for (const auto& system : systems) system->set_wakeup(nullptr);
  if (shared != nullptr) shared->leave();
  for (auto& loop : loops) loop->stop();
  // Answers what is still asked; its clients have gone.
  shared.reset();
  if (engine != nullptr) set_store(*engine, nullptr);
  listeners.remove_files();
  // After the last decision.
  Status ended = systems.stop();
  Status recorded = recorder == nullptr ? Status{Done{}} : recorder->close();
  Status kept = keeper.end();
  if (kept) kept = std::move(ended);
  return kept ? std::move(recorded) : std::move(kept);
}

// --- time

void Server::Impl::look_after_state() {
  std::string trouble = keeper.trouble();
  if (trouble.empty()) trouble = systems.state_trouble();
  turns.look("state", trouble);
  if (trouble.empty()) {
    readiness.clear("state");
  } else {
    readiness.obstruct("state", std::move(trouble));
  }
}

void Server::Impl::look_at_obstructions() {
  for (const auto& system : systems) {
    std::string why = system->obstruction();
    if (why.empty()) {
      readiness.clear(system->name());
    } else {
      readiness.obstruct(std::string(system->name()), std::move(why));
    }
  }
}

// A line for however many, which tells of the limit that was hit most.
void Server::Impl::look_at_overages() {
  if (overage_looks.count(clock.now()) == 0) return;
  std::map<std::string, std::uint64_t> now;
  std::uint64_t most = 0;
  std::uint64_t times = 0;
  std::string worst;
  for (const engine::LimitCounts& limit : engine->counts().limits) {
    if (limit.clipped == 0) continue;
    now.emplace(limit.limit, limit.clipped);
    const auto before = clipped.find(limit.limit);
    const std::uint64_t more = limit.clipped - (before == clipped.end() ? 0 : before->second);
    times += more;
    if (more > most) {
      most = more;
      worst = limit.limit;
    }
  }
  clipped = std::move(now);
  if (times == 0) return;
  say(LogLevel::kWarning, "overage-clipped",
      {{"limit", std::move(worst)}, {"times", std::to_string(times)}});
}

void Server::Impl::tick() {
  tick_timer.expires_after(kTick);
  tick_timer.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    engine->advance(clock.now());
    look_after_state();
    look_at_overages();
    if (recorder != nullptr) turns.look("record", recorder->trouble());
    for (const auto& system : systems) {
      system->tick(clock.now());
      turns.look(system->name(), system->trouble());
    }
    look_at_obstructions();
    for (auto& loop : loops) {
      loop->post([this, &loop = *loop] {
        loop.for_each([now = clock.now()](Connection& connection) { connection.check_time(now); });
      });
    }
    tick();
  });
}

// --- configuration

// The sockets stay those of the start, so a file that may do without tokens on its own
// listeners may not on these.
Status Server::Impl::check_tokens(const config::Config& next) const {
  if (!next.auth.empty()) return Done{};
  for (const config::Address& address : listeners.addresses()) {
    if (address.is_local()) continue;
    return bad_argument(fmt::format(
        "{}: auth is missing, but the server still listens on {}, which can be reached from "
        "outside, and other listeners need a restart; write 'auth: [ {{ token: ..., role: ... }} "
        "]', or restart",
        next.path, address.text()));
  }
  return Done{};
}

// Half a file may be in order, and what stands in its other half would be gone: with the tokens
// everybody is an administrator, with the limits everything that was used is forgotten.
Status Server::Impl::check_losses(const config::Config& next) const {
  const auto lost = [&](std::string_view key) {
    return bad_argument(
        fmt::format("{}: {} is gone, and nobody asked for this reload, so the file may be half "
                    "written; write it again, or send SIGHUP or WEIR.RELOAD to do without",
                    next.path, key));
  };
  if (!config.auth.empty() && next.auth.empty()) return lost("auth");
  if (config::has_limits(config) && !config::has_limits(next)) return lost("every limit");
  return Done{};
}

// Every step of a reload that may fail, once the file has been read, and the rules to swap to.
std::optional<Refusal> Server::Impl::prepare(const config::Config& next, Rules& rules) {
  if (Status status = systems.check(next); !status) return status.error();
  Result<Rules> bound = next.rules.bind(systems.gates());
  if (!bound) return std::move(bound).error();
  rules = std::move(*bound);
  if (Status status = engine->reserve(*rules, clock.now()); !status) return status.error();
  if (Status status = systems.agree(); !status) return Refusal(status.error(), false);
  return std::nullopt;
}

// Nothing: what the file says is in force.
std::optional<Refusal> Server::Impl::put_in_force(bool is_asked) {
  const std::scoped_lock one_at_a_time(reload_lock);
  Result<config::NextConfig> loaded = config::load_next(path(), config);
  if (!loaded) return std::move(loaded).error();
  config::Config& next = loaded->config;
  if (Status status = check_tokens(next); !status) return status.error();
  if (!is_asked) {
    if (Status status = check_losses(next); !status) return status.error();
  }

  Rules rules;
  if (std::optional<Refusal> refusal = prepare(next, rules)) {
    systems.drop();
    return refusal;
  }
  const bool has_swapped = engine->swap(rules, clock.now()).ok();
  WEIR_ASSERT(has_swapped);  // there is room for them
  systems.change(clock.now());
  engine->try_waiters(clock.now());
  tokens.set(next.auth);
  http->admit(next.visitors);
  say_warnings(next);
  {
    const std::scoped_lock lock(config_lock);
    config = std::move(next);
  }
  if (!loaded->restarts.empty()) {
    say(LogLevel::kWarning, "restart-needed",
        {{"config", path()}, {"changed", fmt::format("{}", fmt::join(loaded->restarts, ", "))}});
  }
  return std::nullopt;
}

Status Server::Impl::reload(std::string_view by) {
  std::optional<Refusal> refusal = put_in_force(by != kByFileChange);
  (refusal ? failed_reloads : reloads).fetch_add(1, std::memory_order_relaxed);
  if (!refusal) {
    say(LogLevel::kInfo, "reload", {{"config", path()}, {"by", std::string(by)}});
    return Done{};
  }
  say(LogLevel::kError, "reload-refused",
      {{"config", path()},
       {"by", std::string(by)},
       {refusal->is_of_file ? "mistakes" : "error", refusal->error.message}});
  return std::move(refusal->error);
}

Status Server::reload(std::string_view by) noexcept { return impl_->reload(by); }

void Server::reload_later(engine::StatusCallback told) noexcept {
  impl_->reloader.ask(std::move(told));
}

// --- the server as others see it

Result<std::unique_ptr<Server>> Server::start(config::Config config, Clock& clock,
                                              StartEmpty start_empty, Log log,
                                              std::span<const MakeSystem> systems) {
  Result<Keeper> keeper = Keeper::open(config, start_empty);
  if (!keeper) return std::move(keeper).error();
  std::unique_ptr<Server> server(new Server(std::make_unique<Impl>(
      std::move(config), clock, std::move(*keeper), std::move(log), systems)));
  if (Status status = server->impl_->start(*server); !status) return std::move(status).error();
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
const Systems& Server::systems() const noexcept { return impl_->systems; }
Status Server::stop(Duration patience) { return impl_->stop(patience); }
const engine::RestoreReport& Server::restored() const noexcept { return impl_->restored; }

std::string Server::name_of(std::string_view token) const { return impl_->tokens.name_of(token); }

bool Server::speaks_for_consensus(std::string_view token) const {
  return impl_->tokens.speaks_for_consensus(token);
}

std::vector<std::string> Server::files() const {
  const std::scoped_lock lock(impl_->config_lock);
  return impl_->config.files;
}

Status Server::reopen_recording() {
  return impl_->recorder == nullptr ? Status{Done{}} : impl_->recorder->reopen();
}

Role Server::role_of(std::string_view token) const { return impl_->tokens.role_of(token); }
engine::Standing Server::standing_of(std::string_view token) const {
  return impl_->tokens.standing_of(token);
}
std::uint64_t Server::token_epoch() const noexcept { return impl_->tokens.epoch(); }

std::string Server::metrics() const {
  SharedStore* const shared = impl_->shared.get();
  return server_metrics(
      {.engine = *impl_->engine,
       .loops = impl_->loops,
       .http = *impl_->http,
       .readiness = impl_->readiness,
       .clock = impl_->clock,
       .keeper = impl_->keeper,
       .systems = impl_->systems,
       .shared = shared == nullptr ? std::nullopt : std::optional(shared->limits().counts()),
       .leases = shared == nullptr ? std::vector<store::redis::LeaseCounts>{}
                                   : shared->limits().lease_counts(),
       .refused = impl_->clients.refused(),
       .unread = impl_->all_replies,
       .reloads = impl_->reloads.load(),
       .failed_reloads = impl_->failed_reloads.load()});
}

std::string Server::info() const {
  const engine::Usage usage = impl_->engine->usage();
  std::string state;
  if (const std::optional<KeeperStats> kept = impl_->keeper.stats()) {
    state = fmt::format(
        "\r\n# State\r\nflushed_until_ns:{}\r\nlast_flush_ns:{}\r\nflushes:{}\r\n"
        "failed_flushes:{}\r\nflush_error:{}\r\n",
        kept->flusher.flushed_until.ns, kept->flusher.last_duration.count(), kept->store.flushes,
        kept->store.failed_flushes, kept->flusher.last_error);
  }
  return fmt::format(
      "# Server\r\nredis_version:7.0.0\r\nserver:weir\r\nweir_version:" WEIR_VERSION
      "\r\nprocess_id:{}\r\n\r\n"
      "# Clients\r\nconnected_clients:{}\r\nrefused_clients:{}\r\nblocked_clients:{}\r\n\r\n"
      "# Engine\r\nkeys:{}\r\ntable_bytes:{}\r\nholds:{}\r\nreloads:{}\r\n{}",
      ::getpid(), impl_->clients.connected(), impl_->clients.refused(), usage.waiters, usage.keys,
      usage.table_bytes, usage.holds, impl_->reloads.load(), state);
}

}  // namespace weir::server
