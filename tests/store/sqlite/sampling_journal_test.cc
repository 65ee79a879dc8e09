// Grants on the disk: before anybody is told of them, through a full disk, and through
// kill -9.

#include "weir/store/sqlite/sampling_journal.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <iostream>
#include <thread>

#include "tests/store/sqlite/support.h"
#include "tests/support/small_disk.h"

namespace weir::store::sqlite {
namespace {

namespace sampling = system::sampling;
using sampling::Sampling;
using ::testing::HasSubstr;

// So many in an hour.
std::shared_ptr<Sampling> counters_of(std::int64_t limit) {
  auto rules = sampling::make_rules({.environments = {{.name = "E",
                                                       .rotation_count_micro = 0,
                                                       .sampling_count_micro = limit * 48 * kMicro,
                                                       .parent = sampling::ParentSpec{limit}}}});
  EXPECT_TRUE(rules.ok());
  return Sampling::create(std::move(*rules), {});
}

sampling::Who miner(std::string_view hotkey) { return {hotkey, "r1", "E", 7}; }

// A directory, its journal and what was brought back from it.
struct Running {
  explicit Running(const fs::path& dir, std::int64_t limit = 1000, Instant now = kStart,
                   StartEmpty start_empty = StartEmpty::kNo)
      : directory(Directory::open(dir)), counters(counters_of(limit)) {
    EXPECT_TRUE(directory.ok());
    auto opened = SamplingJournal::open(*directory, start_empty);
    if (!opened) {
      refusal = opened.error().message;
      return;
    }
    journal = std::move(*opened);
    counters->set_secret({1, 2, 3, 4});
    auto count = journal->restore(*counters, now);
    EXPECT_TRUE(count.ok()) << (count ? "" : count.error().message);
    restored = count ? *count : 0;
    counters->set_journal(journal.get());
  }

  std::int64_t count(std::string_view hotkey, Instant now = kStart) const {
    return counters->peek(miner(hotkey), 0, now)->count;
  }

  sampling::Ticket last_record() const {
    const std::scoped_lock lock(*counters);
    return counters->locked().last_record();
  }

  Result<Directory> directory;
  std::shared_ptr<Sampling> counters;
  std::unique_ptr<SamplingJournal> journal;  // before the counters' last use of it
  std::uint64_t restored = 0;
  std::string refusal;
};

TEST(SamplingJournal, BringsBackGrantsAndReservations) {
  TemporaryDirectory dir;
  sampling::Grant second;
  {
    const Running before(dir.path());
    const auto first = before.counters->grant(miner("a"), 6, kStart);
    second = *before.counters->grant(miner("a"), 3, kStart + 1s);
    ASSERT_TRUE(before.counters->commit(first->reservation, 4, kStart + 2s));
    ASSERT_TRUE(before.journal->wait(before.last_record()));
  }
  const Running after(dir.path(), 1000, kStart + 1min);
  EXPECT_EQ(after.restored, 3u);
  EXPECT_EQ(after.count("a", kStart + 1min), 7);
  EXPECT_EQ(after.count("a", kStart + 1h), 3);
  EXPECT_EQ(*after.counters->release(second.reservation, kStart + 1min), 3);
  EXPECT_EQ(after.count("a", kStart + 1min), 4);
}

TEST(SamplingJournal, WritesGrantsOfManyThreads) {
  TemporaryDirectory dir;
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  {
    const Running running(dir.path());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto grant = running.counters->grant(miner(std::to_string(t)), 1, kStart);
          EXPECT_TRUE(grant && grant->granted == 1);
        }
        EXPECT_TRUE(running.journal->wait(running.last_record()));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(running.journal->stats().records, kThreads * kEach);
  }
  const Running after(dir.path());
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(after.count(std::to_string(t)), kEach);
}

TEST(SamplingJournal, KeepsAMillionKeys) {
  constexpr int kMillion = 1'000'000;
  TemporaryDirectory dir;
  const auto spec = [] {
    auto rules = sampling::make_rules(
        {.environments = {
             {.name = "E", .rotation_count_micro = 0, .sampling_count_micro = 288 * kMicro}}});
    EXPECT_TRUE(rules.ok());
    return std::move(*rules);
  };
  const auto seconds_since = [](std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto directory = Directory::open(dir.path());
  ASSERT_TRUE(directory.ok());
  HoldId last;
  {
    auto counters = Sampling::create(spec(), {.secret = {1, 2, 3, 4}});
    auto journal = SamplingJournal::open(*directory, StartEmpty::kNo);
    ASSERT_TRUE(journal.ok());
    counters->set_journal(journal->get());
    const auto start = std::chrono::steady_clock::now();
    sampling::Ticket record = 0;
    for (int i = 0; i < kMillion; ++i) {
      const auto grant = counters->grant(miner(std::to_string(i)), 1, kStart);
      ASSERT_TRUE(grant && grant->granted == 1);
      last = grant->reservation;
      record = grant->record;
    }
    ASSERT_TRUE((*journal)->wait(record));
    std::cout << kMillion << " keys granted and on the disk in " << seconds_since(start) << " s, "
              << counters->reading().bytes / kMillion << " bytes each\n";
    ASSERT_TRUE((*journal)->stop());
  }
  const auto size = fs::file_size(dir.path() / "sampling.db");
  EXPECT_LE(size, std::uintmax_t{kMillion} * 80);
  auto counters = Sampling::create(spec(), {.secret = {1, 2, 3, 4}});
  auto journal = SamplingJournal::open(*directory, StartEmpty::kNo);
  ASSERT_TRUE(journal.ok());
  const auto start = std::chrono::steady_clock::now();
  const auto restored = (*journal)->restore(*counters, kStart + 1min);
  std::cout << size / 1'000'000 << " MB brought back in " << seconds_since(start) << " s\n";
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(*restored, std::uint64_t{kMillion});
  EXPECT_EQ(counters->reading().keys, std::size_t{kMillion});
  EXPECT_LE(counters->reading().bytes, std::size_t{kMillion} * 144);
  EXPECT_EQ(*counters->release(last, kStart + 1min), 1);
  EXPECT_EQ(counters->peek(miner("0"), 0, kStart + 1min)->count, 1);
}

TEST(SamplingJournal, WritesWhatCameDuringOneTransactionInTheNext) {
  TemporaryDirectory dir;
  const Running running(dir.path());
  // Holds the writer up after one of its transactions.
  std::promise<void> go_on;
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<bool> is_held_up{false};
  while (!is_held_up) {
    std::promise<void> told;
    ASSERT_TRUE(running.counters->grant(miner("a"), 1, kStart));
    running.journal->when_written(running.last_record(), [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      // If it was faster than this thread, the next one may not be.
      is_held_up = std::this_thread::get_id() != here;
      told.set_value();
      if (is_held_up) go_on.get_future().wait();
    });
    told.get_future().wait();
  }
  const std::uint64_t before = running.journal->stats().transactions;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(running.counters->grant(miner("b"), 1, kStart));
  go_on.set_value();
  ASSERT_TRUE(running.journal->wait(running.last_record()));
  EXPECT_EQ(running.journal->stats().transactions, before + 1);
}

TEST(SamplingJournal, ForgetsRecordsThatAreOfNoUseButNoReservationNumber) {
  TemporaryDirectory dir;
  std::uint64_t last = 0;
  {
    const Running running(dir.path());
    for (int i = 0; i < 100; ++i) {
      last = running.counters->grant(miner("a"), 1, kStart + i * 1s)->reservation.number;
    }
    ASSERT_TRUE(running.journal->wait(running.last_record()));
    running.journal->forget_before(kStart + 1h);
    ASSERT_TRUE(running.counters->grant(miner("b"), 1, kStart + 2h, sampling::Keep::kFinal));
    ASSERT_TRUE(running.journal->wait(running.last_record()));
  }
  const Running after(dir.path(), 1000, kStart);
  EXPECT_EQ(after.restored, 1u);
  EXPECT_EQ(after.count("a"), 0);
  EXPECT_GT(after.counters->grant(miner("a"), 1, kStart)->reservation.number, last)
      << "though the clock was set back";
}

// Of a clock that was a day ahead when they were granted.
TEST(SamplingJournal, ForgetsOtherRecordsThoughSomeAreOfAClockThatWasAhead) {
  TemporaryDirectory dir;
  const auto grant = [](const Running& running, std::string_view hotkey, int count, Instant at) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(running.counters->grant(miner(hotkey), 1, at, sampling::Keep::kFinal));
    }
    ASSERT_TRUE(running.journal->wait(running.last_record()));
  };
  grant(Running(dir.path()), "ahead", 3, kStart + 24h);
  {
    const Running running(dir.path());
    EXPECT_EQ(running.count("ahead"), 3);
    grant(running, "a", 5, kStart);
    running.journal->forget_before(kStart + 1h);
    grant(running, "b", 1, kStart + 2h);
    running.journal->forget_before(kStart + 3h);
    grant(running, "c", 1, kStart + 4h);
  }
  {
    const Running after(dir.path(), 1000, kStart + 4h);
    EXPECT_EQ(after.restored, 4u) << "three, and the last one";
    EXPECT_EQ(after.count("ahead", kStart + 4h), 3);
    EXPECT_EQ(after.count("c", kStart + 4h), 1);
    after.journal->forget_before(kStart + 4h);
    grant(after, "d", 1, kStart + 5h);
  }
  {
    const Running on_time(dir.path(), 1000, kStart + 25h);
    EXPECT_EQ(on_time.restored, 4u);
    EXPECT_EQ(on_time.count("ahead", kStart + 25h), 0);
    on_time.journal->forget_before(kStart + 24h);
    grant(on_time, "e", 1, kStart + 25h);
  }
  EXPECT_EQ(Running(dir.path(), 1000, kStart + 25h).restored, 1u) << "their time has passed";
}

TEST(SamplingJournal, RefusesAFileThatIsNotItsOwn) {
  TemporaryDirectory dir;
  { const Running made(dir.path()); }
  write_bytes(dir.path() / "sampling.db", "nonsense");
  const Running refused(dir.path());
  EXPECT_THAT(refused.refusal, HasSubstr("sampling.db: it is not a database"));
  EXPECT_THAT(refused.refusal, HasSubstr("--start-empty"));
}

TEST(SamplingJournal, MovesADamagedFileAsideWhenTold) {
  TemporaryDirectory dir;
  write_bytes(dir.path() / "sampling.db", "nonsense");
  const Running empty(dir.path(), 1000, kStart, StartEmpty::kYes);
  EXPECT_EQ(empty.refusal, "");
  EXPECT_EQ(bytes_of(dir.path() / "sampling.db.bad-1"), "nonsense");
}

TEST(SamplingJournal, GrantsNothingOnAFullDiskAndLosesNothing) {
  const SmallDisk disk;
  std::int64_t granted = 1;
  {
    const Running running(disk.path(), 100'000);
    ASSERT_TRUE(running.counters->grant(miner("a"), 1, kStart));
    ASSERT_TRUE(running.journal->wait(running.last_record()));
    disk.fill();
    // Until the log's file has no room left in it.
    Status written = Done{};
    for (int i = 0; written && i < 100'000; ++i) {
      const auto grant = running.counters->grant(miner("a"), 1, kStart);
      if (!grant) break;
      granted += grant->granted;
      written = running.journal->wait(grant->record);
    }
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().message, HasSubstr("sampling.db"));
    EXPECT_THAT(written.error().message, HasSubstr("make room"));
    const auto refused = running.counters->grant(miner("a"), 1, kStart);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(running.count("a"), granted) << "what was granted stays counted";
    disk.make_room();
    while (!running.journal->ready()) std::this_thread::yield();
    EXPECT_TRUE(running.counters->grant(miner("a"), 1, kStart));
    ASSERT_TRUE(running.journal->wait(running.last_record()));
  }
  const Running after(disk.path());
  EXPECT_EQ(after.count("a"), granted + 1);
  EXPECT_EQ(after.counters->reading().keys, 2u) << "a key and its parent";
}

// --- kill -9

constexpr std::size_t kMiners = 40;
constexpr std::int64_t kLimit = 60;

// What survives the process, because both have it in memory.
struct Grants {
  std::array<std::atomic<std::int64_t>, kMiners> told{};  // tasks whose grant was answered
  std::atomic<std::uint64_t> answers{0};
};

void schedule_for_ever(const Running& running, Grants& shared, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    const std::size_t each = random() % kMiners;
    const auto grant = running.counters->grant(miner(std::to_string(each)), 1, kStart);
    if (!grant || !running.journal->wait(grant->record)) ::_exit(1);
    shared.told[each] += grant->granted;
    shared.answers += 1;
  }
}

[[noreturn]] void live(const fs::path& dir, Grants& shared, std::uint64_t seed) {
  const Running running(dir, kLimit);
  std::thread other(schedule_for_ever, std::cref(running), std::ref(shared), seed);
  schedule_for_ever(running, shared, seed + 1000);
  ::_exit(2);
}

TEST(SamplingJournal, ForgetsNothingThatWasAnsweredBeforeAKill) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  std::mt19937_64 random(seed);
  TemporaryDirectory dir;
  constexpr int kRounds = 5;
  const SharedMemory<Grants> shared;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t answers = shared->answers;
    // A few answers, then any moment.
    ASSERT_NO_FATAL_FAILURE(kill_while_it_runs(
        random, 30ms, [&] { live(dir.path(), *shared, seed + static_cast<std::uint64_t>(round)); },
        [&] { return shared->answers >= answers + 20; }));
    const Running after(dir.path(), kLimit);
    for (std::size_t i = 0; i < kMiners; ++i) {
      const std::int64_t count = after.count(std::to_string(i));
      ASSERT_GE(count, shared->told[i]) << "round " << round << ", miner " << i;
      ASSERT_LE(count, kLimit);
      shared->told[i] = count;  // what was written and not answered counts as well
    }
  }
}

}  // namespace
}  // namespace weir::store::sqlite
