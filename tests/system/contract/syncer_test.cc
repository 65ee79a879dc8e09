#include "weir/system/contract/syncer.h"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

constexpr const char* kToken = R"({"access_token":"secret","expires_in":3600})";

std::string contract(std::int64_t capacity) {
  return fmt::format(
      R"({{"data":[{{"userId":"u1","policies":[{{"capacity":{},"samplingPeriod":"PT10S"}}],"type":{{"name":"PROCESSING_UNITS"}}}}]}})",
      capacity);
}
std::string counts(double left) {
  return fmt::format(R"({{"data":{{"PROCESSING_UNITS":{{"PT10S":{}}}}}}})", left);
}

// A service that answers as it is told, and remembers what it was asked.
struct FakeService final : Fetcher {
  Fetched fetch(Fetch what, const std::string& access_token) override {
    asked.push_back(what);
    tokens.push_back(access_token);
    return replies[what];
  }

  std::map<Fetch, Fetched> replies = {{Fetch::kToken, {200, kToken, {}}},
                                      {Fetch::kContract, {200, contract(100), {}}},
                                      {Fetch::kTokenCounts, {200, counts(60), {}}}};
  std::vector<Fetch> asked;
  std::vector<std::string> tokens;
};

struct SyncerTest : ::testing::Test {
  std::shared_ptr<Account> account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  FakeService service;
  SyncerOptions options{.refresh = 5min, .seed = 7};
  Syncer syncer{account, options, kStart};
};

TEST_F(SyncerTest, FetchesTokenContractAndCountsAtTheStart) {
  ASSERT_TRUE(syncer.step(service, kStart));
  EXPECT_EQ(service.asked, (std::vector{Fetch::kToken, Fetch::kContract, Fetch::kTokenCounts}));
  EXPECT_EQ(service.tokens, (std::vector<std::string>{"", "secret", "secret"}));
  EXPECT_EQ(account->policies()[0].capacity, 100);
  EXPECT_EQ(left_of(*account, 0, kStart), 60 * kMicro);
  EXPECT_EQ(syncer.next_instant(), kStart + 5min);
}

TEST_F(SyncerTest, GoesOnWhenTheServiceNamesATypeThatIsNotKnown) {
  std::string with_another = contract(100);
  with_another.insert(9, R"({"userId":"u1","type":{"name":"DATA_TRANSFER"}},)");
  service.replies[Fetch::kContract].body = with_another;
  service.replies[Fetch::kTokenCounts].body =
      R"({"data":{"DATA_TRANSFER":{"PT1M":3},"EGRESS":{},"PROCESSING_UNITS":{"PT10S":60}}})";
  const Status status = syncer.step(service, kStart);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(account->policies()[0].capacity, 100);
  EXPECT_EQ(left_of(*account, 0, kStart), 60 * kMicro);
  EXPECT_EQ(syncer.status(kStart).left_out, (LeftOut{"DATA_TRANSFER", "EGRESS"}));
}

TEST_F(SyncerTest, KeepsWhatTheTypesLeftOutWhileItGoesByThem) {
  service.replies[Fetch::kContract].body = R"({"data":[]})";
  service.replies[Fetch::kContractTypes] = {
      200,
      R"({"data":[{"name":"COFFEE"},{"name":"PROCESSING_UNITS",)"
      R"("defaultPolicies":[{"capacity":300,"samplingPeriod":"PT10S"}]}]})",
      {}};
  ASSERT_TRUE(syncer.step(service, kStart));
  EXPECT_EQ(syncer.status(kStart).left_out, LeftOut{"COFFEE"});
  const Instant next = kStart + 5min;
  service.replies[Fetch::kContractTypes] = {500, "", {}};
  EXPECT_FALSE(syncer.step(service, next)) << "the contract was answered, the types were not";
  EXPECT_EQ(syncer.status(next).left_out, LeftOut{"COFFEE"});
  service.replies[Fetch::kContract].body = contract(100);
  ASSERT_TRUE(syncer.step(service, next + 1h));
  EXPECT_EQ(syncer.status(next + 1h).left_out, LeftOut{});
}

TEST_F(SyncerTest, TakesTheUserFromTheTokenIfItIsToldTo) {
  // Of {"sub":"u1"}.
  service.replies[Fetch::kToken].body = R"({"access_token":"e30.eyJzdWIiOiJ1MSJ9."})";
  options.user_id = "acme";
  service.replies[Fetch::kContractTypes] = {404, "", {}};
  Syncer told(account, options, kStart);
  EXPECT_FALSE(told.step(service, kStart)) << "the contract is of another user";
  options.asks_token = true;
  Syncer asks(account, options, kStart);
  ASSERT_TRUE(asks.step(service, kStart));
  EXPECT_EQ(account->policies()[0].capacity, 100);
}

TEST_F(SyncerTest, TakesNoListingWithoutDefaultsForNoLimits) {
  service.replies[Fetch::kContract].body = R"({"data":[]})";
  service.replies[Fetch::kContractTypes] = {200, R"({"data":[{"name":"REQUESTS"}]})", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  EXPECT_EQ(account->policies().size(), 1u);
}

TEST_F(SyncerTest, KeepsWhatTheContractSaysBesideItsPolicies) {
  ASSERT_TRUE(syncer.step(service, kStart));
  ASSERT_EQ(account->given().size(), 1u);
  EXPECT_EQ(account->given()[0].user_id, "u1");
}

TEST_F(SyncerTest, NeedsNoTokenWhereThereIsNone) {
  options.authenticates = false;
  Syncer open(account, options, kStart);
  ASSERT_TRUE(open.step(service, kStart));
  EXPECT_EQ(service.asked, (std::vector{Fetch::kContract, Fetch::kTokenCounts}));
}

TEST_F(SyncerTest, FetchesAgainEveryRefresh) {
  ASSERT_TRUE(syncer.step(service, kStart));
  EXPECT_EQ(syncer.next(kStart + 5min - 1ns), std::nullopt);
  service.asked.clear();
  ASSERT_TRUE(syncer.step(service, kStart + 5min));
  EXPECT_EQ(service.asked, (std::vector{Fetch::kContract, Fetch::kTokenCounts}));
}

TEST_F(SyncerTest, RenewsTheTokenBeforeItEnds) {
  std::vector<Instant> renewals;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    options.seed = seed;
    options.refresh = 24h;
    Syncer one(account, options, kStart);
    ASSERT_TRUE(one.step(service, kStart));
    const Instant due = one.next_instant();
    EXPECT_EQ(one.next(due), Fetch::kToken);
    EXPECT_LE(due, kStart + 55min);
    EXPECT_GE(due, kStart + 55min - 450s);
    renewals.push_back(due);
  }
  std::sort(renewals.begin(), renewals.end());
  EXPECT_GT(std::unique(renewals.begin(), renewals.end()) - renewals.begin(), 15);  // jitter
}

TEST_F(SyncerTest, UsesTheTokenThereIsWhileANewOneCannotBeHad) {
  ASSERT_TRUE(syncer.step(service, kStart));
  service.replies[Fetch::kToken] = {500, "", {}};
  service.asked.clear();
  EXPECT_FALSE(syncer.step(service, kStart + 56min));
  EXPECT_EQ(service.asked, (std::vector{Fetch::kToken, Fetch::kContract, Fetch::kTokenCounts}));
  EXPECT_FALSE(syncer.step(service, kStart + 61min));
  EXPECT_EQ(syncer.status(kStart + 61min).has_token, false);  // it has ended
}

TEST_F(SyncerTest, FetchesANewTokenWhenTheOldOneIsRefused) {
  ASSERT_TRUE(syncer.step(service, kStart));
  service.replies[Fetch::kContract] = {401, "", {}};
  EXPECT_FALSE(syncer.step(service, kStart + 5min));
  EXPECT_EQ(syncer.next(syncer.next_instant()), Fetch::kToken);
}

TEST_F(SyncerTest, AsksEverMoreSeldomWhileEveryTokenIsRefused) {
  service.replies[Fetch::kContract] = {401, "", {}};
  Instant now = kStart;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(syncer.step(service, now));
    EXPECT_GE(syncer.next_instant(), now + 5s * (1 << i));
    now = syncer.next_instant();
  }
}

TEST_F(SyncerTest, FetchesCountsWhileTheContractCannotBeHad) {
  for (const Fetched& bad : {Fetched{500, "", {}}, Fetched{401, "", {}}, Fetched{429, "", 1h}}) {
    SCOPED_TRACE(bad.status);
    Syncer one(account, options, kStart);
    service.replies[Fetch::kContract] = bad;
    Instant now = kStart;
    for (const double left : {9.0, 5.0, 1.0}) {
      service.replies[Fetch::kTokenCounts] = {200, counts(left), {}};
      EXPECT_FALSE(one.step(service, now));
      EXPECT_EQ(one.status(now).counts_age, 0s);
      EXPECT_EQ(left_of(*account, 0, now), static_cast<std::int64_t>(left) * kMicro);
      now = now + 2h;
    }
    EXPECT_EQ(one.status(now).contract_age, std::nullopt);
  }
}

TEST_F(SyncerTest, BacksOffFromEachFetchByItself) {
  service.replies[Fetch::kContract] = {500, "", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  service.asked.clear();
  const Instant again = syncer.next_instant();
  EXPECT_LE(again, kStart + 6250ms);
  EXPECT_FALSE(syncer.step(service, again));
  EXPECT_EQ(service.asked, (std::vector{Fetch::kContract})) << "the counts are good for 5 minutes";
  EXPECT_EQ(syncer.status(again).failures_in_a_row, 2u);
}

// --- other policies

TEST_F(SyncerTest, TakesOtherPoliciesOnlyTogetherWithTheirCounts) {
  ASSERT_TRUE(syncer.finish(Fetch::kToken, service.replies[Fetch::kToken], kStart));
  ASSERT_TRUE(syncer.finish(Fetch::kContract, service.replies[Fetch::kContract], kStart));
  EXPECT_EQ(account->policies()[0].capacity, 10) << "100 that nobody knows to be there";
  syncer.begin(Fetch::kTokenCounts, kStart);
  ASSERT_TRUE(syncer.finish(Fetch::kTokenCounts, service.replies[Fetch::kTokenCounts], kStart));
  EXPECT_EQ(account->policies()[0].capacity, 100);
  EXPECT_EQ(left_of(*account, 0, kStart), 60 * kMicro);
}

TEST_F(SyncerTest, AsksForCountsAtOnceWhenPoliciesHaveChanged) {
  service.replies[Fetch::kContract] = {500, "", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  service.replies[Fetch::kContract] = {200, contract(100), {}};
  service.asked.clear();
  const Instant again = syncer.next_instant();
  ASSERT_TRUE(syncer.step(service, again));
  EXPECT_EQ(service.asked, (std::vector{Fetch::kContract, Fetch::kTokenCounts}));
  EXPECT_EQ(account->policies()[0].capacity, 100);
}

TEST_F(SyncerTest, TakesOtherPoliciesWithoutCountsThatCannotBeHad) {
  for (const Fetched& bad :
       {Fetched{404, "", {}}, Fetched{500, "", {}}, Fetched{200, "<html>", {}}}) {
    SCOPED_TRACE(bad.status);
    account = account_of({units_per(10, 10s)}, {.jitter = 0s});
    Syncer one(account, options, kStart);
    service.replies[Fetch::kContract] = {200, contract(100), {}};
    service.replies[Fetch::kTokenCounts] = bad;
    EXPECT_FALSE(one.step(service, kStart));
    EXPECT_EQ(account->policies()[0].capacity, 100);
    // And again, while the counts are not asked for.
    service.replies[Fetch::kContract] = {200, contract(200), {}};
    ASSERT_TRUE(one.finish(Fetch::kContract, service.replies[Fetch::kContract], kStart + 1s));
    EXPECT_EQ(account->policies()[0].capacity, 200);
  }
}

TEST_F(SyncerTest, RefusesPoliciesThatCannotBeAsAMistakeOfTheContract) {
  std::string policies;
  for (int i = 1; i <= 16; ++i) {
    policies += fmt::format(R"({}{{"capacity":1,"samplingPeriod":"PT{}S"}})", i > 1 ? "," : "", i);
  }
  const auto of_type = [&](std::string_view type) {
    return fmt::format(R"({{"userId":"u1","policies":[{}],"type":{{"name":"{}"}}}})", policies,
                       type);
  };
  service.replies[Fetch::kContract] = {
      200,
      fmt::format(R"({{"data":[{},{}]}})", of_type("REQUESTS"), of_type("PROCESSING_UNITS")),
      {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  EXPECT_NE(syncer.status(kStart).last_error.find("contract: too_many_policies"),
            std::string::npos);
  EXPECT_EQ(account->policies()[0].capacity, 10);
}

// --- users without a contract

constexpr const char* kTypes =
    R"({"data":[{"name":"PROCESSING_UNITS","defaultPolicies":[{"capacity":300,"samplingPeriod":"PT10S"}]},)"
    R"({"name":"REQUESTS","defaultPolicies":[{"capacity":7,"samplingPeriod":"PT1M"}]}]})";

TEST_F(SyncerTest, TakesTheDefaultsOfTheTypesWhereTheUserHasNoContract) {
  service.replies[Fetch::kContractTypes] = {200, kTypes, {}};
  for (const char* none :
       {R"({"data":[]})", R"({"data":[{"userId":"u2","policies":[{"capacity":1,)"
                          R"("samplingPeriod":"PT1S"}],"type":{"name":"REQUESTS"}}]})"}) {
    SCOPED_TRACE(none);
    account = account_of({}, {.jitter = 0s});
    options.user_id = "u1";
    Syncer one(account, options, kStart);
    service.replies[Fetch::kContract] = {200, none, {}};
    service.asked.clear();
    ASSERT_TRUE(one.step(service, kStart));
    EXPECT_EQ(service.asked, (std::vector{Fetch::kToken, Fetch::kContract, Fetch::kContractTypes,
                                          Fetch::kTokenCounts}));
    ASSERT_EQ(account->policies().size(), 2u);
    EXPECT_EQ(policy_id(account->policies()[0]), "PU_300_PT10S");
    EXPECT_EQ(policy_id(account->policies()[1]), "RQ_7_PT1M");
    EXPECT_EQ(left_of(*account, 0, kStart), 60 * kMicro);
    EXPECT_EQ(one.status(kStart).contract_age, 0s);
    // As soon as there is a contract, it counts.
    service.replies[Fetch::kContract] = {200, contract(100), {}};
    service.asked.clear();
    ASSERT_TRUE(one.step(service, kStart + 5min));
    EXPECT_EQ(service.asked, (std::vector{Fetch::kContract, Fetch::kTokenCounts}));
    EXPECT_EQ(account->policies()[0].capacity, 100);
  }
}

TEST_F(SyncerTest, SaysSoWhereThereIsNeitherAContractNorTypes) {
  service.replies[Fetch::kContract] = {200, R"({"data":[]})", {}};
  service.replies[Fetch::kContractTypes] = {404, "", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  const SyncerStatus status = syncer.status(kStart);
  EXPECT_NE(status.last_error.find("contract types: status 404"), std::string::npos);
  EXPECT_EQ(status.contract_age, std::nullopt);
  EXPECT_FALSE(status.contract_missing);
  EXPECT_EQ(status.counts_age, 0s);
}

TEST_F(SyncerTest, SaysWhatIsMissingAlthoughTheRestIsThere) {
  service.replies[Fetch::kContract] = {404, "", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  const SyncerStatus status = syncer.status(kStart);
  EXPECT_TRUE(status.endpoint_missing);
  EXPECT_EQ(status.counts_age, 0s);
  EXPECT_NE(status.last_error.find("contract: status 404"), std::string::npos);
}

TEST_F(SyncerTest, DebitsWhatBecameFinalWhileTheServiceWasAsked) {
  ASSERT_TRUE(syncer.step(service, kStart));
  const Instant now = kStart + 5min;
  const Reserved reserved = *account->reserve({.costs = units(30)}, now);
  ASSERT_TRUE(syncer.finish(Fetch::kContract, service.replies[Fetch::kContract], now));
  syncer.begin(Fetch::kTokenCounts, now);
  // The service counts 60; then a worker starts, ends and commits; then the answer comes.
  ASSERT_TRUE(account->commit(reserved.reservation, units(25), now).ok());
  ASSERT_TRUE(syncer.finish(Fetch::kTokenCounts, service.replies[Fetch::kTokenCounts], now));
  EXPECT_EQ(left_of(*account, 0, now), 35 * kMicro);
  // What was final before, the service has counted.
  syncer.begin(Fetch::kTokenCounts, now);
  ASSERT_TRUE(syncer.finish(Fetch::kTokenCounts, service.replies[Fetch::kTokenCounts], now));
  EXPECT_EQ(left_of(*account, 0, now), 60 * kMicro);
}

TEST_F(SyncerTest, KeepsTheLastGoodValuesAndSaysHowOldTheyAre) {
  ASSERT_TRUE(syncer.step(service, kStart));
  Instant now = kStart;
  for (const Fetched& bad :
       {Fetched{0, "connection refused", {}}, Fetched{500, "", {}}, Fetched{200, "<html>", {}},
        Fetched{200, R"({"data":[{}]})", {}}, Fetched{200, contract(-5), {}},
        Fetched{200, std::string(10'000'000, 'x'), {}}}) {
    service.replies[Fetch::kContract] = bad;
    now = now + 10min;
    EXPECT_FALSE(syncer.step(service, now));
    EXPECT_EQ(account->policies()[0].capacity, 100);
    EXPECT_EQ(syncer.status(now).contract_age, now - kStart);
    EXPECT_NE(syncer.status(now).last_error.find("account 'acme': contract: "), std::string::npos);
  }
  service.replies[Fetch::kContract] = {200, contract(100), {}};
  now = now + 10min;
  ASSERT_TRUE(syncer.step(service, now));
  EXPECT_EQ(syncer.status(now).contract_age, 0s);
  EXPECT_EQ(syncer.status(now).last_error, "");
}

TEST_F(SyncerTest, StartsWithoutTheService) {
  service.replies[Fetch::kToken] = {0, "no route", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  EXPECT_EQ(account->policies()[0].capacity, 10);
  EXPECT_EQ(account->reserve({.costs = units(10)}, kStart)->verdict, Verdict::kAllowed);
  EXPECT_EQ(syncer.status(kStart).contract_age, std::nullopt);
}

TEST_F(SyncerTest, WaitsLongerAfterEachFailure) {
  service.replies[Fetch::kToken] = {503, "", {}};
  Instant now = kStart;
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    EXPECT_FALSE(syncer.step(service, now));
    const Duration wait = syncer.next_instant() - now;
    EXPECT_GE(wait, std::min<Duration>(5s * (1 << i), 5min));
    EXPECT_LE(wait, std::min<Duration>(5s * (1 << i), 5min) * 5 / 4);
    if (i > 0 && i < 5) {
      EXPECT_GT(wait, last);
    }
    last = wait;
    now = syncer.next_instant();
  }
}

TEST_F(SyncerTest, ObeysARetryAfter) {
  service.replies[Fetch::kToken] = {429, "", 90s};
  EXPECT_FALSE(syncer.step(service, kStart));
  EXPECT_GE(syncer.next_instant(), kStart + 90s);
  EXPECT_EQ(syncer.next(kStart + 89s), std::nullopt);
}

TEST_F(SyncerTest, DoesNotAskWithdrawnEndpointsAllTheTime) {
  service.replies[Fetch::kContract] = {404, "", {}};
  service.replies[Fetch::kTokenCounts] = {410, "", {}};
  EXPECT_FALSE(syncer.step(service, kStart));
  EXPECT_TRUE(syncer.status(kStart).endpoint_missing);
  EXPECT_EQ(syncer.next_instant(), kStart + 5min);
  // What its workers meet is all it learns.
  ASSERT_TRUE(account->feedback({.costs = units(1), .retry_after = 700ms}, kStart));
  EXPECT_EQ(account->reserve({.costs = units(1)}, kStart)->start, kStart + 700ms);
}

TEST_F(SyncerTest, AppliesAChangeWithoutLosingWhatIsOutstanding) {
  ASSERT_TRUE(syncer.step(service, kStart));
  const Reserved reserved = *account->reserve({.costs = units(50), .hold = 1h}, kStart + 5min);
  service.replies[Fetch::kContract] = {200, contract(200), {}};
  service.replies[Fetch::kTokenCounts] = {200, counts(200), {}};
  ASSERT_TRUE(syncer.step(service, kStart + 5min));
  EXPECT_EQ(account->view(kStart + 5min).outstanding, 1u);
  EXPECT_EQ(left_of(*account, 0, kStart + 5min), 150 * kMicro);
  EXPECT_EQ(account->release(reserved.reservation, kStart + 5min), HoldState::kCancelled);
  EXPECT_EQ(left_of(*account, 0, kStart + 5min), 200 * kMicro);
}

}  // namespace
}  // namespace weir::system::contract
