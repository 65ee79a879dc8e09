#include "weir/server/keeper.h"

#include <utility>

namespace weir::server {

using store::sqlite::Flusher;
using store::sqlite::Store;

Result<Keeper> Keeper::open(const config::Config& config, StartEmpty start_empty) {
  Keeper keeper;
  if (!config.state) return keeper;
  Result<std::unique_ptr<Store>> store = Store::open(config.state->dir, start_empty);
  if (!store) return std::move(store).error();
  keeper.store_ = std::move(*store);
  keeper.interval_ = config.state->flush;
  keeper.start_empty_ = start_empty;
  return keeper;
}

void Keeper::prepare(engine::EngineOptions& options) const {
  if (!store_) return;
  options.secret = store_->secret();
  options.owner = store_->owner();
  options.durable = true;
}

Result<engine::RestoreReport> Keeper::begin(engine::Engine& engine, store::sqlite::Parts& parts,
                                            Clock& clock) {
  if (!store_) return engine::RestoreReport{};
  Result<engine::RestoreReport> report = store_->restore(engine, clock.now(), &parts);
  if (report) flusher_ = std::make_unique<Flusher>(*store_, engine, clock, interval_);
  return report;
}

std::shared_ptr<Keeper::SamplingJournal> Keeper::journal() const {
  const std::scoped_lock lock(grants_->lock);
  return grants_->journal;
}

Status Keeper::keep(system::sampling::Sampling& sampling, Instant now) {
  if (!store_) return Done{};
  std::shared_ptr<SamplingJournal> journal = this->journal();
  if (!journal) {
    Result<std::unique_ptr<SamplingJournal>> opened =
        SamplingJournal::open(store_->directory(), start_empty_);
    if (!opened) return std::move(opened).error();
    journal = std::move(*opened);
    const std::scoped_lock lock(grants_->lock);
    grants_->journal = journal;
  }
  sampling.set_secret(store_->secret());
  const Result<std::uint64_t> restored = journal->restore(sampling, now);
  if (!restored) return restored.error();
  sampling.set_journal(journal.get());
  return Done{};
}

void Keeper::forget_grants_before(Instant at) noexcept {
  if (const auto journal = this->journal()) journal->forget_before(at);
}

void Keeper::when_written(std::uint64_t record, std::function<void(const Status&)> told) {
  // There are records only where there is a journal.
  const auto journal = this->journal();
  journal ? journal->when_written(record, std::move(told)) : told(Done{});
}

Status Keeper::end() {
  const auto journal = this->journal();
  Status written = journal ? journal->stop() : Status{Done{}};
  Status flushed = flusher_ ? flusher_->stop() : Status{Done{}};
  return flushed ? std::move(written) : std::move(flushed);
}

std::string Keeper::trouble() const {
  std::string flushing = flusher_ ? flusher_->stats().last_error : "";
  if (!flushing.empty()) return flushing;
  const auto journal = this->journal();
  return journal ? journal->stats().last_error : "";
}

std::optional<KeeperStats> Keeper::stats() const {
  if (!flusher_) return std::nullopt;
  KeeperStats stats{store_->stats(), flusher_->stats()};
  if (const auto journal = this->journal()) stats.sampling = journal->stats();
  return stats;
}

}  // namespace weir::server
