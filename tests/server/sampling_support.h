// What the sampling tests share: bodies to ask with, and what answers say.

#pragma once

#include <string>
#include <string_view>

#include "tests/server/http_client.h"

namespace weir::server {

inline std::string number_text(const std::string& body, const std::string& name) {
  const std::size_t at = body.find("\"" + name + "\":");
  if (at == std::string::npos) return "(missing)";
  const std::size_t begin = at + name.size() + 3;
  return body.substr(begin, body.find_first_of(",}", begin) - begin);
}

inline std::string grant_body(std::string_view hotkey, int want, std::string_view revision = "r1",
                              std::string_view environment = "E") {
  return R"({"hotkey":")" + std::string(hotkey) + R"(","revision":")" + std::string(revision) +
         R"(","environment":")" + std::string(environment) + R"(","uid":7,"want":)" +
         std::to_string(want) + "}";
}

}  // namespace weir::server
