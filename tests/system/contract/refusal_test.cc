#include "weir/system/contract/refusal.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

Refusal refused(Account& service, const Costs& costs, Instant now) {
  const Consumed consumed = *service.consume(costs, now);
  EXPECT_TRUE(consumed.refusal);
  return consumed.refusal.value_or(Refusal{});
}

TEST(Refusal, TellsHowLongToWaitRoundedUp) {
  const auto service = service_of({units_per(7, 1min)});
  ASSERT_FALSE(service->consume(units(7), kStart)->refusal);
  const Refusal refusal = refused(*service, units(1), kStart);  // after 8,571,428,571 ns
  EXPECT_EQ(retry_after_text(refusal, RetryAfterUnit::kMilliseconds), "8572");
  EXPECT_EQ(retry_after_text(refusal, RetryAfterUnit::kSeconds), "9");
  // Who obeys is not refused again.
  EXPECT_FALSE(service->consume(units(1), kStart + 8572ms)->refusal);
}

TEST(Refusal, HasThePublishedBody) {
  const auto service = service_of({units_per(7, 1min)});
  ASSERT_FALSE(service->consume(units(7), kStart)->refusal);
  EXPECT_EQ(refusal_body(refused(*service, units(1), kStart), service->policies()),
            R"({"error":{"status":429,"reason":"Too Many Requests",)"
            R"("message":"You have exceeded your rate limit: policy PU_7_PT1M",)"
            R"("code":"RATE_LIMIT_EXCEEDED"}})");
}

TEST(Refusal, HasACodeOfItsOwnAboveTheCapacity) {
  const auto service = service_of({requests_per(5, 1min), units_per(7, 1min)});
  const Refusal refusal = refused(*service, units(8), kStart);
  EXPECT_EQ(to_string(refusal.code), "RATE_LIMIT_TOKEN_COUNT_EXCEEDS_CAPACITY");
  EXPECT_EQ(refusal.violated, std::vector<std::size_t>{1});
  EXPECT_EQ(retry_after_text(refusal, RetryAfterUnit::kSeconds), std::nullopt);
  EXPECT_NE(refusal_body(refusal, service->policies()).find("PU_7_PT1M"), std::string::npos);
}

TEST(Refusal, NamesNoTimeWhenAFixedQuotaIsUsedUp) {
  const auto service = service_of({requests_per(1, 0s), units_per(7, 1min)});
  ASSERT_FALSE(service->consume(units(7), kStart)->refusal);
  const Refusal refusal = refused(*service, units(1), kStart);
  EXPECT_EQ(refusal.violated, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(refusal.worst, 0u);
  EXPECT_EQ(retry_after_text(refusal, RetryAfterUnit::kMilliseconds), std::nullopt);
}

}  // namespace
}  // namespace weir::system::contract
