// Visitors: whose requests are answered, where a browser may have sent them.
//
// A browser asks for any page that it shows, also at 127.0.0.1, where everybody is an
// administrator unless tokens are set. It says so in fields that no page can write: `Origin`,
// `Sec-Fetch-Site`, and in `Host` the name by which it found the server. So what is not of a page
// of this server is refused, unless the configuration names it:
//
//   Host: 127.0.0.1:8080                       answered: no name that someone else could own
//   Host: evil.example:8080                    refused: its name server may point here today
//   Host: 127.0.0.1:8080, Origin: http://127.0.0.1:8080      a page of this server
//   Host: 127.0.0.1:8080, Origin: https://evil.example       refused
//   Host: 127.0.0.1:8080, Sec-Fetch-Site: cross-site         refused: an image, a form, a script
//
// Programs send neither Origin nor Sec-Fetch-Site, and their Host is how they were told to reach
// the server.
//
// Thread safety: pure.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::wire::http {

// Configured, in lower case.
struct Visitors {
  std::vector<std::string> origins{};  // of pages, such as `https://dash.example`
  std::vector<std::string> hosts{};    // names of this server, without a port
};

// What a request says of where it comes from; empty: nothing.
struct Visit {
  std::string_view host{};
  std::string_view origin{};
  std::string_view fetch_site{};
  bool over_unix = false;  // through a unix socket, which no browser reaches: any Host will do
};

// Whether it is answered whoever is configured. It says less than objection() and is quick.
bool is_ordinary(const Visit& visit) noexcept;

// Why it is refused, and what to configure; empty: it is answered.
std::string objection(const Visitors& visitors, const Visit& visit);

}  // namespace weir::wire::http
