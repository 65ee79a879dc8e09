// `compute:` in weir.yaml.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/config/support.h"
#include "tests/support/temporary_directory.h"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
namespace compute = system::compute;

TEST(ComputeSection, IsLedgerAndWorkerInOneByDefault) {
  const Config config = config_of("compute: {}\nlimits: []\n");
  ASSERT_TRUE(config.compute && config.compute->ledger && config.compute->worker);
  EXPECT_EQ(config.compute->ledger->parameters, compute::Parameters{});
  EXPECT_EQ(config.compute->worker->admission, compute::WorkerSettings{});
  EXPECT_EQ(config.rules->find("compute")->gate_name, "compute");
  ASSERT_EQ(config.limits_spec.limits.size(), 1u);
  EXPECT_EQ(config.limits_spec.limits[0].name, "compute");
  EXPECT_EQ(config.limits_spec.units[0].name, "compute_units");
}

TEST(ComputeSection, IsOneOfTheTwoWhereOnlyThatIsWritten) {
  const Config ledger = config_of("compute: { ledger: {} }\nlimits: []\n");
  EXPECT_TRUE(ledger.compute->ledger.has_value());
  EXPECT_FALSE(ledger.compute->worker.has_value());
  EXPECT_TRUE(ledger.limits_spec.limits.empty());
  const Config worker =
      config_of("compute: { worker: { ledger: 'http://127.0.0.1:1' } }\nlimits: []\n");
  EXPECT_FALSE(worker.compute->ledger.has_value());
  EXPECT_TRUE(worker.compute->worker.has_value());
}

TEST(ComputeSection, ReadsEverySetting) {
  const Config config = config_of(R"(
compute:
  ledger: { min_lock: 0.5, supply: 1000, mana: 1000, block_time: 2s, max_lock: 90d, max_portals: 3,
            boost: { 0s: 10000, 1d: 11000 }, epoch: 10, first_epoch: 5, blocks: pushed, genesis: 7,
            genesis_time: 1700000000, remainder: drop, published_faults: true }
  worker: { name: w, running: 4, queue: 2, cluster_running: 3, cluster_queue: 1, burst: 2,
            burst_max: 9, burst_window: 1s, order: queue_first, queueing: first_in, refund: portal,
            query_time: 1m, overloaded_hint: 2s, mode: immediate, outage: keep, poll: 1s,
            max_age: 10m, service_time: 100ms }
limits: []
)");
  const compute::LedgerSettings& ledger = *config.compute->ledger;
  const compute::Parameters& parameters = ledger.parameters;
  EXPECT_EQ(parameters.min_lock, compute::kToken / 2);
  EXPECT_EQ(parameters.max_lock_s, 90 * compute::kDaySeconds);
  EXPECT_EQ(parameters.boost, (std::vector<compute::BoostStep>{{0, 10'000}, {86'400, 11'000}}));
  EXPECT_EQ(parameters.clock.length, 10);
  EXPECT_EQ(ledger.genesis_block, 7);
  EXPECT_EQ(ledger.genesis, Instant{1'700'000'000'000'000'000});
  EXPECT_EQ(parameters.remainder, compute::Remainder::kDrop);
  const ComputeWorkerSettings& worker = *config.compute->worker;
  EXPECT_EQ(worker.admission.burst, (compute::BurstRule{2, 9, std::chrono::seconds{1}}));
  EXPECT_EQ(worker.admission.order, compute::CheckOrder::kQueueFirst);
  EXPECT_EQ(worker.admission.queueing, compute::Queueing::kFirstIn);
  EXPECT_EQ(worker.feed.mode, compute::FeedMode::kImmediate);
  EXPECT_EQ(worker.feed.outage, compute::FeedOutage::kKeep);
  EXPECT_THAT(describe(config), HasSubstr("compute worker: w, 4 at once, 2 may wait, allocations "
                                          "from its own ledger\n"));
}

TEST(ComputeSection, MeansTheSameInAnyOrder) {
  const Config config = config_of(
      "compute: { ledger: {}, worker: { burst_max: 9, burst_window: 1s, burst: 2 } }\nlimits: "
      "[]\n");
  EXPECT_EQ(config.compute->worker->admission.burst,
            (compute::BurstRule{2, 9, std::chrono::seconds{1}}));
  const Config plain =
      config_of("compute: { ledger: {}, worker: { burst: 7, max_age: 1s } }\nlimits: []\n");
  EXPECT_EQ(plain.compute->worker->admission.burst, (compute::BurstRule{7, 7, {}}));
}

TEST(ComputeSection, SaysWhereMistakesAre) {
  const auto mistake = [](const std::string& section) {
    return parse("compute: " + section + "\nlimits: []\n", "weir.yaml").error().message;
  };
  EXPECT_THAT(mistake("{ worker: {} }"), HasSubstr("nowhere to get allocations from"));
  EXPECT_THAT(mistake("{ worker: { ledger: far } }"), HasSubstr("must be the address of a weir"));
  EXPECT_THAT(mistake("{ ledger: { block_time: 500ms } }"), HasSubstr("must be whole seconds"));
  EXPECT_THAT(mistake("{ ledger: { epoch: 1 } }"), HasSubstr("compute: ledger: epoch"));
  EXPECT_THAT(mistake("{ ledger: { min_lock: x } }"), HasSubstr("min_lock is 'x'"));
  EXPECT_THAT(mistake("{ ledger: { boost: { 60d: 12000 } } }"), HasSubstr("must begin at 0"));
  EXPECT_THAT(mistake("{ ledger: { mana: 1000000000000 } }"), HasSubstr("less than 2^62"));
  EXPECT_THAT(mistake("{ worker: { ledger: 'http://a', file: b } }"), HasSubstr("both given"));
  EXPECT_THAT(mistake("{ worker: { ledger: 'http://a', running: 2, cluster_running: 3 } }"),
              HasSubstr("cluster_running is 3"));
  EXPECT_THAT(mistake("{ worker: { ledger: 'http://a', poll: 30s, max_age: 10s } }"),
              HasSubstr("max_age is 10s, but allocations are fetched only every 30s"));
  const std::string longest(compute::kNameBytesMax, 'w');
  EXPECT_TRUE(
      parse("compute: { ledger: {}, worker: { name: " + longest + " } }\nlimits: []\n", "weir.yaml")
          .ok());
  EXPECT_THAT(mistake("{ ledger: {}, worker: { name: " + longest + "w } }"),
              HasSubstr("name has 129 bytes, but it must have 1 to 128"));
  for (const char* half : {"burst_max: 9", "burst_window: 1s"}) {
    EXPECT_THAT(mistake(std::string("{ ledger: {}, worker: { ") + half + " } }"),
                HasSubstr("burst_max and burst_window mean something only together"));
  }
  EXPECT_THAT(mistake("[]"), HasSubstr("compute"));
}

// --- a reload

struct ComputeReload : testing::Test {
  NextConfig next_of(const std::string& text, const Config& now) {
    const std::string path = directory / "weir.yaml";
    std::ofstream(path) << text;
    Result<NextConfig> next = load_next(path, now);
    EXPECT_TRUE(next.ok()) << next.error().message;
    return next ? std::move(*next) : NextConfig{};
  }

  TemporaryDirectory directory;
  const std::string limit = "limits: [ { name: a, window: { limit: 1, every: 1s } } ]\n";
  const Config running = config_of("compute: { ledger: {}, worker: { burst: 7 } }\n" + limit);
};

TEST_F(ComputeReload, KeepsWhatRunsAndSaysThatItTakesARestart) {
  const NextConfig next =
      next_of("compute: { ledger: {}, worker: { burst: 9 } }\n" + limit, running);
  EXPECT_EQ(next.config.compute, running.compute);
  EXPECT_THAT(next.restarts, testing::ElementsAre("compute"));
}

TEST_F(ComputeReload, KeepsTheLimitOfAWorkerThatTheFileLeavesOut) {
  const NextConfig next = next_of(limit, running);
  EXPECT_EQ(next.config.rules->find("compute")->gate_name, "compute");
  EXPECT_NE(next.config.rules->find("a"), nullptr);
  EXPECT_EQ(next.config.limits_spec.units[0].name, "compute_units");
}

TEST_F(ComputeReload, MakesNoLimitOfAWorkerThatDoesNotRun) {
  const Config without = config_of(limit);
  const NextConfig next = next_of("compute: {}\n" + limit, without);
  EXPECT_FALSE(next.config.compute.has_value());
  EXPECT_EQ(next.config.rules->find("compute"), nullptr);
  EXPECT_NE(next.config.rules->find("a"), nullptr);
}

TEST_F(ComputeReload, RefusesAnotherLimitOfThatNameWhileAWorkerRuns) {
  std::ofstream(directory / "weir.yaml")
      << "limits:\n  - { name: compute, window: { limit: 1, every: 1s } }\n";
  const Result<NextConfig> next = load_next(directory / "weir.yaml", running);
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.error().message, HasSubstr("limit 'compute'"));
}

TEST_F(ComputeReload, PlacesTheMistakesOfOtherLimitsAsEver) {
  std::ofstream(directory / "weir.yaml")
      << "compute: {}\nlimits:\n  - { name: a, parent: b, window: { limit: 1, every: 1s } }\n";
  const Result<NextConfig> next = load_next(directory / "weir.yaml", config_of(limit));
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.error().message, HasSubstr("weir.yaml:3:5: limit 'a'"));
}

}  // namespace
}  // namespace weir::config
