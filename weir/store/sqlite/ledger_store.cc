#include "weir/store/sqlite/ledger_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <sstream>

#include "weir/base/assert.h"
#include "weir/store/sqlite/file.h"

namespace weir::store::sqlite {
namespace {

using system::compute::Applied;
using system::compute::Block;
using system::compute::BlockClock;
using system::compute::Fault;
using system::compute::HistoryChoice;
using system::compute::HistoryRow;
using system::compute::Ledger;
using system::compute::LedgerView;
using system::compute::Operation;
using system::compute::Parameters;
using system::compute::parts_text;
using system::compute::PastLedger;
using system::compute::Receipt;

constexpr std::int64_t kRowsCounted = std::int64_t{1} << 40;  // more than any file has

constexpr FileKind kLedgerFile{"ledger.db", 0x57656c67 /* "Welg" */, 1,
                               "what was locked is not known, so bring back a copy of the file, or "
                               "move it away to begin another ledger"};

constexpr const char* kLedgerTables = R"(
  CREATE TABLE genesis (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE history (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, block INTEGER NOT NULL,
                        actor TEXT NOT NULL, wallet TEXT NOT NULL, operation TEXT NOT NULL);
  CREATE INDEX history_of_wallet ON history (wallet, number);
  CREATE TRIGGER history_stays BEFORE UPDATE ON history
    BEGIN SELECT RAISE(ABORT, 'history is only added to'); END;
  CREATE TRIGGER history_is_kept BEFORE DELETE ON history
    BEGIN SELECT RAISE(ABORT, 'history is only added to'); END;
)";

// Also made in a file that was begun by a weir that knew no events. Nothing of it is in memory: it
// grows as the history does, by a row for each event that was made.
constexpr const char* kEventTable = R"(
  CREATE TABLE IF NOT EXISTS events (event TEXT PRIMARY KEY, number INTEGER NOT NULL,
                                     receipt TEXT NOT NULL) WITHOUT ROWID;
  CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are only added to'); END;
  CREATE TRIGGER IF NOT EXISTS events_are_kept BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are only added to'); END;
)";

std::string receipt_text(const Receipt& receipt) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}", parts_text(receipt.amount), receipt.start,
                     receipt.end, parts_text(receipt.total_units), receipt.portals, receipt.epoch,
                     receipt.next_epoch, receipt.worker, receipt.active, receipt.ticket,
                     parts_text(receipt.place));
}

std::optional<Receipt> parse_receipt(const std::string& text) {
  std::istringstream in(text);
  Receipt receipt;
  std::string amount;
  std::string total;
  std::string place;
  in >> amount >> receipt.start >> receipt.end >> total >> receipt.portals >> receipt.epoch >>
      receipt.next_epoch >> receipt.worker >> receipt.active >> receipt.ticket >> place;
  if (in.fail() || !(in >> std::ws).eof()) return std::nullopt;
  const auto parsed = system::compute::parse_parts("amount", amount);
  const auto parsed_total = system::compute::parse_parts("total", total);
  const auto parsed_place = system::compute::parse_parts("place", place);
  if (!parsed || !parsed_total || !parsed_place) return std::nullopt;
  receipt.place = *parsed_place;
  receipt.amount = *parsed;
  receipt.total_units = *parsed_total;
  return receipt;
}

using Genesis = std::map<std::string, std::string, std::less<>>;

Genesis genesis_of(const LedgerSettings& settings) {
  const Parameters& parameters = settings.parameters;
  std::string boost;
  for (const system::compute::BoostStep& step : parameters.boost) {
    boost += fmt::format("{}{}s:{}", boost.empty() ? "" : " ", step.seconds, step.boost_bp);
  }
  return {
      {"min_lock", parts_text(parameters.min_lock)},
      {"supply", parts_text(parameters.supply)},
      {"mana", std::to_string(parameters.mana)},
      {"block_time", std::to_string(parameters.block_time_s)},
      {"max_lock", std::to_string(parameters.max_lock_s)},
      {"max_portals", std::to_string(parameters.max_portals)},
      {"boost", boost},
      {"first_epoch", std::to_string(parameters.clock.first)},
      {"epoch", std::to_string(parameters.clock.length)},
      {"min_stake", parts_text(parameters.min_stake)},
      {"pool_capacity", parts_text(parameters.pool_capacity)},
      {"pool_mana", std::to_string(parameters.pool_mana_bp)},
      {"exit_rate", parts_text(parameters.exit_rate)},
      {"remainder",
       parameters.remainder == system::compute::Remainder::kRotate ? "rotate" : "drop"},
      {"published_faults", parameters.published_faults ? "true" : "false"},
      {"genesis_block", std::to_string(settings.genesis_block)},
  };
}

Status write_genesis(Database& database, const Genesis& genesis) {
  Result<Statement> insert = database.prepare("INSERT INTO genesis VALUES (?1, ?2)");
  if (!insert) return std::move(insert).error();
  for (const auto& [name, value] : genesis) {
    if (Status status = insert->bind(1, name).bind(2, value).run(); !status) return status;
  }
  return Done{};
}

Status write_fact(Database& database, std::string_view name, std::int64_t value) {
  Result<Statement> statement = database.prepare("REPLACE INTO facts VALUES (?1, ?2)");
  if (!statement) return std::move(statement).error();
  return statement->bind(1, name).bind(2, value).run();
}

Result<std::int64_t> read_fact(Database& database, std::string_view name) {
  Result<Statement> query = database.prepare("SELECT value FROM facts WHERE name = ?1");
  if (!query) return std::move(query).error();
  const Result<bool> row = query->bind(1, name).step();
  if (!row) return row.error();
  return *row ? query->integer(0) : 0;
}

// Refused where the file was begun with other parameters, naming the first of them.
Status check_genesis(Database& database, const std::string& file, const Genesis& wanted) {
  Result<Statement> query = database.prepare("SELECT name, value FROM genesis");
  if (!query) return unusable(kLedgerFile, file, query.error());
  Genesis found;
  for (Result<bool> row = query->step();; row = query->step()) {
    if (!row) return unusable(kLedgerFile, file, row.error());
    if (!*row) break;
    found.emplace(query->text(0), query->text(1));
  }
  for (const auto& [name, value] : wanted) {
    const auto same = found.find(name);
    // Begun by a weir that knew no pools: there were none, so the defaults hold.
    const bool is_of_pools =
        name.starts_with("pool_") || name == "min_stake" || name == "exit_rate";
    if (same == found.end() && is_of_pools && value == genesis_of({}).find(name)->second) continue;
    if (same == found.end()) {
      return unusable(kLedgerFile, file, fmt::format("parameter '{}' is missing", name));
    }
    if (same->second == value) continue;
    return bad_argument(fmt::format(
        "{}: the ledger was begun with {} '{}', but the configuration has '{}'; write what it was "
        "begun with, and change it by an operation, if there is one",
        file, name, same->second, value));
  }
  return Done{};
}

// For an operation whose own block cannot be pushed.
std::string way_out(Fault fault) {
  if (fault == Fault::kBlocksFollowTime) {
    return "leave it out, or write 'blocks: pushed' under 'compute: ledger'";
  }
  if (fault == Fault::kBlockTooFar) {
    return fmt::format("it is more than {} blocks after it, or beyond 2^61 - 1; check the number",
                       system::compute::kPushAheadMax);
  }
  return "send events in the order of their blocks";
}

}  // namespace

LedgerStore::LedgerStore(std::optional<Directory> directory, Database database, std::string file,
                         LedgerSettings settings, Ledger ledger, BlockClock clock)
    : directory_(std::move(directory)),
      settings_(std::move(settings)),
      file_(std::move(file)),
      database_(std::move(database)),
      ledger_(std::move(ledger)),
      clock_(std::move(clock)) {}

Result<std::unique_ptr<LedgerStore>> LedgerStore::open(
    const std::optional<std::filesystem::path>& dir, LedgerSettings settings,
    Instant now) noexcept {
  try {
    return open_directory(dir, std::move(settings), now);
  } catch (const std::exception& failed) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the ledger cannot be opened: {}", failed.what())};
  }
}

Result<std::unique_ptr<LedgerStore>> LedgerStore::open_directory(
    const std::optional<std::filesystem::path>& dir, LedgerSettings settings, Instant now) {
  Result<Ledger> empty = Ledger::create(settings.parameters, settings.strategies);
  if (!empty) return std::move(empty).error();
  const Genesis genesis = genesis_of(settings);
  const Instant begun = settings.genesis.value_or(now);
  const auto fill = [&](Database& database) {
    Status status = database.run(kLedgerTables);
    if (status) status = write_genesis(database, genesis);
    if (status) status = write_fact(database, "genesis", begun.ns);
    return status;
  };
  std::optional<Directory> directory;
  std::string file = ":memory:";
  Result<Database> database = Error{};
  if (dir) {
    Result<Directory> opened = Directory::open(*dir);
    if (!opened) return std::move(opened).error();
    directory.emplace(std::move(*opened));
    file = directory->file(kLedgerFile.name).string();
    database = open_file(*directory, kLedgerFile, fill);
  } else {
    database = Database::open(file);
    if (database) {
      if (Status status = fill(*database); !status) return std::move(status).error();
    }
  }
  if (!database) return std::move(database).error();
  if (Status status = check_genesis(*database, file, genesis); !status) {
    return std::move(status).error();
  }
  if (Status status = database->run(kEventTable); !status) {
    return unusable(kLedgerFile, file, status.error());
  }
  const Result<std::int64_t> genesis_ns = read_fact(*database, "genesis");
  if (!genesis_ns) return unusable(kLedgerFile, file, genesis_ns.error());
  const Result<std::int64_t> pushed = read_fact(*database, "block");
  if (!pushed) return unusable(kLedgerFile, file, pushed.error());
  BlockClock clock({settings.blocks, settings.genesis_block,
                    settings.genesis.value_or(Instant{*genesis_ns}),
                    settings.parameters.block_time_s});
  std::unique_ptr<LedgerStore> store(new LedgerStore(std::move(directory), std::move(*database),
                                                     std::move(file), std::move(settings),
                                                     std::move(*empty), std::move(clock)));
  Result<Ledger> ledger = store->replay([](const Ledger&, Block) { return true; });
  if (!ledger) return std::move(ledger).error();
  store->ledger_ = std::move(*ledger);
  store->clock_.resume(std::max(*pushed, store->ledger_.block()));
  const Result<std::int64_t> rows = store->database_.integer("SELECT COUNT(*) FROM history");
  if (!rows) return unusable(kLedgerFile, store->file_, rows.error());
  store->rows_ = *rows;
  return store;
}

template <typename Wanted>
Result<Ledger> LedgerStore::replay(Wanted wanted) {
  Result<Ledger> ledger = Ledger::create(settings_.parameters, settings_.strategies);
  if (!ledger) return ledger;
  std::int64_t number = 0;
  for (;;) {
    const Result<std::vector<HistoryRow>> page = history({.after = number});
    if (!page) return page.error();
    for (const HistoryRow& row : *page) {
      if (!wanted(*ledger, row.block)) return ledger;
      number += 1;
      const std::string where = fmt::format("history {}", number);
      if (row.number != number) {
        return unusable(kLedgerFile, file_, fmt::format("{} is missing", where));
      }
      const Result<Operation> operation = system::compute::parse_operation(where, row.operation);
      if (!operation) return unusable(kLedgerFile, file_, operation.error().message);
      const Applied applied = ledger->replay(row.block, *operation);
      if (!applied.ok()) {
        return unusable(kLedgerFile, file_,
                        fmt::format("{} is not possible there: {}", where, applied.detail));
      }
    }
    if (page->size() < system::compute::kHistoryRowsMax) return ledger;
  }
}

Block LedgerStore::block_now(Instant now) const {
  return std::max(clock_.block(now), ledger_.block());
}

Status LedgerStore::append(const Operation& operation, Block block, std::string_view by,
                           Instant now, const Receipt& receipt, bool pushed) {
  Result<Transaction> transaction = Transaction::begin(database_);
  if (!transaction) return std::move(transaction).error();
  Result<Statement> insert =
      database_.prepare("INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  if (!insert) return std::move(insert).error();
  const std::string text = operation_text(operation);
  Status status = insert->bind(1, rows_ + 1)
                      .bind(2, now.ns)
                      .bind(3, block)
                      .bind(4, by)
                      .bind(5, std::string_view(operation.wallet))
                      .bind(6, std::string_view(text))
                      .run();
  if (status && pushed) status = write_fact(database_, "block", block);
  if (status && !operation.event.empty()) {
    Result<Statement> event = database_.prepare("INSERT INTO events VALUES (?1, ?2, ?3)");
    if (!event) return std::move(event).error();
    const std::string answer = receipt_text(receipt);
    status = event->bind(1, std::string_view(operation.event))
                 .bind(2, rows_ + 1)
                 .bind(3, std::string_view(answer))
                 .run();
  }
  if (status) status = transaction->commit();
  return status;
}

Result<std::optional<Applied>> LedgerStore::made_before(const Operation& operation) {
  if (operation.event.empty()) return std::optional<Applied>{};
  Result<Statement> query = database_.prepare(
      "SELECT receipt, operation, events.number FROM events "
      "JOIN history ON history.number = events.number WHERE event = ?1");
  if (!query) return std::move(query).error();
  const Result<bool> row = query->bind(1, std::string_view(operation.event)).step();
  if (!row) return row.error();
  if (!*row) return std::optional<Applied>{};
  Applied applied;
  if (query->text(1) != operation_text(operation)) {
    applied.fault = Fault::kEventTaken;
    applied.detail = fmt::format(
        "event '{}' is number {} of the history, and was another operation; name each by its own",
        operation.event, query->integer(2));
    return std::optional(std::move(applied));
  }
  const std::optional<Receipt> receipt = parse_receipt(std::string(query->text(0)));
  if (!receipt) return Error{ErrorCode::kUnavailable, "events: a receipt cannot be read"};
  applied.receipt = *receipt;
  return std::optional(std::move(applied));
}

Result<Applied> LedgerStore::apply(const Operation& operation, std::string_view by, Instant now) {
  const std::scoped_lock lock(lock_);
  Result<std::optional<Applied>> before = made_before(operation);
  if (!before) return unusable(kLedgerFile, file_, before.error());
  if (*before) return std::move(**before);
  Block block = block_now(now);
  BlockClock clock = clock_;
  if (operation.block) {
    Fault fault = clock.push(*operation.block, now, ledger_.clock().length);
    if (fault == Fault::kNone && *operation.block < ledger_.block()) fault = Fault::kBlockWentBack;
    if (fault != Fault::kNone) {
      Applied refused;
      refused.fault = fault;
      refused.detail =
          fmt::format("block {} of the operation cannot be pushed: this is block {}; {}",
                      *operation.block, block, way_out(fault));
      return refused;
    }
    block = *operation.block;
  }
  system::compute::Plan plan = ledger_.plan(block, operation);
  if (!plan.outcome.ok()) return std::move(plan.outcome);
  if (Status status =
          append(operation, block, by, now, plan.outcome.receipt, operation.block.has_value());
      !status) {
    return unusable(kLedgerFile, file_, status.error());
  }
  clock_ = std::move(clock);
  rows_ += 1;
  Applied applied = plan.outcome;
  ledger_.commit(block, operation, std::move(plan));
  return applied;
}

Result<Fault> LedgerStore::push_block(Block block, Instant now) {
  const std::scoped_lock lock(lock_);
  BlockClock pushed = clock_;
  Fault fault = pushed.push(block, now, ledger_.clock().length);
  if (fault == Fault::kNone && block < ledger_.block()) fault = Fault::kBlockWentBack;
  if (fault != Fault::kNone) return fault;
  if (Status status = write_fact(database_, "block", block); !status) {
    return unusable(kLedgerFile, file_, status.error());
  }
  clock_ = std::move(pushed);
  return Fault::kNone;
}

void LedgerStore::read(Instant now, const std::function<void(const LedgerView&)>& look) {
  const std::scoped_lock lock(lock_);
  look({ledger_, block_now(now), clock_.epoch_time(ledger_.clock().length), rows_});
}

Result<std::vector<HistoryRow>> LedgerStore::history(const HistoryChoice& choice) {
  const std::scoped_lock lock(lock_);
  Result<Statement> query = database_.prepare(
      choice.wallet.empty() ? "SELECT number, at, block, actor, operation FROM history "
                              "WHERE number > ?1 ORDER BY number LIMIT ?2"
                            : "SELECT number, at, block, actor, operation FROM history "
                              "WHERE number > ?1 AND wallet = ?3 ORDER BY number LIMIT ?2");
  if (!query) return unusable(kLedgerFile, file_, query.error());
  const std::size_t most = std::min(choice.most, system::compute::kHistoryRowsMax);
  query->bind(1, choice.after).bind(2, static_cast<std::int64_t>(most));
  if (!choice.wallet.empty()) query->bind(3, choice.wallet);
  std::vector<HistoryRow> rows;
  for (;;) {
    const Result<bool> row = query->step();
    if (!row) return unusable(kLedgerFile, file_, row.error());
    if (!*row) return rows;
    rows.push_back({query->integer(0), Instant{query->integer(1)}, query->integer(2),
                    std::string(query->text(3)), std::string(query->text(4))});
  }
}

Result<Ledger> LedgerStore::ledger_at(Block block) {
  return replay([&](const Ledger&, Block row) { return row <= block; });
}

PastLedgerRef LedgerStore::kept(std::int64_t epoch) {
  const auto found = std::find_if(past_.begin(), past_.end(),
                                  [epoch](const Past& past) { return past.epoch == epoch; });
  if (found == past_.end()) return nullptr;
  std::rotate(past_.begin(), found, found + 1);
  return past_.front().ledger;
}

Result<PastLedgerRef> LedgerStore::ledger_of_epoch(std::int64_t epoch, Instant now) {
  std::int64_t block_time_s = 0;
  Block block = 0;
  {
    const std::scoped_lock lock(lock_);
    block = block_now(now);
    if (epoch > epoch_number(ledger_.clock(), block)) return PastLedgerRef{};
    if (PastLedgerRef known = kept(epoch)) return known;
    if (replayed_until_ > now + kReplayAllowance) {
      return Error{
          ErrorCode::kExhausted,
          fmt::format("ledger: epoch {} is not one of the last {} that were asked for, and "
                      "the history has been read too often; ask again in {} ms",
                      epoch, kPastLedgersMax,
                      (replayed_until_ - now - kReplayAllowance).count() / 1'000'000 + 1)};
    }
    // 2^40 rows of 10^5 ns each are below 2^57.
    replayed_until_ = later_of(replayed_until_, now) + kReplayRow * std::min(rows_, kRowsCounted);
    block_time_s = clock_.settings().block_time_s;
  }
  replays_.fetch_add(1, std::memory_order_relaxed);
  // A change of length never moves a boundary that was reached, so the first block of an
  // epoch is known as soon as the history is near it.
  Result<Ledger> ledger = replay([&](const Ledger& so_far, Block row) {
    return row <= start_of_epoch(so_far.clock(), epoch);
  });
  if (!ledger) return std::move(ledger).error();
  const Block start = start_of_epoch(ledger->clock(), epoch);
  const Duration epoch_time = std::chrono::seconds{ledger->clock().length * block_time_s};
  auto past = std::make_shared<const PastLedger>(PastLedger{std::move(*ledger), start, epoch_time});
  // Until its first block is over there may be more operations at it.
  if (block <= start) return PastLedgerRef(std::move(past));
  const std::scoped_lock lock(lock_);
  if (kept(epoch) == nullptr) past_.push_front({epoch, past});
  if (past_.size() > kPastLedgersMax) past_.pop_back();
  return PastLedgerRef(std::move(past));
}

}  // namespace weir::store::sqlite
