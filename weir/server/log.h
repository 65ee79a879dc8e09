// Log: what happens to the server, told to a function that keeps it.
//
// The library prints nothing. A start, a listener, a reload, an outage and the end are
// a line each; a request never is. docs/reference/logs.md lists events and fields.
//
// Thread safety: a Log is called from any thread, maybe from several at once.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::server {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

struct LogField {
  std::string_view name;
  std::string value;
};

struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string_view event;
  std::vector<LogField> fields{};
};

// Empty: none is kept.
using Log = std::function<void(const LogLine&)>;

}  // namespace weir::server
