#include "weir/system/pool/held_jobs.h"

#include <gtest/gtest.h>

#include "tests/system/pool/support.h"
#include "weir/base/keyed_word.h"

namespace weir::system::pool {
namespace {

constexpr std::uint64_t kOwner = 7;

struct HeldJobsTest : ::testing::Test {
  // One place, and one type for it.
  HeldJobsTest() {
    auto pools = Pools::create(places_of(1),
                               std::make_unique<LocalCoordinator>(std::make_shared<LocalFleet>()));
    EXPECT_TRUE(pools.ok());
    jobs = std::make_unique<HeldJobs>(std::move(*pools), HoldSettings{10s, 1min}, kOwner);
    jobs->pools().start(kStart, [](Instant, const Status& status) { EXPECT_TRUE(status.ok()); });
  }
  Result<JobTurn> ask(JobAsk asked = {.type = "a"}, Instant now = kStart) {
    return jobs->acquire(asked, now,
                         [this](Instant, const JobAnswer& answer) { told.push_back(answer); });
  }
  HoldId started(JobAsk asked = {.type = "a"}, Instant now = kStart) {
    const Result<JobTurn> turn = ask(asked, now);
    EXPECT_TRUE(turn && turn->answer && std::holds_alternative<HeldStart>(*turn->answer));
    return std::get<HeldStart>(*turn->answer).id;
  }

  std::size_t held() const { return jobs->pools().reading(kStart).jobs; }
  std::uint64_t expired() const { return jobs->pools().reading(kStart).models[0].tally.expired; }

  std::unique_ptr<HeldJobs> jobs;
  std::vector<JobAnswer> told;
};

TEST_F(HeldJobsTest, AnswerAtOnceWhereTheyCanAndThenCallNobody) {
  const HoldId job = started();
  EXPECT_EQ(job, (HoldId{owned_word(kOwner, 1), 1}));
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(held(), 1u);
}

TEST_F(HeldJobsTest, AreNotNamedByTheWordOfANeighbour) {
  const HoldId job = started();
  EXPECT_EQ(jobs->finish({owned_word(kOwner, 2), job.number}, {.requests = 1}, kStart).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(held(), 1u);
}

TEST_F(HeldJobsTest, CallWhoeverWaitsOnce) {
  const HoldId job = started();
  const Result<JobTurn> waits = ask();
  ASSERT_TRUE(waits && !waits->answer);
  ASSERT_TRUE(jobs->finish(job, {.requests = 1}, kStart + 1s).ok());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(std::get<HeldStart>(told[0]).start.expires_at, kStart + 11s);
  EXPECT_FALSE(jobs->give_up(waits->ticket, kStart + 1s));
}

TEST_F(HeldJobsTest, EndByThemselvesWhenTheirHoldIsOver) {
  const HoldId job = started({.type = "a", .hold = 2s});
  ASSERT_TRUE(ask()->ticket != 0);
  EXPECT_LE(jobs->pools().next_instant(), kStart + 2s);
  jobs->pools().advance(kStart + 2s - 1ns);
  EXPECT_TRUE(told.empty());
  jobs->pools().advance(kStart + 2s);
  EXPECT_EQ(expired(), 1u);
  EXPECT_EQ(told.size(), 1u) << "the client that waited has the place";
  EXPECT_FALSE(jobs->finish(job, {.requests = 1}, kStart + 3s).ok());
}

TEST_F(HeldJobsTest, DoNotExpireOnceTheyHaveEnded) {
  ASSERT_TRUE(jobs->fail(started(), std::nullopt, kStart + 1s).ok());
  jobs->pools().advance(kStart + 1min);
  EXPECT_EQ(expired(), 0u);
}

TEST_F(HeldJobsTest, KeepTheirHoldWhenAnEndIsRefused) {
  const HoldId job = started();
  EXPECT_FALSE(jobs->finish(job, {.requests = -1}, kStart).ok());
  Used negative{.requests = -1};
  EXPECT_FALSE(jobs->delegate(job, negative, kStart, [](Instant, const JobAnswer&) {}).ok());
  EXPECT_EQ(held(), 1u);
  jobs->pools().advance(kStart + 10s);
  EXPECT_EQ(expired(), 1u);
}

TEST_F(HeldJobsTest, HaveANewHoldAfterADelegation) {
  const HoldId job = started();
  const Result<JobTurn> next =
      jobs->delegate(job, {.requests = 1}, kStart + 5s, [](Instant, const JobAnswer&) { FAIL(); });
  ASSERT_TRUE(next && next->answer);
  EXPECT_EQ(std::get<HeldStart>(*next->answer).start.expires_at, kStart + 15s);
  EXPECT_EQ(std::get<HeldStart>(*next->answer).id, job);
  jobs->pools().advance(kStart + 10s);
  EXPECT_EQ(expired(), 0u);
}

TEST_F(HeldJobsTest, LastLongerWhenTheyAreRenewed) {
  const HoldId job = started({.type = "a", .hold = 2s});
  EXPECT_EQ(jobs->renew(job, 5s, kStart + 1s).value(), kStart + 6s);
  jobs->pools().advance(kStart + 6s - 1ns);
  EXPECT_EQ(expired(), 0u);
  // Without a word as long as one that names none.
  EXPECT_EQ(jobs->renew(job, std::nullopt, kStart + 6s - 1ns).value(), kStart + 16s - 1ns);
  EXPECT_EQ(jobs->renew(job, 61s, kStart + 7s).error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(jobs->renew({kOwner + 1, job.number}, 5s, kStart + 7s).error().code,
            ErrorCode::kNotFound);
  jobs->pools().advance(kStart + 16s - 1ns);
  EXPECT_EQ(expired(), 1u);
  EXPECT_EQ(jobs->renew(job, 5s, kStart + 17s).error().code, ErrorCode::kNotFound);
}

TEST_F(HeldJobsTest, HaveTheHoldThatIsConfiguredWhenTheyBegin) {
  jobs->change({3s, 4s});
  started();
  EXPECT_EQ(jobs->pools().next_instant(), kStart + 3s);
  EXPECT_EQ(ask({.type = "a", .hold = 5s}).error().code, ErrorCode::kBadArgument);
}

TEST_F(HeldJobsTest, AreAsIfTheyHadNotBeenWhenNobodyTakesThem) {
  jobs->discard(started(), kStart);
  EXPECT_EQ(held(), 0u);
  const Reading reading = jobs->pools().reading(kStart);
  EXPECT_EQ(reading.models[0].in_flight, 0);
  EXPECT_EQ(reading.jobs, 0u);
  EXPECT_EQ(reading.tally.withdrawn, 1u);
  started();
}

TEST_F(HeldJobsTest, OfAnotherProcessAreNotFound) {
  started();
  const auto ended = jobs->finish({kOwner + 1, 1}, {.requests = 1}, kStart);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, ErrorCode::kNotFound);
  jobs->discard({kOwner + 1, 1}, kStart);
  EXPECT_EQ(held(), 1u);
}

TEST_F(HeldJobsTest, TakeHoldsWithinTheirBoundsOnly) {
  EXPECT_FALSE(ask({.type = "a", .hold = kHoldLeast - 1ns}).ok());
  EXPECT_FALSE(ask({.type = "a", .hold = 1min + 1ns}).ok());
  EXPECT_EQ(jobs->pools().reading(kStart).tally.submitted, 0u);
  EXPECT_TRUE(ask({.type = "a", .hold = 1min}).ok());
  EXPECT_FALSE(validate_hold_settings({2h, 1h}).ok());
  EXPECT_FALSE(validate_hold_settings({1s, kHoldMost + 1ns}).ok());
  EXPECT_TRUE(validate_hold_settings({kHoldLeast, kHoldMost}).ok());
}

}  // namespace
}  // namespace weir::system::pool
