#include "weir/system/pool/waiting_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/pool/support.h"

namespace weir::system::pool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LiveJob waiter(JobId id, std::size_t model, std::size_t type, Duration patience) {
  LiveJob job;
  job.id = id;
  job.model = model;
  job.type = type;
  job.deadline = kStart + patience;
  return job;
}

TEST(WaitingJobs, StandInTheOrderOfTheirSubmission) {
  WaitingJobs waiting(2, 2);
  LiveJob first = waiter(1, 1, 0, 5s), second = waiter(2, 1, 0, 3s);
  waiting.wait_for_model(second);
  waiting.wait_for_model(first);  // again, after a refusal
  EXPECT_EQ(waiting.first_for_model(1, 0), &first);
  EXPECT_EQ(waiting.count_for_model(1, 0), 2u);
  EXPECT_EQ(waiting.count_for_model(0, 1), 0u);
}

TEST(WaitingJobs, AreFoundByTheQueuesThatHaveOne) {
  WaitingJobs waiting(2, 3);
  LiveJob one = waiter(1, 0, 2, 5s), two = waiter(2, 1, 0, 5s), three = waiter(3, 1, 2, 5s);
  for (LiveJob* job : {&one, &two, &three}) waiting.wait_for_model(*job);
  EXPECT_THAT(waiting.types_at(0), ElementsAre(2));
  EXPECT_THAT(waiting.types_at(1), ElementsAre(0, 2));
  waiting.leave(two);
  EXPECT_THAT(waiting.types_at(1), ElementsAre(2));
  waiting.leave(one);
  EXPECT_THAT(waiting.types_at(0), IsEmpty());
}

TEST(WaitingJobs, AreDueAtTheirDeadlineAndNotBefore) {
  WaitingJobs waiting(1, 1);
  LiveJob slot = waiter(1, 0, 0, 5s), model = waiter(2, 0, 0, 3s);
  waiting.wait_for_slot(slot);
  waiting.wait_for_model(model);
  EXPECT_EQ(waiting.first_deadline(), kStart + 3s);
  EXPECT_EQ(waiting.due(kStart + 3s - 1ns), std::nullopt);
  EXPECT_EQ(waiting.due(kStart + 3s), 2u);
  waiting.leave(model);
  EXPECT_EQ(waiting.first_deadline(), kStart + 5s);
  waiting.leave(slot);
  EXPECT_EQ(waiting.first_deadline(), kForever);
  EXPECT_EQ(waiting.first_for_slot(0), nullptr);
}

TEST(WaitingJobs, ThatGoOnToWaitForMemoryKeepTheirDeadline) {
  WaitingJobs waiting(1, 1);
  LiveJob job = waiter(1, 0, 0, 3s);
  waiting.wait_for_model(job);
  waiting.wait_for_memory(job);
  waiting.leave_model(job);
  EXPECT_EQ(waiting.count_for_model(0, 0), 0u);
  EXPECT_EQ(waiting.due(kStart + 3s), 1u);
}

TEST(WaitingJobs, ThatRunWithoutAHoldAreNeverDue) {
  WaitingJobs waiting(1, 1);
  LiveJob held = waiter(1, 0, 0, 3s), free = waiter(2, 0, 0, 3s);
  free.deadline = kForever;
  waiting.run(held);
  waiting.run(free);
  EXPECT_EQ(waiting.due(kStart + 3s), 1u);
  waiting.forget_deadline(held);
  EXPECT_EQ(waiting.first_deadline(), kForever);
}

}  // namespace
}  // namespace weir::system::pool
