// Documents: contracts and token counts, as the service publishes them.
//
//   {"data":[{"id":1547,"userId":"u1","policies":[{"capacity":1000,"samplingPeriod":"PT1M",
//     "nanosBetweenRefills":60000000,"niceSamplingPeriod":"1 minute"}],
//     "type":{"name":"PROCESSING_UNITS","suffix":"PU","defaultPolicies":[...]}}],
//    "links":{"currentToken":"0"}}
//
//   {"data":{"REQUESTS":{"PT1M":1000.0},"PROCESSING_UNITS":{"PT744H":400000.0}}}
//
// A contract whose policies are absent, null or empty has its type's default
// policies. `nanosBetweenRefills` is used as given, and worked out only where it is
// absent. The display key, spelt `niceSamplindPeriod` in some documents, is not read.
//
// Every mistake is an error whose first word names it, followed by the place in the
// document: too_large, not_json, wrong_type, missing_field, unknown_type, bad_period,
// bad_capacity, bad_refill, missing_policies, duplicate_policy, overlapping_policies,
// duplicate_contract, too_many, unknown_user.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/policy.h"

namespace weir::system::contract {

constexpr std::size_t kDocumentBytesMax = std::size_t{8} << 20;
constexpr std::size_t kContractsMax = 10'000;  // of one document

struct Contract {
  std::int64_t id = 0;
  std::string user_id;
  Resource resource = Resource::kRequests;
  std::vector<Policy> policies{};          // its own; none: the defaults apply
  std::vector<Policy> default_policies{};  // of its type

  const std::vector<Policy>& effective() const noexcept {
    return policies.empty() ? default_policies : policies;
  }
};

// A list of contracts, of any number of users.
Result<std::vector<Contract>> read_contracts(std::string_view text);

// A listing of contract types, for users without a contract: one contract for each
// type, with no user and no policies of its own.
Result<std::vector<Contract>> read_contract_types(std::string_view text);

// What is left, rounded down to whole micro-units. Types that are not known are an
// error, as in a contract.
Result<std::vector<Account::Count>> read_token_counts(std::string_view text);

// The policies of one user in the order of the document. An empty id stands for the
// only user there is.
Result<std::vector<Policy>> policies_of(std::span<const Contract> contracts,
                                        std::string_view user_id);

// Contracts and token counts as documents of the service.
std::string write_contracts(std::span<const Contract> contracts);
std::string write_token_counts(std::span<const PolicyView> policies);

// An access token, as an OAuth2 server grants it.
struct AccessToken {
  std::string token;
  Duration lasts{};
};
Result<AccessToken> read_access_token(std::string_view text);

}  // namespace weir::system::contract
