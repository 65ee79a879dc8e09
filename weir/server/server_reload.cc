// The configuration read again, while the server works on.

#include <fmt/format.h>

#include <utility>

#include "weir/server/server_impl.h"

namespace weir::server {

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

Status Server::Impl::reload() {
  const std::scoped_lock one_at_a_time(reload_lock);
  Result<config::Config> next = config::load(path());
  if (!next) return std::move(next).error();
  if (Status status = check_tokens(*next); !status) return status;
  const std::vector<std::string_view> keys = config::needs_restart(config, *next);
  if (Status status = config::keep_throttles(config, *next); !status) return status;
  if (Status status = config::keep_contracts(config, *next); !status) return status;
  if (Status status = config::keep_compute(config, *next); !status) return status;
  if (Status status = config::keep_sampling(config, *next); !status) return status;
  if (Status status = config::keep_redis(config, *next); !status) return status;
  if (next->sampling && !config.sampling) {
    Status status = keeper.keep(*next->sampling->sampling, clock.now());
    if (!status) return status;
  }
  // The only change that somebody outside may refuse goes before the others.
  const bool changes_pools = config.pools && next->pools && *config.pools != *next->pools &&
                             config::can_change(*config.pools, *next->pools);
  if (changes_pools) {
    if (Status status = pool->change(*next->pools); !status) return status;
  }
  if (Status status = engine->swap(next->rules, clock.now()); !status) return status;
  if (config.throttles && next->throttles) {
    Status status =
        next->throttles->throttles->change(config.throttles->spec, next->throttles->spec);
    if (!status) return status;
  }
  // keep_contracts() and the reader of the file have judged them.
  if (Status status = config::change_contracts(config, *next, clock.now()); !status) return status;
  if (!keys.empty()) {
    say(LogLevel::kWarning, "restart-needed",
        {{"config", next->path}, {"changed", fmt::format("{}", fmt::join(keys, ", "))}});
  }
  if (next->sampling) {
    Result<system::sampling::Rules> rules = system::sampling::make_rules(next->sampling->spec);
    if (!rules) return std::move(rules).error();
    next->sampling->sampling->set_rules(std::move(*rules));
  }
  engine->try_waiters(clock.now());
  {
    const std::scoped_lock lock(config_lock);
    config.sampling = std::move(next->sampling);
    config.contracts = std::move(next->contracts);
    config.accounts = std::move(next->accounts);
    config.throttles = std::move(next->throttles);
    if (changes_pools) config.pools = std::move(next->pools);
    config.rules = next->rules;
    config.limits_spec = std::move(next->limits_spec);
    tokens.set(std::move(next->auth));
  }
  // Waits for those that end, and so without the lock that requests take.
  followers.follow(config.contracts, log);
  return Done{};
}

Status Server::reload(std::string_view by) noexcept {
  Status status = impl_->reload();
  (status ? impl_->reloads : impl_->failed_reloads).fetch_add(1, std::memory_order_relaxed);
  const std::string path = impl_->path();
  if (status) {
    impl_->say(LogLevel::kInfo, "reload", {{"config", path}, {"by", std::string(by)}});
  } else {
    impl_->say(LogLevel::kError, "reload-refused",
               {{"config", path}, {"by", std::string(by)}, {"mistakes", status.error().message}});
  }
  return status;
}

}  // namespace weir::server
