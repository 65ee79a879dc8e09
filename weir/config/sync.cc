// `sync:` of an account: the service that it follows.

#include <fmt/format.h>

#include <string>

#include "weir/config/draft.h"
#include "weir/engine/quantity.h"
#include "weir/fetch/url.h"
#include "weir/system/contract/follower.h"

namespace weir::config {
namespace {

namespace contract = system::contract;
using contract::FollowerOptions;
using contract::ServiceOptions;

constexpr std::size_t kSecretBytesMax = 4096;

struct SyncDraft {
  const ReadFile& read_file;
  FollowerOptions options{};

  ServiceOptions& service() noexcept { return options.service; }
};

template <auto Member>
void read_url(const Entry& entry, Context& context, SyncDraft& sync) {
  read_text(entry, context, sync.service().*Member);
  if ((sync.service().*Member).empty()) return;  // reported
  const std::string trouble = fetch::url_trouble(sync.service().*Member);
  if (!trouble.empty()) {
    context.mistake(entry.value.place, fmt::format("{} {}", entry.key, trouble));
  }
}

// Paths are put behind it.
void read_service_url(const Entry& entry, Context& context, SyncDraft& sync) {
  read_url<&ServiceOptions::url>(entry, context, sync);
  if (sync.service().url.find('?') == std::string::npos) return;
  context.mistake(
      entry.value.place,
      fmt::format("url is {}, but it must have no query, since '/aux/...' is put behind "
                  "it; leave out what begins with '?'",
                  in_quotes(sync.service().url)));
}

template <auto Member>
void service_text(const Entry& entry, Context& context, SyncDraft& sync) {
  read_text(entry, context, sync.service().*Member);
}

template <auto Member>
void read_secret_file(const Entry& entry, Context& context, SyncDraft& sync) {
  std::string& secret = sync.service().*Member;
  if (!secret.empty()) {
    context.mistake(entry.place,
                    fmt::format("'{}' stands beside the secret itself; write one", entry.key));
    return;
  }
  read_secret_file(entry, context, sync.read_file, kSecretBytesMax, secret);
}

// Between 1 ms, or what is said, and a day.
template <auto Member>
void read_time(const Entry& entry, Context& context, Duration least, SyncDraft& sync) {
  Duration time{};
  read_duration(entry, context, time);
  if (time.count() == 0) return;  // reported
  if (time < least || time > std::chrono::hours{24}) {
    context.mistake(
        entry.value.place,
        fmt::format("{} is {}, but it must lie between {} and 1d; write such as '5m'", entry.key,
                    in_quotes(entry.value.text), engine::duration_text(least)));
    return;
  }
  Member(sync) = time;
}

void read_refresh(const Entry& entry, Context& context, SyncDraft& sync) {
  read_time<[](SyncDraft& to) -> Duration& { return to.options.refresh; }>(
      entry, context, std::chrono::seconds{1}, sync);
}
void read_retry(const Entry& entry, Context& context, SyncDraft& sync) {
  read_time<[](SyncDraft& to) -> Duration& { return to.options.retry; }>(
      entry, context, std::chrono::milliseconds{100}, sync);
}
void read_timeout(const Entry& entry, Context& context, SyncDraft& sync) {
  read_time<[](SyncDraft& to) -> Duration& { return to.service().transfer.timeout; }>(
      entry, context, std::chrono::milliseconds{1}, sync);
}

void read_ca_file(const Entry& entry, Context& context, SyncDraft& sync) {
  read_text(entry, context, sync.service().transfer.ca_file);
}

void read_verify(const Entry& entry, Context& context, SyncDraft& sync) {
  read_flag(entry, context, sync.service().transfer.verify);
}

constexpr Key<SyncDraft> kSyncKeys[] = {
    {"url", read_service_url, "https://services.example.org",
     "The service, without `/aux` and without a query.", kRequired},
    {"token_url", read_url<&ServiceOptions::token_url>, "https://services.example.org/oauth/token",
     "Grants access tokens for client credentials (OAuth2). Left out: none are fetched."},
    {"client_id", service_text<&ServiceOptions::client_id>, "weir", "Who asks for them."},
    {"client_secret", service_text<&ServiceOptions::client_secret>, "secret",
     "How it proves that."},
    {"client_secret_file", read_secret_file<&ServiceOptions::client_secret>, "./client_secret",
     "A file with the secret instead; relative to the working directory."},
    {"token", service_text<&ServiceOptions::bearer>, "secret",
     "A token that does not end, such as another weir's with the role `observe`."},
    {"token_file", read_secret_file<&ServiceOptions::bearer>, "./token",
     "A file with that token instead."},
    {"refresh", read_refresh, "5m",
     "How often contract and counts are fetched, from `1s` to `1d`. Default `5m`."},
    {"retry", read_retry, "5s",
     "Wait after a failure, doubled each time up to `refresh`; from `100ms`. Default `5s`."},
    {"timeout", read_timeout, "10s", "The longest a fetch may take. Default `10s`."},
    {"ca_file", read_ca_file, "./ca.pem",
     "Authorities that certificates are verified with, instead of the system's."},
    {"verify", read_verify, "true",
     "Whether certificates are verified; `false` lets any machine pretend to be the service. "
     "Default "
     "`true`."},
};

// What stands together or not at all.
void check_credentials(Place place, Context& context, const ServiceOptions& service) {
  const bool grants = !service.token_url.empty();
  if (grants && (service.client_id.empty() || service.client_secret.empty())) {
    context.mistake(place,
                    "token_url needs to know who asks; write 'client_id' and 'client_secret' or "
                    "'client_secret_file'");
  }
  if (!grants && !(service.client_id.empty() && service.client_secret.empty())) {
    context.mistake(place, "client_id and client_secret are for 'token_url'; write that too");
  }
  if (grants && !service.bearer.empty()) {
    context.mistake(place, "token and token_url are two ways to be let in; write one");
  }
}

}  // namespace

void read_sync(const Entry& entry, Context& context, const ReadFile& read_file,
               std::optional<FollowerOptions>& out) {
  if (!check_kind(entry, TreeNode::Kind::kMap, "{ url: https://services.example.org }", context)) {
    return;
  }
  Context inner{context.mistakes, context.where + ": sync"};
  const std::size_t before = context.mistakes.count();
  SyncDraft sync{read_file};
  read_map<SyncDraft>(entry.value, kSyncKeys, inner, sync);
  if (context.mistakes.count() > before) return;
  check_credentials(entry.place, inner, sync.service());
  out = std::move(sync.options);
}

void list_sync_keys(std::vector<KeyHelp>& out) {
  list_keys<SyncDraft>("contracts: sync", kSyncKeys, out);
}

}  // namespace weir::config
