// Any bytes at all as Host, Origin and Sec-Fetch-Site: who is answered is what a plain reading of
// the rule says, and a refusal says what to configure.
//
// The first byte chooses what is configured; the rest are the three fields, a line each.

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/input.h"
#include "weir/wire/http/visitors.h"

namespace {

using weir::fuzz::check;
using weir::wire::http::Visit;
using weir::wire::http::Visitors;

constexpr std::string_view kHost = "weir.internal";
constexpr std::string_view kOrigin = "https://dash.example";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

std::string_view line_of(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

bool is_address(int family, const std::string& text) {
  unsigned char bytes[16];
  return text.find('\0') == std::string::npos && ::inet_pton(family, text.c_str(), bytes) == 1;
}

// The rule again, in other words: no name that a stranger's name server could answer for.
bool is_safe_host(std::string_view field, const Visitors& visitors) {
  std::string host = lower(field);
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) {
    const std::string port = host.substr(colon + 1);
    const bool is_port = !port.empty() && port.size() <= 5 &&
                         port.find_first_not_of("0123456789") == std::string::npos;
    if (!is_port) return false;
    host.resize(colon);
  }
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return false;
    host = host.substr(1, host.size() - 2);
    return is_address(AF_INET6, host.substr(0, host.find('%')));
  }
  if (host.ends_with('.')) host.pop_back();
  return is_address(AF_INET, host) || host == "localhost" || host.ends_with(".localhost") ||
         (!host.empty() &&
          std::find(visitors.hosts.begin(), visitors.hosts.end(), host) != visitors.hosts.end());
}

void judge(const Visitors& visitors, const Visit& visit) {
  const std::string said = objection(visitors, visit);
  if (is_ordinary(visit)) check(said.empty());
  if (!said.empty()) {
    check(said.starts_with("header: ") && said.find("http: {") != std::string::npos);
    check(said.find('\n') == std::string::npos && said.find('\r') == std::string::npos);
    return;
  }
  check(visit.over_unix || visit.host.empty() || is_safe_host(visit.host, visitors));
  const bool is_listed = std::find(visitors.origins.begin(), visitors.origins.end(),
                                   lower(visit.origin)) != visitors.origins.end();
  if (!visit.origin.empty() && !is_listed) {
    check(lower(visit.origin) == "http://" + lower(visit.host));
  }
  if (!is_listed) {
    check(visit.fetch_site.empty() || visit.fetch_site == "none" ||
          visit.fetch_site == "same-origin");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::Input input(data, size);
  const std::uint8_t choice = input.byte();
  Visitors visitors;
  if ((choice & 1) != 0) visitors.hosts.emplace_back(kHost);
  if ((choice & 2) != 0) visitors.origins.emplace_back(kOrigin);
  std::string_view rest = input.rest();
  Visit visit;
  visit.host = line_of(rest);
  visit.origin = line_of(rest);
  visit.fetch_site = line_of(rest);
  visit.over_unix = (choice & 4) != 0;
  judge(visitors, visit);
  // Naming more never refuses more.
  if (objection({}, visit).empty()) check(objection(visitors, visit).empty());
  return 0;
}
