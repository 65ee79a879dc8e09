#include "apps/weir/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/weir/exit.h"
#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/server.h"

namespace weir::app {
namespace {

using server::LogLevel;

constexpr auto kPatience = std::chrono::seconds{5};  // for replies to be read at the end
constexpr std::size_t kFilesBesides = 64;            // open files that are no connections
constexpr timespec kLookEvery{1, 0};                 // at the files that were read

// What tells two versions of a file apart.
struct FileMark {
  timespec changed{};
  ino_t inode = 0;
  off_t bytes = 0;

  static FileMark of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {found.st_mtim, found.st_ino, found.st_size};
  }
  // Whether the file is another than before. One that is not there, as between two steps of
  // replacing it, is not looked at.
  bool changes(const std::string& path) {
    const FileMark now = of(path);
    if (now.inode == 0 || now == *this) return false;
    *this = now;
    return true;
  }
  friend bool operator==(const FileMark& a, const FileMark& b) {
    return a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec &&
           a.inode == b.inode && a.bytes == b.bytes;
  }
};

// The same for files that the configuration names.
class FileMarks {
 public:
  // Whether one of them is another than when it was looked at before.
  bool change(const std::vector<std::string>& paths) {
    std::map<std::string, FileMark> now;
    bool has_changed = false;
    for (const std::string& path : paths) {
      const auto known = marks_.find(path);
      FileMark mark = known == marks_.end() ? FileMark::of(path) : known->second;
      if (known != marks_.end() && mark.changes(path)) has_changed = true;
      now.emplace(path, mark);
    }
    marks_ = std::move(now);
    return has_changed;
  }

 private:
  std::map<std::string, FileMark> marks_;
};

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
  FileMark mark = FileMark::of(path);
  Result<config::Config> config = config::load(path);
  if (!config) return refuse(config.error());
  FileMarks others;
  others.change(config->files);
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
          {"expired", std::to_string(report.expired)}}});
  }
  if (!record.empty()) log({LogLevel::kInfo, "record", {{"file", record}}});
  for (const std::string& address : (*server)->addresses()) {
    log({LogLevel::kInfo, "listening", {{"address", address}}});
  }
  for (;;) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kLookEvery);
    if (signal == SIGTERM || signal == SIGINT) break;
    const bool changed = mark.changes(path);
    const bool others_changed = others.change((*server)->files());
    if (signal == SIGHUP || changed || others_changed) {
      // Refused or not, the server says so in the log.
      static_cast<void>((*server)->reload(signal == SIGHUP ? "SIGHUP" : "file change").ok());
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
