// Any bytes at all as a contract, token counts, a listing of types, a token, a period
// or a decimal. What is read can be written and is read back the same; what is not
// has an error with a name.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weir/system/contract/document.h"
#include "weir/system/contract/fraction.h"
#include "weir/system/contract/period.h"

namespace {

using namespace weir::system::contract;

void check_named(const weir::Error& error) {
  const std::size_t end = error.message.find(": ");
  if (end == std::string::npos || end == 0) std::abort();
  for (const char c : error.message.substr(0, end)) {
    if ((c < 'a' || c > 'z') && c != '_') std::abort();
  }
}

void check_contracts(std::string_view text) {
  const auto contracts = read_contracts(text);
  if (!contracts) return check_named(contracts.error());
  const auto again = read_contracts(write_contracts(*contracts));
  if (!again || again->size() != contracts->size()) std::abort();
  for (std::size_t i = 0; i < contracts->size(); ++i) {
    if ((*again)[i].effective() != (*contracts)[i].effective()) std::abort();
    if ((*again)[i].user_id != (*contracts)[i].user_id) std::abort();
    if ((*again)[i].id != (*contracts)[i].id) std::abort();
    if ((*again)[i].notification != (*contracts)[i].notification &&
        !(*contracts)[i].notification.empty()) {
      std::abort();
    }
    for (const Policy& policy : (*contracts)[i].effective()) {
      if (policy.refill_ns < 1 || policy.capacity < 0 || policy.period.count() < 0) std::abort();
      if (full_fs(policy) < 0) std::abort();
    }
  }
  if (!contracts->empty()) static_cast<void>(policies_of(*contracts, "u1").ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_contracts(text);
  // Whoever is told where to name unknown types has no error of that name.
  LeftOut left_out;
  if (const auto contracts = read_contracts(text, &left_out); !contracts) {
    check_named(contracts.error());
    if (contracts.error().message.starts_with("unknown_type")) std::abort();
  }
  if (left_out.size() > kLeftOutMax) std::abort();
  if (const auto user = subject_of(text); user && user->empty()) std::abort();
  if (const auto counts = read_token_counts(text); !counts) check_named(counts.error());
  if (const auto types = read_contract_types(text); !types) check_named(types.error());
  if (const auto token = read_access_token(text); !token) check_named(token.error());
  if (const auto period = parse_period(text); period && period->count() >= 0) {
    const auto again = parse_period(period_text(*period));
    if (!again || *again != *period) std::abort();
  }
  if (const auto micro = parse_micro("it", text); micro && *micro < 0) std::abort();
  return 0;
}
