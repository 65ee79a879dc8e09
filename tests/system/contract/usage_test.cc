#include "weir/system/contract/usage.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

struct ContractUsage : ::testing::Test {
  PolicyUsage look(Instant now) {
    const std::vector<PolicyUsage> usages = watch.look(account->view(now), now);
    EXPECT_EQ(usages.size(), 1u);
    return usages.at(0);
  }
  void use(double amount, Instant now) {
    EXPECT_EQ(account->reserve({.costs = units(amount)}, now)->verdict, Verdict::kAllowed);
  }

  std::shared_ptr<Account> account =
      account_of({units_per(1000, 744h), requests_per(1000, 1min)}, {.jitter = 0s});
  UsageWatch watch;
};

TEST_F(ContractUsage, SaysOnceThatAThresholdIsReached) {
  EXPECT_EQ(look(kStart).reached, std::nullopt);
  use(499.9, kStart);
  EXPECT_EQ(look(kStart).percent, 49);
  use(0.1, kStart);
  EXPECT_EQ(look(kStart).reached, 50);
  EXPECT_EQ(look(kStart).reached, std::nullopt);
  use(460, kStart);
  EXPECT_EQ(look(kStart).reached, 95) << "the highest";
  use(40, kStart);
  EXPECT_EQ(look(kStart).reached, 100);
}

TEST_F(ContractUsage, SaysSoAgainOnceMuchLessWasUsed) {
  use(500, kStart);
  ASSERT_EQ(look(kStart).reached, 50);
  // A hundredth refills in 7.44 h.
  const Instant a_little_less = kStart + 744h * 9 / 100;
  EXPECT_EQ(look(a_little_less).percent, 41);
  use(100, a_little_less);
  EXPECT_EQ(look(a_little_less).reached, std::nullopt);
  const Instant less = a_little_less + 744h * 13 / 100;
  EXPECT_LT(look(less).percent, 40);
  use(200, less);
  EXPECT_EQ(look(less).reached, 50);
}

TEST_F(ContractUsage, SaysSoUnderThePublishedRuleToo) {
  account = account_of({units_per(1000, 744h)}, {.rule = Rule::kPublished});
  look(kStart);
  use(100, kStart + 30min);
  const std::optional<Duration> in = look(kStart + 1h).used_up_in;
  ASSERT_TRUE(in);
  // 900 and a little, at 100 less 1.34 an hour.
  EXPECT_GT(*in, 9h);
  EXPECT_LT(*in, 10h);
}

TEST_F(ContractUsage, SaysWhenAPolicyIsUsedUpAtThePaceOfTheLastHour) {
  use(300, kStart);
  EXPECT_EQ(look(kStart).used_up_in, std::nullopt) << "nobody knows the pace";
  // 100 in an hour, in which 1.34 refill.
  for (int minute = 1; minute <= 60; ++minute) {
    const Instant now = kStart + 1min * minute;
    use(minute % 6 == 0 ? 10 : 0, now);
    look(now);
  }
  const std::optional<Duration> in = look(kStart + 1h).used_up_in;
  ASSERT_TRUE(in);
  // 601.34 left.
  EXPECT_GE(*in, 6h + 5min);
  EXPECT_LE(*in, 6h + 7min);
  for (int minute = 61; minute <= 200; ++minute) look(kStart + 1min * minute);
  EXPECT_EQ(look(kStart + 201min).used_up_in, std::nullopt) << "nothing was asked for since";
}

TEST_F(ContractUsage, SaysThatWhatIsInDebtIsUsedUp) {
  use(1000, kStart);
  EXPECT_EQ(look(kStart).used_up_in, 0s);
}

TEST_F(ContractUsage, WatchesFixedQuotasAndNoBans) {
  account = account_of({units_per(10, 0s), requests_per(0, 2h)}, {.jitter = 0s});
  const auto reserved = account->reserve({.costs = *costs_of(0, 8)}, kStart);
  ASSERT_EQ(reserved->verdict, Verdict::kAllowed);
  EXPECT_EQ(look(kStart).reached, 80);
}

}  // namespace
}  // namespace weir::system::contract
