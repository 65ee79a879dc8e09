// Store: meters and holds in a SQLite file, written behind.
//
// The server decides in memory; every now and then the store collects what changed and
// writes it in one transaction. A crash forgets what came after the last flush, a
// clean stop nothing. Nothing is held up meanwhile but one shard at a time, for as long
// as it takes to copy what changed there.
//
//   auto store = Store::open(dir);
//   auto engine = Engine::create(rules, {.secret = (*store)->secret(),
//                                        .owner = (*store)->owner(), .durable = true});
//   auto report = (*store)->restore(**engine, clock.now());
//   Flusher flusher(**store, **engine, clock);   // flusher.h
//
// Mechanism and a worked example: docs/design/state.md.
//
// Thread safety: every function may be called from any thread; calls that touch the
// file wait for each other.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/engine.h"
#include "weir/engine/state.h"
#include "weir/store/sqlite/compaction.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/directory.h"
#include "weir/store/sqlite/eras.h"
#include "weir/store/sqlite/hold_book.h"
#include "weir/store/sqlite/parts.h"
#include "weir/store/sqlite/schema.h"

namespace weir::store::sqlite {

// What to do with a file that is there.
enum class StartEmpty : bool {
  kNo,   // use it; an error if it cannot be used
  kYes,  // move it aside, to meters.db.bad-<n>, and begin with nothing used
};

struct StoreStats {
  std::uint64_t flushes = 0;  // that succeeded
  std::uint64_t failed_flushes = 0;
  std::uint64_t meters = 0;  // written, by all flushes
  std::uint64_t holds = 0;
  std::uint64_t compactions = 0;
  std::uint64_t base_bytes = 0;     // of packed state
  std::uint64_t changes_bytes = 0;  // of packed changes since
};

class Store {
 public:
  // Takes the directory for this process alone.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& dir,
                                             StartEmpty start_empty = StartEmpty::kNo) noexcept;
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // What the engine has to be made with.
  const engine::Secret& secret() const noexcept { return facts_.secret; }
  std::uint64_t owner() const noexcept { return facts_.owner; }
  // For other files of the same server's state.
  const Directory& directory() const noexcept { return directory_; }

  // Brings back everything, also if that is nothing. Before the first flush, once. `parts`,
  // which must outlive the store, are brought back and flushed too; one that cannot be used fails
  // by itself.
  Result<engine::RestoreReport> restore(engine::Engine& engine, Instant now,
                                        Parts* parts = nullptr) noexcept;

  // What restore() could not bring back of `parts`.
  std::vector<UnusablePart> unusable_parts() const;

  // Writes what changed, and some of the rest if changes have become many. On an error
  // nothing is lost: the next flush tries again.
  Status flush(engine::Engine& engine, Instant now) noexcept;

  // Deletes the changes that flushes have made superfluous.
  Status compact(Instant now) noexcept;
  // A flush that makes all of them superfluous, and compact().
  Status compact_all(engine::Engine& engine, Instant now) noexcept;

  StoreStats stats() const noexcept;

 private:
  Store(Directory directory, Database database, const Facts& facts, Eras eras,
        const Places& places);
  static Result<std::unique_ptr<Store>> open_directory(const std::filesystem::path& dir,
                                                       StartEmpty start_empty);

  struct Collected;
  void pack_meters(std::int64_t place);
  Status write_changes(engine::Engine& engine, Instant now, Collected& collected);
  Status write_holds(engine::Engine& engine, Instant now, Collected& collected);
  Status write_meters(engine::Engine& engine, Instant now, Collected& collected);
  Status write_changed(engine::Engine& engine, std::size_t first, std::size_t end, Instant now,
                       Collected& collected);
  Status write_range(engine::Engine& engine, std::size_t range, Instant now, Collected& collected);
  Status write_blob(std::int64_t place, std::int64_t kind, std::size_t first, std::size_t last,
                    const std::vector<std::byte>& blob, Collected& collected);
  Status write_parts(Instant now, Collected& collected);
  Status begin(Collected& collected);
  Status flush(engine::Engine& engine, Instant now, const Turn& turn);
  Status end_round(Instant now);
  Result<engine::RestoreReport> restore_all(engine::Engine& engine, Instant now);
  static Status read_holds(const Statement& row, HoldBook& holds);
  Status restore_meters(const Statement& row, bool is_base, engine::Engine& engine, Instant now,
                        engine::RestoreReport& report) const;
  Status restore_holds(const HoldBook& holds, engine::Engine& engine, Instant now,
                       engine::RestoreReport& report) const;

  const Directory directory_;
  const std::string file_;
  mutable std::mutex lock_;  // of everything below
  Database database_;
  Facts facts_;
  Eras eras_;
  Places places_;
  Compaction compaction_;
  bool restored_ = false;
  Parts* parts_ = nullptr;
  std::vector<UnusablePart> unusable_parts_;
  StoreStats stats_;
  // Memory of one flush for the next: what is being written, and the prints of all that was.
  engine::MeterChanges meters_;
  std::vector<std::byte> blob_;
  std::vector<engine::Print> prints_;
};

}  // namespace weir::store::sqlite
