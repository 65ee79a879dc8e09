#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/system/contract/support.h"
#include "weir/system/contract/account.h"

namespace weir::system::contract {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::vector<Policy> kPolicies = {units_per(10, 10s), requests_per(5, 100s)};

std::shared_ptr<Account> account_with(std::vector<Policy> policies = kPolicies,
                                      AccountOptions options = {.jitter = Duration{0}}) {
  return *Account::create("acme", std::move(policies), options, Instant{0});
}

std::vector<std::int64_t> left(Account& account, Instant now) {
  std::vector<std::int64_t> all;
  for (const PolicyView& row : account.view(now).policies) all.push_back(row.left_micro);
  return all;
}
using Left = std::vector<std::int64_t>;

Reserved reserve(Account& account, double processing_units, Instant now) {
  return *account.reserve({.costs = units(processing_units)}, now);
}

TEST(AccountState, ComesBackWithValuesAndReservations) {
  const auto before = account_with();
  const Reserved first = reserve(*before, 10, kStart);
  const Reserved second = reserve(*before, 4, kStart);
  EXPECT_EQ(second.start, kStart + 4s);
  const auto after = account_with();
  ASSERT_TRUE(after->restore(before->save(kStart), kStart + 1s));
  EXPECT_EQ(left(*after, kStart + 1s), left(*before, kStart + 1s));
  EXPECT_EQ(after->view(kStart + 1s).outstanding, 2u);
  EXPECT_EQ(reserve(*after, 1, kStart + 1s).start, kStart + 5s) << "behind those before";
  EXPECT_EQ(after->release(first.reservation, kStart + 1s), HoldState::kCancelled);
  EXPECT_EQ(*after->commit(second.reservation, std::nullopt, kStart + 1s), HoldState::kSettled);
}

TEST(AccountState, GivesNoIdOutTwiceThatACrashForgot) {
  const auto before = account_with();
  const Reserved kept = reserve(*before, 1, kStart);
  const std::vector<std::byte> saved = before->save(kStart);
  const Reserved forgotten = reserve(*before, 2, kStart);
  const auto after = account_with();
  ASSERT_TRUE(after->restore(saved, kStart));
  const Reserved fresh = reserve(*after, 3, kStart);
  EXPECT_EQ(fresh.reservation.number, forgotten.reservation.number);
  EXPECT_EQ(after->release(forgotten.reservation, kStart), HoldState::kGone);
  EXPECT_EQ(after->view(kStart).outstanding, 2u);
  EXPECT_EQ(after->release(kept.reservation, kStart), HoldState::kCancelled);

  const auto third = account_with();
  ASSERT_TRUE(third->restore(after->save(kStart), kStart));
  EXPECT_EQ(third->release(fresh.reservation, kStart), HoldState::kCancelled)
      << "of the process before";
}

TEST(AccountState, KeepsWhatRefusalsHaveTaught) {
  const auto before = account_with();
  ASSERT_TRUE(before->feedback({.costs = units(10), .retry_after = 6s, .violated = 0}, kStart));
  const auto after = account_with();
  ASSERT_TRUE(after->restore(before->save(kStart), kStart));
  EXPECT_EQ(reserve(*after, 10, kStart).start, kStart + 6s);
}

TEST(AccountState, KeepsValuesOfThePublishedRule) {
  const AccountOptions published{.rule = Rule::kPublished};
  const auto before = account_with(kPolicies, published);
  reserve(*before, 30, kStart);
  const auto after = account_with(kPolicies, published);
  ASSERT_TRUE(after->restore(before->save(kStart), kStart + 1s));
  EXPECT_EQ(left(*after, kStart + 1s)[0], -19'000'000);
}

TEST(AccountState, IsTakenOverByTheOtherRule) {
  const auto before = account_with(kPolicies, {.rule = Rule::kPublished});
  reserve(*before, 4, kStart);
  const auto reserving = account_with();
  ASSERT_TRUE(reserving->restore(before->save(kStart), kStart));
  EXPECT_EQ(left(*reserving, kStart), (Left{6'000'000, 4'000'000}));
  const auto published = account_with(kPolicies, {.rule = Rule::kPublished});
  ASSERT_TRUE(published->restore(reserving->save(kStart), kStart));
  EXPECT_EQ(left(*published, kStart), (Left{6'000'000, 4'000'000}));
}

TEST(AccountState, ComesUnderThePoliciesThatAreConfigured) {
  const auto before = account_with();
  reserve(*before, 4, kStart);
  const auto larger = account_with({units_per(20, 10s)});
  ASSERT_TRUE(larger->restore(before->save(kStart), kStart));
  EXPECT_EQ(left(*larger, kStart), Left{16'000'000});
  const auto learning = account_with({});
  ASSERT_TRUE(learning->restore(before->save(kStart), kStart));
  EXPECT_EQ(learning->policies(), kPolicies) << "none are configured: those it had";
}

TEST(AccountState, IsMovedBackWhenTheClockWasAhead) {
  const auto before = account_with();
  reserve(*before, 10, kStart + 24h);
  const Reserved later = reserve(*before, 5, kStart + 24h);
  const auto after = account_with();
  ASSERT_TRUE(after->restore(before->save(kStart + 24h), kStart));
  EXPECT_EQ(later.start, kStart + 24h + 5s);
  EXPECT_EQ(reserve(*after, 5, kStart).start, kStart + 10s) << "what was left to wait stays";
}

TEST(AccountState, CountsChangesAndNothingElse) {
  const auto account = account_with();
  const std::uint64_t none = account->changes();
  static_cast<void>(account->view(kStart));
  EXPECT_FALSE(account->reserve({.costs = {kMicro, -1}}, kStart));
  EXPECT_EQ(account->reserve({.costs = units(11)}, kStart)->verdict, Verdict::kNever);
  EXPECT_EQ(account->changes(), none);
  const Reserved reserved = reserve(*account, 1, kStart);
  const std::uint64_t one = account->changes();
  EXPECT_GT(one, none);
  ASSERT_TRUE(account->commit(reserved.reservation, std::nullopt, kStart));
  EXPECT_GT(account->changes(), one);
}

TEST(AccountState, ThatIsDamagedIsRefusedAndChangesNothing) {
  const auto before = account_with();
  reserve(*before, 4, kStart);
  reserve(*before, 10, kStart);
  ASSERT_TRUE(before->feedback({.costs = units(10), .retry_after = 6s}, kStart));
  const std::vector<std::byte> saved = before->save(kStart);
  const auto after = account_with();
  for (std::size_t size = 0; size < saved.size(); ++size) {
    EXPECT_FALSE(after->restore(std::span(saved).first(size), kStart)) << size;
  }
  std::vector<std::byte> longer = saved;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(after->restore(longer, kStart));
  std::vector<std::byte> newer = saved;
  newer[0] = std::byte{2};
  EXPECT_THAT(after->restore(newer, kStart).error().message, HasSubstr("format is 2"));
  EXPECT_EQ(after->view(kStart).outstanding, 0u);
  // Any byte may be anything: what is taken is in range, and can be worked with.
  for (std::size_t i = 0; i < saved.size(); ++i) {
    for (const unsigned value : {0x00u, 0x7fu, 0x80u, 0xffu}) {
      std::vector<std::byte> bent = saved;
      bent[i] = std::byte(value);
      const auto any = account_with();
      if (!any->restore(bent, kStart)) continue;
      EXPECT_LE(any->view(kStart).policies.size(), kPoliciesMax);
      static_cast<void>(any->reserve({.costs = units(1)}, kStart).ok());
    }
  }
}

}  // namespace
}  // namespace weir::system::contract
