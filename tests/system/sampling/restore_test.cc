// What a journal is told, and what its records bring back.

#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

TEST(Sampling, RestoresFromItsJournal) {
  MemoryJournal journal;
  EnvironmentSpec environment = six_an_hour();
  environment.parent = ParentSpec{7};
  const auto before = sampling_of(spec_of({environment}), {.journal = &journal});
  const Grant first = granted(*before, miner(), 4, kStart);
  const Grant second = granted(*before, miner(), 2, kStart + 1s);
  EXPECT_TRUE(before->commit(first.reservation, 3, kStart + 2s));

  const auto after = sampling_of(spec_of({environment}));
  for (const Record& record : journal.records) {
    ASSERT_TRUE(after->restore(record, kStart + 1min));
  }
  EXPECT_EQ(granted(*after, miner(), 6, kStart + 1min).granted, 1);
  EXPECT_EQ(granted(*after, miner("E", "r2"), 6, kStart + 1min).granted, 1);
  EXPECT_EQ(*after->commit(first.reservation, 3, kStart + 1min), 1) << "as before the restart";
  EXPECT_TRUE(after->release(first.reservation, kStart + 1min)->was_other) << "it was committed";
  EXPECT_EQ(*after->release(second.reservation, kStart + 1min), 2);
  EXPECT_EQ(granted(*after, miner(), 6, kStart + 1min).granted, 2);
}

// The end alone does not tell how many were created.
TEST(Sampling, KnowsAfterARestartHowAReservationEndedAsLongAsItsGrantIsInTheWindow) {
  MemoryJournal journal;
  const auto before = sampling_of(spec_of({six_an_hour()}), {.journal = &journal});
  const Grant grant = granted(*before, miner(), 4, kStart);
  ASSERT_EQ(*before->commit(grant.reservation, 3, kStart + 50min), 1);
  EXPECT_EQ(*before->commit(grant.reservation, 3, kStart + 70min), 1);
  const auto after_restart_at = [&](Instant now) {
    auto after = sampling_of(spec_of({six_an_hour()}));
    for (const Record& record : journal.records) EXPECT_TRUE(after->restore(record, now));
    return after;
  };
  EXPECT_EQ(*after_restart_at(kStart + 55min)->commit(grant.reservation, 3, kStart + 70min), 1);
  const auto later = after_restart_at(kStart + 65min)->commit(grant.reservation, 3, kStart + 70min);
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().code, ErrorCode::kNotFound);
}

// Records of a key lie between those of others, so its block is asked for again and again.
TEST(Sampling, NeedsNoMoreMemoryAfterARestart) {
  constexpr int kKeys = 100'000;
  std::vector<Record> records;
  for (int round = 0; round < 6; ++round) {
    for (std::uint64_t i = 1; i <= kKeys; ++i) {
      records.push_back(
          {.key = {i * 0x9e37'79b9'7f4a'7c15, i << 16}, .at = kStart + 1s * round, .units = 1});
    }
  }
  const auto after = sampling_of(spec_of({six_an_hour()}));
  for (const Record& record : records) ASSERT_TRUE(after->restore(record, kStart + 1min));
  EXPECT_EQ(after->reading().keys, static_cast<std::size_t>(kKeys));
  EXPECT_LE(after->reading().bytes, std::size_t{kKeys} * 128);
}

TEST(Sampling, RestoresAsManyKeysAsItMayKeep) {
  MemoryJournal journal;
  const auto before = sampling_of(spec_of({six_an_hour()}), {.keys_max = 2, .journal = &journal});
  for (const char* revision : {"r1", "r2", "r1", "r2"}) {
    granted(*before, miner("E", revision), 1, kStart);
  }
  const auto after = sampling_of(spec_of({six_an_hour()}), {.keys_max = 2});
  for (const Record& record : journal.records) ASSERT_TRUE(after->restore(record, kStart));
  EXPECT_EQ(granted(*after, miner("E", "r2"), 6, kStart).granted, 4);
  const auto smaller = sampling_of(spec_of({six_an_hour()}), {.keys_max = 1});
  EXPECT_TRUE(smaller->restore(journal.records[0], kStart));
  EXPECT_FALSE(smaller->restore(journal.records[1], kStart));
}

TEST(Sampling, NeverGivesOutAReservationTwice) {
  const auto before = sampling_of(spec_of({six_an_hour()}));
  const Grant old = granted(*before, miner(), 1, kStart);
  const auto after = sampling_of(spec_of({six_an_hour()}));
  const Grant young = granted(*after, miner(), 1, kStart + 2h);
  EXPECT_GT(young.reservation.number, old.reservation.number);
}

// A random test found this one.
TEST(Sampling, NeverGivesOutAReservationTwiceThoughTheClockWasSetBack) {
  MemoryJournal journal;
  const auto before = sampling_of(spec_of({six_an_hour()}), {.journal = &journal});
  granted(*before, miner(), 1, kStart + 24h);
  const auto between = sampling_of(spec_of({six_an_hour()}), {.journal = &journal});
  ASSERT_TRUE(between->restore(journal.records[0], kStart));
  const Grant old = granted(*between, miner(), 1, kStart);
  const auto after = sampling_of(spec_of({six_an_hour()}));
  for (const Record& record : journal.records) ASSERT_TRUE(after->restore(record, kStart + 2h));
  EXPECT_GT(granted(*after, miner(), 1, kStart + 2h).reservation.number, old.reservation.number);
}

TEST(Sampling, CountsGrantsOfAClockThatWasAheadFromNow) {
  MemoryJournal journal;
  const auto before = sampling_of(spec_of({six_an_hour()}), {.journal = &journal});
  granted(*before, miner(), 6, kStart + 24h);
  const auto after = sampling_of(spec_of({six_an_hour()}));
  for (const Record& record : journal.records) ASSERT_TRUE(after->restore(record, kStart));
  const Grant grant = granted(*after, miner(), 1, kStart);
  EXPECT_EQ(grant.granted, 0);
  EXPECT_EQ(grant.next_free, kStart + 1h) << "not a day later";
}

// Every start counts them from its own instant; what one of them gave back stays given back.
TEST(Sampling, GivesBackOfAClockThatWasAheadOverSeveralRestarts) {
  MemoryJournal journal;
  EnvironmentSpec environment = six_an_hour();
  environment.parent = ParentSpec{};
  const auto begin = [&](Instant now) {
    auto sampling = sampling_of(spec_of({environment}));
    for (const Record& record : journal.records) EXPECT_TRUE(sampling->restore(record, now));
    sampling->set_journal(&journal);
    return sampling;
  };
  const Grant ahead = granted(*begin(kStart), miner(), 6, kStart + 24h);
  EXPECT_EQ(*begin(kStart)->commit(ahead.reservation, 2, kStart + 1min), 4);
  const auto later = begin(kStart + 2min);
  const Grant left = granted(*later, miner(), 6, kStart + 2min);
  EXPECT_EQ(left.granted, 4);
  EXPECT_EQ(left.parent_count, 6);
  EXPECT_EQ(left.next_free, kStart + 1h + 2min);
}

TEST(Sampling, GrantsNothingWhileItsJournalCannotWrite) {
  MemoryJournal journal;
  const auto sampling = sampling_of(spec_of({six_an_hour()}), {.journal = &journal});
  const Grant grant = granted(*sampling, miner(), 1, kStart);
  journal.trouble = "the disk is full";
  const Result<Grant> refused = sampling->grant(miner(), 1, kStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(sampling->commit(grant.reservation, 0, kStart));
  EXPECT_EQ(sampling->locked().check(miner(), 1, kStart).verdict, Verdict::kDenied);
  journal.trouble.clear();
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart).granted, 5);
  EXPECT_EQ(*sampling->commit(grant.reservation, 0, kStart), 1);
}

}  // namespace
}  // namespace weir::system::sampling
