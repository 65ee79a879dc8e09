// System: one of the systems of a server, as one object.
//
// The server walks a list of them (systems.h) and knows none of them by name. One that is not
// configured is there, too: it has no gates, and its routes say how to configure it.
//
//   start    every system check()s the configuration; the engine is made with their gates();
//            every system change()s to it; the state is brought back; every system start()s
//   reload   every system check()s the next configuration; those who must agree() do; the engine
//            swaps its rules; every system change()s. Refused on the way, every system drop()s
//   stop     every system rest()s; connections end; every system stop()s; the state is written
//
// A reload that is refused stops before the first change(), and then nothing has changed.
//
// Thread safety: check(), agree(), change() and drop() are called by one thread at a time, tick()
// by the first loop. Everything else may be called from any thread, at any time.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/config/config.h"
#include "weir/engine/rules.h"
#include "weir/server/log.h"
#include "weir/server/metrics.h"
#include "weir/store/sqlite/parts.h"
#include "weir/wire/http/routes.h"
#include "weir/wire/resp/command.h"

namespace weir::server {

class Keeper;

// What the server lends its systems. It outlives them.
struct SystemGround {
  Clock& clock;
  Keeper& keeper;
  const Log& log;
  // A gate has more room than before: waiters are tried.
  std::function<void()> try_waiters;
};

class System {
 public:
  virtual ~System() = default;

  // The word for it in the log: that of its section in weir.yaml.
  virtual std::string_view name() const noexcept = 0;

  // --- configuration

  // Whether `next` can be put in force. Makes what is new in it, in memory; what is in force stays
  // as it is. Called again, it forgets what it made before.
  virtual Status check(const config::Config& next) = 0;
  // Adds the gates that `next`'s limits may name, by their names.
  virtual void add_gates(engine::Gates& /*gates*/) const {}
  // Asks others than this process, who must agree to what was checked: a fleet, a disk. The last
  // step of a reload that may fail. With an error nothing has changed; otherwise it has.
  virtual Status agree() { return Done{}; }
  // Puts in force what was checked.
  virtual void change(Instant now) noexcept = 0;
  // What was checked is not put in force: lets go of it.
  virtual void drop() noexcept {}

  // --- life

  // Once, when the state has been brought back and before the first request.
  virtual Status start() { return Done{}; }
  // Every 100 ms, and at next_instant().
  virtual void tick(Instant /*now*/) {}
  virtual Instant next_instant() const noexcept { return kForever; }
  // `hook` is told when next_instant() becomes earlier; none: not any more.
  virtual void set_wakeup(std::function<void(Instant)> /*hook*/) {}
  // Begins nothing by itself any more. Requests are still answered.
  virtual void rest() {}
  // Ends, after the last request. An error says what could not be written.
  virtual Status stop() { return Done{}; }

  // --- what it shows

  // Why a part of it does not work; empty: it does.
  virtual std::string trouble() const { return {}; }
  // Why requests should not be sent here, as it refuses them all; empty: they may be.
  virtual std::string obstruction() const { return {}; }
  // Why files of its own could not be written; empty: they were. The server is not ready meanwhile.
  virtual std::string state_trouble() const { return {}; }
  // Its metrics, and their values.
  virtual std::span<const MetricRow> metric_rows() const noexcept { return {}; }
  virtual void write_metrics(MetricsText& /*out*/, Instant /*now*/) const {}
  // Its state that outlives the process; nullptr: none, or it keeps it by itself.
  virtual store::sqlite::Parts* parts() noexcept { return nullptr; }
  // Of the one system whose answers wait for records of its own: calls `told` once when this one
  // is on disk, or has failed to get there. False: the record is not its.
  virtual bool when_written(std::uint64_t /*record*/,
                            const std::function<void(const Status&)>& /*told*/) {
    return false;
  }

  // --- how it is asked, besides by its gates

  // nullptr: not over HTTP.
  virtual const wire::http::RouteTable* routes() const noexcept { return nullptr; }
  // nullptr: none of its own over RESP.
  virtual const wire::resp::CommandTable* commands() const noexcept { return nullptr; }
};

}  // namespace weir::server
