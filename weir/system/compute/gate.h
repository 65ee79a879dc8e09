// Compute gate: a worker's bucket and slots as one limit of the engine.
//
// A request that names a portal goes through the bucket and the slots of its cluster
// together with all its other limits, all or nothing:
//
//   LimitSpec{.name = "compute", .meter = std::make_shared<ComputeGate>(worker)}
//   acquire portal=portal-1 client=acme HOLD 60s
//
// Attribute: `portal`. A request without it does not meet the limit; one with it is one query,
// which takes a whole token. With a hold it also has a slot until the hold ends, and
// settling with `compute_units` (a unit of millionths) gives the unused part back. Without
// a hold the worker is not told when the query ends, so it takes no slot. A request that
// waits does so in the engine's queue; it has no place in the worker's.
//
// Thread safety: as any gate's; it shares its worker with other callers.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "weir/base/guarded.h"
#include "weir/engine/gate.h"
#include "weir/system/compute/worker.h"

namespace weir::system::compute {

inline constexpr std::string_view kPortalAttribute = "portal";
constexpr std::string_view kComputeUnit = "compute_units";

using SharedWorker = Guarded<Worker>;

class ComputeGate final : public engine::Gate {
 public:
  explicit ComputeGate(std::shared_ptr<SharedWorker> worker) : worker_(std::move(worker)) {}

  void lock() noexcept override { worker_->lock(); }
  void unlock() noexcept override { worker_->unlock(); }

  std::span<const std::string_view> concerned_by() const override { return {&kPortalAttribute, 1}; }
  std::optional<std::uint64_t> queue_of(const engine::Request& request) const override;
  meter::Check check(const engine::Request& request, Instant now, std::int64_t cost) override;
  Instant fits_from(const engine::Request& request, Instant from, std::int64_t cost) const override;
  void charge(const engine::Request& request, Instant now, std::int64_t cost) override;
  // The receipt is the number of the query.
  std::uint64_t charge_held(const engine::Request& request, Instant now,
                            std::int64_t cost) override;
  void refused(const engine::Request& request, Instant now, std::int64_t cost) override;
  void end(Instant now, const engine::HoldEnd& hold) override;

  std::int64_t available(const engine::Request& request, Instant now) override;
  std::int64_t capacity(const engine::Request& request) const override;

 private:
  std::shared_ptr<SharedWorker> worker_;
};

}  // namespace weir::system::compute
