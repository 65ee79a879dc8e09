// The four requests of a service as URLs, and its Retry-After in the unit that it uses.

#include "weir/system/contract/service_client.h"

#include <charconv>
#include <utility>

#include "weir/fetch/url.h"
#include "weir/system/contract/document.h"

namespace weir::system::contract {
namespace {

constexpr std::int64_t kRetryAfterNumberMax = std::int64_t{86'400} * 1000;  // longer counts as this

std::string without_last_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

std::optional<Duration> parse_retry_after(std::string_view text, RetryAfterUnit unit) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  std::int64_t number = kRetryAfterNumberMax;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || number > kRetryAfterNumberMax) number = kRetryAfterNumberMax;
  // 86,400,000 seconds are less than 2^57 ns.
  if (unit == RetryAfterUnit::kSeconds) return std::chrono::seconds{number};
  return std::chrono::milliseconds{number};
}

std::string user_of(const ServiceOptions& options, const std::string& access_token) {
  if (!options.asks_token) return options.user_id;
  const std::string& bearer = access_token.empty() ? options.bearer : access_token;
  return subject_of(bearer).value_or(options.user_id);
}

ServiceClient::ServiceClient(ServiceOptions options)
    : options_(std::move(options)), transfer_(options_.transfer) {
  options_.url = without_last_slash(std::move(options_.url));
}

fetch::TransferRequest ServiceClient::request(Fetch what, const std::string& access_token) const {
  using fetch::url_escaped;
  const std::string& bearer = access_token.empty() ? options_.bearer : access_token;
  const std::string user = url_escaped(user_of(options_, access_token));
  switch (what) {
    case Fetch::kToken:
      return {.method = "POST",
              .url = options_.token_url,
              .type = "application/x-www-form-urlencoded",
              .body = "grant_type=client_credentials&client_id=" + url_escaped(options_.client_id) +
                      "&client_secret=" + url_escaped(options_.client_secret)};
    case Fetch::kContract:
      return {.url = options_.url + "/aux/ratelimit/contract?userId=eq%3A" + user,
              .bearer = bearer};
    case Fetch::kContractTypes:
      return {.url = options_.url + "/aux/ratelimit/contract/types", .bearer = bearer};
    case Fetch::kTokenCounts:
      return {.url = options_.url + "/aux/ratelimit/statistics/tokenCounts/" + user,
              .bearer = bearer};
  }
  return {};
}

Fetched ServiceClient::fetch(Fetch what, const std::string& access_token) {
  fetch::Transferred got = transfer_.run(request(what, access_token));
  Fetched fetched{got.status, std::move(got.body), got.retry_in};
  if (!fetched.retry_after)
    fetched.retry_after = parse_retry_after(got.retry_after, options_.retry_after);
  return fetched;
}

}  // namespace weir::system::contract
