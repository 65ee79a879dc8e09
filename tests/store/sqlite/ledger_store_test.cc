// The durable ledger: history, replay, and kill -9.

#include "weir/store/sqlite/ledger_store.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "tests/store/sqlite/support.h"

namespace weir::store::sqlite {
namespace {

using namespace system::compute;

LedgerSettings pushed_settings() {
  LedgerSettings settings;
  settings.blocks = BlockSource::kPushed;
  return settings;
}

std::unique_ptr<LedgerStore> opened(const std::optional<fs::path>& dir,
                                    LedgerSettings settings = pushed_settings()) {
  auto store = LedgerStore::open(dir, std::move(settings), kStart);
  EXPECT_TRUE(store.ok()) << store.error().message;
  return std::move(*store);
}

Operation lock_of(const std::string& wallet, std::int64_t tokens) {
  return {.op = Op::kLock,
          .wallet = wallet,
          .amount = static_cast<Amount>(tokens) * kToken,
          .value = 18'000};
}
Operation add_of(const std::string& wallet, std::int64_t tokens) {
  return {.op = Op::kAdd, .wallet = wallet, .amount = static_cast<Amount>(tokens) * kToken};
}

Amount locked(LedgerStore& store, const std::string& wallet) {
  Amount amount = 0;
  store.read(kStart, [&](const LedgerView& view) {
    const Cluster* cluster = view.ledger.find(wallet);
    if (cluster != nullptr) amount = cluster->lock.amount;
  });
  return amount;
}

Block block_of(LedgerStore& store, Instant now) {
  Block block = 0;
  store.read(now, [&](const LedgerView& view) { block = view.block; });
  return block;
}

TEST(LedgerStore, HasEverythingAgainAfterARestart) {
  TemporaryDirectory dir;
  {
    const auto store = opened(dir.path());
    ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "ops", kStart)->ok());
    ASSERT_EQ(*store->push_block(150, kStart), Fault::kNone);
    ASSERT_TRUE(store->apply(add_of("acme", 5'000), "ops", kStart)->ok());
    ASSERT_EQ(*store->push_block(170, kStart), Fault::kNone);
  }
  const auto store = opened(dir.path());
  EXPECT_EQ(locked(*store, "acme"), 15'000 * kToken);
  EXPECT_EQ(block_of(*store, kStart), 170);
}

TEST(LedgerStore, TellsWhoChangedWhatWhen) {
  const auto store = opened(std::nullopt);
  ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "alice", kStart)->ok());
  ASSERT_EQ(store->apply(lock_of("acme", 10'000), "bob", kStart)->fault, Fault::kAlreadyLocked);
  ASSERT_EQ(*store->push_block(100, kStart + 5s), Fault::kNone);
  ASSERT_TRUE(store->apply({.op = Op::kJoin, .name = "w1"}, "carol", kStart + 5s)->ok());
  const auto rows = store->history({});
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].by, "alice");
  EXPECT_EQ((*rows)[1].number, 2);
  EXPECT_EQ((*rows)[1].block, 100);
  EXPECT_EQ((*rows)[1].at, kStart + 5s);
  EXPECT_EQ((*rows)[1].operation, R"({"op":"join","name":"w1"})");
  EXPECT_EQ(store->history({.wallet = "acme"})->size(), 1u);
  EXPECT_EQ(store->history({.after = 1})->size(), 1u);
  EXPECT_EQ(store->history({.most = 1})->size(), 1u);
}

TEST(LedgerStore, ReproducesTheLedgerOfAnEpoch) {
  const auto store = opened(std::nullopt);
  ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "ops", kStart)->ok());
  ASSERT_EQ(*store->push_block(250, kStart), Fault::kNone);
  ASSERT_TRUE(store->apply(add_of("acme", 5'000), "ops", kStart)->ok());
  ASSERT_EQ(*store->push_block(310, kStart), Fault::kNone);
  ASSERT_TRUE(store->apply({.op = Op::kSetEpochLength, .value = 50}, "ops", kStart)->ok());
  ASSERT_EQ(*store->push_block(420, kStart), Fault::kNone);

  const auto units = [&](std::int64_t epoch) -> std::pair<std::int64_t, Block> {
    const auto found = store->ledger_of_epoch(epoch, kStart);
    const Ledger& ledger = (*found)->ledger;
    return {ledger.epoch_units(*ledger.find("acme"), (*found)->block), (*found)->block};
  };
  using Units = std::pair<std::int64_t, Block>;
  EXPECT_EQ(units(2), Units(10'000, 100));
  EXPECT_EQ(units(3), Units(10'000, 200));
  EXPECT_EQ(units(4), Units(15'000, 300));
  EXPECT_EQ(units(5), Units(7'500, 400));  // half an epoch's length since
  EXPECT_FALSE(*store->ledger_of_epoch(6, kStart));
  EXPECT_EQ((*store->ledger_of_epoch(4, kStart))->epoch_time, 1200s);
  EXPECT_EQ((*store->ledger_of_epoch(5, kStart))->epoch_time, 600s);
  EXPECT_EQ(store->ledger_at(249)->find("acme")->lock.amount, 10'000 * kToken);
  EXPECT_EQ(store->ledger_at(250)->find("acme")->lock.amount, 15'000 * kToken);
}

TEST(LedgerStore, ReadsTheHistoryOnceForEachEpochThatIsKept) {
  const auto store = opened(std::nullopt);
  ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "ops", kStart)->ok());
  ASSERT_EQ(*store->push_block(1'050, kStart), Fault::kNone);
  constexpr auto kKept = static_cast<std::int64_t>(kPastLedgersMax);
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t epoch = 1; epoch <= kKept; ++epoch) {
      ASSERT_TRUE(*store->ledger_of_epoch(epoch, kStart));
    }
  }
  EXPECT_EQ(store->replays(), kPastLedgersMax);
  // One more: the one that was not asked for longest goes.
  ASSERT_TRUE(*store->ledger_of_epoch(1, kStart));
  ASSERT_TRUE(*store->ledger_of_epoch(kKept + 1, kStart));
  ASSERT_TRUE(*store->ledger_of_epoch(1, kStart));
  EXPECT_EQ(store->replays(), kPastLedgersMax + 1);
  ASSERT_TRUE(*store->ledger_of_epoch(2, kStart));
  EXPECT_EQ(store->replays(), kPastLedgersMax + 2);
}

TEST(LedgerStore, KeepsNoEpochWhoseFirstBlockIsNotOver) {
  const auto store = opened(std::nullopt);
  ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "ops", kStart)->ok());
  ASSERT_EQ(*store->push_block(200, kStart), Fault::kNone);
  const auto locked_in = [&](std::int64_t epoch) {
    return (*store->ledger_of_epoch(epoch, kStart))->ledger.find("acme")->lock.amount;
  };
  EXPECT_EQ(locked_in(3), 10'000 * kToken);
  ASSERT_TRUE(store->apply(add_of("acme", 5'000), "ops", kStart)->ok());
  EXPECT_EQ(locked_in(3), 15'000 * kToken);
  ASSERT_EQ(*store->push_block(201, kStart), Fault::kNone);
  EXPECT_EQ(locked_in(3), 15'000 * kToken);
  EXPECT_EQ(locked_in(3), 15'000 * kToken);
  EXPECT_EQ(store->replays(), 3u);
}

TEST(LedgerStore, RefusesToReadALongHistoryTooOften) {
  const auto store = opened(std::nullopt);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(
        store->apply({.op = Op::kJoin, .name = fmt::format("w{}", i)}, "ops", kStart)->ok());
  }
  ASSERT_EQ(*store->push_block(5'000, kStart), Fault::kNone);
  // A thousand rows count as 100 ms, and a second of that may be ahead.
  for (std::int64_t epoch = 1; epoch <= 11; ++epoch) {
    ASSERT_TRUE(store->ledger_of_epoch(epoch, kStart).ok()) << epoch;
  }
  const auto refused = store->ledger_of_epoch(20, kStart);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("ask again in 101 ms"));
  EXPECT_EQ(store->replays(), 11u);
  EXPECT_TRUE(store->ledger_of_epoch(11, kStart).ok()) << "it is kept";
  EXPECT_FALSE(store->ledger_of_epoch(20, kStart + 99ms).ok());
  EXPECT_TRUE(store->ledger_of_epoch(20, kStart + 100ms).ok());
}

TEST(LedgerStore, IsReproducedWhileOthersGoOn) {
  const auto store = opened(std::nullopt);
  // More than a page of rows.
  for (int i = 0; i < 1'100; ++i) {
    ASSERT_TRUE(
        store->apply({.op = Op::kJoin, .name = fmt::format("w{}", i)}, "ops", kStart)->ok());
  }
  ASSERT_EQ(*store->push_block(100, kStart), Fault::kNone);
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(
          store->apply({.op = Op::kJoin, .name = fmt::format("late{}", i)}, "ops", kStart)->ok());
    }
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(store->ledger_at(99)->workers().size(), 1'100u);
  other.join();
  EXPECT_EQ(store->ledger_at(100)->workers().size(), 1'150u);
}

Operation with_event(Operation operation, std::string event, std::optional<Block> block = {}) {
  operation.event = std::move(event);
  operation.block = block;
  return operation;
}

Operation join_of(const std::string& worker) { return {.op = Op::kJoin, .name = worker}; }

TEST(LedgerEvents, AreMadeOnceAlsoInALaterEpochAndAfterARestart) {
  TemporaryDirectory dir;
  const Operation lock = with_event(lock_of("acme", 10'000), "0xabc-1", 150);
  const Operation add = with_event(add_of("acme", 5'000), "0xabc-2", 250);
  Receipt locked;
  Receipt added;
  {
    const auto store = opened(dir.path());
    locked = store->apply(lock, "follower", kStart)->receipt;
    EXPECT_EQ(locked.start, 200) << "the block of the event counts";
    added = store->apply(add, "follower", kStart)->receipt;
  }
  const auto store = opened(dir.path());
  ASSERT_EQ(*store->push_block(350, kStart), Fault::kNone);
  for (const auto& [operation, receipt] : {std::pair(lock, locked), std::pair(add, added)}) {
    const Applied again = *store->apply(operation, "somebody else", kStart);
    ASSERT_TRUE(again.ok()) << again.detail;
    EXPECT_EQ(again.receipt.amount, receipt.amount);
    EXPECT_EQ(again.receipt.start, receipt.start);
    EXPECT_EQ(again.receipt.end, receipt.end);
    EXPECT_EQ(again.receipt.total_units, receipt.total_units);
  }
  store->read(kStart, [](const LedgerView& view) {
    EXPECT_EQ(view.ledger.find("acme")->lock.amount, 15'000 * kToken);
    EXPECT_EQ(view.version, 2);
    EXPECT_EQ(view.block, 350) << "a repetition moves nothing";
  });
}

TEST(LedgerEvents, AreRefusedUnderTheNameOfAnother) {
  const auto store = opened(std::nullopt);
  ASSERT_TRUE(store->apply(with_event(lock_of("acme", 10'000), "e1"), "f", kStart)->ok());
  for (const Operation& other :
       {with_event(lock_of("acme", 10'001), "e1"), with_event(lock_of("other", 10'000), "e1"),
        with_event(lock_of("acme", 10'000), "e1", 7)}) {
    const Applied refused = *store->apply(other, "f", kStart);
    EXPECT_EQ(refused.fault, Fault::kEventTaken);
    EXPECT_THAT(refused.detail, testing::HasSubstr("number 1 of the history"));
  }
  EXPECT_EQ(store->history({})->size(), 1u);
  EXPECT_EQ(store->apply(with_event(join_of("w"), std::string(129, 'e')), "f", kStart)->fault,
            Fault::kNameTooLong);
  EXPECT_EQ(store->apply(with_event(join_of("w"), "\xff"), "f", kStart)->fault,
            Fault::kNameNotUtf8);
}

TEST(LedgerEvents, ThatWereRefusedChangeNothingAndMayComeAgain) {
  const auto store = opened(std::nullopt);
  const Operation add = with_event(add_of("acme", 5'000), "e2", 50);
  EXPECT_EQ(store->apply(add, "f", kStart)->fault, Fault::kNoLock);
  store->read(kStart, [](const LedgerView& view) { EXPECT_EQ(view.block, 0); });
  ASSERT_TRUE(store->apply(with_event(lock_of("acme", 10'000), "e1", 20), "f", kStart)->ok());
  EXPECT_EQ(store->apply(add, "f", kStart)->fault, Fault::kNotStarted);
  EXPECT_EQ(store->apply(with_event(join_of("w"), "e3", 19), "f", kStart)->fault,
            Fault::kBlockWentBack);
  EXPECT_TRUE(store->apply(with_event(join_of("w"), "e3", 20), "f", kStart)->ok())
      << "several may be in one block";
}

TEST(LedgerEvents, NameAWayOutForEachBlockThatCannotBePushed) {
  const auto store = opened(std::nullopt);
  ASSERT_TRUE(store->apply(with_event(join_of("w"), "e1", 20), "f", kStart)->ok());
  EXPECT_THAT(store->apply(with_event(join_of("v"), "e2", 19), "f", kStart)->detail,
              testing::HasSubstr("send events in the order of their blocks"));
  const Applied far = *store->apply(
      with_event(join_of("v"), "e2", 21 + system::compute::kPushAheadMax), "f", kStart);
  EXPECT_EQ(far.fault, Fault::kBlockTooFar);
  EXPECT_THAT(far.detail, testing::HasSubstr("more than 100000000 blocks after it, or beyond "
                                             "2^61 - 1; check the number"));
}

TEST(LedgerEvents, HaveNoBlockWhereBlocksFollowTime) {
  LedgerSettings settings = pushed_settings();
  settings.blocks = BlockSource::kTime;
  const auto store = opened(std::nullopt, settings);
  EXPECT_EQ(store->apply(with_event(join_of("w"), "e", 5), "f", kStart)->fault,
            Fault::kBlocksFollowTime);
  EXPECT_TRUE(store->apply(with_event(join_of("w"), "e"), "f", kStart)->ok());
  EXPECT_TRUE(store->apply(with_event(join_of("w"), "e"), "f", kStart)->ok());
  EXPECT_EQ(store->history({})->size(), 1u);
}

Operation of_lake(Op op, std::int64_t tokens, std::int64_t ticket = 0) {
  return {.op = op,
          .wallet = "anna",
          .amount = static_cast<Amount>(tokens) * kToken,
          .value = ticket,
          .name = "lake"};
}

TEST(LedgerPools, AreThereAgainAfterARestartWithTheirBelts) {
  TemporaryDirectory dir;
  const Operation exit = with_event(of_lake(Op::kExit, 240), "0xabc-9", 100);
  Receipt receipt;
  {
    const auto store = opened(dir.path());
    ASSERT_TRUE(store->apply(of_lake(Op::kOpenPool, 0), "ops", kStart)->ok());
    ASSERT_TRUE(store->apply(of_lake(Op::kStake, 1'000), "ops", kStart)->ok());
    receipt = store->apply(exit, "ops", kStart)->receipt;
    EXPECT_EQ(receipt.place, 240 * kToken);
  }
  const auto store = opened(dir.path());
  EXPECT_EQ(store->apply(exit, "ops", kStart)->receipt.place, receipt.place);
  ASSERT_EQ(*store->push_block(119, kStart), Fault::kNone);
  EXPECT_EQ(store->apply(of_lake(Op::kWithdraw, 0), "ops", kStart)->fault, Fault::kNotReady);
  ASSERT_EQ(*store->push_block(120, kStart), Fault::kNone);  // 20 blocks of 12 tokens
  EXPECT_EQ(store->apply(of_lake(Op::kWithdraw, 0), "ops", kStart)->receipt.amount, 240 * kToken);
  store->read(kStart,
              [](const LedgerView& view) { EXPECT_EQ(view.ledger.staked(), 760 * kToken); });
}

TEST(LedgerPools, HaveDefaultsInALedgerThatWasBegunWithout) {
  TemporaryDirectory dir;
  { const auto store = opened(dir.path()); }
  {
    auto file = Database::open((dir.path() / "ledger.db").string());
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->run("DELETE FROM genesis WHERE name LIKE 'pool_%' OR name IN "
                          "('min_stake', 'exit_rate')")
                    .ok());
  }
  { const auto store = opened(dir.path()); }
  LedgerSettings other = pushed_settings();
  other.parameters.exit_rate = kToken;
  EXPECT_FALSE(LedgerStore::open(dir.path(), other, kStart).ok());
}

struct Halves final : Strategy {
  Result<std::int64_t> share(const ShareOf& of) const override { return of.units / 2; }
};

TEST(LedgerStore, OpensWithoutTheStrategyThatAWalletChose) {
  TemporaryDirectory dir;
  {
    LedgerSettings settings = pushed_settings();
    settings.strategies = {{"halves", std::make_shared<Halves>()}};
    const auto store = opened(dir.path(), settings);
    ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "ops", kStart)->ok());
    ASSERT_TRUE(
        store->apply({.op = Op::kStrategy, .wallet = "acme", .name = "halves"}, "ops", kStart)
            ->ok());
  }
  const auto store = opened(dir.path());
  EXPECT_EQ(locked(*store, "acme"), 10'000 * kToken);
  EXPECT_EQ(
      store->apply({.op = Op::kStrategy, .wallet = "acme", .name = "halves"}, "ops", kStart)->fault,
      Fault::kNoSuchStrategy);
  EXPECT_TRUE(store->apply({.op = Op::kEqual, .wallet = "acme"}, "ops", kStart)->ok());
}

TEST(LedgerStore, CountsBlocksByTimeFromWhenItWasBegun) {
  TemporaryDirectory dir;
  EXPECT_EQ(block_of(*opened(dir.path(), {}), kStart + 120s), 10);
  auto later = LedgerStore::open(dir.path(), {}, kStart + 1h);
  EXPECT_EQ(block_of(**later, kStart + 1h), 300);
  EXPECT_EQ(*(*later)->push_block(301, kStart + 1h), Fault::kBlocksFollowTime);
  EXPECT_EQ(*(*later)->push_block(1, kStart + 1h), Fault::kBlocksFollowTime);
}

TEST(LedgerStore, RefusesBlocksThatGoBack) {
  const auto store = opened(std::nullopt);
  ASSERT_EQ(*store->push_block(10, kStart), Fault::kNone);
  EXPECT_EQ(*store->push_block(9, kStart), Fault::kBlockWentBack);
  EXPECT_EQ(block_of(*store, kStart), 10);
}

TEST(LedgerStore, MeasuresHowLongAnEpochLasts) {
  const auto store = opened(std::nullopt);
  const auto measured = [&] {
    Duration time{};
    store->read(kStart, [&](const LedgerView& view) { time = view.epoch_time; });
    return time;
  };
  EXPECT_EQ(measured(), 1200s);
  ASSERT_EQ(*store->push_block(1'000, kStart), Fault::kNone);
  ASSERT_EQ(*store->push_block(1'050, kStart + 500s), Fault::kNone);
  EXPECT_EQ(measured(), 1200s) << "no whole epoch was seen yet";
  ASSERT_EQ(*store->push_block(1'150, kStart + 1500s), Fault::kNone);
  EXPECT_EQ(measured(), 1000s);  // from 1,050 to 1,150
}

TEST(LedgerStore, RefusesOtherParametersThanItWasBegunWith) {
  TemporaryDirectory dir;
  opened(dir.path());
  LedgerSettings settings = pushed_settings();
  settings.parameters.mana = 1'000;
  const auto refused = LedgerStore::open(dir.path(), settings, kStart);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              testing::HasSubstr("the ledger was begun with mana '10', but the configuration has "
                                 "'1000'"));
}

TEST(LedgerStore, OnlyEverAddsToTheHistory) {
  TemporaryDirectory dir;
  const std::string file = (dir.path() / "ledger.db").string();
  {
    const auto store = opened(dir.path());
    ASSERT_TRUE(store->apply(lock_of("acme", 10'000), "ops", kStart)->ok());
  }
  Database database = *Database::open(file);
  EXPECT_THAT(database.run("DELETE FROM history").error().message,
              testing::HasSubstr("history is only added to"));
  EXPECT_FALSE(database.run("UPDATE history SET actor = 'nobody'").ok());
}

TEST(LedgerStore, RefusesAFileThatIsNotWhole) {
  TemporaryDirectory dir;
  opened(dir.path());
  write_bytes(dir.path() / "ledger.db", "not a database at all");
  const auto refused = LedgerStore::open(dir.path(), pushed_settings(), kStart);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("what was locked is not known"));
}

TEST(LedgerStore, BelongsToOneProcess) {
  TemporaryDirectory dir;
  const auto store = opened(dir.path());
  EXPECT_FALSE(LedgerStore::open(dir.path(), pushed_settings(), kStart).ok());
}

// --- kill -9

struct Progress {
  std::atomic<std::int64_t> asked{0};     // operations that may be in the file
  std::atomic<std::int64_t> answered{0};  // operations that must be
};

[[noreturn]] void write_for_ever(const fs::path& dir, Progress& progress) {
  const auto store = LedgerStore::open(dir, pushed_settings(), kStart);
  if (!store.ok()) ::_exit(1);
  for (;;) {
    const std::int64_t number = progress.asked += 1;
    const Operation join{.op = Op::kJoin, .name = fmt::format("worker-{}", number)};
    const Result<Applied> applied = (*store)->apply(join, "child", kStart);
    if (!applied || !applied->ok()) ::_exit(2);
    progress.answered = number;
  }
}

TEST(LedgerCrash, KeepsEverythingThatWasAnswered) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  std::mt19937_64 random(seed);
  TemporaryDirectory dir;
  constexpr int kRounds = 6;
  const SharedMemory<Progress> progress;
  for (int round = 0; round < kRounds; ++round) {
    // At least a few answers, then any moment.
    const std::int64_t before = progress->answered;
    ASSERT_NO_FATAL_FAILURE(kill_while_it_runs(
        random, 50ms, [&] { write_for_ever(dir.path(), *progress); },
        [&] { return progress->answered >= before + 3; }));

    const auto store = opened(dir.path());
    std::int64_t kept = 0;
    store->read(kStart, [&](const LedgerView& view) {
      kept = static_cast<std::int64_t>(view.ledger.workers().size());
    });
    ASSERT_GE(kept, progress->answered) << "round " << round;
    ASSERT_LE(kept, progress->asked) << "round " << round;
    progress->asked = progress->answered = kept;
  }
  fmt::print("{} operations in {} processes\n", progress->answered.load(), kRounds);
}

}  // namespace
}  // namespace weir::store::sqlite
