#include "weir/store/redis/link/address.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "weir/base/in_quotes.h"

namespace weir::store::redis {
namespace {

constexpr std::string_view kTcp = "redis://";
constexpr std::string_view kUnix = "unix://";
constexpr std::string_view kExample =
    "write redis://[user:password@]host[:port][/database] or unix:///path/to/socket[?db=number]";
constexpr std::size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// The text without what may be a password.
std::string shown(std::string_view url) {
  const std::size_t at = url.rfind('@');
  const std::size_t scheme = url.find("://");
  if (at == std::string_view::npos || scheme == std::string_view::npos || scheme > at) {
    return in_quotes(url);
  }
  std::string text(url.substr(0, scheme + 3));
  text.append("...").append(url.substr(at));
  return in_quotes(text);
}

Error mistake(std::string_view url, std::string_view what) {
  return bad_argument(fmt::format("Redis address {}: {}; {}", shown(url), what, kExample));
}

std::optional<int> whole_number(std::string_view digits, int most) {
  int value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end || value < 0 || value > most) return std::nullopt;
  return value;
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const std::optional<int> high = hex_digit(text[i + 1]);
    const std::optional<int> low = hex_digit(text[i + 2]);
    if (!high || !low) return std::nullopt;
    plain += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return plain;
}

// Takes `user:password@` off the front of `rest`.
Status read_user(std::string_view url, std::string_view& rest, Address& address) {
  const std::size_t at = rest.rfind('@');
  if (at == std::string_view::npos) return Done{};
  const std::string_view who = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const std::size_t colon = who.find(':');
  if (colon == std::string_view::npos) {
    return mistake(url, "there is a user before '@', but no password");
  }
  const auto user = without_escapes(who.substr(0, colon));
  const auto password = without_escapes(who.substr(colon + 1));
  if (!user || !password) return mistake(url, "'%' before '@' is not followed by two hex digits");
  if (password->empty()) return mistake(url, "the password before '@' is empty");
  address.user = *user;
  address.password = *password;
  return Done{};
}

Result<Address> read_tcp(std::string_view url, std::string_view rest) {
  Address address;
  if (const Status user = read_user(url, rest, address); !user) return user.error();
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view digits = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
    const auto number = digits.empty() ? 0 : whole_number(digits, kDatabaseMax);
    if (!number) {
      return mistake(url, fmt::format("database {} is not a number from 0 to {}", in_quotes(digits),
                                      kDatabaseMax));
    }
    address.database = *number;
  }
  // The colons of an IPv6 address stand in brackets.
  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string_view::npos;
  if (rest.starts_with('[') && bracket == std::string_view::npos) {
    return mistake(url, "'[' has no ']'");
  }
  const std::size_t colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto number = whole_number(digits, 65535);
    if (!number || *number == 0) {
      return mistake(url,
                     fmt::format("port {} is not a number from 1 to 65535", in_quotes(digits)));
    }
    address.port = static_cast<std::uint16_t>(*number);
    rest = rest.substr(0, colon);
  }
  if (bracket != std::string_view::npos) {
    if (rest.size() != bracket + 1) return mistake(url, "there is more than a port after ']'");
    rest = rest.substr(1, bracket - 1);
  }
  if (rest.empty()) return mistake(url, "there is no host");
  address.host = rest;
  return address;
}

Result<Address> read_unix(std::string_view url, std::string_view rest) {
  Address address;
  if (const Status user = read_user(url, rest, address); !user) return user.error();
  if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos) {
    const std::string_view query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
    const auto number =
        query.starts_with("db=") ? whole_number(query.substr(3), kDatabaseMax) : std::nullopt;
    if (!number) {
      return mistake(url, fmt::format("{} after '?' is not db= and a number from 0 to {}",
                                      in_quotes(query), kDatabaseMax));
    }
    address.database = *number;
  }
  if (!rest.starts_with('/')) return mistake(url, "the path of the socket does not begin with '/'");
  if (rest.size() > kPathBytesMax) {
    return mistake(url,
                   fmt::format("the path of the socket has {} bytes, but at most {} are possible",
                               rest.size(), kPathBytesMax));
  }
  address.path = rest;
  return address;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  if (url.size() > kAddressBytesMax) {
    return mistake(
        url, fmt::format("it has {} bytes, but at most {} are read", url.size(), kAddressBytesMax));
  }
  if (url.find('\0') != std::string_view::npos) return mistake(url, "it holds a zero byte");
  if (url.starts_with(kTcp)) return read_tcp(url, url.substr(kTcp.size()));
  if (url.starts_with(kUnix)) return read_unix(url, url.substr(kUnix.size()));
  if (url.starts_with("rediss")) return mistake(url, "TLS is not supported yet");
  for (const std::string_view scheme : {"redis-sentinel://", "redis+sentinel://", "sentinel://"}) {
    if (!url.starts_with(scheme)) continue;
    return mistake(url, "Sentinel is not supported yet, so it must be the Redis that it watches");
  }
  for (const std::string_view scheme : {"redis-cluster://", "redis+cluster://", "cluster://"}) {
    if (!url.starts_with(scheme)) continue;
    return mistake(url, "Cluster is not supported yet, so it must be one Redis by itself");
  }
  return mistake(url, "it begins neither with 'redis://' nor with 'unix://'");
}

std::string describe(const Address& address) {
  std::string text;
  if (address.is_unix()) {
    text = fmt::format("unix://{}", address.path);
    if (address.database != 0) text.append(fmt::format("?db={}", address.database));
    return text;
  }
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  text = fmt::format("redis://{}{}{}:{}", is_ipv6 ? "[" : "", address.host, is_ipv6 ? "]" : "",
                     address.port);
  if (address.database != 0) text.append(fmt::format("/{}", address.database));
  return text;
}

}  // namespace weir::store::redis
