// Service client: fetches what a Syncer asks for, over HTTP(S).
//
//   POST token_url   grant_type=client_credentials&client_id=...&client_secret=...
//   GET  URL/aux/ratelimit/contract?userId=eq:USER
//   GET  URL/aux/ratelimit/contract/types
//   GET  URL/aux/ratelimit/statistics/tokenCounts/USER
//
// Answers are bounded in time and size, redirects refused, certificates verified:
// weir/fetch/transfer.h.
//
// Thread safety: fetch() from one thread at a time, cancel() from any.

#pragma once

#include <string>

#include "weir/base/time.h"
#include "weir/fetch/transfer.h"
#include "weir/system/contract/refusal.h"
#include "weir/system/contract/syncer.h"

namespace weir::system::contract {

struct ServiceOptions {
  std::string url{};        // of the service, without /aux
  std::string user_id{};    // whose contract
  bool asks_token = false;  // the one whom the access token names, if it names one
  std::string token_url{};  // grants access tokens; empty: none are needed
  std::string client_id{};
  std::string client_secret{};
  std::string bearer{};  // a token that does not end, where token_url is empty
  RetryAfterUnit retry_after = RetryAfterUnit::kMilliseconds;
  fetch::TransferOptions transfer{};

  friend bool operator==(const ServiceOptions&, const ServiceOptions&) = default;
};

// Whose contract is asked for with that token, or with the one that does not end.
std::string user_of(const ServiceOptions& options, const std::string& access_token);

class ServiceClient final : public Fetcher {
 public:
  explicit ServiceClient(ServiceOptions options);

  Fetched fetch(Fetch what, const std::string& access_token) override;
  void cancel() noexcept override { transfer_.cancel(); }

 private:
  fetch::TransferRequest request(Fetch what, const std::string& access_token) const;

  ServiceOptions options_;
  fetch::Transfer transfer_;
};

// What a Retry-After says: a number in `unit`, rounded down to what a Duration holds.
// Nothing: it is no number.
std::optional<Duration> parse_retry_after(std::string_view text, RetryAfterUnit unit);

}  // namespace weir::system::contract
