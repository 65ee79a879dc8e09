// Recorder: writes decisions to a file, for replay, without holding them up.
//
// A thread that decides appends lines to a buffer in memory; one writer takes the
// buffers and writes them. When the writer falls behind by kLaneBytesMax, decisions are
// dropped and counted, and a line in the file says how many. So it is when the disk
// fails: trouble() says why until a write succeeds again.
//
//   decide ─► lane ─┐
//   decide ─► lane ─┼─► writer ─► file
//   decide ─► lane ─┘
//
// Lines of one thread are in order; those of several are mixed within kWriteEvery.
//
// Thread safety: every function may be called from any thread; close() once.

#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/engine/ask.h"

namespace weir::server {

class Recorder final : public engine::DecisionSink {
 public:
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kLaneBytesMax = std::size_t{4} << 20;
  static constexpr std::size_t kLaneBytesFull = std::size_t{256} << 10;  // wakes the writer
  static constexpr auto kWriteEvery = std::chrono::milliseconds{100};

  // Appends to the file, which must be a recording of this version, or empty, or new.
  static Result<std::unique_ptr<Recorder>> open(std::string path, Clock& clock);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void record(const engine::Ask& ask, Instant now, const Decision& decision) noexcept override;
  void record_ad_hoc(const engine::AdHocAsk& ask, Instant now, bool allowed) noexcept override;

  // Opens the file's name again, after a program has moved the file away. What was decided
  // before still goes to the old one.
  Status reopen();

  // Writes what there is and ends. Nothing is recorded afterwards.
  Status close();

  struct Stats {
    std::uint64_t recorded = 0;  // in the file
    std::uint64_t dropped = 0;
  };
  Stats stats() const;
  // Why the last write failed; empty if it did not.
  std::string trouble() const;

 private:
  struct alignas(64) Lane {
    std::mutex lock;
    std::string lines;
    std::uint64_t count = 0;  // in lines
    std::uint64_t dropped = 0;
  };

  Recorder(std::string path, Clock& clock) : path_(std::move(path)), clock_(clock) {}
  template <typename Append>
  void append(Append&& append_line) noexcept;
  void run();
  void write_lanes();
  void write_lines(const std::string& lines, std::uint64_t count);
  Status open_file();

  const std::string path_;
  Clock& clock_;
  std::array<Lane, kLanes> lanes_;

  std::mutex file_lock_;  // held while writing
  int file_ = -1;
  std::uint64_t unsaid_ = 0;  // dropped, and no line says so yet

  mutable std::mutex lock_;  // for what follows
  std::condition_variable wake_;
  bool is_full_ = false;
  bool is_ending_ = false;
  Stats stats_;
  std::string trouble_;

  std::thread writer_;
};

}  // namespace weir::server
