#include "weir/server/systems.h"

#include <iterator>
#include <utility>

namespace weir::server {

using store::sqlite::Bytes;
using store::sqlite::Part;

// In the order in which their metrics are written.
std::span<const MakeSystem> all_systems() noexcept {
  static constexpr MakeSystem kAll[] = {
      make_throttle_system, make_contract_system, make_compute_system,
      make_sampling_system, make_pool_system,
  };
  return kAll;
}

Systems::Systems(std::span<const MakeSystem> makers, const SystemGround& ground) {
  for (const MakeSystem make : makers) systems_.push_back(make(ground));
}

Status Systems::check(const config::Config& next) {
  for (const auto& system : systems_) {
    if (Status status = system->check(next); !status) return status;
  }
  return Done{};
}

engine::Gates Systems::gates() const {
  engine::Gates gates;
  for (const auto& system : systems_) system->add_gates(gates);
  return gates;
}

Status Systems::agree() {
  for (const auto& system : systems_) {
    if (Status status = system->agree(); !status) return status;
  }
  return Done{};
}

void Systems::change(Instant now) noexcept {
  for (const auto& system : systems_) system->change(now);
}

void Systems::drop() noexcept {
  for (const auto& system : systems_) system->drop();
}

Status Systems::start() {
  for (const auto& system : systems_) {
    if (Status status = system->start(); !status) return status;
  }
  return Done{};
}

void Systems::rest() {
  for (const auto& system : systems_) system->rest();
}

Status Systems::stop() {
  Status first = Done{};
  for (const auto& system : systems_) {
    Status status = system->stop();
    if (first) first = std::move(status);
  }
  return first;
}

std::string Systems::state_trouble() const {
  for (const auto& system : systems_) {
    if (std::string trouble = system->state_trouble(); !trouble.empty()) return trouble;
  }
  return {};
}

void Systems::when_written(std::uint64_t record,
                           const std::function<void(const Status&)>& told) const {
  for (const auto& system : systems_) {
    if (system->when_written(record, told)) return;
  }
  told(Done{});
}

std::vector<const wire::http::RouteTable*> Systems::routes() const {
  std::vector<const wire::http::RouteTable*> tables;
  for (const auto& system : systems_) {
    if (const wire::http::RouteTable* const table = system->routes()) tables.push_back(table);
  }
  return tables;
}

std::vector<const wire::resp::CommandTable*> Systems::commands() const {
  std::vector<const wire::resp::CommandTable*> tables;
  for (const auto& system : systems_) {
    if (const wire::resp::CommandTable* const table = system->commands()) tables.push_back(table);
  }
  return tables;
}

std::vector<Part> Systems::changed(Instant now) {
  std::vector<Part> all;
  for (const auto& system : systems_) {
    if (system->parts() == nullptr) continue;
    std::vector<Part> parts = system->parts()->changed(now);
    all.insert(all.end(), std::make_move_iterator(parts.begin()),
               std::make_move_iterator(parts.end()));
  }
  return all;
}

void Systems::mark_changed(const std::vector<Part>& parts) {
  for (const auto& system : systems_) {
    if (system->parts() != nullptr) system->parts()->mark_changed(parts);
  }
}

Status Systems::restore(std::string_view name, Bytes bytes, Instant now) {
  for (const auto& system : systems_) {
    if (system->parts() == nullptr) continue;
    if (Status status = system->parts()->restore(name, bytes, now); !status) return status;
  }
  return Done{};
}

}  // namespace weir::server
