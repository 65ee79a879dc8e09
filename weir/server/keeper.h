// Keeper: keeps what the engine knows under state.dir, if the configuration says so.
//
//   auto keeper = Keeper::open(config, StartEmpty::kNo);
//   keeper->prepare(options);                      // then make the engine
//   keeper->begin(*engine, parts, clock);              // brings back, then flushes on and on
//   keeper->keep(*sampling, clock.now());          // the same, and writes every grant first
//   keeper->end();                                 // a last flush
//
// Without `state` in the configuration every function does nothing. A flush that fails
// does not stop decisions: trouble() says why until one succeeds again.
//
// Thread safety: trouble(), stats() and forget_grants_before() from any thread, also while
// another calls keep(); everything else from one.

#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/config/config.h"
#include "weir/engine/engine.h"
#include "weir/store/sqlite/flusher.h"
#include "weir/store/sqlite/sampling_journal.h"
#include "weir/store/sqlite/store.h"

namespace weir::server {

using store::sqlite::StartEmpty;

struct KeeperStats {
  store::sqlite::StoreStats store;
  store::sqlite::FlusherStats flusher;
  std::optional<store::sqlite::JournalStats> sampling{};  // none: no grants are kept
};

class Keeper {
 public:
  static Result<Keeper> open(const config::Config& config, StartEmpty start_empty);

  void prepare(engine::EngineOptions& options) const;
  // `parts` must outlive the keeper.
  Result<engine::RestoreReport> begin(engine::Engine& engine, store::sqlite::Parts& parts,
                                      Clock& clock);
  // Before its first grant. Needs a state that has begun; called again for another one.
  Status keep(system::sampling::Sampling& sampling, Instant now);
  // Grants of before count no more.
  void forget_grants_before(Instant at) noexcept;
  // Calls back when a grant's record is on disk, or has failed to get there.
  void when_written(std::uint64_t record, std::function<void(const Status&)> told);
  Status end();

  // Why the last flush, or the last write of grants, failed; empty if neither did.
  std::string trouble() const;
  // None: memory only.
  std::optional<KeeperStats> stats() const;

 private:
  using SamplingJournal = store::sqlite::SamplingJournal;

  // It may come with a reload, while others ask.
  struct Grants {
    std::mutex lock;
    std::shared_ptr<SamplingJournal> journal;
  };
  std::shared_ptr<SamplingJournal> journal() const;

  std::unique_ptr<store::sqlite::Store> store_;
  std::unique_ptr<store::sqlite::Flusher> flusher_;  // after the store: it ends first
  std::unique_ptr<Grants> grants_ = std::make_unique<Grants>();
  StartEmpty start_empty_ = StartEmpty::kNo;
  Duration interval_{};
};

}  // namespace weir::server
