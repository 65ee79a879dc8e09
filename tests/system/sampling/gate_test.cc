#include "weir/system/sampling/gate.h"

#include "tests/support/on_stack.h"
#include "tests/system/sampling/support.h"
#include "weir/engine/engine.h"

namespace weir::system::sampling {
namespace {

using engine::Attribute;

// Ready as often as it is told, and then failing.
class FailingJournal final : public MemoryJournal {
 public:
  Status ready() const override {
    if (ready_times == 0) return Error{ErrorCode::kUnavailable, "the disk is full"};
    ready_times -= 1;
    return Done{};
  }
  mutable int ready_times = 1'000'000;
};

struct SamplingGateTest : ::testing::Test {
  SamplingGateTest() { use(spec_of({six_an_hour()})); }

  void use(RulesSpec spec, Options options = {}) {
    sampling = sampling_of(std::move(spec), options);
    auto rules = engine::compile(
        {.limits = {{.name = "sampling", .meter = std::make_shared<SamplingGate>(sampling)}},
         .attributes = {"hotkey", "revision", "environment", "uid", "client"}});
    engine = std::move(*engine::Engine::create(*rules));
  }

  static std::vector<Attribute> asker(std::string_view uid = "7") {
    return {{"hotkey", "5F3s"}, {"revision", "r1"}, {"environment", "E"}, {"uid", uid}};
  }
  Decision acquire(const std::vector<Attribute>& who, std::int64_t want, Instant now = kStart,
                   Duration hold = {}) {
    const engine::Cost cost[] = {{"requests", want}};
    auto decision = engine::acquire(*engine, {who, cost}, {.hold = hold, .up_to = "requests"}, now);
    EXPECT_TRUE(decision.ok()) << (decision ? "" : decision.error().message);
    return *decision;
  }
  Verdict decide(const std::vector<Attribute>& who, Instant now = kStart) {
    return engine->decide({.attributes = who}, now)->verdict;
  }

  std::int64_t count(Instant now = kStart) const { return sampling->peek(miner(), 0, now)->count; }

  std::shared_ptr<Sampling> sampling;
  std::unique_ptr<engine::Engine> engine;
};

TEST_F(SamplingGateTest, GrantsUpToWhatIsWantedTogetherWithOtherCallers) {
  granted(*sampling, miner(), 2, kStart);
  const Decision some = acquire(asker(), 20);
  EXPECT_TRUE(some.allowed());
  EXPECT_EQ(some.granted, 4);
  const Decision none = acquire(asker(), 20, kStart + 1s);
  EXPECT_EQ(none.verdict, Verdict::kDenied);
  EXPECT_EQ(none.earliest, kStart + 1h);
  EXPECT_EQ(granted(*sampling, miner(), 1, kStart + 1s).granted, 0);
}

TEST_F(SamplingGateTest, TakesAPlainRequestForOneTask) {
  for (int i = 0; i < 6; ++i) EXPECT_EQ(decide(asker()), Verdict::kAllowed);
  EXPECT_EQ(decide(asker()), Verdict::kDenied);
  EXPECT_EQ(decide(asker("0")), Verdict::kAllowed);
}

TEST_F(SamplingGateTest, IsNoOpenDoorForSomebodyWhoSaysOnlyAPart) {
  const std::vector<Attribute> all = asker();
  for (std::size_t missing = 0; missing < all.size(); ++missing) {
    std::vector<Attribute> rest = all;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(missing));
    EXPECT_EQ(decide(rest), Verdict::kNever) << all[missing].name;
    EXPECT_EQ(acquire(rest, 5).granted, 0) << all[missing].name;
  }
  EXPECT_EQ(decide(asker("seven")), Verdict::kNever);
  EXPECT_EQ(decide(asker("")), Verdict::kNever);
  EXPECT_EQ(acquire(asker("7x"), 5).granted, 0);
}

TEST_F(SamplingGateTest, HoldsNobodyUpButTheWaitersOwnKey) {
  for (int i = 0; i < 6; ++i) ASSERT_EQ(decide(asker()), Verdict::kAllowed);
  const std::vector<Attribute> who = asker();
  const auto waits = engine::wait(*engine, {who}, {.deadline = kStart + 2h}, kStart,
                                  [](const Result<Decision>&) {});
  ASSERT_NE(waits->ticket, 0u);
  EXPECT_EQ(decide(asker("0")), Verdict::kAllowed);
  EXPECT_EQ(decide({{"hotkey", "other"}, {"revision", "r1"}, {"environment", "E"}, {"uid", "8"}}),
            Verdict::kAllowed);
  EXPECT_EQ(decide({{"client", "acme"}}), Verdict::kAllowed);
}

TEST_F(SamplingGateTest, LeavesOtherRequestsAlone) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(decide({{"client", "acme"}}), Verdict::kAllowed);
}

TEST_F(SamplingGateTest, IsReportedOnlyForARequestWithOneOfItsAttributes) {
  const Attribute client[] = {{"client", "acme"}};
  EXPECT_TRUE(engine->decide({.attributes = client}, kStart)->outcomes().empty());
  const std::vector<Attribute> all = asker();
  for (const Attribute& one : all) {
    const auto answer = engine->decide({.attributes = {&one, 1}}, kStart);
    EXPECT_NE(answer->outcome("sampling"), nullptr) << one.name;
  }
}

TEST_F(SamplingGateTest, NeverGrantsMoreThanTheAllowanceAtOnce) {
  const engine::Cost seven[] = {{"requests", 7}};
  const std::vector<Attribute> who = asker();
  EXPECT_EQ(engine->decide({.attributes = who, .costs = seven}, kStart)->verdict, Verdict::kNever);
}

TEST_F(SamplingGateTest, GivesBackWhatAHoldDidNotUse) {
  const Decision all = acquire(asker(), 6, kStart, 60s);
  ASSERT_TRUE(all.hold);
  const engine::Cost created[] = {{"requests", 4}};
  EXPECT_TRUE(engine::settle(*engine, all.hold, created, kStart + 1s).ok());
  const Decision two = acquire(asker(), 6, kStart + 1s, 60s);
  EXPECT_EQ(two.granted, 2);
  EXPECT_EQ(engine::cancel(*engine, two.hold, kStart + 2s), engine::HoldState::kCancelled);
  const Decision again = acquire(asker(), 6, kStart + 2s, 60s);
  EXPECT_EQ(again.granted, 2);
  engine->advance(kStart + 10min);  // the hold expires, and counts
  EXPECT_EQ(acquire(asker(), 6, kStart + 10min).granted, 0);
}

TEST_F(SamplingGateTest, CountsWhatAHoldCreatedBeyondWhatItWasGranted) {
  MemoryJournal journal;
  EnvironmentSpec environment = six_an_hour();
  environment.parent = ParentSpec{30};
  use(spec_of({environment}), {.journal = &journal});
  const Decision all = acquire(asker(), 6, kStart, 1h);
  const engine::Cost created[] = {{"requests", 20}};
  EXPECT_TRUE(engine::settle(*engine, all.hold, created, kStart + 1min).ok());
  Grant now = *sampling->peek(miner(), 0, kStart + 1min);
  EXPECT_EQ(now.count, 20);
  EXPECT_EQ(now.parent_count, 20);
  EXPECT_EQ(now.next_free, kStart + 1h + 1min) << "when enough of the 14 have left";
  EXPECT_EQ(count(kStart + 1h), 14);
  // The disk knows it too.
  const auto after = sampling_of(spec_of({environment}));
  for (const Record& record : journal.records) ASSERT_TRUE(after->restore(record, kStart + 2min));
  now = *after->peek(miner(), 0, kStart + 2min);
  EXPECT_EQ(now.count, 20);
  EXPECT_EQ(now.parent_count, 20);
  EXPECT_EQ(after->reading().reservations, 0u);
}

TEST_F(SamplingGateTest, CountsAnyNumberThatAHoldSaysItCreated) {
  const Decision all = acquire(asker(), 6, kStart, 1h);
  const engine::Cost created[] = {{"requests", kTermMax}};
  EXPECT_TRUE(engine::settle(*engine, all.hold, created, kStart).ok());
  EXPECT_GE(count(), kAllowanceMax);
  EXPECT_EQ(acquire(asker(), 1, kStart + 1h - 1ns).granted, 0);
  EXPECT_EQ(acquire(asker(), 6, kStart + 1h).granted, 6);
}

// Between the check and the charge of one decision the disk may fail.
TEST_F(SamplingGateTest, CountsAndWritesWhatItHasCheckedThoughTheJournalFailsMeanwhile) {
  for (const Duration hold : {Duration{}, Duration{60s}}) {
    FailingJournal journal;
    use(spec_of({six_an_hour()}), {.journal = &journal});
    // One by one, until all that is asked before the charge is told that it is ready.
    Decision said;
    said.verdict = Verdict::kDenied;
    for (int times = 0; !said.allowed() && times < 10; ++times) {
      EXPECT_EQ(count(), 0);
      EXPECT_TRUE(journal.records.empty());
      journal.ready_times = times;
      said = acquire(asker(), 4, kStart, hold);
    }
    ASSERT_TRUE(said.allowed());
    EXPECT_EQ(journal.ready_times, 0) << "nobody asks when it is charged";
    EXPECT_EQ(said.granted, 4);
    EXPECT_EQ(count(), 4);
    ASSERT_EQ(journal.records.size(), 1u);
    EXPECT_EQ(journal.records[0].units, 4);
    EXPECT_EQ(said.record, journal.records.size()) << "the answer waits for the record";
  }
}

TEST_F(SamplingGateTest, EndsAHoldThoughTheJournalFails) {
  FailingJournal journal;
  use(spec_of({six_an_hour()}), {.journal = &journal});
  const Decision all = acquire(asker(), 6, kStart, 60s);
  journal.ready_times = 0;
  engine::HoldAnswer ended;
  engine->cancel(all.hold, kStart, [&](const auto& answer) { ended = *answer; });
  EXPECT_EQ(ended.state, engine::HoldState::kCancelled);
  EXPECT_EQ(count(), 0);
  EXPECT_EQ(ended.record, journal.records.size()) << "the answer waits for the record";
  EXPECT_GT(ended.record, all.record);
}

TEST_F(SamplingGateTest, LetsNobodyElseWaitForARecord) {
  FailingJournal journal;
  use(spec_of({six_an_hour()}), {.journal = &journal});
  EXPECT_NE(acquire(asker(), 2).record, 0u);
  const Attribute other[] = {{"client", "acme"}};
  EXPECT_EQ(engine->decide({.attributes = other}, kStart)->record, 0u);
  const engine::Cost none[] = {{"requests", 0}};
  EXPECT_EQ(engine->decide({.attributes = asker(), .costs = none}, kStart)->record, 0u);
}

TEST_F(SamplingGateTest, CountsWhatItRefuses) {
  const auto refused = [&] { return sampling->reading().environments[0].refused; };
  EXPECT_EQ(acquire(asker(), 20).granted, 6);
  EXPECT_EQ(refused(), 14u);
  EXPECT_EQ(acquire(asker(), 20).granted, 0);
  EXPECT_EQ(refused(), 34u);
  EXPECT_EQ(decide(asker()), Verdict::kDenied);
  EXPECT_EQ(refused(), 35u);
  const std::vector<Attribute> who = asker();
  EXPECT_EQ(engine->peek({who}, kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(refused(), 35u) << "nobody meant it";
  EXPECT_EQ(sampling->reading().environments[0].granted, 6u);
}

TEST_F(SamplingGateTest, SaysTheMostThatCouldEverPass) {
  EnvironmentSpec environment = six_an_hour();
  environment.parent = ParentSpec{3};
  use(spec_of({environment}));
  const auto capacity = [&](std::string_view uid) {
    const std::vector<Attribute> who = asker(uid);
    return engine->peek({who}, kStart)->outcomes()[0].capacity;
  };
  EXPECT_EQ(capacity("7"), 3);
  EXPECT_EQ(capacity("0"), kWantMax);
  EXPECT_EQ(capacity("seven"), 0);
}

// Without anybody who sweeps: the engine may be embedded.
TEST_F(SamplingGateTest, FindsRoomAgainWhenKeysHaveLeft) {
  use(spec_of({six_an_hour()}), {.keys_max = 2});
  const auto asker_of = [](std::string_view revision) {
    return std::vector<Attribute>{
        {"hotkey", "5F3s"}, {"revision", revision}, {"environment", "E"}, {"uid", "7"}};
  };
  EXPECT_EQ(decide(asker_of("r1")), Verdict::kAllowed);
  EXPECT_EQ(decide(asker_of("r2")), Verdict::kAllowed);
  EXPECT_EQ(decide(asker_of("r3")), Verdict::kDenied);
  EXPECT_EQ(decide(asker_of("r1")), Verdict::kAllowed) << "it has its place";
  EXPECT_EQ(decide(asker_of("r3"), kStart + 1h), Verdict::kDenied) << "but that made room";
  EXPECT_EQ(decide(asker_of("r3"), kStart + 1h), Verdict::kAllowed);
}

}  // namespace
}  // namespace weir::system::sampling
