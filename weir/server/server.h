// Server: an engine behind sockets.
//
// One event loop for each core; a connection belongs to one of them and is decided
// there. Rules are read again on request; a file with mistakes leaves the old rules in
// force. stop() stops accepting, answers those who wait, lets replies be read, and ends.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/config/config.h"
#include "weir/engine/engine.h"
#include "weir/server/keeper.h"
#include "weir/server/log.h"
#include "weir/server/readiness.h"
#include "weir/wire/resp/session.h"

namespace weir::wire::http {
struct ComputeParts;
}
namespace weir::system::pool {
class HeldJobs;
}

namespace weir::server {

class Server final : public wire::resp::Host {
 public:
  // Brings back the state, binds the listeners and starts the loops. State that cannot
  // be used and an address that is taken are errors.
  static Result<std::unique_ptr<Server>> start(config::Config config, Clock& clock,
                                               StartEmpty start_empty = StartEmpty::kNo,
                                               Log log = {});
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, with the ports that were chosen for 0.
  std::vector<std::string> addresses() const;

  engine::Engine& engine() noexcept;
  // What /readyz tells. Once started the server is ready, until it stops or somebody
  // says otherwise here.
  Readiness& readiness() noexcept;

  // The throttles in force; nullptr: none are configured.
  std::shared_ptr<system::throttle::Throttles> throttles() const;

  // The sampling in force; nullptr: none is configured.
  std::shared_ptr<system::sampling::Sampling> sampling() const;

  // The contract accounts in force; nullptr: none are configured.
  std::shared_ptr<const system::contract::Accounts> accounts() const;

  // The ledger and the worker; neither: none are configured.
  wire::http::ComputeParts compute() const;

  // The pools; nullptr: none are configured.
  system::pool::HeldJobs* pool() const;

  // What a token is called; empty: it is not known, or has no name.
  std::string name_of(std::string_view token) const;

  // Where the definitions of throttles are read from; empty: nowhere.
  std::string definitions_file() const;

  // Reads the configuration again. Limits, tokens, throttles, sampling and contracts change;
  // accounts keep their values and reservations. A change of listeners, state, styles, bounds,
  // threads or the recording needs a restart, and is logged; one of an account's role or rule is
  // refused. Tokens may not all go while a listener can be reached from outside. Definitions that
  // are still the same stay as they are, also those of an upload since. `by`: who asked, for the
  // log.
  Status reload(std::string_view by) noexcept;
  Status reload() noexcept override { return reload("request"); }

  // Opens the recording's file again, for whoever has moved it away.
  Status reopen_recording();

  // Ends: drains for at most `patience`, closes what is left, writes the state. An error
  // says what could not be written.
  Status stop(Duration patience);

  // What was brought back at the start.
  const engine::RestoreReport& restored() const noexcept;

  Role role_of(std::string_view token) const override;
  std::uint64_t token_epoch() const noexcept override;
  std::string info() const override;
  // In the text format of Prometheus.
  std::string metrics() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::server
