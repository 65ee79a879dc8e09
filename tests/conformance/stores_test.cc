// A limit means the same in memory and in Redis: the same requests at the same instants, on the
// grid of microseconds, are decided by both, and compared decision by decision.
//
// Instants are drawn at random, and aimed: after a refusal a request often comes exactly when it
// was told to, or a microsecond earlier; while a hold stands, exactly when it ends.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/store/redis/shared/support.h"
#include "tests/support/seed.h"
#include "weir/store/redis/shared/meter.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::LimitSpec;
using engine::MeterSpec;

constexpr int kSteps = 120;

// Meters, by their place in meter().
enum class Kind : std::uint8_t { kBucket, kTicker, kWindow, kCalendar, kLog, kSlots };
constexpr std::int64_t kKinds = 6;

// What a scenario is about.
struct Subject {
  std::string name;
  std::optional<Kind> kind{};  // nothing: any, mixed
  std::int64_t limits_least = 1;
  std::int64_t limits_most = 1;
  bool has_holds = true;
  bool stays_whole = true;  // every limit is shared
  std::uint64_t scenarios = 25;
};

class Scenario {
 public:
  Scenario(std::uint64_t seed, const Subject& subject) : random_(seed), subject_(subject) {}

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + draw(0, static_cast<std::int64_t>(values.size()) - 1));
  }
  Duration micros(std::int64_t least, std::int64_t most) {
    return std::chrono::microseconds{draw(least, most)};
  }

  MeterSpec meter() {
    switch (subject_.kind ? *subject_.kind : static_cast<Kind>(draw(0, kKinds - 1))) {
      case Kind::kBucket:
        return engine::BucketSpec{one_of<std::int64_t>({1, 3, 7, 100, 997, 1'000'003, 123'456'789}),
                                  one_of<Duration>({1ms, 1s, 10s, Duration{1'234'567}, 1h, 744h}),
                                  one_of<std::int64_t>({1, 2, 5, 10, 1000})};
      case Kind::kTicker: {
        const std::int64_t per_tick = draw(1, 3);
        return engine::TickerSpec{per_tick, micros(1, 2'000'000), per_tick * draw(1, 5),
                                  one_of({meter::TickerStart::kFull, meter::TickerStart::kEmpty})};
      }
      case Kind::kWindow:
        return engine::WindowSpec{draw(0, 8), micros(1, 3'000'000)};
      case Kind::kCalendar:
        return engine::CalendarSpec{
            draw(1, 8), one_of({meter::CalendarUnit::kDay, meter::CalendarUnit::kWeek,
                                meter::CalendarUnit::kMonth, meter::CalendarUnit::kYear})};
      case Kind::kLog:
        return engine::LogSpec{one_of<std::int64_t>({0, 1, 3, 8, 2000}), micros(2000, 3'000'000)};
      case Kind::kSlots:
        break;
    }
    return engine::SlotsSpec{draw(1, 6), 0, micros(1, 2'000'000)};
  }

  engine::RuleSetSpec rules() {
    engine::RuleSetSpec spec{.units = {{"tokens"}}, .attributes = {"client"}};
    const std::int64_t count = draw(subject_.limits_least, subject_.limits_most);
    for (std::int64_t i = 0; i < count; ++i) {
      LimitSpec limit{.name = fmt::format("limit:{}", i), .meter = meter()};
      if (draw(0, 2) > 0) limit.per = {"client"};
      if (draw(0, 1) == 0) limit.unit = "tokens";
      if (draw(0, 7) == 0) limit.shadow = true;
      if (draw(0, 3) == 0) {
        limit.weigh = {"client", {{"a b", 2}}};
      }
      spec.limits.push_back(std::move(limit));
    }
    return spec;
  }

  Duration step() {
    switch (draw(0, 5)) {
      case 0:
        return Duration{0};
      case 1:
        return 1us;
      case 2:
        return micros(1, 1000);
      case 3:
        return micros(1, 400'000);
      case 4:
        return micros(1, 5'000'000);
      default:
        return draw(0, 9) == 0 ? 36h : 1s;
    }
  }

  const Subject& subject() const { return subject_; }

 private:
  std::mt19937_64 random_;
  const Subject& subject_;
};

// Where something is about to change: aimed at exactly, or from a microsecond before.
class Targets {
 public:
  void add(Instant at) {
    if (at == kForever) return;
    // The first instant on the grid that is not earlier.
    at_.push_back(Instant{(at.ns + kNsPerUs - 1) / kNsPerUs * kNsPerUs});
  }
  // How far the next one is, if it is ahead and to be aimed at.
  std::optional<Duration> next(Scenario& random, Instant now) {
    std::erase_if(at_, [&](Instant at) { return at - now <= 1us; });
    if (at_.empty() || random.draw(0, 2) == 0) return std::nullopt;
    const Instant at = *std::min_element(at_.begin(), at_.end());
    return at - now - (random.draw(0, 1) == 0 ? Duration{0} : Duration{1us});
  }

 private:
  std::vector<Instant> at_;
};

void expect_equal(const Result<Decision>& memory, const Result<Decision>& shared) {
  ASSERT_TRUE(memory) << memory.error().message;
  ASSERT_TRUE(shared) << shared.error().message;
  ASSERT_EQ(memory->verdict, shared->verdict)
      << to_string(memory->verdict) << ", but shared " << to_string(shared->verdict);
  ASSERT_EQ(memory->earliest, shared->earliest);
  ASSERT_EQ(memory->binding_index, shared->binding_index);
  ASSERT_EQ(memory->shortfall, shared->shortfall);
  ASSERT_EQ(memory->granted, shared->granted);
  ASSERT_EQ(static_cast<bool>(memory->hold), static_cast<bool>(shared->hold));
  ASSERT_EQ(memory->outcome_count, shared->outcome_count);
  for (std::size_t i = 0; i < memory->outcome_count; ++i) {
    const Outcome& a = memory->outcome_rows[i];
    const Outcome& b = shared->outcome_rows[i];
    SCOPED_TRACE(std::string(a.limit));
    ASSERT_EQ(a.limit, b.limit);
    ASSERT_EQ(a.verdict, b.verdict);
    ASSERT_EQ(a.shadow, b.shadow);
    ASSERT_EQ(a.cost, b.cost);
    ASSERT_EQ(a.remaining, b.remaining);
    ASSERT_EQ(a.capacity, b.capacity);
    ASSERT_EQ(a.earliest, b.earliest);
  }
}

void compare(Scenario& random, const std::string& url, const std::string& name) {
  engine::RuleSetSpec spec = random.rules();
  testing::ManualClock clock(kStart + random.micros(0, 100'000'000'000'000));
  // Some limits may stay in memory: a request is then decided in both.
  engine::RuleSetSpec split = spec;
  const bool all_shared = random.subject().stays_whole;
  for (LimitSpec& limit : split.limits) {
    if (all_shared || &limit == &split.limits.back() || random.draw(0, 1) == 0) {
      limit.shared = engine::SharedSpec{};
    }
  }
  // One that starts empty begins to fill when it is first asked, and the store is not where
  // memory refuses.
  for (engine::RuleSetSpec* rules : {&spec, &split}) {
    for (LimitSpec& limit : rules->limits) {
      auto* ticker = std::get_if<engine::TickerSpec>(&limit.meter);
      if (ticker != nullptr && !all_shared) ticker->start = meter::TickerStart::kFull;
    }
  }
  auto memory = std::move(*engine::Engine::create(compiled(spec)));
  SharedEngine shared(url, split, clock, {.name = name, .timeout = 30s});
  std::string kinds;
  for (const LimitSpec& limit : split.limits) {
    kinds += fmt::format(" {}{}", limit.meter.index(), limit.shared ? "s" : "");
  }
  SCOPED_TRACE(fmt::format("meters{}", kinds));
  Targets targets;
  std::vector<std::pair<HoldId, HoldId>> holds;
  for (int i = 0; i < kSteps; ++i) {
    SCOPED_TRACE(fmt::format("step {}", i));
    const std::optional<Duration> aimed = targets.next(random, clock.now());
    clock.advance(aimed ? *aimed : random.step());
    const engine::Attribute who[] = {{"client", random.one_of({"a b", "c"})}};
    const engine::Cost costs[] = {{"tokens", random.draw(0, 9) == 0 ? 50 : random.draw(0, 4)}};
    const engine::Request request{.attributes = who, .costs = costs};
    const std::int64_t what = random.draw(0, 9);
    if (what < 5 || holds.empty()) {
      engine::Wants options;
      if (random.subject().has_holds && random.draw(0, 2) == 0) {
        options.hold = random.micros(1, 3'000'000);
      }
      if (costs[0].amount > 0 && random.draw(0, 3) == 0) options.up_to = "tokens";
      const Result<Decision> a = engine::acquire(*memory, request, options, clock.now());
      const Result<Decision> b = shared.acquire(request, options);
      // Where a limit of this process refuses, the store is not asked.
      if (a && b && !all_shared && b->outcome_count != a->outcome_count) {
        ASSERT_FALSE(a->allowed());
        ASSERT_FALSE(b->allowed());
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(expect_equal(a, b));
      if (!a->allowed()) targets.add(a->earliest);
      if (a->hold) {
        targets.add(a->hold_expires);
        holds.emplace_back(a->hold, b->hold);
      }
      continue;
    }
    if (what < 6) {
      const Result<Decision> a = memory->peek(request, clock.now());
      const Result<Decision> b = shared.peek(request);
      if (all_shared) {
        ASSERT_NO_FATAL_FAILURE(expect_equal(a, b));
      }
      continue;
    }
    const auto [in_memory, in_redis] =
        holds[static_cast<std::size_t>(random.draw(0, std::ssize(holds) - 1))];
    Result<engine::HoldState> a = engine::HoldState::kGone;
    Result<engine::HoldState> b = engine::HoldState::kGone;
    if (what < 8) {
      const engine::Cost actual[] = {{"tokens", random.draw(0, 6)}};
      const std::size_t count = random.draw(0, 3) == 0 ? 0 : 1;
      a = engine::settle(*memory, in_memory, std::span(actual).first(count), clock.now());
      b = shared.settle(in_redis, std::span(actual).first(count));
    } else if (what < 9) {
      a = engine::cancel(*memory, in_memory, clock.now());
      b = shared.cancel(in_redis);
    } else {
      const Duration ttl = random.micros(1, 3'000'000);
      a = engine::renew(*memory, in_memory, ttl, clock.now());
      b = shared.renew(in_redis, ttl);
    }
    ASSERT_TRUE(a);
    ASSERT_TRUE(b) << b.error().message;
    ASSERT_EQ(*a, *b) << to_string(*a) << ", but shared " << to_string(*b);
  }
}

class Stores : public ::testing::TestWithParam<Subject> {};

TEST_P(Stores, DecideAlikeOnTheSameInstants) {
  testing::RedisServer redis;
  const std::uint64_t seed = seed_of_test();
  for (std::uint64_t i = 0; i < GetParam().scenarios; ++i) {
    SCOPED_TRACE(fmt::format("reproduce with WEIR_SEED={}", seed + i));
    Scenario random(seed + i, GetParam());
    compare(random, redis.url(), fmt::format("s{}", i));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllMeters, Stores,
    ::testing::Values(Subject{.name = "OneBucket", .kind = Kind::kBucket, .has_holds = false},
                      Subject{.name = "SomeBuckets",
                              .kind = Kind::kBucket,
                              .limits_least = 2,
                              .limits_most = 8,
                              .has_holds = false},
                      Subject{.name = "HeldBuckets", .kind = Kind::kBucket, .limits_most = 3},
                      Subject{.name = "Tickers", .kind = Kind::kTicker, .limits_most = 3},
                      Subject{.name = "Windows", .kind = Kind::kWindow, .limits_most = 3},
                      Subject{.name = "CalendarWindows", .kind = Kind::kCalendar, .limits_most = 3},
                      Subject{.name = "Logs", .kind = Kind::kLog, .limits_most = 3},
                      Subject{.name = "Slots", .kind = Kind::kSlots, .limits_most = 3},
                      Subject{.name = "Mixed", .limits_most = 8, .scenarios = 80},
                      Subject{.name = "MixedWithMemory",
                              .limits_least = 2,
                              .limits_most = 4,
                              .stays_whole = false,
                              .scenarios = 40}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weir::store::redis
