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
// Who waits has a place in the account's book, among those who reserve: a start of its own, in the
// order in which they came. It is answered at that start. A start that nobody was told of moves up
// when something before it is given back, and back when the service says that there is less.
//
// Thread safety: as gate.h of the engine says. The account stays open to others: it
// is locked from check to charge.

#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <optional>
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
  // In the book: a reservation of its own for each waiter.
  bool gives_places() const override { return true; }
  void enter(std::uint64_t ticket) override { asking_ = ticket; }
  void take_place(const engine::Request& request, Instant from, std::int64_t cost) override;
  void leave_place(std::uint64_t ticket) override;
  void end(Instant now, const engine::HoldEnd& hold) override;
  // Of the policies that count requests.
  std::int64_t available(const engine::Request& request, Instant now) override;
  std::int64_t capacity(const engine::Request& request) const override;

 private:
  // The place of the waiter that asks.
  std::optional<Book::Place> place() const;
  bool has_place() const { return place().has_value(); }
  // Takes the place of the waiter that asks, for a reservation that may change until `expires`.
  std::optional<std::uint64_t> take_over(Instant expires);

  std::shared_ptr<Account> account_;
  std::uint64_t asking_ = 0;  // the ticket of a waiter; 0: none
  // Places in the book, by ticket. The book may have dropped one that never fits.
  boost::unordered_flat_map<std::uint64_t, std::uint64_t> places_;
};

}  // namespace weir::system::contract
