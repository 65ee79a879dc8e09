#include "weir/store/sqlite/sampling_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <future>
#include <iterator>
#include <utility>

#include "weir/store/sqlite/file.h"

namespace weir::store::sqlite {
namespace {

// A row is one record; they are replayed by place.
constexpr const char* kJournalTables = R"(
  CREATE TABLE records (place INTEGER PRIMARY KEY,
                        key_low INTEGER NOT NULL, key_high INTEGER NOT NULL,
                        parent_low INTEGER NOT NULL, parent_high INTEGER NOT NULL,
                        at INTEGER NOT NULL, parent_at INTEGER NOT NULL,
                        units INTEGER NOT NULL, reservation INTEGER NOT NULL);
  CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  INSERT INTO facts VALUES ('last_reservation', 0);
)";
constexpr FileKind kJournalFile{
    "sampling.db", 0x57656973, 1,  // "Weis"
    "what was granted is not known, so move the file away, or start with "
    "--start-empty, which does it"};

constexpr auto kRetry = std::chrono::milliseconds{200};
constexpr Duration kPurgeEvery = std::chrono::seconds{10};  // of the time they are useless
constexpr std::int64_t kPurgedAtOnce = 16'384;              // rows looked at beside one write

std::int64_t signed_of(std::uint64_t word) { return std::bit_cast<std::int64_t>(word); }
std::uint64_t unsigned_of(std::int64_t word) { return std::bit_cast<std::uint64_t>(word); }

}  // namespace

Result<std::unique_ptr<SamplingJournal>> SamplingJournal::open(const Directory& directory,
                                                               StartEmpty start_empty) {
  if (start_empty == StartEmpty::kYes) {
    Status moved = directory.move_aside(kJournalFile.name);
    if (!moved) return std::move(moved).error();
  }
  Result<Database> database =
      open_file(directory, kJournalFile, [](Database& made) { return made.run(kJournalTables); });
  if (!database) return std::move(database).error();
  return std::unique_ptr<SamplingJournal>(
      new SamplingJournal(std::move(*database), directory.file(kJournalFile.name).string()));
}

SamplingJournal::SamplingJournal(Database database, std::string file)
    : file_(std::move(file)), database_(std::move(database)) {
  thread_ = std::thread([this] { run(); });
}

SamplingJournal::~SamplingJournal() { static_cast<void>(stop().ok()); }

Result<std::uint64_t> SamplingJournal::restore(system::sampling::Sampling& sampling, Instant now) {
  const std::scoped_lock lock(file_lock_);
  const Result<std::int64_t> last =
      database_.integer("SELECT value FROM facts WHERE name = 'last_reservation'");
  if (!last) return unusable(kJournalFile, file_, last.error());
  last_reservation_ = unsigned_of(*last);
  if (Status status = sampling.restore({.reservation = last_reservation_}, now); !status) {
    return std::move(status).error();
  }
  Result<Statement> query = database_.prepare(
      "SELECT key_low, key_high, parent_low, parent_high, at, parent_at, units, reservation, place "
      "FROM records ORDER BY place");
  if (!query) return unusable(kJournalFile, file_, query.error());
  purged_.place = 0;
  restored_place_ = 0;
  restored_at_ns_ = now.ns;
  std::uint64_t count = 0;
  for (;;) {
    const Result<bool> row = query->step();
    if (!row) return unusable(kJournalFile, file_, row.error());
    if (!*row) return count;
    const Record record{.key = {unsigned_of(query->integer(0)), unsigned_of(query->integer(1))},
                        .parent = {unsigned_of(query->integer(2)), unsigned_of(query->integer(3))},
                        .at = {query->integer(4)},
                        .parent_at = {query->integer(5)},
                        .units = query->integer(6),
                        .reservation = unsigned_of(query->integer(7))};
    const bool is_sound = record.at.ns >= 0 && record.at.ns <= kInstantNsMax &&
                          record.parent_at.ns >= 0 && record.parent_at.ns <= kInstantNsMax &&
                          record.units >= -kTermMax && record.units <= kTermMax;
    if (!is_sound)
      return unusable(kJournalFile, file_, fmt::format("record {} is not sound", count + 1));
    if (Status status = sampling.restore(record, now); !status) return std::move(status).error();
    last_reservation_ = std::max(last_reservation_, record.reservation);
    restored_place_ = query->integer(8);
    count += 1;
  }
}

Error SamplingJournal::unwritten() const {
  return {ErrorCode::kUnavailable,
          fmt::format("{}; nothing is granted until it can be written, so make room or repair the "
                      "disk",
                      stats_.last_error)};
}

Status SamplingJournal::ready() const {
  if (!is_failing_.load(std::memory_order_acquire)) return Done{};
  const std::scoped_lock lock(lock_);
  return is_failing_ ? Status{unwritten()} : Status{Done{}};
}

SamplingJournal::Ticket SamplingJournal::append(const Record& record) {
  Ticket ticket = 0;
  {
    const std::scoped_lock lock(lock_);
    queue_.push_back(record);
    ticket = ++appended_;
  }
  woken_.notify_one();
  return ticket;
}

void SamplingJournal::when_written(Ticket ticket, std::function<void(const Status&)> told) {
  Status known = Done{};
  {
    const std::scoped_lock lock(lock_);
    if (ticket > written_) {
      if (!is_failing_) {
        waiters_.push_back({ticket, std::move(told)});
        return;
      }
      known = unwritten();
    }
  }
  told(known);
}

Status SamplingJournal::wait(Ticket ticket) {
  std::promise<Status> promise;
  when_written(ticket, [&](const Status& status) { promise.set_value(status); });
  return promise.get_future().get();
}

JournalStats SamplingJournal::stats() const {
  const std::scoped_lock lock(lock_);
  return stats_;
}

void SamplingJournal::run() {
  std::unique_lock lock(lock_);
  for (;;) {
    woken_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (!queue_.empty()) write_queued(lock);
    if (stopping_ && (queue_.empty() || is_failing_)) return;
    if (is_failing_) woken_.wait_for(lock, kRetry, [this] { return stopping_; });
  }
}

void SamplingJournal::write_queued(std::unique_lock<std::mutex>& lock) {
  std::vector<Record> records = std::exchange(queue_, {});
  const Ticket last = appended_;
  lock.unlock();
  Status status = write(records);
  lock.lock();
  std::vector<Waiter> told;
  if (status) {
    stats_.records += records.size();
    stats_.transactions += 1;
    stats_.last_error.clear();
    is_failing_ = false;
    written_ = last;
  } else {
    // In front of what came meanwhile: records are replayed in order.
    records.insert(records.end(), queue_.begin(), queue_.end());
    queue_ = std::move(records);
    stats_.failed += 1;
    stats_.last_error = status.error().message;
    is_failing_ = true;
    status = unwritten();
  }
  const auto first_told = std::stable_partition(
      waiters_.begin(), waiters_.end(),
      [&](const Waiter& waiter) { return status.ok() && waiter.ticket > written_; });
  told.assign(std::make_move_iterator(first_told), std::make_move_iterator(waiters_.end()));
  waiters_.erase(first_told, waiters_.end());
  lock.unlock();
  for (const Waiter& waiter : told) waiter.told(status);
  lock.lock();
}

Status SamplingJournal::write(const std::vector<Record>& records) {
  const std::scoped_lock lock(file_lock_);
  Result<Transaction> transaction = Transaction::begin(database_);
  if (!transaction) return std::move(transaction).error();
  {
    Result<Statement> insert = database_.prepare(
        "INSERT INTO records (key_low, key_high, parent_low, parent_high, at, parent_at, units, "
        "reservation) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    if (!insert) return std::move(insert).error();
    for (const Record& record : records) {
      Status status = insert->bind(1, signed_of(record.key.low))
                          .bind(2, signed_of(record.key.high))
                          .bind(3, signed_of(record.parent.low))
                          .bind(4, signed_of(record.parent.high))
                          .bind(5, record.at.ns)
                          .bind(6, record.parent_at.ns)
                          .bind(7, record.units)
                          .bind(8, signed_of(record.reservation))
                          .run();
      if (!status) return status;
      last_reservation_ = std::max(last_reservation_, record.reservation);
    }
  }
  const Purged before = purged_;
  Status status = purge();
  if (status) status = transaction->commit();
  if (!status) purged_ = before;
  return status;
}

// The oldest rows first, some at a time. Those of a clock that was ahead are passed over, for
// a later process: when their time comes is not known here, and they must not stop the others.
// The largest number of a reservation stays known: it must not be given out again, even if the
// clock is set back.
Status SamplingJournal::purge() {
  const std::int64_t before_ns = useless_before_ns_.load();
  if (before_ns - purged_.before_ns < kPurgeEvery.count()) return Done{};
  Result<Statement> erase = database_.prepare(
      "DELETE FROM records WHERE place > ?1 AND place <= ?1 + ?2 AND at <= ?3 AND parent_at <= ?3");
  if (!erase) return std::move(erase).error();
  erase->bind(1, purged_.place).bind(2, kPurgedAtOnce).bind(3, before_ns);
  if (Status status = erase->run(); !status) return status;
  const Result<std::int64_t> gone = database_.integer("SELECT changes()");
  if (!gone) return gone.error();
  Result<Statement> next = database_.prepare(
      "SELECT place FROM records WHERE place > ?1 AND (place > ?2 OR (at <= ?3 AND parent_at <= "
      "?3)) ORDER BY place LIMIT 1");
  if (!next) return std::move(next).error();
  next->bind(1, purged_.place).bind(2, restored_place_).bind(3, restored_at_ns_);
  const Result<bool> has_next = next->step();
  if (!has_next) return has_next.error();
  Result<Statement> remember =
      database_.prepare("UPDATE facts SET value = ?1 WHERE name = 'last_reservation'");
  if (!remember) return std::move(remember).error();
  if (Status status = remember->bind(1, signed_of(last_reservation_)).run(); !status) return status;
  purged_.place = *has_next ? next->integer(0) - 1 : 0;
  // As long as all of them go there are more.
  if (*gone < kPurgedAtOnce) purged_.before_ns = before_ns;
  return Done{};
}

Status SamplingJournal::stop() noexcept {
  {
    const std::scoped_lock lock(lock_);
    if (stopping_) return Done{};
    stopping_ = true;
  }
  woken_.notify_one();
  thread_.join();
  return ready();
}

}  // namespace weir::store::sqlite
