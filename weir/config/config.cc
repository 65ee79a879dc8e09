#include "weir/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "weir/config/draft.h"
#include "weir/system/contract/document.h"

namespace weir::config {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

Error unreadable(const std::string& path, int error) {
  return Error{error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
               fmt::format("{}: the file cannot be read ({}); write the path of a readable file",
                           path, std::strerror(error))};
}

// One byte more than allowed, so that the reader of the text sees that there are more.
Result<std::string> read_whole(const std::string& path, std::size_t bytes_max) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return unreadable(path, errno);
  std::string text(bytes_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return unreadable(path, errno);
  return text;
}

std::optional<std::string> variable_of_environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

// A reload: what runs, and what of the file takes a restart.
struct Reload {
  const Config& running;
  std::vector<std::string_view> restarts{};
};

// The rules are compiled once, with what stays as it runs. `reload`: nullptr at a start.
Result<Config> read(std::string_view text, std::string_view name, const ReadFile& read_file,
                    const ReadVariable& read_variable, Reload* reload) {
  Mistakes mistakes;
  Draft draft;
  draft.config.path = name;
  draft.read_file = read_file;
  if (const std::optional<TreeNode> root = parse_document(text, mistakes, read_variable)) {
    read_settings(*root, mistakes, draft);
    if (reload != nullptr) {
      reload->restarts = needs_restart(reload->running, draft.config);
      keep_compute(reload->running, draft);
    }
    compile_limits(mistakes, draft);
    check_shared(mistakes, draft);
    check_bounds(mistakes, draft);
  }
  if (mistakes.count() > 0) return bad_argument(mistakes.text(name));
  draft.config.warnings = mistakes.warnings(name);
  return std::move(draft.config);
}

Result<Config> read_with_files(const std::string& path, Reload* reload) {
  Result<std::string> text = read_whole(path, kFileBytesMax);
  if (!text) return std::move(text).error();
  std::vector<std::string> files;
  const auto read_file = [&files](const std::string& named) {
    files.push_back(named);
    return read_whole(named, std::max(system::throttle::kDefinitionsBytesMax,
                                      system::contract::kDocumentBytesMax));
  };
  Result<Config> config = read(*text, path, read_file, variable_of_environment, reload);
  if (config) config->files = std::move(files);
  return config;
}

}  // namespace

Result<Config> parse(std::string_view text, std::string_view name, const ReadFile& read_file,
                     const ReadVariable& read_variable) {
  return read(text, name, read_file, read_variable, nullptr);
}

Result<Config> load(const std::string& path) { return read_with_files(path, nullptr); }

Result<NextConfig> load_next(const std::string& path, const Config& running) {
  Reload reload{running};
  Result<Config> config = read_with_files(path, &reload);
  if (!config) return std::move(config).error();
  if (Status status = keep_until_restart(running, *config); !status) {
    return std::move(status).error();
  }
  return NextConfig{std::move(*config), std::move(reload.restarts)};
}

bool has_limits(const Config& config) {
  const std::vector<engine::LimitSpec>& limits = config.limits_spec.limits;
  return std::any_of(limits.begin(), limits.end(), [](const engine::LimitSpec& limit) {
    return limit.name != kThrottlesLimit && limit.name != kComputeLimit &&
           limit.name != kSamplingLimit;
  });
}

std::vector<std::string_view> needs_restart(const Config& running, const Config& next) {
  std::vector<std::string_view> keys;
  const auto compare = [&](std::string_view key, const auto& before, const auto& after) {
    if (!(before == after)) keys.push_back(key);
  };
  compare("listen: resp", running.resp, next.resp);
  compare("listen: http", running.http, next.http);
  compare("state", running.state, next.state);
  compare("headers", running.headers, next.headers);
  compare("rounding", running.rounding, next.rounding);
  compare("bounds", running.bounds, next.bounds);
  compare("threads", running.threads, next.threads);
  compare("record", running.record, next.record);
  compare("compute", running.compute, next.compute);
  compare("redis", running.redis, next.redis);
  if (!running.pools || !next.pools || !can_change(*running.pools, *next.pools)) {
    compare("pools", running.pools, next.pools);
  }
  return keys;
}

Status keep_until_restart(const Config& running, Config& next) {
  if (next.redis && !running.redis) {
    return bad_argument(fmt::format(
        "{}: redis is new, but the server was started without it; restart, or leave it out",
        next.path));
  }
  next.resp = running.resp;
  next.http = running.http;
  next.state = running.state;
  next.headers = running.headers;
  next.rounding = running.rounding;
  next.bounds = running.bounds;
  next.threads = running.threads;
  next.record = running.record;
  next.redis = running.redis;
  const bool pools_can_change =
      running.pools && next.pools && can_change(*running.pools, *next.pools);
  if (!pools_can_change) next.pools = running.pools;
  return Done{};
}

std::vector<KeyHelp> known_keys() {
  std::vector<KeyHelp> keys;
  list_settings_keys(keys);
  list_throttle_keys(keys);
  list_contract_keys(keys);
  list_compute_keys(keys);
  list_sampling_keys(keys);
  list_redis_keys(keys);
  list_pool_keys(keys);
  list_limit_keys(keys);
  list_meter_keys(keys);
  list_lease_keys(keys);
  return keys;
}

}  // namespace weir::config
