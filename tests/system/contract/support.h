// What the contract tests share: policies written shortly, and a service to test
// grants against.

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/meter/support.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/book.h"
#include "weir/system/contract/costs.h"
#include "weir/system/contract/policy.h"
#include "weir/system/contract/refusal.h"

namespace weir::system::contract {

using namespace std::chrono_literals;
using engine::HoldState;

constexpr Instant kStart{1'800'000'000'000'000'000};  // 2027, a whole hour

inline std::ostream& operator<<(std::ostream& out, const Costs& costs) {
  return out << costs.requests_micro << "+" << costs.processing_units_micro << " micro";
}

inline Policy requests_per(std::int64_t capacity, Duration period) {
  return *make_policy(Resource::kRequests, capacity, period);
}
inline Policy units_per(std::int64_t capacity, Duration period) {
  return *make_policy(Resource::kProcessingUnits, capacity, period);
}

// One request and so many processing units.
inline Costs units(double amount) { return *costs_of(1, amount); }

inline std::shared_ptr<Account> account_of(std::vector<Policy> policies,
                                           AccountOptions options = {}) {
  auto account = Account::create("acme", std::move(policies), options, kStart);
  EXPECT_TRUE(account.ok()) << (account ? "" : account.error().message);
  return *account;
}

inline std::shared_ptr<Account> service_of(std::vector<Policy> policies) {
  return account_of(std::move(policies), {.role = AccountRole::kService});
}

// Whether a service in the state of `book` would take `costs` at `now`.
inline bool takes(const Book& book, const Costs& costs, Instant now) {
  return !refusal_of(book.standing(costs, now), Duration{0});
}

inline std::int64_t left_of(Account& account, std::size_t policy, Instant now) {
  return account.view(now).policies[policy].left_micro;
}

// The first word of an error: what it is called.
inline std::string_view name_of(const Error& error) {
  const std::string_view message = error.message;
  return message.substr(0, message.find(':'));
}

}  // namespace weir::system::contract
