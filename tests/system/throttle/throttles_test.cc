#include "weir/system/throttle/throttles.h"

#include <gmock/gmock.h>

#include "tests/system/throttle/support.h"

namespace weir::system::throttle {
namespace {

using ::testing::HasSubstr;

struct ThrottlesTest : ::testing::Test {
  std::shared_ptr<Throttles> make(NetworkSettings settings = {}) {
    auto made = Throttles::create({.definitions = definitions_of(R"({"buckets": [
        {"name": "calls", "burstPeriod": 1, "throttleGroups": [
          {"opsPerSec": 2, "operations": ["ContractCall"]}]}]})"),
                                   .nodes = 1,
                                   .settings = std::move(settings)});
    EXPECT_TRUE(made.ok());
    return *made;
  }
  static Submission call(std::int64_t gas) {
    return {.operation = "ContractCall", .transaction = {.gas = gas}};
  }
};

TEST_F(ThrottlesTest, SayTheNetworksOwnWords) {
  const auto throttles = make({.throttle_by_gas = true, .consensus_gas_per_second = 100});
  EXPECT_EQ(throttles->submit(SetRole::kConsensus, call(60), kStart)->status, "OK");
  EXPECT_EQ(throttles->submit(SetRole::kConsensus, call(60), kStart)->status,
            "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(throttles->submit(SetRole::kConsensus, call(40), kStart)->status, "OK");
  const auto denied = throttles->submit(SetRole::kConsensus, call(0), kStart);
  EXPECT_EQ(denied->status, "THROTTLED_AT_CONSENSUS");
  EXPECT_EQ(denied->bucket, "calls");
  EXPECT_EQ(denied->admission.fits_at, kStart + 500ms);
  EXPECT_EQ(throttles->submit(SetRole::kFrontEnd, {.operation = "Nothing"}, kStart)->status,
            "BUSY");
}

TEST_F(ThrottlesTest, GiveBackUnusedGasOnceWhenSettled) {
  const auto throttles = make({.throttle_by_gas = true, .consensus_gas_per_second = 100});
  const auto said = throttles->submit(SetRole::kConsensus, call(90), kStart);
  EXPECT_EQ(*throttles->settle(said->claim, {.gas = 30}), ClaimEnd::kRoom);
  EXPECT_EQ(throttles->reading(kStart).consensus.gas.used, 30);
  EXPECT_EQ(*throttles->settle(said->claim, {}), ClaimEnd::kUnknown);
  EXPECT_EQ(throttles->reading(kStart).consensus.gas.used, 30);
}

// --- duration

TEST_F(ThrottlesTest, LetNoContractStartUntilTheWorkOfThoseBeforeHasLeaked) {
  const auto throttles = make({.duration_capacity = 1'000, .duration_per_second = 100});
  const auto first = throttles->submit(SetRole::kConsensus, call(0), kStart);
  EXPECT_EQ(*throttles->settle(first->claim, {.duration = 1'200}), ClaimEnd::kSame);
  const Reading full = throttles->reading(kStart);
  EXPECT_EQ(full.consensus.duration.used, 1'200);
  EXPECT_EQ(full.consensus.duration.percent_used, 120.0);

  const auto refused = throttles->submit(SetRole::kConsensus, call(0), kStart + 2s);
  EXPECT_EQ(refused->status, "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(refused->bucket, "duration");
  EXPECT_FALSE(refused->claim);
  EXPECT_EQ(refused->admission.missing, 1);
  EXPECT_EQ(refused->admission.fits_at, kStart + 2s + 10ms);
  const Reading then = throttles->reading(kStart + 2s);
  EXPECT_EQ(then.consensus.buckets[0].used, 0) << "what it claimed is given back";
  EXPECT_EQ(then.consensus.duration.used, 1'000);
  EXPECT_EQ(then.consensus.duration.refusals, 1u);
  EXPECT_EQ(throttles->peek(SetRole::kConsensus, call(0), kStart + 2s + 10ms - 1ns)->bucket,
            "duration");
  EXPECT_TRUE(
      throttles->submit(SetRole::kConsensus, call(0), kStart + 2s + 10ms)->admission.allowed);
}

TEST_F(ThrottlesTest, CountDurationAtConsensusAndForThoseWhoAreNotExempt) {
  const auto throttles = make({.duration_capacity = 1'000});
  const auto front = throttles->submit(SetRole::kFrontEnd, call(0), kStart);
  const auto wrong = throttles->settle(front->claim, {.duration = 5});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("duration is 5, but the claim is the front end's"));
  EXPECT_TRUE(throttles->settle(front->claim, {})) << "it has not ended";

  Submission exempt = call(0);
  exempt.transaction.payer = 2;
  const auto free = throttles->submit(SetRole::kConsensus, exempt, kStart);
  EXPECT_TRUE(throttles->settle(free->claim, {.duration = 5'000}));
  EXPECT_EQ(throttles->reading(kStart).consensus.duration.used, 0);
  const auto other = throttles->submit(SetRole::kConsensus, call(0), kStart);
  EXPECT_TRUE(throttles->settle(other->claim, {.duration = 5'000}));
  EXPECT_TRUE(throttles->submit(SetRole::kConsensus, exempt, kStart)->admission.allowed);
  EXPECT_FALSE(throttles->submit(SetRole::kConsensus, call(0), kStart)->admission.allowed);
}

// Two transactions at once: the later one may be settled first.
TEST_F(ThrottlesTest, ChargeDurationNoEarlierThanWasChargedBefore) {
  const auto throttles = make({.duration_capacity = 1'000, .duration_per_second = 100});
  const auto first = throttles->submit(SetRole::kConsensus, call(0), kStart);
  const auto second = throttles->submit(SetRole::kConsensus, call(0), kStart + 1s);
  EXPECT_TRUE(throttles->settle(second->claim, {.duration = 50}));
  EXPECT_TRUE(throttles->settle(first->claim, {.duration = 500}));
  EXPECT_EQ(throttles->reading(kStart + 1s).consensus.duration.used, 550);
}

TEST_F(ThrottlesTest, LetEveryContractStartIfDurationIsOff) {
  const auto throttles = make({.throttle_by_duration = false, .duration_capacity = 1});
  const auto said = throttles->submit(SetRole::kConsensus, call(0), kStart);
  EXPECT_TRUE(throttles->settle(said->claim, {.duration = kMax}));
  EXPECT_TRUE(throttles->submit(SetRole::kConsensus, call(0), kStart)->admission.allowed);
}

TEST_F(ThrottlesTest, NeverLetAContractStartWithoutAnyCapacityForDuration) {
  const auto throttles = make({.duration_capacity = 0});
  const auto said = throttles->submit(SetRole::kConsensus, call(0), kStart);
  EXPECT_TRUE(said->admission.never);
  EXPECT_EQ(said->admission.fits_at, kForever);
  NetworkSettings negative{.duration_capacity = -1};
  EXPECT_FALSE(Throttles::create({.settings = negative}));
  negative = {.duration_per_second = -1};
  EXPECT_FALSE(Throttles::create({.settings = negative}));
}

TEST_F(ThrottlesTest, GiveBackEverythingWhenCancelled) {
  const auto throttles = make({.throttle_by_gas = true});
  const auto said = throttles->submit(SetRole::kFrontEnd, call(90), kStart);
  EXPECT_EQ(throttles->cancel(said->claim), ClaimEnd::kRoom);
  const Reading reading = throttles->reading(kStart);
  EXPECT_EQ(reading.front_end.gas.used, 0);
  EXPECT_EQ(reading.front_end.buckets[0].used, 0);
}

TEST_F(ThrottlesTest, ForgetTheOldestClaimBeyondTheBound) {
  const auto throttles = make({.exempt_payer_max = 100});
  Submission free = call(0);
  free.transaction.payer = 1;
  const HoldId first = throttles->submit(SetRole::kFrontEnd, free, kStart)->claim;
  HoldId second;
  for (std::size_t i = 1; i < kClaimsKeptMax; ++i) {
    const HoldId claim = throttles->submit(SetRole::kFrontEnd, free, kStart)->claim;
    ASSERT_TRUE(claim);
    if (i == 1) second = claim;
  }
  const HoldId last = throttles->submit(SetRole::kFrontEnd, free, kStart)->claim;
  EXPECT_EQ(throttles->cancel(first), ClaimEnd::kUnknown);
  EXPECT_EQ(throttles->cancel(second), ClaimEnd::kRoom);
  EXPECT_EQ(throttles->cancel(last), ClaimEnd::kRoom);
}

TEST_F(ThrottlesTest, KeepTheOldDefinitionsWhenNewOnesAreWrong) {
  const auto throttles = make();
  ASSERT_EQ(throttles->submit(SetRole::kFrontEnd, call(0), kStart)->status, "OK");
  const std::string nonsense(10 * 1024 * 1024, '{');
  const std::string_view wrong[] = {
      "{",
      nonsense,
      R"({"buckets": [{"name": "x"}]})",
      R"({"bucket": []})",
      R"({"buckets": [{"name": "x", "throttleGroups": [{"opsPerSec": 0, "operations": ["a"]}]}]})",
      R"({"buckets": [{"name": "x", "throttleGroups": [{"opsPerSec": 1, "operations": []}]}]})",
      R"({"buckets": [{"name": "x", "throttleGroups": [{"opsPerSec": 1, "operations": ["a"]},
                                                       {"opsPerSec": 2, "operations": ["a"]}]}]})",
      R"({"buckets": [{"name": "x", "throttleGroups": [{"opsPerSec": "1", "operations": ["a"]}]}]})",
      R"({"buckets": [{"name": "x", "burstPeriod": 99999999999, "throttleGroups": []}]})"};
  for (const std::string_view text : wrong) {
    const Status status = throttles->set_definitions(text, "new.json");
    ASSERT_FALSE(status.ok()) << text.substr(0, 80);
    EXPECT_THAT(status.error().message, ::testing::StartsWith("new.json:")) << text.substr(0, 80);
  }
  const Reading reading = throttles->reading(kStart);
  ASSERT_EQ(reading.front_end.buckets.size(), 1u);
  EXPECT_EQ(reading.front_end.buckets[0].name, "calls");
  EXPECT_EQ(reading.front_end.buckets[0].percent_used, 50.0);
}

TEST_F(ThrottlesTest, TakeNewDefinitionsWhole) {
  const auto throttles = make();
  ASSERT_EQ(throttles->submit(SetRole::kFrontEnd, call(0), kStart)->status, "OK");
  ASSERT_TRUE(throttles->set_definitions(kTwoBuckets, "new.json").ok());
  EXPECT_EQ(throttles->submit(SetRole::kFrontEnd, call(0), kStart)->status, "BUSY");
  EXPECT_EQ(throttles->submit(SetRole::kFrontEnd, {.operation = "a"}, kStart)->status, "OK");
}

TEST_F(ThrottlesTest, CountWhatEachBucketRefused) {
  const auto throttles = make({.throttle_by_gas = true, .front_end_gas_per_second = 100});
  for (int i = 0; i < 5; ++i) (void)throttles->submit(SetRole::kFrontEnd, call(0), kStart);
  (void)throttles->submit(SetRole::kFrontEnd, call(101), kStart);
  (void)throttles->submit(SetRole::kFrontEnd, {.operation = "Nothing"}, kStart);
  (void)throttles->peek(SetRole::kFrontEnd, call(0), kStart);
  const Reading reading = throttles->reading(kStart);
  EXPECT_EQ(reading.front_end.buckets[0].refusals, 3u);
  EXPECT_EQ(reading.front_end.gas.refusals, 1u);
  EXPECT_EQ(reading.front_end.unlisted_refusals, 1u);
  EXPECT_EQ(reading.consensus.buckets[0].refusals, 0u);
}

// --- change

constexpr std::string_view kCalls = R"({"buckets": [
  {"name": "calls", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 8, "operations": ["ContractCall"]}]}]})";

struct ChangeTest : ::testing::Test {
  ThrottlesSpec before{
      .definitions = definitions_of(kCalls), .nodes = 1, .settings = {.throttle_by_gas = true}};
  ThrottlesSpec after = before;
  std::shared_ptr<Throttles> throttles = *Throttles::create(before);

  void SetUp() override {
    const Submission call{.operation = "ContractCall", .transaction = {.gas = 50}};
    said = *throttles->submit(SetRole::kFrontEnd, call, kStart);
    ASSERT_EQ(said.status, "OK");
    ASSERT_EQ(throttles->submit(SetRole::kConsensus, call, kStart)->status, "OK");
  }
  Submitted said;

  SetReading front_end() const { return throttles->reading(kStart).front_end; }
};

TEST_F(ChangeTest, LeavesEverythingAsItIsWhenNothingDiffers) {
  const std::string snapshot = throttles->snapshot(SetRole::kFrontEnd);
  throttles->change(before, after);
  EXPECT_EQ(throttles->snapshot(SetRole::kFrontEnd), snapshot);
}

TEST_F(ChangeTest, SplitsAmongTheNewNumberOfNodes) {
  after.nodes = 4;
  throttles->change(before, after);
  EXPECT_EQ(throttles->reading(kStart).nodes, 4);
  EXPECT_EQ(front_end().buckets[0].milli_ops, 2'000);
  EXPECT_EQ(front_end().buckets[0].used, 0);
  EXPECT_EQ(front_end().gas.used, 50) << "gas is not split, so it is not touched";
  EXPECT_GT(throttles->reading(kStart).consensus.buckets[0].used, 0) << "nor is consensus";
  ASSERT_TRUE(throttles->set_definitions(kCalls, "new.json").ok());
  EXPECT_EQ(front_end().buckets[0].milli_ops, 2'000) << "later definitions are split as well";
}

TEST_F(ChangeTest, TakesANewGasLimitAndLeavesTheOperations) {
  after.settings.front_end_gas_per_second = 40;
  throttles->change(before, after);
  EXPECT_EQ(front_end().gas.capacity, 40);
  EXPECT_EQ(front_end().gas.used, 0);
  const Submission other{.operation = "ContractCall", .transaction = {.gas = 30}};
  ASSERT_EQ(throttles->submit(SetRole::kFrontEnd, other, kStart)->status, "OK");
  EXPECT_EQ(*throttles->settle(said.claim, {}), ClaimEnd::kSame) << "it was claimed of the old one";
  EXPECT_EQ(front_end().gas.used, 30);
  EXPECT_GT(front_end().buckets[0].used, 0);
}

TEST_F(ChangeTest, TakesNewTiers) {
  after.tiers = {{1, 7}};
  after.congestion_period_s = 0;
  throttles->change(before, after);
  const Submission call{.operation = "ContractCall", .transaction = {.gas = 1'000'000}};
  (void)throttles->submit(SetRole::kConsensus, call, kStart);
  EXPECT_EQ(throttles->submit(SetRole::kConsensus, call, kStart + 1ms)->multiplier, 7);
}

TEST_F(ChangeTest, RefusesWhatCreateRefuses) {
  const std::string snapshot = throttles->snapshot(SetRole::kFrontEnd);
  after.nodes = 0;
  after.settings.throttle_by_gas = false;
  EXPECT_FALSE(check(after).ok());
  EXPECT_EQ(throttles->snapshot(SetRole::kFrontEnd), snapshot);
}

TEST_F(ThrottlesTest, RestoreTheirSnapshots) {
  const auto throttles = make();
  ASSERT_EQ(throttles->submit(SetRole::kConsensus, call(0), kStart)->status, "OK");
  const auto other = make();
  ASSERT_TRUE(
      other->restore(SetRole::kConsensus, throttles->snapshot(SetRole::kConsensus), kStart).ok());
  EXPECT_EQ(other->snapshot(SetRole::kConsensus), throttles->snapshot(SetRole::kConsensus));
  const auto third = make();
  ASSERT_TRUE(third->restore_positional(throttles->positional_snapshot(), kStart).ok());
  EXPECT_EQ(third->snapshot(SetRole::kConsensus), throttles->snapshot(SetRole::kConsensus));
  EXPECT_THAT(third->restore_positional(R"({"tps": []})", kStart).error().message,
              HasSubstr("it has 0 buckets, and there are 1"));
}

TEST_F(ThrottlesTest, GiveNothingBackOfWhatWasClaimedBeforeARestore) {
  const auto throttles = make({.throttle_by_gas = true});
  const HoldId claim = throttles->submit(SetRole::kFrontEnd, call(90), kStart)->claim;
  const std::string snapshot = throttles->snapshot(SetRole::kFrontEnd);
  ASSERT_TRUE(throttles->restore(SetRole::kFrontEnd, snapshot, kStart).ok());
  EXPECT_EQ(throttles->cancel(claim), ClaimEnd::kUnknown);
  EXPECT_EQ(throttles->reading(kStart).front_end.gas.used, 90);
}

TEST_F(ThrottlesTest, TakeNoFrontEndClockThatIsAhead) {
  const auto throttles = make();
  ASSERT_TRUE(throttles->submit(SetRole::kFrontEnd, call(0), kStart + 5s).ok());
  const std::string snapshot = throttles->snapshot(SetRole::kFrontEnd);
  EXPECT_THAT(make()->restore(SetRole::kFrontEnd, snapshot, kStart + 4s).error().message,
              HasSubstr("its clock is at second 1800000005, but now is second 1800000004"));
  EXPECT_TRUE(make()->restore(SetRole::kFrontEnd, snapshot, kStart + 5s).ok());
}

// A year ahead when they were kept: what had to leak must not take a year now.
constexpr Instant kYearAhead = kStart + 365 * 24h;

TEST_F(ThrottlesTest, BringBackAFrontEndWhoseClockWasAhead) {
  const auto throttles = make({.throttle_by_gas = true, .front_end_gas_per_second = 100});
  ASSERT_TRUE(throttles->submit(SetRole::kFrontEnd, call(100), kYearAhead)->admission.allowed);
  ASSERT_TRUE(throttles->submit(SetRole::kFrontEnd, call(0), kYearAhead + 20ms)->admission.allowed);
  const auto now = make({.throttle_by_gas = true, .front_end_gas_per_second = 100});
  const auto report =
      now->bring_back(SetRole::kFrontEnd, throttles->snapshot(SetRole::kFrontEnd), kStart);
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto busy = now->submit(SetRole::kFrontEnd, call(100), kStart);
  EXPECT_EQ(busy->status, "BUSY");
  EXPECT_EQ(busy->bucket, "gas");
  EXPECT_EQ(busy->admission.fits_at, kStart + 980ms) << "20 ms had passed before it was kept";
  EXPECT_TRUE(now->submit(SetRole::kFrontEnd, call(100), kStart + 980ms)->admission.allowed);
}

TEST_F(ThrottlesTest, BringBackAClockThatWasRightAsItWas) {
  const auto throttles = make();
  ASSERT_TRUE(throttles->submit(SetRole::kFrontEnd, call(0), kStart)->admission.allowed);
  ASSERT_TRUE(throttles->submit(SetRole::kConsensus, call(0), kStart + 10s)->admission.allowed);
  const auto now = make();
  for (const SetRole role : {SetRole::kFrontEnd, SetRole::kConsensus}) {
    const std::string snapshot = throttles->snapshot(role);
    ASSERT_TRUE(now->bring_back(role, snapshot, kStart).ok());
    EXPECT_EQ(now->snapshot(role), snapshot);
  }
}

TEST_F(ThrottlesTest, BringBackAConsensusThatIsTooFarAhead) {
  const auto throttles = make();
  ASSERT_TRUE(throttles->submit(SetRole::kConsensus, call(0), kYearAhead)->admission.allowed);
  const auto now = make();
  const std::string snapshot = throttles->snapshot(SetRole::kConsensus);
  EXPECT_FALSE(now->restore(SetRole::kConsensus, snapshot, kStart).ok());
  ASSERT_TRUE(now->bring_back(SetRole::kConsensus, snapshot, kStart).ok());
  EXPECT_TRUE(now->submit(SetRole::kConsensus, call(0), kStart)->admission.allowed);
  EXPECT_FALSE(now->submit(SetRole::kConsensus, call(0), kStart)->admission.allowed);
  EXPECT_TRUE(now->submit(SetRole::kConsensus, call(0), kStart + 500ms)->admission.allowed);
}

TEST_F(ThrottlesTest, TakeNoFrontEndThatContradictsItself) {
  const auto throttles = make();
  for (const std::string_view after :
       {R"("gas":[0,1800000001,0])", R"("bytes":[0,1800000001,0])",
        R"("duration":[0,1800000001,0])", R"("gas":[0,1800000000,1])"}) {
    const std::string text =
        R"({"buckets":[],)" + std::string(after) + R"(,"clock":[1800000000,0]})";
    const auto refused = throttles->restore(SetRole::kFrontEnd, text, kStart + 5s);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(refused.error().message, HasSubstr("but its clock is only at [1800000000,0]"));
    EXPECT_FALSE(throttles->bring_back(SetRole::kFrontEnd, text, kStart + 5s).ok()) << text;
  }
  const std::string bucket =
      R"({"buckets":[{"name":"calls","capacity":5,"used":1,"decided":[1800000001,0]}],)"
      R"("clock":[1800000000,0]})";
  EXPECT_FALSE(throttles->restore(SetRole::kFrontEnd, bucket, kStart + 5s).ok());
}

TEST_F(ThrottlesTest, NameTheirClaimsAfreshEachTime) {
  const auto throttles = make();
  const HoldId first = make()->submit(SetRole::kFrontEnd, call(0), kStart)->claim;
  const HoldId second = throttles->submit(SetRole::kFrontEnd, call(0), kStart)->claim;
  EXPECT_NE(first, second);
  EXPECT_EQ(throttles->cancel(first), ClaimEnd::kUnknown) << "it is of another process";
  EXPECT_EQ(throttles->cancel(second), ClaimEnd::kRoom);
}

TEST_F(ThrottlesTest, KnowAClaimByItsWordAlone) {
  const auto throttles = make();
  const HoldId first = throttles->submit(SetRole::kFrontEnd, call(0), kStart)->claim;
  const HoldId second = throttles->submit(SetRole::kConsensus, call(0), kStart)->claim;
  EXPECT_NE(first.owner, second.owner);
  const HoldId guess{first.owner, second.number};
  EXPECT_EQ(throttles->role_of(guess), std::nullopt);
  EXPECT_EQ(throttles->cancel(guess), ClaimEnd::kUnknown);
  EXPECT_EQ(*throttles->settle(guess, {}), ClaimEnd::kUnknown);
  EXPECT_EQ(throttles->role_of(second), SetRole::kConsensus);
}

// --- claims over a restart

constexpr std::string_view kQueriesOnly = R"({"buckets": [
  {"name": "queries", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10, "operations": ["CryptoGetAccountBalance"]}]}]})";

TEST_F(ThrottlesTest, BringClaimsBackWithTheIdsThatTheyHad) {
  const auto before = make({.throttle_by_gas = true});
  const HoldId first = before->submit(SetRole::kFrontEnd, call(90), kStart)->claim;
  const HoldId second = before->submit(SetRole::kConsensus, call(70), kStart)->claim;
  const HoldId ended = before->submit(SetRole::kConsensus, call(5), kStart)->claim;
  before->cancel(ended);
  const ThrottlesState state = before->state_to_keep();
  ASSERT_EQ(state.sheets.size(), 1u);
  EXPECT_TRUE(before->state_to_keep().sheets.empty()) << "nothing has changed since";

  const auto after = make({.throttle_by_gas = true});
  ASSERT_TRUE(after->bring_back(SetRole::kFrontEnd, state.front_end, kStart).ok());
  ASSERT_TRUE(after->bring_back(SetRole::kConsensus, state.consensus, kStart).ok());
  const auto sheet = parse_claim_sheet(state.sheets[0].second);
  ASSERT_TRUE(sheet.ok()) << sheet.error().message;
  after->bring_back(*sheet);
  after->bring_back(*sheet);
  EXPECT_EQ(after->role_of(first), SetRole::kFrontEnd);
  EXPECT_EQ(after->role_of(second), SetRole::kConsensus);
  EXPECT_EQ(after->role_of(ended), std::nullopt);
  EXPECT_EQ(*after->settle(first, {.gas = 30}), ClaimEnd::kRoom);
  EXPECT_EQ(after->reading(kStart).front_end.gas.used, 30);
  EXPECT_EQ(after->cancel(second), ClaimEnd::kRoom);
  EXPECT_EQ(after->reading(kStart).consensus.gas.used, 0);
  EXPECT_EQ(after->cancel(second), ClaimEnd::kUnknown) << "each ends once";
  const HoldId next = after->submit(SetRole::kFrontEnd, call(0), kStart)->claim;
  EXPECT_GT(next.number, second.number);
}

TEST_F(ThrottlesTest, GiveNothingBackOfClaimsOfOtherBucketsThanThen) {
  const auto before = make();
  const HoldId claim = before->submit(SetRole::kFrontEnd, call(90), kStart)->claim;
  const auto sheet = parse_claim_sheet(before->state_to_keep().sheets[0].second);
  ASSERT_TRUE(sheet.ok());
  const auto after = *Throttles::create(
      {.definitions = definitions_of(kQueriesOnly), .settings = {.throttle_by_gas = true}});
  after->bring_back(*sheet);
  Submission query{.operation = "CryptoGetAccountBalance"};
  ASSERT_TRUE(after->submit(SetRole::kFrontEnd, query, kStart)->admission.allowed);
  const std::int64_t used = after->reading(kStart).front_end.buckets[0].used;
  EXPECT_EQ(*after->settle(claim, {}), ClaimEnd::kSame);
  EXPECT_EQ(after->reading(kStart).front_end.buckets[0].used, used);
}

TEST_F(ThrottlesTest, WriteOnlyTheSheetsOfClaimsThatHaveChanged) {
  const auto throttles = make({.exempt_payer_max = 100});
  Submission free = call(0);
  free.transaction.payer = 1;
  std::vector<HoldId> claims;
  for (std::size_t i = 0; i < 2 * kClaimsOfSheet; ++i) {
    claims.push_back(throttles->submit(SetRole::kFrontEnd, free, kStart)->claim);
  }
  EXPECT_EQ(throttles->state_to_keep().sheets.size(), 2u);
  throttles->cancel(claims.front());
  const ThrottlesState state = throttles->state_to_keep();
  ASSERT_EQ(state.sheets.size(), 1u);
  EXPECT_EQ(state.sheets[0].first, 0u);
  EXPECT_EQ(parse_claim_sheet(state.sheets[0].second)->claims.size(), kClaimsOfSheet - 1);
  throttles->mark_sheet(1);
  EXPECT_EQ(throttles->state_to_keep().sheets.size(), 1u) << "it could not be written";
  ASSERT_TRUE(throttles->submit(SetRole::kFrontEnd, free, kStart).ok());
  EXPECT_EQ(throttles->state_to_keep().sheets[0].first, 0u) << "in the place that became free";
}

TEST(ClaimSheet, IsRefusedIfItIsNotOne) {
  EXPECT_TRUE(parse_claim_sheet("claims 1 7 9\n1 5 f 3 4 b 0 2 g 0 50 y 0 7\n").ok());
  for (const std::string_view text :
       {"", "claims 2 7 9\n", "claims 1 7\n", "claims 1 7 9", "claims 1 7 9 9\n",
        "claims 1 7 9\n0 5 f 3 4\n", "claims 1 7 9\n1 5 x 3 4\n", "claims 1 7 9\n1 5 f 3\n",
        "claims 1 7 9\n1 5 f 3 1000000000\n", "claims 1 7 9\n1 5 f 3 4 z 0 1\n",
        "claims 1 7 9\n1 5 f 3 4 b 0\n", "claims 1 7 9\n1 5 f 3 4 b 0 -1\n",
        "claims 1 7 9\n1 5 f 3 4 b -1 1\n", "claims 1 7 9\n1 5 f 3 4 b 0 1x\n"}) {
    EXPECT_FALSE(parse_claim_sheet(text).ok()) << text;
  }
}

// --- congestion

TEST_F(ThrottlesTest, TellOfEveryChangeOfAMultiplier) {
  const auto throttles = *Throttles::create({.definitions = definitions_of(R"({"buckets": [
      {"name": "transfers", "burstPeriod": 1000, "throttleGroups": [
        {"milliOpsPerSec": 1000, "operations": ["CryptoTransfer"]}]}]})"),
                                             .tiers = {{50, 7}},
                                             .congestion_period_s = 10});
  const auto transfers = [&](std::int32_t count, Duration at) {
    Submission submission{.operation = "CryptoTransfer"};
    submission.transaction.count = count;
    ASSERT_TRUE(throttles->submit(SetRole::kConsensus, submission, kStart + at)->admission.allowed);
  };
  transfers(600, 0s);
  transfers(1, 9s);
  EXPECT_TRUE(throttles->take_tier_changes().empty()) << "the tier is on, but not for long enough";
  transfers(1, 10s);
  transfers(1, 11s);
  std::vector<TierChange> changes = throttles->take_tier_changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].of_gas);
  EXPECT_EQ(changes[0].from, 1);
  EXPECT_EQ(changes[0].to, 7);
  EXPECT_EQ(changes[0].at.seconds, kStart.ns / 1'000'000'000 + 10);
  EXPECT_TRUE(throttles->take_tier_changes().empty()) << "told once";
  transfers(1, 400s);
  changes = throttles->take_tier_changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].to, 1);
  EXPECT_EQ(throttles->reading(kStart).generic_changes, 2u);
  EXPECT_EQ(throttles->reading(kStart).gas_changes, 0u);
}

// --- queries

constexpr std::string_view kQueries = R"({"buckets": [
  {"name": "queries", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10, "operations": ["CryptoGetAccountBalance", "ContractCallLocal"]}]}]})";

struct QueriesTest : ::testing::Test {
  static std::shared_ptr<Throttles> make(bool local_calls_by_buckets) {
    return *Throttles::create({.definitions = definitions_of(kQueries),
                               .settings = {.throttle_by_gas = true,
                                            .front_end_gas_per_second = 100,
                                            .local_calls_by_buckets = local_calls_by_buckets}});
  }
  std::shared_ptr<Throttles> throttles = make(true);

  bool ask(std::string_view operation, Transaction transaction) {
    const Submission asked{.operation = operation, .transaction = transaction};
    return throttles->submit(SetRole::kFrontEnd, asked, kStart)->admission.allowed;
  }
};

TEST_F(QueriesTest, OfBalancesCountByAssociations) {
  EXPECT_TRUE(ask("CryptoGetAccountBalance", {.associations = 8}));
  EXPECT_FALSE(ask("CryptoGetAccountBalance", {.associations = 3}));
  EXPECT_TRUE(ask("CryptoGetAccountBalance", {.associations = 2}));
}

TEST_F(QueriesTest, OfContractsTakeGasAndFillTheirBuckets) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(ask("ContractCallLocal", {.gas = 5}));
  EXPECT_FALSE(ask("ContractCallLocal", {.gas = 5}));
  EXPECT_EQ(throttles->reading(kStart).front_end.gas.used, 50) << "the refused one took none";
  EXPECT_FALSE(ask("CryptoGetAccountBalance", {})) << "they share a bucket";
}

TEST_F(QueriesTest, OfContractsTakeGasOnlyAsTheNetworksCodeHasIt) {
  throttles = make(false);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(ask("ContractCallLocal", {.gas = 5}));
  EXPECT_FALSE(ask("ContractCallLocal", {.gas = 5}));
  EXPECT_EQ(throttles->reading(kStart).front_end.buckets[0].used, 0);
}

TEST_F(ThrottlesTest, NeverPassSeveralThatImplyOthers) {
  const auto throttles = *Throttles::create({.definitions = definitions_of(R"({"buckets": [
      {"name": "mints", "burstPeriod": 1, "throttleGroups": [
        {"opsPerSec": 100, "operations": ["TokenMint"]}]}]})")});
  const auto mint = [&](Transaction transaction) {
    return *throttles->peek(SetRole::kFrontEnd,
                            {.operation = "TokenMint", .transaction = transaction}, kStart);
  };
  EXPECT_TRUE(mint({.count = 2}).admission.allowed);
  EXPECT_TRUE(mint({.nfts = 3}).admission.allowed);
  EXPECT_TRUE(mint({.count = 2, .nfts = 3}).admission.never);
}

TEST_F(ThrottlesTest, AreNotMadeOfNegativeLimits) {
  EXPECT_FALSE(Throttles::create({.nodes = 0}).ok());
  EXPECT_FALSE(Throttles::create({.settings = {.consensus_gas_per_second = -1}}).ok());
}

TEST_F(ThrottlesTest, CallConsensusTimeThatWentBackAnError) {
  const auto throttles = make();
  ASSERT_TRUE(throttles->submit(SetRole::kConsensus, call(0), kStart + 1s).ok());
  EXPECT_THAT(throttles->submit(SetRole::kConsensus, call(0), kStart).error().message,
              HasSubstr("time-went-backwards"));
  EXPECT_TRUE(throttles->submit(SetRole::kFrontEnd, call(0), kStart).ok());
}

}  // namespace
}  // namespace weir::system::throttle
