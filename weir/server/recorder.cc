#include "weir/server/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weir/server/recording.h"

namespace weir::server {
namespace {

std::size_t lane_of_this_thread() {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t lane =
      threads.fetch_add(1, std::memory_order_relaxed) % Recorder::kLanes;
  return lane;
}

Error cannot(std::string_view what, const std::string& path, int number) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("record: cannot {} {}: {}; make room there, or write another file", what,
                           path, std::strerror(number))};
}

// False, with errno: not all of it could be written.
bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Whether the file begins as a recording of this version does.
bool has_header(int file) {
  std::string head(kRecordingHeader.size(), '\0');
  const ssize_t read = ::pread(file, head.data(), head.size(), 0);
  return read == static_cast<ssize_t>(head.size()) && head == kRecordingHeader;
}

// Cuts off a line that a killed process left unfinished: it would swallow the next one.
bool cut_to_whole_lines(int file, off_t bytes) {
  for (char last = 0; ::pread(file, &last, 1, bytes - 1) == 1; --bytes) {
    if (last == '\n') return ::ftruncate(file, bytes) == 0;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::open(std::string path, Clock& clock) {
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(path), clock));
  if (Status status = recorder->open_file(); !status) return std::move(status).error();
  recorder->writer_ = std::thread([raw = recorder.get()] { raw->run(); });
  return recorder;
}

Recorder::~Recorder() {
  const Status ignored = close();
  static_cast<void>(ignored);
}

Status Recorder::open_file() {
  const int file = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (file < 0) return cannot("open", path_, errno);
  struct stat found {};
  ::fstat(file, &found);
  bool ok = true;
  if (found.st_size == 0) {
    ok = write_all(file, kRecordingHeader);
  } else if (S_ISREG(found.st_mode) && !has_header(file)) {
    ::close(file);
    return bad_argument(
        fmt::format("record: {} is there and is not a recording of this version; move it away, or "
                    "write another file",
                    path_));
  } else if (S_ISREG(found.st_mode)) {
    ok = cut_to_whole_lines(file, found.st_size);
  }
  if (!ok) {
    const int number = errno;
    ::close(file);
    return cannot("write", path_, number);
  }
  file_ = file;
  return Done{};
}

template <typename Append>
void Recorder::append(Append&& append_line) noexcept {
  Lane& lane = lanes_[lane_of_this_thread()];
  bool is_full = false;
  {
    const std::scoped_lock lock(lane.lock);
    if (lane.lines.size() >= kLaneBytesMax) {
      lane.dropped += 1;
      return;
    }
    const std::size_t before = lane.lines.size();
    append_line(lane.lines);
    lane.count += 1;
    is_full = before < kLaneBytesFull && lane.lines.size() >= kLaneBytesFull;
  }
  if (!is_full) return;
  {
    const std::scoped_lock lock(lock_);
    is_full_ = true;
  }
  wake_.notify_one();
}

void Recorder::record(const engine::Ask& ask, Instant now, const Decision& decision) noexcept {
  append([&](std::string& lines) { append_decision(lines, ask, now, decision); });
}

void Recorder::record_ad_hoc(const engine::AdHocAsk& ask, Instant now, bool allowed) noexcept {
  append([&](std::string& lines) { append_ad_hoc(lines, ask, now, allowed); });
}

void Recorder::run() {
  for (;;) {
    bool is_ending = false;
    {
      std::unique_lock lock(lock_);
      wake_.wait_for(lock, kWriteEvery, [this] { return is_full_ || is_ending_; });
      is_full_ = false;
      is_ending = is_ending_;
    }
    const std::scoped_lock lock(file_lock_);
    write_lanes();
    if (is_ending) return;
  }
}

void Recorder::write_lanes() {
  std::string lines;
  for (Lane& lane : lanes_) {
    lines.clear();
    std::uint64_t count = 0;
    {
      const std::scoped_lock lock(lane.lock);
      lines.swap(lane.lines);
      count = std::exchange(lane.count, 0);
      unsaid_ += lane.dropped;
      const std::scoped_lock stats_lock(lock_);
      stats_.dropped += std::exchange(lane.dropped, 0);
    }
    if (!lines.empty() || unsaid_ > 0) write_lines(lines, count);
  }
}

void Recorder::write_lines(const std::string& lines, std::uint64_t count) {
  std::string said;
  if (unsaid_ > 0) append_dropped(said, clock_.now(), unsaid_);
  struct stat before {};
  const bool is_file = ::fstat(file_, &before) == 0 && S_ISREG(before.st_mode);
  if (write_all(file_, said) && write_all(file_, lines)) {
    unsaid_ = 0;
    const std::scoped_lock lock(lock_);
    stats_.recorded += count;
    trouble_.clear();
    return;
  }
  const int number = errno;
  // Half a line must not stay.
  if (is_file && ::ftruncate(file_, before.st_size) != 0) {
    // Nothing more can be done; a reader of the file is told of the line.
  }
  unsaid_ += count;
  const std::scoped_lock lock(lock_);
  stats_.dropped += count;
  trouble_ = cannot("write", path_, number).message;
}

Status Recorder::reopen() {
  const std::scoped_lock lock(file_lock_);
  if (file_ < 0) return Done{};
  write_lanes();
  const int old = file_;
  if (Status status = open_file(); !status) return status;  // and the old one stays in use
  ::close(old);
  return Done{};
}

Status Recorder::close() {
  {
    const std::scoped_lock lock(lock_);
    is_ending_ = true;
  }
  wake_.notify_one();
  if (writer_.joinable()) writer_.join();
  const std::scoped_lock lock(file_lock_);
  if (file_ < 0) return Done{};
  ::close(std::exchange(file_, -1));
  const std::scoped_lock trouble_lock(lock_);
  if (trouble_.empty()) return Done{};
  return Error{ErrorCode::kUnavailable, trouble_};
}

Recorder::Stats Recorder::stats() const {
  const std::scoped_lock lock(lock_);
  return stats_;
}

std::string Recorder::trouble() const {
  const std::scoped_lock lock(lock_);
  return trouble_;
}

}  // namespace weir::server
