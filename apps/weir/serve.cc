#include "apps/weir/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "apps/weir/exit.h"
#include "apps/weir/file_marks.h"
#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/server.h"

namespace weir::app {
namespace {

using server::LogLevel;

constexpr auto kPatience = std::chrono::seconds{5};  // for replies to be read at the end
constexpr std::size_t kFilesBesides = 64;            // open files that are no connections
constexpr timespec kLookEvery{1, 0};                 // at the files that were read

// Its own file, and those that it names.
std::vector<std::string> all_files(const std::string& path, std::vector<std::string> named) {
  named.push_back(path);
  return named;
}

// Every connection is an open file, of which systems usually grant 1,024 unasked and more
// on demand.
void raise_file_limit(std::size_t connections, const server::Log& log) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const rlim_t before = std::exchange(files.rlim_cur, files.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = before;
  if (files.rlim_cur >= connections + kFilesBesides) return;
  log({LogLevel::kWarning,
       "few-files",
       {{"open_files", std::to_string(files.rlim_cur)},
        {"connections", std::to_string(connections)},
        {"advice", fmt::format("allow {} open files (ulimit -n, LimitNOFILE), or lower "
                               "bounds.connections",
                               connections + kFilesBesides)}}});
}

}  // namespace

int run_serve(const ServeOptions& options) {
  const std::string& path = options.path;
  const server::Log log = make_log(options.log);
  const auto refuse = [&](const Error& error) {
    fmt::print(stderr, "{}\n", error.message);
    log({LogLevel::kError, "start-refused", {{"config", path}}});
    return kExitFailed;
  };
  // Looked at before they are read, so that a change in between is seen.
  FileMarks files;
  files.watch({path});
  Result<config::Config> config = config::load(path);
  if (!config) return refuse(config.error());
  files.watch(all_files(path, config->files));
  // Blocked before any thread starts, so that only this one takes them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, not the end

  raise_file_limit(config->bounds.connections, log);

  SystemClock clock;
  const std::string state_dir = config->state ? config->state->dir : "";
  const std::string record = config->record;
  Result<std::unique_ptr<server::Server>> server = server::Server::start(
      std::move(*config), clock,
      options.start_empty ? server::StartEmpty::kYes : server::StartEmpty::kNo, log);
  if (!server) return refuse(server.error());
  log({LogLevel::kInfo,
       "start",
       {{"version", WEIR_VERSION}, {"config", path}, {"pid", std::to_string(::getpid())}}});
  if (!state_dir.empty()) {
    const engine::RestoreReport& report = (*server)->restored();
    log({LogLevel::kInfo,
         "state",
         {{"dir", state_dir},
          {"meters", std::to_string(report.meters)},
          {"holds", std::to_string(report.holds)},
          {"skipped", std::to_string(report.skipped)},
          {"no_room", std::to_string(report.no_room)},
          {"expired", std::to_string(report.expired)}}});
  }
  if (!record.empty()) log({LogLevel::kInfo, "record", {{"file", record}}});
  for (const std::string& address : (*server)->addresses()) {
    log({LogLevel::kInfo, "listening", {{"address", address}}});
  }
  for (;;) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kLookEvery);
    if (signal == SIGTERM || signal == SIGINT) break;
    files.watch(all_files(path, (*server)->files()));
    if (files.look() || signal == SIGHUP) {
      files.load();
      // Refused or not, the server says so in the log.
      static_cast<void>(
          (*server)->reload(signal == SIGHUP ? "SIGHUP" : server::kByFileChange).ok());
    }
    if (signal == SIGHUP) {
      if (const Status status = (*server)->reopen_recording(); !status) {
        log({LogLevel::kError, "record-refused", {{"error", status.error().message}}});
      }
    }
  }
  log({LogLevel::kInfo, "stopping"});
  if (const Status status = (*server)->stop(kPatience); !status) {
    log({LogLevel::kError, "stop", {{"lost", status.error().message}}});
    return kExitFailed;
  }
  log({LogLevel::kInfo, "stop"});
  return kExitOk;
}

}  // namespace weir::app
