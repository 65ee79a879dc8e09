// Throttle gate: the front end's buckets as one limit of the engine.
//
// A request that names an operation goes through the throttles together with all its
// other limits, all or nothing:
//
//   LimitSpec{.name = "throttles", .meter = std::make_shared<ThrottleGate>(throttles)}
//   acquire operation=ContractCall payer=1001 gas=50000
//
// Attributes: `operation`, `payer` (an account number) and `high_volume` (`true`). Costs:
// `requests` (several operations at once), `gas`, `bytes`, `nfts`, `creations`,
// `associations`, each whole and in a unit that the rule set declares. A request without
// an operation does not meet the limit; an operation that no bucket lists never passes.
//
// Only its own refusal leaks the buckets and moves their clocks; another limit's, or a
// peek, changes nothing. Settling a hold with the gas that was used gives the rest back,
// cancelling it gives back everything.
//
// Thread safety: as any gate's; it shares its throttles with other callers.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weir/engine/gate.h"
#include "weir/system/throttle/throttles.h"

namespace weir::system::throttle {

inline constexpr std::string_view kGateAttributes[] = {"operation", "payer", "high_volume"};
inline constexpr std::string_view kGateUnits[] = {"gas", "bytes", "nfts", "creations",
                                                  "associations"};

class ThrottleGate final : public engine::Gate {
 public:
  explicit ThrottleGate(std::shared_ptr<Throttles> throttles) : throttles_(std::move(throttles)) {}

  void lock() noexcept override { throttles_->lock(); }
  void unlock() noexcept override { throttles_->unlock(); }

  std::span<const std::string_view> concerned_by() const override {
    return std::span(kGateAttributes).first(1);
  }
  meter::Check check(const engine::Request& request, Instant now, std::int64_t cost) override;
  Instant fits_from(const engine::Request& request, Instant from, std::int64_t cost) const override;
  void charge(const engine::Request& request, Instant now, std::int64_t cost) override;
  std::uint64_t charge_held(const engine::Request& request, Instant now,
                            std::int64_t cost) override;
  void refused(const engine::Request& request, Instant now, std::int64_t cost) override;
  void end(Instant now, const engine::HoldEnd& hold) override;

  std::int64_t available(const engine::Request& request, Instant now) override;
  std::int64_t capacity(const engine::Request& request) const override;

 private:
  const ThrottleSet& set() const noexcept { return throttles_->locked().front_end; }
  ThrottleSet& set() noexcept { return throttles_->locked().front_end; }

  std::shared_ptr<Throttles> throttles_;
  std::unordered_map<std::uint64_t, Claims> held_;  // by receipt; as many as there are holds
  std::uint64_t last_receipt_ = 0;
};

}  // namespace weir::system::throttle
