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

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/listed.h"
#include "weir/system/contract/policy.h"

namespace weir::system::contract {

constexpr std::size_t kDocumentBytesMax = std::size_t{8} << 20;
constexpr std::size_t kContractsMax = 10'000;  // of one document

// The names of types that a document has and nobody here knows: each once, cut to
// kTypeNameBytesMax, at most kLeftOutMax.
using LeftOut = std::vector<std::string>;
constexpr std::size_t kLeftOutMax = 16;
constexpr std::size_t kTypeNameBytesMax = 64;

// A list of contracts, of any number of users. With `left_out`, a row of an unknown type is left
// out and named there; without, it is an error. So it is with the other readers.
Result<std::vector<Contract>> read_contracts(std::string_view text, LeftOut* left_out = nullptr);

// A listing of contract types, for users without a contract: one contract for each
// type, with no user and no policies of its own.
Result<std::vector<Contract>> read_contract_types(std::string_view text,
                                                  LeftOut* left_out = nullptr);

// What is left, rounded down to whole micro-units.
Result<std::vector<Account::Count>> read_token_counts(std::string_view text,
                                                      LeftOut* left_out = nullptr);

// Whether it is a contract of that user. One that names no user is: the document was asked for
// one. An empty id stands for anybody.
bool is_of(const Contract& contract, std::string_view user_id);

// The policies of one user in the order of the document. An empty id stands for the
// only user there is.
Result<std::vector<Policy>> policies_of(std::span<const Contract> contracts,
                                        std::string_view user_id);

// The contracts of one user, in the order of the document.
std::vector<Contract> contracts_of(std::span<const Contract> contracts, std::string_view user_id);

// What an account publishes: the contracts it was given, each with the policies that are in force
// by now, and of a type that it was given none of, one with a number from `first_id` on.
std::vector<Contract> published_contracts(const std::vector<Contract>& given,
                                          std::span<const Policy> policies,
                                          const std::string& user_id, std::int64_t first_id);

// Contracts, their types and token counts as documents of the service.
std::string write_contracts(std::span<const Contract> contracts);
std::string write_contract_types(std::span<const Contract> types);
std::string write_token_counts(std::span<const PolicyView> policies);

// An access token, as an OAuth2 server grants it.
struct AccessToken {
  std::string token;
  Duration lasts{};
};
// Where the answer does not say how long it lasts (RFC 6749, 5.1): a 401 says when it is over.
constexpr Duration kTokenLasts = std::chrono::hours{1};
Result<AccessToken> read_access_token(std::string_view text);

// The user that an access token is of, where it is a JWT that says so: its `sub`. What its
// signature is worth is for the service to say, which is shown it.
std::optional<std::string> subject_of(std::string_view access_token);

}  // namespace weir::system::contract
