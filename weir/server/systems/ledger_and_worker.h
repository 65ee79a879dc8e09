// Ledger and worker: both of a server, as `compute:` of the configuration has them.
//
// The ledger lies in `ledger/` under state.dir, or in memory. A worker fetches its
// allocations on a thread of its own: from the ledger in the same process, where it joins by
// itself, from another weir over HTTP, or from a file. Its buckets and the last good
// allocations are kept in `worker.state` under state.dir, so that a restart has both
// though the ledger cannot be asked.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/config/config.h"
#include "weir/system/compute/feed.h"
#include "weir/system/compute/ledger_service.h"
#include "weir/wire/http/compute_routes.h"

namespace weir::server {

class LedgerAndWorker {
 public:
  // `worker`: nullptr if `settings` have none. Without `state_dir` nothing is kept. Requires a
  // clock that outlives it. `on_room` is called by its thread when a portal may have more room than
  // before: a query has expired, or other allocations are in force.
  static Result<std::unique_ptr<LedgerAndWorker>> start(
      const config::ComputeSettings& settings,
      std::shared_ptr<system::compute::SharedWorker> worker,
      const std::optional<std::filesystem::path>& state_dir, Clock& clock,
      std::function<void()> on_room);
  ~LedgerAndWorker();
  LedgerAndWorker(const LedgerAndWorker&) = delete;
  LedgerAndWorker& operator=(const LedgerAndWorker&) = delete;

  wire::http::ComputePart part() const;
  // Why the last fetch, or the last writing of buckets, failed; empty if neither did.
  std::string trouble() const;
  // Ends the thread: allocations stay as they are, and on_room is not called any more.
  void rest();
  // Rests and writes the buckets.
  Status stop();

 private:
  class Source;
  class OwnLedger;
  class Remote;
  class File;

  LedgerAndWorker(Clock& clock, std::shared_ptr<system::compute::LedgerService> ledger,
                  std::shared_ptr<system::compute::SharedWorker> worker,
                  std::function<void()> on_room);
  Status begin_worker(const config::ComputeWorkerSettings& worker,
                      const std::optional<std::filesystem::path>& state_dir);
  // Whether the worker goes on with what it had before this process.
  bool resume(const std::filesystem::path& file, Instant now);
  void run();
  void round(Instant now);
  void tell_of_room();
  Status keep();

  Clock& clock_;
  const std::shared_ptr<system::compute::LedgerService> ledger_;  // nullptr: elsewhere
  const std::shared_ptr<wire::http::AllocationDesk> desk_;        // as ledger_
  const std::function<void()> on_room_;
  const std::shared_ptr<system::compute::SharedWorker> worker_;  // nullptr: none
  std::unique_ptr<Source> source_;
  std::optional<std::filesystem::path> file_;  // of the buckets

  mutable std::mutex lock_;  // for what follows; not held during a fetch
  std::condition_variable wake_;
  std::unique_ptr<system::compute::Feed> feed_;
  std::string keep_trouble_;
  std::string resume_warning_;
  bool is_ending_ = false;
  bool is_kept_ = false;  // for the last time

  Duration period_{};  // between two rounds; the rest is the thread's own
  Instant fetch_at_{};
  std::uint64_t expired_ = 0;   // as last told of
  bool has_new_rates_ = false;  // not told of yet
  std::string kept_;
  std::thread thread_;
};

}  // namespace weir::server
