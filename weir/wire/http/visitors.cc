#include "weir/wire/http/visitors.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <optional>

#include "weir/base/in_quotes.h"
#include "weir/wire/http/text.h"

namespace weir::wire::http {
namespace {

constexpr std::size_t kPortDigitsMax = 5;

// A Host without its port.
struct HostName {
  std::string_view text;
  bool is_bracketed = false;
};

bool is_port(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kPortDigitsMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<HostName> name_of(std::string_view host) noexcept {
  HostName name;
  std::size_t end = 0;
  if (host.starts_with('[')) {
    name.is_bracketed = true;
    end = host.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    name.text = host.substr(1, end - 1);
    end += 1;
  } else {
    end = std::min(host.find(':'), host.size());
    name.text = host.substr(0, end);
    // The same name, fully qualified.
    if (name.text.ends_with('.')) name.text.remove_suffix(1);
  }
  const std::string_view port = host.substr(end);
  if (name.text.empty() || (!port.empty() && (port[0] != ':' || !is_port(port.substr(1))))) {
    return std::nullopt;
  }
  return name;
}

bool is_literal(const HostName& name) noexcept {
  std::string_view text = name.text;
  // The zone of a link-local address means something to the client only.
  if (name.is_bracketed) text = text.substr(0, text.find('%'));
  std::array<char, INET6_ADDRSTRLEN> digits{};
  // inet_pton would stop at a zero byte, and the name go on.
  if (text.size() >= digits.size() || text.find('\0') != std::string_view::npos) return false;
  std::copy(text.begin(), text.end(), digits.begin());
  in6_addr address{};  // large enough for both families
  return ::inet_pton(name.is_bracketed ? AF_INET6 : AF_INET, digits.data(), &address) == 1;
}

bool is_loopback_name(std::string_view name) noexcept {
  constexpr std::string_view kName = "localhost";
  if (name.size() < kName.size() || !is_same_word(name.substr(name.size() - kName.size()), kName)) {
    return false;
  }
  name.remove_suffix(kName.size());
  return name.empty() || name.ends_with('.');
}

// Nobody else can own it.
bool is_ours(const HostName& name) noexcept {
  return is_literal(name) || (!name.is_bracketed && is_loopback_name(name.text));
}

bool is_one_of(const std::vector<std::string>& words, std::string_view word) noexcept {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& each) { return is_same_word(each, word); });
}

// A page of this server, or typed in by a person.
bool is_own_site(std::string_view fetch_site) noexcept {
  return fetch_site.empty() || fetch_site == "none" || fetch_site == "same-origin";
}

}  // namespace

bool is_ordinary(const Visit& visit) noexcept {
  if (!visit.origin.empty() || !is_own_site(visit.fetch_site)) return false;
  // HTTP/1.0 may do without a Host, and a browser never does.
  if (visit.over_unix || visit.host.empty()) return true;
  const std::optional<HostName> name = name_of(visit.host);
  return name && is_ours(*name);
}

std::string objection(const Visitors& visitors, const Visit& visit) {
  const std::optional<HostName> name = name_of(visit.host);
  const bool is_known =
      name && (is_ours(*name) || (!name->is_bracketed && is_one_of(visitors.hosts, name->text)));
  if (!is_known && !visit.host.empty() && !visit.over_unix) {
    return fmt::format(
        "header: Host is {}, but it must be a literal address, 'localhost' or a name in "
        "http.hosts, "
        "so that no other name leads a browser here; ask by one of those, or add the name to "
        "'http: {{ hosts: [...] }}' in weir.yaml",
        in_quotes(visit.host));
  }
  if (!visit.origin.empty()) {
    constexpr std::string_view kScheme = "http://";
    const bool is_same = is_known &&
                         is_same_word(visit.origin.substr(0, kScheme.size()), kScheme) &&
                         is_same_word(visit.origin.substr(kScheme.size()), visit.host);
    if (is_same && is_own_site(visit.fetch_site)) return {};
    if (is_one_of(visitors.origins, visit.origin)) return {};
    return fmt::format(
        "header: Origin is {}, but only pages of this server and of the origins in http.origins "
        "may ask it; if its pages may, add it to 'http: {{ origins: [...] }}' in weir.yaml",
        in_quotes(visit.origin));
  }
  if (is_own_site(visit.fetch_site)) return {};
  return fmt::format(
      "header: Sec-Fetch-Site is {} without an Origin, so a page of another site asks; let it "
      "send one that is in 'http: {{ origins: [...] }}' in weir.yaml, or ask from a program",
      in_quotes(visit.fetch_site));
}

}  // namespace weir::wire::http
