// Gate: an account's policies in an engine's decision.
//
// A limit with this gate counts `requests`; processing units are read from the
// request's cost in `processing_units`, a unit of millionths, and are 0 where it
// names none. So ordinary limits and all policies of the account decide together,
// all or nothing, now or booked ahead.
//
//   RuleSetSpec{.limits = {{.name = "acme", .meter = std::make_shared<AccountGate>(account)}},
//               .units = {{"processing_units", UnitScale::kMicro}}}
//
// A hold that is settled commits the actual costs, one that is cancelled releases;
// without either the reservation is final when the account's `hold` is over. A hold of
// the engine that lasts longer, or is renewed for longer, keeps its cost when it ends
// after that: give such an account a longer `hold`. Without a hold a charge is final once
// its worker has started.
//
// Thread safety: as gate.h of the engine says. The account stays open to others: it
// is locked from check to charge.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "weir/engine/gate.h"
#include "weir/system/contract/account.h"

namespace weir::system::contract {

constexpr std::string_view kProcessingUnitsUnit = "processing_units";

class AccountGate final : public engine::Gate {
 public:
  explicit AccountGate(std::shared_ptr<Account> account);

  void lock() noexcept override;
  void unlock() noexcept override;
  meter::Check check(const engine::Request& request, Instant now, std::int64_t cost) override;
  Instant fits_from(const engine::Request& request, Instant from, std::int64_t cost) const override;
  void charge(const engine::Request& request, Instant now, std::int64_t cost) override;
  // The receipt is the number of the reservation.
  std::uint64_t charge_held(const engine::Request& request, Instant now,
                            std::int64_t cost) override;
  bool can_book() const override { return true; }
  void end(Instant now, const engine::HoldEnd& hold) override;
  // Of the policies that count requests.
  std::int64_t available(const engine::Request& request, Instant now) override;
  std::int64_t capacity(const engine::Request& request) const override;

 private:
  std::shared_ptr<Account> account_;
};

}  // namespace weir::system::contract
