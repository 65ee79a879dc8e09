// Sampling gate: the allowances as one limit of the engine.
//
// A request that names an environment goes through its allowance together with all its
// other limits, all or nothing; one that asks for up to so many is granted what all of them
// have left:
//
//   LimitSpec{.name = "sampling", .meter = std::make_shared<SamplingGate>(sampling)}
//   acquire hotkey=5F3s revision=r1 environment=LGC-v2 uid=7 want=20
//
// Attributes: `hotkey`, `revision`, `environment`, `uid`. The cost in `requests` is the number
// of tasks. A request with none of the attributes is not limited here; one with some of them,
// or with an environment that is not configured, never passes.
//
// A hold is a reservation: cancelling it gives everything back, settling it what was not
// created; one that expires counts as used.
//
// Thread safety: as any gate's; it shares its counters with other callers.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "weir/engine/gate.h"
#include "weir/system/sampling/sampling.h"

namespace weir::system::sampling {

inline constexpr std::string_view kGateAttributes[] = {"hotkey", "revision", "environment", "uid"};

class SamplingGate final : public engine::Gate {
 public:
  explicit SamplingGate(std::shared_ptr<Sampling> sampling) : sampling_(std::move(sampling)) {}

  void lock() noexcept override { sampling_->lock(); }
  void unlock() noexcept override { sampling_->unlock(); }

  std::optional<std::uint64_t> queue_of(const engine::Request& request) const override;
  meter::Check check(const engine::Request& request, Instant now, std::int64_t cost) override;
  Instant fits_from(const engine::Request& request, Instant from, std::int64_t cost) const override;
  void charge(const engine::Request& request, Instant now, std::int64_t cost) override;
  std::uint64_t charge_held(const engine::Request& request, Instant now,
                            std::int64_t cost) override;
  void end(Instant now, const engine::HoldEnd& hold) override;
  void give_back(Instant now, Instant charged_at, std::int64_t amount, bool ended) override;

  // Without an environment there is no limit.
  std::int64_t available(Instant now) override;
  std::int64_t capacity() const override;
  std::int64_t available_to(const engine::Request& request, Instant now) override;
  std::int64_t capacity_for(const engine::Request& request) const override;

 private:
  std::shared_ptr<Sampling> sampling_;
};

}  // namespace weir::system::sampling
