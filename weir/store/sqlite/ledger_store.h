// Ledger store: the compute ledger in a SQLite file of its own.
//
//   genesis   the parameters that the ledger was begun with
//   history   every operation, in order, who asked for it, at which block and instant
//   facts     the last block that was pushed
//   events    which row of the history made an event, and what was answered
//
// An operation is in the file, and the file on the disk, before it is answered. The ledger
// in memory is what replaying the history gives, so a restart has it again, and the ledger of
// any block or epoch can be had. Rows are only ever added: the file itself refuses to change
// or delete one.
//
// The parameters belong to the history: a file begun with others is refused, because the
// same operations would mean something else. What may change has an operation for it.
//
// Thread safety: as LedgerService says.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/directory.h"
#include "weir/system/compute/block_clock.h"
#include "weir/system/compute/ledger_service.h"

namespace weir::store::sqlite {

using system::compute::LedgerSettings;
using PastLedgerRef = std::shared_ptr<const system::compute::PastLedger>;

constexpr std::size_t kPastLedgersMax = 8;  // that are kept

// A replay counts as this long for each row of the history, about ten times what it takes. Those
// that count for more than the allowance altogether must wait: so replays take a tenth of a thread.
constexpr Duration kReplayRow = std::chrono::microseconds{100};
constexpr Duration kReplayAllowance = std::chrono::seconds{1};

class LedgerStore final : public system::compute::LedgerService {
 public:
  // Takes the directory for this process alone. No directory: in memory only.
  static Result<std::unique_ptr<LedgerStore>> open(const std::optional<std::filesystem::path>& dir,
                                                   LedgerSettings settings, Instant now) noexcept;

  Result<system::compute::Applied> apply(const system::compute::Operation& operation,
                                         std::string_view by, Instant now) override;
  Result<system::compute::Fault> push_block(system::compute::Block block, Instant now) override;
  void read(Instant now,
            const std::function<void(const system::compute::LedgerView&)>& look) override;
  Result<std::vector<system::compute::HistoryRow>> history(
      const system::compute::HistoryChoice& choice) override;
  Result<system::compute::Ledger> ledger_at(system::compute::Block block) override;
  Result<PastLedgerRef> ledger_of_epoch(std::int64_t epoch, Instant now) override;

  // How often the history was read again, for ledgers of the past.
  std::uint64_t replays() const noexcept { return replays_.load(std::memory_order_relaxed); }

 private:
  using Ledger = system::compute::Ledger;
  struct Past {
    std::int64_t epoch;
    PastLedgerRef ledger;
  };

  // Requires lock_. nullptr: it is not kept.
  PastLedgerRef kept(std::int64_t epoch);

  LedgerStore(std::optional<Directory> directory, Database database, std::string file,
              LedgerSettings settings, Ledger ledger, system::compute::BlockClock clock);
  static Result<std::unique_ptr<LedgerStore>> open_directory(
      const std::optional<std::filesystem::path>& dir, LedgerSettings settings, Instant now);

  // The ledger after every row that `wanted` takes, from the first on. Rows are read a page
  // at a time, so that others go on in between: what is in the history stays as it is.
  template <typename Wanted>
  Result<Ledger> replay(Wanted wanted);
  // `pushed`: the block goes on to it.
  Status append(const system::compute::Operation& operation, system::compute::Block block,
                std::string_view by, Instant now, const system::compute::Receipt& receipt,
                bool pushed);
  // What was answered to the event, or that it was another operation; none: it is new.
  Result<std::optional<system::compute::Applied>> made_before(
      const system::compute::Operation& operation);
  // Blocks follow the ledger where its clock is behind, as after a clock that was set back.
  system::compute::Block block_now(Instant now) const;

  const std::optional<Directory> directory_;
  const LedgerSettings settings_;
  const std::string file_;
  std::mutex lock_;  // of everything below
  Database database_;
  Ledger ledger_;
  system::compute::BlockClock clock_;
  std::int64_t rows_ = 0;
  std::deque<Past> past_;  // the last that was asked for first
  Instant replayed_until_{};
  std::atomic<std::uint64_t> replays_{0};
};

}  // namespace weir::store::sqlite
