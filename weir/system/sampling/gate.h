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
// of tasks. A request with none of the attributes does not meet the limit; one with some of them,
// or with an environment that is not configured, never passes.
//
// A hold is a reservation: cancelling it gives everything back, settling it what was not
// created; what was created beyond it counts from then on, whether it fits or not. One that
// expires counts as used. After a restart its end changes nothing, so all of it counts.
//
// Thread safety: as any gate's; it shares its counters with other callers.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

  std::span<const std::string_view> concerned_by() const override { return kGateAttributes; }
  std::optional<std::uint64_t> queue_of(const engine::Request& request) const override;
  meter::Check check(const engine::Request& request, Instant now, std::int64_t cost) override;
  Instant fits_from(const engine::Request& request, Instant from, std::int64_t cost) const override;
  void charge(const engine::Request& request, Instant now, std::int64_t cost) override;
  std::uint64_t charge_held(const engine::Request& request, Instant now,
                            std::int64_t cost) override;
  std::uint64_t last_record() const noexcept override { return record_; }
  void refused(const engine::Request& request, Instant now, std::int64_t cost) override;
  void end(Instant now, const engine::HoldEnd& hold) override;

  std::int64_t available(const engine::Request& request, Instant now) override;
  std::int64_t capacity(const engine::Request& request) const override;

 private:
  // Takes `cost`, and notes what tells of it.
  std::uint64_t take(const engine::Request& request, Instant now, std::int64_t cost, Keep keep);

  std::shared_ptr<Sampling> sampling_;
  Ticket record_ = 0;  // of the last charge or end; 0: it changed nothing
};

}  // namespace weir::system::sampling
