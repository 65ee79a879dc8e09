#include "apps/weir/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

#include "weir/wire/http/text.h"

namespace weir::app {
namespace {

constexpr const char* kLogfmt = "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v";
constexpr const char* kJson = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

spdlog::level::level_enum level_of(server::LogLevel level) {
  switch (level) {
    case server::LogLevel::kInfo:
      return spdlog::level::info;
    case server::LogLevel::kWarning:
      return spdlog::level::warn;
    case server::LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// Bare where it reads back as one word, else quoted with JSON's escapes.
void append_logfmt(std::string& out, std::string_view value) {
  bool is_bare = !value.empty();
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    is_bare = is_bare && byte > ' ' && byte < 0x7f && c != '"' && c != '=' && c != '\\';
  }
  if (is_bare) {
    out += value;
  } else {
    wire::http::append_quoted(out, value);
  }
}

std::string logfmt_of(const server::LogLine& line) {
  std::string out = fmt::format("event={}", line.event);
  for (const server::LogField& field : line.fields) {
    out += fmt::format(" {}=", field.name);
    append_logfmt(out, field.value);
  }
  return out;
}

std::string json_of(const server::LogLine& line) {
  std::string out = fmt::format(R"("event":"{}")", line.event);
  for (const server::LogField& field : line.fields) {
    out += fmt::format(R"(,"{}":)", field.name);
    wire::http::append_quoted(out, field.value);
  }
  return out;
}

}  // namespace

server::Log make_log(const LogOptions& options) {
  const bool json = options.format == "json";
  auto logger =
      std::make_shared<spdlog::logger>("weir", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      json ? kJson : kLogfmt, spdlog::pattern_time_type::utc));
  logger->set_level(spdlog::level::from_str(options.level));
  logger->flush_on(spdlog::level::info);
  return [logger, json](const server::LogLine& line) {
    const std::string text = json ? json_of(line) : logfmt_of(line);
    logger->log(level_of(line.level), spdlog::string_view_t(text));
  };
}

}  // namespace weir::app
