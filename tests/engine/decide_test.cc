#include <gtest/gtest.h>

#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1'800'000'000'000'000'000};

std::unique_ptr<Engine> engine_of(RuleSetSpec spec, EngineOptions options = {}) {
  auto rules = compile(spec);
  EXPECT_TRUE(rules) << rules.error().message;
  auto engine = Engine::create(*rules, options);
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

TEST(Engine, AdmitsABurstThenDeniesUntilATokenHasDripped) {
  auto engine = engine_of({.limits = {{.name = "per-client",
                                       .per = {"client"},
                                       .meter = BucketSpec{.amount = 3, .period = 1s}}}});
  const Attribute who[] = {{"client", "acme"}};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine->decide({who}, kStart)->allowed());
  const auto denied = engine->decide({who}, kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->binding()->limit, "per-client");
  EXPECT_EQ(denied->earliest, kStart + 333'333'334ns);
  EXPECT_FALSE(engine->decide({who}, kStart + 333'333'333ns)->allowed());
  EXPECT_TRUE(engine->decide({who}, kStart + 333'333'334ns)->allowed());
}

}  // namespace
}  // namespace weir::engine
