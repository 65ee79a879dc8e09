// Keeper: keeps what the engine knows under state.dir, if the configuration says so.
//
//   auto keeper = Keeper::open(config, StartEmpty::kNo);
//   keeper->prepare(options);                      // then make the engine
//   keeper->begin(*engine, parts, clock);              // brings back, then flushes on and on
//   keeper->end();                                 // a last flush
//
// Without `state` in the configuration every function does nothing. A flush that fails
// does not stop decisions: trouble() says why until one succeeds again.
//
// Thread safety: trouble(), stats() and place() from any thread; everything else from one.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/config/config.h"
#include "weir/engine/engine.h"
#include "weir/store/sqlite/flusher.h"
#include "weir/store/sqlite/store.h"

namespace weir::server {

using store::sqlite::StartEmpty;

struct KeeperStats {
  store::sqlite::StoreStats store;
  store::sqlite::FlusherStats flusher;
};

// Where a system may keep files of its own, beside the engine's.
struct StatePlace {
  const store::sqlite::Directory& directory;
  const engine::Secret& secret;  // of keyed hashes that are kept
  StartEmpty start_empty;
};

class Keeper {
 public:
  static Result<Keeper> open(const config::Config& config, StartEmpty start_empty);

  void prepare(engine::EngineOptions& options) const;
  // `parts` must outlive the keeper.
  Result<engine::RestoreReport> begin(engine::Engine& engine, store::sqlite::Parts& parts,
                                      Clock& clock);
  // Parts that begin() could not bring back: the rest of the state is used.
  std::vector<store::sqlite::UnusablePart> unusable_parts() const;
  Status end();

  // None: memory only. Valid as long as the keeper.
  std::optional<StatePlace> place() const;
  // Why the last flush failed; empty if it did not.
  std::string trouble() const;
  // None: memory only.
  std::optional<KeeperStats> stats() const;

 private:
  std::unique_ptr<store::sqlite::Store> store_;
  std::unique_ptr<store::sqlite::Flusher> flusher_;  // after the store: it ends first
  StartEmpty start_empty_ = StartEmpty::kNo;
  Duration interval_{};
};

}  // namespace weir::server
