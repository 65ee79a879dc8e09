#include "weir/system/sampling/gate.h"

#include "tests/system/sampling/support.h"
#include "weir/engine/engine.h"

namespace weir::system::sampling {
namespace {

using engine::Attribute;

struct SamplingGateTest : ::testing::Test {
  SamplingGateTest() {
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
    auto decision = engine->acquire({who, cost}, {.hold = hold, .up_to = "requests"}, now);
    EXPECT_TRUE(decision.ok()) << (decision ? "" : decision.error().message);
    return *decision;
  }
  Verdict decide(const std::vector<Attribute>& who, Instant now = kStart) {
    return engine->decide({who}, now)->verdict;
  }

  std::shared_ptr<Sampling> sampling = sampling_of(spec_of({six_an_hour()}));
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
  const auto waits =
      engine->wait({who}, {.deadline = kStart + 2h}, kStart, [](const Result<Decision>&) {});
  ASSERT_NE(waits->ticket, 0u);
  EXPECT_EQ(decide(asker("0")), Verdict::kAllowed);
  EXPECT_EQ(decide({{"hotkey", "other"}, {"revision", "r1"}, {"environment", "E"}, {"uid", "8"}}),
            Verdict::kAllowed);
  EXPECT_EQ(decide({{"client", "acme"}}), Verdict::kAllowed);
}

TEST_F(SamplingGateTest, LeavesOtherRequestsAlone) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(decide({{"client", "acme"}}), Verdict::kAllowed);
}

TEST_F(SamplingGateTest, NeverGrantsMoreThanTheAllowanceAtOnce) {
  const engine::Cost seven[] = {{"requests", 7}};
  const std::vector<Attribute> who = asker();
  EXPECT_EQ(engine->decide({who, seven}, kStart)->verdict, Verdict::kNever);
}

TEST_F(SamplingGateTest, GivesBackWhatAHoldDidNotUse) {
  const Decision all = acquire(asker(), 6, kStart, 60s);
  ASSERT_TRUE(all.hold);
  const engine::Cost created[] = {{"requests", 4}};
  EXPECT_TRUE(engine->settle(all.hold, created, kStart + 1s).ok());
  const Decision two = acquire(asker(), 6, kStart + 1s, 60s);
  EXPECT_EQ(two.granted, 2);
  EXPECT_EQ(engine->cancel(two.hold, kStart + 2s), engine::HoldState::kCancelled);
  const Decision again = acquire(asker(), 6, kStart + 2s, 60s);
  EXPECT_EQ(again.granted, 2);
  engine->advance(kStart + 10min);  // the hold expires, and counts
  EXPECT_EQ(acquire(asker(), 6, kStart + 10min).granted, 0);
}

}  // namespace
}  // namespace weir::system::sampling
