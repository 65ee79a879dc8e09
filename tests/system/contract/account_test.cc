#include "weir/system/contract/account.h"

#include "tests/system/contract/support.h"
#include "weir/base/keyed_word.h"
#include "weir/system/contract/accounts.h"

namespace weir::system::contract {
namespace {

TEST(Account, ReservesAStartAndStatesWhatItDebited) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({.costs = *parse_costs("", "0.0000001")}, kStart);
  EXPECT_EQ(reserved.verdict, Verdict::kAllowed);
  EXPECT_EQ(reserved.start, kStart);
  EXPECT_EQ(reserved.debited, (Costs{kMicro, 1}));
  EXPECT_EQ(reserved.expires, kStart + 10min);
  EXPECT_EQ(left_of(*account, 0, kStart), 10 * kMicro - 1);
}

TEST(Account, ReservesNothingThatWouldStartTooLate) {
  const auto account = account_of({requests_per(1, 10s)}, {.jitter = 0s});
  ASSERT_TRUE(account->reserve({}, kStart));
  const Reserved late = *account->reserve({.deadline = kStart + 10s - 1ns}, kStart);
  EXPECT_EQ(late.verdict, Verdict::kDenied);
  EXPECT_EQ(late.start, kStart + 10s);
  EXPECT_EQ(late.debited, (Costs{0, 0}));
  EXPECT_EQ(account->reserve({.max_delay = 9s}, kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(account->reserve({.max_delay = 0s}, kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(account->view(kStart).outstanding, 1u);
  EXPECT_EQ(account->reserve({.deadline = kStart + 10s, .max_delay = 10s}, kStart)->verdict,
            Verdict::kAllowed);
}

TEST(Account, SaysNeverAndWhy) {
  const auto account = account_of({units_per(10, 10s), requests_per(1, 0s)});
  const Reserved never = *account->reserve({.costs = units(11)}, kStart);
  EXPECT_EQ(never.verdict, Verdict::kNever);
  EXPECT_EQ(never.never, Never::kExceedsCapacity);
  EXPECT_EQ(never.binding, units_per(10, 10s));
  ASSERT_TRUE(account->reserve({}, kStart));
  EXPECT_EQ(account->reserve({}, kStart)->never, Never::kExhausted);
}

TEST(Account, DebitsNothingForCostsThatCannotBeMeant) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  for (const Costs& costs : {Costs{kMicro, -1}, Costs{-1, 0}, Costs{kMicro, kCostMicroMax + 1}}) {
    EXPECT_EQ(account->reserve({.costs = costs}, kStart).error().code, ErrorCode::kBadArgument);
    EXPECT_FALSE(account->consume(costs, kStart));
    EXPECT_FALSE(account->feedback({.costs = costs}, kStart));
    EXPECT_FALSE(account->commit({owned_word(account->owner(), 1), 1}, costs, kStart));
  }
  EXPECT_FALSE(account->reserve({}, Instant{-1}));
  EXPECT_FALSE(account->reserve({.hold = -1s}, kStart));
  EXPECT_EQ(left_of(*account, 0, kStart), 10 * kMicro);
  EXPECT_EQ(account->view(kStart).outstanding, 0u);
}

TEST(Account, KnowsNoReservationByTheWordOfItsNeighbour) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const HoldId seen = account->reserve({.costs = units(4)}, kStart)->reservation;
  const HoldId next = account->reserve({.costs = units(4)}, kStart)->reservation;
  ASSERT_EQ(next.number, seen.number + 1);
  EXPECT_EQ(account->release({seen.owner, next.number}, kStart), HoldState::kGone);
  EXPECT_EQ(left_of(*account, 0, kStart), 2 * kMicro);
  EXPECT_EQ(account->release(next, kStart), HoldState::kCancelled);
}

TEST(Account, CommitsAndReleasesItsOwnReservations) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({.costs = units(10)}, kStart);
  EXPECT_EQ(account->commit(reserved.reservation, units(4), kStart)->state, HoldState::kSettled);
  EXPECT_EQ(left_of(*account, 0, kStart), 6 * kMicro);
  EXPECT_EQ(account->release({account->owner() + 1, 1}, kStart), HoldState::kGone);
  const Reserved other = *account->reserve({.costs = units(6)}, kStart);
  EXPECT_EQ(account->release(other.reservation, kStart), HoldState::kCancelled);
  EXPECT_EQ(left_of(*account, 0, kStart), 6 * kMicro);
}

TEST(Account, RefusesAsAServiceAllOrNothing) {
  const auto service = service_of({requests_per(2, 2s), units_per(10, 10s)});
  ASSERT_FALSE(service->consume(units(10), kStart)->refusal);
  const Consumed refused = *service->consume(units(1), kStart);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->code, RefusalCode::kExceeded);
  EXPECT_EQ(refused.refusal->worst, 1u);
  EXPECT_EQ(*refused.refusal->wait_ns, 1'000'000'000);
  EXPECT_EQ(refused.debited, (Costs{0, 0}));
  EXPECT_EQ(left_of(*service, 0, kStart), kMicro);  // the request was not debited either
}

TEST(Account, ChargesUnitsFinallyOnlyOnSuccess) {
  const auto service = service_of({requests_per(2, 2s), units_per(10, 10s)});
  const Consumed consumed = *service->consume(units(10), kStart);
  // The work failed: it costs a request, and no units.
  ASSERT_TRUE(service->commit(consumed.reservation, units(0), kStart));
  EXPECT_EQ(left_of(*service, 0, kStart), kMicro);
  EXPECT_EQ(left_of(*service, 1, kStart), 10 * kMicro);
}

TEST(Account, SendsWhoConsumesBehindThoseWhoReserved) {
  const auto service = service_of({requests_per(1, 10s), units_per(10, 10s)});
  ASSERT_TRUE(service->reserve({.costs = units(10)}, kStart));
  ASSERT_TRUE(service->reserve({.costs = units(10)}, kStart));  // after 10 s
  EXPECT_EQ(*service->consume(units(1), kStart)->refusal->wait_ns, 20'000'000'000);
}

TEST(Account, LowersItsValuesWhenAWorkerMeetsARefusal) {
  const auto account = account_of({requests_per(10, 10s)}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({}, kStart);
  ASSERT_TRUE(
      account->feedback({.reservation = reserved.reservation, .retry_after = 800ms}, kStart));
  EXPECT_EQ(account->reserve({}, kStart)->start, kStart + 800ms);
  EXPECT_EQ(account->view(kStart).refusals_met, 1u);
  EXPECT_FALSE(account->feedback({.reservation = {account->owner() + 1, 1}}, kStart));
}

TEST(Account, TakesARefusalWithoutATimeForThePublishedDefault) {
  const auto account = account_of({}, {.jitter = 0s});
  ASSERT_TRUE(account->feedback({}, kStart));
  EXPECT_EQ(account->reserve({}, kStart)->start, kStart + 30s);
}

TEST(Account, FollowsThePublishedRuleIfToldTo) {
  const auto account = account_of({units_per(10, 10s)}, {.rule = Rule::kPublished});
  EXPECT_EQ(account->reserve({.costs = units(25)}, kStart)->delay_ns, 15'000'000'000);
  EXPECT_EQ(left_of(*account, 0, kStart), -15 * kMicro);
}

// --- threads that read their clocks at slightly different times

TEST(Account, RefusesNobodyForHavingReadItsClockEarlier) {
  const auto account = account_of({requests_per(10, 10s)}, {.jitter = 0s});
  ASSERT_FALSE(account->consume({}, kStart + 5us)->refusal);
  EXPECT_FALSE(account->consume({}, kStart)->refusal);
  const Reserved reserved = *account->reserve({.deadline = kStart, .max_delay = 0s}, kStart);
  EXPECT_EQ(reserved.verdict, Verdict::kAllowed);
  EXPECT_EQ(reserved.delay_ns, 0);
  account->refresh(std::vector<Account::Count>{{Resource::kRequests, 10s, 5 * kMicro}},
                   kStart + 9us);
  EXPECT_FALSE(account->consume({}, kStart + 6us)->refusal);
}

TEST(Account, StillSendsWhoReadItsClockEarlierBehindThoseWhoWait) {
  const auto account = account_of({requests_per(1, 10s)}, {.jitter = 0s});
  ASSERT_TRUE(account->reserve({}, kStart + 5us));
  const Reserved second = *account->reserve({}, kStart);
  EXPECT_EQ(second.start, kStart + 10s + 5us);
  EXPECT_EQ(second.delay_ns, 10'000'005'000);
  EXPECT_EQ(account->reserve({.max_delay = 0s}, kStart)->verdict, Verdict::kDenied);
}

// --- what it learns

TEST(Account, TakesNothingFromAPolicyForARefusalThatSaysNoTime) {
  const auto account = account_of({units_per(100, 1h)}, {.jitter = 0s});
  ASSERT_TRUE(account->feedback({.costs = units(10), .violated = units_per(100, 1h)}, kStart));
  EXPECT_EQ(left_of(*account, 0, kStart), 100 * kMicro);
  EXPECT_EQ(account->reserve({.costs = units(1)}, kStart)->start, kStart + 30s);
}

TEST(Account, TakesNothingFromAPolicyWhenTheRefusedReservationHasEnded) {
  const Policy policy = units_per(400'000, 744h);
  const auto account = account_of({policy}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({.costs = units(1)}, kStart);
  ASSERT_TRUE(account->commit(reserved.reservation, units(0), kStart));
  ASSERT_TRUE(account->feedback(
      {.reservation = reserved.reservation, .retry_after = 1s, .violated = policy}, kStart));
  EXPECT_EQ(left_of(*account, 0, kStart), 400'000 * kMicro);
}

TEST(Account, TakesNoRefusalOfAPolicyThatItHasNoMore) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  ASSERT_TRUE(account->change({requests_per(5, 10s), units_per(20, 10s)}, kStart));
  const Met met{.costs = units(1), .retry_after = 1s, .violated = units_per(10, 10s)};
  EXPECT_EQ(account->feedback(met, kStart).error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(left_of(*account, 0, kStart), 5 * kMicro);
  EXPECT_EQ(account->view(kStart).refusals_met, 0u);
}

TEST(Account, ConsumesNothingWhileItHoldsOff) {
  const auto account = account_of({requests_per(10, 10s)}, {.jitter = 0s});
  ASSERT_TRUE(account->feedback({}, kStart));
  const Consumed refused = *account->consume({}, kStart + 10s);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(*refused.refusal->wait_ns, 20'000'000'000);
  EXPECT_FALSE(account->consume({}, kStart + 30s)->refusal);
}

TEST(Account, OfThePublishedRuleRefusesWhatThatRuleDoesNotKnow) {
  const auto account = account_of({units_per(10, 10s)}, {.rule = Rule::kPublished});
  EXPECT_EQ(name_of(account->reserve({.deadline = kStart + 1s}, kStart).error()), "wrong_rule");
  EXPECT_EQ(name_of(account->reserve({.max_delay = 0s}, kStart).error()), "wrong_rule");
  EXPECT_EQ(name_of(account->feedback({.retry_after = 1s}, kStart).error()), "wrong_rule");
  EXPECT_EQ(left_of(*account, 0, kStart), 10 * kMicro);
}

TEST(Account, HoldsNoReservationLongerThanItsOwnTime) {
  const auto account = account_of({}, {.hold = 1min});
  EXPECT_EQ(account->reserve({.hold = 59s}, kStart)->expires, kStart + 59s);
  EXPECT_EQ(account->reserve({.hold = 1h}, kStart)->expires, kStart + 1min);
}

TEST(Account, StatesWhatACommitDebited) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const HoldId first = account->reserve({.costs = units(4)}, kStart)->reservation;
  EXPECT_EQ(account->commit(first, units(3), kStart)->debited, units(3));
  EXPECT_EQ(account->commit(first, units(2), kStart)->debited, units(3)) << "the first counts";
  const HoldId second = account->reserve({.costs = units(4)}, kStart)->reservation;
  EXPECT_EQ(account->commit(second, std::nullopt, kStart)->debited, units(4));
}

TEST(Account, ServesOnWithMoreUncommittedRequestsThanItRemembers) {
  const auto service = service_of({});
  HoldId first{};
  for (std::size_t i = 0; i <= kReservationsMax; ++i) {
    const Result<Consumed> consumed = service->consume({}, kStart + 1us * static_cast<int>(i));
    ASSERT_TRUE(consumed);
    if (i == 0) first = consumed->reservation;
  }
  EXPECT_EQ(service->commit(first, {}, kStart + 2s)->state, HoldState::kGone);
}

TEST(Account, RefreshesFromCountsByResourceAndPeriod) {
  const auto account = account_of({requests_per(10, 10s), units_per(10, 10s)}, {.jitter = 0s});
  const Account::Count counts[] = {{Resource::kProcessingUnits, 10s, 4 * kMicro},
                                   {Resource::kRequests, 1h, 0}};
  account->refresh(counts, kStart);
  EXPECT_EQ(left_of(*account, 0, kStart), 10 * kMicro);
  EXPECT_EQ(left_of(*account, 1, kStart), 4 * kMicro);
  EXPECT_EQ(account->view(kStart).refreshed_at, kStart);
  EXPECT_FALSE(account->refresh(std::vector<std::optional<std::int64_t>>(3), kStart));
}

TEST(Account, SaysWhenItIsFull) {
  const auto account = account_of({units_per(10, 10s), requests_per(5, 0s)}, {.jitter = 0s});
  ASSERT_TRUE(account->reserve({.costs = units(4)}, kStart));
  const AccountView view = account->view(kStart);
  EXPECT_EQ(view.policies[0].full_in_ns, 4'000'000'000);
  EXPECT_EQ(view.policies[1].full_in_ns, -1);
  EXPECT_EQ(view.outstanding_costs, units(4));
}

TEST(Account, RefusesPoliciesThatContradictEachOther) {
  const auto name = [](std::vector<Policy> policies) {
    return std::string(name_of(Account::create("a", std::move(policies), {}, kStart).error()));
  };
  EXPECT_EQ(name({units_per(1, 1s), units_per(1, 1s)}), "duplicate_policy");
  EXPECT_EQ(name({units_per(1, 1s), units_per(2, 1s)}), "overlapping_policies");
  EXPECT_EQ(name(std::vector<Policy>(kPoliciesMax + 1)), "too_many_policies");
  EXPECT_EQ(name_of(Account::create("a", {}, {.jitter = -1s}, kStart).error()), "bad_time");
}

TEST(Account, KeepsItsPoliciesWhenAChangeIsRefused) {
  const auto account = account_of({units_per(10, 10s)});
  EXPECT_FALSE(account->change({units_per(1, 1s), units_per(2, 1s)}, kStart));
  EXPECT_EQ(account->policies().size(), 1u);
  EXPECT_TRUE(account->change({units_per(20, 10s), requests_per(1, 1s)}, kStart));
  EXPECT_EQ(account->policies().size(), 2u);
}

TEST(Accounts, AreFoundByName) {
  Accounts accounts;
  ASSERT_TRUE(accounts.add(account_of({})));
  EXPECT_EQ((*accounts.find("acme"))->name(), "acme");
  const auto unknown = accounts.find("nobody");
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.error().message,
            "account 'nobody' is unknown; known are 'acme'; correct the name");
  EXPECT_FALSE(accounts.add(account_of({})));
  EXPECT_EQ(accounts.all().size(), 1u);
  EXPECT_TRUE(accounts.remove("acme"));
  EXPECT_FALSE(accounts.remove("acme"));
}

TEST(Accounts, AreKeptApart) {
  Accounts accounts;
  for (const char* name : {"a", "b"}) {
    ASSERT_TRUE(accounts.add(*Account::create(name, {units_per(10, 10s)}, {.jitter = 0s}, kStart)));
  }
  ASSERT_TRUE((*accounts.find("a"))->reserve({.costs = units(10)}, kStart));
  EXPECT_EQ((*accounts.find("b"))->reserve({.costs = units(10)}, kStart)->start, kStart);
}

TEST(Accounts, AreBounded) {
  Accounts accounts;
  const auto named = [](std::string name) {
    return *Account::create(std::move(name), {}, {}, kStart);
  };
  EXPECT_FALSE(accounts.add(named("")));
  EXPECT_TRUE(accounts.add(named(std::string(kAccountNameBytesMax, 'x'))));
  EXPECT_FALSE(accounts.add(named(std::string(kAccountNameBytesMax + 1, 'x'))));
  for (std::size_t i = 1; i < kAccountsMax; ++i) {
    ASSERT_TRUE(accounts.add(named(std::to_string(i))));
  }
  EXPECT_EQ(accounts.add(named("one more")).error().code, ErrorCode::kExhausted);
}

TEST(Account, TakesOtherOptionsButNoOtherRoleOrRule) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = Duration{0}});
  ASSERT_EQ(account->reserve({.costs = units(10)}, kStart)->verdict, Verdict::kAllowed);
  ASSERT_TRUE(account->change_options({.jitter = Duration{0}, .max_delay = 1s}));
  EXPECT_EQ(account->reserve({.costs = units(5)}, kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(account->reserve({.costs = units(5), .max_delay = 5s}, kStart)->verdict,
            Verdict::kAllowed);
  EXPECT_EQ(account->view(kStart).outstanding, 2u);
  EXPECT_FALSE(account->change_options({.role = AccountRole::kService}));
  EXPECT_FALSE(account->change_options({.rule = Rule::kPublished}));
  EXPECT_FALSE(account->change_options({.max_delay = kTimeMax + Duration{1}}));
  EXPECT_EQ(account->options().max_delay, 1s);
}

TEST(Account, OfThePublishedRuleIsNotConsumed) {
  const auto account = account_of({units_per(10, 10s)}, {.rule = Rule::kPublished});
  const auto consumed = account->consume(units(1), kStart);
  ASSERT_FALSE(consumed);
  EXPECT_EQ(name_of(consumed.error()), "wrong_rule");
}

TEST(Account, OfThePublishedRuleKeepsWhatIsUsedOfChangedPolicies) {
  const auto account = account_of({units_per(10, 10s)}, {.rule = Rule::kPublished});
  ASSERT_TRUE(account->reserve({.costs = units(14)}, kStart));
  ASSERT_TRUE(account->change({units_per(20, 10s), requests_per(5, 10s)}, kStart));
  EXPECT_EQ(left_of(*account, 0, kStart), 6'000'000);
  EXPECT_EQ(left_of(*account, 1, kStart), 5'000'000);
}

TEST(Accounts, AreFoundByTheirUser) {
  Accounts accounts;
  const auto account = account_of({});
  ASSERT_TRUE(accounts.add(account, "u1"));
  EXPECT_EQ(accounts.of_user("u1"), account);
  EXPECT_EQ(accounts.of_user("acme"), nullptr);
  EXPECT_EQ(accounts.user_id("acme"), "u1");
  const auto other = *Account::create("other", {}, {}, kStart);
  EXPECT_FALSE(accounts.add(other, "u1"));
  EXPECT_TRUE(accounts.add(other));
  EXPECT_EQ(accounts.of_user("other"), other);
  EXPECT_TRUE(accounts.remove("acme"));
  EXPECT_EQ(accounts.of_user("u1"), nullptr);
}

// --- more than was reserved

TEST(Account, IsChargedNoMoreThanTenCapacitiesOfDebt) {
  const auto account = account_of({units_per(10, 10s), requests_per(5, 10s)}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({.costs = units(1)}, kStart);
  const Costs absurd{kMicro, kCostMicroMax};
  const Committed committed = *account->commit(reserved.reservation, absurd, kStart);
  // 9 were left and 100 may be owed, beside the one that was reserved.
  EXPECT_EQ(committed.debited, units(110));
  EXPECT_EQ(left_of(*account, 0, kStart), -100 * kMicro);
  EXPECT_EQ(left_of(*account, 1, kStart), 4 * kMicro);
  EXPECT_EQ(account->overages_clipped(), 1u);
  const Reserved later = *account->reserve({.costs = units(0)}, kStart + 1s);
  ASSERT_TRUE(account->commit(later.reservation, units(5), kStart + 1s));
  EXPECT_EQ(left_of(*account, 0, kStart + 1s), -100 * kMicro) << "it owes as much as it may";
}

TEST(Account, IsChargedAnOverageThatItMayOwe) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({.costs = units(1)}, kStart);
  EXPECT_EQ(account->commit(reserved.reservation, units(110), kStart)->debited, units(110));
  EXPECT_EQ(account->overages_clipped(), 0u);
}

// --- asks that are repeated, and whose they are

TEST(Account, AnswersARepeatedCommitAsBefore) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const Reserved reserved = *account->reserve({.costs = units(5)}, kStart);
  const Reserved before = *account->reserve({.costs = units(1)}, kStart);
  const Committed first = *account->commit(reserved.reservation, units(2), kStart);
  for (const double other : {2.0, 4.0}) {
    const Committed again = *account->commit(reserved.reservation, units(other), kStart + 1s);
    EXPECT_EQ(again.state, HoldState::kSettled);
    EXPECT_EQ(again.debited, first.debited);
  }
  ASSERT_TRUE(account->commit(before.reservation, std::nullopt, kStart));
  EXPECT_EQ(account->commit(reserved.reservation, std::nullopt, kStart + 1s)->debited, units(2))
      << "also when it is folded";
}

TEST(Account, AnswersAnAskThatIsRepeatedUnderItsKeyAsBeforeAndDebitsNothing) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s, .hold = 1min});
  ASSERT_TRUE(account->reserve({.costs = units(10)}, kStart));
  const Ask ask{.costs = units(5), .key = "job-1"};
  const Reserved first = *account->reserve(ask, kStart);
  EXPECT_EQ(first.start, kStart + 5s);
  const Reserved again = *account->reserve(ask, kStart + 2s);
  EXPECT_EQ(again.reservation, first.reservation);
  EXPECT_EQ(again.start, first.start);
  EXPECT_EQ(again.delay_ns, 3'000'000'000);
  EXPECT_EQ(account->view(kStart).outstanding, 2u);
  EXPECT_EQ(account->reserve(ask, kStart + 7s)->delay_ns, 0) << "it may have started";
  const Ask other{.costs = units(6), .key = "job-1"};
  EXPECT_EQ(name_of(account->reserve(other, kStart).error()), "key_reused");
  // Until the reservation is final.
  EXPECT_NE(account->reserve(ask, kStart + 65s)->reservation, first.reservation);
}

TEST(Account, RemembersNoKeyOfWhatWasDenied) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  ASSERT_TRUE(account->reserve({.costs = units(10)}, kStart));
  const Ask ask{.costs = units(5), .max_delay = 1s, .key = "job-1"};
  EXPECT_EQ(account->reserve(ask, kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(account->reserve(ask, kStart + 5s)->verdict, Verdict::kAllowed);
}

TEST(Account, RemembersAsManyKeysAsItMayAndNoMore) {
  const auto account = account_of({}, {.jitter = 0s});
  for (std::size_t i = 0; i < kAskKeysMax; ++i) {
    ASSERT_TRUE(account->reserve({.key = std::to_string(i)}, kStart));
  }
  EXPECT_EQ(account->reserve({.key = "more"}, kStart).error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(account->reserve({.key = "7"}, kStart));
  EXPECT_TRUE(account->reserve({}, kStart));
  EXPECT_TRUE(account->reserve({.key = "more"}, kStart + 10min));
  EXPECT_FALSE(account->reserve({.who = std::string(kAskNameBytesMax + 1, 'x')}, kStart));
  EXPECT_TRUE(account->reserve({.who = std::string(kAskNameBytesMax, 'x')}, kStart));
}

TEST(Account, ListsReservationsAndWhose) {
  const auto account = account_of({units_per(100, 10s)}, {.jitter = 0s});
  std::vector<HoldId> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(
        account->reserve({.costs = units(i), .who = i % 2 ? "odd" : ""}, kStart)->reservation);
  }
  account->release(ids[3], kStart);
  ASSERT_TRUE(account->commit(ids[0], std::nullopt, kStart));
  const std::vector<Listed> all = account->list("", 0, kListedMax).rows;
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].reservation, ids[1]);
  EXPECT_EQ(all[0].who, "odd");
  EXPECT_EQ(all[0].costs, units(1));
  EXPECT_EQ(all[0].expires, kStart + 10min);
  EXPECT_EQ(all[1].who, "");
  EXPECT_EQ(account->list("odd", 0, kListedMax).rows.size(), 2u);
  EXPECT_EQ(account->list("nobody", 0, kListedMax).rows.size(), 0u);
  const std::vector<Listed> next = account->list("", all[1].reservation.number, 1).rows;
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].reservation, all[2].reservation);
  EXPECT_EQ(account->list("", all[3].reservation.number, 9).rows.size(), 0u);
  EXPECT_EQ(account->list("", ~std::uint64_t{0}, 9).rows.size(), 0u);
}

TEST(Account, LooksAtSoManyReservationsForOneListAndSaysWhereToGoOn) {
  const auto account = account_of({}, {.jitter = 0s});
  for (std::size_t i = 0; i < 2 * kLookedAtMax; ++i) ASSERT_TRUE(account->reserve({}, kStart));
  const HoldId own = account->reserve({.who = "me"}, kStart)->reservation;
  Listing listing = account->list("me", 0, 10);
  EXPECT_TRUE(listing.rows.empty());
  ASSERT_EQ(listing.next, kLookedAtMax);
  listing = account->list("me", *listing.next, 10);
  EXPECT_TRUE(listing.rows.empty());
  ASSERT_EQ(listing.next, 2 * kLookedAtMax);
  listing = account->list("me", *listing.next, 10);
  ASSERT_EQ(listing.rows.size(), 1u);
  EXPECT_EQ(listing.rows[0].reservation, own);
  EXPECT_FALSE(listing.next);
}

TEST(Account, AsksAnewUnderAKeyWhoseReservationWasGivenBack) {
  const auto account = account_of({units_per(10, 10s)}, {.jitter = 0s});
  const Ask ask{.costs = units(6), .key = "job-1"};
  const Reserved first = *account->reserve(ask, kStart);
  ASSERT_EQ(account->release(first.reservation, kStart), HoldState::kCancelled);
  const Reserved second = *account->reserve(ask, kStart);
  EXPECT_NE(second.reservation, first.reservation);
  EXPECT_EQ(left_of(*account, 0, kStart), 4 * kMicro);
  ASSERT_TRUE(
      account->feedback({.reservation = second.reservation, .retry_after = 0s}, kStart).ok());
  const Reserved third = *account->reserve(ask, kStart);
  EXPECT_NE(third.reservation, second.reservation);
  // One that is committed has done its work.
  ASSERT_TRUE(account->commit(third.reservation, std::nullopt, kStart));
  EXPECT_EQ(account->reserve(ask, kStart)->reservation, third.reservation);
}

TEST(Account, RefusesWhoAndKeyUnderThePublishedRule) {
  const auto account = account_of({units_per(10, 10s)}, {.rule = Rule::kPublished});
  EXPECT_EQ(name_of(account->reserve({.who = "me"}, kStart).error()), "wrong_rule");
  EXPECT_EQ(name_of(account->reserve({.key = "job-1"}, kStart).error()), "wrong_rule");
  EXPECT_EQ(left_of(*account, 0, kStart), 10 * kMicro);
}

}  // namespace
}  // namespace weir::system::contract
