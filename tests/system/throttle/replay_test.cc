// The same random stream on engines built in different ways: at once, and restored from
// a snapshot at a random point, named and positional. Nodes that disagree would fork, so
// what they say and what they have stored must be byte for byte the same.

#include <random>

#include "tests/support/seed.h"
#include "tests/system/throttle/support.h"
#include "weir/system/throttle/snapshot.h"

namespace weir::system::throttle {
namespace {

constexpr std::string_view kDefinitions = R"({"buckets": [
  {"name": "A", "burstPeriodMs": 2000, "throttleGroups": [
    {"milliOpsPerSec": 12000, "operations": ["CryptoTransfer", "CryptoCreate", "TokenMint",
      "ContractCall", "EthereumTransaction", "TokenAssociateToAccount"]},
    {"milliOpsPerSec": 2500, "operations": ["FileCreate", "ContractCreate"]}]},
  {"name": "B", "burstPeriod": 3, "throttleGroups": [
    {"opsPerSec": 2, "operations": ["CryptoCreate"]},
    {"milliOpsPerSec": 500, "operations": ["TokenAssociateToAccount"]},
    {"opsPerSec": 1, "operations": ["FileCreate", "TokenMint"]}]},
  {"name": "HV", "burstPeriodMs": 1000, "highVolume": true, "throttleGroups": [
    {"milliOpsPerSec": 20000, "operations": ["CryptoCreate", "TokenMint", "CryptoTransfer"]}]}]})";

constexpr std::string_view kOperations[] = {
    "CryptoTransfer",      "CryptoCreate", "TokenMint",      "ContractCall",
    "EthereumTransaction", "FileCreate",   "ContractCreate", "nobody"};

struct Node {
  explicit Node(SetRole role)
      : set(definitions_of(kDefinitions), {.role = role,
                                           .clamp_clock = role == SetRole::kFrontEnd,
                                           .settings = {.throttle_by_gas = true,
                                                        .front_end_gas_per_second = 1'000'000,
                                                        .consensus_gas_per_second = 1'000'000}}),
        congestion(*parse_tiers("10,2x,50,5x"), 1) {}

  std::string state() const { return to_json(snapshot_of(set, &congestion)); }

  ThrottleSet set;
  Congestion congestion;
};

struct Step {
  Transaction transaction;
  Moment at;
};

std::vector<Step> random_stream(std::mt19937_64& random, const ThrottleSet& set) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  std::vector<Step> steps(500);
  Instant now = kStart;
  for (Step& step : steps) {
    now = now + Duration{below(2) == 0 ? below(5) : below(300'000'000)};
    step.at = moment_of(now);
    step.transaction = named(set, kOperations[below(std::size(kOperations))]);
    step.transaction.payer = below(10) == 0 ? 50 : 1001;
    step.transaction.gas = below(400'000);
    step.transaction.bytes = below(20'000);
    step.transaction.nfts = static_cast<std::int32_t>(below(4));
    step.transaction.creations = static_cast<std::int32_t>(below(3));
    step.transaction.associations = static_cast<std::int32_t>(below(3));
    step.transaction.high_volume = below(3) == 0;
  }
  return steps;
}

std::string play(Node& node, std::span<const Step> steps) {
  std::string said;
  for (const Step& step : steps) {
    const auto answer = node.set.decide(step.transaction, step.at);
    said += !answer.ok() ? '!' : answer->allowed ? '+' : '-';
    node.congestion.refresh(node.set, step.at);
    said += std::to_string(node.congestion.generic().multiplier());
  }
  return said;
}

class Replay : public ::testing::TestWithParam<SetRole> {};

TEST_P(Replay, IsTheSameByteForByteFromASnapshotAtAnyPoint) {
  const std::uint64_t chosen = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(chosen));
  std::mt19937_64 random(chosen);
  for (int round = 0; round < 20; ++round) {
    Node whole(GetParam());
    const std::vector<Step> steps = random_stream(random, whole.set);
    const std::string said = play(whole, steps);
    EXPECT_NE(said.find('+'), std::string::npos);
    EXPECT_NE(said.find('-'), std::string::npos);

    const std::size_t cut = random() % steps.size();
    Node first(GetParam());
    std::string parts = play(first, std::span(steps).first(cut));
    Node second(GetParam());
    const auto snapshot = parse_snapshot(first.state());
    ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
    const auto restored = restore(*snapshot, second.set, &second.congestion);
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    EXPECT_EQ(restored->restored, 3u);
    parts += play(second, std::span(steps).subspan(cut));
    EXPECT_EQ(parts, said);
    EXPECT_EQ(second.state(), whole.state());
  }
}

INSTANTIATE_TEST_SUITE_P(Roles, Replay, ::testing::Values(SetRole::kFrontEnd, SetRole::kConsensus));

TEST(Replay, IsTheSameFromThePublishedFormAtConsensus) {
  const std::uint64_t chosen = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(chosen));
  std::mt19937_64 random(chosen);
  Node whole(SetRole::kConsensus);
  const std::vector<Step> steps = random_stream(random, whole.set);
  const std::size_t cut = random() % steps.size();
  std::string parts = play(whole, std::span(steps).first(cut));
  Node other(SetRole::kConsensus);
  const auto snapshot =
      parse_positional_snapshot(to_json(positional_snapshot_of(whole.set, &whole.congestion)));
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
  ASSERT_EQ(restore(*snapshot, RestorePolicy::kFailFast, other.set, &other.congestion),
            Anomaly::kNone);
  EXPECT_EQ(play(whole, std::span(steps).subspan(cut)), play(other, std::span(steps).subspan(cut)));
  EXPECT_EQ(whole.state(), other.state());
}

}  // namespace
}  // namespace weir::system::throttle
