// An account that follows a service which fails in every way we could think of. Time
// is the test's; the sockets are real.

#include "weir/system/contract/follower.h"

#include <gmock/gmock.h>

#include <mutex>

#include "tests/system/contract/remote_service.h"
#include "tests/system/contract/support.h"
#include "weir/testing/manual_clock.h"

namespace weir::system::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = FollowerEvent::Kind;

// What a follower has told, from its thread to the test's.
class Told {
 public:
  void operator()(const FollowerEvent& event) {
    const std::scoped_lock lock(lock_);
    if (event.kind == Kind::kRound) {
      ++rounds_;
    } else {
      events_.push_back(event.kind);
      if (!event.error.empty()) error_ = event.error;
    }
  }
  int rounds() const {
    const std::scoped_lock lock(lock_);
    return rounds_;
  }
  std::vector<Kind> events() const {
    const std::scoped_lock lock(lock_);
    return events_;
  }
  std::string error() const {
    const std::scoped_lock lock(lock_);
    return error_;
  }

 private:
  mutable std::mutex lock_;
  int rounds_ = 0;
  std::vector<Kind> events_;
  std::string error_;
};

struct FollowerTest : ::testing::Test {
  ~FollowerTest() override { follower.reset(); }

  FollowerOptions options() const {
    return {.service = {.url = service.url(),
                        .user_id = "u 1",
                        .token_url = service.url() + "/token",
                        .client_id = "me",
                        .client_secret = "secret",
                        .transfer = {.timeout = 60s}},
            .refresh = 5min};
  }
  void follow(const FollowerOptions& given) {
    follower = std::make_unique<Follower>(account, given, clock,
                                          [this](const auto& event) { told(event); });
    ASSERT_TRUE(eventually([&] { return told.rounds() > 0; }));
  }
  void follow() { follow(options()); }
  // Lets so much time pass, and waits for what is then due.
  void next_round(Duration later) {
    const int before = told.rounds();
    clock.advance(later);
    ASSERT_TRUE(eventually([&] { return told.rounds() > before; }));
  }
  std::int64_t capacity() const { return account->policies().at(0).capacity; }

  RemoteService service;
  testing::ManualClock clock{kStart};
  std::shared_ptr<Account> account = account_of({units_per(10, 1h)}, {.jitter = 0s});
  Told told;
  std::unique_ptr<Follower> follower;
};

TEST_F(FollowerTest, FetchesContractAndCountsAtTheStart) {
  follow();
  EXPECT_EQ(capacity(), 100);
  EXPECT_EQ(left_of(*account, 0, kStart), 60'500'000);
  EXPECT_THAT(told.events(), ElementsAre(Kind::kPolicies));
  EXPECT_EQ(follower->status().counts_age, 0s);
  EXPECT_EQ(follower->status().last_error, "");
}

TEST_F(FollowerTest, KeepsTheLastGoodValuesThroughEveryFault) {
  follow();
  Duration since{};
  int faults = 0;
  for (const char* mode : {"status 500", "garbage", "status 429 Retry-After=1000",
                           "status 302 Location=/token", "huge", "status 401", "status 201"}) {
    service.behave(mode);
    next_round(10min);
    since += 10min;
    ++faults;
    EXPECT_EQ(capacity(), 100) << mode;
    const SyncerStatus status = follower->status();
    EXPECT_EQ(status.contract_age, since) << mode;
    EXPECT_EQ(status.counts_age, since) << mode;
    EXPECT_THAT(status.last_error, HasSubstr("; the last good values stay in force")) << mode;
    EXPECT_GE(status.failures, static_cast<std::uint64_t>(faults)) << mode;
  }
  EXPECT_THAT(told.events(), ElementsAre(Kind::kPolicies, Kind::kLost)) << "once, not each time";
  service.behave("ok");
  next_round(10min);
  EXPECT_THAT(told.events(), ElementsAre(Kind::kPolicies, Kind::kLost, Kind::kFound));
  EXPECT_EQ(follower->status().contract_age, 0s);
  EXPECT_EQ(follower->status().last_error, "");
}

TEST_F(FollowerTest, OutlivesAServiceThatStops) {
  follow();
  service.stop();
  next_round(5min);
  EXPECT_EQ(capacity(), 100);
  EXPECT_THAT(told.error(), HasSubstr("account 'acme': contract: no answer ("));
  EXPECT_EQ(account->reserve({.costs = units(60)}, clock.now())->verdict, Verdict::kAllowed);
  service.start();
  next_round(5min);
  EXPECT_THAT(told.events(), ElementsAre(Kind::kPolicies, Kind::kLost, Kind::kFound));
}

TEST_F(FollowerTest, StartsWithoutTheServiceFromItsConfiguration) {
  service.stop();
  follow();
  EXPECT_EQ(capacity(), 10);
  EXPECT_EQ(follower->status().contract_age, std::nullopt);
  EXPECT_THAT(told.events(), ElementsAre(Kind::kLost));
  service.start();
  next_round(5min);
  EXPECT_EQ(capacity(), 100);
  EXPECT_THAT(told.events(), ElementsAre(Kind::kLost, Kind::kPolicies, Kind::kFound));
}

TEST_F(FollowerTest, GivesASlowServiceUp) {
  service.behave("slow");
  FollowerOptions hasty = options();
  hasty.service.transfer.timeout = 300ms;
  follow(hasty);
  EXPECT_EQ(capacity(), 10);
  EXPECT_THAT(told.error(), HasSubstr("token: no answer ("));
  EXPECT_THAT(told.error(), HasSubstr("timed out"));
}

TEST_F(FollowerTest, EndsWhileTheServiceIsSlow) {
  service.behave("slow");
  FollowerOptions patient = options();
  patient.service.transfer.timeout = 1h;
  follower = std::make_unique<Follower>(account, patient, clock,
                                        [this](const auto& event) { told(event); });
  ASSERT_TRUE(eventually([&] { return !service.asked().empty(); }));
  follower.reset();
  EXPECT_EQ(told.rounds(), 0) << "an end is no failure";
}

TEST_F(FollowerTest, FetchesANewTokenWhenTheOldOneIsRefused) {
  follow();
  service.behave("revoked token-1");
  next_round(5min);
  EXPECT_THAT(follower->status().last_error, HasSubstr("contract: status 401"));
  next_round(10s);
  EXPECT_EQ(follower->status().last_error, "");
  EXPECT_THAT(service.asked().back(), HasSubstr("Bearer token-2"));
}

TEST_F(FollowerTest, RenewsTheTokenBeforeItEnds) {
  FollowerOptions slow = options();
  slow.refresh = 24h;
  follow(slow);
  next_round(55min);  // it lasts an hour
  EXPECT_THAT(service.asked().back(), HasSubstr("POST /token"));
}

TEST_F(FollowerTest, TakesChangedPoliciesWithoutLosingWhatIsOutstanding) {
  follow();
  const Reserved reserved = *account->reserve({.costs = units(50), .hold = 1h}, clock.now());
  service.behave("other");
  next_round(5min);
  EXPECT_EQ(capacity(), 200);
  EXPECT_EQ(account->view(clock.now()).outstanding, 1u);
  EXPECT_EQ(left_of(*account, 0, clock.now()), 10'500'000);  // 60.5 reported, 50 promised
  EXPECT_EQ(account->release(reserved.reservation, clock.now()), HoldState::kCancelled);
  EXPECT_THAT(told.events(), ElementsAre(Kind::kPolicies, Kind::kPolicies));
}

TEST_F(FollowerTest, LearnsFromRefusalsAloneWhereThereIsNoEndpoint) {
  FollowerOptions open = options();
  open.service.token_url.clear();
  service.behave("status 404");
  account = account_of({}, {.jitter = 0s});
  follow(open);
  EXPECT_TRUE(follower->status().endpoint_missing);
  ASSERT_TRUE(account->feedback({.costs = units(1), .retry_after = 700ms}, kStart));
  EXPECT_EQ(account->reserve({.costs = units(1)}, kStart)->start, kStart + 700ms);
  EXPECT_EQ(service.asked().size(), 2u) << "the contract and the counts, once each";
}

}  // namespace
}  // namespace weir::system::contract
