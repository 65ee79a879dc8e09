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

std::vector<store::sqlite::UnusablePart> Keeper::unusable_parts() const {
  return store_ ? store_->unusable_parts() : std::vector<store::sqlite::UnusablePart>{};
}

Status Keeper::end() { return flusher_ ? flusher_->stop() : Status{Done{}}; }

std::optional<StatePlace> Keeper::place() const {
  if (!store_) return std::nullopt;
  return StatePlace{store_->directory(), store_->secret(), start_empty_};
}

std::string Keeper::trouble() const { return flusher_ ? flusher_->stats().last_error : ""; }

std::optional<KeeperStats> Keeper::stats() const {
  if (!flusher_) return std::nullopt;
  return KeeperStats{store_->stats(), flusher_->stats()};
}

}  // namespace weir::server
