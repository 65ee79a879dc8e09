#include "weir/system/compute/snapshot.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/seed.h"
#include "tests/system/compute/support.h"

namespace weir::system::compute {
namespace {

// A ledger in memory at a block that is told.
class PlainService final : public LedgerService {
 public:
  explicit PlainService(Ledger ledger) : ledger_(std::move(ledger)) {}

  Result<Applied> apply(const Operation& operation, std::string_view, Instant) override {
    const std::scoped_lock lock(lock_);
    Applied applied = ledger_.apply(block_, operation);
    version_ += applied.ok() ? 1 : 0;
    return applied;
  }
  Result<Fault> push_block(Block block, Instant) override {
    const std::scoped_lock lock(lock_);
    block_ = block;
    return Fault::kNone;
  }
  void read(Instant, const std::function<void(const LedgerView&)>& look) override {
    if (before_read) before_read();
    const std::scoped_lock lock(lock_);
    reads += 1;
    look({ledger_, block_, 1200s, version_});
  }
  Result<std::vector<HistoryRow>> history(const HistoryChoice&) override {
    return std::vector<HistoryRow>{};
  }
  Result<Ledger> ledger_at(Block) override { return bad_argument("not here"); }
  Result<std::shared_ptr<const PastLedger>> ledger_of_epoch(std::int64_t, Instant) override {
    return bad_argument("not here");
  }

  std::function<void()> before_read{};
  int reads = 0;

 private:
  std::mutex lock_;
  Ledger ledger_;
  Block block_ = 0;
  std::int64_t version_ = 0;
};

struct Thirds final : Strategy {
  Result<std::int64_t> share(const ShareOf& of) const override {
    if (of.worker % 5 == 0) return bad_argument("not a fifth");
    return of.units / 3;
  }
};

// What a ledger says, with the clusters' names.
using Named = std::vector<std::pair<std::string, std::int64_t>>;

template <typename NameAt>
std::pair<Named, Named> named(const Allocations& allocations, NameAt name_at) {
  std::pair<Named, Named> out;
  for (const Allocation& row : allocations.rows) {
    out.first.emplace_back(name_at(row.cluster), row.units);
  }
  for (const BrokenCluster& row : allocations.broken) {
    out.second.emplace_back(name_at(row.cluster), static_cast<std::int64_t>(row.fault));
  }
  return out;
}

void expect_as_the_ledger(PlainService& service, SnapshotDesk& desk) {
  const auto said = desk.at(kStart, "w1");
  ASSERT_NE(said.snapshot, nullptr);
  const Snapshot& snapshot = *said.snapshot;
  service.read(kStart, [&](const LedgerView& view) {
    for (WorkerId worker = 0; worker <= static_cast<WorkerId>(view.ledger.workers().size()) + 1;
         ++worker) {
      const Allocations expected = view.ledger.allocations(worker, view.block);
      const Allocations found = snapshot.allocations(worker);
      ASSERT_EQ(found.fault, expected.fault);
      ASSERT_EQ(found.epoch, expected.epoch);
      ASSERT_EQ(
          named(found, [&](std::uint32_t at) { return snapshot.rows()[at].cluster; }),
          named(expected, [&](std::uint32_t at) { return view.ledger.clusters()[at].wallet; }))
          << "worker " << worker << " at block " << view.block;
    }
  });
}

void run_against_the_ledger(std::uint64_t seed, const Parameters& parameters) {
  std::mt19937_64 random(seed);
  const auto upto = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  PlainService service(*Ledger::create(parameters, {{"thirds", std::make_shared<Thirds>()}}));
  SnapshotDesk desk(std::shared_ptr<LedgerService>(&service, [](LedgerService*) {}));
  Block block = 0;
  for (int step = 0; step < 400; ++step) {
    Operation operation;
    operation.wallet = fmt::format("c{}", upto(20));
    const std::string worker = fmt::format("w{}", upto(12));
    switch (upto(13)) {
      case 0:
      case 1:
        operation = lock_of(operation.wallet, 10'000 + upto(5'000), 100 + upto(300));
        break;
      case 2:
        operation = register_of(operation.wallet, {fmt::format("p{}", step)});
        break;
      case 3:
      case 4:
        operation = join_of(worker);
        break;
      case 5:
        operation = {.op = Op::kLeave, .name = worker};
        break;
      case 6:
        operation.op = upto(1) == 0 ? Op::kSupport : Op::kUnsupport;
        for (std::int64_t n = upto(4); n >= 0; --n) operation.workers.push_back(upto(12));
        break;
      case 7: {
        operation.op = Op::kShares;
        for (std::int64_t n = upto(3); n >= 0; --n) {
          operation.workers.push_back(upto(12));
          operation.basis_points.push_back(upto(2'500));
        }
        break;
      }
      case 8:
        operation.op = upto(1) == 0 ? Op::kEqual : Op::kStrategy;
        operation.name = operation.op == Op::kStrategy ? "thirds" : "";
        break;
      case 9:
        operation.op = upto(3) == 0 ? Op::kUnlock : Op::kAdd;
        operation.amount = operation.op == Op::kAdd ? kToken : 0;
        break;
      case 11:
        operation.op = upto(2) == 0 ? Op::kOpenPool : Op::kStake;
        operation.name = fmt::format("pool{}", upto(4));
        operation.amount =
            operation.op == Op::kStake ? static_cast<Amount>(upto(700'000)) * kToken : 0;
        break;
      case 12:
        operation.op = upto(1) == 0 ? Op::kExit : Op::kWithdraw;
        operation.name = fmt::format("pool{}", upto(4));
        operation.amount = operation.op == Op::kExit ? kToken * 50 : 0;
        operation.value = operation.op == Op::kWithdraw ? upto(20) : 0;
        break;
      case 10:
        operation = {.op = upto(1) == 0 ? Op::kSetMana : Op::kSetEpochLength,
                     .value = 50 + upto(100)};
        break;
      default:
        block += upto(90);
        static_cast<void>(service.push_block(block, kStart));
        break;
    }
    static_cast<void>(service.apply(operation, "ops", kStart));
    ASSERT_NO_FATAL_FAILURE(expect_as_the_ledger(service, desk)) << "step " << step;
    // Blocks go on by themselves: a snapshot that is still used must still be right.
    if (step % 3 == 0) static_cast<void>(service.push_block(++block, kStart));
    ASSERT_NO_FATAL_FAILURE(expect_as_the_ledger(service, desk)) << "step " << step;
  }
  EXPECT_LT(desk.taken(), 800u) << "some were used again";
}

TEST(Snapshot, SaysWhatTheLedgerSaysOfEveryWorker) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(::testing::Message() << "reproduce with WEIR_SEED=" << seed);
  run_against_the_ledger(seed, {});
  run_against_the_ledger(seed + 1, {.remainder = Remainder::kDrop});
  run_against_the_ledger(seed + 2, {.remainder = Remainder::kDrop, .published_faults = true});
  run_against_the_ledger(seed + 3, {.published_faults = true});
}

TEST(Snapshot, IsReadAPageAtATimeAndAgainWhereTheLedgerChangedMeanwhile) {
  PlainService service(ledger_of());
  static_cast<void>(service.apply(join_of("w1"), "ops", kStart));
  constexpr int kClusters = 3 * static_cast<int>(kSnapshotPage);
  for (int i = 0; i < kClusters; ++i) {
    ASSERT_TRUE(service.apply(lock_of(fmt::format("c{}", i), 10'000, 1'000), "ops", kStart)->ok());
  }
  static_cast<void>(service.push_block(100, kStart));
  SnapshotDesk desk(std::shared_ptr<LedgerService>(&service, [](LedgerService*) {}));
  service.reads = 0;
  EXPECT_EQ(desk.at(kStart, "w1").snapshot->rows().size(), static_cast<std::size_t>(kClusters));
  EXPECT_EQ(service.reads, 2 + 3) << "looked twice, and read three pages";
  // Somebody locks before every page: the third time it is read in one go.
  int extra = 0;
  service.before_read = [&] {
    const std::string wallet = fmt::format("extra{}", extra++);
    EXPECT_TRUE(service.apply(lock_of(wallet, 10'000, 1'000), "ops", kStart)->ok());
    EXPECT_LT(extra, 20) << "it ends";
  };
  const auto busy = desk.at(kStart, "w1");
  service.before_read = nullptr;
  ASSERT_NE(busy.snapshot, nullptr);
  EXPECT_EQ(busy.snapshot->rows().size(), static_cast<std::size_t>(kClusters));
  expect_as_the_ledger(service, desk);
}

TEST(Snapshot, IsTakenOnceByManyThreads) {
  PlainService service(ledger_of());
  static_cast<void>(service.apply(join_of("w1"), "ops", kStart));
  static_cast<void>(service.apply(lock_of("acme", 10'000, 1'000), "ops", kStart));
  static_cast<void>(service.push_block(100, kStart));
  SnapshotDesk desk(std::shared_ptr<LedgerService>(&service, [](LedgerService*) {}));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto said = desk.at(kStart, "w1");
      right += said.snapshot->allocations(said.worker).rows.at(0).units == 10'000;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(desk.taken(), 1u);
  EXPECT_EQ(desk.at(kStart, "w1", 2).snapshot, nullptr) << "who has this epoch needs none";
}

}  // namespace
}  // namespace weir::system::compute
