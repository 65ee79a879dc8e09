// Sampling journal: grants in a SQLite file, written before a client is told of them.
//
// A thread takes what has been queued and writes it in one transaction; what comes
// meanwhile makes the next one. So grants that are made at the same time share one write
// to the disk, and a grant by itself waits for one.
//
//   auto journal = SamplingJournal::open(store->directory(), StartEmpty::kNo);
//   sampling->set_secret(store->secret());
//   (*journal)->restore(*sampling, clock.now());
//   sampling->set_journal(journal->get());
//
// A write that fails is tried again until it succeeds. The callers that wait for it are told
// of the failure, and nothing more is granted meanwhile; what was granted stays counted.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/directory.h"
#include "weir/store/sqlite/store.h"
#include "weir/system/sampling/journal.h"
#include "weir/system/sampling/sampling.h"

namespace weir::store::sqlite {

struct JournalStats {
  std::uint64_t records = 0;       // written
  std::uint64_t transactions = 0;  // that wrote them
  std::uint64_t failed = 0;        // transactions
  std::string last_error{};        // empty: the last one succeeded
};

class SamplingJournal final : public system::sampling::Journal {
 public:
  using Record = system::sampling::Record;
  using Ticket = system::sampling::Ticket;

  static Result<std::unique_ptr<SamplingJournal>> open(const Directory& directory,
                                                       StartEmpty start_empty);
  ~SamplingJournal() override;  // writes what is queued, if that can be
  SamplingJournal(const SamplingJournal&) = delete;
  SamplingJournal& operator=(const SamplingJournal&) = delete;

  // Brings back everything that is in the file. Says how many records that were.
  Result<std::uint64_t> restore(system::sampling::Sampling& sampling, Instant now);

  Status ready() const override;
  Ticket append(const Record& record) override;
  void when_written(Ticket ticket, std::function<void(const Status&)> told) override;
  // Waits until the record is safe, or has failed to become so.
  Status wait(Ticket ticket);

  // Records of before are of no use any more. They go with some later write.
  void forget_before(Instant at) noexcept { useless_before_ns_.store(at.ns); }

  JournalStats stats() const;

  // Writes what is queued and ends; nothing may be appended afterwards.
  Status stop() noexcept;

 private:
  struct Waiter {
    Ticket ticket;
    std::function<void(const Status&)> told;
  };

  SamplingJournal(Database database, std::string file);

  void run();
  // Writes what is queued, and tells those who wait.
  void write_queued(std::unique_lock<std::mutex>& lock);
  Status write(const std::vector<Record>& records);
  Status purge();
  Error unwritten() const;

  const std::string file_;
  std::mutex file_lock_;  // of the database
  Database database_;
  std::atomic<std::int64_t> useless_before_ns_{0};
  struct Purged {
    std::int64_t before_ns = 0;
    std::int64_t place = 0;  // up to there rows are gone, or of a clock that was ahead
  };
  Purged purged_;                    // as the rest, under file_lock_
  std::int64_t restored_place_ = 0;  // up to there rows are of before restore()
  std::int64_t restored_at_ns_ = 0;
  std::uint64_t last_reservation_ = 0;

  mutable std::mutex lock_;  // of everything below; taken before the database's, never after
  std::condition_variable woken_;
  std::vector<Record> queue_;
  Ticket appended_ = 0;
  Ticket written_ = 0;
  std::vector<Waiter> waiters_;
  JournalStats stats_;
  std::atomic<bool> is_failing_{false};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::store::sqlite
