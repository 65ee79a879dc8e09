#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <limits>

#include "weir/config/config.h"
#include "weir/config/mistakes.h"
#include "weir/engine/quantity.h"

namespace weir::config {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

Error wrong(std::string_view text, std::string_view expected) {
  return bad_argument(fmt::format("is {}, but it must be {}", in_quotes(text), expected));
}

Error not_an_address(std::string_view text) {
  return wrong(text,
               "a numeric address and a port, or 'unix:' and a path; write one such as "
               "'127.0.0.1:6380', '[::1]:6380' or 'unix:/run/weir.sock'");
}

Result<Address> unix_address(std::string_view text) {
  const std::string_view path = text.substr(kUnixPrefix.size());
  if (path.find('\0') != std::string_view::npos) return not_an_address(text);
  if (path.empty() || path.size() > kUnixPathBytesMax) {
    return wrong(text, fmt::format("'unix:' and a path of 1 to {} bytes; write a shorter path",
                                   kUnixPathBytesMax));
  }
  return Address{.kind = Address::Kind::kUnix, .path = std::string(path)};
}

bool is_numeric(int family, const std::string& host) {
  in6_addr address{};  // large enough for both families
  // inet_pton would stop at a zero byte, and the host go on.
  return host.find('\0') == std::string::npos && inet_pton(family, host.c_str(), &address) == 1;
}

}  // namespace

bool Address::is_local() const noexcept {
  switch (kind) {
    case Kind::kTcp4:
      return host.starts_with("127.");
    case Kind::kTcp6: {
      in6_addr address{};
      return inet_pton(AF_INET6, host.c_str(), &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
    }
    case Kind::kUnix:
      return true;
  }
  return false;
}

std::string Address::text() const {
  switch (kind) {
    case Kind::kTcp4:
      return fmt::format("{}:{}", host, port);
    case Kind::kTcp6:
      return fmt::format("[{}]:{}", host, port);
    case Kind::kUnix:
      break;
  }
  return fmt::format("{}{}", kUnixPrefix, path);
}

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return unix_address(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_address(text);
  std::string host(text.substr(0, colon));
  Address address;
  if (host.starts_with('[') && host.ends_with(']')) {
    address.kind = Address::Kind::kTcp6;
    host = host.substr(1, host.size() - 2);
    if (!is_numeric(AF_INET6, host)) return not_an_address(text);
  } else {
    if (host == "localhost") host = "127.0.0.1";
    if (!is_numeric(AF_INET, host)) return not_an_address(text);
  }
  const Result<std::int64_t> port = engine::parse_count("port", text.substr(colon + 1), 0,
                                                        std::numeric_limits<std::uint16_t>::max());
  if (!port) return wrong(text, "an address with a port from 0 to 65535; write another port");
  address.host = std::move(host);
  address.port = static_cast<std::uint16_t>(*port);
  return address;
}

}  // namespace weir::config
