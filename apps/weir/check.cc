#include "apps/weir/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "apps/weir/exit.h"
#include "weir/config/config.h"
#include "weir/wire/http/text.h"

namespace weir::app {
namespace {

using wire::http::append_quoted;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.push_back(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

struct Located {
  std::string_view file, line, column, message;
};

// Takes `FILE:LINE:COLUMN: message` apart; where there is no place, all of it is message.
Located located(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  for (std::size_t at = text.find(':'); at != text.npos; at = text.find(':', at + 1)) {
    const std::size_t line_end = text.find_first_not_of(kDigits, at + 1);
    if (line_end == text.npos || line_end == at + 1 || text[line_end] != ':') continue;
    const std::size_t end = text.find_first_not_of(kDigits, line_end + 1);
    if (end == text.npos || end == line_end + 1 || text.substr(end, 2) != ": ") continue;
    return {text.substr(0, at), text.substr(at + 1, line_end - at - 1),
            text.substr(line_end + 1, end - line_end - 1), text.substr(end + 2)};
  }
  return {{}, {}, {}, text};
}

template <typename Lines>
void append_located(std::string& out, std::string_view name, const Lines& lines) {
  append_quoted(out, name);
  out += ":[";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Located part = located(lines[i]);
    out += i == 0 ? "{" : ",{";
    if (!part.line.empty()) {
      out += "\"file\":";
      append_quoted(out, part.file);
      out += fmt::format(",\"line\":{},\"column\":{},", part.line, part.column);
    }
    out += "\"message\":";
    append_quoted(out, part.message);
    out += '}';
  }
  out += ']';
}

std::string json_of(std::string_view mistakes, const std::vector<std::string>& warnings,
                    std::string_view meaning) {
  std::string out = mistakes.empty() ? "{\"valid\":true," : "{\"valid\":false,";
  append_located(out, "mistakes", lines_of(mistakes));
  out += ',';
  append_located(out, "warnings", warnings);
  out += ",\"meaning\":[";
  const std::vector<std::string_view> lines = lines_of(meaning);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += ',';
    append_quoted(out, lines[i]);
  }
  return out + "]}";
}

}  // namespace

int run_check(const std::string& path, bool json) {
  const Result<config::Config> config = config::load(path);
  if (!config) {
    if (json) fmt::print("{}\n", json_of(config.error().message, {}, {}));
    if (!json) fmt::print(stderr, "{}\n", config.error().message);
    return kExitFailed;
  }
  std::vector<std::string> warnings = config->warnings;
  for (std::string& line : config::unwritable(*config)) warnings.push_back(std::move(line));
  const std::string meaning = config::describe(*config);
  if (json) {
    fmt::print("{}\n", json_of({}, warnings, meaning));
    return kExitOk;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  fmt::print("{}", meaning);
  return kExitOk;
}

}  // namespace weir::app
