// Ledger service: a ledger that several callers share, with its history and its clock.
//
// What apply() has answered is kept, however the process ends (store/sqlite/ledger_store.h
// keeps it in a file). A fault is an answer and changes nothing; an error means that it
// could not be written, and nothing has changed either.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/compute/block_clock.h"
#include "weir/system/compute/ledger.h"

namespace weir::system::compute {

constexpr std::size_t kHistoryRowsMax = 1'000;  // in one answer

// Who changed what, when.
struct HistoryRow {
  std::int64_t number = 0;  // from 1, without gaps
  Instant at{};
  Block block = 0;
  std::string by{};
  std::string operation{};  // as operation_text() writes it
};

struct HistoryChoice {
  std::int64_t after = 0;  // rows with greater numbers
  std::size_t most = kHistoryRowsMax;
  std::string_view wallet{};  // empty: any
};

// The ledger at one moment.
struct LedgerView {
  const Ledger& ledger;
  Block block;           // now
  Duration epoch_time;   // as measured
  std::int64_t version;  // of the ledger: the number of operations
};

// The ledger at the first block of an epoch that has begun.
struct PastLedger {
  Ledger ledger;
  Block block;
  Duration epoch_time;  // its blocks times the block time: what was measured then is not kept
};

// What a ledger is begun with.
struct LedgerSettings {
  Parameters parameters{};
  BlockSource blocks = BlockSource::kTime;
  Block genesis_block = 0;
  std::optional<Instant> genesis{};  // when that was; none: when the ledger is first opened
  NamedStrategies strategies{};

  friend bool operator==(const LedgerSettings&, const LedgerSettings&) = default;
};

class LedgerService {
 public:
  virtual ~LedgerService() = default;

  // At the block that it is now. With a block of its own, where blocks are pushed, that one is pushed
  // with it: both or neither. An event that was made before is not made again, whatever happened
  // since: the answer is the one of then. kEventTaken: it was another operation. One that was
  // refused is not remembered.
  virtual Result<Applied> apply(const Operation& operation, std::string_view by, Instant now) = 0;
  // Where blocks are pushed: it is this block now.
  virtual Result<Fault> push_block(Block block, Instant now) = 0;

  // Calls `look` with the ledger locked: no operation changes it meanwhile.
  virtual void read(Instant now, const std::function<void(const LedgerView&)>& look) = 0;

  virtual Result<std::vector<HistoryRow>> history(const HistoryChoice& choice) = 0;
  // The ledger as it was at the end of a block, out of the history. Other callers go on
  // meanwhile.
  virtual Result<Ledger> ledger_at(Block block) = 0;
  // As it was at the first block of an epoch. nullptr: that epoch has not begun. The last few that
  // were asked for are kept. Any other takes as long as the history is; an error if that was done
  // too often lately.
  virtual Result<std::shared_ptr<const PastLedger>> ledger_of_epoch(std::int64_t epoch,
                                                                    Instant now) = 0;
};

}  // namespace weir::system::compute
