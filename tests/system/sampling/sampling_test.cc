#include "weir/system/sampling/sampling.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "tests/support/seed.h"
#include "tests/system/sampling/support.h"
namespace weir::system::sampling {
namespace {

using ::testing::HasSubstr;

std::string error_of(const Result<Grant>& grant) { return grant ? "none" : grant.error().message; }

TEST(Sampling, GrantsWhatIsLeftAndSaysWhenThereIsMore) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  Grant grant = granted(*sampling, miner(), 4, kStart);
  EXPECT_EQ(grant.granted, 4);
  EXPECT_EQ(grant.count, 4);
  EXPECT_EQ(grant.limit, 6);
  EXPECT_EQ(grant.remaining, 2);
  EXPECT_EQ(grant.next_free, kStart);
  EXPECT_EQ(grant.reason, Reason::kLimited);
  grant = granted(*sampling, miner(), 20, kStart + 10s);
  EXPECT_EQ(grant.granted, 2);
  EXPECT_EQ(grant.remaining, 0);
  EXPECT_EQ(grant.next_free, kStart + 1h);
  grant = granted(*sampling, miner(), 1, kStart + 1h - 1ns);
  EXPECT_EQ(grant.granted, 0);
  EXPECT_FALSE(grant.reservation);
  EXPECT_EQ(granted(*sampling, miner(), 20, kStart + 1h).granted, 4);
}

TEST(Sampling, AsAGateGrantsEverythingWhileItIsOpen) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.granting = Granting::kGate;
  const auto sampling = sampling_of(spec);
  EXPECT_EQ(granted(*sampling, miner(), 5, kStart).granted, 5);
  EXPECT_EQ(granted(*sampling, miner(), 20, kStart).granted, 20);
  const Grant shut = granted(*sampling, miner(), 1, kStart + 1s);
  EXPECT_EQ(shut.granted, 0);
  EXPECT_EQ(shut.count, 25);
  EXPECT_EQ(shut.remaining, 0);
}

TEST(Sampling, GivesBackWhatWasNotCreated) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Grant first = granted(*sampling, miner(), 6, kStart);
  const Result<GivenBack> back = sampling->commit(first.reservation, 4, kStart + 1s);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, 2);
  const Grant second = granted(*sampling, miner(), 6, kStart + 2s);
  EXPECT_EQ(second.granted, 2);
  EXPECT_EQ(*sampling->release(second.reservation, kStart + 3s), 2);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 4s).granted, 2);
}

TEST(Sampling, EndsAReservationOnce) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Grant grant = granted(*sampling, miner(), 3, kStart);
  EXPECT_TRUE(sampling->commit(grant.reservation, std::nullopt, kStart));
  const Result<GivenBack> again = sampling->release(grant.reservation, kStart);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->was_other);
  EXPECT_EQ(again->created, 3);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart).granted, 3);
}

TEST(Sampling, AnswersTheEndOfAReservationTheSameAgain) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Grant some = granted(*sampling, miner(), 4, kStart);
  const Grant none = granted(*sampling, miner(), 2, kStart);
  for (int i = 0; i < 3; ++i) {
    const Result<GivenBack> back = sampling->commit(some.reservation, 3, kStart + 1s);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, 1);
    EXPECT_FALSE(back->was_other);
    EXPECT_EQ(*sampling->release(none.reservation, kStart + 1s), 2);
  }
  EXPECT_TRUE(sampling->commit(some.reservation, 4, kStart + 1s)->was_other);
  EXPECT_TRUE(sampling->commit(some.reservation, std::nullopt, kStart + 1s)->was_other);
  EXPECT_TRUE(sampling->release(some.reservation, kStart + 1s)->was_other);
  EXPECT_EQ(*sampling->commit(none.reservation, 0, kStart + 1s), 2) << "a release is no other end";
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 2s).granted, 3) << "given back once";
}

TEST(Sampling, ForgetsHowAReservationEndedAWindowAfterThat) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Grant grant = granted(*sampling, miner(), 4, kStart);
  EXPECT_TRUE(sampling->release(grant.reservation, kStart + 30min));
  EXPECT_TRUE(sampling->release(grant.reservation, kStart + 90min - 1ns));
  EXPECT_FALSE(sampling->release(grant.reservation, kStart + 90min));
}

TEST(Sampling, RemembersAsManyEndsAsReservations) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}), {.reservations_max = 2});
  std::vector<HoldId> ended;
  for (int i = 0; i < 3; ++i) {
    ended.push_back(granted(*sampling, miner(), 1, kStart).reservation);
    EXPECT_TRUE(sampling->release(ended.back(), kStart));
  }
  EXPECT_FALSE(sampling->release(ended[0], kStart));
  EXPECT_TRUE(sampling->release(ended[1], kStart));
  EXPECT_TRUE(sampling->release(ended[2], kStart));
}

TEST(Sampling, RefusesToCommitMoreThanWasGranted) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Grant grant = granted(*sampling, miner(), 3, kStart);
  EXPECT_FALSE(sampling->commit(grant.reservation, 4, kStart));
  EXPECT_FALSE(sampling->commit(grant.reservation, -1, kStart));
  EXPECT_TRUE(sampling->commit(grant.reservation, 3, kStart)) << "it has not ended";
}

TEST(Sampling, CountsWhatIsNeverCommitted) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  const Grant grant = granted(*sampling, miner(), 6, kStart);
  EXPECT_EQ(granted(*sampling, miner(), 1, kStart + 1h - 1ns).granted, 0);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 1h).granted, 6);
  EXPECT_FALSE(sampling->release(grant.reservation, kStart + 1h)) << "there is nothing left of it";
}

TEST(Sampling, MakesTheOldestReservationFinalAtItsBound) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}), {.reservations_max = 2});
  const Grant first = granted(*sampling, miner(), 1, kStart);
  const Grant second = granted(*sampling, miner(), 1, kStart);
  EXPECT_EQ(sampling->reading().reservations, 2u);
  granted(*sampling, miner(), 1, kStart);
  EXPECT_EQ(sampling->reading().reservations, 2u);
  EXPECT_FALSE(sampling->release(first.reservation, kStart));
  EXPECT_TRUE(sampling->release(second.reservation, kStart));
}

// --- a burst: spaced inside the window

// Six an hour, at most two at once: two in any 20 minutes.
RulesSpec two_at_once() {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.environments[0].burst = 2;
  return spec;
}

TEST(SamplingBurst, SpacesTheAllowanceInsideTheWindow) {
  const auto sampling = sampling_of(two_at_once());
  const Grant first = granted(*sampling, miner(), 6, kStart);
  EXPECT_EQ(first.granted, 2);
  EXPECT_EQ(first.remaining, 4) << "of the hour";
  EXPECT_EQ(first.next_free, kStart + 20min);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 20min - 1ns).granted, 0);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 20min).granted, 2);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 40min).granted, 2);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 1h - 1ns).granted, 0);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 1h).granted, 2);
}

TEST(SamplingBurst, IsASpanThatIsRoundedUp) {
  RulesSpec spec = spec_of({rotating("E", 0, 0, 7 * 48)});  // 7 an hour
  spec.environments[0].burst = 1;
  const auto sampling = sampling_of(spec);
  EXPECT_EQ(granted(*sampling, miner(), 1, kStart).next_free, kStart + 514'285'714'286ns);
}

TEST(SamplingBurst, CountsAgainWhatWasGivenBack) {
  const auto sampling = sampling_of(two_at_once());
  const Grant first = granted(*sampling, miner(), 2, kStart);
  EXPECT_EQ(*sampling->commit(first.reservation, 1, kStart + 1s), 1);
  EXPECT_EQ(granted(*sampling, miner(), 6, kStart + 1s).granted, 1);
}

TEST(SamplingBurst, BoundsACheckToo) {
  const auto sampling = sampling_of(two_at_once());
  granted(*sampling, miner(), 2, kStart);
  const std::scoped_lock lock(*sampling);
  const meter::Check said = sampling->locked().check(miner(), 2, kStart + 1s);
  EXPECT_EQ(said.verdict, Verdict::kDenied);
  EXPECT_EQ(said.earliest, kStart + 20min);
  EXPECT_EQ(sampling->locked().check(miner(), 3, kStart + 1s).verdict, Verdict::kNever);
  EXPECT_EQ(sampling->locked().left(miner(), kStart + 20min), 2);
}

TEST(SamplingBurst, IsNoneIfItIsTheAllowanceOrMore) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.environments[0].burst = 6;
  EXPECT_EQ(granted(*sampling_of(spec), miner(), 6, kStart).granted, 6);
}

TEST(SamplingBurst, IsRefusedWhereItWouldMeanNothing) {
  RulesSpec spec = spec_of({rotating("E", 0, 0, 0)});
  spec.environments[0].burst = 2;
  EXPECT_THAT(make_rules(spec).error().message, HasSubstr("without an allowance"));
  spec = two_at_once();
  spec.granting = Granting::kGate;
  EXPECT_THAT(make_rules(spec).error().message, HasSubstr("a gate grants all"));
  spec = two_at_once();
  spec.environments[0].burst = 0;
  EXPECT_THAT(make_rules(spec).error().message, HasSubstr("burst is 0"));
}

// Any instants, wants and ends: no span holds more than its bound.
TEST(SamplingBurst, IsKeptWhateverIsAsked) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int run = 0; run < 20; ++run) {
    const auto a_day = static_cast<std::int64_t>(random() % 40 + 2);
    RulesSpec spec = spec_of({rotating("E", 0, 0, a_day * 48)});
    const auto burst = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(a_day) + 1);
    spec.environments[0].burst = burst;
    const auto sampling = sampling_of(spec);
    const std::int64_t span_ns = (std::int64_t{3'600'000'000'000} * burst + a_day - 1) / a_day;
    std::vector<Instant> stamps;
    Instant now = kStart;
    for (int i = 0; i < 300; ++i) {
      now = now + Duration{static_cast<std::int64_t>(random() % 900'000'000'000)};
      const Grant grant = granted(*sampling, miner(), static_cast<std::int64_t>(random() % 5), now);
      std::int64_t created = grant.granted;
      if (grant.reservation && random() % 3 == 0) {
        created =
            static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(grant.granted + 1));
        ASSERT_TRUE(sampling->commit(grant.reservation, created, now));
      }
      stamps.insert(stamps.end(), static_cast<std::size_t>(created), now);
      const auto in = [&](Duration span) {
        return std::count_if(stamps.begin(), stamps.end(),
                             [&](Instant at) { return at + span > now; });
      };
      ASSERT_LE(in(1h), a_day);
      ASSERT_LE(in(Duration{span_ns}), burst);
    }
  }
}

// --- who is refused

TEST(SamplingRefused, NamesWhoWasRefusedAndWhoHasUsedUpAll) {
  const auto sampling = sampling_of(spec_of({six_an_hour(), rotating("U", 0, 0, 0)}));
  granted(*sampling, {"all", "r1", "E", 7}, 6, kStart);
  granted(*sampling, {"some", "r1", "E", 7}, 5, kStart);
  granted(*sampling, {"exempt", "r1", "E", 1001}, 600, kStart);
  granted(*sampling, {"free", "r1", "U", 7}, 600, kStart);
  for (int i = 0; i < 3; ++i) granted(*sampling, {"greedy", "r1", "E", 7}, 20, kStart);
  std::vector<RefusedMiner> refused = sampling->refused();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].hotkey, "greedy");
  EXPECT_EQ(refused[0].refusals, 3u);
  EXPECT_EQ(refused[0].tasks, 14u + 20 + 20);
  EXPECT_EQ(refused[1].hotkey, "all");
  EXPECT_EQ(refused[1].refusals, 0u);
  sampling->sweep(kStart + 1h);
  EXPECT_TRUE(sampling->refused().empty());
}

TEST(SamplingRefused, NamesNobodyWhoMustOnlyWaitForTheNextOfABurst) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.environments[0].burst = 2;
  const auto sampling = sampling_of(spec);
  granted(*sampling, miner(), 2, kStart);
  granted(*sampling, miner(), 2, kStart + 20min);
  EXPECT_TRUE(sampling->refused().empty()) << "two are left";
  granted(*sampling, miner(), 2, kStart + 40min);
  ASSERT_EQ(sampling->refused().size(), 1u) << "now it has used up what it may have";
  EXPECT_EQ(sampling->refused()[0].refusals, 0u);
  EXPECT_EQ(granted(*sampling, miner("E", "r2"), 3, kStart + 40min).granted, 2);
  EXPECT_EQ(sampling->refused()[0].tasks, 1u) << "who is refused for a burst is refused";
}

TEST(Sampling, KeepsTuplesApartWhateverTheirNamesContain) {
  const auto sampling = sampling_of(spec_of({six_an_hour("c"), six_an_hour("b#c")}));
  Who who{.hotkey = "a#b", .revision = "r", .environment = "c", .id = 7};
  EXPECT_EQ(granted(*sampling, who, 6, kStart).granted, 6);
  who = {.hotkey = "a", .revision = "b#r", .environment = "c", .id = 7};
  EXPECT_EQ(granted(*sampling, who, 6, kStart).granted, 6);
  who = {.hotkey = "a", .revision = "r", .environment = "b#c", .id = 7};
  EXPECT_EQ(granted(*sampling, who, 6, kStart).granted, 6);
}

TEST(Sampling, StartsANewCounterForARevisionUnlessThereIsAParent) {
  EnvironmentSpec with_parent = six_an_hour("P");
  with_parent.parent = ParentSpec{8};
  const auto sampling = sampling_of(spec_of({six_an_hour(), with_parent}));
  granted(*sampling, miner("E", "r1"), 6, kStart);
  EXPECT_EQ(granted(*sampling, miner("E", "r2"), 6, kStart).granted, 6);
  granted(*sampling, miner("P", "r1"), 6, kStart);
  const Grant second = granted(*sampling, miner("P", "r2"), 6, kStart + 1s);
  EXPECT_EQ(second.granted, 2);
  EXPECT_EQ(second.count, 2);
  EXPECT_EQ(second.parent_count, 8);
  EXPECT_EQ(second.remaining, 0);
  EXPECT_EQ(second.next_free, kStart + 1h);
  EXPECT_EQ(*sampling->release(second.reservation, kStart + 1s), 2);
  EXPECT_EQ(granted(*sampling, miner("P", "r3"), 6, kStart + 2s).granted, 2);
}

TEST(Sampling, LimitsOverRevisionsThoughTheEnvironmentIsUnlimited) {
  EnvironmentSpec environment = rotating("E", 0, 0, 0);
  environment.parent = ParentSpec{8};
  const auto sampling = sampling_of(spec_of({environment}));
  Grant grant = granted(*sampling, miner("E", "r1"), 6, kStart);
  EXPECT_EQ(grant.granted, 6);
  EXPECT_EQ(grant.reason, Reason::kLimited);
  EXPECT_EQ(grant.limit, std::nullopt);
  EXPECT_EQ(grant.parent_limit, 8);
  EXPECT_EQ(grant.remaining, 2);
  EXPECT_EQ(sampling->locked().check(miner("E", "r2"), 2, kStart).verdict, Verdict::kAllowed);
  EXPECT_EQ(sampling->locked().check(miner("E", "r2"), 3, kStart).verdict, Verdict::kDenied);
  EXPECT_EQ(sampling->locked().check(miner("E", "r2"), 3, kStart).earliest, kStart + 1h);
  EXPECT_EQ(sampling->locked().check(miner("E", "r2"), 9, kStart).verdict, Verdict::kNever);
  grant = granted(*sampling, miner("E", "r2"), 6, kStart + 1s);
  EXPECT_EQ(grant.granted, 2);
  EXPECT_EQ(grant.next_free, kStart + 1h);
  EXPECT_EQ(granted(*sampling, miner("E", "r3"), 1, kStart + 1s).granted, 0);
}

TEST(Sampling, IsUnlimitedIfTheParentTakesTheAllowanceOfNone) {
  EnvironmentSpec environment = rotating("E", 0, 0, 0);
  environment.parent = ParentSpec{};
  const auto sampling = sampling_of(spec_of({environment}));
  EXPECT_EQ(granted(*sampling, miner(), 100, kStart).reason, Reason::kUnlimited);
}

// --- asking only

void expect_same(const Grant& said, const Grant& made) {
  EXPECT_EQ(said.reason, made.reason);
  EXPECT_EQ(said.wanted, made.wanted);
  EXPECT_EQ(said.granted, made.granted);
  EXPECT_EQ(said.count, made.count);
  EXPECT_EQ(said.limit, made.limit);
  EXPECT_EQ(said.remaining, made.remaining);
  EXPECT_EQ(said.parent_count, made.parent_count);
  EXPECT_EQ(said.parent_limit, made.parent_limit);
  EXPECT_EQ(said.next_free, made.next_free);
}

TEST(Sampling, SaysWhatAGrantWouldSay) {
  EnvironmentSpec with_parent = six_an_hour("P");
  with_parent.parent = ParentSpec{8};
  for (const Granting granting : {Granting::kCapped, Granting::kGate}) {
    RulesSpec spec = spec_of({six_an_hour(), with_parent, rotating("U", 0, 0, 0)});
    spec.granting = granting;
    const auto sampling = sampling_of(spec);
    for (const char* environment : {"E", "P", "U"}) {
      for (const char* revision : {"r1", "r1", "r2", "r2", "r1"}) {
        const Who who = miner(environment, revision);
        const Grant said = *sampling->peek(who, 4, kStart);
        EXPECT_FALSE(said.reservation);
        expect_same(said, granted(*sampling, who, 4, kStart));
      }
    }
  }
}

TEST(Sampling, SaysWhyAGrantWouldFail) {
  MemoryJournal journal;
  const auto sampling = sampling_of(spec_of({six_an_hour()}), {.keys_max = 1, .journal = &journal});
  granted(*sampling, miner(), 1, kStart);
  EXPECT_EQ(sampling->peek(miner("E", "r2"), 1, kStart).error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(sampling->peek(miner("E", "r2"), 0, kStart)) << "nothing would be kept";
  journal.trouble = "the disk is full";
  EXPECT_EQ(sampling->peek(miner(), 1, kStart).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(sampling->peek(miner(), 0, kStart)->count, 1);
}

TEST(Sampling, SaysWhatIsWrongWithWhoeverAsks) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  Who who = miner();
  who.id.reset();
  EXPECT_THAT(error_of(sampling->grant(who, 1, kStart)), HasSubstr("uid is missing"));
  EXPECT_THAT(error_of(sampling->grant(miner("F"), 1, kStart)),
              HasSubstr("environment 'F' is not configured"));
  EXPECT_THAT(error_of(sampling->grant(miner("E", ""), 1, kStart)),
              HasSubstr("sampling: revision is 0 bytes long"));
  const std::string longest(kNameBytesMax, 'x');
  EXPECT_TRUE(sampling->grant(miner("E", longest), 1, kStart));
  EXPECT_FALSE(sampling->grant(miner("E", longest + "x"), 1, kStart));
  EXPECT_THAT(error_of(sampling->grant(miner(), -1, kStart)), HasSubstr("want is -1"));
  EXPECT_FALSE(sampling->grant(miner(), kWantMax + 1, kStart));
  EXPECT_EQ(granted(*sampling, miner(), kWantMax, kStart).granted, 6);
}

TEST(Sampling, TakesAMissingIdForZeroInPublishedModeOnly) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.mode = Mode::kPublished;
  const auto sampling = sampling_of(spec);
  Who who = miner();
  who.id.reset();
  EXPECT_EQ(granted(*sampling, who, 100, kStart).reason, Reason::kExempt);
}

TEST(Sampling, ExemptsNobodyUnlessItIsWritten) {
  RulesSpec spec = spec_of({six_an_hour()});
  spec.exempt = {};
  const auto sampling = sampling_of(spec);
  Who who = miner();
  who.id = 0;
  EXPECT_EQ(granted(*sampling, who, 100, kStart).granted, 6);
}

TEST(Sampling, CountsTheExemptAndUnlimitedToo) {
  const auto sampling = sampling_of(spec_of({six_an_hour(), rotating("U", 0, 0, 0)}));
  const Grant unlimited = granted(*sampling, miner("U"), 1000, kStart);
  EXPECT_EQ(unlimited.reason, Reason::kUnlimited);
  EXPECT_EQ(unlimited.granted, 1000);
  EXPECT_EQ(unlimited.limit, std::nullopt);
  EXPECT_EQ(granted(*sampling, miner("U"), 1, kStart + 1s).count, 1001);
  EXPECT_EQ(granted(*sampling, miner("U"), 1, kStart + 1h).count, 2);
}

TEST(Sampling, KeepsItsCountersWhenRulesChange) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  granted(*sampling, miner(), 6, kStart);
  sampling->set_rules(rules_of(spec_of({rotating("E", 10, 3600, 200)})));  // 12 an hour
  EXPECT_EQ(granted(*sampling, miner(), 20, kStart + 1s).granted, 6);
  sampling->set_rules(rules_of(spec_of({six_an_hour()})));
  const Grant lowered = granted(*sampling, miner(), 1, kStart + 1h);
  EXPECT_EQ(lowered.granted, 0) << "six of the second round still count";
  EXPECT_EQ(lowered.next_free, kStart + 1h + 1s);
  EXPECT_EQ(sampling->reading().environments[0].granted, 12u);
}

TEST(Sampling, TakesTimeThatGoesBackForStandingStill) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  granted(*sampling, miner(), 6, kStart);
  const Grant grant = granted(*sampling, miner(), 1, kStart - 2h);
  EXPECT_EQ(grant.granted, 0);
  EXPECT_EQ(grant.next_free, kStart + 1h);
}

TEST(Sampling, DropsAKeyWhenItsLastTaskLeavesTheWindow) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  granted(*sampling, miner(), 1, kStart);
  granted(*sampling, miner("E", "r2"), 1, kStart + 1s);
  sampling->sweep(kStart + 1h - 1ns);
  EXPECT_EQ(sampling->reading().keys, 2u);
  sampling->sweep(kStart + 1h);
  EXPECT_EQ(sampling->reading().keys, 1u);
  sampling->sweep(kStart + 1h + 1s);
  EXPECT_EQ(sampling->reading().keys, 0u);
}

TEST(Sampling, RefusesMoreKeysThanItMayKeepUntilSomeLeave) {
  EnvironmentSpec with_parent = six_an_hour("P");
  with_parent.parent = ParentSpec{};
  const auto sampling = sampling_of(spec_of({six_an_hour(), with_parent}), {.keys_max = 3});
  for (const char* revision : {"r1", "r2"}) granted(*sampling, miner("E", revision), 1, kStart);
  EXPECT_FALSE(sampling->grant(miner("P"), 1, kStart))
      << "there is no room for a key and its parent";
  granted(*sampling, miner("E", "r3"), 1, kStart);
  const Result<Grant> refused = sampling->grant(miner("E", "r4"), 1, kStart);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(granted(*sampling, miner("E", "r1"), 6, kStart).granted, 5) << "it has its place";
  EXPECT_EQ(granted(*sampling, miner("E", "r4"), 1, kStart + 1h).granted, 1);
}

TEST(Sampling, KeepsAMillionKeysOfSixAndTheirReservationsWithin128BytesEach) {
  constexpr std::size_t kKeys = 1'000'000;
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  for (std::size_t i = 0; i < kKeys; ++i) {
    const std::string hotkey = std::to_string(i);
    ASSERT_EQ(granted(*sampling, {hotkey, "r1", "E", 7}, 6, kStart).granted, 6);
  }
  const Reading reading = sampling->reading();
  EXPECT_EQ(reading.keys, kKeys);
  EXPECT_EQ(reading.reservations, kReservationsKept);
  EXPECT_LE(reading.bytes, kKeys * 128);
}

}  // namespace
}  // namespace weir::system::sampling
