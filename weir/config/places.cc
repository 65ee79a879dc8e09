// Whether what a configuration names can be written, before a server finds out.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "weir/base/in_quotes.h"
#include "weir/config/config.h"

namespace weir::config {
namespace {

namespace fs = std::filesystem;

bool may(const fs::path& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

// Why nothing can be made in `folder`; empty: it can.
std::string trouble_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fmt::format("{} is no folder; write another path", in_quotes(folder.string()));
  }
  if (may(folder, W_OK | X_OK)) return {};
  return fmt::format("{} cannot be written ({}); give its user the right to, or write another path",
                     in_quotes(folder.string()), std::strerror(errno));
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The folder is made with its parents, so the first of them that is there counts.
std::string state_trouble(fs::path dir) {
  std::error_code error;
  while (!fs::exists(fs::symlink_status(dir, error)) && parent_of(dir) != dir) dir = parent_of(dir);
  return trouble_in(dir);
}

// The file is made, its folder is not.
std::string record_trouble(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    const fs::path folder = parent_of(file);
    if (fs::exists(folder, error)) return trouble_in(folder);
    return fmt::format("its folder {} is not there; make it, or write another path",
                       in_quotes(folder.string()));
  }
  if (fs::is_directory(file, error)) return "it is a folder; write the path of a file";
  if (may(file, W_OK)) return {};
  return fmt::format("it cannot be written ({}); give its user the right to, or write another path",
                     std::strerror(errno));
}

}  // namespace

std::vector<std::string> unwritable(const Config& config) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view key, const std::string& path, const std::string& trouble) {
    if (trouble.empty()) return;
    lines.push_back(fmt::format("{}: {}: {}: {}", config.path, key, in_quotes(path), trouble));
  };
  if (config.state) add("state dir", config.state->dir, state_trouble(config.state->dir));
  if (!config.record.empty()) add("record", config.record, record_trouble(config.record));
  return lines;
}

}  // namespace weir::config
