#include "weir/system/sampling/logs.h"

#include <map>
#include <random>

#include "tests/meter/property.h"
#include "tests/support/sanitizer.h"
#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

using meter::LogRun;
using meter::LogState;

engine::Print print(std::uint64_t number) {
  const engine::Secret secret{1, 2, 3, 4};
  return engine::print_for(engine::seed_for(secret, "test"),
                           engine::with_value(secret, {}, std::to_string(number)));
}

struct Scratch {
  std::array<LogRun, meter::kRunsMax> ring{};

  LogState with(std::size_t runs, Instant first, Duration step = 1s) {
    LogState state;
    for (std::size_t i = 0; i < runs; ++i) {
      ring[i] = {first + step * static_cast<std::int64_t>(i), 1};
      state.held += 1;
    }
    state.size = static_cast<std::uint16_t>(runs);
    return state;
  }
};

TEST(SamplingLogs, KeepAMillionKeysOfSixWithin128BytesEach) {
  constexpr std::size_t kKeys = kSanitized ? 300'000 : 1'000'000;  // the name is for all others
  Logs logs(kKeys);
  Scratch scratch;
  for (std::size_t runs : {1u, 3u, 6u}) {
    const LogState state = scratch.with(runs, kStart);
    for (std::size_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(logs.store(print(i), state, scratch.ring, 6));
    }
  }
  EXPECT_EQ(logs.keys(), kKeys);
  EXPECT_LE(logs.bytes(), kKeys * 128);
  EXPECT_FALSE(logs.store(print(kKeys), scratch.with(1, kStart), scratch.ring, 6));
  EXPECT_EQ(logs.load(print(123'456), scratch.ring).size, 6);
}

TEST(SamplingLogs, HoldAsManyRunsAsALogMayHave) {
  Logs logs(10);
  Scratch scratch;
  for (const std::size_t runs : {1u, 8u, 9u, 16u, 17u, 512u, 513u, 1024u}) {
    ASSERT_TRUE(logs.store(print(1), scratch.with(runs, kStart), scratch.ring, 5000));
    Scratch read;
    const LogState state = logs.load(print(1), read.ring);
    EXPECT_EQ(state.size, runs);
    EXPECT_EQ(state.held, static_cast<std::int64_t>(runs));
    EXPECT_EQ(read.ring[runs - 1].at, kStart + 1s * static_cast<std::int64_t>(runs - 1));
  }
}

TEST(SamplingLogs, UseTheMemoryOfKeysThatWereDropped) {
  Logs logs(1'000'000);
  Scratch scratch;
  Instant now = kStart;
  std::size_t bytes = 0;
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      ASSERT_TRUE(logs.store(print(round * 20'000 + i), scratch.with(1, now), scratch.ring, 6));
    }
    if (round == 0) bytes = logs.bytes();
    now = now + 1h;
    logs.sweep(1h, now, logs.blocks());
    EXPECT_EQ(logs.keys(), 0u);
  }
  EXPECT_EQ(logs.bytes(), bytes);
}

TEST(SamplingLogsProperty, RememberWhatAMapRemembers) {
  meter::for_all([] {
    Logs logs(1'000);
    std::map<std::uint64_t, std::pair<std::size_t, Instant>> model;
    Scratch scratch;
    Instant now = kStart;
    const std::int64_t steps = *meter::between(1, 300);
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto key = static_cast<std::uint64_t>(*meter::between(0, 30));
      const auto runs = static_cast<std::size_t>(*meter::between(0, 40));
      now = now + std::chrono::minutes{*meter::between(0, 3)};
      RC_ASSERT(logs.store(print(key), scratch.with(runs, now, 0s), scratch.ring,
                           *meter::between(1, 20)));
      model.erase(key);
      if (runs > 0) model.emplace(key, std::pair{runs, now});
      if (*meter::between(0, 9) == 0) {
        logs.sweep(1h, now, logs.blocks());
        std::erase_if(model, [&](const auto& each) { return each.second.second + 1h <= now; });
        RC_ASSERT(logs.keys() == model.size());
      }
    }
    for (const auto& [key, expected] : model) {
      const LogState state = logs.load(print(key), scratch.ring);
      RC_ASSERT(state.size == expected.first);
      RC_ASSERT(scratch.ring[0].at == expected.second);
    }
  });
}

}  // namespace
}  // namespace weir::system::sampling
