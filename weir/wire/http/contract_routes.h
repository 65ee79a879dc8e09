// Contract routes: reservations, consumption, and the published documents.
//
// Thread safety: immutable.

#pragma once

#include <memory>

#include "weir/system/contract/accounts.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// nullptr: none are configured.
using ContractPart = std::shared_ptr<const system::contract::Accounts>;
using ContractRoutes = SystemRoutes<ContractPart>;

ContractRoutes contract_routes(ContractRoutes::InForce in_force);

// The account that the path names. nullptr: there is none, and the problem is written.
std::shared_ptr<system::contract::Account> named_account(Exchange& exchange);
// The same of a guard, which may be told what a service said.
std::shared_ptr<system::contract::Account> named_guard(Exchange& exchange);

// Handlers outside the file of the table.
void set_contract(Exchange& exchange);  // contract_sync_calls.cc
void set_token_counts(Exchange& exchange);

}  // namespace weir::wire::http
