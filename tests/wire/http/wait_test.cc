#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::WindowSpec;
using ::testing::HasSubstr;

constexpr std::string_view kPatient = R"({"attributes":{"client":"acme"},"wait":"5s"})";

TEST(Wait, IsAnsweredAtOnceWhenItFits) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.acquire(kPatient).status, 200u);
  EXPECT_FALSE(desk.waiting);
}

TEST(Wait, IsAnsweredLaterWhenItsTurnComes) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  desk.acquire(kPatient);
  ASSERT_TRUE(desk.waiting);
  desk.pass(333'333'333ns);
  EXPECT_TRUE(desk.later.empty());
  desk.pass(1ns);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 200u);
  EXPECT_EQ(text_at(desk.later[0], "verdict"), "allowed");
  EXPECT_EQ(desk.later[0].headers,
            "RateLimit-Policy: \"per-client\";q=2;w=1\r\nRateLimit: \"per-client\";r=0;t=1\r\n");
}

TEST(Wait, IsAnsweredOnlyOnce) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  desk.acquire(kPatient);
  for (int i = 0; i < 10; ++i) desk.pass(1s);
  EXPECT_EQ(desk.later.size(), 1u);
}

TEST(Wait, IsDeniedAtTheDeadline) {
  Desk desk(one_slot(1));
  desk.acquire("{}");
  desk.acquire(R"({"wait":"5s"})");
  ASSERT_TRUE(desk.waiting);
  desk.pass(5s);
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 429u);
}

TEST(Wait, IsDeniedAtOnceWhenItCannotEndInTime) {
  Desk desk({.limits = {{.name = "hourly", .meter = WindowSpec{1, 1h}}}});
  desk.acquire("{}");
  const Answer answer = desk.acquire(R"({"wait":"5s"})");
  EXPECT_FALSE(desk.waiting);
  EXPECT_EQ(answer.status, 429u);
  EXPECT_THAT(answer.headers, HasSubstr("Retry-After: 3600\r\n"));
}

TEST(Wait, IsOverloadedWhenTheQueueIsFull) {
  Desk desk(one_slot(1));
  desk.acquire("{}");
  desk.acquire(R"({"wait":"5s"})");
  const Answer answer = desk.acquire(R"({"wait":"5s"})");
  EXPECT_FALSE(desk.waiting);
  EXPECT_EQ(answer.status, 503u);
  EXPECT_EQ(text_at(answer, "verdict"), "overloaded");
}

TEST(Wait, KeepsAHoldFromItsAdmissionOn) {
  Desk desk(one_slot(1));
  const std::string hold = text_at(desk.acquire("{}"), "hold");
  desk.acquire(R"({"wait":"5s","hold":"10s"})");
  desk.pass(2s);
  desk.post("/v1/cancel", R"({"hold":")" + hold + R"("})");
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(text_at(desk.later[0], "hold_expires"), "2027-01-15T08:00:12.000000000Z");
}

TEST(Wait, IsAnsweredByTheThreadThatFreesTheSlot) {
  Desk desk(one_slot(1));
  const std::string hold = text_at(desk.acquire("{}"), "hold");
  desk.acquire(R"({"wait":"5s"})");
  std::thread([&] { desk.post("/v1/cancel", R"({"hold":")" + hold + R"("})"); }).join();
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 200u);
}

TEST(Wait, IsAnsweredWithAProblemWhenTheRulesForgetItsAttributes) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  desk.acquire(kAcme);
  desk.acquire(kPatient);
  ASSERT_TRUE(desk.engine->swap(*engine::compile({}), desk.clock.now()));
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 400u);
  EXPECT_EQ(desk.later[0].content_type, "application/problem+json");
}

TEST(Wait, CanBeGivenUp) {
  Desk desk(one_slot(1));
  const std::string hold = text_at(desk.acquire("{}"), "hold");
  const Answer queued = desk.acquire(R"({"wait":"5s"})");
  ASSERT_TRUE(queued.give_up);
  EXPECT_TRUE(queued.give_up(desk.clock.now()));
  EXPECT_FALSE(queued.give_up(desk.clock.now()));
  desk.post("/v1/cancel", R"({"hold":")" + hold + R"("})");
  EXPECT_TRUE(desk.later.empty());
  EXPECT_EQ(desk.acquire("{}").status, 200u);
}

TEST(Wait, IsNotCombinedWithTakingLessOrBooking) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.acquire(R"({"wait":"5s","up_to":"requests"})").status, 400u);
  EXPECT_EQ(desk.acquire(R"({"wait":"5s","book_within":"5s"})").status, 400u);
}

}  // namespace
}  // namespace weir::wire::http
