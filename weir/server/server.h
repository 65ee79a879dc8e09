// Server: an engine and its systems behind sockets.
//
// One event loop for each core; a connection belongs to one of them and is decided
// there. Rules are read again on request; a file with mistakes leaves the old rules in
// force. stop() stops accepting, answers those who wait, lets replies be read, and ends.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
#include "weir/server/systems.h"
#include "weir/wire/resp/session.h"

namespace weir::server {

// What asks for a reload where nobody does.
constexpr std::string_view kByFileChange = "file change";

class Server final : public wire::resp::Host {
 public:
  // Brings back the state, binds the listeners and starts the loops. State that cannot
  // be used and an address that is taken are errors.
  static Result<std::unique_ptr<Server>> start(config::Config config, Clock& clock,
                                               StartEmpty start_empty = StartEmpty::kNo,
                                               Log log = {},
                                               std::span<const MakeSystem> systems = all_systems());
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, with the ports that were chosen for 0.
  std::vector<std::string> addresses() const;

  engine::Engine& engine() noexcept;
  const Systems& systems() const noexcept;
  // What /readyz tells. Once started the server is ready, until it stops or a part of it says
  // otherwise here.
  Readiness& readiness() noexcept;

  // What a token is called; empty: it is not known, or has no name.
  std::string name_of(std::string_view token) const;
  bool speaks_for_consensus(std::string_view token) const;

  // Files besides the configuration that it was read from: when one changes, reload() is due.
  std::vector<std::string> files() const;

  // Reads the configuration again: parse, every system checks, the engine swaps, every system
  // changes. An error changes nothing. What needs a restart stays as it is and is logged. Tokens
  // may not all go while a listener can be reached from outside. `by`: what asked, for the log; a
  // file that changed by itself may be half a file, so it takes neither all tokens nor all limits
  // away.
  Status reload(std::string_view by) noexcept;
  Status reload() noexcept { return reload("request"); }
  // The same on a thread of its own, so that no loop stands still meanwhile. Those who ask while
  // one has not begun are told of that one.
  void reload_later(engine::StatusCallback told) noexcept override;

  // Opens the recording's file again, after a program has moved it away.
  Status reopen_recording();

  // Ends: drains for at most `patience`, closes what is left, writes the state. An error
  // says what could not be written.
  Status stop(Duration patience);

  // What was brought back at the start.
  const engine::RestoreReport& restored() const noexcept;

  Role role_of(std::string_view token) const override;
  engine::Standing standing_of(std::string_view token) const override;
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
