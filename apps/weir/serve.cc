#include "apps/weir/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/server.h"

namespace weir::app {
namespace {

constexpr auto kPatience = std::chrono::seconds{5};  // for replies to be read at the end
constexpr timespec kLookEvery{1, 0};                 // at the configuration file

// One line of the log: when, and what happened.
void say(const std::string& what) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  fmt::print(stderr, "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z {}\n", parts.tm_year + 1900,
             parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
             now.tv_nsec / 1'000'000, what);
}

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
  friend bool operator==(const FileMark& a, const FileMark& b) {
    return a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec &&
           a.inode == b.inode && a.bytes == b.bytes;
  }
};

void reload(server::Server& server, const std::string& path, std::string_view why) {
  const Status status = server.reload();
  if (status) {
    say(fmt::format("reloaded {}: {}", path, why));
  } else {
    say(fmt::format("kept the old rules, {} has mistakes:\n{}", path, status.error().message));
  }
}

}  // namespace

int run_serve(const std::string& path, bool start_empty) {
  FileMark mark = FileMark::of(path);
  Result<config::Config> config = config::load(path);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().message);
    return 1;
  }
  // Nobody may believe that decisions are recorded when they are not.
  if (!config->record.empty()) {
    fmt::print(stderr, "{}: 'record' is set, but this version records nothing; leave it out\n",
               path);
    return 1;
  }
  // Blocked before any thread starts, so that only this one takes them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, not the end

  SystemClock clock;
  const std::string state_dir = config->state ? config->state->dir : "";
  Result<std::unique_ptr<server::Server>> server = server::Server::start(
      std::move(*config), clock, start_empty ? server::StartEmpty::kYes : server::StartEmpty::kNo);
  if (!server) {
    fmt::print(stderr, "{}\n", server.error().message);
    return 1;
  }
  if (!state_dir.empty()) {
    const engine::RestoreReport& report = (*server)->restored();
    say(fmt::format(
        "state in {}: brought back {} meters and {} holds; {} meters of limits that are "
        "gone, {} holds expired",
        state_dir, report.meters, report.holds, report.skipped, report.expired));
  }
  for (const std::string& address : (*server)->addresses()) {
    say(fmt::format("listening on {}", address));
  }
  for (const config::Address& address : (*server)->not_served()) {
    say(fmt::format("not listening on {}: this version serves RESP only", address.text()));
  }
  for (;;) {
    const int signal = ::sigtimedwait(&signals, nullptr, &kLookEvery);
    if (signal == SIGTERM || signal == SIGINT) break;
    const FileMark now = FileMark::of(path);
    const bool changed = !(now == mark) && now.inode != 0;
    if (signal == SIGHUP || changed) {
      mark = now;
      reload(**server, path, signal == SIGHUP ? "SIGHUP" : "the file changed");
    }
  }
  say("stopping");
  if (const Status status = (*server)->stop(kPatience); !status) {
    say(fmt::format("stopped, but what changed last is lost: {}", status.error().message));
    return 1;
  }
  say("stopped");
  return 0;
}

}  // namespace weir::app
