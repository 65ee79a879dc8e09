// Address: where a Redis is, and as whom to speak to it.
//
//   redis://localhost                      port 6379, database 0
//   redis://user:secret@10.0.0.7:6380/2    a user of an access list, database 2
//   redis://:secret@[::1]:6379             `requirepass`: the password of the default user
//   unix:///run/redis/redis.sock?db=1      a socket of this machine
//
// User and password may hold %XX. TLS (`rediss://`) is refused by name.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/base/result.h"

namespace weir::store::redis {

constexpr std::size_t kAddressBytesMax = 1024;
constexpr std::uint16_t kPortDefault = 6379;
constexpr int kDatabaseMax = 16383;

struct Address {
  std::string host{};  // empty: `path` is a unix socket
  std::uint16_t port = kPortDefault;
  std::string path{};
  std::string user{};      // empty: the default user
  std::string password{};  // empty: none is sent
  int database = 0;

  bool is_unix() const noexcept { return host.empty(); }
  friend bool operator==(const Address&, const Address&) = default;
};

Result<Address> parse_address(std::string_view url);

// For messages and logs: never the password.
std::string describe(const Address& address);

}  // namespace weir::store::redis
