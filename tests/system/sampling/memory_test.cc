// What is left when memory runs out in the middle. This file replaces the global operator new,
// so it is a binary of its own.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <string>

#include "weir/system/sampling/logs.h"
#include "weir/system/sampling/sampling.h"

namespace {

std::int64_t allocations_left = -1;  // negative: any number

void* allocate(std::size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) allocations_left -= 1;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace weir::system::sampling {
namespace {

using namespace std::chrono_literals;
constexpr Instant kStart{1'800'000'000'000'000'000};

// So many allocations succeed, and then none.
template <typename Work>
bool without_memory(std::int64_t allocations, Work&& work) {
  allocations_left = allocations;
  bool is_done = false;
  try {
    is_done = work();
  } catch (const std::bad_alloc&) {
  }
  allocations_left = -1;
  return is_done;
}

engine::Print print(std::uint64_t number) { return {number * 0x9e37'79b9'7f4a'7c15, number}; }

TEST(SamplingMemory, KeepsAllKeysThatItHadWhenThereIsNoneForAnother) {
  Logs logs(1'000'000);
  std::array<meter::LogRun, meter::kRunsMax> ring{};
  for (std::size_t i = 0; i < ring.size(); ++i)
    ring[i] = {kStart + 1s * static_cast<std::int64_t>(i), 1};
  const auto state = [](std::uint16_t runs) { return meter::LogState{0, 0, runs, runs}; };
  std::array<meter::LogRun, meter::kRunsMax> read{};
  std::uint64_t kept = 0;
  int refused = 0;
  for (std::uint64_t i = 1; i < 20'000; ++i) {
    if (!without_memory(0, [&] { return logs.store(print(i), state(6), ring, 6); })) {
      refused += 1;
      EXPECT_EQ(logs.load(print(i), read).size, 0);
      logs.sweep(1h, kStart, logs.blocks());  // which looks at the block that was made for it
      // One for a chunk, and none for the index; then enough for both.
      if (!without_memory(1, [&] { return logs.store(print(i), state(6), ring, 6); })) {
        logs.sweep(1h, kStart, logs.blocks());
        ASSERT_TRUE(logs.store(print(i), state(6), ring, 6));
      }
    }
    kept += 1;
    ASSERT_EQ(logs.keys(), kept);
  }
  EXPECT_GT(refused, 5) << "chunks and indices were needed";
  // Those that grow have what they had if they cannot.
  int short_of = 0;
  for (std::uint64_t i = 1; i < 20'000; ++i) {
    const bool grew = without_memory(0, [&] { return logs.store(print(i), state(16), ring, 6); });
    short_of += grew ? 0 : 1;
    ASSERT_EQ(logs.load(print(i), read).size, grew ? 16 : 6) << i;
    const bool has_grown = grew || logs.store(print(i), state(16), ring, 6);
    ASSERT_TRUE(has_grown);
  }
  EXPECT_GT(short_of, 5);
  logs.sweep(1h, kStart + 2h, logs.blocks());
  EXPECT_EQ(logs.keys(), 0u);
}

TEST(SamplingMemory, GrantsNothingThatIsNotCounted) {
  auto rules = make_rules({.environments = {{.name = "E",
                                             .rotation_count_micro = 0,
                                             .sampling_count_micro = 48 * 6 * kMicro,
                                             .parent = ParentSpec{}}}});
  ASSERT_TRUE(rules);
  const auto sampling = Sampling::create(std::move(*rules), {.secret = {1, 2, 3, 4}});
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    const std::string hotkey = std::to_string(i);
    const Who who{hotkey, "r1", "E", 7};
    std::int64_t granted = 0;
    without_memory(i % 3, [&] {
      const Result<Grant> grant = sampling->grant(who, 4, kStart);
      if (grant) granted = grant->granted;
      return grant.ok();
    });
    refused += granted == 0 ? 1 : 0;
    const Result<Grant> rest = sampling->grant(who, 6, kStart);
    ASSERT_TRUE(rest);
    ASSERT_LE(granted + rest->granted, 6) << i;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace weir::system::sampling
