// Systems: all systems of a server, in one list.
//
// A new system is a folder in weir/system/, a file in weir/server/systems/ that makes a System of
// it, and a line in the list of systems.cc.
//
// Thread safety: as of each System.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/server/system.h"

namespace weir::server {

using MakeSystem = std::unique_ptr<System> (*)(const SystemGround& ground);

// Each in the file of its name in systems/.
std::unique_ptr<System> make_throttle_system(const SystemGround& ground);
std::unique_ptr<System> make_contract_system(const SystemGround& ground);
std::unique_ptr<System> make_compute_system(const SystemGround& ground);
std::unique_ptr<System> make_sampling_system(const SystemGround& ground);
std::unique_ptr<System> make_pool_system(const SystemGround& ground);

// The list.
std::span<const MakeSystem> all_systems() noexcept;

// What is done to all of them, in the order of the list. Their parts of the state are one here.
class Systems final : public store::sqlite::Parts {
 public:
  Systems(std::span<const MakeSystem> makers, const SystemGround& ground);

  auto begin() const noexcept { return systems_.begin(); }
  auto end() const noexcept { return systems_.end(); }

  // Stops at the first error.
  Status check(const config::Config& next);
  engine::Gates gates() const;
  Status agree();
  void change(Instant now) noexcept;
  void drop() noexcept;
  Status start();
  void rest();
  // Stops all, and tells the first error.
  Status stop();

  // Of the first that has trouble with files of its own; empty: none has.
  std::string state_trouble() const;
  // At once where no system keeps records.
  void when_written(std::uint64_t record, const std::function<void(const Status&)>& told) const;

  std::vector<const wire::http::RouteTable*> routes() const;
  std::vector<const wire::resp::CommandTable*> commands() const;

  std::vector<store::sqlite::Part> changed(Instant now) override;
  void mark_changed(const std::vector<store::sqlite::Part>& parts) override;
  Status restore(std::string_view name, store::sqlite::Bytes bytes, Instant now) override;

 private:
  std::vector<std::unique_ptr<System>> systems_;
};

}  // namespace weir::server
