#include "weir/server/systems/worker_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace weir::server {
namespace {

using ::testing::HasSubstr;

const std::string kNoAllocations =
    R"({"worker":"w","block":2,"epoch":7,"epoch_time_ns":1200000000000,"clusters":[],"fault":"",)"
    R"("broken":[]})";

std::string state_of(const std::string& cluster) {
  return R"({"heard_ns":1,"buckets":[{"cluster":")" + cluster +
         R"(","tokens_micro":1,"last_tick_ns":1}]})" + '\n' + kNoAllocations;
}

TEST(WorkerState, IsWrittenAndReadBack) {
  const Result<WorkerState> state = parse_worker_state(state_of("a\\u0000é"));
  ASSERT_TRUE(state) << state.error().message;
  const Result<WorkerState> again = parse_worker_state(worker_state_text(*state));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->buckets, state->buckets);
}

// It would be written as another name.
TEST(WorkerState, IsRefusedWithANameThatIsNotUtf8) {
  const Result<WorkerState> state = parse_worker_state(state_of("a\xff"));
  ASSERT_FALSE(state);
  EXPECT_THAT(state.error().message, HasSubstr("the state: byte 39 is 0xff, which is not UTF-8"));
}

}  // namespace
}  // namespace weir::server
