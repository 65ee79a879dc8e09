// Any bytes at all as the saved state of an account, and the same bytes put into one that is
// whole. What is restored can be used, and is saved in a form that is restored again; what is not
// leaves the account as it was.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weir/system/contract/account.h"

namespace {

using namespace weir::system::contract;
using weir::Instant;

constexpr Instant kNow{1'700'000'000'000'000'000};

std::shared_ptr<Account> account_of(std::vector<Policy> policies, Rule rule) {
  auto account = Account::create("acme", std::move(policies), {.rule = rule, .owner = 7}, kNow);
  if (!account) std::abort();
  return std::move(*account);
}

std::vector<Policy> two_policies() {
  const auto units = make_policy(Resource::kProcessingUnits, 10, std::chrono::seconds{10}, {});
  const auto requests = make_policy(Resource::kRequests, 5, std::chrono::seconds{60}, {});
  if (!units || !requests) std::abort();
  return {*units, *requests};
}

// A whole state, with something of each kind in it.
std::vector<std::byte> whole_state() {
  const auto account = account_of(two_policies(), Rule::kReservation);
  const Costs costs{1'000'000, 4'000'000};
  std::optional<weir::HoldId> first;
  for (int i = 0; i < 3; ++i) {
    const auto reserved = account->reserve({.costs = costs}, kNow);
    if (!reserved) std::abort();
    if (!first) first = reserved->reservation;
  }
  account->release(*first, kNow);
  if (!account->feedback({.costs = costs, .retry_after = std::chrono::seconds{1}}, kNow)) {
    std::abort();
  }
  return account->save(kNow);
}

void use(Account& account) {
  const auto reserved = account.reserve({.costs = {1'000'000, 1'000'000}}, kNow);
  if (reserved && reserved->reservation) account.release(reserved->reservation, kNow);
  static_cast<void>(account.view(kNow));
  static_cast<void>(account.change(two_policies(), kNow).ok());
  static_cast<void>(account.view(kNow + std::chrono::hours{24}));
}

void restore(const std::shared_ptr<Account>& account, std::span<const std::byte> bytes) {
  const std::vector<std::byte> before = account->save(kNow);
  if (!account->restore(bytes, kNow)) {
    if (account->save(kNow) != before) std::abort();
    return;
  }
  const auto again = account_of({}, account->options().rule);
  if (!again->restore(account->save(kNow), kNow)) std::abort();
  use(*account);
  if (!again->restore(account->save(kNow), kNow)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  restore(account_of({}, Rule::kReservation), bytes);
  restore(account_of(two_policies(), Rule::kPublished), bytes);
  // From the place that the first two bytes name, a whole one with the rest written over it.
  if (size < 3) return 0;
  static const std::vector<std::byte> whole = whole_state();
  std::vector<std::byte> changed = whole;
  const std::size_t from = (std::size_t{data[0]} << 8 | data[1]) % changed.size();
  for (std::size_t i = 2; i < size && from + i - 2 < changed.size(); ++i) {
    changed[from + i - 2] ^= bytes[i];
  }
  restore(account_of({}, Rule::kReservation), changed);
  restore(account_of(two_policies(), Rule::kReservation), changed);
  return 0;
}
