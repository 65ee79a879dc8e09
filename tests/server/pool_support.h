// What the tests of pools in a server share.

#pragma once

#include <string>
#include <string_view>

#include "tests/app/support.h"
#include "tests/server/http_client.h"

namespace weir::server {

// What a member of a JSON answer is: its first one of that name, without quotes.
inline std::string member(const std::string& body, const std::string& name) {
  const std::size_t at = body.find("\"" + name + "\":");
  if (at == std::string::npos) return "(missing)";
  std::size_t begin = at + name.size() + 3;
  if (body[begin] == '"') ++begin;
  return body.substr(begin, body.find_first_of("\",}]", begin) - begin);
}

// The same of what comes after `begin` is found; empty: it is not there.
inline std::string after(const std::string& body, std::string_view begin) {
  const std::size_t at = body.find(begin);
  return at == std::string::npos ? std::string() : body.substr(at + begin.size());
}

// Where a process says that it listens.
inline std::string address_of(const Process& process) {
  std::string found;
  EXPECT_TRUE(eventually([&] {
    const std::string log = process.said();
    const std::size_t begin = log.find("127.0.0.1:");
    if (begin == std::string::npos) return false;
    const std::size_t end = log.find_first_not_of("0123456789", begin + 10);
    if (end == std::string::npos) return false;
    found = log.substr(begin, end - begin);
    return true;
  })) << process.said();
  return found;
}

}  // namespace weir::server
